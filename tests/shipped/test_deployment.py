"""The repository as it is cloned: synthesized, compared, deployed to the account stand-in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from compilegate.account.settings.pins import write_pins
from compilegate.pipelines.images import image_folders
from tests.aws_server.client import REGION, AwsServer, running_server
from tests.mission.golden import KEY, compare
from tests.shipped.clone import ROOT, WORKLOADS, Place, clone_at
from tests.shipped.pages import follow

pytestmark = [pytest.mark.slow, pytest.mark.long]

AS_COMPILED = [
    (r"arn:aws:kms:us-east-1:123456789012:key/[0-9a-f-]+", KEY),
    (
        r"cdk-\w+-assets-123456789012-us-east-1/compilegate/compilegate/[\w-]+/",
        "compilegate-123456789012-us-east-1/compilegate/source/",
    ),
    (r"compilegate-workload-([\w-]+)-TrainingRole\w+-\w+", r"compilegate-\1-training"),
    (r"compilegate-workload-([\w-]+)-ProcessingRole\w+-\w+", r"compilegate-\1-processing"),
]
"""What the CDK and CloudFormation name by themselves, and its name in a compiled definition."""
OF_THE_PROJECT = {"Key": "compilegate:project", "Value": "compilegate"}
"""A tag of every job that is deployed here; a compiled definition is for an account of others."""
MADE = ("PipelineDefinitionBody", "S3Key", "Code")
"""Members of a template's resources that hold digests of programs, or a whole definition."""


@dataclass(frozen=True)
class Deployed:
    """The clone, the account that it is deployed to, and what the commands printed."""

    clone: Place
    aws: AwsServer
    compared: str
    """What `make diff` printed, before anything was deployed."""
    again: str
    """What a second `make deploy` printed."""

    def run(self, commands: str) -> str:
        """Run commands, of which one that starts an execution finds one that succeeds at once."""
        if "submit" in commands:
            frame = {"status": "Succeeded", "steps": []}
            self.aws.script("compilegate-news-topics", [frame])
        return self.clone.run(commands)

    def outputs(self, name: str) -> dict[str, str]:
        """Of a workload's stack."""
        described = self.aws.client("cloudformation").describe_stacks(
            StackName=f"compilegate-workload-{name}"
        )
        (stack,) = described["Stacks"]
        return {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    folder = tmp_path_factory.mktemp("clone") / "compilegate"
    with running_server() as aws:
        bases = [each.base_uri(REGION) for each in image_folders(ROOT / "containers").values()]
        aws.push_images(bases)
        environment = {
            **{name: value for name, value in aws.environment.items() if name[:3] != "CDK"},
            # The CDK remembers which account a key belongs to.
            "CDK_HOME": str(folder.parent / "cdk"),
            "COMPILEGATE_POLL_SECONDS": "0",
            "FLAGS": "--require-approval never",
        }
        clone = clone_at(folder, environment)
        # The tag of the public base is on the internet; `make deploy` looks up the others.
        public = {each: f"sha256:{'0' * 64}" for each in bases if each.startswith("public.")}
        write_pins(folder / "infra" / "settings.toml", public)
        clone.run("make synth FLAGS=")
        compared = clone.run("make diff FLAGS=")
        clone.run("make deploy")
        yield Deployed(clone, aws, compared, clone.run("make deploy"))


def test_every_stack_is_there_and_a_second_deployment_changes_nothing(deployed: Deployed) -> None:
    found = deployed.aws.client("cloudformation").describe_stacks()["Stacks"]
    stacks = {stack["StackName"]: stack["StackStatus"] for stack in found}
    expected = {"compilegate-foundation", "compilegate-images"}
    expected |= {f"compilegate-workload-{name}" for name in WORKLOADS}
    assert {each for each in stacks if each.startswith("compilegate-")} == expected
    assert {stacks[each] for each in expected} == {"CREATE_COMPLETE"}
    assert deployed.again.count("(no changes)") >= len(expected)
    for each in expected:
        assert f"Stack {each}" in deployed.compared


@pytest.mark.parametrize("name", WORKLOADS)
def test_an_execution_starts_with_the_requests_that_were_compiled(
    deployed: Deployed, name: str
) -> None:
    sagemaker = deployed.aws.client("sagemaker")
    started = sagemaker.start_pipeline_execution(
        PipelineName=deployed.outputs(name)["PipelineName"], ClientRequestToken=uuid4().hex
    )["PipelineExecutionArn"]
    found = sagemaker.describe_pipeline_definition_for_execution(PipelineExecutionArn=started)
    sagemaker.stop_pipeline_execution(  # executions do not overlap
        PipelineExecutionArn=started, ClientRequestToken=uuid4().hex
    )
    text = found["PipelineDefinition"]
    for deployed_as, compiled_as in AS_COMPILED:
        text = re.sub(deployed_as, compiled_as, text)
    compare(f"definitions/{name}", json.loads(text, object_hook=_without_the_projects_tag))


@pytest.mark.parametrize(
    "stack", ["foundation", "images", *(f"workload-{name}" for name in WORKLOADS)]
)
def test_the_template_of_a_stack_is_as_it_was(deployed: Deployed, stack: str) -> None:
    path = deployed.clone.folder / "cdk.out" / f"compilegate-{stack}.template.json"
    compare(f"templates/{stack}", _resources(json.loads(path.read_text(encoding="utf-8"))))


def test_docs_deploy_holds_line_by_line(deployed: Deployed) -> None:
    """Last: it changes the clone and the account, and removes what is there."""
    follow("docs/deploy.md", deployed.clone.folder, deployed.run)
    stacks = deployed.aws.client("cloudformation").describe_stacks()["Stacks"]
    assert not [each for each in stacks if each["StackName"].startswith("compilegate-")]


def _without_the_projects_tag(found: dict[str, Any]) -> dict[str, Any]:
    if "Tags" in found:
        found["Tags"].remove(OF_THE_PROJECT)
    return found


def _resources(value: Any) -> Any:
    """A template without what any change of a program moves."""
    if isinstance(value, list):
        return [_resources(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: "MADE" if key in MADE else _resources(each)
        for key, each in value.items()
        if key != "Metadata"
    }
