"""What an account has that some stack of a project may have made."""

from __future__ import annotations

from tests.aws_server.client import AwsServer


def everything_of_the_project(aws: AwsServer) -> dict[str, list[str]]:
    """Names of all that a stack of the project makes and the account still has, by kind."""
    client = aws.client
    found = {
        "alarm": [
            item["AlarmName"] for item in client("cloudwatch").describe_alarms()["MetricAlarms"]
        ],
        "bucket": [item["Name"] for item in client("s3").list_buckets()["Buckets"]],
        "build project": client("codebuild").list_projects()["projects"],
        "function": [
            item["FunctionName"] for item in client("lambda").list_functions()["Functions"]
        ],
        "identity provider": [
            item["Arn"]
            for item in client("iam").list_open_id_connect_providers()["OpenIDConnectProviderList"]
        ],
        "key": [
            described["Description"]
            for item in client("kms").list_keys()["Keys"]
            if (described := client("kms").describe_key(KeyId=item["KeyId"])["KeyMetadata"])[
                "KeyState"
            ]
            == "Enabled"
        ],
        "key alias": [
            item["AliasName"]
            for item in client("kms").list_aliases()["Aliases"]
            if not item["AliasName"].startswith("alias/aws/")
        ],
        "log group": [
            item["logGroupName"] for item in client("logs").describe_log_groups()["logGroups"]
        ],
        "model package group": [
            item["ModelPackageGroupName"]
            for item in client("sagemaker").list_model_package_groups()[
                "ModelPackageGroupSummaryList"
            ]
        ],
        "pipeline": [
            item["PipelineName"]
            for item in client("sagemaker").list_pipelines()["PipelineSummaries"]
        ],
        "queue": [
            url for url in client("sqs").list_queues().get("QueueUrls", []) if "trial" in url
        ],
        "repository": [
            item["repositoryName"] for item in client("ecr").describe_repositories()["repositories"]
        ],
        "role": [item["RoleName"] for item in client("iam").list_roles()["Roles"]],
        "rule": [item["Name"] for item in client("events").list_rules()["Rules"]],
        "schedule": [item["Name"] for item in client("scheduler").list_schedules()["Schedules"]],
        "schedule group": [
            item["Name"]
            for item in client("scheduler").list_schedule_groups()["ScheduleGroups"]
            if item["Name"] != "default"
        ],
        "table": client("dynamodb").list_tables()["TableNames"],
        "topic": [item["TopicArn"] for item in client("sns").list_topics()["Topics"]],
    }
    return {
        kind: sorted(own)
        for kind, names in found.items()
        if (own := [name for name in names if not name.startswith("cdk-")])
    }
