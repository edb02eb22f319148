"""What every stack is made with: options, roles, log groups, alarms, removal, budgets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from compilegate.access import Statement
from compilegate.access.policy import LARGEST_POLICY
from compilegate.account.settings.declaration import LogDays, Storage
from compilegate.errors import CompilegateError
from compilegate.infra.project import Project


def stack_options(project: Project, env: cdk.Environment, description: str) -> dict[str, Any]:
    """Arguments of a stack. Which bootstrap it is deployed by is said once, to the whole app."""
    names = project.names
    boundary = names.boundary
    if boundary is not None and names.settings.bootstrap.qualifier is None:
        boundary = f"{names.path.removeprefix('/')}{boundary}"
    return {
        "env": env,
        "description": description,
        "permissions_boundary": boundary and cdk.PermissionsBoundary.from_name(boundary),
    }


def removal_policy(storage: Storage) -> cdk.RemovalPolicy:
    """Kept or destroyed, as the settings say.

    What a failed first deployment made is always destroyed: it holds nothing yet, and its name
    would block the next attempt.
    """
    if storage.retain:
        return cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
    return cdk.RemovalPolicy.DESTROY


def log_group(
    scope: Construct, id: str, *, name: str, key: kms.IKey, days: LogDays
) -> logs.CfnLogGroup:
    """A log group; its name must be one that the key's policy allows."""
    group = logs.CfnLogGroup(
        scope, id, log_group_name=name, kms_key_id=key.key_arn, retention_in_days=days
    )
    group.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
    return group


def alarm(
    scope: Construct,
    id: str,
    *,
    name: str,
    description: str,
    namespace: str,
    metric: str,
    dimensions: Mapping[str, str],
    statistic: str,
    threshold: float,
    topic_arn: str,
    period: int = 300,
    periods: int = 1,
) -> cloudwatch.CfnAlarm:
    """Tells people when a metric reaches a threshold; its name must begin with the project's."""
    return cloudwatch.CfnAlarm(
        scope,
        id,
        alarm_name=name,
        alarm_description=description,
        namespace=namespace,
        metric_name=metric,
        dimensions=[{"name": key, "value": value} for key, value in dimensions.items()],
        statistic=statistic,
        period=period,
        evaluation_periods=periods,
        threshold=threshold,
        comparison_operator="GreaterThanOrEqualToThreshold",
        treat_missing_data="notBreaching",
        alarm_actions=[topic_arn],
    )


class PolicySizeError(CompilegateError):
    """A role's policy is larger than IAM allows. The message names the role."""


def service_principal(
    scope: Construct, service: str, *, source_arn: str | None = None
) -> iam.IPrincipal:
    """The service, acting for this account only (and for that resource, when one is given)."""
    conditions: dict[str, Any] = {
        "StringEquals": {"aws:SourceAccount": cdk.Stack.of(scope).account}
    }
    if source_arn is not None:
        conditions["ArnLike"] = {"aws:SourceArn": source_arn}
    # pyrefly: ignore[bad-return]  # the CDK names a parameter in two ways
    return iam.ServicePrincipal(f"{service}.amazonaws.com", conditions=conditions)


def scoped_role(
    scope: Construct,
    id: str,
    *,
    trusted: iam.IPrincipal,
    description: str,
    statements: Sequence[Statement],
    name: str | None = None,
    hours: int = 1,
    given: str | None = None,
) -> iam.IRole:
    """A role whose statements are all inline, so that it never exists without them.

    `name` is for a role that others name before it exists, `hours` the longest session. The role
    cannot be given more later: grants that a construct would add have no effect. `given` is the ARN
    of a role that somebody else made, in its place.
    Raises PolicySizeError for more statements than IAM allows.
    """
    if given is not None:
        return iam.Role.from_role_arn(scope, id, given, mutable=False)
    policy = {
        "Version": "2012-10-17",
        "Statement": [statement.document() for statement in statements],
    }
    _check_size(scope, id, policy)
    role = iam.Role(
        scope,
        id,
        role_name=name,
        assumed_by=trusted,
        description=description,
        max_session_duration=cdk.Duration.hours(hours) if hours > 1 else None,
        inline_policies={"Permissions": iam.PolicyDocument.from_json(policy)},
    )
    acknowledge_wildcards(role, statements)
    return role.without_policy_updates()


def _check_size(scope: Construct, id: str, policy: dict[str, Any]) -> None:
    """Refuse a policy that has grown too large with the project (repositories, prefixes of
    deliveries), before a deployment fails halfway."""
    size = len(json.dumps(cdk.Stack.of(scope).resolve(policy), separators=(",", ":")))
    if size > LARGEST_POLICY:
        raise PolicySizeError(
            f"{cdk.Stack.of(scope).stack_name}: the policy of {id} has {size:,} characters, "
            f"allowed: {LARGEST_POLICY:,}; deploy some of the workloads as a project of their own"
        )


def acknowledge_wildcards(role: iam.Role, statements: Sequence[Statement]) -> None:
    """Put each wildcard's reason where cdk-nag and a reader of the assembly look for it."""
    stack = cdk.Stack.of(role)
    for statement in statements:
        if statement.because is None:
            continue
        for resource in statement.resources:
            if "*" in resource:
                cdk.Validations.of(role).acknowledge(
                    cdk.Acknowledgment(
                        id=f"AwsSolutions-IAM5[Resource::{_flat(stack.resolve(resource))}]",
                        reason=statement.because,
                    )
                )


def _flat(value: Any) -> str:
    """A resolved token the way cdk-nag writes it in the name of a finding."""
    if isinstance(value, str):
        return value
    function, argument = next(iter(value.items()))
    if function == "Fn::Join":
        separator, parts = argument
        return str(separator).join(_flat(part) for part in parts)
    if function == "Fn::GetAtt":
        return f"<{'.'.join(argument)}>"
    return f"<{_flat(argument)}>"


PER_CENT = ((80, "ACTUAL"), (100, "ACTUAL"), (100, "FORECASTED"))
"""Shares of the limit at which people are told: of what was spent, or of what will be."""


def tagged_budget(
    scope: Construct, id: str, *, name: str, tag: str, value: str, usd: float, topic_arn: str
) -> budgets.CfnBudget:
    """A monthly budget; its name must be the only such one of the account, in all regions.

    AWS counts a tag from the day on which it is activated for cost allocation, which is done once
    for the account that pays (docs/aws.md).
    """
    return budgets.CfnBudget(
        scope,
        id,
        budget={
            "budgetName": name,
            "budgetType": "COST",
            "timeUnit": "MONTHLY",
            "budgetLimit": {"amount": usd, "unit": "USD"},
            "costFilters": {"TagKeyValue": [f"user:{tag}${value}"]},
        },
        notifications_with_subscribers=[
            {
                "notification": {
                    "notificationType": kind,
                    "comparisonOperator": "GREATER_THAN",
                    "threshold": per_cent,
                    "thresholdType": "PERCENTAGE",
                },
                "subscribers": [{"subscriptionType": "SNS", "address": topic_arn}],
            }
            for per_cent, kind in PER_CENT
        ],
    )
