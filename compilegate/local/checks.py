"""Everything that can be known to fail before anything starts. No job, no write.

Each check gives sentences; an execution starts only when there are none. All of them are given at
once: a parameter without a value counts as a value that is not known yet.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from compilegate.document.conditions import condition_faults
from compilegate.document.expressions import (
    EXECUTION_VARIABLES,
    ExpressionError,
    Scope,
    StepReference,
    Unresolved,
    describe_reference,
    is_expression,
    lookup,
    resolve,
    step_references,
)
from compilegate.document.graph import StepGraph, ancestors, build_graph, find_cycle
from compilegate.document.model import Definition, Scalar, Step, parameter_values
from compilegate.document.reading import read_definition
from compilegate.document.requests import unknown_members
from compilegate.document.step_types import (
    CONDITION,
    FAIL,
    LAMBDA,
    MODEL,
    PROCESSING,
    REGISTER_MODEL,
    STEP_TYPES,
    TRAINING,
    TRANSFORM,
)
from compilegate.execution.result import ExecutionResult
from compilegate.job.contract import TRAINING_COMPILER_HYPERPARAMETER
from compilegate.local.errors import ImageEnvironmentError, ObjectStoreError, StepError
from compilegate.local.home.images import Environment, UnbuiltEnvironment, find_image
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.home.registry import read_package_request
from compilegate.local.jobs.calls import Handler, find_handler
from compilegate.local.jobs.job import PYTHON_NAMES, Job, read_processing_request
from compilegate.local.jobs.toolkit import is_on, launcher_fault
from compilegate.local.jobs.training import TrainingJob, read_training_request
from compilegate.local.options import Options
from compilegate.local.progress import EXCEPTION_TYPES
from compilegate.local.requests import ACCOUNT, iso_time
from compilegate.local.selection import choose, without
from compilegate.local.transform import read_containers, read_transform_request
from compilegate.local.xgboost import XGBOOST
from compilegate.local.xgboost import faults as xgboost_faults

JOB_REQUESTS: Mapping[str, Callable[[Mapping[str, Any]], Job]] = {
    TRAINING: read_training_request,
    PROCESSING: read_processing_request,
    TRANSFORM: read_transform_request,
}
"""What reads the request of each type of step that runs a job; each raises StepRequestError."""
Image = Environment | UnbuiltEnvironment

_INLINE = {
    CONDITION: "compared here",
    FAIL: "ends the execution as failed",
    MODEL: "kept with the execution, for Transform steps",
    REGISTER_MODEL: "the registry of the home folder",
    LAMBDA: "a function's file, which --function names",
}
"""What carries out a step that runs no job."""
_INDENT = "    "
_STEP_NAME = re.compile(r"[A-Za-z0-9\-_]{1,64}")
_ACCELERATORS_ABSENT_HERE = re.compile(r"ml\.(trn|inf)\d")
_MISSING = "<parameter "
"""How a value is shown that a parameter without one leaves open."""
_PLACE = re.compile(r"s3://[^\s\"',;]+")


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A definition, as far as it is known before anything starts."""

    whole: Definition
    """The definition, with the steps that are left out."""
    graph: StepGraph = field(default_factory=lambda: StepGraph({}, {}))
    """The steps that are carried out."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Reasons by step that is left out."""
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    """Why it cannot run here; one that concerns a step begins with its name and a colon."""
    images: dict[str, Image] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    handlers: dict[str, Handler] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)
    """Shell commands by the step that each stands for."""


@dataclass(frozen=True)
class _Places:
    """Places that a step reads and writes, as far as its request says."""

    step: Step
    inputs: tuple[str, ...] = ()
    """The URIs of what must be there when it starts."""
    outputs: tuple[str, ...] = ()
    job: Job | None = None


