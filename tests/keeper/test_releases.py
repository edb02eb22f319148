"""What people approve, and what is deployed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compilegate.infra.keeper import subscriptions
from tests.keeper.account import BUCKET, STACK, Account

pytestmark = pytest.mark.slow
ROLLED_BACK = "UPDATE_ROLLBACK_COMPLETE"
ALARM = "arn:aws:cloudwatch:us-east-1:123456789012:alarm:"
ALARMS = [f"{ALARM}{STACK}-{kind}" for kind in ("errors", "latency")]
TEMPLATE = {
    "Parameters": {
        "Version": {"Type": "String", "Default": "0"},
        "Other": {"Type": "String", "Default": "kept"},
    },
    "Resources": {"Always": {"Type": "AWS::SNS::Topic"}},
}
BATCH = {
    "name": "trial-topics",
    "content_type": "application/json",
    "instance_type": "ml.g5.xlarge",
    "instance_count": 1,
    "input": f"s3://{BUCKET}/requests/topics/",
    "output": f"s3://{BUCKET}/answers/topics/",
    "key_arn": "arn:aws:kms:us-east-1:123456789012:key/1",
    "role_arn": "arn:aws:iam::123456789012:role/serving",
    "subnets": [],
    "security_groups": [],
    "isolation": True,
}


class Endpoint(Account):
    """The account with an endpoint's stack that has no model yet."""

    def approved(self) -> str:
        """A version that is approved and answers; returns its ARN."""
        arn = self.register()
        assert "updating" in self.decide(arn, "Approved")
        self.ends()
        return arn

    def ends(self, how: str = "UPDATE_COMPLETE", reason: str = "") -> dict[str, Any]:
        """The stack's change ends, and its event comes."""
        self.aws.end_update(STACK, how, reason)
        return self.rests()

    def rests(self) -> dict[str, Any]:
        stack = self.stack()
        status = {"status": stack["StackStatus"], "status-reason": ""}
        detail = {"stack-id": stack["StackId"], "status-details": status}
        return self.event(subscriptions.STACK, "aws.cloudformation", detail)

    def stack(self) -> dict[str, Any]:
        found = self.aws.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
        stack: dict[str, Any] = found[0]
        return stack

    def parameters(self) -> dict[str, str]:
        """What the stack was last given; `Version` is what answers."""
        return {one["ParameterKey"]: one["ParameterValue"] for one in self.stack()["Parameters"]}

    def answers_with(self) -> int:
        return int(self.parameters()["Version"])

    def updates(self) -> list[dict[str, str]]:
        return self.aws.calls("UpdateStack")


