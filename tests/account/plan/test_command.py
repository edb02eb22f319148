"""`compilegate aws plan` against an account: the real definition, deployed and executed once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.account.command import compilegate
from tests.account.deployed import (
    FOUNDATION,
    PIPELINE,
    REGISTRY,
    WORKLOAD,
    create_stack,
    deploy,
)
from tests.aws_server.client import PROJECT, AwsServer

pytestmark = pytest.mark.slow

TRAINING = "ml.g5.xlarge for training job usage"
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
    from compilegate.account.plan.planning import target_deployment, target_sources  # noqa: PLC0415
    from compilegate.account.session import StackOutputs  # noqa: PLC0415
    from compilegate.account.settings import Names, Settings  # noqa: PLC0415
    from compilegate.datasets import raw_data  # noqa: PLC0415
    from compilegate.document.writing import compact  # noqa: PLC0415
    from compilegate.pipelines.compilation import compile_definition  # noqa: PLC0415
    from compilegate.pipelines.images import image_folders  # noqa: PLC0415
    from compilegate.pipelines.staging.placement import placement_of  # noqa: PLC0415
    from compilegate.workload import read_workload  # noqa: PLC0415

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
    assert found["definition"] == "not deployed"
    assert found["most_usd"] == pytest.approx(4 * 24 * 1.408)
    assert {"Train-baseline-7", "Train-compiled-8"} <= set(found["usd_of"])
    (size,) = found["quotas"]
    assert (size["quota"], size["answer"]) == ("size of a pipeline definition", "allows")
    assert "cannot read the account's quotas of SageMaker" in found["quotas_unknown"]
    assert aws.calls("StartPipelineExecution") == []


@pytest.mark.long
def test_after_a_deployment_the_plan_has_the_cost_and_the_quotas_of_a_change(
    aws: AwsServer, project: Path
) -> None:
    deploy(aws, deployed_definition(project))
    assert plan(aws, project)["definition"] == "same"

    declared = project / "workloads" / "topics.toml"
    declared.write_text(declared.read_text().replace("epochs = 2", "epochs = 3"))
    aws.set_quotas({TRAINING: 0, BUILDS: 1})
    done = compilegate(aws, project, "aws", "plan", "topics", "--format", "markdown")
    lines = done.stdout.splitlines()
    assert lines[0] == f"<!-- compilegate aws plan {PIPELINE} -->"
    assert "Definition: not the deployed one; make diff shows the changes" in lines
    assert "| 4 training | ml.g5.xlarge | 24.0 h | $135.17 |" in lines
    assert f"- **FORBIDDEN**: {TRAINING}: 4 needed at once, allowed: 0" in done.stdout
    assert "/servicequotas/home/services/sagemaker/quotas/L-" in done.stdout
    assert f"- **limited**: {BUILDS}: 2 images to build at once, allowed: 1" in done.stdout
    assert "Quotas: 1 of 4 forbid an execution, 1 unknown" in lines

    printed = compilegate(aws, project, "aws", "plan", "--quotas")
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout.startswith("topics: Quotas: 1 of 2 forbid an execution, 1 unknown\n")
    assert f"  FORBIDDEN: {TRAINING}: 4 needed at once, allowed: 0" in printed.stdout
    with declared.open("a") as file:
        file.write('\n[schedule]\nexpression = "rate(7 days)"\nenabled = true\n')
    failing = compilegate(aws, project, "aws", "plan", "--quotas")
    assert failing.returncode == 2
    assert failing.stdout == printed.stdout
    assert failing.stderr.startswith("error: topics starts by itself and would fail: ")


@pytest.mark.long
def test_a_start_keeps_to_the_quotas_of_the_account(aws: AwsServer, project: Path) -> None:
    deploy(aws, deployed_definition(project))
    aws.set_quotas({TRAINING: 0})
    refused = compilegate(aws, project, "aws", "submit", "topics")
    assert refused.returncode == 2
    assert f"{TRAINING}: 4 needed at once, allowed: 0; no such job can start" in refused.stderr
    assert aws.calls("PutObject") == aws.calls("StartPipelineExecution") == []

    aws.set_quotas({TRAINING: 3})
    started = compilegate(aws, project, "aws", "submit", "topics")
    assert started.returncode == 0, started.stderr
    (request,) = aws.calls("StartPipelineExecution")
    assert request["ParallelismConfiguration"] == {"MaxParallelExecutionSteps": 3}


def test_a_new_image_folder_has_the_repository_that_a_deployment_would_make() -> None:
    from compilegate.account.plan.planning import target_deployment  # noqa: PLC0415
    from compilegate.account.session import StackOutputs  # noqa: PLC0415
    from compilegate.account.settings import Names, Settings  # noqa: PLC0415

    foundation = StackOutputs("compilegate-foundation", FOUNDATION)
    tags = {"training": "1", "brand-new": "2"}
    images = target_deployment(foundation, None, Names(Settings()), tags, "us-east-1").images
    assert images == {"training": f"{REGISTRY}/training:1", "brand-new": f"{REGISTRY}/brand-new:2"}
