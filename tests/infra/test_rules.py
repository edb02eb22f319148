"""The stacks against the public checkers, and against what none of them catches.

Each rule of the house takes a resource and yields sentences, and stands under resources with one
fault each that it has to catch.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.infra.assembly import Assembly, Resource

pytestmark = pytest.mark.slow

CFN_LINT = Path(sys.executable).with_name("cfn-lint")


def test_the_cdk_and_cdk_nag_find_nothing(assembly: Assembly) -> None:
    reports = [json.loads(path.read_text()) for path in assembly.folder.glob("*/validation-*.json")]
    assert len(reports) == 4
    assert [
        violation
        for report in reports
        for plugin in report["pluginReports"]
        for violation in plugin.get("violations", [])
    ] == []


def test_every_acknowledged_finding_has_its_reason(assembly: Assembly) -> None:
    acknowledged = [
        (rule, reason)
        for stack in assembly.templates
        for rule, reason in assembly.acknowledgements(stack)
    ]
    assert len(acknowledged) > 20
    assert [rule for rule, reason in acknowledged if len(reason.split()) < 4] == []


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


def test_cfn_lint_finds_nothing(assembly: Assembly) -> None:
    templates = [str(path) for path in sorted(assembly.folder.glob("*/*.template.json"))]
    linted = subprocess.run(
        [str(CFN_LINT), "--regions", "us-east-1", "--", *templates],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (linted.returncode, linted.stdout) == (0, "")


Rule = Callable[[Resource], Iterator[str]]
RULES: list[tuple[Rule, list[Resource]]] = []


def catches(type: str, *faults: dict[str, Any]) -> Callable[[Rule], Rule]:
    """Register a rule with the properties of resources that it must catch."""

    def register(rule: Rule) -> Rule:
        faulty = [Resource("stack", "Logical", type, properties) for properties in faults]
        RULES.append((rule, faulty))
        return rule

    return register


def trust(principal: dict[str, str], action: str, **condition: Any) -> dict[str, Any]:
    statement = {"Principal": principal, "Action": action, "Condition": condition}
    return {"AssumeRolePolicyDocument": {"Statement": [statement]}}


def policy(**statement: Any) -> dict[str, Any]:
    return {
        "Policies": [{"PolicyDocument": {"Statement": [statement]}}],
        **trust({"AWS": "arn"}, "sts:AssumeRole"),
    }


WEB_IDENTITY = "sts:AssumeRoleWithWebIdentity"
GITHUB = "token.actions.githubusercontent.com"
STS = {f"{GITHUB}:aud": "sts.amazonaws.com"}
PRODUCTION = {f"{GITHUB}:sub": "repo:example/models:environment:production"}


@catches(
    "AWS::Scheduler::Schedule",
    {"ScheduleExpression": "cron(0 6 * * * *)"},
    {"ScheduleExpression": "cron(0 6 ? * ? *)"},
)
def a_cron_leaves_one_day_field_open(resource: Resource) -> Iterator[str]:
    """EventBridge Scheduler wants exactly one of day-of-month and day-of-week to be `?`."""
    if resource.type == "AWS::Scheduler::Schedule":
        expression = str(resource.properties["ScheduleExpression"])
        if expression.startswith("cron("):
            fields = expression.removeprefix("cron(").removesuffix(")").split()
            if [fields[2], fields[4]].count("?") != 1:
                yield f"{expression}: not exactly one of its day fields is `?`"


@catches(
    "AWS::SageMaker::Pipeline",
    {"PipelineDefinition": {"PipelineDefinitionBody": '{"Steps":[}'}, "PipelineName": "news"},
)
def a_definition_is_json(resource: Resource) -> Iterator[str]:
    """CloudFormation takes any text for it, and SageMaker then refuses the deployment."""
    if resource.type == "AWS::SageMaker::Pipeline":
        try:
            json.loads(resource.properties["PipelineDefinition"]["PipelineDefinitionBody"])
        except json.JSONDecodeError as error:
            yield f"the definition is not JSON: {error}"


@catches("AWS::SageMaker::Pipeline", {"PipelineName": "news_topics"})
def a_pipelines_name_is_one_that_sagemaker_takes(resource: Resource) -> Iterator[str]:
    taken = re.compile(r"[a-zA-Z0-9](?:-*[a-zA-Z0-9]){0,255}")
    if resource.type == "AWS::SageMaker::Pipeline" and not taken.fullmatch(resource.name):
        yield f"pipeline name {resource.name}: letters, digits and single hyphens are allowed"


@catches(
    "AWS::IAM::Role",
    trust({"Federated": "arn"}, WEB_IDENTITY, StringEquals=STS),
    trust(
        {"Federated": "arn"},
        WEB_IDENTITY,
        StringEquals=STS,
        StringLike={f"{GITHUB}:sub": "repo:example/*"},
    ),
    trust({"Federated": "arn"}, WEB_IDENTITY, StringEquals={**STS, **PRODUCTION}),
)
def a_web_identity_is_of_certain_jobs(resource: Resource) -> Iterator[str]:
    """With `aud` alone, or with a pattern for `sub`, jobs of strangers could become the role."""
    if resource.type != "AWS::IAM::Role":
        return
    for statement in resource.properties["AssumeRolePolicyDocument"]["Statement"]:
        if statement["Action"] == WEB_IDENTITY:
            equal = statement.get("Condition", {}).get("StringEquals", {})
            claims = {key.rpartition(":")[2]: value for key, value in equal.items()}
            needed = ["aud", "sub"]
            # A job of any branch, and of any workflow, can ask for an environment.
            if ":environment:" in claims.get("sub", ""):
                needed += ["ref", "job_workflow_ref"]
            if missing := [claim for claim in needed if claim not in claims]:
                yield f"its trust does not compare {missing}"


@catches("AWS::CodeBuild::Project", {"ConcurrentBuildLimit": 1})
def a_build_queues(resource: Resource) -> Iterator[str]:
    """Above a limit of the project's own CodeBuild refuses a build; above the account's, it queues
    it. And the limit has to be below the account's, which can be one."""
    if resource.type == "AWS::CodeBuild::Project" and "ConcurrentBuildLimit" in resource.properties:
        yield "it has a limit of concurrent builds"


