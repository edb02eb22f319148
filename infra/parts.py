"""What every stack is made with: options, outputs, removal, roles and their statements."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from compilegate.access import Statement
from compilegate.access.policy import LARGEST_POLICY
from compilegate.account.settings.declaration import Storage
from compilegate.errors import CompilegateError
from compilegate.infra.project import Project


def stack_options(project: Project, env: cdk.Environment, description: str) -> dict[str, Any]:
    """Arguments of a stack. The bootstrap that deploys it is set once, for the whole app."""
    names = project.names
    boundary = names.boundary
    if boundary is not None and names.settings.bootstrap.qualifier is None:
        boundary = f"{names.path.removeprefix('/')}{boundary}"
    return {
        "env": env,
        "description": description,
        "permissions_boundary": boundary and cdk.PermissionsBoundary.from_name(boundary),
    }


def outputs(stack: cdk.Stack, **values: str) -> None:
    for name, value in values.items():
        cdk.CfnOutput(stack, name, value=value)


def removal_policy(storage: Storage) -> cdk.RemovalPolicy:
    """Kept or destroyed, as the settings say.

    What a failed first deployment made is always destroyed: it holds nothing yet, and its name
    would block the next attempt.
    """
    if storage.retain:
        return cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
    return cdk.RemovalPolicy.DESTROY


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
    stack = cdk.Stack.of(scope)
    documents = [statement.document() for statement in statements]
    policy = {"Version": "2012-10-17", "Statement": documents}
    # It grows with the project's repositories and prefixes: refused before a deployment fails.
    size = len(json.dumps(stack.resolve(policy), separators=(",", ":")))
    if size > LARGEST_POLICY:
        raise PolicySizeError(
            f"{stack.stack_name}: the policy of {id} has {size:,} characters, "
            f"allowed: {LARGEST_POLICY:,}; deploy some of the workloads as a project of their own"
        )
    role = iam.Role(
        scope,
        id,
        role_name=name,
        assumed_by=trusted,
        description=description,
        max_session_duration=cdk.Duration.hours(hours) if hours > 1 else None,
        inline_policies={"Permissions": iam.PolicyDocument.from_json(policy)},
    )
    for statement in statements:
        for resource in statement.resources:
            if statement.because is not None and "*" in resource:
                finding = f"AwsSolutions-IAM5[Resource::{_flat(stack.resolve(resource))}]"
                acknowledge(role, finding, statement.because)
    return role.without_policy_updates()


def acknowledge(construct: Construct, finding: str, reason: str) -> None:
    """Put a reason where cdk-nag and a reader of the assembly look for it."""
    cdk.Validations.of(construct).acknowledge(cdk.Acknowledgment(id=finding, reason=reason))


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
