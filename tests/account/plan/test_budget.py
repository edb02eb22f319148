"""What an execution could cost, against what its workload declares."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from compilegate.account.plan.budget import bound_of, budget_faults, spent_this_month
from compilegate.account.plan.jobs import PlannedJob
from compilegate.account.session import open_session
from compilegate.workload.declaration.schedule import Budget
from tests.account.command import compilegate
from tests.account.deployed import PIPELINE, Deployed
from tests.account.scripted import frame, job
from tests.aws_server.client import AwsServer

REGION = "us-east-1"


def planned(step: str, instance_type: str = "ml.g5.xlarge", hours: float = 1.0) -> PlannedJob:
    return PlannedJob(step, "training", instance_type, 1, int(hours * 3600), False, None)


def test_an_execution_costs_at_most_all_its_jobs_at_their_maximum_runtimes() -> None:
    jobs = [planned("Train-baseline-1", hours=2), planned("Train-compiled-1")]
    bound = bound_of(jobs, {"ml.g5.xlarge": 2.0}, REGION)
    assert (bound.usd, bound.unknown) == (6.0, ())
    assert bound_of(jobs, {}, REGION).usd == pytest.approx(3 * 1.408)


def test_a_job_without_a_price_is_a_reason_to_refuse_and_no_zero() -> None:
    budget = Budget(execution_usd=1e6)
    bound = bound_of([planned("Prepare", "ml.m5.xlarge")], budget.usd_per_hour, REGION)
    assert budget_faults("topics", budget, bound) == [
        "workloads/topics.toml: budget: there is no price of ml.m5.xlarge in us-east-1: declare it "
        "in [budget.usd_per_hour]"
    ]


def test_what_the_month_has_cost_counts_with_what_the_next_execution_may() -> None:
    budget = Budget(month_usd=10.0, usd_per_hour={"ml.g5.xlarge": 2.0})
    bound = bound_of([planned("Train-baseline-1", hours=2)], budget.usd_per_hour, REGION)
    assert budget_faults("topics", budget, bound, 6.0) == []
    (fault,) = budget_faults("topics", budget, bound, 6.01)
    assert fault.startswith(
        "workloads/topics.toml: budget.month_usd: an execution could cost 4.00 USD after 6.01 USD "
        "this month, allowed: 10.00"
    )


@pytest.mark.slow
def test_the_month_s_executions_are_counted_by_the_times_of_their_steps(
    deployed: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in deployed.server.environment.items():
        monkeypatch.setenv(name, value)
    train = job("Train-baseline-7", "Training", 0, 3600)
    deployed.script(frame("Succeeded", train, job("Gate", "Processing", 3600, 5400)))
    deployed.start()
    session = open_session(REGION)
    rates = {"Train-baseline-7": 2.0}
    now = _started(deployed)
    assert spent_this_month(session, PIPELINE, rates, now) == pytest.approx(2.0)
    assert spent_this_month(session, PIPELINE, {**rates, "Gate": 1.0}, now) == pytest.approx(2.5)


def _started(deployed: Deployed) -> datetime:
    """A moment of the month in which the execution began."""
    (found,) = deployed.server.client("sagemaker").list_pipeline_executions(PipelineName=PIPELINE)[
        "PipelineExecutionSummaries"
    ]
    started: datetime = found["StartTime"]
    return started.astimezone(UTC)


@pytest.mark.slow
def test_a_start_above_the_budget_is_refused_before_anything_is_uploaded(
    aws: AwsServer, project: Path
) -> None:
    from tests.account.deployed import deploy  # noqa: PLC0415
    from tests.account.plan.test_command import deployed_definition  # noqa: PLC0415

    deploy(aws, deployed_definition(project))
    declared = project / "workloads" / "topics.toml"
    declared.write_text(
        declared.read_text()
        + "\n[budget]\nexecution_usd = 100.0\n"
        + '[budget.usd_per_hour]\n"ml.m5.xlarge" = 0.23\n'
    )
    done = compilegate(aws, project, "aws", "submit", "topics")
    assert done.returncode == 2
    assert "workloads/topics.toml: budget.execution_usd: an execution could cost 1" in done.stderr
    assert "allowed: 100.00; lower max_runtime_seconds" in done.stderr
    assert aws.calls("StartPipelineExecution") == []
    assert aws.calls("PutObject") == []

    cheaper = compilegate(aws, project, "aws", "submit", "topics", "-p", "MaxRuntimeInSeconds=3600")
    assert "budget" not in cheaper.stderr