def check(
    text: bytes | str,
    execution: ExecutionResult,
    options: Options,
    store: ObjectStore,
    *,
    gpus: int,
) -> Checked:
    """Check every step that is carried out; of one that a command stands for, only references.

    `gpus` is how many this machine has. An image's interpreter is run to look for a built-in
    algorithm's library; nothing else runs.
    """
    commands = options.commands
    whole, unreadable = read_definition(text)
    if not whole.steps:
        return Checked(whole=whole, faults=tuple(unreadable))
    left_out, faults = choose(whole, options.until, options.skip)
    if faults:
        return Checked(whole=whole, faults=tuple(faults))
    definition, faults = read_definition(text, {*left_out, *commands})
    definition = without(definition, left_out)
    graph = build_graph(definition)
    parameters, parameter_faults = parameter_values(definition.parameters, execution.parameters)
    faults += [*parameter_faults, *_name_faults(definition), *_command_faults(graph, commands)]
    for step in definition.steps:
        faults += _with_step(step, _reference_faults(step, graph.steps, commands))
    if (cycle := find_cycle(graph)) is not None:
        faults.append(f"the steps {' -> '.join((*cycle, cycle[0]))} wait for each other")
    missing = {each.name: Unresolved(f"{_MISSING}{each.name}>") for each in definition.parameters}
    scope = _scope_before(execution, {**missing, **parameters})
    checked = Checked(
        whole=whole, graph=graph, left_out=left_out, parameters=parameters, commands=commands
    )
    steps = _Steps(checked, scope, options, store)
    for step in definition.steps:
        if step.name not in commands:
            faults += _with_step(step, steps.faults(step))
    calls = [_call_places(step, scope) for step in definition.steps if is_called(step, commands)]
    places = {each.step.name: each for each in (*steps.places, *calls)}
    faults += _input_faults(places, graph, store, options.later)
    for name, job in checked.jobs.items():
        faults += _gpu_faults(name, job.gpus, gpus)
    return replace(checked, faults=tuple(dict.fromkeys(faults)))


def is_called(step: Step, commands: Mapping[str, str]) -> bool:
    """Whether a function or a command carries a step out."""
    return step.type == LAMBDA or step.name in commands


def execution_variables(execution: ExecutionResult) -> dict[str, str]:
    """The execution variables but for the jobs' names, as of now."""
    pipeline = f"{ACCOUNT}:pipeline/{execution.pipeline_name.lower()}"
    return {
        "StartDateTime": iso_time(execution.started),
        "CurrentDateTime": iso_time(time.time()),
        "PipelineName": execution.pipeline_name,
        "PipelineArn": pipeline,
        "PipelineExecutionId": execution.execution_id,
        "PipelineExecutionArn": f"{pipeline}/execution/{execution.execution_id}",
    }


def _scope_before(execution: ExecutionResult, parameters: Mapping[str, Scalar]) -> Scope:
    """A scope in which everything that depends on a step is Unresolved."""

    def unresolved(reference: StepReference) -> Unresolved:
        return Unresolved(describe_reference(reference))

    later = {name: Unresolved(f"Execution.{name}") for name in EXECUTION_VARIABLES}
    known = {**later, **execution_variables(execution)}
    return Scope(parameters, known, unresolved, unresolved, None)


def _with_step(step: Step, faults: Iterator[str]) -> Iterator[str]:
    """The sentences with the step that they concern; an exception is the last of them."""
    try:
        for fault in faults:
            yield f"{step.name}: {fault}"
    except (ExpressionError, StepError, ImageEnvironmentError) as error:
        yield f"{step.name}: {error}"


def _remedy(step: str) -> str:
    """What to do about a step that cannot run here."""
    return f"replace it by a command (--command {step}=COMMAND), or leave it out (--skip {step})"


# The definition


def _gpu_faults(step: str, count: int, gpus: int) -> Iterator[str]:
    """A machine without any is no fault: the job computes on its cores."""
    if count > gpus > 0:
        yield (
            f"{step}: its job starts {count} processes with a GPU each, and this "
            f"machine has {gpus}; declare fewer processes, or run without GPUs: "
            "CUDA_VISIBLE_DEVICES= compilegate run"
        )


