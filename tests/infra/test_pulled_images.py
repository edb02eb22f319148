"""Which of AWS's repositories the jobs of workloads pull their images from."""

from __future__ import annotations

from dataclasses import replace

from compilegate.account.roles import aws_repositories
from compilegate.workload import Arm, read_workload
from tests.infra.assembly import PROJECT
from tests.workload.settled import settled_arm


def arm(framework: str, version: str, **more: str) -> Arm:
    return settled_arm(
        compiler="training-compiler",
        batch_size=8,
        learning_rate=1e-3,
        training_compiler={"framework": framework, "version": version},
        **more,
    )


def test_each_repository_of_aws_is_named_once_in_the_account_of_the_region() -> None:
    workload = read_workload(PROJECT / "tests" / "pipelines" / "topics.toml")
    assert aws_repositories([workload], "us-east-1") == [], "arms in the project's images need none"
    arms = {
        "newest": arm("pytorch", "1.13.1", image="aws"),
        "older": arm("pytorch", "1.12.0", image="aws"),
        "other": arm("tensorflow", "2.11.0", image="aws"),
        "own": arm("pytorch", "1.13.1"),
    }
    declared = replace(workload, arms={**workload.arms, **arms})
    found = aws_repositories([declared, declared], "il-central-1")
    assert [(each.account, each.region, each.name) for each in found] == [
        ("780543022126", "il-central-1", "pytorch-trcomp-training"),
        ("780543022126", "il-central-1", "tensorflow-training"),
    ]
