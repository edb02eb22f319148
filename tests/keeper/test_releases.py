"""What people approve, and what is deployed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compilegate.infra.keeper import events
from tests.keeper.account import ALARMS, BUCKET, GROUP, STACK, Account

pytestmark = pytest.mark.slow
ROLLED_BACK = "UPDATE_ROLLBACK_COMPLETE"
ROLE = "arn:aws:iam::123456789012:role/serving"
PACKAGES = f"arn:aws:sagemaker:us-east-1:123456789012:model-package/{GROUP}/"
NAME = {"Fn::Join": ["", ["trial-topics--", {"Ref": "Version"}]]}


def made(kind: str, **properties: Any) -> dict[str, Any]:
    """A resource of the endpoint's stack."""
    return {"Type": f"AWS::SageMaker::{kind}", "Condition": "HasModel", "Properties": properties}


TEMPLATE = {
    "Parameters": {
        "Version": {"Type": "String", "Default": "0"},
        "Other": {"Type": "String", "Default": "kept"},
    },
    "Conditions": {"HasModel": {"Fn::Not": [{"Fn::Equals": [{"Ref": "Version"}, "0"]}]}},
    "Resources": {
        "Always": {"Type": "AWS::SNS::Topic"},
        "Model": made(
            "Model",
            ModelName=NAME,
            ExecutionRoleArn=ROLE,
            Containers=[{"ModelPackageName": {"Fn::Join": ["", [PACKAGES, {"Ref": "Version"}]]}}],
        ),
        "Configuration": made(
            "EndpointConfig",
            EndpointConfigName=NAME,
            ProductionVariants=[
                {
                    "VariantName": "AllTraffic",
                    "ModelName": {"Fn::GetAtt": ["Model", "ModelName"]},
                    "InstanceType": "ml.m5.large",
                    "InitialInstanceCount": 1,
                }
            ],
        ),
        "Endpoint": made(
            "Endpoint",
            EndpointName="trial-topics",
            EndpointConfigName={"Fn::GetAtt": ["Configuration", "EndpointConfigName"]},
        ),
    },
}
BATCH = {
    "name": "trial-topics",
    "content_type": "application/json",
    "instance_type": "ml.g5.xlarge",
    "instance_count": 1,
    "input": f"s3://{BUCKET}/requests/topics/",
    "output": f"s3://{BUCKET}/answers/topics/",
    "key_arn": "arn:aws:kms:us-east-1:123456789012:key/1",
    "volume_key_arn": "",
    "role_arn": ROLE,
    "subnets": [],
    "security_groups": [],
    "isolation": True,
}


@pytest.fixture
def endpoint(account: Account, monkeypatch: pytest.MonkeyPatch) -> Account:
    """With a stack that has no model yet, and its alarms."""
    monkeypatch.setenv("ENDPOINT_STACK", STACK)
    monkeypatch.setenv("ENDPOINT_ALARMS", json.dumps(ALARMS))
    account.aws.client("cloudformation").create_stack(
        StackName=STACK, TemplateBody=json.dumps(TEMPLATE)
    )
    for arn in ALARMS:
        account.aws.client("cloudwatch").put_metric_alarm(
            AlarmName=arn.rpartition(":")[2],
            EvaluationPeriods=2,
            Threshold=1,
            ComparisonOperator="GreaterThanOrEqualToThreshold",
            MetricName="Invocation5XXErrors",
            Namespace="AWS/SageMaker",
            Period=60,
            Statistic="Sum",
        )
    return account


def approved(account: Account) -> str:
    """A version that is approved and answers; returns its ARN."""
    arn = account.register()
    assert "updating" in account.decide(arn, "Approved")
    account.stack_ends()
    return arn


def updates(account: Account) -> list[dict[str, str]]:
    return account.aws.calls("UpdateStack")


def test_the_endpoint_answers_with_the_newest_approved_version(endpoint: Account) -> None:
    first = endpoint.register()
    assert endpoint.hear_of(first, "PendingManualApproval")["endpoint"] == 0
    assert endpoint.decide(first, "Approved")["updating"] == 1
    assert endpoint.answers_with() == 0
    (update,) = updates(endpoint)
    assert update["UsePreviousTemplate"] == "true"
    triggers = "RollbackConfiguration.RollbackTriggers.member"
    assert [update[f"{triggers}.{number}.Arn"] for number in (1, 2)] == ALARMS
    assert update["RollbackConfiguration.MonitoringTimeInMinutes"] == "10"
    assert not any("Capabilities" in name or "TemplateBody" in name for name in update)
    assert endpoint.stack_ends()["sent"] == ["[info] topics: version 1 answers"]
    assert endpoint.stack_rests()["sent"] == [], "the same event twice tells nothing twice"
    assert endpoint.answers_with() == 1
    older, newer = endpoint.register(), endpoint.register()
    endpoint.decide(newer, "Approved")
    endpoint.stack_ends()
    assert endpoint.decide(older, "Approved")["endpoint"] == 3
    assert endpoint.answers_with() == 3
    assert {
        one["ParameterKey"]: one["ParameterValue"] for one in endpoint.stack()["Parameters"]
    } == {
        "Version": "3",
        "Other": "kept",
    }