def _name_faults(definition: Definition) -> Iterator[str]:
    for name, count in Counter(step.name for step in definition.steps).items():
        if count > 1:
            yield f"{name}: {count} steps have this name; names must be unique"
        if not _STEP_NAME.fullmatch(name):
            yield f"{name!r:.80}: a step's name has 1 to 64 letters, digits, '-' and '_'"
    for name, count in Counter(item.name for item in definition.parameters).items():
        if count > 1:
            yield f"parameter {name} is declared {count} times"


def _command_faults(graph: StepGraph, commands: Mapping[str, str]) -> Iterator[str]:
    for name in commands:
        if name not in graph.steps:
            there = ", ".join(graph.steps)
            yield f"--command: {name!r:.80} is not a step that is carried out; there are {there}"
        elif (kind := graph.steps[name].type) in {CONDITION, FAIL}:
            yield f"--command: {name} is a {kind} step, which no command can stand for"


def _reference_faults(
    step: Step, steps: Mapping[str, Step], commands: Mapping[str, str]
) -> Iterator[str]:
    for dependency in step.depends_on:
        if dependency.step not in steps:
            yield f"DependsOn names {dependency.step}, which is not a step of this definition"
    for reference in step_references(step.arguments):
        if reference.step not in steps:
            yield f"Get {describe_reference(reference)} names no step of this definition"
        elif reference.step not in commands and steps[reference.step].type in STEP_TYPES:
            yield from _property_faults(reference, steps[reference.step])


def _property_faults(reference: StepReference, target: Step) -> Iterator[str]:
    name = describe_reference(reference)
    root, *rest = reference.path
    known = STEP_TYPES[target.type]
    if root == "PropertyFiles":
        declared = [file.name for file in target.property_files]
        if len(rest) != 1 or rest[0] not in declared:
            yield f"Get {name}: {target.name} declares the property files {declared}"
    elif known.outputs:
        outputs = [output.name for output in target.output_parameters]
        if root != "OutputParameters" or len(rest) != 1 or rest[0] not in outputs:
            yield f"Get {name}: {target.name} declares the OutputParameters {outputs}"
    elif root not in target.arguments and root not in known.properties:
        allowed = ", ".join(sorted({*target.arguments, *known.properties}))
        yield f"Get {name}: a local {target.type} step has {allowed or 'no properties'}"
    elif root not in known.properties and not _is_known_later(target.arguments, reference):
        try:
            lookup(target.arguments, reference.path, by_name=True)
        except ExpressionError as error:
            yield f"Get {name}: {error}"


def _is_known_later(arguments: Mapping[str, Any], reference: StepReference) -> bool:
    """Whether the path leads to or through a value that only the execution will know."""
    for length in range(1, len(reference.path) + 1):
        try:
            if is_expression(lookup(arguments, reference.path[:length], by_name=True)):
                return True
        except ExpressionError:
            return False
    return False


# Each step


