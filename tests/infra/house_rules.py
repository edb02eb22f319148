"""What none of the public checkers catches: each rule takes a resource and yields sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from tests.infra.assembly import Resource

PIPELINE_NAME = re.compile(r"[a-zA-Z0-9](?:-*[a-zA-Z0-9]){0,255}")
WEB_IDENTITY = "sts:AssumeRoleWithWebIdentity"


def a_cron_leaves_one_day_field_open(resource: Resource) -> Iterator[str]:
    """EventBridge Scheduler wants exactly one of day-of-month and day-of-week to be `?`."""
    if resource.type == "AWS::Scheduler::Schedule":
        expression = str(resource.properties["ScheduleExpression"])
        if expression.startswith("cron("):
            fields = expression.removeprefix("cron(").removesuffix(")").split()
            if [fields[2], fields[4]].count("?") != 1:
                yield f"{expression}: not exactly one of its day fields is `?`"


def a_definition_is_json(resource: Resource) -> Iterator[str]:
    """CloudFormation takes any text for it, and SageMaker then refuses the deployment."""
    if resource.type == "AWS::SageMaker::Pipeline":
        try:
            json.loads(resource.properties["PipelineDefinition"]["PipelineDefinitionBody"])
        except json.JSONDecodeError as error:
            yield f"the definition is not JSON: {error}"


def a_pipelines_name_is_one_that_sagemaker_takes(resource: Resource) -> Iterator[str]:
    if resource.type == "AWS::SageMaker::Pipeline" and not PIPELINE_NAME.fullmatch(resource.name):
        yield f"pipeline name {resource.name}: letters, digits and single hyphens are allowed"


def a_web_identity_is_of_certain_jobs(resource: Resource) -> Iterator[str]:
    """With `aud` alone, or with a pattern for `sub`, jobs of strangers could become the role."""
    if resource.type != "AWS::IAM::Role":
        return
    for statement in resource.properties["AssumeRolePolicyDocument"]["Statement"]:
        if statement["Action"] == WEB_IDENTITY:
            equal = statement.get("Condition", {}).get("StringEquals", {})
            claims = {key.rpartition(":")[2]: value for key, value in equal.items()}
            for claim in ("aud", "sub"):
                if claim not in claims:
                    yield f"its trust does not compare {claim}"
            # A job of any branch, and of any workflow, can ask for an environment.
            if ":environment:" in claims.get("sub", ""):
                missing = [name for name in ("ref", "job_workflow_ref") if name not in claims]
                if missing:
                    yield f"its trust names an environment and does not compare {missing}"


def a_build_queues(resource: Resource) -> Iterator[str]:
    """Above a limit of the project's own CodeBuild refuses a build; above the account's, it queues
    it. And the limit has to be below the account's, which can be one."""
    if resource.type == "AWS::CodeBuild::Project" and "ConcurrentBuildLimit" in resource.properties:
        yield "it has a limit of concurrent builds"


def a_role_is_bounded(resource: Resource) -> Iterator[str]:
    """Whoever may deploy could make himself a role that may do anything."""
    if resource.type == "AWS::IAM::Role" and "PermissionsBoundary" not in resource.properties:
        yield "it has no permissions boundary"


def a_role_has_no_policy_of_anybody_elses(resource: Resource) -> Iterator[str]:
    if resource.type == "AWS::IAM::Role":
        for managed in resource.properties.get("ManagedPolicyArns", []):
            yield f"managed policy {managed}: what it allows is not written here"


SAYS_NOT_FOR_WHOM = {"lambda.amazonaws.com"}
"""Services that take roles of the asking account only, and document no condition about it: with one
they could not become the role."""


def a_service_acts_for_this_account_only(resource: Resource) -> Iterator[str]:
    """Against the confused deputy: the service may be asked by any account."""
    if resource.type != "AWS::IAM::Role":
        return
    for statement in resource.properties["AssumeRolePolicyDocument"]["Statement"]:
        if statement["Principal"].get("Service", "lambda.amazonaws.com") not in SAYS_NOT_FOR_WHOM:
            equal = statement.get("Condition", {}).get("StringEquals", {})
            if "aws:SourceAccount" not in equal:
                yield f"{statement['Principal']['Service']} is trusted for any account"


def a_role_is_passed_to_one_service(resource: Resource) -> Iterator[str]:
    if resource.type != "AWS::IAM::Role":
        return
    for policy in resource.properties.get("Policies", []):
        for statement in policy["PolicyDocument"]["Statement"]:
            actions = statement["Action"]
            if "iam:PassRole" in ([actions] if isinstance(actions, str) else actions):
                equal = statement.get("Condition", {}).get("StringEquals", {})
                if "iam:PassedToService" not in equal or "*" in str(statement["Resource"]):
                    yield "it passes a role to any service, or passes any role"


