"""What the latest executions of a pipeline ran, and with which requests.

One earlier execution, with the definition and the parameters it had. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compilegate.account.errors import asking
from compilegate.account.executions.calls import latest_executions, read_execution
from compilegate.account.executions.state import SageMakerExecution, SageMakerStep
from compilegate.account.session import AwsSession
from compilegate.document.model import Definition, Scalar
from compilegate.document.parameters import parameter_values
from compilegate.document.reading import read_definition


@dataclass(frozen=True)
class PastExecution:
    """An execution as it ended, or as far as it is."""

    state: SageMakerExecution
    definition: Definition
    parameters: Mapping[str, Scalar]

    def step(self, name: str) -> SageMakerStep | None:
        """The step of that name, once it has started."""
        return self.state.steps.get(name)


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
