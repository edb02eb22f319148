"""An execution that has passed all checks: what to run, with what and where."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.document.evaluation import Scope, resolve
from compilegate.document.graph import StepGraph
from compilegate.document.model import Scalar, Step
from compilegate.document.step_types import LAMBDA, TRANSFORM
from compilegate.execution.result import StepResult
from compilegate.job.names import MACHINE_VARIABLE
from compilegate.local.aws.variables import JobVariables
from compilegate.local.engine.making import JobStep, job_name_member, make_job, new_job_name
from compilegate.local.engine.scope import ExecutionFacts, step_scope
from compilegate.local.engine.step_cache import CacheSlot, cache_slot
from compilegate.local.errors import StepRequestError
from compilegate.local.home.functions import FunctionSources, find_handler
from compilegate.local.home.images import Environment
from compilegate.local.home.journal import Journal
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.jobs.calls import Call, CommandCall, FunctionCall
from compilegate.local.jobs.leases import CorePool, GpuPool
from compilegate.local.jobs.sandbox import Sandboxes, own_requirements


@dataclass(frozen=True)
class PreparedStep:
    """A job step whose request is resolved, waiting for cores and GPUs."""

    job_step: JobStep
    environment: Environment
    slot: CacheSlot | None
    """None when the step has no CacheConfig."""


@dataclass(frozen=True)
class ExecutionPlan:
    """Everything that is fixed before the first step starts."""

    facts: ExecutionFacts
    graph: StepGraph
    parameters: Mapping[str, Scalar]
    environments: Mapping[str, Environment]
    """By image URI."""
    functions: FunctionSources
    commands: Mapping[str, str]
    """By step, what stands for it."""
    models: Mapping[str, Mapping[str, Any]]
    """By name, models that no step of the definition makes."""
    home: Path
    journal: Journal
    store: ObjectStore
    cores: CorePool
    cores_per_job: int
    """Physical cores; a Processing job gets at most as many."""
    gpus: GpuPool
    max_parallel_steps: int | None
    sandboxes: Sandboxes
    """Where its jobs run."""
    use_cache: bool
    grace_seconds: float
    variables: JobVariables
    """What every job's environment has besides its own."""
    resumed: bool
    """Whether an earlier run of this execution has left results."""

    @property
    def most_at_once(self) -> int:
        """How many training jobs can run at one moment; other executions may hold cores, too."""
        by_cores = max(1, len(self.cores.cores) // self.cores_per_job)
        limit = self.max_parallel_steps
        return by_cores if limit is None else min(limit, by_cores)

    def cores_for(self, processes: int) -> int:
        """How many a job takes whose processes compute side by side."""
        return max(self.cores_per_job, min(processes, len(self.cores.cores)))

    def scope(self, results: Mapping[str, StepResult], job_variables: Mapping[str, str]) -> Scope:
        """What the expressions of a step see, whose upstream steps have these results."""
        return step_scope(
            self.facts,
            self.parameters,
            self.graph,
            results,
            self.store,
            job_variables=job_variables,
        )

    def prepare(self, step: Step, results: Mapping[str, StepResult]) -> PreparedStep:
        """Resolve a job step's request. Raises ExpressionError, StepError."""
        job_name = new_job_name(self.facts.execution_id, step)
        scope = self.scope(results, {job_name_member(step): job_name})
        request = resolve(dict(step.arguments), scope)
        request = with_model(step, request, self.graph, results, self.models)
        job_step = make_job(step, job_name, request, self.sandboxes, self.store)
        environment = self.environments[job_step.image]
        closure = environment.closure(*own_requirements(job_step.inputs, self.store))
        slot = cache_slot(
            self.home,
            self.store,
            pipeline=self.facts.pipeline_name,
            step=step.name,
            step_type=step.type,
            request=request,
            environment_identity=_identity(closure, os.environ, self.variables.given),
        )
        return PreparedStep(job_step, environment, None if step.cache is None else slot)

    def is_called(self, step: Step) -> bool:
        """Whether a function or a command is called for a step."""
        return step.type == LAMBDA or step.name in self.commands

    def call(self, step: Step, results: Mapping[str, StepResult]) -> Call:
        """Resolve a step's call. Raises ExpressionError, StepError."""
        scope = self.scope(results, {})
        if step.name in self.commands:
            return CommandCall(
                step=step.name,
                command=self.commands[step.name],
                request=resolve({**step.arguments, **step.members}, scope),
                outputs=step.output_parameters,
                objects=self.store.root,
                folder=self.journal.folder / "functions" / step.name,
                grace_seconds=self.grace_seconds,
            )
        arn = resolve(step.function, scope)
        return FunctionCall(
            arn=arn,
            handler=find_handler(arn, self.functions),
            event=resolve(dict(step.arguments), scope),
            outputs=step.output_parameters,
            folder=self.journal.folder / "functions" / step.name,
            grace_seconds=self.grace_seconds,
            variables=self.variables,
        )


def with_model(
    step: Step,
    request: Mapping[str, Any],
    graph: StepGraph,
    results: Mapping[str, StepResult],
    models: Mapping[str, Mapping[str, Any]],
) -> Mapping[str, Any]:
    """A transform's request with the description of the model that it names."""
    if step.type != TRANSFORM:
        return request
    for name, result in results.items():
        described = result.properties
        if described.get("ModelName") == request.get("ModelName") and name in graph.steps:
            return {**request, "Model": described}
    if request.get("ModelName") in models:
        return {**request, "Model": models[str(request["ModelName"])]}
    raise StepRequestError(
        f"no Model step of this definition has made the model {request.get('ModelName')!r:.100}"
    )


def _identity(closure: str, machine: Mapping[str, str], given: Mapping[str, str]) -> str:
    """What a result was made in. A rehearsal in a described machine stands in for nothing else, and
    what --env passes may change everything; its values, which may be secret, are not kept."""
    described = machine.get(MACHINE_VARIABLE)
    identity = f"{closure} in {described}" if described else closure
    if not given:
        return identity
    text = json.dumps(dict(given), sort_keys=True)
    return f"{identity} with {hashlib.sha256(text.encode()).hexdigest()}"