@pytest.fixture
def endpoint(account: Account, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    monkeypatch.setenv("ENDPOINT_STACK", STACK)
    monkeypatch.setenv("ENDPOINT_ALARMS", json.dumps(ALARMS))
    account.aws.client("cloudformation").create_stack(
        StackName=STACK, TemplateBody=json.dumps(TEMPLATE)
    )
    return Endpoint(account.aws, account.handler, account.pipeline_arn, account.queue)


def test_the_endpoint_answers_with_the_newest_approved_version(endpoint: Endpoint) -> None:
    first = endpoint.register()
    assert endpoint.hear_of(first, "PendingManualApproval")["endpoint"] == 0
    assert endpoint.decide(first, "Approved")["updating"] == 1
    assert endpoint.answers_with() == 0
    (update,) = endpoint.updates()
    assert update["UsePreviousTemplate"] == "true"
    triggers = "RollbackConfiguration.RollbackTriggers.member"
    assert [update[f"{triggers}.{number}.Arn"] for number in (1, 2)] == ALARMS
    assert update["RollbackConfiguration.MonitoringTimeInMinutes"] == "10"
    assert not any("Capabilities" in name or "TemplateBody" in name for name in update)
    assert endpoint.ends()["sent"] == ["[info] topics: version 1 answers"]
    assert endpoint.rests()["sent"] == [], "the same event twice tells nothing twice"
    older, newer = endpoint.register(), endpoint.register()
    endpoint.decide(newer, "Approved")
    endpoint.ends()
    assert endpoint.decide(older, "Approved")["endpoint"] == 3
    assert endpoint.parameters() == {"Version": "3", "Other": "kept"}


def test_rejecting_the_version_that_answers_brings_back_the_one_before(endpoint: Endpoint) -> None:
    first, second = endpoint.approved(), endpoint.approved()
    # An alarm that goes off already would keep the bad version.
    endpoint.aws.client("cloudwatch").put_metric_alarm(
        AlarmName=f"{STACK}-errors",
        EvaluationPeriods=2,
        ComparisonOperator="GreaterThanOrEqualToThreshold",
    )
    endpoint.aws.client("cloudwatch").set_alarm_state(
        AlarmName=f"{STACK}-errors", StateValue="ALARM", StateReason="errors"
    )
    assert endpoint.decide(second, "Rejected")["updating"] == 1
    update = endpoint.updates()[-1]
    assert [value for name, value in update.items() if name.endswith(".Arn")] == ALARMS[1:]
    endpoint.ends()
    assert endpoint.answers_with() == 1
    sent = endpoint.decide(first, "Rejected")["sent"]
    assert sent == ["[action needed] topics: no model is approved"]
    assert endpoint.answers_with() == 1, "an endpoint is not taken from those who call it"
    assert endpoint.look() == []


def test_a_version_that_was_rolled_back_is_rejected(endpoint: Endpoint) -> None:
    endpoint.approved()
    second = endpoint.register()
    endpoint.decide(second, "Approved")
    outcome = endpoint.ends(ROLLED_BACK, "the alarm errors went off")
    assert outcome["sent"] == ["[action needed] topics: version 2 was rolled back"]
    found = endpoint.described(second)
    assert found["ModelApprovalStatus"] == "Rejected"
    assert "the alarm errors went off" in found["ApprovalDescription"]
    assert "the alarm errors went off" in endpoint.messages()[-1]["Message"]
    assert endpoint.hear_of(second, "Rejected")["sent"] == []
    assert endpoint.look() == []
    assert len(endpoint.updates()) == 2
    assert endpoint.decide(second, "Approved")["updating"] == 2
    endpoint.ends()
    assert endpoint.answers_with() == 2


def test_approvals_during_a_change_wait_for_its_end(endpoint: Endpoint) -> None:
    endpoint.approved()
    second, third = endpoint.register(), endpoint.register()
    endpoint.decide(second, "Approved")
    assert endpoint.decide(third, "Approved") == {"endpoint": "UPDATE_IN_PROGRESS"}
    assert endpoint.ends(ROLLED_BACK, "version 2 was bad")["updating"] == 3
    endpoint.ends()
    assert endpoint.answers_with() == 3
    assert endpoint.described(third)["ModelApprovalStatus"] == "Approved"


def test_a_deployment_that_was_rolled_back_rejects_nothing(endpoint: Endpoint) -> None:
    first = endpoint.register()
    endpoint.aws.client("cloudformation").update_stack(
        StackName=STACK,
        UsePreviousTemplate=True,
        Parameters=[{"ParameterKey": "Other", "ParameterValue": "new"}],
        ClientRequestToken="cdk-1",
    )
    endpoint.decide(first, "Approved")
    assert endpoint.ends(ROLLED_BACK, "a quota")["updating"] == 1
    assert endpoint.described(first)["ModelApprovalStatus"] == "Approved"


def test_a_stack_that_cannot_go_back_is_reported_once(endpoint: Endpoint) -> None:
    endpoint.decide(endpoint.register(), "Approved")
    outcome = endpoint.ends("UPDATE_ROLLBACK_FAILED", "the key is gone")
    assert outcome["sent"] == ["[action needed] topics: the endpoint needs a person"]
    assert endpoint.rests()["sent"] == []
    assert len(endpoint.updates()) == 1


def test_an_approval_may_find_no_stack_or_a_busy_one(endpoint: Endpoint) -> None:
    endpoint.aws.fail("UpdateStack", "ValidationError", message="is in UPDATE_IN_PROGRESS", times=1)
    first = endpoint.register()
    assert "updating" in endpoint.decide(first, "Approved")
    assert endpoint.look() == []
    assert len(endpoint.updates()) == 2, "the look makes up for it"
    endpoint.aws.client("cloudformation").delete_stack(StackName=STACK)
    assert endpoint.hear_of(first, "Approved") == {"endpoint": "none"}


@pytest.mark.parametrize("volume_key", ["", BATCH["key_arn"]])
def test_an_approval_starts_one_batch_transform(
    account: Account, monkeypatch: pytest.MonkeyPatch, volume_key: str
) -> None:
    monkeypatch.setenv("BATCH", json.dumps({**BATCH, "volume_key_arn": volume_key}))
    first = account.register()
    name = account.decide(first, "Approved")["transform"]
    assert account.hear_of(first, "Approved") == {"was started": name}
    other = account.hear_of(first, "Approved", changed=["CustomerMetadataProperties"])
    assert other == {"approved": 1}
    request, _ = account.aws.calls("CreateTransformJob")
    answers = f"s3://{BUCKET}/answers/topics/{name[14:]}/"
    assert request["TransformOutput"]["S3OutputPath"] == answers
    assert request["TransformResources"].get("VolumeKmsKeyId", "") == volume_key
    for each in (request, account.aws.calls("CreateModel")[0]):
        assert each["Tags"] == [{"Key": "compilegate:workload", "Value": "topics"}]
    failed: dict[str, Any] = {"TransformJobName": name, "TransformJobStatus": "Failed"}
    account.event(subscriptions.TRANSFORM, "aws.sagemaker", failed)
    sent = f"[action needed] topics: the batch transform {name} ended as Failed"
    assert account.subjects() == [sent]
