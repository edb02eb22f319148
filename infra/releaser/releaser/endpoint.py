"""The endpoint that answers with the model approved last, and what takes a bad one back.

A new model gets new machines beside the old ones, and SageMaker takes it back by itself when an
alarm of the endpoint goes off while it is watched
(https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails.html). That does not hold for
serverless endpoints, so there this function goes back to the configuration before when an alarm
comes within the first hour. What was taken back is not tried again until it is approved again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from releaser.approvals import Approval
from releaser.facts import Facts
from releaser.models import Models, once

VARIANT = "AllTraffic"
WATCHED_SECONDS = 3600
"""For so long after a serverless endpoint has a new model, an alarm takes it back."""
IN_SERVICE, FAILED, STUCK = "InService", "Failed", "UpdateRollbackFailed"
ARRIVED, TAKEN_BACK = "in service", "taken back"
_LAST = "deployments/last"


class DeletingError(Exception):
    """An endpoint that failed is being deleted; Lambda calls again in a minute."""


@dataclass(frozen=True)
class Told:
    """What came of a call, and what people should hear of it."""

    came: dict[str, str]
    subject: str = ""
    message: str = ""


@dataclass(frozen=True)
class Endpoint:
    """One endpoint."""

    sagemaker: Any
    facts: Facts
    models: Models

    def follow(self, wanted: Approval | None) -> Told:
        """Bring the endpoint nearer to the model that should answer."""
        there = self._described()
        if wanted is None or there is None:
            return self._without(wanted, there)
        if there["EndpointStatus"] not in {IN_SERVICE, FAILED, STUCK}:
            return Told({"endpoint": there["EndpointStatus"]})
        tried = self.facts.read(_attempt(wanted))
        ended = None if tried is None else tried.get("ended")
        if self._has(there, wanted) and ended is None:
            return self._arrived(wanted, tried or {"config": self.models.configuration(wanted)})
        if ended == TAKEN_BACK or self._has(there, wanted):
            return Told({"endpoint": str(ended)})
        # What was in service before another model took its place may come back.
        if tried is None or ended == ARRIVED:
            return self._try(wanted, there)
        return self._refused(wanted, tried, there)

    def _without(self, wanted: Approval | None, there: Mapping[str, Any] | None) -> Told:
        """No endpoint, or nothing that it should answer with."""
        if wanted is not None:
            return self._create(wanted)
        return Told({"endpoint": "none"}) if there is None else self._orphan()

    def _try(self, wanted: Approval, there: Mapping[str, Any]) -> Told:
        """An endpoint that rests, and a model that was not tried on it."""
        name, status = self.models.serving.name, there["EndpointStatus"]
        if status == STUCK:
            return Told(
                {"endpoint": status},
                f"{name}: the endpoint needs a person",
                f"The endpoint {name} could not go back to the model before: "
                f"{there.get('FailureReason', 'no reason given')}. Delete it, and approve the "
                "model again.",
            )
        if status == FAILED:
            self.sagemaker.delete_endpoint(EndpointName=name)
            raise DeletingError(f"the endpoint {name} had failed and is being deleted")
        return self._update(wanted, before=there.get("EndpointConfigName", ""))

    def _has(self, there: Mapping[str, Any], wanted: Approval) -> bool:
        config = self.models.configuration(wanted)
        return there["EndpointStatus"] == IN_SERVICE and there.get("EndpointConfigName") == config

    def _orphan(self) -> Told:
        name = self.models.serving.name
        return Told(
            {"endpoint": "nothing is approved"},
            f"{name}: no model is approved",
            f"No model of this workload is approved now. The endpoint {name} still answers "
            "with the one that it has. Approve another, or end that with: aws sagemaker "
            f"delete-endpoint --endpoint-name {name}",
        )

    def alarmed(self, event: Mapping[str, Any]) -> Told:
        """An alarm of the endpoint went off."""
        serving = self.models.serving
        there, tried = self._described(), self.facts.read(_LAST)
        said = event["detail"].get("alarmName", "an alarm")
        if serving.deploy != "serverless" or there is None or tried is None:
            return Told({"alarm": said})
        new = (
            there["EndpointStatus"] == IN_SERVICE
            and there.get("EndpointConfigName") == tried["config"]
            and tried.get("ended") == ARRIVED
            and (_time(event["time"]) - _time(tried["since"])).total_seconds() <= WATCHED_SECONDS
        )
        if not new or not tried.get("before"):
            return Told({"alarm": said})
        self.sagemaker.update_endpoint(
            EndpointName=serving.name, EndpointConfigName=tried["before"]
        )
        self._end(tried, TAKEN_BACK)
        return Told(
            {"taken back": tried["config"]},
            f"{serving.name}: the new model was taken back",
            f"{said} went off within an hour of the deployment of {tried['config']}, so the "
            f"endpoint {serving.name} goes back to {tried['before']}. To try it again, reject and "
            "approve the model.",
        )

    def _create(self, wanted: Approval) -> Told:
        config, name = self._configure(wanted), self.models.serving.name
        self.sagemaker.create_endpoint(
            EndpointName=name, EndpointConfigName=config, Tags=self.models.serving.tags
        )
        self._begin(wanted, config, before="")
        return Told({"creating": config})

    def _update(self, wanted: Approval, *, before: str) -> Told:
        serving = self.models.serving
        config = self._configure(wanted)
        request: dict[str, Any] = {"EndpointName": serving.name, "EndpointConfigName": config}
        if serving.deploy == "real-time":
            request["DeploymentConfig"] = _guarded(serving.instance_count, serving.alarms)
        self.sagemaker.update_endpoint(**request)
        self._begin(wanted, config, before=before)
        return Told({"updating": config, "from": before})

    def _configure(self, wanted: Approval) -> str:
        serving = self.models.serving
        variant: dict[str, Any] = {"VariantName": VARIANT, "ModelName": self.models.make(wanted)}
        request: dict[str, Any] = {
            "EndpointConfigName": self.models.configuration(wanted),
            "ProductionVariants": [variant],
            "Tags": serving.tags,
        }
        if serving.deploy == "serverless":
            variant["ServerlessConfig"] = {
                "MemorySizeInMB": serving.memory_mb,
                "MaxConcurrency": serving.max_concurrency,
            }
        else:
            variant |= {
                "InstanceType": serving.instance_type,
                "InitialInstanceCount": serving.instance_count,
                "InitialVariantWeight": 1.0,
            }
            request["KmsKeyId"] = serving.key_arn
        once(self.sagemaker.create_endpoint_config, **request)
        return str(request["EndpointConfigName"])

    def _described(self) -> dict[str, Any] | None:
        name = self.models.serving.name
        try:
            found: dict[str, Any] = self.sagemaker.describe_endpoint(EndpointName=name)
        except ClientError as error:
            if "Could not find" in error.response["Error"].get("Message", ""):
                return None
            raise
        return found

    def _begin(self, wanted: Approval, config: str, *, before: str) -> None:
        """After the request: one that was interrupted here is found by what the endpoint has."""
        self.facts.write(_attempt(wanted), {"config": config, "before": before})

    def _arrived(self, wanted: Approval, tried: dict[str, Any]) -> Told:
        self._end({**tried, "attempt": _attempt(wanted), "since": _now()}, ARRIVED)
        name = self.models.serving.name
        return Told(
            {"in service": tried["config"]},
            f"{name}: version {wanted.version} answers",
            f"The endpoint {name} answers with version {wanted.version} ({tried['config']}), which "
            "was approved last.",
        )

    def _refused(self, wanted: Approval, tried: dict[str, Any], there: Mapping[str, Any]) -> Told:
        self._end({**tried, "attempt": _attempt(wanted)}, TAKEN_BACK)
        name, has = self.models.serving.name, there.get("EndpointConfigName") or "no configuration"
        return Told(
            {"taken back": tried["config"]},
            f"{name}: version {wanted.version} was not deployed",
            f"{tried['config']} did not reach the endpoint {name}: "
            f"{there.get('FailureReason', 'an alarm went off, or it did not start')}. The endpoint "
            f"is {there['EndpointStatus']} with {has}. To try it again, reject and approve the "
            "model.",
        )

    def _end(self, tried: Mapping[str, Any], how: str) -> None:
        ended = {**tried, "ended": how}
        self.facts.write(_LAST, ended)
        self.facts.write(ended["attempt"], ended)


def _attempt(wanted: Approval) -> str:
    return f"deployments/{wanted.name}"


def _guarded(machines: int, alarms: tuple[str, ...]) -> dict[str, Any]:
    """One new machine answers first, where there are several; an alarm takes the new ones back."""
    routing: dict[str, Any] = {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 300}
    if machines > 1:
        routing["Type"] = "CANARY"
        routing["CanarySize"] = {"Type": "INSTANCE_COUNT", "Value": 1}
    return {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": routing,
            # The old machines stay for as long as an alarm may take to go off.
            "TerminationWaitInSeconds": 600,
            "MaximumExecutionTimeoutInSeconds": 3600,
        },
        "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": name} for name in alarms]},
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
