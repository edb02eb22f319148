"""Questions to an IAM policy engine, and its answers: may this role do that?"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compilegate.access import Arns
from compilegate.access.bootstrap import ProjectNames, boundary_policy
from compilegate.account.settings import Names, Settings
from tests.infra.assembly import ACCOUNT, REGION, Assembly, Resource

PROGRAM = Path(__file__).with_name("simulate_policies.mjs")
ARNS_HERE = Arns(partition="aws", region=REGION, account=ACCOUNT)
AWS_ACCOUNT = "763104351884"
"""Where AWS keeps its own images."""
ACCOUNT_DECIDES = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
            "Action": "kms:*",
            "Resource": "*",
        }
    ],
}
"""The policy of a key: it comes first, and lets the policies of the account's roles decide."""

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """May the role do this to that?"""

    role: Resource
    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.role.logical_id}: {self.action} on {self.resource}"


def ask(assembly: Assembly, questions: Sequence[Question]) -> list[str]:
    """`Allowed`, `ImplicitlyDenied` or `ExplicitlyDenied` for each."""
    return simulate(_of_role(assembly, question) for question in questions)


def _of_role(assembly: Assembly, question: Question) -> dict[str, Any]:
    role, resource, context = question.role, question.resource, dict(question.context)
    own = None
    key = assembly.one(f"{role.stack.partition('-')[0]}-foundation", "AWS::KMS::Key")
    if resource == key.arn:
        # Its policy comes first, and the boundary asks for its tags.
        own = key.properties["KeyPolicy"]
        tags = key.properties["Tags"]
        context |= {f"aws:ResourceTag/{tag['Key']}": tag["Value"] for tag in tags}
    elif AWS_ACCOUNT in resource:
        # AWS lets everybody pull from its own repositories.
        anybody = {"Effect": "Allow", "Principal": "*", "Action": "ecr:BatchGetImage"}
        own = {"Version": "2012-10-17", "Statement": [anybody]}
    return request(
        [policy["PolicyDocument"] for policy in role.properties["Policies"]],
        question.action,
        resource,
        context,
        principal=role.arn,
        account=AWS_ACCOUNT if AWS_ACCOUNT in resource else ACCOUNT,
        boundary=boundary_of(role),
        own=own,
    )


def ask_policies(
    policies: Sequence[Document],
    questions: Sequence[tuple[Any, ...]],
    boundary: Document | None = None,
    **rest: Any,
) -> list[tuple[Any, ...]]:
    """Those of the questions, each an action, a resource and perhaps a context, that a role with
    these policies is allowed."""
    answers = simulate(
        request(policies, *question, boundary=boundary, **rest) for question in questions
    )
    return [each for each, said in zip(questions, answers, strict=True) if said == "Allowed"]


def request(
    policies: Sequence[Document],
    action: str,
    resource: str,
    context: Mapping[str, str] | None = None,
    *,
    principal: str = f"arn:aws:iam::{ACCOUNT}:role/somebody",
    account: str = ACCOUNT,
    boundary: Document | None = None,
    own: Document | None = None,
) -> dict[str, Any]:
    """What the engine is asked; `own` is the policy of the resource."""
    if own is None and action.startswith("kms:"):
        own = ACCOUNT_DECIDES
    asked = {
        "principal": principal,
        "policies": list(policies),
        "action": action,
        "resource": resource,
        "account": account,
        "context": dict(context or {}),
        "boundary": boundary,
        "resourcePolicy": own,
    }
    return {key: value for key, value in asked.items() if value is not None}


def simulate(requests: Any) -> list[str]:
    """The engine's answers."""
    done = subprocess.run(
        ["node", str(PROGRAM)],
        input=json.dumps(list(requests)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[str] = json.loads(done.stdout)
    return answers


def names_of(project: str, **changed: Any) -> ProjectNames:
    """The names of a project with nothing but its name in its settings."""
    names = Names(Settings(project=project))
    return ProjectNames(
        **{
            "project": project,
            "bucket": names.bucket(ACCOUNT, REGION),
            "repository_prefix": project,
            "key_alias": names.key_alias,
            "topic": names.topic,
            "schedule_group": names.schedule_group,
            "qualifier": names.qualifier,
            "boundary": str(names.boundary),
            **changed,
        }
    )


def boundary_of(role: Resource) -> dict[str, Any]:
    """The policy that bounds a role of a template."""
    names = names_of(role.stack.partition("-")[0])
    assert role.properties["PermissionsBoundary"].endswith(f":policy/{names.boundary}")
    return boundary_policy(ARNS_HERE, names)
