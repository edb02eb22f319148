"""Executions of pipelines, updates of endpoints and the model registry, where moto lacks them.

An execution goes through the frames of a script instead of running anything. A frame is
`{"status": "Executing", "steps": [STEP, ...], "failure": "..."}`; a STEP is what
ListPipelineExecutionSteps answers, with StartTime and EndTime in seconds since the execution's
start. Each DescribePipelineExecution moves an execution to its next frame, and the last one stays.
A frame `{"gone": true}` is an execution that was deleted, one with `"unlisted": true` is not on the
list of executions yet. A pipeline without a script has executions that are Executing until they
are stopped.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from typing import Any

from moto.sagemaker.exceptions import ResourceInUseException
from moto.sagemaker.models import SageMakerModelBackend, sagemaker_backends

from tests.aws_server.accounts import ServiceError

Request = dict[str, Any]
ENDED = {"Stopped", "Failed", "Succeeded", "CompletedWithFailures"}


@dataclass
class Execution:
    """One execution and its position in its script."""

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


@dataclass
class SageMaker:
    """The operations of one account, named as boto3 names them."""

    account: str
    scripts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Frames by pipeline."""
    started: dict[str, Execution] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def start_pipeline_execution(self, request: Request, region: str) -> dict[str, Any]:
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

    def describe_pipeline_execution(self, request: Request, _region: str) -> dict[str, Any]:
        execution = self.started.get(request["PipelineExecutionArn"])
        if execution is not None:
            execution.position = min(execution.position + 1, len(execution.frames) - 1)
        execution = self._execution(request)
        frame = execution.frame
        described = {
            "PipelineArn": execution.arn.partition("/execution/")[0],
            "PipelineExecutionArn": execution.arn,
            "PipelineExecutionStatus": frame["status"],
            "CreationTime": execution.created,
            "LastModifiedTime": execution.created + frame.get("at", 0),
        }
        return described | ({"FailureReason": frame["failure"]} if "failure" in frame else {})

    def list_pipeline_executions(self, request: Request, region: str) -> dict[str, Any]:
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

    def list_pipeline_execution_steps(self, request: Request, _region: str) -> dict[str, Any]:
        execution = self._execution(request)
        steps = [
            {
                key: execution.created + value if key in {"StartTime", "EndTime"} else value
                for key, value in step.items()
            }
            for step in execution.frame.get("steps", [])
        ]
        return _page("PipelineExecutionSteps", steps, request)

    def stop_pipeline_execution(self, request: Request, _region: str) -> dict[str, Any]:
        execution = self._execution(request)
        if execution.frame["status"] in ENDED:
            raise ServiceError("ValidationException", "Only executing executions can be stopped.")
        steps = [
            step if step["StepStatus"] in ENDED else {**step, "StepStatus": "Stopped", "EndTime": 0}
            for step in execution.frame.get("steps", [])
        ]
        execution.frames, execution.position = [{"status": "Stopped", "steps": steps}], 0
        return {"PipelineExecutionArn": execution.arn}

    def list_pipeline_parameters_for_execution(
        self, request: Request, _region: str
    ) -> dict[str, Any]:
        return {"PipelineParameters": self._execution(request, gone=True).parameters}

    def describe_pipeline_definition_for_execution(
        self, request: Request, _region: str
    ) -> dict[str, Any]:
        execution = self._execution(request, gone=True)
        return {"PipelineDefinition": execution.definition, "CreationTime": execution.created}

    def update_endpoint(self, request: Request, region: str) -> dict[str, Any]:
        """Change an endpoint at once."""
        backend = sagemaker_backends[self.account][region]
        name, config = request["EndpointName"], request["EndpointConfigName"]
        for wanted, existing in ((name, backend.endpoints), (config, backend.endpoint_configs)):
            if wanted not in existing:
                raise ServiceError("ValidationException", f'Could not find "{wanted}".')
        backend.endpoints[name].endpoint_config_name = config
        return {"EndpointArn": backend.endpoints[name].arn}

    def delete_model_package(self, request: Request, region: str) -> dict[str, Any]:
        packages = sagemaker_backends[self.account][region].model_packages
        arn = request["ModelPackageName"]
        found = [name for name, package in packages.items() if package.arn == arn]
        if not found:
            raise ServiceError("ValidationException", f"ModelPackage {arn} does not exist.")
        del packages[found[0]]
        return {}

    def _pipeline(self, name_or_arn: str, region: str) -> Any:
        """moto's own record of a pipeline."""
        name = name_or_arn.rpartition("/")[2]
        pipelines = sagemaker_backends[self.account][region].pipelines
        if name not in pipelines:
            raise ServiceError("ResourceNotFound", f"Pipeline '{name}' does not exist.")
        return pipelines[name]

    def _execution(self, request: Request, *, gone: bool = False) -> Execution:
        """The execution of a request; one that was deleted only where `gone` allows it."""
        arn = request["PipelineExecutionArn"]
        found = self.started.get(arn)
        if found is None or (found.frame.get("gone") and not gone):
            raise ServiceError("ResourceNotFound", f"Pipeline execution '{arn}' does not exist.")
        return found


def _page(key: str, items: list[dict[str, Any]], request: Request) -> dict[str, Any]:
    """One page of a list, and the token of the next one where there is one."""
    start = int(request.get("NextToken", 0))
    end = start + request.get("MaxResults", 10)
    return {key: items[start:end], **({"NextToken": str(end)} if end < len(items) else {})}


def repair_moto() -> None:
    """Repair moto 5.2: an update of a model package removes what it does not name (metadata,
    description, approval), and a transform job's name can be used twice."""
    update = SageMakerModelBackend.update_model_package
    create = SageMakerModelBackend.create_transform_job

    def update_model_package(self: Any, model_package_arn: str, *given: Any, **named: Any) -> str:
        name = self.model_package_name_mapping.get(model_package_arn, model_package_arn)
        package = self.model_packages.get(name)
        before = {} if package is None else dict(vars(package))
        arn: str = update(self, model_package_arn, *given, **named)
        package.customer_metadata_properties = {
            **(before["customer_metadata_properties"] or {}),
            **(package.customer_metadata_properties or {}),
        }
        for each in ("approval_description", "model_approval_status"):
            setattr(package, each, getattr(package, each) or before[each])
        return arn

    def create_transform_job(self: Any, transform_job_name: str, *given: Any, **named: Any) -> Any:
        if transform_job_name in self.transform_jobs:
            raise ResourceInUseException(
                "Job name must be unique, and a job with this name already exists"
            )
        return create(self, transform_job_name, *given, **named)

    SageMakerModelBackend.update_model_package = update_model_package
    SageMakerModelBackend.create_transform_job = create_transform_job
