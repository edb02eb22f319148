"""Which steps the step cache would serve, and what that says of the cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from compilegate.account.executions.console import StartedJob
from compilegate.account.executions.state import SageMakerExecution, SageMakerStep
from compilegate.account.plan.cost import Total, execution_cost
from compilegate.account.plan.jobs import job_faults, jobs_of
from compilegate.account.plan.prediction import PastExecution, Prediction, predict
from compilegate.account.plan.quotas import (
    LARGEST_TRAINING,
    LONGEST_TRAINING,
    check_quotas,
    check_size,
)
from compilegate.document.model import Definition
from compilegate.document.reading import read_definition
from compilegate.execution.status import ExecutionStatus, StepStatus

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
PARAMETERS = {"Data": "s3://bucket/data", "Type": "ml.g5.xlarge", "Limit": 7200}
CACHE = {"Enabled": True, "ExpireAfter": "P30D"}


def prepare(code: str = "1") -> dict[str, Any]:
    return {
        "Name": "Prepare",
        "Type": "Processing",
        "CacheConfig": CACHE,
        "Arguments": {
            "AppSpecification": {"ImageUri": f"image:{code}"},
            "ProcessingInputs": [{"InputName": "data", "S3Uri": {"Get": "Parameters.Data"}}],
            "ProcessingResources": {
                "ClusterConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1}
            },
        },
    }


def training(seed: int, epochs: int = 2) -> dict[str, Any]:
    output = "Steps.Prepare.ProcessingOutputConfig.Outputs['prepared'].S3Output.S3Uri"
    return {
        "Name": f"Train-{seed}",
        "Type": "Training",
        "CacheConfig": CACHE,
        "Arguments": {
            "HyperParameters": {"epochs": str(epochs), "seed": str(seed)},
            "InputDataConfig": [{"ChannelName": "prepared", "S3Uri": {"Get": output}}],
            "ResourceConfig": {"InstanceType": {"Get": "Parameters.Type"}, "InstanceCount": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": {"Get": "Parameters.Limit"}},
            "RoleArn": "not part of the key",
        },
    }


GATE = {
    "Name": "Gate",
    "Type": "Processing",
    "Arguments": {"ProcessingInputs": [{"S3Uri": {"Get": "Steps.Train-1.ModelArtifacts"}}]},
}


def defined(*steps: dict[str, Any]) -> Definition:
    definition, faults = read_definition(json.dumps({"Version": "2020-12-01", "Steps": steps}))
    assert faults == []
    return definition


TWO_SEEDS = (prepare(), training(1), training(2), GATE)


def executed(
    identifier: str, steps: Sequence[dict[str, Any]], *, days_ago: float = 1, **parameters: Any
) -> PastExecution:
    """An execution in which every step succeeded, each in 600 seconds."""
    start = NOW - timedelta(days=days_ago)
    states = [
        SageMakerStep(
            name=step["Name"],
            type=step["Type"],
            status=StepStatus.SUCCEEDED,
            started=start.timestamp(),
            seconds=600,
            attempts=1,
            job=StartedJob(
                f"arn:aws:sagemaker:us-east-1:1:{step['Type'].lower()}-job/"
                f"{identifier}-{step['Name']}"
            ),
        )
        for step in steps
    ]
    arn = f"arn:aws:sagemaker:us-east-1:1:pipeline/p/execution/{identifier}"
    state = SageMakerExecution(
        arn=arn,
        execution_id=identifier,
        pipeline_name="p",
        status=ExecutionStatus.SUCCEEDED,
        steps={each.name: each for each in states},
        parameters={},
        failed_by=None,
        failure=None,
        folder=Path(),
        started=start.timestamp(),
        ended=start.timestamp(),
    )
    return PastExecution(state, defined(*steps), {**PARAMETERS, **parameters})


def served_from(past: PastExecution, step: str, source: PastExecution) -> PastExecution:
    """The same execution, had that step's result come from another one."""
    own = source.step(step)
    assert own is not None
    taken = replace(past.state.steps[step], job=own.job, cached_from=source.state.arn)
    steps = {**past.state.steps, step: taken}
    return replace(past, state=replace(past.state, steps=steps))