def a_log_group_is_encrypted_and_forgets(resource: Resource) -> Iterator[str]:
    if resource.type == "AWS::Logs::LogGroup":
        for needed in ("KmsKeyId", "RetentionInDays"):
            if needed not in resource.properties:
                yield f"it has no {needed}"


def nothing_with_a_given_name_is_replaced_by_an_edit(resource: Resource) -> Iterator[str]:
    """CloudFormation makes the new one first, under a name that is taken: the deployment fails."""
    allowed = NEVER_EDITED.get(resource.type)
    if allowed is not None:
        for key in sorted(resource.properties.keys() & _only_when_made(resource.type) - allowed):
            yield f"{key} can be set only when it is made"


NEVER_EDITED = {
    "AWS::CloudWatch::Alarm": {"AlarmName"},
    "AWS::CodeBuild::Project": {"Name"},
    "AWS::ECR::Repository": {"RepositoryName", "EncryptionConfiguration"},
    "AWS::Lambda::Function": {"FunctionName"},
    "AWS::Logs::LogGroup": {"LogGroupName"},
    "AWS::S3::Bucket": {"BucketName"},
    "AWS::SNS::Topic": {"TopicName"},
    "AWS::SageMaker::ModelPackageGroup": {"ModelPackageGroupName"},
    "AWS::SageMaker::Pipeline": {"PipelineName"},
    "AWS::Scheduler::Schedule": {"Name"},
    "AWS::Scheduler::ScheduleGroup": {"Name"},
}
"""Resources that have names of the project's, and what is said of them once."""


def _only_when_made(type: str) -> set[str]:
    """Properties that CloudFormation can give a resource and never change."""
    from cfnlint.schema import PROVIDER_SCHEMA_MANAGER  # noqa: PLC0415  takes a second to import

    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", type).schema
    return {path.split("/")[2] for path in schema.get("createOnlyProperties", ())}


def nothing_is_made_by_a_custom_resource(resource: Resource) -> Iterator[str]:
    if resource.type.startswith("Custom::") or resource.type.endswith("::CustomResource"):
        yield f"{resource.type}: a function would have to be kept for it"


WAYS_OUT = {
    "AWS::EC2::EgressOnlyInternetGateway",
    "AWS::EC2::InternetGateway",
    "AWS::EC2::NatGateway",
    "AWS::EC2::TransitGatewayAttachment",
    "AWS::EC2::VPCGatewayAttachment",
    "AWS::EC2::VPCPeeringConnection",
    "AWS::EC2::VPNGateway",
}


def nothing_leads_out_of_a_network(resource: Resource) -> Iterator[str]:
    """A route needs none beside the VPC's own: an endpoint's gateway brings its routes along."""
    if resource.type in WAYS_OUT or resource.type == "AWS::EC2::Route":
        yield f"{resource.type}: a way out of the network"
    if resource.properties.get("MapPublicIpOnLaunch"):
        yield "what is in this subnet gets a public address"


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


def an_endpoint_is_found_and_limited(resource: Resource) -> Iterator[str]:
    """Without private DNS, programs ask the public address, to which no way leads; without a
    policy, one leads to everybody's buckets."""
    if resource.type == "AWS::EC2::VPCEndpoint":
        interface = resource.properties["VpcEndpointType"] == "Interface"
        if interface and resource.properties.get("PrivateDnsEnabled") is not True:
            yield "names do not resolve to it"
        if "PolicyDocument" not in resource.properties:
            yield "it has no policy"


RULES: tuple[Callable[[Resource], Iterator[str]], ...] = (
    a_build_queues,
    a_cron_leaves_one_day_field_open,
    a_definition_is_json,
    a_log_group_is_encrypted_and_forgets,
    a_pipelines_name_is_one_that_sagemaker_takes,
    a_role_has_no_policy_of_anybody_elses,
    a_role_is_passed_to_one_service,
    a_service_acts_for_this_account_only,
    a_web_identity_is_of_certain_jobs,
    a_role_is_bounded,
    an_endpoint_is_found_and_limited,
    nobody_gets_in_from_an_address,
    nothing_leads_out_of_a_network,
    nothing_is_made_by_a_custom_resource,
    nothing_with_a_given_name_is_replaced_by_an_edit,
)