@catches("AWS::IAM::Role", {"RoleName": "free"})
def a_role_is_bounded(resource: Resource) -> Iterator[str]:
    """Whoever may deploy could make himself a role that may do anything."""
    if resource.type == "AWS::IAM::Role" and "PermissionsBoundary" not in resource.properties:
        yield "it has no permissions boundary"


@catches("AWS::IAM::Role", {"ManagedPolicyArns": ["arn:aws:iam::aws:policy/S3FullAccess"]})
def a_role_has_no_policy_of_anybody_elses(resource: Resource) -> Iterator[str]:
    if resource.type == "AWS::IAM::Role":
        for managed in resource.properties.get("ManagedPolicyArns", []):
            yield f"managed policy {managed}: what it allows is not written here"


SAYS_NOT_FOR_WHOM = {"lambda.amazonaws.com"}
"""Services that take roles of the asking account only, and document no condition about it: with one
they could not become the role."""


@catches("AWS::IAM::Role", trust({"Service": "s.amazonaws.com"}, "sts:AssumeRole"))
def a_service_acts_for_this_account_only(resource: Resource) -> Iterator[str]:
    """Against the confused deputy: the service may be asked by any account."""
    if resource.type != "AWS::IAM::Role":
        return
    for statement in resource.properties["AssumeRolePolicyDocument"]["Statement"]:
        if statement["Principal"].get("Service", "lambda.amazonaws.com") not in SAYS_NOT_FOR_WHOM:
            equal = statement.get("Condition", {}).get("StringEquals", {})
            if "aws:SourceAccount" not in equal:
                yield f"{statement['Principal']['Service']} is trusted for any account"


