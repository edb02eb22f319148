"""The roles that `compilegate aws roles` prints are those that a deployment makes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compilegate.account.named import NamedPlace, named_roles
from compilegate.account.settings import Names
from compilegate.infra.project import read_project
from tests.infra.assembly import ACCOUNT, PROJECT, REGION, Assembly

pytestmark = pytest.mark.slow

STACK, FOUNDATION = "compilegate-workload-topics", "compilegate-foundation"
KINDS = {"training": "TrainingRole", "processing": "ProcessingRole", "pipeline": "PipelineRole"}
ELSEWHERE = {"ListCode", "FindBuckets"}
"""About the bucket that code lies in, which is another one."""


@pytest.mark.slow
def test_what_a_role_may_do_is_said_once_for_all_tools(assembly: Assembly) -> None:
    project = read_project(PROJECT / "tests" / "infra" / "project")
    key = assembly.one(FOUNDATION, "AWS::KMS::Key").arn
    names = Names(project.settings)
    place = NamedPlace(names=names, account=ACCOUNT, region=REGION, key_arn=key)
    (workload,) = [each.workload for each in project.workloads if each.workload.name == "topics"]
    printed = named_roles(place, workload, project.images)
    deployed = {
        kind: assembly.one(STACK, "AWS::IAM::Role", starting) for kind, starting in KINDS.items()
    }
    prefix = "compilegate/compilegate/topics/"
    assets = f"arn:aws:s3:::cdk-{names.qualifier}-assets-{ACCOUNT}-{REGION}/{prefix}"
    code = f"arn:aws:s3:::{place.bucket}/compilegate/source/"
    for kind, role in deployed.items():
        (policy,) = role.properties["Policies"]
        text = json.dumps(policy["PolicyDocument"]).replace(assets, code)
        for other, made in deployed.items():
            text = text.replace(made.arn, printed[other].name)
        ours = json.dumps(printed[kind].policy)
        for other in printed:
            ours = ours.replace(place.role_arn("topics", other), printed[other].name)
        assert statements(ours) == statements(text)
        assert printed[kind].trust == role.properties["AssumeRolePolicyDocument"]


def statements(text: str) -> dict[str, Any]:
    """Without the deliveries, which start nothing where there is no function for them. The CDK
    writes one action, resource or value as itself, and several as a list."""
    found = json.loads(text)
    return {
        each["Sid"]: {
            "Action": _several(each["Action"]),
            "Resource": _several(each["Resource"]),
            "Condition": {
                operator: {key: _several(value) for key, value in of.items()}
                for operator, of in each.get("Condition", {}).items()
            },
        }
        for each in found["Statement"]
        if each["Sid"] not in ELSEWHERE
    }


def _several(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return sorted(one for one in values if "incoming/topics/" not in one)
