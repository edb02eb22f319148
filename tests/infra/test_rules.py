"""The stacks against the public checkers, and against what none of them catches."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.infra.assembly import NAMES, Assembly, Resource

pytestmark = pytest.mark.slow

CFN_LINT = Path(sys.executable).with_name("cfn-lint")


def test_the_cdk_and_cdk_nag_find_nothing_that_has_no_reason(assembly: Assembly) -> None:
    reports = [json.loads(path.read_text()) for path in assembly.folder.glob("*/validation-*.json")]
    assert len(reports) == 4
    assert [
        violation
        for report in reports
        for plugin in report["pluginReports"]
        for violation in plugin.get("violations", [])
    ] == []
    acknowledged = [each for stack in assembly.templates for each in assembly.accepted(stack)]
    assert len(acknowledged) > 20
    assert [rule for rule, reason in acknowledged if len(reason.split()) < 4] == []


def test_cfn_lint_finds_nothing(assembly: Assembly) -> None:
    templates = [str(path) for path in sorted(assembly.folder.glob("*/*.template.json"))]
    linted = subprocess.run(
        [str(CFN_LINT), "--regions", "us-east-1", "--", *templates],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (linted.returncode, linted.stdout) == (0, "")


Rule = Callable[[Resource], bool]
RULES: list[tuple[Rule, str | None, list[Resource]]] = []
"""Each says whether a resource of a type, or of any, follows it; and stands under some that do
not."""


def catches(type: str, *faults: dict[str, Any], any: bool = False) -> Callable[[Rule], Rule]:
    """Register a rule for resources of a type, with the properties of some that break it."""

    def register(rule: Rule) -> Rule:
        faulty = [Resource("stack", "Logical", type, each) for each in faults]
        RULES.append((rule, None if any else type, faulty))
        return rule

    return register


def passes(resource: str, **condition: Any) -> dict[str, Any]:
    statement = {"Action": "iam:PassRole", "Resource": resource, "Condition": condition}
    return {"Policies": [{"PolicyDocument": {"Statement": [statement]}}]}


def equal(statement: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = statement.get("Condition", {}).get("StringEquals", {})
    return found


ROLE = "AWS::IAM::Role"


SAYS_NOT_FOR_WHOM = "lambda.amazonaws.com"
"""It takes roles of the asking account only, and documents no condition about it: with one it could
not become the role."""


FOR_ANYBODY = {"Principal": {"Service": "s.amazonaws.com"}, "Action": "sts:AssumeRole"}


@catches(ROLE, {"AssumeRolePolicyDocument": {"Statement": [FOR_ANYBODY]}})
def a_service_acts_for_this_account_only(role: Resource) -> bool:
    """Against the confused deputy: the service may be asked by any account."""
    return all(
        statement["Principal"].get("Service", SAYS_NOT_FOR_WHOM) == SAYS_NOT_FOR_WHOM
        or "aws:SourceAccount" in equal(statement)
        for statement in role.properties["AssumeRolePolicyDocument"]["Statement"]
    )


@catches(
    ROLE,
    passes("arn:role/training"),
    passes("arn:role/*", StringEquals={"iam:PassedToService": "sagemaker.amazonaws.com"}),
)
def a_role_is_passed_to_one_service(role: Resource) -> bool:
    return all(
        "iam:PassedToService" in equal(statement) and "*" not in str(statement["Resource"])
        for policy in role.properties.get("Policies", [])
        for statement in policy["PolicyDocument"]["Statement"]
        if "iam:PassRole" in statement["Action"]
    )


NAMED_ANEW = ("AWS::SageMaker::Model", "AWS::SageMaker::EndpointConfig")
"""Their names end in a digest of what they are."""
NAMED_AFTER_ANOTHER = ("AWS::EC2::FlowLog", "AWS::Lambda::Permission")
NEVER_EDITED = {*NAMES, "EncryptionConfiguration"}


@catches(
    "AWS::SageMaker::ModelPackageGroup",
    {"ModelPackageGroupName": "topics", "ModelPackageGroupDescription": "Two arms"},
    any=True,
)
def nothing_with_a_given_name_is_replaced_by_an_edit(resource: Resource) -> bool:
    """CloudFormation makes the new one first, under a name that is taken: the deployment fails."""
    from cfnlint.schema import PROVIDER_SCHEMA_MANAGER  # noqa: PLC0415  takes a second to import

    given = resource.name != resource.logical_id
    if not given or resource.type in (*NAMED_ANEW, *NAMED_AFTER_ANOTHER):
        return True
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", resource.type).schema
    only_when_made = {path.split("/")[2] for path in schema.get("createOnlyProperties", ())}
    return not (only_when_made - NEVER_EDITED) & resource.properties.keys()


@pytest.mark.parametrize(
    ("rule", "type", "faulty"), RULES, ids=[each[0].__name__ for each in RULES]
)
def test_the_stacks_follow_the_rule_and_it_catches_its_faults(
    rule: Rule, type: str | None, faulty: list[Resource], assembly: Assembly
) -> None:
    bound = assembly.all_resources(type)
    assert bound
    assert [f"{each.stack} {each.logical_id}" for each in bound if not rule(each)] == []
    assert not [each for each in faulty if rule(each)]
