"""What rests on AWS's documentation until a real account has shown it: the claims of docs/aws.md.

Each is a function of the trial, in the order in which they are tried; the first paragraph of its
docstring is the claim. It returns what was seen, and asserts what is claimed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from compilegate.account import executions as calls
from compilegate.account.deployed import read_outputs
from compilegate.errors import CompilegateError
from tests.account_proof.trial import GPU, NETWORK, PROJECTS, SECOND, WORKLOAD, Trial, carry_out

UNASKED = "--require-approval never --concurrency 4"
BY_HAND = (
    "AWS Budgets counts by the tags: look at the budget's page a day after they were activated",
    "An approved model is promoted to another account: with two stages, as docs/stages.md says",
)
"""What one account and one command cannot show; numbered after the others."""
Prove = Callable[[Trial], str]


@dataclass(frozen=True)
class Claim:
    """One of them."""

    number: int
    prove: Prove
    needs: tuple[int, ...]
    """The claims without which there is nothing to look at."""
    usd: float
    """The most that it costs in `us-east-1`."""
    minutes: int
    """The longest that it takes, mostly waiting."""
    asked: str
    """What `--with` has to name; empty for what is always tried."""

    @property
    def says(self) -> str:
        return " ".join((self.prove.__doc__ or "").split("\n\n")[0].split()).rstrip(".")


CLAIMS: list[Claim] = []


def claim(
    *needs: int, usd: float = 0.0, minutes: int = 5, asked: str = ""
) -> Callable[[Prove], Prove]:
    """Put a proof on the list."""

    def keep(prove: Prove) -> Prove:
        CLAIMS.append(Claim(len(CLAIMS) + 1, prove, needs, usd, minutes, asked))
        return prove

    return keep


@claim(usd=0.7, minutes=120)
def deploy(trial: Trial) -> str:
    """`make deploy` deploys to an empty account with the bootstrap's own policies, and builds the
    images."""
    trial.make("deploy", UNASKED)
    return ", ".join(trial.mine("stack"))


@claim(1, minutes=15)
def unchanged(trial: Trial) -> str:
    """What is deployed is what is declared, the definition to the byte, and deploying again changes
    no stack."""
    assert "the same as the deployed one" in trial.compilegate("aws", "plan", WORKLOAD)
    deployed = [line for line in trial.make("deploy", UNASKED).splitlines() if "✅" in line]
    assert all("(no changes)" in line for line in deployed), deployed
    return f"{len(deployed)} stacks"


@claim(1, usd=1.1, minutes=90)
def execution(trial: Trial) -> str:
    """An execution trains, judges and registers, with its roles and the key."""
    _trained(trial, WORKLOAD)
    return f"{len(_steps(trial))} steps"


@claim(3)
def tags(trial: Trial) -> str:
    """Jobs carry the tags of the project and the workload."""
    arn = _training_job(trial)["TrainingJobArn"]
    found = {tag["Key"]: tag["Value"] for tag in trial.sagemaker.list_tags(ResourceArn=arn)["Tags"]}
    assert found.get("compilegate:project") == PROJECTS["first"], found
    assert found.get("compilegate:workload") == WORKLOAD, found
    return f"{arn}: {found}"


@claim(3, usd=5.0, asked=NETWORK)
def network(trial: Trial) -> str:
    """Jobs find all that they need in a VPC without internet.

    All jobs of the trial run there then.
    """
    return f"trained in {_training_job(trial)['VpcConfig']['Subnets']}"


@claim(3, usd=0.3, minutes=45)
def nothing_new(trial: Trial) -> str:
    """An execution on unchanged data takes its trainings from the cache and registers nothing."""
    before = len(trial.packages())
    _submitted(trial, WORKLOAD)
    trainings = [step for step in _steps(trial) if "TrainingJob" in step.get("Metadata", {})]
    assert trainings, "there is no training step"
    assert all("CacheHitResult" in step for step in trainings), trainings
    assert len(trial.packages()) == before, "another version was registered"
    return f"{len(trainings)} trainings from the cache"


@claim(3, usd=1.1, minutes=90)
def delivery(trial: Trial) -> str:
    """A delivery of data starts an execution on it, which registers another version."""
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


@claim(1, usd=3.0, minutes=90, asked=GPU)
def gpu(trial: Trial) -> str:
    """A compiled arm trains on a GPU; where the quota is 0, `aws submit` refuses and names it."""
    _trained(trial, GPU)
    instance_type = _training_job(trial, GPU)["ResourceConfig"]["InstanceType"]
    assert instance_type == "ml.g5.xlarge", instance_type
    return f"trained on {instance_type}"


@claim(1)
def isolation(trial: Trial) -> str:
    """IAM allows no job of one workload to read or write another's objects."""
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


@claim(1, minutes=10)
def topic(trial: Trial) -> str:
    """An alarm reaches the topic, which is encrypted."""
    resources = trial.client("cloudformation").describe_stack_resources(
        StackName=trial.names.foundation_stack
    )["StackResources"]
    types = {each["ResourceType"]: each["PhysicalResourceId"] for each in resources}
    alarm = types["AWS::CloudWatch::Alarm"]
    history = "cloudwatch describe_alarm_history AlarmHistoryItems[].HistorySummary"
    _sound(trial, alarm, "ALARM")
    (said, *_) = trial.until(
        "the alarm's action",
        5,
        lambda: trial.listed(history, AlarmName=alarm, HistoryItemType="Action"),
    )
    _sound(trial, alarm, "OK")
    assert said.startswith("Successfully"), said
    return str(said)


