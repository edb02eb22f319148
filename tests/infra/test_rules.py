"""The stacks against the public checkers and the house's own rules, each proven to bite."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.infra import house_rules
from tests.infra.assembly import Assembly, Resource

CFN_LINT = Path(sys.executable).with_name("cfn-lint")
VPC_ACTIONS = {
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
}
"""In a VPC, SageMaker and CodeBuild insist on these for every resource."""


@pytest.mark.slow
def test_the_cdk_and_cdk_nag_find_nothing(assembly: Assembly) -> None:
    reports = [json.loads(path.read_text()) for path in assembly.folder.glob("*/validation-*.json")]
    assert len(reports) == 3
    assert [
        violation
        for report in reports
        for plugin in report["pluginReports"]
        for violation in plugin.get("violations", [])
    ] == []


@pytest.mark.slow
def test_every_acknowledged_finding_has_its_reason(assembly: Assembly) -> None:
    acknowledged = [
        (rule, reason)
        for stack in assembly.templates
        for rule, reason in assembly.acknowledgements(stack)
    ]
    assert len(acknowledged) > 20
    assert [rule for rule, reason in acknowledged if len(reason.split()) < 4] == []


@pytest.mark.slow
def test_cfn_lint_finds_nothing(assembly: Assembly) -> None:
    templates = [str(path) for path in sorted(assembly.folder.glob("*/*.template.json"))]
    linted = subprocess.run(
        [str(CFN_LINT), "--regions", "us-east-1", "--", *templates],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (linted.returncode, linted.stdout) == (0, "")


@pytest.mark.slow
def test_parliament_finds_nothing_in_the_policies(assembly: Assembly) -> None:
    findings = [
        (role.stack, role.logical_id, issue, detail)
        for role in assembly.all_resources("AWS::IAM::Role")
        for policy in role.properties["Policies"]
        for issue, detail in _issues(policy["PolicyDocument"])
        if not (issue == "RESOURCE_STAR" and VPC_ACTIONS.issuperset(detail))
    ]
    assert findings == []


@pytest.mark.slow
def test_parliament_catches_an_action_that_does_not_fit_its_resource() -> None:
    def caught(action: str, resource: str) -> list[str]:
        statement = {"Effect": "Allow", "Action": action, "Resource": resource}
        issues = _issues({"Version": "2012-10-17", "Statement": [statement]})
        return [issue for issue, _ in issues]

    bucket = "arn:aws:s3:::bucket"
    assert caught("s3:GetObject", bucket) == ["RESOURCE_MISMATCH"]
    assert caught("sagemaker:CreateMiracle", bucket) == ["UNKNOWN_ACTION"]
    assert caught("s3:GetObject", f"{bucket}/*") == []


def _issues(document: dict[str, Any]) -> list[tuple[str, Any]]:
    from parliament import analyze_policy_string  # noqa: PLC0415

    findings = analyze_policy_string(json.dumps(document)).findings
    return [(finding.issue, finding.detail) for finding in findings]


@pytest.mark.slow
@pytest.mark.parametrize("rule", house_rules.RULES, ids=lambda rule: rule.__name__)
def test_the_stacks_follow_the_house_rule(
    rule: Callable[[Resource], Iterator[str]], assembly: Assembly
) -> None:
    broken = [
        f"{resource.stack} {resource.logical_id}: {sentence}"
        for resource in assembly.all_resources()
        for sentence in rule(resource)
    ]
    assert broken == []


def resource(type: str, **properties: Any) -> Resource:
    return Resource("stack", "Logical", type, properties)


def trust(principal: dict[str, str], action: str, **condition: Any) -> dict[str, Any]:
    statement = {"Principal": principal, "Action": action, "Condition": condition}
    return {"AssumeRolePolicyDocument": {"Statement": [statement]}}


def policy(**statement: Any) -> dict[str, Any]:
    return {
        "Policies": [{"PolicyDocument": {"Statement": [statement]}}],
        **trust({"AWS": "arn"}, "sts:AssumeRole"),
    }


GITHUB = "token.actions.githubusercontent.com"
FAULTS = [
    (
        house_rules.a_cron_leaves_one_day_field_open,
        resource("AWS::Scheduler::Schedule", ScheduleExpression="cron(0 6 * * * *)"),
    ),
    (
        house_rules.a_cron_leaves_one_day_field_open,
        resource("AWS::Scheduler::Schedule", ScheduleExpression="cron(0 6 ? * ? *)"),
    ),
    (
        house_rules.a_definition_is_json,
        resource(
            "AWS::SageMaker::Pipeline", PipelineDefinition={"PipelineDefinitionBody": '{"Steps":[}'}
        ),
    ),
    (
        house_rules.a_pipelines_name_is_one_that_sagemaker_takes,
        resource("AWS::SageMaker::Pipeline", PipelineName="news_topics"),
    ),
    (
        house_rules.a_web_identity_is_of_certain_jobs,
        resource(
            "AWS::IAM::Role",
            **trust(
                {"Federated": "arn"},
                house_rules.WEB_IDENTITY,
                StringEquals={f"{GITHUB}:aud": "sts.amazonaws.com"},
            ),
        ),
    ),
    (
        house_rules.a_web_identity_is_of_certain_jobs,
        resource(
            "AWS::IAM::Role",
            **trust(
                {"Federated": "arn"},
                house_rules.WEB_IDENTITY,
                StringEquals={f"{GITHUB}:aud": "sts.amazonaws.com"},
                StringLike={f"{GITHUB}:sub": "repo:example/*"},
            ),
        ),
    ),
    (
        house_rules.a_web_identity_is_of_certain_jobs,
        resource(
            "AWS::IAM::Role",
            **trust(
                {"Federated": "arn"},
                house_rules.WEB_IDENTITY,
                StringEquals={
                    f"{GITHUB}:aud": "sts.amazonaws.com",
                    f"{GITHUB}:sub": "repo:example/models:environment:production",
                },
            ),
        ),
    ),
    (
        house_rules.a_build_queues,
        resource("AWS::CodeBuild::Project", ConcurrentBuildLimit=1),
    ),
    (house_rules.a_role_is_bounded, resource("AWS::IAM::Role", RoleName="free")),
    (
        house_rules.a_role_has_no_policy_of_anybody_elses,
        resource("AWS::IAM::Role", ManagedPolicyArns=["arn:aws:iam::aws:policy/S3FullAccess"]),
    ),
    (
        house_rules.a_service_acts_for_this_account_only,
        resource("AWS::IAM::Role", **trust({"Service": "s.amazonaws.com"}, "sts:AssumeRole")),
    ),
    (
        house_rules.a_role_is_passed_to_one_service,
        resource("AWS::IAM::Role", **policy(Action="iam:PassRole", Resource="arn:role/training")),
    ),
    (
        house_rules.a_role_is_passed_to_one_service,
        resource(
            "AWS::IAM::Role",
            **policy(
                Action=["iam:PassRole"],
                Resource="arn:role/*",
                Condition={"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
            ),
        ),
    ),
    (
        house_rules.a_log_group_is_encrypted_and_forgets,
        resource("AWS::Logs::LogGroup", KmsKeyId="arn"),
    ),
    (house_rules.nothing_leads_out_of_a_network, resource("AWS::EC2::NatGateway", SubnetId="s")),
    (
        house_rules.nothing_leads_out_of_a_network,
        resource("AWS::EC2::Subnet", MapPublicIpOnLaunch=True),
    ),
    (
        house_rules.nobody_gets_in_from_an_address,
        resource(
            "AWS::EC2::SecurityGroup",
            SecurityGroupIngress=[{"CidrIp": "0.0.0.0/0", "IpProtocol": "tcp"}],
            SecurityGroupEgress=[{"CidrIp": "10.0.0.0/8", "IpProtocol": "tcp"}],
        ),
    ),
    (
        house_rules.nobody_gets_in_from_an_address,
        resource("AWS::EC2::SecurityGroupIngress", CidrIpv6="::/0", IpProtocol="-1"),
    ),
    (
        house_rules.nobody_gets_in_from_an_address,
        resource("AWS::EC2::SecurityGroup", SecurityGroupIngress=[]),
    ),
    (
        house_rules.an_endpoint_is_found_and_limited,
        resource("AWS::EC2::VPCEndpoint", VpcEndpointType="Interface", PolicyDocument={}),
    ),
    (
        house_rules.an_endpoint_is_found_and_limited,
        resource("AWS::EC2::VPCEndpoint", VpcEndpointType="Gateway"),
    ),
    (
        house_rules.nothing_is_made_by_a_custom_resource,
        resource("Custom::S3BucketNotifications"),
    ),
    (
        house_rules.nothing_with_a_given_name_is_replaced_by_an_edit,
        resource(
            "AWS::SageMaker::ModelPackageGroup",
            ModelPackageGroupName="topics",
            ModelPackageGroupDescription="Two arms",
        ),
    ),
]
"""Resources with one fault each, and the rule that has to catch it."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "faulty"), FAULTS, ids=[f"{n}-{fault[0].__name__}" for n, fault in enumerate(FAULTS)]
)
def test_the_house_rule_catches_a_seeded_fault(
    rule: Callable[[Resource], Iterator[str]], faulty: Resource
) -> None:
    assert len(list(rule(faulty))) == 1


def test_every_house_rule_is_proven_by_a_fault() -> None:
    assert {rule for rule, _ in FAULTS} == set(house_rules.RULES)


@pytest.mark.slow
def test_cdk_nag_catches_a_wildcard_that_nobody_acknowledged(tmp_path: Path) -> None:
    from aws_cdk import App, Stack, Validations  # noqa: PLC0415
    from aws_cdk import aws_iam as iam  # noqa: PLC0415
    from cdk_nag import AwsSolutionsChecks  # noqa: PLC0415

    app = App(outdir=str(tmp_path))
    role = iam.Role(
        Stack(app, "Faulty"), "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com")
    )
    role.add_to_policy(iam.PolicyStatement(actions=["s3:*"], resources=["*"]))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    with pytest.raises(RuntimeError, match=r"AwsSolutions-IAM5\[Resource::\*\]"):
        app.synth()
