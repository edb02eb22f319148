"""The notifier of one pipeline: which events it receives, and what it may do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from constructs import Construct

from compilegate.access import Arns, Statement
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.functions import DeadLetters, EventFunction, log_name
from compilegate.infra.project import Project
from compilegate.infra.workload.permissions import notifier_statements


def notifier(
    scope: Construct,
    id: str,
    *,
    project: Project,
    workload: str,
    group: str,
    pipeline_arn: str,
    foundation: FoundationStack,
    dead_letters: DeadLetters,
    limits: Mapping[str, Any],
    also: Sequence[Statement] = (),
) -> EventFunction:
    """Keeps executions from overlapping, reports failures and refused candidates, and gives
    registered models their cards.

    `also` is what it may do beyond that, for what else it is told of.
    """
    name = project.names.function(workload, "notifier")
    function = EventFunction(
        scope,
        id,
        name=name,
        description=f"Keeps executions of {workload} from overlapping, and notifies people",
        code=Path(__file__).parents[1] / "notifier",
        handler="notifier.handler",
        variables={
            "TOPIC_ARN": foundation.topic.topic_arn,
            "PIPELINE_ARN": pipeline_arn,
            "BUCKET": foundation.bucket.bucket_name,
            "WORKLOAD": workload,
            "LIMITS": json.dumps(limits, separators=(",", ":")),
        },
        statements=[
            *also,
            *notifier_statements(
                arns=Arns.of(cdk.Stack.of(scope)),
                workload=workload,
                group=group,
                pipeline_arn=pipeline_arn,
                bucket_arn=foundation.bucket_arn,
                key_arn=foundation.key.key_arn,
                topic_arn=foundation.topic.topic_arn,
                dead_letter_arn=dead_letters.queue.queue_arn,
                log_group=log_name(name),
            ),
        ],
        key=foundation.key,
        log_days=project.settings.storage.log_days,
        dead_letters=dead_letters,
    )
    function.subscribe("Executions", _changes("Execution", pipeline_arn, EXECUTION_STATES))
    function.subscribe("Gate", _changes("Execution Step", pipeline_arn, GATE_STATES))
    function.call_on("Look", "rate(1 hour)", {"look": workload})
    return function


GATE_STEP = "Gate"
EXECUTION_STATES = {"currentPipelineExecutionStatus": ["Executing", "Failed", "Succeeded"]}
GATE_STATES = {
    "stepName": [GATE_STEP, {"prefix": f"{GATE_STEP}-"}, {"prefix": "Register-"}],
    "currentStepStatus": ["Succeeded"],
}


def _changes(of: str, pipeline_arn: str, states: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "source": ["aws.sagemaker"],
        "detail-type": [f"SageMaker Model Building Pipeline {of} Status Change"],
        "detail": {"pipelineArn": [pipeline_arn], **states},
    }
