"""Failures and the gate's notices reach people once, in words they can act on."""

from __future__ import annotations

import json

import pytest

from tests.notifier.account import BUCKET, EXECUTION_CHANGED, STEP_CHANGED, Account

pytestmark = pytest.mark.slow

JOB = "arn:aws:sagemaker:us-east-1:123456789012:training-job/pipelines-abc-Train-fast-1"
FAILED = {
    "status": "Failed",
    "failure": "Step failure: One or multiple steps failed.",
    "at": 60,
    "steps": [
        {"StepName": "Prepare", "StepStatus": "Succeeded", "Metadata": {"ProcessingJob": {}}},
        {
            "StepName": "Train-fast-1",
            "StepStatus": "Failed",
            "FailureReason": "ClientError: Job failed: AlgorithmError: ExecuteUserScriptError:\n"
            "ValueError: the label mystery is unknown",
            "Metadata": {"TrainingJob": {"Arn": JOB}},
        },
        {"StepName": "Train-fast-2", "StepStatus": "Stopped"},
    ],
}
NOTICE = {
    "schema_version": 1,
    "workload": "topics",
    "send": True,
    "subject": "topics: baseline released, fast refused",
    "message": "Release baseline, seed 1.\n\nfast was refused.\n",
}


def gate_job(account: Account, notice: object) -> str:
    """A gate's job that has ended, with what it wrote in the bucket; returns its ARN."""
    key = "compilegate/workloads/topics/verdicts/abc"
    account.aws.client("s3").put_object(
        Bucket=BUCKET, Key=f"{key}/notice.json", Body=json.dumps(notice).encode()
    )
    arn: str = account.aws.client("sagemaker").create_processing_job(
        ProcessingJobName="pipelines-abc-Gate-1",
        RoleArn="arn:aws:iam::123456789012:role/processing",
        AppSpecification={"ImageUri": "gate"},
        ProcessingResources={
            "ClusterConfig": {
                "InstanceCount": 1,
                "InstanceType": "ml.m5.xlarge",
                "VolumeSizeInGB": 10,
            }
        },
        ProcessingOutputConfig={
            "Outputs": [
                {
                    "OutputName": "verdict",
                    "S3Output": {
                        "S3Uri": f"s3://{BUCKET}/{key}",
                        "LocalPath": "/opt/ml/processing/output/verdict",
                        "S3UploadMode": "EndOfJob",
                    },
                }
            ]
        },
    )["ProcessingJobArn"]
    return arn


def test_a_failure_names_the_step_its_last_lines_its_log_and_what_to_do(account):
    arn = account.start([FAILED])
    account.becomes(arn, "Failed")
    (said,) = account.messages()
    assert said["Subject"] == f"topics: execution {arn[-12:]} failed at Train-fast-1"
    text = said["Message"]
    assert "Train-fast-1 (TrainingJob)" in text
    assert "    ValueError: the label mystery is unknown" in text
    assert "/jobs/pipelines-abc-Train-fast-1" in text
    assert (
        "#logsV2:log-groups/log-group/$252Faws$252Fsagemaker$252FTrainingJobs"
        "$3FlogStreamNameFilter$3Dpipelines-abc-Train-fast-1$252F" in text
    )
    assert f"compilegate aws watch {arn}" in text
    assert "Train-fast-2" not in text
    assert "Prepare" not in text


def test_a_failure_is_said_once_and_that_of_a_retry_again(account):
    arn = account.start([FAILED, FAILED, {**FAILED, "at": 900}])
    for _ in range(3):
        account.becomes(arn, "Failed")
    assert len(account.messages()) == 2


def test_a_failure_without_a_failed_step_tells_what_the_service_says(account):
    arn = account.start([{"status": "Failed", "failure": "Role cannot be assumed."}])
    account.becomes(arn, "Failed")
    assert "The service says: Role cannot be assumed." in account.messages()[0]["Message"]


def test_a_decision_that_nothing_is_sound_is_told_as_a_decision(account):
    fail_step = {
        "StepName": "Reject",
        "StepStatus": "Failed",
        "Metadata": {"Fail": {"ErrorMessage": "No model is sound."}},
    }
    account.becomes(account.start([{"status": "Failed", "steps": [fail_step]}]), "Failed")
    text = account.messages()[0]["Message"]
    assert "    No model is sound." in text
    assert "The gate registered no model; its report says why" in text


def test_a_failure_that_could_not_be_published_is_said_when_it_is_delivered_again(account):
    arn = account.start([FAILED])
    account.aws.fail("Publish", "InternalError", times=1)
    with pytest.raises(Exception, match="InternalError"):
        account.becomes(arn, "Failed")
    assert account.messages() == []
    account.becomes(arn, "Failed")
    assert len(account.messages()) == 1


