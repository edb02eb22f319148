"""What the stacks say, and what holds between them: the golden templates have all the rest."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from tests.infra.assembly import ACCOUNT, REGION, Assembly

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).with_name("golden")
PROJECT = Path(__file__).with_name("project")
STACKS = ("foundation", "images", "workload-topics", "workload-watched", "endpoint-watched", "ci")
FOUNDATION, WATCHED = "compilegate-foundation", "compilegate-workload-watched"

DIGEST = re.compile(r"\b(?:[0-9a-f]{64}|[0-9a-f]{32})\b")
"""Of code and of raw data: it changes with every line of the programs."""


@pytest.mark.parametrize("stack", STACKS)
def test_the_template_is_the_golden_one(stack: str, assembly: Assembly) -> None:
    """`UPDATE_GOLDEN=1` writes it anew; read the difference."""
    text = normalised(assembly.templates[f"compilegate-{stack}"])
    golden = GOLDEN / f"{stack}.template.json"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def normalised(template: dict[str, Any]) -> str:
    """Without digests of programs, and without the definition, which has a golden file itself."""
    template = json.loads(json.dumps(template))
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::SageMaker::Pipeline":
            body = resource["Properties"]["PipelineDefinition"]["PipelineDefinitionBody"]
            body["Fn::Sub"][0] = "(the definition)"
    template.pop("Rules")  # the CDK's own: which bootstrap it needs
    template["Parameters"].pop("BootstrapVersion")
    return DIGEST.sub("DIGEST", json.dumps(template, indent=1, sort_keys=True)) + "\n"


def test_two_deployments_in_one_account_share_no_name(assembly: Assembly) -> None:
    given = Counter(
        (resource.type, resource.name)
        for resource in assembly.all_resources()
        if resource.name != resource.logical_id and resource.type != "AWS::Lambda::Permission"
    )
    assert len(given) >= 40
    assert [name for name, times in given.items() if times > 1] == []


def test_every_resource_and_job_is_tagged_with_its_deployment(assembly: Assembly) -> None:
    """A job takes no tag of the pipeline's, and a budget counts it by its own."""
    tagged = {
        (resource.stack, resource.logical_id): _tags(resource.properties["Tags"])
        for resource in assembly.all_resources()
        if "Tags" in resource.properties and resource.type != "AWS::Scheduler::Schedule"
    }
    for (stack, _), tags in tagged.items():
        assert tags["compilegate:project"] == stack.split("-")[0]
    pipeline = assembly.one("neighbour-workload-watched", "AWS::SageMaker::Pipeline")
    text = pipeline.properties["PipelineDefinition"]["PipelineDefinitionBody"]
    jobs = [step["Arguments"].get("Tags") for step in json.loads(text)["Steps"]]
    expected = {"compilegate:project": "neighbour", "owner": "ml-platform"}
    assert expected.items() <= _tags(next(tags for tags in jobs if tags)).items()
    for stack, resource in (("workload", "Keeper"), ("endpoint", "Model")):
        found = tagged[f"neighbour-{stack}-watched", resource]
        assert found == {**expected, "compilegate:workload": "watched"}


def _tags(tags: Any) -> dict[str, str]:
    return tags if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}


def test_three_rules_and_the_pipelines_steps_call_the_keeper(assembly: Assembly) -> None:
    """The rules through one permission, which is no other workload's. Each may leave what it cannot
    deliver in the queue."""
    keeper = assembly.one(WATCHED, "AWS::Lambda::Function")
    queue = assembly.one(FOUNDATION, "AWS::SQS::Queue")
    permission = assembly.one(WATCHED, "AWS::Lambda::Permission").properties["SourceArn"]
    statements = assembly.one(FOUNDATION, "AWS::SQS::QueuePolicy").properties["PolicyDocument"]
    (let_in,) = (
        each["Condition"]["ArnLike"]["aws:SourceArn"]
        for each in statements["Statement"]
        if each["Effect"] == "Allow"
    )
    rules = assembly.resources(WATCHED, "AWS::Events::Rule")
    assert len(rules) == 3
    for rule in rules:
        (target,) = rule.properties["Targets"]
        assert (target["Arn"], target["DeadLetterConfig"]) == (keeper.arn, {"Arn": queue.arn})
        assert fnmatch(rule.arn, permission)
        assert fnmatch(rule.arn, let_in)
    pipeline = assembly.one(WATCHED, "AWS::SageMaker::Pipeline").properties["PipelineDefinition"]
    assert pipeline["PipelineDefinitionBody"].count(f'"FunctionArn":"{keeper.arn}"') >= 2
    assert not fnmatch(f"{rules[0].arn.partition('--')[0]}-2--event", permission)


