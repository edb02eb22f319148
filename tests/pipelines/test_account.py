"""What an account adds to each request: keys, networks, tags, retries, limits, spot."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from typing import Any

import pytest

from compilegate.account.plan.jobs import PlanError, jobs_given
from compilegate.document.reading import read_definition
from compilegate.pipelines.compilation import InvalidRequestError
from compilegate.pipelines.deployment import Network
from compilegate.pipelines.requests import volume_key_of
from compilegate.workload import WorkloadError
from tests.pipelines.definitions import (
    LOCAL,
    TOPICS,
    Steps,
    compiled,
    requests_of,
    sources,
    steps_of,
    workload,
)

KEY = "arn:aws:kms:us-east-1:000000000000:key/1234"
GUARDED = replace(
    LOCAL,
    kms_key=KEY,
    network=Network(subnets=["subnet-1", "subnet-2"], security_group_ids=["sg-1"], isolation=True),
    name_prefix="ours-",
)
OTHER_DISKS = workload(arms__compiled={"instance_type": "ml.p3.2xlarge"})
"""The baseline trains on ml.g5, which has disks of its own."""
LIMITED = workload(
    arms__compiled={"spot": True},
    compute={
        "max_runtime_seconds": 3600,
        "processing_max_runtime_seconds": 600,
        "retry_attempts": 0,
        "capacity_wait_minutes": 0,
    },
    seeds=[7, 70, 8],
)
NEURON = {"compiler": "neuron", "batch_size": 8, "learning_rate": 1e-3}
NO_LAYOUT = dict.fromkeys(tomllib.loads(TOPICS.read_text(encoding="utf-8"))["model"])


def jobs_of(*arguments: Any) -> Steps:
    steps = steps_of(*arguments)
    return {
        name: each for name, each in steps.items() if each["Type"] in {"Training", "Processing"}
    }


def test_no_key_is_named_for_disks_that_the_instance_has_itself() -> None:
    """The service refuses such a request. Whole requests with a key: tests/mission/golden."""
    requests = requests_of(OTHER_DISKS, GUARDED)
    resources = [requests[f"Train-{arm}-7"]["ResourceConfig"] for arm in ("compiled", "baseline")]
    assert [each.get("VolumeKmsKeyId") for each in resources] == [KEY, None]


@pytest.mark.parametrize("declared", ["ml.g5.xlarge", "ml.p3.2xlarge"])
@pytest.mark.parametrize("guarded", [True, False])
def test_an_execution_on_instances_of_the_other_kind_is_refused_where_there_is_a_key(
    declared: str, guarded: bool
) -> None:
    """With local disks the service refuses the key; without them the volume would lack it."""
    text = compiled(workload(compute={"instance_type": declared}), GUARDED if guarded else LOCAL)
    definition, _ = read_definition(text)
    alike = {"ml.g5.xlarge": "ml.g4dn.xlarge", "ml.p3.2xlarge": "ml.m5.xlarge"}
    for given in (declared, *alike.values()):
        if guarded and given not in {declared, alike[declared]}:
            with pytest.raises(PlanError, match=f"TrainingInstanceType is {given}, expected"):
                jobs_given(definition, {"TrainingInstanceType": given})
        else:
            assert jobs_given(definition, {"TrainingInstanceType": given})


@pytest.mark.parametrize(
    ("instance_types", "local"),
    [
        ("ml.g5.xlarge ml.g4dn.xlarge ml.g6e.xlarge ml.p3dn.24xlarge ml.p4d.24xlarge", True),
        (
            "ml.p5en.48xlarge ml.trn1.2xlarge ml.c6id.xlarge ml.g7e.2xlarge ml.p6-b200.48xlarge",
            True,
        ),
        ("ml.m7i-flex.large ml.p3.2xlarge ml.m5.xlarge ml.c5n.xlarge ml.g5g.xlarge", False),
        ("ml.inf2.xlarge", False),
    ],
)
def test_which_instances_have_disks_of_their_own(instance_types: str, local: bool) -> None:
    for each in instance_types.split():
        assert volume_key_of(each, KEY) == (None if local else KEY)
        assert volume_key_of(each, None) is None


def test_every_job_runs_in_the_account_s_network() -> None:
    vpc = {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1", "subnet-2"]}
    for step in jobs_of(OTHER_DISKS, GUARDED).values():
        request = step["Arguments"]
        members = request if step["Type"] == "Training" else request["NetworkConfig"]
        assert members["VpcConfig"] == vpc
        assert members["EnableNetworkIsolation"] is True


def test_jobs_that_call_no_service_reach_none_in_any_network() -> None:
    jobs = jobs_of("topics")
    isolated = {
        name
        for name, step in jobs.items()
        if step["Arguments"].get("NetworkConfig", {}).get("EnableNetworkIsolation")
    }
    called = {name for name, step in jobs.items() if step["Type"] == "Training"} | {"Prepare"}
    assert isolated == jobs.keys() - called


@pytest.mark.parametrize("name", ["topics", "diffusion"])
def test_in_isolation_the_service_brings_the_training_code(name: str) -> None:
    """The toolkit would download it, and reaches nothing."""
    request = requests_of(workload(name), GUARDED)["Train-baseline-7"]
    archive = request["HyperParameters"]["sagemaker_submit_directory"]
    assert archive == '"/opt/ml/input/data/code/aaaa.tgz"'
    *_, code = request["InputDataConfig"]
    assert code["ChannelName"] == "code"
    assert code["DataSource"]["S3DataSource"]["S3Uri"] == sources(GUARDED).training_archive


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"model": {**NO_LAYOUT, "source": "hub", "id": "bert-base"}},
            r"model\.id is 'bert-base', which jobs in network isolation cannot fetch",
        ),
        ({"arms__compiled": NEURON}, r"arms\.compiled\.neuron\.precompile is true, and jobs in"),
        (
            {
                "schedule": {
                    "expression": "rate(7 days)",
                    "parameters": {"TrainingInstanceType": "ml.p3.2xlarge"},
                }
            },
            r"schedule\.parameters\.TrainingInstanceType is ml\.p3",
        ),
    ],
)
def test_what_cannot_work_in_the_account_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidRequestError, match=sentence):
        compiled(workload(**changes), GUARDED)


def test_a_model_in_the_image_is_there_in_isolation() -> None:
    in_image = {**NO_LAYOUT, "source": "hub", "id": "/models/bert"}
    assert compiled(workload(model=in_image), GUARDED)


def test_names_carry_the_deployment_s_prefix() -> None:
    assert GUARDED.pipeline_name(OTHER_DISKS) == "ours-topics"
    assert LOCAL.pipeline_name(OTHER_DISKS) == "topics"
    package = requests_of(OTHER_DISKS, GUARDED)["Register-compiled"]
    assert package["ModelPackageGroupName"] == "ours-news"


def test_the_bill_of_every_job_can_be_split() -> None:
    def tags(step: dict[str, Any]) -> dict[str, str]:
        return {tag["Key"]: tag["Value"] for tag in step["Arguments"]["Tags"]}

    ours = replace(LOCAL, tags={"cost-centre": "7", "compiler": "no"})
    jobs = {name: tags(step) for name, step in jobs_of(workload(), ours).items()}
    assert {each["compilegate:workload"] for each in jobs.values()} == {"topics"}
    assert {each["cost-centre"] for each in jobs.values()} == {"7"}
    compiling = {name for name, each in jobs.items() if each["compiler"] == "true"}
    assert compiling == {"Train-compiled-7", "Train-compiled-8"}
    assert {each["compiler"] for each in jobs.values()} == {"true", "false"}, "ours"
    trained, gate = jobs["Train-compiled-8"], jobs["Gate"]
    assert trained["compilegate:arm"] == "compiled"
    assert trained["compilegate:compiler"] == "inductor"
    assert gate["compilegate:arm"] == "none"


def test_more_tags_than_the_service_takes_are_refused() -> None:
    many = replace(LOCAL, tags={f"team-{number}": "x" for number in range(47)})
    with pytest.raises(InvalidRequestError, match="Tags"):
        compiled(workload(), many)


def test_throttling_faults_and_missing_capacity_are_tried_again_by_every_job() -> None:
    keys = ("ExceptionType", "IntervalSeconds", "BackoffRate", "MaxAttempts", "ExpireAfterMin")
    for step in jobs_of("topics").values():
        assert [[each.get(key) for key in keys] for each in step["RetryPolicies"]] == [
            [["Step.THROTTLING", "Step.SERVICE_FAULT"], 10, 2.0, 5, None],
            [["SageMaker.JOB_INTERNAL_ERROR"], 60, 2.0, 2, None],
            [["SageMaker.RESOURCE_LIMIT"], 60, 1.0, None, 10],
            [["SageMaker.CAPACITY_ERROR"], 300, 1.5, None, 240],
        ]
    assert {"RetryPolicies" in step for step in jobs_of(LIMITED).values()} == {False}


def test_every_job_has_a_longest_runtime() -> None:
    requests = requests_of(LIMITED)
    for name in ("Prepare", "Gate"):
        assert requests[name]["StoppingCondition"] == {"MaxRuntimeInSeconds": 600}
    assert requests["Train-baseline-7"]["StoppingCondition"] == {
        "MaxRuntimeInSeconds": {"Get": "Parameters.MaxRuntimeInSeconds"}
    }


def test_a_spot_arm_waits_and_keeps_checkpoints_and_the_others_do_not() -> None:
    requests = requests_of(LIMITED)
    spot, other = requests["Train-compiled-8"], requests["Train-baseline-8"]
    assert spot["EnableManagedSpotTraining"] is True
    assert spot["StoppingCondition"]["MaxWaitTimeInSeconds"] == 7200
    assert spot["Environment"]["COMPILEGATE_CHECKPOINTS"] == "/opt/ml/checkpoints/checkpoints"
    assert not {"EnableManagedSpotTraining", "CheckpointConfig"} & other.keys()
    assert "MaxWaitTimeInSeconds" not in other["StoppingCondition"]


def checkpoint_places(requests: Steps) -> dict[str, Any]:
    return {
        name: each["CheckpointConfig"]["S3Uri"]
        for name, each in requests.items()
        if "CheckpointConfig" in each
    }


def test_jobs_that_run_at_once_keep_their_checkpoints_apart() -> None:
    """SageMaker reads the URI as a prefix, stores what it fetched, and deletes what was deleted.
    It is part of the step cache's key: nothing in it may change between executions."""
    places = checkpoint_places(requests_of(LIMITED))
    assert places == {
        f"Train-compiled-{seed}": LOCAL.uri(
            "workloads", "topics", "checkpoints", "compiled", f"seed-{seed}/"
        )
        for seed in (7, 70, 8)
    }


def test_the_seeds_of_an_arm_that_compiles_share_a_compile_cache() -> None:
    requests = requests_of(workload(compile_cache={"max_megabytes": 7}))
    place = LOCAL.uri("workloads", "topics", "checkpoints", "compiled", "shared/")
    assert checkpoint_places(requests) == dict.fromkeys(
        ("Train-compiled-7", "Train-compiled-8"), place
    )
    request = requests["Train-compiled-7"]
    assert request["HyperParameters"]["compile_cache_megabytes"] == "7"
    cache = request["Environment"]["COMPILEGATE_COMPILE_CACHE"]
    assert cache == "/opt/ml/checkpoints/compile-cache"
    assert checkpoint_places(requests_of(workload(compile_cache={"enabled": False}))) == {}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"max_wait_seconds": 100}, "is 100, expected spot = true beside it"),
        ({"spot": True, "max_wait_seconds": 100}, r"is 100, expected compute\.max_runtime_seconds"),
    ],
)
def test_a_wait_that_cannot_be_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(WorkloadError, match=rf"arms\.compiled\.max_wait_seconds {sentence}"):
        workload(arms__compiled=changes)