def test_rejecting_the_version_that_answers_brings_back_the_one_before(endpoint: Account) -> None:
    first, second = approved(endpoint), approved(endpoint)
    assert endpoint.decide(second, "Rejected")["updating"] == 1
    endpoint.stack_ends()
    assert endpoint.answers_with() == 1
    said = endpoint.decide(first, "Rejected")["sent"]
    assert said == ["[action needed] topics: no model is approved"]
    assert endpoint.answers_with() == 1, "an endpoint is not taken from those who call it"
    assert endpoint.look() == []


def test_a_version_that_was_rolled_back_is_rejected(endpoint: Account) -> None:
    approved(endpoint)
    second = endpoint.register()
    endpoint.decide(second, "Approved")
    came = endpoint.stack_ends(ROLLED_BACK, "the alarm errors went off")
    assert came["sent"] == ["[action needed] topics: version 2 was rolled back"]
    found = endpoint.described(second)
    assert found["ModelApprovalStatus"] == "Rejected"
    assert "the alarm errors went off" in found["ApprovalDescription"]
    assert "the alarm errors went off" in endpoint.messages()[-1]["Message"]
    assert endpoint.hear_of(second, "Rejected")["sent"] == []
    assert endpoint.look() == []
    assert len(updates(endpoint)) == 2
    assert endpoint.decide(second, "Approved")["updating"] == 2
    endpoint.stack_ends()
    assert endpoint.answers_with() == 2


def test_approvals_during_a_change_wait_for_its_end(endpoint: Account) -> None:
    approved(endpoint)
    second, third = endpoint.register(), endpoint.register()
    endpoint.decide(second, "Approved")
    assert endpoint.decide(third, "Approved") == {"endpoint": "UPDATE_IN_PROGRESS"}
    assert endpoint.stack_ends(ROLLED_BACK, "version 2 was bad")["updating"] == 3
    endpoint.stack_ends()
    assert endpoint.answers_with() == 3
    assert endpoint.described(third)["ModelApprovalStatus"] == "Approved"


def test_a_deployment_that_was_rolled_back_rejects_nothing(endpoint: Account) -> None:
    first = endpoint.register()
    endpoint.aws.client("cloudformation").update_stack(
        StackName=STACK,
        UsePreviousTemplate=True,
        Parameters=[{"ParameterKey": "Other", "ParameterValue": "new"}],
        ClientRequestToken="cdk-1",
    )
    endpoint.decide(first, "Approved")
    assert endpoint.stack_ends(ROLLED_BACK, "a quota")["updating"] == 1
    assert endpoint.described(first)["ModelApprovalStatus"] == "Approved"


def test_a_stack_that_cannot_go_back_needs_a_person_who_is_told_once(endpoint: Account) -> None:
    endpoint.decide(endpoint.register(), "Approved")
    came = endpoint.stack_ends("UPDATE_ROLLBACK_FAILED", "the key is gone")
    assert came["sent"] == ["[action needed] topics: the endpoint needs a person"]
    assert endpoint.stack_rests()["sent"] == []
    assert len(updates(endpoint)) == 1


def test_an_alarm_that_goes_off_already_does_not_keep_a_bad_version(endpoint: Account) -> None:
    _, second = approved(endpoint), approved(endpoint)
    endpoint.aws.client("cloudwatch").set_alarm_state(
        AlarmName=ALARMS[0].rpartition(":")[2], StateValue="ALARM", StateReason="errors"
    )
    endpoint.decide(second, "Rejected")
    triggers = [value for name, value in updates(endpoint)[-1].items() if name.endswith(".Arn")]
    assert triggers == [ALARMS[1]]


def test_an_approval_may_find_no_stack_or_a_busy_one(endpoint: Account) -> None:
    endpoint.aws.fail("UpdateStack", "ValidationError", message="is in UPDATE_IN_PROGRESS", times=1)
    first = endpoint.register()
    assert "updating" in endpoint.decide(first, "Approved")
    assert endpoint.answers_with() == 0
    assert endpoint.look() == []
    assert len(updates(endpoint)) == 2, "the look makes up for it"
    endpoint.aws.client("cloudformation").delete_stack(StackName=STACK)
    assert endpoint.hear_of(first, "Approved") == {"endpoint": "none"}


@pytest.mark.parametrize("volume_key", ["", BATCH["key_arn"]])
def test_an_approval_starts_one_batch_transform(
    account: Account, monkeypatch: pytest.MonkeyPatch, volume_key: str
) -> None:
    monkeypatch.setenv("BATCH", json.dumps({**BATCH, "volume_key_arn": volume_key}))
    first = account.register()
    name = account.decide(first, "Approved")["transform"]
    again = account.hear_of(first, "Approved", time="2026-11-23T10:01:00Z")
    assert again == {"was started": name}
    other = account.hear_of(first, "Approved", changed="CustomerMetadataProperties")
    assert other == {"approved": 1}
    request, _ = account.aws.calls("CreateTransformJob")
    assert (
        request["TransformOutput"]["S3OutputPath"] == f"s3://{BUCKET}/answers/topics/{name[14:]}/"
    )
    assert request["TransformResources"].get("VolumeKmsKeyId", "") == volume_key
    for each in (request, account.aws.calls("CreateModel")[0]):
        assert each["Tags"] == [{"Key": "compilegate:workload", "Value": "topics"}]
    failed: dict[str, Any] = {"TransformJobName": name, "TransformJobStatus": "Failed"}
    account.event(events.TRANSFORM, "aws.sagemaker", failed)
    assert account.subjects() == [
        f"[action needed] topics: the batch transform {name} ended as Failed"
    ]
