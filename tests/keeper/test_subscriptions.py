"""What calls the keeper, and that what Lambda gets is a whole program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from moto.events.models import EventPattern

from compilegate.infra.keeper import subscriptions
from compilegate.infra.keeper.program import HANDLER, PROGRAM, keeper_program
from tests.keeper.account import GROUP, STACKS

PIPELINE = "arn:aws:sagemaker:us-east-1:123456789012:pipeline/trial-topics"
EXECUTION = {"pipelineArn": PIPELINE, "currentPipelineExecutionStatus": "Failed"}
OTHER_STACK = STACKS.replace("topics", "x")
STACK = {"stack-id": f"{STACKS}1", "status-details": {"status": "UPDATE_ROLLBACK_COMPLETE"}}
TRANSFORM = {"TransformJobName": "trial-topics--3-2026", "TransformJobStatus": "Failed"}
MAKER, STACKER = "aws.sagemaker", "aws.cloudformation"


@pytest.mark.parametrize(
    ("kind", "source", "detail", "heard"),
    [
        (subscriptions.EXECUTION, MAKER, EXECUTION, "always"),
        (subscriptions.EXECUTION, MAKER, {**EXECUTION, "pipelineArn": f"{PIPELINE}-2"}, "never"),
        (subscriptions.EXECUTION, STACKER, EXECUTION, "with an endpoint of another source"),
        (subscriptions.PACKAGE, MAKER, {"ModelPackageGroupName": GROUP}, "endpoint batch"),
        (subscriptions.PACKAGE, MAKER, {"ModelPackageGroupName": "other"}, "never"),
        (subscriptions.STACK, STACKER, STACK, "endpoint"),
        (
            subscriptions.STACK,
            STACKER,
            {**STACK, "stack-id": OTHER_STACK},
            "never",
        ),
        (subscriptions.STACK, STACKER, {**STACK, "status-details": {"status": "DELETED"}}, "never"),
        (subscriptions.TRANSFORM, MAKER, TRANSFORM, "batch"),
        (subscriptions.TRANSFORM, MAKER, {**TRANSFORM, "TransformJobStatus": "Completed"}, "never"),
        ("SageMaker Training Job State Change", MAKER, EXECUTION, "never"),
    ],
)
def test_one_rule_lets_through_what_the_keeper_acts_on(
    kind: str, source: str, detail: dict[str, Any], heard: str
) -> None:
    event = {"detail-type": kind, "source": source, "detail": detail}
    for deploys, given in {
        "nothing": (None, None),
        "endpoint": (STACKS, None),
        "batch": (None, "trial-topics--"),
    }.items():
        pattern = subscriptions.event_pattern(PIPELINE, GROUP, *given)
        expected = heard == "always" or deploys in heard.split()
        assert EventPattern(None, pattern).matches_event(event) is expected, deploys
        # With fewer, EventBridge takes it for the name of a field.
        assert len(pattern.get("$or", "..")) >= 2


def test_the_longest_names_fit_into_one_pattern() -> None:
    workload, project, region = "w" * 40, "p" * 20, "ap-southeast-1"
    name = f"{project}-{workload}"
    arn = f"arn:aws-us-gov:sagemaker:{region}:123456789012:pipeline/{name}"
    stack = (
        f"arn:aws-us-gov:cloudformation:{region}:123456789012:stack/{project}-endpoint-{workload}/"
    )
    pattern = subscriptions.event_pattern(arn, name, stack, f"{name}--")
    assert len(json.dumps(pattern)) < subscriptions.LONGEST_PATTERN


@pytest.mark.slow
def test_the_program_imports_nothing_that_lambda_lacks(tmp_path: Path) -> None:
    folder = keeper_program(tmp_path / "program")
    parts = {part.partition("/")[0] for part in PROGRAM}
    assert parts == {path.name for path in (folder / "compilegate").iterdir()}
    module, _, name = HANDLER.rpartition(".")
    program = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); import {module} as m; "
        f"assert m.{name}; assert m.__file__.startswith({str(folder)!r}); "
        "assert not {'numpy', 'pydantic'} & {each.partition('.')[0] for each in sys.modules}"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
