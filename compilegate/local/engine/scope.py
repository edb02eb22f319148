"""Where the variables of a definition get their values: before an execution, and in one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compilegate.document.evaluation import Scope, Unresolved
from compilegate.document.expressions import EXECUTION_VARIABLES, StepReference, describe_reference
from compilegate.document.graph import StepGraph
from compilegate.document.model import Scalar
from compilegate.document.paths import ExpressionError, lookup
from compilegate.execution.result import StepResult
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.requests import ACCOUNT, iso_time


@dataclass(frozen=True)
class ExecutionFacts:
    """What an execution's own variables say."""

    execution_id: str
    pipeline_name: str
    started: float
    """Seconds since the epoch."""

    def variables(self) -> dict[str, str]:
        """The execution variables but for the jobs' names, as of now."""
        pipeline = f"{ACCOUNT}:pipeline/{self.pipeline_name.lower()}"
        return {
            "StartDateTime": iso_time(self.started),
            "CurrentDateTime": iso_time(time.time()),
            "PipelineName": self.pipeline_name,
            "PipelineArn": pipeline,
            "PipelineExecutionId": self.execution_id,
            "PipelineExecutionArn": f"{pipeline}/execution/{self.execution_id}",
        }


def preflight_scope(facts: ExecutionFacts, parameters: Mapping[str, Scalar]) -> Scope:
    """A scope in which everything that depends on a step is Unresolved."""

    def unresolved(reference: StepReference) -> Unresolved:
        return Unresolved(describe_reference(reference))

    later = {name: Unresolved(f"Execution.{name}") for name in EXECUTION_VARIABLES}
    return Scope(parameters, {**later, **facts.variables()}, unresolved, unresolved, None)


def step_scope(
    facts: ExecutionFacts,
    parameters: Mapping[str, Scalar],
    graph: StepGraph,
    results: Mapping[str, StepResult],
    store: ObjectStore,
    *,
    job_variables: Mapping[str, str],
) -> Scope:
    """The scope of one step of a running execution, whose upstream steps have ended."""

    def read_property(reference: StepReference) -> Any:
        result = results[reference.step]
        try:
            return lookup(result.properties, reference.path, by_name=True)
        except ExpressionError as error:
            state = f"step {reference.step} is {result.status}"
            raise ExpressionError(f"{describe_reference(reference)}: {error}; {state}") from None

    def property_file_uri(reference: StepReference) -> str:
        name = reference.path[-1]
        files = graph.steps[reference.step].property_files
        file = next((file for file in files if file.name == name), None)
        if file is None:
            named = describe_reference(reference)
            raise ExpressionError(f"{named} is not a declared property file")
        path = ("ProcessingOutputConfig", "Outputs", file.output_name, "S3Output", "S3Uri")
        folder = read_property(StepReference(reference.step, path))
        return f"{str(folder).rstrip('/')}/{file.file_path}"

    variables = {**facts.variables(), **job_variables}
    return Scope(parameters, variables, read_property, property_file_uri, store.read)
