"""Questions to an IAM policy engine, and its answers: may this role do that?"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.infra.assembly import ACCOUNT, Assembly, Resource

PROGRAM = Path(__file__).with_name("simulate_policies.mjs")
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
        **_policy_of_the_resource(assembly, question.resource),
    }


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