def planned(*history: PastExecution, steps: Sequence[dict[str, Any]] = TWO_SEEDS) -> dict[str, str]:
    """`served` or the reason why not, by step."""
    found = predict(defined(*steps), PARAMETERS, history, NOW)
    return {name: "served" if one.served else one.why for name, one in found.items()}


def test_without_history_everything_runs() -> None:
    assert set(planned().values()) == {
        "has not succeeded in the latest executions",
        "needs the result of Prepare, which runs again",
        "is never cached",
    }


def test_what_has_not_changed_is_served() -> None:
    assert planned(executed("one", TWO_SEEDS)) == {
        "Prepare": "served",
        "Train-1": "served",
        "Train-2": "served",
        "Gate": "is never cached",
    }


def test_a_changed_recipe_trains_again_on_prepared_data_that_is_served() -> None:
    found = planned(
        executed("one", TWO_SEEDS), steps=(prepare(), training(1), training(2, epochs=3), GATE)
    )
    assert found["Prepare"] == found["Train-1"] == "served"
    assert found["Train-2"] == "asks for something else: HyperParameters.epochs"


def test_what_needs_a_step_that_runs_runs_too() -> None:
    found = planned(
        executed("one", TWO_SEEDS), steps=(prepare("2"), training(1), training(2), GATE)
    )
    assert found["Prepare"] == "asks for something else: AppSpecification.ImageUri"
    assert found["Train-1"] == "needs the result of Prepare, which runs again"


def test_another_value_of_a_parameter_is_another_request() -> None:
    found = planned(executed("one", TWO_SEEDS, Data="s3://bucket/other"))
    assert found["Prepare"] == "asks for something else: ProcessingInputs.[data].S3Uri"


def test_what_is_no_part_of_the_key_changes_nothing() -> None:
    past = executed("one", TWO_SEEDS, Limit=60, Type="ml.p3.2xlarge")
    assert planned(past)["Train-1"] == "served"


def test_a_result_that_is_too_old_is_not_served() -> None:
    found = planned(executed("one", TWO_SEEDS, days_ago=31))
    assert found["Prepare"] == "its result is 31.0 days old, allowed: 30.0 days"


def test_an_older_execution_may_have_what_the_newest_has_not() -> None:
    newest = executed("two", (prepare("2"), training(1)), days_ago=1)
    assert planned(newest, executed("one", TWO_SEEDS, days_ago=2))["Train-1"] == "served"


def test_training_on_another_preparation_of_the_same_data_is_not_served() -> None:
    """The newest result of Prepare counts; what was trained on an older one has another input."""
    newest = executed("two", (prepare(),), days_ago=1)
    found = planned(newest, executed("one", TWO_SEEDS, days_ago=2))
    assert found["Prepare"] == "served"
    assert found["Train-1"] == "asks for something else: InputDataConfig.[prepared].S3Uri"


def test_a_result_that_was_served_itself_is_as_old_as_its_first_run() -> None:
    first = executed("one", TWO_SEEDS, days_ago=40)
    second = executed("two", TWO_SEEDS, days_ago=1)
    for step in ("Prepare", "Train-1"):
        second = served_from(second, step, first)
    assert planned(second, first)["Prepare"] == "its result is 40.0 days old, allowed: 30.0 days"


def cost_of(*history: PastExecution, region: str = "us-east-1", **served: bool) -> Any:
    definition = defined(prepare(), training(1), training(2))
    predictions = {
        name: Prediction(name, served.get(name.replace("-", "_"), False), "")
        for name in ("Prepare", "Train-1", "Train-2")
    }
    return execution_cost(jobs_of(definition, PARAMETERS), predictions, history, region)


def test_cost_counts_what_is_known_and_names_what_is_not() -> None:
    cost = cost_of(executed("one", (prepare(), training(1))))
    assert cost.usual == Total(pytest.approx(1.408 * 600 / 3600), 1, 3)
    assert cost.most == Total(pytest.approx(2 * 1.408 * 2), 2, 3)
    assert cost.unknown == (
        "the catalog has prices of training, none of processing on ml.m5.xlarge",
    )


