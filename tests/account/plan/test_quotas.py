"""What the account's quotas say to the jobs of a definition, and what jobs cannot be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compilegate.account.plan.jobs import job_faults, jobs_of
from compilegate.account.plan.planning import network_cost
from compilegate.account.plan.quotas import (
    LARGEST_TRAINING,
    LONGEST_TRAINING,
    Quota,
    QuotaAnswer,
    QuotaError,
    check_builds,
    check_quotas,
    check_size,
    most_at_once,
)
from compilegate.account.settings.declaration import Network
from compilegate.document.model import Definition
from compilegate.document.reading import read_definition

PARAMETERS = {"Type": "ml.g5.xlarge", "Limit": 7200}
TRAINING = "ml.g5.xlarge for training job usage"
PROCESSING = "ml.m5.xlarge for processing job usage"
EVERYTHING = "Number of instances across all training jobs"
BUILDS = "Concurrently running builds for Linux/Medium environment"


def defined(seeds: int = 3, **training: Any) -> Definition:
    """A preparation, and trainings that wait for it."""
    cluster = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1}
    output = "Steps.Prepare.ProcessingOutputConfig.Outputs['prepared'].S3Output.S3Uri"
    steps: list[dict[str, Any]] = [
        {
            "Name": "Prepare",
            "Type": "Processing",
            "Arguments": {"ProcessingResources": {"ClusterConfig": cluster}},
        }
    ]
    for seed in range(seeds):
        arguments = {
            "InputDataConfig": [{"ChannelName": "prepared", "S3Uri": {"Get": output}}],
            "ResourceConfig": {"InstanceType": {"Get": "Parameters.Type"}, "InstanceCount": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": {"Get": "Parameters.Limit"}},
            **training,
        }
        steps.append({"Name": f"Train-{seed}", "Type": "Training", "Arguments": arguments})
    definition, faults = read_definition(json.dumps({"Version": "2020-12-01", "Steps": steps}))
    assert faults == []
    return definition


def answers(granted: dict[str, float], most: int | None = None) -> dict[str, QuotaAnswer]:
    definition = defined()
    quotas = {name: Quota(value, "https://more") for name, value in granted.items()}
    found = check_quotas(definition, jobs_of(definition, PARAMETERS), quotas, most)
    return {each.quota: each for each in found}


@pytest.mark.parametrize(
    ("granted", "most", "expected"),
    [
        ({TRAINING: 3, PROCESSING: 1}, None, {TRAINING: ("allows", None)}),
        ({TRAINING: 2, PROCESSING: 1}, None, {TRAINING: ("limits", 2)}),
        ({TRAINING: 2, PROCESSING: 1}, 2, {TRAINING: ("allows", None)}),
        ({TRAINING: 0, PROCESSING: 1}, None, {TRAINING: ("forbids", None)}),
        ({PROCESSING: 1}, None, {TRAINING: ("unknown", None)}),
        (
            {TRAINING: 9, PROCESSING: 9, EVERYTHING: 2},
            None,
            {TRAINING: ("allows", None), EVERYTHING: ("limits", 2)},
        ),
        (
            {TRAINING: 9, PROCESSING: 9, LARGEST_TRAINING: 0},
            None,
            {LARGEST_TRAINING: ("forbids", None)},
        ),
        (
            {TRAINING: 9, PROCESSING: 9, LONGEST_TRAINING: 3600},
            None,
            {LONGEST_TRAINING: ("forbids", None)},
        ),
    ],
)
def test_a_quota_is_held_against_what_can_run_at_once(
    granted: dict[str, float], most: int | None, expected: dict[str, Any]
) -> None:
    found = answers(granted, most)
    assert {name: (found[name].answer, found[name].at_once) for name in expected} == expected


def test_what_starts_keeps_to_the_least_of_the_quotas_and_does_not_start_at_none() -> None:
    assert most_at_once([*answers({TRAINING: 3, PROCESSING: 1}).values()]) is None
    assert most_at_once([*answers({TRAINING: 2, PROCESSING: 1, EVERYTHING: 1}).values()]) == 1
    with pytest.raises(QuotaError, match=f"{TRAINING}: 3 needed at once, allowed: 0.*https://more"):
        most_at_once([*answers({TRAINING: 0, PROCESSING: 1}).values()])


@pytest.mark.parametrize(
    ("granted", "images", "answer"),
    [(None, 2, "unknown"), (0, 2, "forbids"), (1, 2, "limits"), (1, 9, "limits"), (2, 2, "allows")],
)
def test_builds_have_a_quota_too(granted: float | None, images: int, answer: str) -> None:
    quotas = {} if granted is None else {BUILDS: Quota(granted, "https://more")}
    found = check_builds("medium", images, quotas)
    assert (found.quota, found.answer) == (BUILDS, answer)


def test_a_definition_has_a_largest_size() -> None:
    assert check_size(1_048_576).answer == "allows"
    assert check_size(1_048_577).answer == "forbids"


@pytest.mark.parametrize(
    ("parameters", "refusal"),
    [
        ({}, None),
        ({"Limit": 7201}, "the maximum runtime is 7201 seconds, allowed: 7200, within which the"),
        ({"Type": "ml.g5.xlarg"}, "SageMaker does not know; did you mean 'ml.g5.xlarge'?"),
    ],
)
def test_an_invalid_job_is_refused(parameters: dict[str, Any], refusal: str | None) -> None:
    limits = {
        "MaxRuntimeInSeconds": {"Get": "Parameters.Limit"},
        "MaxWaitTimeInSeconds": 7200,
    }
    definition = defined(1, EnableManagedSpotTraining=True, StoppingCondition=limits)
    faults = job_faults(jobs_of(definition, {**PARAMETERS, **parameters}))
    assert [refusal in each for each in faults if refusal] == ([True] if refusal else [])
    assert bool(faults) is bool(refusal)


@pytest.mark.parametrize(
    ("declared", "region", "sentence"),
    [
        (
            Network(create=True),
            "us-east-1",
            "73.00 USD a month at the prices of us-east-1 for 5 interface",
        ),
        (
            Network(create=True, zones=["eu-west-1a", "eu-west-1b", "eu-west-1c"]),
            "eu-west-1",
            "120.45 USD a month at the prices of eu-west-1 for 5 interface endpoints in 3 zones",
        ),
        (Network(create=True, endpoints=["dynamodb"]), "us-east-1", "0.00 USD a month"),
        (Network(create=True, isolation=True), "us-east-1", "0.00 USD a month"),
        (
            Network(create=True, endpoints=["sts"]),
            "sa-east-1",
            "at the prices of us-east-1 for 1 interface",
        ),
        (Network(subnets=["subnet-1"], security_groups=["sg-1"]), "us-east-1", None),
        (Network(), "us-east-1", None),
    ],
)
def test_a_network_that_is_made_costs_by_interface_zone_and_hour(
    declared: Network, region: str, sentence: str | None
) -> None:
    found = network_cost(declared, region)
    assert found is sentence is None or (sentence is not None and sentence in str(found))
