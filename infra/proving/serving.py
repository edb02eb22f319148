"""The proofs that decide about registered models, and look at what answers then."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from compilegate.account.errors import asking
from compilegate.infra.proving.account import Proving
from compilegate.infra.proving.commands import NotProvedError
from compilegate.infra.proving.executing import packages
from compilegate.infra.proving.folder import TOPICS, WORKLOAD

IN_SERVICE = "InService"
MINUTES = 15.0
"""A serverless endpoint takes some minutes to change."""
HEARD_SECONDS = 90.0
TRIAL = "a trial"


def package(proving: Proving) -> str:
    """A model of the service's made from a version of the registry."""
    (first, *_) = _versions(proving)
    name = f"{proving.pipeline}-from-package"
    role = _serving_role(proving)
    with asking("make a model from its package"):
        made = proving.client("sagemaker").create_model(
            ModelName=name,
            ExecutionRoleArn=role,
            Containers=[{"ModelPackageName": first["ModelPackageArn"]}],
        )
    return f"{made['ModelArn'].rpartition(':')[2]} was made from version 1"


def approval(proving: Proving) -> str:
    """The first version is approved, and answers."""
    (first, *_) = _versions(proving)
    _decide(proving, "approve", first)
    return f"in service with {_serves(proving, first)}"


def answers(proving: Proving) -> str:
    """The scores of one example."""
    with (proving.folder.path / "workloads" / "validation.csv").open(encoding="utf-8") as file:
        example = next(csv.DictReader(file))
    with asking("ask the endpoint for scores"):
        answer = proving.client("sagemaker-runtime").invoke_endpoint(
            EndpointName=proving.pipeline,
            ContentType="application/json",
            Body=json.dumps({"inputs": [example["text"]]}),
        )
    said = answer["Body"].read().decode("utf-8")
    try:
        (scored,) = json.loads(said)
        scores = {str(label): float(score) for label, score in scored["scores"].items()}
    except (KeyError, TypeError, ValueError) as error:
        raise NotProvedError(f"the endpoint answered {said[:200]!r}") from error
    if scores.keys() != TOPICS.keys() or abs(sum(scores.values()) - 1.0) > 1e-3:
        raise NotProvedError(f"the endpoint answered {scores}, allowed: a share for each topic")
    return f"{example['label']}: {scores}"


def rejection(proving: Proving) -> str:
    """The second version is approved and answers, is rejected, and the first answers again."""
    first, second, *_ = [*_versions(proving), None]
    if second is None or first is None:
        raise NotProvedError("there is one version, and no other to go back to")
    _decide(proving, "approve", second)
    _serves(proving, second)
    _decide(proving, "reject", second)
    return f"back to {_serves(proving, first)}"


def rollback(proving: Proving) -> str:
    """The second version is approved again, and an alarm goes off."""
    first, second, *_ = _versions(proving)
    _decide(proving, "approve", second)
    _serves(proving, second)
    # The releaser hears of it a moment later, and counts its hour from then on.
    proving.pause(HEARD_SECONDS)
    _sound(proving, "errors")
    try:
        return f"taken back to {_serves(proving, first)}"
    finally:
        _sound(proving, "errors", "OK")


def topic(proving: Proving) -> str:
    """The alarm's history says whether the topic, which is encrypted, took its message."""
    _sound(proving, "failed")
    name = f"{proving.pipeline}-failed"

    def look() -> str | None:
        with asking(f"read the history of {name}"):
            history = proving.client("cloudwatch").describe_alarm_history(
                AlarmName=name, HistoryItemType="Action"
            )["AlarmHistoryItems"]
        return next((str(item["HistorySummary"]) for item in history), None)

    said = proving.until("the alarm's action", 5, look)
    _sound(proving, "failed", "OK")
    if not said.startswith("Successfully"):
        raise NotProvedError(said)
    return said


def _versions(proving: Proving) -> list[Any]:
    found = packages(proving)
    if not found:
        raise NotProvedError("no model is registered")
    return list(found)


def _decide(proving: Proving, decision: str, version: Mapping[str, Any]) -> None:
    named = f"{WORKLOAD}/{version['ModelPackageVersion']}"
    proving.commands.compilegate("models", decision, named, "--aws", "--reason", TRIAL)


def _serves(proving: Proving, version: Mapping[str, Any]) -> str:
    """Waits until the endpoint answers with this version; returns its configuration's name."""
    sagemaker, name = proving.client("sagemaker"), proving.pipeline
    number = version["ModelPackageVersion"]

    def look() -> str | None:
        try:
            found = sagemaker.describe_endpoint(EndpointName=name)
        except ClientError as error:
            if "Could not find" in error.response["Error"].get("Message", ""):
                return None
            raise
        if found["EndpointStatus"] == "Failed":
            raise NotProvedError(f"{name} failed: {found.get('FailureReason', 'no reason given')}")
        config = str(found.get("EndpointConfigName", ""))
        mine = config.removeprefix(name).lstrip("-").startswith(f"{number}-")
        return config if found["EndpointStatus"] == IN_SERVICE and mine else None

    with asking(f"look at the endpoint {name}"):
        return proving.until(f"{name} in service with version {number}", MINUTES, look)


def _sound(proving: Proving, alarm: str, state: str = "ALARM") -> None:
    with asking(f"set the alarm {proving.pipeline}-{alarm}"):
        proving.client("cloudwatch").set_alarm_state(
            AlarmName=f"{proving.pipeline}-{alarm}", StateValue=state, StateReason=TRIAL
        )


def _serving_role(proving: Proving) -> str:
    """The role that the releaser gives to models."""
    variables = proving.client("lambda").get_function_configuration(
        FunctionName=proving.names.function(WORKLOAD, "releaser")
    )["Environment"]["Variables"]
    return str(json.loads(variables["SERVING"])["role_arn"])
