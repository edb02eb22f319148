"""What an account adds to each request: keys, networks, tags, retries, limits, spot."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compilegate.account.plan.jobs import PlanError, jobs_given
from compilegate.document.model import Definition
from compilegate.document.reading import read_definition
from compilegate.document.writing import compact
from compilegate.pipelines.compilation import compile_definition
from compilegate.pipelines.deployment import Deployment, Network, Sources, local_deployment
from compilegate.pipelines.requests.checks import InvalidRequestError
from compilegate.pipelines.requests.keys_network_tags import (
    training_network,
    volume_key_of,
)
from compilegate.workload import Workload, WorkloadError
from tests.workload.settled import workload_with

WORKLOAD = Path(__file__).parent / "topics.toml"
LOCAL = local_deployment({"training": "1111", "gate": "2222"})
KEY = "arn:aws:kms:us-east-1:000000000000:key/1234"
GUARDED = dataclasses.replace(
    LOCAL,
    kms_key=KEY,
    network=Network(subnets=["subnet-1", "subnet-2"], security_group_ids=["sg-1"], isolation=True),
    name_prefix="ours-",
)
SOURCES = Sources(
    training_archive="s3://bucket/aaaa.tgz",
    training_code="s3://bucket/aaaa.zip",
    gate_code="s3://bucket/bbbb.zip",
    experiment="s3://bucket/dddd.json",
    data="s3://bucket/data",
)
JOBS = ("Training", "Processing")
OTHER_DISKS = {"arms__compiled": {"instance_type": "ml.p3.2xlarge"}}
"""The baseline trains on ml.g5, which has disks of its own."""
TUNED = {
    "arms__compiled": {"spot": True},
    "compute": {
        "max_runtime_seconds": 3600,
        "processing_max_runtime_seconds": 600,
        "retry_attempts": 0,
        "capacity_wait_minutes": 0,
    },
}
"""What has a default, set: one workload for several tests, since compiling takes time."""


def workload(**changes: Any) -> Workload:
    return workload_with(WORKLOAD, **changes)


_COMPILED: dict[tuple[str, bool], str] = {}


def compiled(declared: Workload, *, guarded: bool) -> str:
    key = (repr(declared), guarded)
    if key not in _COMPILED:
        deployment = GUARDED if guarded else LOCAL
        _COMPILED[key] = compile_definition(declared, deployment, SOURCES)
    return _COMPILED[key]


def definition_of(declared: Workload, *, guarded: bool) -> Definition:
    definition, faults = read_definition(compiled(declared, guarded=guarded))
    assert not faults
    return definition


def steps_of(declared: Workload, *, guarded: bool = False) -> dict[str, dict[str, Any]]:
    def below(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for step in steps:
            yield step
            if step["Type"] == "Condition":
                yield from below([*step["Arguments"]["IfSteps"], *step["Arguments"]["ElseSteps"]])

    definition = json.loads(compiled(declared, guarded=guarded))
    return {step["Name"]: step for step in below(definition["Steps"])}


def jobs_of(declared: Workload, *, guarded: bool = False) -> dict[str, dict[str, Any]]:
    steps = steps_of(declared, guarded=guarded)
    return {name: step for name, step in steps.items() if step["Type"] in JOBS}


def test_the_account_s_key_encrypts_volumes_and_outputs() -> None:
    jobs = jobs_of(workload(**OTHER_DISKS), guarded=True)
    training = jobs["Train-compiled-7"]["Arguments"]
    assert training["OutputDataConfig"]["KmsKeyId"] == KEY
    assert training["ResourceConfig"]["VolumeKmsKeyId"] == KEY
    gate = jobs["Gate"]["Arguments"]
    assert gate["ProcessingOutputConfig"]["KmsKeyId"] == KEY
    assert gate["ProcessingResources"]["ClusterConfig"]["VolumeKmsKeyId"] == KEY


@pytest.mark.parametrize("declared", ["ml.g5.xlarge", "ml.p3.2xlarge"])
@pytest.mark.parametrize("guarded", [True, False])
def test_an_execution_on_instances_of_the_other_kind_is_refused_where_there_is_a_key(
    declared: str, guarded: bool
) -> None:
    """With local disks the service refuses the key; without them the volume would lack it."""
    definition = definition_of(workload(compute={"instance_type": declared}), guarded=guarded)
    alike = {"ml.g5.xlarge": "ml.g4dn.xlarge", "ml.p3.2xlarge": "ml.m5.xlarge"}
    for given in (declared, *alike.values()):
        if guarded and given not in {declared, alike[declared]}:
            with pytest.raises(PlanError, match=f"TrainingInstanceType is {given}, expected"):
                jobs_given(definition, {"TrainingInstanceType": given})
        else:
            assert jobs_given(definition, {"TrainingInstanceType": given})


def test_a_schedule_with_instances_of_the_other_kind_is_refused() -> None:
    given = {"TrainingInstanceType": "ml.p3.2xlarge"}
    scheduled = workload(schedule={"expression": "rate(7 days)", "parameters": given})
    with pytest.raises(
        InvalidRequestError, match=r"schedule\.parameters\.TrainingInstanceType is ml\.p3"
    ):
        compile_definition(scheduled, GUARDED, SOURCES)


def test_no_key_is_named_for_disks_that_the_instance_has_itself() -> None:
    """The service refuses such a request; those disks are encrypted anyway."""
    request = jobs_of(workload(**OTHER_DISKS), guarded=True)["Train-baseline-7"]["Arguments"]
    assert "VolumeKmsKeyId" not in request["ResourceConfig"]


@pytest.mark.parametrize(
    ("instance_type", "local"),
    [
        ("ml.g5.xlarge", True),
        ("ml.g4dn.xlarge", True),
        ("ml.g6e.xlarge", True),
        ("ml.p3dn.24xlarge", True),
        ("ml.p4d.24xlarge", True),
        ("ml.p5en.48xlarge", True),
        ("ml.trn1.2xlarge", True),
        ("ml.c6id.xlarge", True),
        ("ml.g7e.2xlarge", True),
        ("ml.p6-b200.48xlarge", True),
        ("ml.m7i-flex.large", False),
        ("ml.p3.2xlarge", False),
        ("ml.m5.xlarge", False),
        ("ml.c5n.xlarge", False),
        ("ml.g5g.xlarge", False),
        ("ml.inf2.xlarge", False),
    ],
)
def test_which_instances_have_disks_of_their_own(instance_type: str, local: bool) -> None:
    assert volume_key_of(instance_type, KEY) == (None if local else KEY)
    assert volume_key_of(instance_type, None) is None


def test_jobs_that_call_no_service_reach_none_in_any_network() -> None:
    jobs = jobs_of(workload())
    isolated = {
        name
        for name, step in jobs.items()
        if step["Arguments"].get("NetworkConfig", {}).get("EnableNetworkIsolation")
    }
    called = {name for name, step in jobs.items() if step["Type"] == "Training"} | {"Prepare"}
    assert isolated == jobs.keys() - called


def test_what_several_instances_send_each_other_is_encrypted() -> None:
    """Whole requests with it: tests/mission/golden/requests/pytorch-distributed.json."""
    encrypted = {"EnableInterContainerTrafficEncryption": True}
    assert [training_network(LOCAL, instances) for instances in (1, 2)] == [{}, encrypted]


def test_every_job_runs_in_the_account_s_network() -> None:
    vpc = {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1", "subnet-2"]}
    jobs = jobs_of(workload(**OTHER_DISKS), guarded=True)
    assert {"Gate", "Prepare", "Train-baseline-7"} <= jobs.keys()
    for step in jobs.values():
        request = step["Arguments"]
        members = request if step["Type"] == "Training" else request["NetworkConfig"]
        assert members["VpcConfig"] == vpc
        assert members["EnableNetworkIsolation"] is True


def test_in_isolation_the_service_brings_the_training_code() -> None:
    """The toolkit would download it, and reaches nothing."""
    request = jobs_of(workload(**OTHER_DISKS), guarded=True)["Train-baseline-7"]["Arguments"]
    archive = json.loads(request["HyperParameters"]["sagemaker_submit_directory"])
    assert archive == "/opt/ml/input/data/code/aaaa.tgz"
    code = request["InputDataConfig"][-1]
    assert code["ChannelName"] == "code"
    assert code["DataSource"]["S3DataSource"]["S3Uri"] == SOURCES.training_archive


def test_a_model_that_isolated_jobs_cannot_fetch_is_refused() -> None:
    no_layout = dict.fromkeys(tomllib.loads(WORKLOAD.read_text(encoding="utf-8"))["model"])
    fetched = workload(model={**no_layout, "source": "hub", "id": "bert-base"})
    with pytest.raises(
        InvalidRequestError, match=r"model\.id is 'bert-base', which jobs in network"
    ):
        compile_definition(fetched, GUARDED, SOURCES)
    in_image = workload(model={**no_layout, "source": "hub", "id": "/models/bert"})
    assert compile_definition(in_image, GUARDED, SOURCES)


def test_subnets_need_security_groups() -> None:
    with pytest.raises(ValueError, match="1 subnets and 0 security groups, allowed"):
        Network(subnets=["subnet-1"])


def test_more_tags_than_the_service_takes_are_refused() -> None:
    many = dataclasses.replace(LOCAL, tags={f"team-{number}": "x" for number in range(47)})
    with pytest.raises(InvalidRequestError, match="Tags"):
        compile_definition(workload(), many, SOURCES)


def test_names_carry_the_deployment_s_prefix() -> None:
    assert GUARDED.pipeline_name(workload()) == "ours-topics"
    package = steps_of(workload(**OTHER_DISKS), guarded=True)["Register-compiled"]["Arguments"]
    assert package["ModelPackageGroupName"] == "ours-news"


def test_the_bill_of_every_job_can_be_split() -> None:
    def tags(step: dict[str, Any]) -> dict[str, str]:
        return {tag["Key"]: tag["Value"] for tag in step["Arguments"]["Tags"]}

    jobs = jobs_of(workload())
    assert all(tags(step)["compilegate:workload"] == "topics" for step in jobs.values())
    assert {name: tags(step)["compiler"] for name, step in jobs.items()} == {
        "Prepare": "false",
        "Train-baseline-7": "false",
        "Train-compiled-7": "true",
        "Train-baseline-8": "false",
        "Train-compiled-8": "true",
        "Open-registered": "false",
        "Gate": "false",
        "Package-compiled": "false",
        "Keep-compiled": "false",
        "Package-baseline": "false",
        "Keep-baseline": "false",
    }
    ours = dataclasses.replace(LOCAL, tags={"cost-centre": "7", "compiler": "no"})
    definition = json.loads(compile_definition(workload(), ours, SOURCES))
    tagged = [step for step in definition["Steps"] if step["Type"] in JOBS]
    assert {tags(step)["cost-centre"] for step in tagged} == {"7"}
    assert {tags(step)["compiler"] for step in tagged} == {"true", "false"}, "ours"
    compiled_tags = tags(jobs["Train-compiled-8"])
    assert compiled_tags["compilegate:arm"] == "compiled"
    assert compiled_tags["compilegate:compiler"] == "inductor"
    assert tags(jobs["Gate"])["compilegate:arm"] == "none"


def test_training_and_processing_have_roles_of_their_own() -> None:
    roles = {
        step["Type"]: step["Arguments"]["RoleArn"].rpartition("-")[2]
        for step in jobs_of(workload()).values()
    }
    assert roles == {"Processing": "processing", "Training": "training"}


def test_throttling_faults_and_missing_capacity_are_tried_again_by_every_job() -> None:
    jobs = jobs_of(workload())
    assert {"Gate", "Prepare", "Train-baseline-7"} <= jobs.keys()
    for step in jobs.values():
        assert step["RetryPolicies"] == [
            {
                "BackoffRate": 2.0,
                "IntervalSeconds": 10,
                "MaxAttempts": 5,
                "ExceptionType": ["Step.THROTTLING", "Step.SERVICE_FAULT"],
            },
            {
                "BackoffRate": 2.0,
                "IntervalSeconds": 60,
                "MaxAttempts": 2,
                "ExceptionType": ["SageMaker.JOB_INTERNAL_ERROR"],
            },
            {
                "BackoffRate": 1.0,
                "IntervalSeconds": 60,
                "ExpireAfterMin": 10,
                "ExceptionType": ["SageMaker.RESOURCE_LIMIT"],
            },
            {
                "BackoffRate": 1.5,
                "IntervalSeconds": 300,
                "ExpireAfterMin": 240,
                "ExceptionType": ["SageMaker.CAPACITY_ERROR"],
            },
        ]


def test_with_retrain_always_no_training_comes_from_the_cache() -> None:
    always = {"expression": "rate(7 days)", "retrain": "always"}
    jobs = jobs_of(workload(schedule=always))
    cached = {name for name, step in jobs.items() if "CacheConfig" in step}
    assert cached == {"Prepare", "Open-registered", "Package-compiled", "Package-baseline"}
    assert "CacheConfig" in jobs_of(workload())["Train-baseline-7"]


def test_retries_can_be_turned_off() -> None:
    jobs = jobs_of(workload(**TUNED))
    assert {"RetryPolicies" in step for step in jobs.values()} == {False}


def test_every_job_has_a_longest_runtime() -> None:
    jobs = jobs_of(workload(**TUNED))
    assert jobs["Prepare"]["Arguments"]["StoppingCondition"] == {"MaxRuntimeInSeconds": 600}
    assert jobs["Gate"]["Arguments"]["StoppingCondition"] == {"MaxRuntimeInSeconds": 600}
    assert jobs["Train-baseline-7"]["Arguments"]["StoppingCondition"] == {
        "MaxRuntimeInSeconds": {"Get": "Parameters.MaxRuntimeInSeconds"}
    }


def test_a_spot_arm_waits_and_keeps_checkpoints_and_the_others_do_not() -> None:
    jobs = jobs_of(workload(**TUNED))
    spot = jobs["Train-compiled-8"]["Arguments"]
    assert spot["EnableManagedSpotTraining"] is True
    assert spot["StoppingCondition"]["MaxWaitTimeInSeconds"] == 7200
    assert spot["CheckpointConfig"] == {
        "S3Uri": LOCAL.uri("workloads", "topics", "checkpoints", "compiled", "seed-8") + "/",
        "LocalPath": "/opt/ml/checkpoints",
    }
    assert spot["Environment"]["COMPILEGATE_CHECKPOINTS"] == "/opt/ml/checkpoints/checkpoints"
    other = jobs["Train-baseline-8"]["Arguments"]
    assert not {"EnableManagedSpotTraining", "CheckpointConfig"} & other.keys()
    assert "MaxWaitTimeInSeconds" not in other["StoppingCondition"]


def test_the_checkpoints_of_a_spot_arm_leave_the_step_cache_alone() -> None:
    """CheckpointConfig is part of its key: nothing in it may change between executions."""
    for place in checkpoint_places(workload(**TUNED)):
        assert isinstance(place, str)


def test_jobs_that_run_at_once_keep_their_checkpoints_apart() -> None:
    """SageMaker reads the URI as a prefix, stores what it fetched, and deletes what was deleted."""
    declared = workload(**TUNED, seeds=[7, 70, 8])
    places = checkpoint_places(declared)
    assert len(places) == 3
    for place in places:
        assert [each for each in places if each.startswith(place)] == [place]


def checkpoint_places(declared: Workload) -> list[Any]:
    requests = [step["Arguments"] for step in jobs_of(declared).values()]
    return [each["CheckpointConfig"]["S3Uri"] for each in requests if "CheckpointConfig" in each]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"arms__compiled": {"max_wait_seconds": 100}},
            "arms.compiled.max_wait_seconds is 100, expected spot = true beside it",
        ),
        (
            {"arms__compiled": {"spot": True, "max_wait_seconds": 100}},
            "arms.compiled.max_wait_seconds is 100, expected compute.max_runtime_seconds (86400) "
            "or more, since the wait includes the run",
        ),
    ],
)
def test_a_wait_that_cannot_be_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(WorkloadError, match=re.escape(sentence)):
        workload(**changes)


def test_the_compact_form_is_the_same_definition_and_smaller() -> None:
    whole = compiled(workload(), guarded=False)
    assert json.loads(compact(whole)) == json.loads(whole)
    assert len(compact(whole)) < 0.7 * len(whole)


def test_the_deployment_of_this_machine_has_no_prefix() -> None:
    assert isinstance(LOCAL, Deployment)
    assert LOCAL.pipeline_name(workload()) == "topics"