def test_the_gates_notice_is_forwarded_once_with_where_the_report_is(account):
    arn = account.start()
    job = gate_job(account, NOTICE)
    for _ in range(2):
        account.gate_succeeds(arn, job)
    (said,) = account.messages()
    assert said["Subject"] == "topics: baseline released, fast refused"
    assert said["Message"].startswith("Release baseline, seed 1.\n\nfast was refused.\n")
    report = f"s3://{BUCKET}/compilegate/workloads/topics/verdicts/abc/report.html"
    assert f"aws s3 cp {report} ." in said["Message"]


def test_a_notice_of_a_pass_stays_in_the_bucket(account):
    account.gate_succeeds(account.start(), gate_job(account, {**NOTICE, "send": False}))
    assert account.messages() == []


def test_what_was_said_is_kept_under_the_workloads_notices(account):
    account.gate_succeeds(account.start(), gate_job(account, NOTICE))
    objects = account.aws.client("s3").list_objects_v2(
        Bucket=BUCKET, Prefix="compilegate/workloads/topics/notices/"
    )["Contents"]
    (key,) = [item["Key"] for item in objects]
    kept = json.load(account.aws.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"])
    assert kept["subject"] == account.messages()[0]["Subject"]


@pytest.mark.parametrize("broken", [{}, [], {**NOTICE, "send": "yes"}])
def test_a_notice_that_cannot_be_read_is_an_error_that_names_it(account, broken):
    job = gate_job(account, broken)
    with pytest.raises(Exception, match=r"s3://models/.*/abc/notice\.json is not a notice"):
        account.gate_succeeds(account.start(), job)


CARD = '{"model_overview": {"model_creator": "Workload topics"}}'


def register(account: Account, **metadata: str) -> str:
    """A model that an execution has registered; returns its ARN."""
    sagemaker = account.aws.client("sagemaker")
    sagemaker.create_model_package_group(ModelPackageGroupName="topics")
    model: str = sagemaker.create_model_package(
        ModelPackageGroupName="topics",
        ModelApprovalStatus="PendingManualApproval",
        CustomerMetadataProperties={"arm": "fast", **metadata},
    )["ModelPackageArn"]
    return model


def registers(account: Account, model: str) -> list[str]:
    """An execution whose step has registered it, and the event of that."""
    step = {
        "StepName": "Register-fast",
        "StepStatus": "Succeeded",
        "Metadata": {"RegisterModel": {"Arn": model}},
    }
    arn = account.start([{"status": "Executing", "steps": [step]}])
    detail = {
        "pipelineExecutionArn": arn,
        "stepName": "Register-fast",
        "stepType": "RegisterModel",
        "currentStepStatus": "Succeeded",
    }
    return account.deliver(STEP_CHANGED, detail)


def test_a_registered_model_gets_the_card_that_the_gate_has_written(account):
    key = "compilegate/workloads/topics/verdicts/abc/model_card.json"
    account.aws.client("s3").put_object(Bucket=BUCKET, Key=key, Body=CARD.encode())
    model = register(account, model_card=f"s3://{BUCKET}/{key}")
    assert registers(account, model) == [], "of which nobody is told"
    (asked,) = account.aws.calls("UpdateModelPackage")
    assert asked == {
        "ModelPackageArn": model,
        "ModelCard": {"ModelCardContent": CARD, "ModelCardStatus": "PendingReview"},
    }
    there = account.aws.client("sagemaker").describe_model_package(ModelPackageName=model)
    assert there["ModelApprovalStatus"] == "PendingManualApproval"


def test_a_model_that_names_no_card_is_left_alone(account):
    registers(account, register(account))
    assert account.aws.calls("UpdateModelPackage") == []


def test_events_of_other_pipelines_steps_and_states_are_nobodys_business(account):
    arn = account.start([FAILED])
    other = "arn:aws:sagemaker:us-east-1:123456789012:pipeline/other"
    failed = {"pipelineExecutionArn": arn, "currentPipelineExecutionStatus": "Failed"}
    assert account.deliver(EXECUTION_CHANGED, {**failed, "pipelineArn": other}) == []
    assert account.becomes(arn, "Succeeded") == []
    assert account.gate_succeeds(arn, "arn:of:nothing", step="Prepare") == []
    assert account.deliver("SageMaker Training Job State Change", failed) == []
    assert account.messages() == []


def test_an_environment_without_its_variables_is_named(account, monkeypatch):
    monkeypatch.delenv("TOPIC_ARN")
    with pytest.raises(Exception, match="the environment lacks TOPIC_ARN"):
        account.becomes(account.start(), "Failed")