def test_every_alarm_may_be_sent_through_the_encrypted_topic(assembly: Assembly) -> None:
    """Topic and key take messages of alarms by the beginning of their names: a name apart from it
    would be an alarm that nobody hears."""
    alarms = assembly.all_resources("AWS::CloudWatch::Alarm")
    assert len(alarms) >= 3
    for alarm in alarms:
        project, _, _ = alarm.stack.partition("-")
        topic = assembly.one(f"{project}-foundation", "AWS::SNS::Topic").arn
        assert alarm.name.startswith(f"{project}-")
        assert alarm.properties["AlarmActions"] == [topic]


def test_what_is_kept_is_what_the_settings_say(assembly: Assembly) -> None:
    kept = {
        (stack.partition("-")[0], resource["Type"].partition("::")[2])
        for stack, template in assembly.templates.items()
        for resource in template["Resources"].values()
        if resource.get("DeletionPolicy") == "RetainExceptOnCreate"
    }
    keeping = ("DynamoDB::Table", "ECR::Repository", "KMS::Key", "S3::Bucket")
    assert kept == {
        (project, type)
        for project in ("compilegate", "walled", "shipped")
        for type in (*keeping, "SageMaker::ModelPackageGroup")
    }


def test_no_export_ties_stacks_that_come_and_go(assembly: Assembly) -> None:
    """CloudFormation removes no export that another stack imports: the foundation's are there
    without any workload, and no repository is among them, so that a folder can be removed."""
    exported = exports(assembly.templates[FOUNDATION])
    assert len(exported) == 6
    assert not [name for name in exported if "Repository" in name]
    assert exports(synthesized("foundation", {}, workloads=[])) == exported


def exports(template: dict[str, Any]) -> dict[str, Any]:
    outputs = template["Outputs"].items()
    return {name: output["Value"] for name, output in outputs if "Export" in output}


