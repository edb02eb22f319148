"""What the stacks say, and what holds between them."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.infra.assembly import ACCOUNT, REGION, Assembly

GOLDEN = Path(__file__).with_name("golden")
STACKS = ("foundation", "images", "workload-topics", "workload-watched", "ci")
FOUNDATION, IMAGES = "compilegate-foundation", "compilegate-images"
WORKLOAD = "compilegate-workload-topics"

DIGEST = re.compile(r"\b(?:[0-9a-f]{64}|[0-9a-f]{32})\b")
"""Of code and of raw data: it changes with every line of the programs."""


@pytest.mark.slow
@pytest.mark.parametrize("stack", STACKS)
def test_the_template_is_the_golden_one(stack: str, assembly: Assembly) -> None:
    """`UPDATE_GOLDEN=1` writes it anew; read the difference."""
    text = normalised(assembly.templates[f"compilegate-{stack}"])
    golden = GOLDEN / f"{stack}.template.json"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def normalised(template: dict[str, Any]) -> str:
    """Without digests of programs, and without the definition, which has a golden file itself."""
    template = json.loads(json.dumps(template))
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::SageMaker::Pipeline":
            body = resource["Properties"]["PipelineDefinition"]["PipelineDefinitionBody"]
            body["Fn::Sub"][0] = "(the definition)"
    for part in ("Parameters", "Rules"):  # the CDK's own: which bootstrap it needs
        template.pop(part)
    return DIGEST.sub("DIGEST", json.dumps(template, indent=1, sort_keys=True)) + "\n"


@pytest.mark.slow
def test_two_deployments_in_one_account_share_no_name(assembly: Assembly) -> None:
    given = Counter(
        (resource.type, resource.name)
        for resource in assembly.all_resources()
        if resource.name != resource.logical_id and resource.type != "AWS::Lambda::Permission"
    )
    assert len(given) >= 40
    assert [name for name, times in given.items() if times > 1] == []


@pytest.mark.slow
def test_every_resource_is_tagged_with_its_deployment(assembly: Assembly) -> None:
    wrong = [
        (resource.stack, resource.logical_id)
        for resource in assembly.all_resources()
        if "Tags" in resource.properties
        and resource.type != "AWS::Scheduler::Schedule"
        and _tags(resource.properties["Tags"])["compilegate:project"]
        != resource.stack.split("-")[0]
    ]
    assert wrong == []
    function = assembly.one("neighbour-workload-topics", "AWS::Lambda::Function", "Notifier")
    assert _tags(function.properties["Tags"]) == {
        "compilegate:project": "neighbour",
        "compilegate:workload": "topics",
        "owner": "ml-platform",
    }


def _tags(tags: Any) -> dict[str, str]:
    return tags if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}


@pytest.mark.slow
def test_the_foundation_says_what_the_client_looks_for(assembly: Assembly) -> None:
    outputs = assembly.outputs(FOUNDATION)
    assert outputs.keys() == {
        "BucketName",
        "KeyArn",
        "NotificationTopicArn",
        "RepositoryUriTraining",
        "RepositoryUriGate",
    }
    assert outputs["BucketName"] == f"compilegate-{ACCOUNT}-{REGION}"
    registry = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
    assert outputs["RepositoryUriTraining"] == f"{registry}/compilegate/training"


@pytest.mark.slow
def test_the_schedule_starts_the_pipeline_with_its_parameters(assembly: Assembly) -> None:
    outputs = assembly.outputs(WORKLOAD)
    schedule = assembly.one(WORKLOAD, "AWS::Scheduler::Schedule")
    target = schedule.properties["Target"]
    assert target["Arn"] == outputs["PipelineArn"]
    assert outputs["ScheduleName"] == schedule.name == "compilegate-topics"
    assert schedule.properties["ScheduleExpression"] == "cron(0 6 ? * MON *)"
    assert schedule.properties["ScheduleExpressionTimezone"] == "Europe/Paris"
    assert schedule.properties["State"] == "ENABLED"
    assert target["SageMakerPipelineParameters"]["PipelineParameterList"] == [
        {"Name": "ModelApprovalStatus", "Value": "PendingManualApproval"}
    ]
    assert target["DeadLetterConfig"]["Arn"] == assembly.one(WORKLOAD, "AWS::SQS::Queue").arn
    assert target["RetryPolicy"] == {"MaximumRetryAttempts": 3, "MaximumEventAgeInSeconds": 3600}


@pytest.mark.slow
def test_what_is_kept_is_what_the_settings_say(assembly: Assembly) -> None:
    def kept(project: str) -> set[str]:
        return {
            resource["Type"]
            for stack, template in assembly.templates.items()
            if stack.startswith(f"{project}-")
            for resource in template["Resources"].values()
            if resource.get("DeletionPolicy") == "RetainExceptOnCreate"
        }

    assert kept("compilegate") == {
        "AWS::DynamoDB::Table",
        "AWS::ECR::Repository",
        "AWS::KMS::Key",
        "AWS::S3::Bucket",
        "AWS::SageMaker::ModelPackageGroup",
    }
    assert kept("neighbour") == set()


@pytest.mark.slow
def test_an_image_folder_can_be_removed_again(assembly: Assembly) -> None:
    """CloudFormation removes no export that another stack imports, and the foundation is deployed
    before the stacks that would import the export of a removed folder's repository."""
    exported = [
        output["Value"]
        for output in assembly.templates[FOUNDATION]["Outputs"].values()
        if "Export" in output
    ]
    assert len(exported) == 3
    assert "AWS::ECR::Repository" not in {
        assembly.templates[FOUNDATION]["Resources"][next(iter(value.values()))[0]]["Type"]
        for value in exported
        if "Fn::GetAtt" in value
    }