@claim(7, usd=1.4, minutes=45)
def approval(trial: Trial) -> str:
    """An approval brings up the endpoint."""
    _decide(trial, "approve", f"{WORKLOAD}/1")
    return _serves(trial, 1)


@claim(11, usd=0.05)
def answers(trial: Trial) -> str:
    """The endpoint answers with the handler's scores."""
    answer = trial.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=trial.names.endpoint(WORKLOAD),
        ContentType="application/json",
        Body=json.dumps({"inputs": ["ship harbour captain"]}),
    )
    said = answer["Body"].read().decode("utf-8")
    scores = json.loads(said)[0]["scores"]
    assert scores.keys() == {"sea", "bank"}, said
    assert abs(sum(scores.values()) - 1.0) < 1e-3, said
    return said


@claim(11, usd=0.1, minutes=100)
def rejection(trial: Trial) -> str:
    """A version that is approved later replaces it; when that is rejected, the one before it comes
    back."""
    _decide(trial, "approve", f"{WORKLOAD}/2")
    _serves(trial, 2)
    _decide(trial, "reject", f"{WORKLOAD}/2")
    return f"again {_serves(trial, 1)}"


@claim(13, usd=0.1, minutes=80)
def rollback(trial: Trial) -> str:
    """An alarm takes a new version back, and the version is rejected."""
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


@claim(1, usd=1.2, minutes=120)
def batch(trial: Trial) -> str:
    """An approval starts the batch transform of the requests that lie there."""
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


@claim(1, usd=0.1, minutes=30)
def overlap(trial: Trial) -> str:
    """Two executions do not overlap: the second is stopped."""
    first, second = _started(trial), _started(trial)
    trial.until("the end of the second", 10, lambda: _status(trial) == "Stopped")
    _stop(trial, first)
    return f"{second} was stopped, and {first} went on"


@claim(1, usd=0.1, minutes=60)
def schedule(trial: Trial) -> str:
    """A schedule starts an execution."""
    due, known = datetime.now(UTC) + timedelta(minutes=20), _executions(trial)
    cron = f'expression = "cron({due.minute} {due.hour} * * ? *)"\ntimezone = "UTC"'
    trial.declare(new=f"\n[schedule]\n{cron}\nenabled = true\n")
    trial.make("deploy", UNASKED)
    _begun(trial, known, 40)
    _stop(trial, trial.execution)
    return f"for {due:%H:%M} UTC"


@claim(3, usd=0.1, minutes=30)
def month(trial: Trial) -> str:
    """An execution that the month's budget does not allow is stopped before a job begins."""
    function = trial.client("lambda").get_function_configuration(
        FunctionName=trial.names.function(WORKLOAD, "keeper")
    )
    most = json.loads(function["Environment"]["Variables"]["LIMITS"])["most_usd"]
    trial.declare("month_usd = 50.0", f"month_usd = {most + 0.01:.2f}")
    trial.make("deploy", UNASKED)
    _started(trial)
    trial.until("its end", 15, lambda: _status(trial) == "Stopped")
    ran = [
        step["StepName"]
        for step in _steps(trial)
        if step["StepStatus"] == "Succeeded" and "CacheHitResult" not in step
    ]
    assert not ran, f"stopped after {ran}"
    return f"another {most:.2f} USD were too many"


@claim(11, usd=0.7, minutes=150)
def promotion(trial: Trial) -> str:
    """An approved model is promoted to the next stage, and waits there."""
    trial.make("deploy", UNASKED, stage="next")
    trial.compilegate("aws", "promote", f"{WORKLOAD}/1", stage="next")
    (package,) = trial.packages(f"{PROJECTS['next']}-{WORKLOAD}")
    assert package["ModelApprovalStatus"] == "PendingManualApproval", package
    return str(package["ModelPackageArn"])


@claim(1, minutes=20)
def leftover(trial: Trial) -> str:
    """The stack of a workload that is no longer declared is named and removed."""
    stack = trial.names.workload_stack(SECOND)
    (trial.path / "workloads" / f"{SECOND}.toml").unlink()
    for package in trial.packages(f"{PROJECTS['first']}-{SECOND}"):
        trial.sagemaker.delete_model_package(ModelPackageName=package["ModelPackageArn"])
    assert stack in trial.make("diff"), f"make diff does not name {stack}"
    trial.make("prune", "--force")
    assert stack not in trial.mine("stack"), f"make prune did not remove {stack}"
    return stack


@claim(minutes=90)
def destroy(trial: Trial) -> str:
    """`make destroy` removes every stack, once bucket and registry are empty."""
    problems = carry_out(trial.emptying())
    for stage in reversed(PROJECTS):
        trial.make("destroy", "--force", stage=stage)
    left = [name for name in trial.mine("stack") if not name.startswith("CDKToolkit")]
    assert not problems + left, "; ".join(problems + left)
    return "every stack but the bootstraps'"


@claim(minutes=60)
def nothing_left(trial: Trial) -> str:
    """Nothing is left, by name and by tag."""
    problems = carry_out(trial.finishing())
    with suppress(AssertionError):
        trial.until("the end of all that was made", 45, lambda: not trial.things())
    left = trial.things()
    assert not left, "; ".join([*left, *problems])
    return "nothing"


REMOVAL = (destroy, nothing_left)
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
    jobs = [step["Metadata"]["TrainingJob"] for step in _steps(trial)
            if "TrainingJob" in step.get("Metadata", {})]  # fmt: skip
    name = jobs[0]["Arn"].rpartition("/")[2]
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