@dataclass(frozen=True)
class _Steps:
    """Reads the steps one by one, and finds what is wrong with each."""

    checked: Checked
    """What is found is put there."""
    scope: Scope
    options: Options
    store: ObjectStore
    places: list[_Places] = field(default_factory=list)
    """Places of the steps whose requests could be read."""

    def faults(self, step: Step) -> Iterator[str]:
        """What is wrong with a step. Raises ExpressionError, StepError, ImageEnvironmentError."""
        _check_type(step)
        yield from _retry_faults(step)
        yield from unknown_members(step.type, step.arguments)
        if step.type == LAMBDA:
            yield from self._function_faults(step)
        arguments = resolve(dict(step.arguments), self.scope)
        if step.type == TRANSFORM:
            arguments["Model"] = self._model_of(step, arguments)
            if arguments["Model"] is None:
                return
        job = JOB_REQUESTS[step.type](arguments) if step.type in JOB_REQUESTS else None
        if job is not None:
            self.checked.jobs[step.name] = job
            self.places.append(_Places(step, job.input_uris, job.output_prefixes, job))
        elif step.type == REGISTER_MODEL:
            inputs = read_package_request(arguments).model_data_uris
            self.places.append(_Places(step, inputs))
        yield from _own_faults(step, arguments)
        if job is not None:
            yield from self._job_faults(step, job)

    def _function_faults(self, step: Step) -> Iterator[str]:
        arn = resolve(step.function, self.scope)
        if arn is None:
            return  # read_definition names what is wrong with it
        if not isinstance(arn, Unresolved):
            self.checked.handlers[step.name] = find_handler(arn, self.options.functions)
        elif _MISSING not in arn:
            yield f"the function {arn} must be known before the execution starts"

    def _model_of(self, step: Step, arguments: Mapping[str, Any]) -> Any:
        """The request that makes what a transform names: of a Model step, or from `--model`; None
        where that hangs on a parameter without a value."""
        named = arguments.get("ModelName")
        readers = [each.step for each in step_references(step.arguments.get("ModelName"))]
        for name, other in self.checked.graph.steps.items():
            if other.type == MODEL:
                request = resolve(dict(other.arguments), self.scope)
                if name in readers or request.get("ModelName", "") == named:
                    return request
        if isinstance(named, str) and named in self.options.given_models:
            return self.options.given_models[named]
        if isinstance(named, Unresolved) and _MISSING in named:
            return None
        raise StepError(
            f"ModelName is {named!r:.80}, which no Model step of this definition makes; describe "
            "the model with --model NAME=FILE, the answer of `aws sagemaker describe-model`"
        )

    def _job_faults(self, step: Step, job: Job) -> Iterator[str]:
        if _ACCELERATORS_ABSENT_HERE.match(job.instance_type):
            kind = job.instance_type
            yield (
                f"InstanceType {kind} needs Trainium or Inferentia, which this machine "
                "does not have"
            )
        if isinstance(job, TrainingJob) and not job.entrypoint:
            yield from _toolkit_faults(job)
        for uri in job.output_prefixes:
            if not isinstance(uri, Unresolved):
                try:
                    self.store.path(uri)
                except StepError as error:
                    yield f"its output: {error}"
        if isinstance(job.image, Unresolved):
            if _MISSING not in job.image:
                image = f"the image {job.image} must be known before the execution starts"
                yield f"{image}; {_remedy(step.name)}"
            return
        if job.image not in self.checked.images:
            self.checked.images[job.image] = find_image(job.image, self.options.images)
        yield from _program_faults(step, job, self.checked.images[job.image])


def _check_type(step: Step) -> None:
    """Raise StepError for a step that cannot run here whatever it says."""
    known = STEP_TYPES.get(step.type)
    if known is None:
        kind = f"a step of type {step.type} cannot run here, only {', '.join(STEP_TYPES)}"
        raise StepError(f"{kind}; {_remedy(step.name)}")
    if known.by_command:
        kind = f"{'an' if step.type.startswith('E') else 'a'} {step.type} step"
        raise StepError(f"{kind} needs a service of AWS; {_remedy(step.name)}")


def _retry_faults(step: Step) -> Iterator[str]:
    for policy in step.retry_policies:
        for name in policy.exception_types:
            if name not in EXCEPTION_TYPES:
                yield f"a retry policy names {name}, expected one of {', '.join(EXCEPTION_TYPES)}"


