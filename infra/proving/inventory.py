"""What an account has of a project, by name: what its stacks make, and what functions and jobs make
beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from compilegate.access.bootstrap import PROJECT_TAG
from compilegate.account.errors import asking
from compilegate.account.session import AwsSession
from compilegate.account.settings import Names

_PARTS = re.compile(r"[/:]")


@dataclass(frozen=True)
class Kind:
    """One kind of thing, and the call that lists it."""

    name: str
    service: str
    operation: str
    answer: str
    """Where in the answer the list is."""
    member: str = ""
    """Where in each of its things the name is; empty where the list is one of names."""
    given: Mapping[str, Any] = field(default_factory=dict)


KINDS = (
    Kind("stack", "cloudformation", "describe_stacks", "Stacks", "StackName"),
    Kind("bucket", "s3", "list_buckets", "Buckets", "Name"),
    Kind("repository", "ecr", "describe_repositories", "repositories", "repositoryName"),
    Kind("build project", "codebuild", "list_projects", "projects"),
    Kind("function", "lambda", "list_functions", "Functions", "FunctionName"),
    Kind("role", "iam", "list_roles", "Roles", "RoleName"),
    Kind("policy", "iam", "list_policies", "Policies", "PolicyName", {"Scope": "Local"}),
    Kind("alias of a key", "kms", "list_aliases", "Aliases", "AliasName"),
    Kind("log group", "logs", "describe_log_groups", "logGroups", "logGroupName"),
    Kind("alarm", "cloudwatch", "describe_alarms", "MetricAlarms", "AlarmName"),
    Kind("dashboard", "cloudwatch", "list_dashboards", "DashboardEntries", "DashboardName"),
    Kind("topic", "sns", "list_topics", "Topics", "TopicArn"),
    Kind("queue", "sqs", "list_queues", "QueueUrls"),
    Kind("rule", "events", "list_rules", "Rules", "Name"),
    Kind("schedule group", "scheduler", "list_schedule_groups", "ScheduleGroups", "Name"),
    Kind("parameter", "ssm", "describe_parameters", "Parameters", "Name"),
    Kind("table", "dynamodb", "list_tables", "TableNames"),
    Kind("pipeline", "sagemaker", "list_pipelines", "PipelineSummaries", "PipelineName"),
    Kind(
        "model package group",
        "sagemaker",
        "list_model_package_groups",
        "ModelPackageGroupSummaryList",
        "ModelPackageGroupName",
    ),
    Kind("endpoint", "sagemaker", "list_endpoints", "Endpoints", "EndpointName"),
    Kind(
        "endpoint configuration",
        "sagemaker",
        "list_endpoint_configs",
        "EndpointConfigs",
        "EndpointConfigName",
    ),
    Kind("model", "sagemaker", "list_models", "Models", "ModelName"),
)


@dataclass(frozen=True, order=True)
class Thing:
    """One of them."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def things_of(session: AwsSession, names: Names) -> list[Thing]:
    """All that the account has of the project, its bootstrap included. Raises AwsError.

    A key that is deleted stays for 30 days, costs nothing, and is not counted.
    """
    found = [Thing(kind.name, name) for kind in KINDS for name in _named(session, names, kind)]
    return sorted([*found, *_budgets(session, names), *_keys(session, names)])


def names_of(session: AwsSession, names: Names, kind: str) -> list[str]:
    """The names of one kind. Raises AwsError."""
    return [name for each in KINDS if each.name == kind for name in _named(session, names, each)]


def _named(session: AwsSession, names: Names, kind: Kind) -> list[str]:
    return sorted(name for name in _listed(session, kind) if is_of(name, names))


def is_of(name: str, names: Names) -> bool:
    """Whether a name is the project's: no name that merely begins with the same letters is."""
    project, qualifier = names.settings.project, names.qualifier
    return any(
        part in {project, qualifier, names.toolkit_stack}
        or part.startswith((f"{project}-", f"cdk-{qualifier}-"))
        for part in _PARTS.split(name)
    )


def _listed(session: AwsSession, kind: Kind) -> Iterator[str]:
    client = session.client(kind.service)
    with asking(f"list every {kind.name}"):
        pages: Any = (
            client.get_paginator(kind.operation).paginate(**kind.given)
            if client.can_paginate(kind.operation)
            else [getattr(client, kind.operation)(**kind.given)]
        )
        for page in pages:
            for item in page.get(kind.answer, []):
                yield str(item[kind.member] if kind.member else item)


def _budgets(session: AwsSession, names: Names) -> list[Thing]:
    with asking("list every budget"):
        pages = session.client("budgets").get_paginator("describe_budgets")
        return [
            Thing("budget", budget["BudgetName"])
            for page in pages.paginate(AccountId=session.account)
            for budget in page.get("Budgets", [])
            if is_of(budget["BudgetName"], names)
        ]


def _keys(session: AwsSession, names: Names) -> list[Thing]:
    """Keys have no names: they are found by the project's tag."""
    kms = session.client("kms")
    tagged = session.client("resourcegroupstaggingapi").get_paginator("get_resources")
    with asking("look for keys of the project"):
        arns = [
            item["ResourceARN"]
            for page in tagged.paginate(
                TagFilters=[{"Key": PROJECT_TAG, "Values": [names.settings.project]}],
                ResourceTypeFilters=["kms:key"],
            )
            for item in page["ResourceTagMappingList"]
        ]
        return [
            Thing("key", arn)
            for arn in arns
            if kms.describe_key(KeyId=arn)["KeyMetadata"]["KeyState"] != "PendingDeletion"
        ]
