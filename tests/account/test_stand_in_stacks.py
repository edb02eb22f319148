"""The stand-in deploys stacks of the resource types that moto lacks."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.aws_server.client import AwsServer

pytestmark = pytest.mark.slow

ROLE = "arn:aws:iam::123456789012:role/any"
DENY = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": "*", "Action": "*"}]}
RESOURCES: dict[str, dict[str, Any]] = {
    "Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "kept"}},
    "BucketPolicy": {
        "Type": "AWS::S3::BucketPolicy",
        "Properties": {
            "Bucket": {"Ref": "Bucket"},
            "PolicyDocument": {
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Effect": "Deny",
                        "Principal": "*",
                        "Action": "s3:*",
                        "Resource": "*",
                        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                    }
                ],
            },
        },
    },
    "Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "failed-starts"}},
    "QueuePolicy": {
        "Type": "AWS::SQS::QueuePolicy",
        "Properties": {"Queues": [{"Ref": "Queue"}], "PolicyDocument": DENY},
    },
    "Topic": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "news"}},
    "TopicPolicy": {
        "Type": "AWS::SNS::TopicPolicy",
        "Properties": {"Topics": [{"Ref": "Topic"}], "PolicyDocument": DENY},
    },
    "Subscription": {
        "Type": "AWS::SNS::Subscription",
        "Properties": {
            "TopicArn": {"Ref": "Topic"},
            "Protocol": "email",
            "Endpoint": "a@b.example",
        },
    },
    "Alarm": {
        "Type": "AWS::CloudWatch::Alarm",
        "Properties": {
            "AlarmName": "starts-fail",
            "MetricName": "ApproximateNumberOfMessagesVisible",
            "Namespace": "AWS/SQS",
            "ComparisonOperator": "GreaterThanThreshold",
            "EvaluationPeriods": 1,
            "Period": 300,
            "Statistic": "Maximum",
            "Threshold": 0,
        },
    },
    "Project": {
        "Type": "AWS::CodeBuild::Project",
        "Properties": {
            "Name": "image",
            "ServiceRole": ROLE,
            "Artifacts": {"Type": "NO_ARTIFACTS"},
            "Environment": {
                "Type": "LINUX_CONTAINER",
                "Image": "aws/codebuild/standard:7.0",
                "ComputeType": "BUILD_GENERAL1_MEDIUM",
            },
            "Source": {"Type": "S3", "Location": "kept/image.zip", "BuildSpec": "{}"},
        },
    },
    "Provider": {
        "Type": "AWS::IAM::OIDCProvider",
        "Properties": {"Url": "https://token.example.com", "ClientIdList": ["sts.amazonaws.com"]},
    },
    "Models": {
        "Type": "AWS::SageMaker::ModelPackageGroup",
        "Properties": {"ModelPackageGroupName": "topics"},
    },
    "Pipeline": {
        "Type": "AWS::SageMaker::Pipeline",
        "Properties": {
            "PipelineName": "topics",
            "RoleArn": ROLE,
            "PipelineDefinition": {
                "PipelineDefinitionBody": {"Fn::Sub": '{"Version": "${AWS::Region}"}'}
            },
        },
    },
    "Group": {"Type": "AWS::Scheduler::ScheduleGroup", "Properties": {"Name": "weekly"}},
    "Schedule": {
        "Type": "AWS::Scheduler::Schedule",
        "Properties": {
            "Name": "topics",
            "GroupName": {"Ref": "Group"},
            "ScheduleExpression": "rate(7 days)",
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "Target": {
                "Arn": "arn:aws:sagemaker:us-east-1:123456789012:pipeline/topics",
                "RoleArn": ROLE,
                "RetryPolicy": {"MaximumRetryAttempts": 3, "MaximumEventAgeInSeconds": 3600},
            },
        },
    },
}


def template(resources: dict[str, Any]) -> str:
    outputs = {
        "Alarm": {"Value": {"Fn::GetAtt": ["Alarm", "Arn"]}},
        "Models": {"Value": {"Fn::GetAtt": ["Models", "ModelPackageGroupArn"]}},
        "Schedule": {"Value": {"Ref": "Schedule"}},
    }
    return json.dumps({"Resources": resources, "Outputs": outputs})


def test_a_stack_of_them_is_made_changed_and_deleted(aws: AwsServer) -> None:
    stacks, sagemaker = aws.client("cloudformation"), aws.client("sagemaker")
    scheduler, sns = aws.client("scheduler"), aws.client("sns")
    stacks.create_stack(StackName="all", TemplateBody=template(RESOURCES))
    (made,) = stacks.describe_stacks(StackName="all")["Stacks"]
    assert made["StackStatus"] == "CREATE_COMPLETE"
    outputs = {item["OutputKey"]: item["OutputValue"] for item in made["Outputs"]}
    assert outputs == {
        "Alarm": "arn:aws:cloudwatch:us-east-1:123456789012:alarm:starts-fail",
        "Models": "arn:aws:sagemaker:us-east-1:123456789012:model-package-group/topics",
        "Schedule": "topics",
    }
    definition = sagemaker.describe_pipeline(PipelineName="topics")["PipelineDefinition"]
    assert json.loads(definition) == {"Version": "us-east-1"}
    assert scheduler.get_schedule(GroupName="weekly", Name="topics")["State"] == "ENABLED"
    assert aws.client("codebuild").list_projects()["projects"] == ["image"]
    (topic,) = sns.list_topics()["Topics"]
    policy = sns.get_topic_attributes(TopicArn=topic["TopicArn"])["Attributes"]["Policy"]
    assert json.loads(policy) == DENY
    # It may be written to: that what is not TLS is denied says nothing of this.
    aws.client("s3").put_object(Bucket="kept", Key="a", Body=b"")
    aws.client("s3").delete_object(Bucket="kept", Key="a")

    changed = copy.deepcopy(RESOURCES)
    changed["Schedule"]["Properties"]["ScheduleExpression"] = "rate(1 day)"
    changed["Pipeline"]["Properties"]["PipelineDefinition"]["PipelineDefinitionBody"] = "{}"
    changed["Subscription"]["Properties"]["Endpoint"] = "c@d.example"
    stacks.update_stack(StackName="all", TemplateBody=template(changed))
    schedule = scheduler.get_schedule(GroupName="weekly", Name="topics")
    assert schedule["ScheduleExpression"] == "rate(1 day)"
    assert sagemaker.describe_pipeline(PipelineName="topics")["PipelineDefinition"] == "{}"
    (subscription,) = sns.list_subscriptions()["Subscriptions"]
    assert subscription["Endpoint"] == "c@d.example"

    stacks.delete_stack(StackName="all")
    assert stacks.describe_stacks()["Stacks"] == []
    assert sagemaker.list_pipelines()["PipelineSummaries"] == []
    assert sagemaker.list_model_package_groups()["ModelPackageGroupSummaryList"] == []
    assert scheduler.list_schedules()["Schedules"] == []
    assert aws.client("s3").list_buckets()["Buckets"] == []
    assert aws.client("cloudwatch").describe_alarms()["MetricAlarms"] == []
    assert aws.client("iam").list_open_id_connect_providers()["OpenIDConnectProviderList"] == []


@pytest.mark.parametrize(
    ("resource", "wrong", "told"),
    [
        ("Pipeline", {"PipelineDefinition": {"PipelineDefinitionBody": "text"}}, "topics: Expect"),
        ("Pipeline", {"ParallelismConfiguration": {"Most": 5}}, 'Unknown parameter .*"Most"'),
        ("Schedule", {"FlexibleTimeWindow": {"Mode": "OFF", "W": 5}}, 'Unknown parameter .*"W"'),
    ],
)
def test_what_the_service_would_refuse_is_refused(
    aws: AwsServer, resource: str, wrong: dict[str, Any], told: str
) -> None:
    faulty = copy.deepcopy(RESOURCES)
    faulty[resource]["Properties"].update(wrong)
    stacks = aws.client("cloudformation")
    with pytest.raises(ClientError, match=told):
        stacks.create_stack(StackName="faulty", TemplateBody=template(faulty))
