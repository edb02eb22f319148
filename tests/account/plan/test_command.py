"""`compilegate aws plan` against an account: the real definition, deployed and executed once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.account.command import compilegate
from tests.account.deployed import (
    BUCKET,
    FOUNDATION,
    KEY,
    PIPELINE,
    REGISTRY,
    WORKLOAD,
    create_stack,
    deploy,
)
from tests.account.scripted import frame, job
from tests.aws_server.client import PROJECT, AwsServer

pytestmark = pytest.mark.slow

BUILDS = "Concurrently running builds for Linux/Medium environment"


def plan(aws: AwsServer, project: Path, *arguments: str, **more: str) -> dict[str, Any]:
    done = compilegate(
        aws,
        project,
        *("aws", "plan", "topics", "--format", "json", *arguments),
        **more,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def deployed_definition(project: Path) -> str:
    """What a deployment of this checkout would bring, compiled as `make deploy` does."""
    from compilegate.account.deployed import StackOutputs  # noqa: PLC0415
    from compilegate.account.plan.target import target_deployment, target_sources  # noqa: PLC0415
    from compilegate.account.settings import Names, Settings  # noqa: PLC0415
    from compilegate.datasets import raw_data  # noqa: PLC0415
    from compilegate.document.writing import compact  # noqa: PLC0415
    from compilegate.pipelines.compilation import compile_definition  # noqa: PLC0415
    from compilegate.pipelines.staging import image_folders, placement_of  # noqa: PLC0415
    from compilegate.workload import read_workload  # noqa: PLC0415
    from tests.account.deployed import WORKLOAD  # noqa: PLC0415

    path = project / "workloads" / "topics.toml"
    workload = read_workload(path)
    deployment = target_deployment(
        StackOutputs("compilegate-foundation", FOUNDATION),
        StackOutputs("compilegate-workload-topics", WORKLOAD),
        Names(Settings()),
        {name: each.tag for name, each in image_folders(PROJECT / "containers").items()},
        "us-east-1",
    )
    data = raw_data(workload.data, path.parent)
    staged = placement_of(workload, deployment, data, path.parent).sources
    sources = target_sources(staged, StackOutputs("compilegate-workload-topics", WORKLOAD))
    return compact(compile_definition(workload, deployment, sources))


@pytest.mark.long
def test_a_new_workload_is_planned_also_where_quotas_may_not_be_read(
    aws: AwsServer, project: Path
) -> None:
    create_stack(aws, "compilegate-foundation", FOUNDATION)
    aws.fail("ListServiceQuotas", "AccessDeniedException", message="no")
    found = plan(aws, project)
    assert found["deployed"] is False
    assert {"Prepare", "Train-baseline-7", "Gate"} <= set(found["changes"]["added"])
    assert found["cost"]["usual"]["counted"] == 0
    assert found["cost"]["most"]["usd"] == pytest.approx(4 * 24 * 1.408)
    (size,) = found["quotas"]
    assert (size["quota"], size["answer"]) == ("size of a pipeline definition", "allows")
    assert found["quotas_unknown"] == (
        "cannot read the account's quotas of SageMaker: the credentials do not allow "
        "ListServiceQuotas; ask for that permission"
    )
    assert aws.calls("StartPipelineExecution") == []


@pytest.mark.long
def test_after_a_deployment_and_an_execution_the_plan_says_what_a_change_costs(
    aws: AwsServer, project: Path
) -> None:
    definition = deployed_definition(project)
    account = deploy(aws, definition)
    steps = [
        job(step["Name"], step["Type"], 0, 600)
        for step in json.loads(definition)["Steps"]
        if step["Type"] in {"Training", "Processing"}
    ]
    account.script(frame("Succeeded", *steps))
    account.start()
    same = plan(aws, project)
    assert same["deployed"] is True
    assert same["changes"]["changed"] == same["changes"]["added"] == []
    # What the gate decides anew is packaged and kept: either of these, so that the plan has both.
    kept = ("Package", "Keep")
    again = [p["step"] for p in same["predictions"] if not p["served"]]
    assert again == [
        "Gate",
        *(f"{step}-{arm}" for arm in ("compiled", "baseline") for step in kept),
    ]

    declared = project / "workloads" / "topics.toml"
    declared.write_text(declared.read_text().replace("epochs = 2", "epochs = 3"))
    aws.set_quotas({"ml.g5.xlarge for training job usage": 0, BUILDS: 1})
    done = compilegate(
        aws,
        project,
        *("aws", "plan", "topics", "--format", "markdown"),
    )
    lines = done.stdout.splitlines()
    assert lines[0] == f"<!-- compilegate aws plan {PIPELINE} -->"
    assert "Definition: 0 steps added, 0 removed, 4 changed, 0 changes of parameters" in lines
    changed = lines.index("-   HyperParameters.epochs: 2")
    assert lines[changed + 1] == "+   HyperParameters.epochs: 3"
    assert lines[changed - 1].startswith("! Train-baseline-7, Train-compiled-7, ")
    row = "| Train-baseline-7 | ml.g5.xlarge | run | 10.0 min | $0.235 | $33.79 |"
    assert any(line.startswith(row) for line in lines)
    assert "asks for something else: HyperParameters.epochs" in done.stdout
    assert "- **FORBIDDEN**: ml.g5.xlarge for training job usage: 4 needed at once" in done.stdout
    assert (
        f"- **limited**: {BUILDS}: 2 images to build, allowed at once: 1; the others are queued"
        in done.stdout
    )
    assert "Quotas: 1 of 4 forbid this execution, 1 unknown" in lines
    assert [line for line in done.stderr.splitlines() if line != "compiling topics"] == [
        "looking up where topics is deployed",
        "reading the deployed definition, its latest executions and the account's quotas",
    ]


def test_the_definition_is_that_of_the_account(project: Path) -> None:
    text = deployed_definition(project)
    definition = json.loads(text)
    prepare = definition["Steps"][0]["Arguments"]
    assert prepare["AppSpecification"]["ImageUri"].startswith(f"{REGISTRY}/training:")
    assert prepare["RoleArn"] == WORKLOAD["ProcessingRoleArn"]
    assert KEY in text
    assert definition["Parameters"][0]["DefaultValue"].startswith(
        f"s3://{BUCKET}/compilegate/data/"
    )


def test_without_a_foundation_there_is_nothing_to_plan_for(aws: AwsServer, project: Path) -> None:
    done = compilegate(aws, project, "aws", "plan", "topics")
    assert done.returncode == 2
    assert "there is no stack compilegate-foundation" in done.stderr
    assert "make deploy" in done.stderr
