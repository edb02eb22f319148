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
    answered = subprocess.run(
        ["node", str(PROGRAM)],
        input=json.dumps([_request(assembly, question) for question in questions]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert answered.returncode == 0, answered.stderr
    answers: list[str] = json.loads(answered.stdout)
    return answers


def _request(assembly: Assembly, question: Question) -> dict[str, Any]:
    role = question.role
    return {
        "principal": role.arn,
        "policies": [policy["PolicyDocument"] for policy in role.properties["Policies"]],
        "action": question.action,
        "resource": question.resource,
        "account": AWS_ACCOUNT if AWS_ACCOUNT in question.resource else ACCOUNT,
        "context": dict(question.context),
        "boundary": boundary_of(role),
        **_policy_of_the_resource(assembly, question.resource),
    }


def names_of(project: str, *, network: bool = False) -> ProjectNames:
    """The names of a project with nothing but its name in its settings, and perhaps a network."""
    names = Names(Settings(project=project))
    boundary = names.boundary
    assert boundary is not None
    return ProjectNames(
        project=project,
        bucket=names.bucket(ACCOUNT, REGION),
        repository_prefix=project,
        key_alias=names.key_alias,
        topic=names.topic,
        schedule_group=names.schedule_group,
        qualifier=names.qualifier,
        boundary=boundary,
        network=network,
    )


def boundary_of(role: Resource) -> dict[str, Any]:
    """The policy that bounds a role of a template."""
    names = names_of(role.stack.partition("-")[0], network=role.stack.endswith("-network"))
    assert role.properties["PermissionsBoundary"].endswith(f":policy/{names.boundary}")
    return boundary_policy(ARNS_HERE, names)


def _policy_of_the_resource(assembly: Assembly, resource: str) -> dict[str, Any]:
    """Where the engine wants one: a key obeys its own policy first, another account's repository
    too. AWS lets everybody pull from its own."""
    for key in assembly.all_resources("AWS::KMS::Key"):
        if resource == key.arn:
            return {"resourcePolicy": key.properties["KeyPolicy"]}
    if AWS_ACCOUNT in resource:
        anybody = {"Effect": "Allow", "Principal": "*", "Action": "ecr:BatchGetImage"}
        return {"resourcePolicy": {"Version": "2012-10-17", "Statement": [anybody]}}
    return {}
