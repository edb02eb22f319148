"""What the latest executions of a pipeline ran, and with which requests."""

from __future__ import annotations

from typing import Any

from pipelines.aws.errors import asking
from pipelines.aws.executions import latest_executions, read_execution
from pipelines.aws.plan.past_execution import PastExecution
from pipelines.aws.session import AwsSession
from pipelines.semantics.definition import read_definition
from pipelines.semantics.parameters import parameter_values

EXECUTIONS = 5
"""How far back it is looked. The service looks further, so that a plan errs towards "runs"."""


def read_history(session: AwsSession, pipeline: str, most: int = EXECUTIONS) -> list[PastExecution]:
    """The latest executions, newest first. Raises AwsError."""
    client = session.client("sagemaker")
    return [_read(client, arn) for arn in latest_executions(session, pipeline, most)]


def _read(client: Any, arn: str) -> PastExecution:
    state = read_execution(client, arn)
    with asking(f"read the definition of the execution {arn}"):
        answer = client.describe_pipeline_definition_for_execution(PipelineExecutionArn=arn)
        pages = client.get_paginator("list_pipeline_parameters_for_execution").paginate(
            PipelineExecutionArn=arn
        )
        given = {
            entry["Name"]: entry["Value"] for page in pages for entry in page["PipelineParameters"]
        }
    definition, _ = read_definition(answer["PipelineDefinition"])
    values, _ = parameter_values(definition.parameters, given)
    return PastExecution(state, definition, values)