@pytest.mark.slow
def test_without_workloads_the_foundation_exports_what_their_stacks_may_still_import(
    assembly: Assembly,
) -> None:
    from dataclasses import replace  # noqa: PLC0415

    from aws_cdk import App, Environment  # noqa: PLC0415
    from aws_cdk.assertions import Template  # noqa: PLC0415

    from compilegate.infra.foundation import FoundationStack  # noqa: PLC0415
    from compilegate.infra.project import read_project  # noqa: PLC0415

    def exports(outputs: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in outputs.items() if "Export" in value}

    project = replace(read_project(Path(__file__).with_name("project")), workloads=[])
    environment = Environment(account=ACCOUNT, region=REGION)
    alone = FoundationStack(App(), FOUNDATION, project=project, env=environment)
    made = Template.from_stack(alone).to_json()["Outputs"]
    assert exports(made) == exports(assembly.templates[FOUNDATION]["Outputs"])


@pytest.mark.slow
def test_a_key_that_an_earlier_deployment_kept_is_used_again() -> None:
    from dataclasses import replace  # noqa: PLC0415

    from aws_cdk import App, Environment  # noqa: PLC0415
    from aws_cdk.assertions import Template  # noqa: PLC0415

    from compilegate.account.settings import Settings  # noqa: PLC0415
    from compilegate.infra.foundation import FoundationStack  # noqa: PLC0415
    from compilegate.infra.project import read_project  # noqa: PLC0415

    key = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/01234567-89ab-cdef-0123-456789abcdef"
    project = read_project(Path(__file__).with_name("project"))
    settings = Settings.model_validate({"storage": {"key_arn": key}})
    stack = FoundationStack(
        App(),
        FOUNDATION,
        project=replace(project, settings=settings),
        env=Environment(account=ACCOUNT, region=REGION),
    )
    template = Template.from_stack(stack).to_json()
    resources = template["Resources"].values()
    assert "AWS::KMS::Key" not in {resource["Type"] for resource in resources}
    (alias,) = (item for item in resources if item["Type"] == "AWS::KMS::Alias")
    assert alias["Properties"] == {"AliasName": "alias/compilegate", "TargetKeyId": key}
    assert template["Outputs"]["KeyArn"]["Value"] == key
    encrypted = {"AWS::ECR::Repository", "AWS::S3::Bucket", "AWS::SNS::Topic"}
    assert encrypted <= {item["Type"] for item in resources}
    assert all(key in json.dumps(item) for item in resources if item["Type"] in encrypted)


@pytest.mark.slow
def test_registered_models_never_expire(assembly: Assembly) -> None:
    bucket = assembly.one(FOUNDATION, "AWS::S3::Bucket")
    expiring = {
        rule["Prefix"]: rule["ExpirationInDays"]
        for rule in bucket.properties["LifecycleConfiguration"]["Rules"]
        if "ExpirationInDays" in rule
    }
    assert expiring == {
        "compilegate/workloads/topics/checkpoints/": 365,
        "compilegate/workloads/topics/executions/": 365,
        "compilegate/workloads/topics/training/": 365,
        "compilegate/workloads/watched/checkpoints/": 365,
        "compilegate/workloads/watched/executions/": 365,
        "compilegate/workloads/watched/training/": 365,
    }


@pytest.mark.slow
def test_every_alarm_may_be_sent_through_the_encrypted_topic(assembly: Assembly) -> None:
    """Topic and key take messages of alarms by the beginning of their names: a name apart from it
    would be an alarm that nobody hears."""
    alarms = assembly.resources(WORKLOAD, "AWS::CloudWatch::Alarm")
    topic = assembly.one(FOUNDATION, "AWS::SNS::Topic")
    assert {alarm.name for alarm in alarms} == {
        "compilegate-topics-failed",
        "compilegate-topics-notifier",
        "compilegate-topics-starter",
        "compilegate-topics-undelivered",
    }
    assert {tuple(alarm.properties["AlarmActions"]) for alarm in alarms} == {(topic.arn,)}


@pytest.mark.slow
def test_jobs_of_a_vpc_run_in_it(assembly: Assembly) -> None:
    stack = "neighbour-workload-topics"
    body = assembly.one(stack, "AWS::SageMaker::Pipeline").properties["PipelineDefinition"]
    steps = json.loads(body["PipelineDefinitionBody"])["Steps"]
    train = next(step for step in steps if step["Type"] == "Training")["Arguments"]
    assert train["VpcConfig"] == {
        "Subnets": ["subnet-0123456789abcdef0"],
        "SecurityGroupIds": ["sg-0123456789abcdef0"],
    }
    assert train["EnableNetworkIsolation"] is True
    role = assembly.one("neighbour-workload-topics", "AWS::IAM::Role", "JobsTrainingRole")
    assert "JoinVpc" in json.dumps(role.properties["Policies"])