def test_a_served_step_usually_costs_nothing_and_at_most_its_whole_runtime() -> None:
    cost = cost_of(executed("one", (prepare(), training(1), training(2))), Train_1=True)
    assert cost.usual == Total(pytest.approx(1.408 * 600 / 3600), 1, 2)
    assert cost.most.counted == 2


def test_each_instance_of_a_job_costs() -> None:
    two = training(1)
    two["Arguments"]["ResourceConfig"]["InstanceCount"] = 2
    jobs = jobs_of(defined(prepare(), two), PARAMETERS)
    predictions = {name: Prediction(name, False, "") for name in ("Prepare", "Train-1")}
    cost = execution_cost(jobs, predictions, [], "us-east-1")
    assert cost.most == Total(pytest.approx(2 * 1.408 * 2), 1, 2)


def test_a_price_of_another_region_is_not_taken() -> None:
    cost = cost_of(region="eu-central-1")
    assert cost.most == Total(0, 0, 3)
    assert any("ml.g5.xlarge in eu-central-1, only in" in reason for reason in cost.unknown)


def quota_answers(quotas: dict[str, float], at_once: int | None = None) -> dict[str, str]:
    definition = defined(prepare(), training(1), training(2), training(3))
    jobs = jobs_of(definition, PARAMETERS)
    return {found.quota: found.answer for found in check_quotas(definition, jobs, quotas, at_once)}


TRAINING = "ml.g5.xlarge for training job usage"
PROCESSING = "ml.m5.xlarge for processing job usage"


@pytest.mark.parametrize(
    ("value", "at_once", "answer"),
    [(3, None, "allows"), (2, None, "limits"), (2, 2, "allows"), (0, None, "forbids")],
)
def test_a_quota_is_held_against_the_jobs_that_can_run_at_once(
    value: float, at_once: int | None, answer: str
) -> None:
    found = quota_answers({TRAINING: value, PROCESSING: 1}, at_once)
    assert found == {PROCESSING: "allows", TRAINING: answer}


def test_a_quota_that_is_not_listed_is_unknown() -> None:
    assert quota_answers({})[TRAINING] == "unknown"


def test_the_account_s_quota_for_all_training_jobs_holds_beside_that_of_the_instance() -> None:
    everything = "Number of instances across all training jobs"
    found = quota_answers({TRAINING: 9, PROCESSING: 9, everything: 2})
    assert found == {PROCESSING: "allows", TRAINING: "allows", everything: "limits"}


def test_more_instances_than_one_job_may_have_are_forbidden() -> None:
    found = quota_answers({TRAINING: 9, PROCESSING: 9, LARGEST_TRAINING: 0})
    assert found[LARGEST_TRAINING] == "forbids"


def test_a_longer_runtime_than_the_account_allows_is_forbidden() -> None:
    found = quota_answers({TRAINING: 9, PROCESSING: 9, LONGEST_TRAINING: 3600})
    assert found[LONGEST_TRAINING] == "forbids"


def test_a_runtime_longer_than_a_spot_job_waits_in_all_is_a_fault() -> None:
    spot = training(1)
    spot["Arguments"] |= {"EnableManagedSpotTraining": True}
    spot["Arguments"]["StoppingCondition"] |= {"MaxWaitTimeInSeconds": 7200}
    definition = defined(prepare(), spot, training(2))
    assert job_faults(jobs_of(definition, PARAMETERS)) == []
    assert job_faults(jobs_of(definition, {**PARAMETERS, "Limit": 7201})) == [
        "the maximum runtime is 7201 seconds, allowed: 7200, within which the spot job Train-1 "
        "has to wait and run"
    ]


def test_an_instance_type_that_is_mistyped_is_a_fault() -> None:
    (fault,) = job_faults(jobs_of(defined(training(1)), {**PARAMETERS, "Type": "ml.g5.xlarg"}))
    assert fault == (
        "the instance type is 'ml.g5.xlarg', which SageMaker does not know; "
        "did you mean 'ml.g5.xlarge'?"
    )


def test_a_definition_has_a_largest_size() -> None:
    assert check_size(1_048_576).answer == "allows"
    assert check_size(1_048_577).answer == "forbids"
