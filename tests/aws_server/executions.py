"""Executions of pipelines, which go through the frames of a script instead of running anything.

A frame is `{"status": "Executing", "steps": [STEP, ...], "failure": "..."}`; a STEP is what
ListPipelineExecutionSteps answers, with StartTime and EndTime in seconds since the execution's
start. Each DescribePipelineExecution moves an execution to its next frame and the last one stays.
A frame `{"gone": true}` is an execution that was deleted, one with `"unlisted": true` is not on the
list of executions yet. A pipeline without a script has
executions that are Executing until they are stopped.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moto.sagemaker.models import sagemaker_backends

from tests.aws_server.faults import ServiceError

Request = dict[str, Any]
ENDED = {"Stopped", "Failed", "Succeeded", "CompletedWithFailures"}


@dataclass
class Execution:
    """One execution and how far along its script it is."""

    arn: str
    pipeline: str
    definition: str
    parameters: list[dict[str, str]]
    token: str
    created: float
    frames: list[dict[str, Any]]
    position: int = -1

    @property
    def frame(self) -> dict[str, Any]:
        return self.frames[max(self.position, 0)]

    def advance(self) -> None:
        self.position = min(self.position + 1, len(self.frames) - 1)

    def steps(self) -> list[dict[str, Any]]:
        return [
            {
                key: self.created + value if key in {"StartTime", "EndTime"} else value
                for key, value in step.items()
            }
            for step in self.frame.get("steps", [])
        ]


@dataclass
class Executions:
    """All executions of the account."""

    account: str
    scripts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    started: dict[str, Execution] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def operations(self) -> dict[str, Callable[[Request, str], dict[str, Any]]]:
        """By the name of the API's operation."""
        return {
            "StartPipelineExecution": self.start,
            "DescribePipelineExecution": self.describe,
            "ListPipelineExecutions": self.list_executions,
            "ListPipelineExecutionSteps": self.list_steps,
            "StopPipelineExecution": self.stop,
            "ListPipelineParametersForExecution": self.list_parameters,
            "DescribePipelineDefinitionForExecution": self.describe_definition,
        }

    def start(self, request: Request, region: str) -> dict[str, Any]:
        pipeline = self._pipeline(request["PipelineName"], region)
        for execution in self.started.values():
            if execution.token == request["ClientRequestToken"]:
                return {"PipelineExecutionArn": execution.arn}
        arn = f"{pipeline.arn}/execution/execution{next(self._numbers):03d}"
        frames = self.scripts.get(pipeline.pipeline_name, [{"status": "Executing"}])
        self.started[arn] = Execution(
            arn=arn,
            pipeline=pipeline.pipeline_name,
            definition=pipeline.pipeline_definition,
            parameters=request.get("PipelineParameters", []),
            token=request["ClientRequestToken"],
            created=time.time(),
            frames=list(frames),
        )
        return {"PipelineExecutionArn": arn}

    def describe(self, request: Request, _region: str) -> dict[str, Any]:
        execution = self._execution(request)
        execution.advance()
        frame = self._present(execution).frame
        described = {
            "PipelineArn": execution.arn.partition("/execution/")[0],
            "PipelineExecutionArn": execution.arn,
            "PipelineExecutionStatus": frame["status"],
            "CreationTime": execution.created,
            "LastModifiedTime": execution.created + frame.get("at", 0),
        }
        return described | ({"FailureReason": frame["failure"]} if "failure" in frame else {})

    def list_executions(self, request: Request, region: str) -> dict[str, Any]:
        pipeline = self._pipeline(request["PipelineName"], region)
        mine = [e for e in self.started.values() if e.pipeline == pipeline.pipeline_name]
        mine.sort(key=lambda e: (e.created, e.arn), reverse=request.get("SortOrder") != "Ascending")
        summaries = [
            {
                "PipelineExecutionArn": execution.arn,
                "StartTime": execution.created,
                "PipelineExecutionStatus": execution.frame.get("status", "Failed"),
            }
            for execution in mine
            if not execution.frame.get("unlisted")
        ]
        return _page("PipelineExecutionSummaries", summaries, request)

    def list_steps(self, request: Request, _region: str) -> dict[str, Any]:
        steps = self._present(self._execution(request)).steps()
        return _page("PipelineExecutionSteps", steps, request)

    def stop(self, request: Request, _region: str) -> dict[str, Any]:
        execution = self._present(self._execution(request))
        if execution.frame["status"] in ENDED:
            raise ServiceError("ValidationException", "Only executing executions can be stopped.")
        steps = [
            step if step["StepStatus"] in ENDED else {**step, "StepStatus": "Stopped", "EndTime": 0}
            for step in execution.frame.get("steps", [])
        ]
        execution.frames = [{"status": "Stopped", "steps": steps}]
        execution.position = 0
        return {"PipelineExecutionArn": execution.arn}

    def list_parameters(self, request: Request, _region: str) -> dict[str, Any]:
        return {"PipelineParameters": self._execution(request).parameters}

    def describe_definition(self, request: Request, _region: str) -> dict[str, Any]:
        execution = self._execution(request)
        return {"PipelineDefinition": execution.definition, "CreationTime": execution.created}

    def _pipeline(self, name_or_arn: str, region: str) -> Any:
        """moto's own record of a pipeline."""
        name = name_or_arn.rpartition("/")[2]
        pipelines = sagemaker_backends[self.account][region].pipelines
        if name not in pipelines:
            raise ServiceError("ResourceNotFound", f"Pipeline '{name}' does not exist.")
        return pipelines[name]

    def _execution(self, request: Request) -> Execution:
        arn = request["PipelineExecutionArn"]
        if arn not in self.started:
            raise ServiceError("ResourceNotFound", f"Pipeline execution '{arn}' does not exist.")
        return self.started[arn]

    @staticmethod
    def _present(execution: Execution) -> Execution:
        if execution.frame.get("gone"):
            raise ServiceError(
                "ResourceNotFound", f"Pipeline execution '{execution.arn}' does not exist."
            )
        return execution


def _page(key: str, items: list[dict[str, Any]], request: Request) -> dict[str, Any]:
    """One page of a list, and the token of the next one where there is one."""
    start = int(request.get("NextToken", 0))
    end = start + request.get("MaxResults", 10)
    return {key: items[start:end], **({"NextToken": str(end)} if end < len(items) else {})}
