"""The proofs of the claims in claims.toml: each is a function of the trial, which returns what was
seen, and asserts what is claimed.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from compilegate.account import executions as calls
from compilegate.account.session import read_outputs
from compilegate.errors import CompilegateError
from tests.account_proof.trial import GPU, PROJECTS, SECOND, WORKLOAD, Trial, carry_out

NO_QUESTION = "--require-approval never --concurrency 4"


def deploy(trial: Trial) -> str:
    trial.make("deploy", NO_QUESTION)
    return ", ".join(trial.mine("stack"))


def unchanged(trial: Trial) -> str:
    assert "the same as the deployed one" in trial.compilegate("aws", "plan", WORKLOAD)
    deployed = [line for line in trial.make("deploy", NO_QUESTION).splitlines() if "✅" in line]
    assert all("(no changes)" in line for line in deployed), deployed
    return f"{len(deployed)} stacks"


def execution(trial: Trial) -> str:
    _trained(trial, WORKLOAD)
    return f"{len(_steps(trial))} steps"


def tags(trial: Trial) -> str:
    arn = _training_job(trial)["TrainingJobArn"]
    found = {tag["Key"]: tag["Value"] for tag in trial.sagemaker.list_tags(ResourceArn=arn)["Tags"]}
    assert found.get("compilegate:project") == PROJECTS["first"], found
    assert found.get("compilegate:workload") == WORKLOAD, found
    return f"{arn}: {found}"


def network(trial: Trial) -> str:
    return f"trained in {_training_job(trial)['VpcConfig']['Subnets']}"


def nothing_new(trial: Trial) -> str:
    before = len(trial.packages())
    _submitted(trial, WORKLOAD)
    trainings = [step for step in _steps(trial) if "TrainingJob" in step.get("Metadata", {})]
    assert trainings, "there is no training step"
    assert all("CacheHitResult" in step for step in trainings), trainings
    assert len(trial.packages()) == before, "another version was registered"
    return f"{len(trainings)} trainings from the cache"


def delivery(trial: Trial) -> str:
    known, folder = _executions(trial), f"incoming/{WORKLOAD}/{uuid4().hex[:8]}/"
    for name, more in (("train.csv", "harbour ship again,sea\n"), ("validation.csv", "")):
        text = (trial.path / "workloads" / name).read_text(encoding="utf-8") + more
        trial.client("s3").put_object(Bucket=trial.bucket, Key=folder + name, Body=text)
    _begun(trial, known, 15)
    given = calls.execution_parameters(trial.session, trial.execution)
    assert given.get("Data") == f"s3://{trial.bucket}/{folder}", given
    trial.until("its end", 90, lambda: _status(trial) == "Succeeded")
    trial.until("version 2", 5, lambda: len(trial.packages()) == 2)
    return folder


def gpu(trial: Trial) -> str:
    _trained(trial, GPU)
    instance_type = _training_job(trial, GPU)["ResourceConfig"]["InstanceType"]
    assert instance_type == "ml.g5.xlarge", instance_type
    return f"trained on {instance_type}"


def isolation(trial: Trial) -> str:
    outputs = read_outputs(trial.session, trial.names.workload_stack(SECOND)).values
    roles = [arn for key, arn in outputs.items() if key.endswith("RoleArn")]
    path = f"{trial.bucket}/compilegate/workloads/{WORKLOAD}/executions/x/data"
    for role in roles:
        decisions = trial.listed(
            "iam simulate_principal_policy EvaluationResults[].EvalDecision",
            PolicySourceArn=role,
            ActionNames=["s3:GetObject", "s3:PutObject"],
            ResourceArns=[f"arn:{trial.session.partition}:s3:::{path}"],
        )
        assert "allowed" not in decisions, f"{role}, {path}: {decisions}"
    return f"denied to {len(roles)} roles"


def topic(trial: Trial) -> str:
    alarm = f"{PROJECTS['first']}-undelivered"
    history = "cloudwatch describe_alarm_history AlarmHistoryItems[].HistorySummary"
    _sound(trial, alarm, "ALARM")
    (text, *_) = trial.until(
        "the alarm's action",
        5,
        lambda: trial.listed(history, AlarmName=alarm, HistoryItemType="Action"),
    )
    _sound(trial, alarm, "OK")
    assert text.startswith("Successfully"), text
    return str(text)


def approval(trial: Trial) -> str:
    _decide(trial, "approve", f"{WORKLOAD}/1")
    return _serves(trial, 1)


def answers(trial: Trial) -> str:
    answer = trial.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=trial.names.endpoint(WORKLOAD),
        ContentType="application/json",
        Body=json.dumps({"inputs": ["ship harbour captain"]}),
    )
    text = answer["Body"].read().decode("utf-8")
    scores = json.loads(text)[0]["scores"]
    assert scores.keys() == {"sea", "bank"}, text
    assert abs(sum(scores.values()) - 1.0) < 1e-3, text
    return text


def rejection(trial: Trial) -> str:
    _decide(trial, "approve", f"{WORKLOAD}/2")
    _serves(trial, 2)
    _decide(trial, "reject", f"{WORKLOAD}/2")
    return f"again {_serves(trial, 1)}"


def rollback(trial: Trial) -> str:
    alarm = f"{trial.names.endpoint(WORKLOAD)}-errors"
    _decide(trial, "approve", f"{WORKLOAD}/2")
    trial.until("the endpoint's update", 10, lambda: _stack(trial)[0] == "UPDATE_IN_PROGRESS")

    def look() -> bool:
        _sound(trial, alarm, "ALARM")
        return _stack(trial) == ("UPDATE_ROLLBACK_COMPLETE", "1")

    trial.until("the return of version 1", 60, look)
    _sound(trial, alarm, "OK")
    trial.until(
        "the rejection", 10, lambda: trial.packages()[1]["ModelApprovalStatus"] == "Rejected"
    )
    return "version 1 is back, version 2 is Rejected"


def batch(trial: Trial) -> str:
    key, body = f"requests/{SECOND}/one.json", json.dumps({"inputs": ["ship harbour captain"]})
    trial.client("s3").put_object(Bucket=trial.bucket, Key=key, Body=body)
    _trained(trial, SECOND)
    _decide(trial, "approve", f"{SECOND}/1")
    ended = "TransformJobSummaries[?TransformJobStatus!='InProgress']"
    what = f"sagemaker list_transform_jobs {ended}.[TransformJobName,TransformJobStatus]"
    (name, status), *_ = trial.until(
        "the end of the transform",
        30,
        lambda: trial.listed(what, NameContains=trial.names.pipeline(SECOND)),
    )
    assert status == "Completed", f"{name} is {status}"
    return str(name)


def overlap(trial: Trial) -> str:
    first, second = _started(trial), _started(trial)
    trial.until("the end of the second", 10, lambda: _status(trial) == "Stopped")
    _stop(trial, first)
    return f"{second} was stopped, and {first} went on"


def schedule(trial: Trial) -> str:
    due, known = datetime.now(UTC) + timedelta(minutes=20), _executions(trial)
    cron = f'expression = "cron({due.minute} {due.hour} * * ? *)"\ntimezone = "UTC"'
    trial.declare(new=f"\n[schedule]\n{cron}\nenabled = true\n")
    trial.make("deploy", NO_QUESTION)
    _begun(trial, known, 40)
    _stop(trial, trial.execution)
    return f"for {due:%H:%M} UTC"


def month(trial: Trial) -> str:
    function = trial.client("lambda").get_function_configuration(
        FunctionName=trial.names.function(WORKLOAD, "keeper")
    )
    most = json.loads(function["Environment"]["Variables"]["LIMITS"])["most_usd"]
    trial.declare("month_usd = 50.0", f"month_usd = {most + 0.01:.2f}")
    trial.make("deploy", NO_QUESTION)
    _started(trial)
    trial.until("its end", 15, lambda: _status(trial) == "Stopped")
    ran = [
        step["StepName"]
        for step in _steps(trial)
        if step["StepStatus"] == "Succeeded" and "CacheHitResult" not in step
    ]
    assert not ran, f"stopped after {ran}"
    return f"another {most:.2f} USD were too many"


def promotion(trial: Trial) -> str:
    trial.make("deploy", NO_QUESTION, stage="next")
    trial.compilegate("aws", "promote", f"{WORKLOAD}/1", stage="next")
    (package,) = trial.packages(f"{PROJECTS['next']}-{WORKLOAD}")
    assert package["ModelApprovalStatus"] == "PendingManualApproval", package
    return str(package["ModelPackageArn"])


def leftover(trial: Trial) -> str:
    stack = trial.names.workload_stack(SECOND)
    (trial.path / "workloads" / f"{SECOND}.toml").unlink()
    for package in trial.packages(f"{PROJECTS['first']}-{SECOND}"):
        trial.sagemaker.delete_model_package(ModelPackageName=package["ModelPackageArn"])
    assert stack in trial.make("diff"), f"make diff does not name {stack}"
    trial.make("prune", "--force")
    assert stack not in trial.mine("stack"), f"make prune did not remove {stack}"
    return stack


def destroy(trial: Trial) -> str:
    problems = carry_out(trial.emptying())
    for stage in reversed(PROJECTS):
        trial.make("destroy", "--force", stage=stage)
    left = [name for name in trial.mine("stack") if not name.startswith("CDKToolkit")]
    assert not problems + left, "; ".join(problems + left)
    return "every stack but the bootstraps'"


def nothing_left(trial: Trial) -> str:
    problems = carry_out(trial.finishing())
    with suppress(AssertionError):
        trial.until("the end of all that was made", 45, lambda: not trial.things())
    left = trial.things()
    assert not left, "; ".join([*left, *problems])
    return "nothing"


@dataclass(frozen=True)
class Claim:
    """One of claims.toml, which says what its members are."""

    number: int
    says: str
    proof: str = ""
    needs: Sequence[str] = ()
    usd: float = 0.0
    minutes: int = 0
    option: str = ""

    def prove(self, trial: Trial) -> str:
        return str(globals()[self.proof](trial))


DECLARED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["claim"]
CLAIMS = [Claim(number, **declared) for number, declared in enumerate(DECLARED, start=1)]
REMOVAL = ("destroy", "nothing_left")
"""What is done whatever came before."""


def _submitted(trial: Trial, workload: str) -> None:
    printed = trial.compilegate("aws", "submit", workload, "--wait")
    trial.execution = next(word for word in printed.split() if "/execution/" in word)


def _trained(trial: Trial, workload: str) -> None:
    _submitted(trial, workload)
    group = f"{PROJECTS['first']}-{workload}"
    trial.until("a registered model", 5, lambda: trial.packages(group))


def _executions(trial: Trial, workload: str = WORKLOAD) -> list[str]:
    return calls.latest_executions(trial.session, trial.names.pipeline(workload), 50)


def _started(trial: Trial) -> str:
    pipeline = trial.names.pipeline(WORKLOAD)
    trial.execution = calls.start_execution(trial.session, pipeline, {}, uuid4().hex)
    return trial.execution


def _begun(trial: Trial, known: Sequence[str], minutes: float) -> None:
    """Wait for an execution that is not yet known."""
    trial.execution = trial.until(
        "an execution",
        minutes,
        lambda: next((arn for arn in _executions(trial) if arn not in known), None),
    )


def _status(trial: Trial) -> str:
    """How the execution ended; empty as long as it goes on."""
    found = trial.sagemaker.describe_pipeline_execution(PipelineExecutionArn=trial.execution)
    status, why = found["PipelineExecutionStatus"], found.get("FailureReason")
    assert status != "Failed", f"{trial.execution} failed: {why}"
    return str(status)


def _stop(trial: Trial, arn: str) -> None:
    """Stop an execution, unless it has ended meanwhile."""
    trial.execution = arn
    with suppress(CompilegateError):
        calls.stop_execution(trial.session, arn)
    trial.until("its end", 20, lambda: _status(trial) in ("Stopped", "Succeeded"))


def _steps(trial: Trial) -> list[dict[str, Any]]:
    return list(calls.list_steps(trial.session, trial.execution))


def _training_job(trial: Trial, workload: str = WORKLOAD) -> Any:
    """A training job of the workload's first execution."""
    trial.execution = _executions(trial, workload)[-1]
    jobs = [step.get("Metadata", {}).get("TrainingJob") for step in _steps(trial)]
    name = next(job["Arn"] for job in jobs if job).rpartition("/")[2]
    return trial.sagemaker.describe_training_job(TrainingJobName=name)


def _decide(trial: Trial, decision: str, model: str) -> None:
    trial.compilegate("models", decision, model, "--aws", "--reason", "a trial")


def _stack(trial: Trial) -> tuple[str, str]:
    """The state of the endpoint's stack, and the version that it has."""
    name = trial.names.endpoint_stack(WORKLOAD)
    (stack,) = trial.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
    given = {each["ParameterKey"]: each["ParameterValue"] for each in stack["Parameters"]}
    return stack["StackStatus"], given["Version"]


def _serves(trial: Trial, version: int) -> str:
    """Wait until the endpoint answers with this version."""
    wanted = ("UPDATE_COMPLETE", str(version))
    trial.until(f"the endpoint with version {version}", 45, lambda: _stack(trial) == wanted)
    found = trial.sagemaker.describe_endpoint(EndpointName=trial.names.endpoint(WORKLOAD))
    assert found["EndpointStatus"] == "InService", found
    return f"version {version}, by {found['EndpointConfigName']}"


def _sound(trial: Trial, alarm: str, state: str) -> None:
    trial.client("cloudwatch").set_alarm_state(
        AlarmName=alarm, StateValue=state, StateReason="a trial"
    )