def synthesized(kind: str, settings: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The template of one stack of the tests' project, with some settings changed."""
    from dataclasses import replace  # noqa: PLC0415

    from aws_cdk import App, Environment, Stack  # noqa: PLC0415
    from aws_cdk.assertions import Template  # noqa: PLC0415

    from compilegate.account.settings import Settings  # noqa: PLC0415
    from compilegate.infra.app import build, context_of  # noqa: PLC0415
    from compilegate.infra.project import read_project  # noqa: PLC0415

    project = replace(read_project(PROJECT), settings=Settings.model_validate(settings), **changes)
    app = App(context=context_of(project))
    build(app, project, Environment(account=ACCOUNT, region=REGION))
    stack: Stack = app.node.find_child(f"compilegate-{kind}")
    template: dict[str, Any] = Template.from_stack(stack).to_json()
    return template


def watched(**serving: str) -> list[Any]:
    """The workload with everything on, with some keys of `[serving]` changed."""
    from compilegate.infra.project import DeclaredWorkload  # noqa: PLC0415
    from tests.workload.settled import workload_with  # noqa: PLC0415

    path = PROJECT / "workloads" / "watched.toml"
    return [DeclaredWorkload(workload=workload_with(path, serving=serving), path=path)]


def test_a_promoted_model_is_served_in_an_image_of_this_region() -> None:
    """SageMaker takes no other: what the stage before has built in its region is replicated."""
    before = {"account": "111111111111", "region": "eu-west-1", "project": "trial"}
    settings = {"source": {**before, "repository_prefix": "ml/models"}}
    made = synthesized("workload-watched", settings, workloads=watched(image="training"))
    pulled = re.findall(r":repository/ml/models/\w+|:ecr:[\w-]+:111111111111", json.dumps(made))
    assert set(pulled) == {f":ecr:{REGION}:111111111111", ":repository/ml/models/training"}


@pytest.mark.parametrize(
    ("instance_type", "named"), [("ml.m5.xlarge", True), ("ml.g5.xlarge", False)]
)
def test_a_key_for_volumes_is_named_where_there_are_volumes(
    instance_type: str, named: bool
) -> None:
    """SageMaker refuses it for machines whose own disks are all they have."""
    answering = synthesized("endpoint-watched", {}, workloads=watched(instance_type=instance_type))
    assert ('"KmsKeyId"' in json.dumps(answering)) is named
    batch = watched(instance_type=instance_type, deploy="batch")
    transforming = synthesized("workload-watched", {}, workloads=batch)
    keeper = next(
        each["Properties"]["Environment"]["Variables"]["BATCH"]
        for each in transforming["Resources"].values()
        if each["Type"] == "AWS::Lambda::Function"
    )
    assert (r"\"volume_key_arn\":\"\"" in json.dumps(keeper)) is not named


def test_what_is_too_long_for_a_keeper_is_refused() -> None:
    from compilegate.infra.workload import EnvironmentSizeError  # noqa: PLC0415

    tags = {f"tag-{number}": "x" * 200 for number in range(40)}
    with pytest.raises(EnvironmentSizeError, match=r"watched\.toml: .* expected at most 4,000"):
        synthesized("workload-watched", {"tags": tags}, workloads=watched(deploy="batch"))


KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/01234567-89ab-cdef-0123-456789abcdef"
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:of-the-platform"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/of/the-platform"
SUBNET, GROUP = "subnet-0123456789abcdef0", "sg-0123456789abcdef0"
NETWORK = {"vpc_id": "vpc-0123456789abcdef0", "subnets": [SUBNET], "security_groups": [GROUP]}
BOUNDARY = {"qualifier": "platform", "boundary": "of-the-platform"}


@pytest.mark.parametrize(
    ("settings", "stack", "gone", "named"),
    [
        ({"storage": {"key_arn": KEY}}, "foundation", "AWS::KMS::Key", KEY),
        ({"storage": {"bucket": "platforms"}}, "foundation", "AWS::S3::Bucket", "platforms"),
        ({"notifications": {"topic_arn": TOPIC}}, "foundation", "AWS::SNS::Topic", TOPIC),
        ({"network": NETWORK}, "workload-watched", "AWS::EC2::VPC", SUBNET),
        ({"network": NETWORK}, "endpoint-watched", "AWS::EC2::VPC", GROUP),
        ({"names": {"path": "/ml/team/"}}, "workload-topics", None, '"Path": "/ml/team/"'),
        ({"bootstrap": BOUNDARY}, "workload-topics", None, ":policy/of-the-platform"),
        ({"roles": {"serving": ROLE}}, "endpoint-watched", "AWS::IAM::Role", f'"{ROLE}"'),
        *(
            ({"roles": {role: ROLE}}, "workload-watched", None, f'"{ROLE}"')
            for role in ("training", "processing", "pipeline", "keeper", "schedule")
        ),
    ],
)
def test_what_the_platform_has_already_takes_the_place_of_what_would_be_made(
    settings: dict[str, Any], stack: str, gone: str | None, named: str
) -> None:
    template = synthesized(stack, settings)
    resources = template["Resources"].values()
    assert gone not in {resource["Type"] for resource in resources}
    assert named in json.dumps(template)
    roles = [resource for resource in resources if resource["Type"] == "AWS::IAM::Role"]
    if "roles" in settings and gone is None:
        assert len(roles) == 5
    if "names" in settings:
        assert {role["Properties"]["Path"] for role in roles} == {"/ml/team/"}
    if "bootstrap" in settings:
        assert all("of-the-platform" in json.dumps(role["Properties"]) for role in roles)
