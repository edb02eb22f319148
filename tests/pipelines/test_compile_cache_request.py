"""The compile cache in a training request: stable, one for each arm that compiles."""

from __future__ import annotations

from compilegate.pipelines.deployment import local_deployment
from compilegate.pipelines.requests.checkpoints import (
    checkpoint_members,
    compile_cache_environment,
)
from tests.workload.settled import TOPICS, workload_with

DEPLOYMENT = local_deployment({"training": "1111", "gate": "2222"})


def additions(arm: str, **cache: object) -> tuple[object, ...]:
    workload = workload_with(TOPICS, compile_cache=cache)
    declared = workload.arms[arm]
    return (
        checkpoint_members(DEPLOYMENT, workload, arm, declared, 7),
        compile_cache_environment(workload, declared),
        workload.kind.training_program(workload, arm, 7).hyperparameters.get(
            "compile_cache_megabytes"
        ),
    )


def test_an_arm_that_compiles_has_a_folder_that_no_execution_changes() -> None:
    members, environment, megabytes = additions("compiled", max_megabytes=7)
    assert members == {
        "CheckpointConfig": {
            "S3Uri": "s3://compilegate-local/compilegate/workloads/topics/checkpoints/compiled/"
            "shared/",
            "LocalPath": "/opt/ml/checkpoints",
        }
    }
    assert environment == {"COMPILEGATE_COMPILE_CACHE": "/opt/ml/checkpoints/compile-cache"}
    assert megabytes == "7"


def test_an_eager_arm_and_a_workload_that_wants_none_have_no_compile_cache() -> None:
    assert additions("baseline") == ({}, {}, None)
    assert additions("compiled", enabled=False) == ({}, {}, None)