@catches(
    "AWS::IAM::Role",
    policy(Action="iam:PassRole", Resource="arn:role/training"),
    policy(
        Action=["iam:PassRole"],
        Resource="arn:role/*",
        Condition={"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
    ),
)
def a_role_is_passed_to_one_service(resource: Resource) -> Iterator[str]:
    if resource.type != "AWS::IAM::Role":
        return
    for each in resource.properties.get("Policies", []):
        for statement in each["PolicyDocument"]["Statement"]:
            actions = statement["Action"]
            if "iam:PassRole" in ([actions] if isinstance(actions, str) else actions):
                equal = statement.get("Condition", {}).get("StringEquals", {})
                if "iam:PassedToService" not in equal or "*" in str(statement["Resource"]):
                    yield "it passes a role to any service, or passes any role"


@catches("AWS::Logs::LogGroup", {"KmsKeyId": "arn"})
def a_log_group_is_encrypted_and_forgets(resource: Resource) -> Iterator[str]:
    if resource.type == "AWS::Logs::LogGroup":
        for needed in ("KmsKeyId", "RetentionInDays"):
            if needed not in resource.properties:
                yield f"it has no {needed}"


NEVER_EDITED = {
    "AWS::CloudWatch::Alarm": {"AlarmName"},
    "AWS::CodeBuild::Project": {"Name"},
    "AWS::ECR::Repository": {"RepositoryName", "EncryptionConfiguration"},
    "AWS::Events::Rule": {"Name"},
    "AWS::Lambda::Function": {"FunctionName"},
    "AWS::Logs::LogGroup": {"LogGroupName"},
    "AWS::S3::Bucket": {"BucketName"},
    "AWS::SNS::Topic": {"TopicName"},
    "AWS::SageMaker::Endpoint": {"EndpointName"},
    "AWS::SageMaker::ModelPackageGroup": {"ModelPackageGroupName"},
    "AWS::SageMaker::Pipeline": {"PipelineName"},
    "AWS::Scheduler::Schedule": {"Name"},
    "AWS::Scheduler::ScheduleGroup": {"Name"},
}
"""Resources that have names of the project's, and what is said of them once."""


@catches(
    "AWS::SageMaker::ModelPackageGroup",
    {"ModelPackageGroupName": "topics", "ModelPackageGroupDescription": "Two arms"},
)
def nothing_with_a_given_name_is_replaced_by_an_edit(resource: Resource) -> Iterator[str]:
    """CloudFormation makes the new one first, under a name that is taken: the deployment fails."""
    allowed = NEVER_EDITED.get(resource.type)
    if allowed is not None:
        for key in sorted(resource.properties.keys() & _only_when_made(resource.type) - allowed):
            yield f"{key} can be set only when it is made"


def _only_when_made(type: str) -> set[str]:
    """Properties that CloudFormation can give a resource and never change."""
    from cfnlint.schema import PROVIDER_SCHEMA_MANAGER  # noqa: PLC0415  takes a second to import

    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", type).schema
    return {path.split("/")[2] for path in schema.get("createOnlyProperties", ())}


@catches("Custom::S3BucketNotifications", {})
def nothing_is_made_by_a_custom_resource(resource: Resource) -> Iterator[str]:
    if resource.type.startswith("Custom::") or resource.type.endswith("::CustomResource"):
        yield f"{resource.type}: a function would have to be kept for it"


WAYS_OUT = {
    "AWS::EC2::EgressOnlyInternetGateway",
    "AWS::EC2::InternetGateway",
    "AWS::EC2::NatGateway",
    "AWS::EC2::Route",
    "AWS::EC2::TransitGatewayAttachment",
    "AWS::EC2::VPCGatewayAttachment",
    "AWS::EC2::VPCPeeringConnection",
    "AWS::EC2::VPNGateway",
}


@catches("AWS::EC2::NatGateway", {"SubnetId": "s"})
@catches("AWS::EC2::Subnet", {"MapPublicIpOnLaunch": True})
def nothing_leads_out_of_a_network(resource: Resource) -> Iterator[str]:
    """A route needs none beside the VPC's own: an endpoint's gateway brings its routes along."""
    if resource.type in WAYS_OUT:
        yield f"{resource.type}: a way out of the network"
    if resource.properties.get("MapPublicIpOnLaunch"):
        yield "what is in this subnet gets a public address"


@catches(
    "AWS::EC2::SecurityGroup",
    {
        "SecurityGroupIngress": [{"CidrIp": "0.0.0.0/0", "IpProtocol": "tcp"}],
        "SecurityGroupEgress": [{"CidrIp": "10.0.0.0/8", "IpProtocol": "tcp"}],
    },
    {"SecurityGroupIngress": []},
)
@catches("AWS::EC2::SecurityGroupIngress", {"CidrIpv6": "::/0", "IpProtocol": "-1"})
def nobody_gets_in_from_an_address(resource: Resource) -> Iterator[str]:
    """Members of a group may, and addresses may not: the VPC's own are anybody's."""
    entrances = [resource.properties] if resource.type == "AWS::EC2::SecurityGroupIngress" else []
    if resource.type == "AWS::EC2::SecurityGroup":
        entrances = resource.properties.get("SecurityGroupIngress", [])
        if not resource.properties.get("SecurityGroupEgress"):
            yield "without rules for what goes out, CloudFormation allows everything"
    for rule in entrances:
        if "CidrIp" in rule or "CidrIpv6" in rule:
            yield f"it lets {rule.get('CidrIp', rule.get('CidrIpv6'))} in"


@catches(
    "AWS::EC2::VPCEndpoint",
    {"VpcEndpointType": "Interface", "PolicyDocument": {}},
    {"VpcEndpointType": "Gateway"},
)
def an_endpoint_is_found_and_limited(resource: Resource) -> Iterator[str]:
    """Without private DNS, programs ask the public address, to which no way leads; without a
    policy, one leads to everybody's buckets."""
    if resource.type == "AWS::EC2::VPCEndpoint":
        interface = resource.properties["VpcEndpointType"] == "Interface"
        if interface and resource.properties.get("PrivateDnsEnabled") is not True:
            yield "names do not resolve to it"
        if "PolicyDocument" not in resource.properties:
            yield "it has no policy"


@pytest.mark.parametrize(("rule", "faulty"), RULES, ids=[rule.__name__ for rule, _ in RULES])
def test_the_stacks_follow_the_rule_and_it_catches_its_faults(
    rule: Rule, faulty: list[Resource], assembly: Assembly
) -> None:
    broken = [
        f"{resource.stack} {resource.logical_id}: {sentence}"
        for resource in assembly.all_resources()
        for sentence in rule(resource)
    ]
    assert broken == []
    assert [len(list(rule(each))) for each in faulty] == [1] * len(faulty)