def _own_faults(step: Step, arguments: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a request of that type, though it could be read."""
    if step.type == CONDITION:
        conditions = step.arguments.get("Conditions")
        if not isinstance(conditions, list) or not conditions:
            yield "Conditions must be a non-empty list"
            return
        for condition in conditions:
            yield from condition_faults(condition)
    elif step.type == FAIL:
        message = arguments.get("ErrorMessage", "")
        if not isinstance(message, str):
            yield f"ErrorMessage is {message!r:.80}, expected a string"
    elif step.type == MODEL:
        read_containers(arguments)
    if not step.property_files:
        return
    outputs = (arguments.get("ProcessingOutputConfig") or {}).get("Outputs") or []
    names = [output["OutputName"] for output in outputs]
    for file in step.property_files:
        if file.output_name not in names and not any(isinstance(n, Unresolved) for n in names):
            yield (
                f"the property file {file.name} is in the output {file.output_name!r:.80}, "
                f"which the step does not have; it has {', '.join(names) or 'none'}"
            )


def _toolkit_faults(job: TrainingJob) -> Iterator[str]:
    """What the toolkit would read, where it starts the script."""
    if job.algorithm is not None:
        channels = {each.name: each.content_type for each in job.inputs}
        values = (*job.hyperparameters.values(), *channels.values())
        if not any(isinstance(value, Unresolved) for value in values):
            yield from xgboost_faults(job.hyperparameters, channels)
    fault = launcher_fault(job.hyperparameters)
    if fault is not None:
        yield fault
    if is_on(job.hyperparameters, TRAINING_COMPILER_HYPERPARAMETER):
        yield (
            f"{TRAINING_COMPILER_HYPERPARAMETER} needs SageMaker Training Compiler, "
            "which only AWS's images have; run it on SageMaker"
        )


def _program_faults(step: Step, job: Job, image: Image) -> Iterator[str]:
    """A program, or a library, that the environment does not have."""
    there = image.python if isinstance(image, Environment) else None
    is_xgboost = job.algorithm == XGBOOST
    if is_xgboost and isinstance(image, Environment) and not image.has_module("xgboost"):
        yield (
            f"the built-in algorithm {XGBOOST} needs xgboost, which the environment "
            f"of {there} does not have; install it with `{there} -m pip install "
            "xgboost-cpu`, or name another environment with --image"
        )
    if not job.entrypoint or isinstance(job.entrypoint[0], Unresolved):
        return
    folder, _, program = job.entrypoint[0].rpartition("/")
    path = os.environ.get("PATH", os.defpath)
    path = path if there is None else f"{there.parent}{os.pathsep}{path}"
    if program in PYTHON_NAMES or shutil.which(program, path=path) is not None:
        return
    if not folder and there is not None:
        where = f"neither beside {there} nor on PATH"
        yield f"its program {program} is {where}: install it, or {_remedy(step.name)}"


# Inputs: which will be there when their steps start


def _call_places(step: Step, scope: Scope) -> _Places:
    """A step that a function or a command stands for may write wherever its request says."""
    try:
        request = resolve({**step.arguments, **step.members}, scope)
    except (ExpressionError, StepError):
        request = {}
    return _Places(step, outputs=tuple(_PLACE.findall(json.dumps(request, ensure_ascii=False))))


def _input_faults(
    places: Mapping[str, _Places], graph: StepGraph, store: ObjectStore, later: Collection[str]
) -> Iterator[str]:
    """One sentence for each object that is neither there nor made by a step that comes before.
    `later` are places where a program puts objects while it runs, as the user says."""
    for name, each in places.items():
        before = [places[other] for other in ancestors(graph, name) if other in places]
        for uri in dict.fromkeys(each.inputs):
            if isinstance(uri, Unresolved) or any(_overlap(uri, place) for place in later):
                continue
            try:
                there = store.has_objects(uri)
            except ObjectStoreError as error:
                yield f"{name}: {error}"
                continue
            if there or any(_makes(other, uri) or _names(other.job, uri) for other in before):
                continue
            absent = f"{name}: {uri} is not in the local store"
            makers = (other for other in places if other != name and _makes(places[other], uri))
            maker = next(makers, None)
            if maker is not None:
                yield (
                    f"{absent}: {maker} writes it, but may still run when {name} starts; "
                    f"add {maker} to DependsOn of {name}"
                )
            else:
                yield (
                    f"{absent}, and no step before writes it; put its files at {store.path(uri)}, "
                    f"or give their place: --data {uri}=FOLDER (=later if a program writes them "
                    "while it runs)"
                )


def _makes(step: _Places, uri: str) -> bool:
    # A training job writes below its own name, which nobody can know before.
    return any(
        _begins(prefix, uri) or (step.step.type != TRAINING and _within(uri, prefix))
        for prefix in step.outputs
        if not isinstance(prefix, Unresolved)
    )


def _names(job: Job | None, uri: str) -> bool:
    """Whether a job's own arguments, variables or hyperparameters name the place of `uri`."""
    if job is None:
        return False
    bucket = re.escape(uri.removeprefix("s3://").partition("/")[0])
    word = re.compile(rf"(?<![\w.\-/]){bucket}(?![\w.\-])")
    # What the toolkit reads names sources, not results.
    own = {} if not isinstance(job, TrainingJob) else job.hyperparameters
    hyperparameters = [text for name, text in own.items() if not name.startswith("sagemaker_")]
    for text in (*job.entrypoint, *job.arguments, *job.environment.values(), *hyperparameters):
        places = _PLACE.findall(text)
        if any(_overlap(uri, place) for place in places) or (not places and word.search(text)):
            return True
    return False


def _begins(key: str, uri: str) -> bool:
    """Whether an input's URI, which is the beginning of a key, stands for this one."""
    return _within(key, uri) if uri.endswith("/") else key.startswith(uri)


def _overlap(uri: str, prefix: str) -> bool:
    return _within(uri, prefix) or _within(prefix, uri)


def _within(uri: str, prefix: str) -> bool:
    return f"{uri.rstrip('/')}/".startswith(f"{prefix.rstrip('/')}/")


# The explanation: what each step would do


def explanation_lines(checked: Checked) -> list[str]:
    """Every step in definition order, those of a branch below its condition; then what is wrong
    with no single step, and a sum."""
    graph, lines = build_graph(checked.whole), []
    refused: dict[str, list[str]] = {}
    for fault in checked.faults:
        name, colon, sentence = fault.partition(": ")
        of_a_step = colon and name in graph.steps
        refused.setdefault(name if of_a_step else "", []).append(sentence if of_a_step else fault)
    general = refused.pop("", [])
    depth: dict[str, int] = {}
    for name, step in graph.steps.items():  # a branch's steps follow their condition
        depth[name] = 0 if step.branch is None else depth.get(step.branch.condition, 0) + 1
        faults = refused.get(name, [])
        lines += [
            _INDENT * depth[name] + line for line in _step_lines(step, graph, checked, faults)
        ]
    lines += [f"refused: {fault}" for fault in general]
    count, left_out = len(graph.steps), len(checked.left_out)
    parts = [
        f"{count} step{'' if count == 1 else 's'}: {count - len(refused) - left_out} can run here"
    ]
    parts += [f"{left_out} left out"] if left_out else []
    parts += [f"{len(refused)} refused"] if refused else []
    return [*lines, "", ", ".join(parts)]


def _step_lines(step: Step, graph: StepGraph, checked: Checked, faults: list[str]) -> Iterator[str]:
    side = "" if step.branch is None else ("if: " if step.branch.taken_when else "else: ")
    yield f"{side}{step.name} ({step.type})"
    after = [each.step for each in graph.dependencies[step.name] if each.step in graph.steps]
    if after:
        yield f"{_INDENT}after   {', '.join(dict.fromkeys(after))}"
    left_out = checked.left_out.get(step.name)
    if left_out is not None:
        yield f"{_INDENT}left out: {left_out}"
    elif faults:
        yield from (f"{_INDENT}refused: {fault}" for fault in faults)
    else:
        yield f"{_INDENT}by      {_by(step, checked)}"


def _by(step: Step, checked: Checked) -> str:
    """What carries a step out."""
    if step.name in checked.commands:
        return f"the command {checked.commands[step.name]}"
    handler, job = checked.handlers.get(step.name), checked.jobs.get(step.name)
    if handler is not None:
        return f"{handler.function} of {handler.file}"
    if job is None:
        return _INLINE.get(step.type, "nothing here")
    image = checked.images.get(job.image)
    if image is None:
        return "a process in its image's environment"
    if isinstance(image, Environment):
        return f"a process in {'this Python environment' if image.here else image.python}"
    return f"a process in an environment to be made of {image.requirements} for {job.image}"
