"""Everything that can be known to fail before anything starts. No job, no write.

Each check gives sentences; an execution starts only when there are none.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from compilegate.document.conditions import condition_faults
from compilegate.document.evaluation import Scope, Unresolved, resolve
from compilegate.document.expressions import (
    StepReference,
    describe_reference,
    is_expression,
    step_references,
)
from compilegate.document.graph import build_graph, find_cycle
from compilegate.document.model import Definition, Step
from compilegate.document.paths import ExpressionError, lookup
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
from compilegate.job.names import TRAINING_COMPILER_HYPERPARAMETER
from compilegate.local.engine.inputs import Needs, input_faults, places_in
from compilegate.local.engine.making import JOB_REQUESTS, JobRequest
from compilegate.local.engine.retries import EXCEPTION_TYPES
from compilegate.local.errors import ImageEnvironmentError, StepError
from compilegate.local.home.functions import FunctionSources, Handler, find_handler
from compilegate.local.home.images import Environment, ImageSources, UnbuiltEnvironment, find_image
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.home.registry import PackageRequest, read_package_request
from compilegate.local.jobs.job import Instances, read_instances
from compilegate.local.jobs.processing import ProcessingRequest
from compilegate.local.jobs.toolkit import is_on, launcher_fault
from compilegate.local.jobs.training import TrainingRequest
from compilegate.local.requests import RequestReader
from compilegate.local.transform import TransformRequest, read_containers
from compilegate.local.xgboost import XGBOOST
from compilegate.local.xgboost import faults as xgboost_faults

SPARK_LAUNCHER = "smspark-submit"
_STEP_NAME = re.compile(r"[A-Za-z0-9\-_]{1,64}")
_ACCELERATORS_ABSENT_HERE = re.compile(r"ml\.(trn|inf)\d")

Image = Environment | UnbuiltEnvironment
NO_FUNCTIONS = FunctionSources()
NO_COMMANDS: Mapping[str, str] = {}
NO_MODELS: Mapping[str, Mapping[str, Any]] = {}


@dataclass(frozen=True)
class Preflight:
    """What the checks found: the faults, and what each step needs."""

    faults: tuple[str, ...]
    images: Mapping[str, Image]
    gpus: Mapping[str, int]
    """By step, how many its job computes with, where this machine has any."""
    image_of: Mapping[str, str]
    """By step that runs a job, the image's URI."""
    handler_of: Mapping[str, Handler]
    """By Lambda step, what stands for its function."""


@dataclass(frozen=True)
class _Checked:
    """One step with its request as far as it is known now."""

    step: Step
    arguments: Mapping[str, Any]
    job: JobRequest | None
    package: PackageRequest | None


def check_definition(
    definition: Definition,
    scope: Scope,
    sources: ImageSources,
    store: ObjectStore,
    *,
    gpus: int = 0,
    functions: FunctionSources = NO_FUNCTIONS,
    commands: Mapping[str, str] = NO_COMMANDS,
    models: Mapping[str, Mapping[str, Any]] = NO_MODELS,
    later: Collection[str] = (),
) -> Preflight:
    """Check every step of a definition whose parameters have values.

    Of a step that a command stands for, only its references are checked.
    `scope` must leave step properties and property files Unresolved. `gpus` is how many this
    machine has, `later` where programs put objects while they run. An image's interpreter is asked
    for the library that a built-in algorithm needs; nothing else runs.
    """
    faults = list(_name_faults(definition))
    steps = {step.name: step for step in definition.steps}
    faults += _command_faults(definition, commands)
    for step in definition.steps:
        found = _reference_faults(step, steps, commands)
        faults += (f"{step.name}: {fault}" for fault in found)
    if not faults:
        cycle = find_cycle(build_graph(definition))
        if cycle is not None:
            faults.append(f"the steps {' -> '.join((*cycle, cycle[0]))} wait for each other")
    checked: list[_Checked] = []
    carried_out = [step for step in definition.steps if step.name not in commands]
    for step in carried_out:
        try:
            checked.append(_check_step(step, scope, steps, models))
        except (ExpressionError, StepError) as error:
            faults.append(f"{step.name}: {error}")
    images: dict[str, Image] = {}
    for item in checked:
        try:
            found = REQUEST_FAULTS[item.step.type](item)
            faults += (f"{item.step.name}: {fault}" for fault in found)
        except StepError as error:
            faults.append(f"{item.step.name}: {error}")
        faults += (f"{item.step.name}: {fault}" for fault in _image_faults(item, sources, images))
        faults += (f"{item.step.name}: {fault}" for fault in _output_faults(item, store))
    handlers: dict[str, Handler] = {}
    faults += _function_faults(carried_out, scope, functions, handlers)
    called = [step for step in definition.steps if step.type == LAMBDA or step.name in commands]
    needs = [*map(_needs, checked), *(_needs_of_call(step, scope) for step in called)]
    faults += input_faults(needs, build_graph(definition), store, later)
    wanted = {item.step.name: item.job.gpus for item in checked if item.job is not None}
    faults += _gpu_faults(wanted, gpus)
    image_of = {item.step.name: item.job.image for item in checked if item.job is not None}
    return Preflight(tuple(dict.fromkeys(faults)), images, wanted, image_of, handlers)


def _remedy(step: str) -> str:
    """What to do about a step that cannot run here."""
    return f"let a command do it (--command {step}=COMMAND), or leave it out (--skip {step})"


def _gpu_faults(wanted: Mapping[str, int], gpus: int) -> Iterator[str]:
    """A machine without any is no fault: the job computes on its cores."""
    for step, count in wanted.items():
        if count > gpus > 0:
            yield (
                f"{step}: its job starts {count} processes, each with a GPU of its own, and there "
                f"{'is' if gpus == 1 else 'are'} {gpus} here; declare fewer processes, or let it "
                "see none: CUDA_VISIBLE_DEVICES= compilegate run"
            )


def _name_faults(definition: Definition) -> Iterator[str]:
    for name, count in Counter(step.name for step in definition.steps).items():
        if count > 1:
            yield f"{name}: {count} steps have this name, a name must be unique"
        if not _STEP_NAME.fullmatch(name):
            yield f"{name!r:.80}: a step's name has 1 to 64 letters, digits, '-' and '_'"
    for name, count in Counter(item.name for item in definition.parameters).items():
        if count > 1:
            yield f"parameter {name} is declared {count} times"


def _command_faults(definition: Definition, commands: Mapping[str, str]) -> Iterator[str]:
    by_name = {step.name: step for step in definition.steps}
    for name in commands:
        if name not in by_name:
            there = ", ".join(by_name)
            yield f"--command: {name!r:.80} is not a step that is carried out; there are {there}"
        elif by_name[name].type in {CONDITION, FAIL}:
            kind = by_name[name].type
            yield f"--command: {name} is a {kind} step, which no command can stand for"


def _reference_faults(
    step: Step,
    steps: Mapping[str, Step],
    commands: Mapping[str, str],
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
    if root == "PropertyFiles":
        declared = [file.name for file in target.property_files]
        if len(rest) != 1 or rest[0] not in declared:
            yield f"Get {name}: {target.name} declares the property files {declared}"
        return
    if STEP_TYPES[target.type].outputs:
        outputs = [output.name for output in target.output_parameters]
        if root != "OutputParameters" or len(rest) != 1 or rest[0] not in outputs:
            yield f"Get {name}: {target.name} declares the OutputParameters {outputs}"
        return
    given = STEP_TYPES[target.type].properties
    if root in given:
        return
    if root not in target.arguments:
        allowed = ", ".join(sorted({*target.arguments, *given}))
        yield f"Get {name}: a local {target.type} step has {allowed or 'no properties'}"
        return
    if not _passes_through_expression(target.arguments, reference):
        try:
            lookup(target.arguments, reference.path, by_name=True)
        except ExpressionError as error:
            yield f"Get {name}: {error}"


def _passes_through_expression(arguments: Mapping[str, Any], reference: StepReference) -> bool:
    """Whether the path leads to or through a value that only the execution will know."""
    for length in range(1, len(reference.path) + 1):
        try:
            if is_expression(lookup(arguments, reference.path[:length], by_name=True)):
                return True
        except ExpressionError:
            return False
    return False


def _check_step(
    step: Step, scope: Scope, steps: Mapping[str, Step], models: Mapping[str, Mapping[str, Any]]
) -> _Checked:
    if step.type not in STEP_TYPES:
        allowed = ", ".join(STEP_TYPES)
        raise StepError(
            f"a step of type {step.type} cannot run here, only {allowed}; {_remedy(step.name)}"
        )
    for policy in step.retry_policies:
        for name in policy.exception_types:
            if name not in EXCEPTION_TYPES:
                allowed = ", ".join(EXCEPTION_TYPES)
                raise StepError(f"a retry policy names {name}, allowed are {allowed}")
    if STEP_TYPES[step.type].by_command:
        kind = f"an {step.type}" if step.type.startswith("E") else f"a {step.type}"
        raise StepError(f"{kind} step needs what only AWS has; {_remedy(step.name)}")
    arguments = resolve(dict(step.arguments), scope)
    if step.type == TRANSFORM:
        arguments["Model"] = _model_of(step, arguments, scope, steps, models)
    read = JOB_REQUESTS.get(step.type)
    job = None if read is None else read(arguments)
    package = read_package_request(arguments) if step.type == REGISTER_MODEL else None
    return _Checked(step, arguments, job, package)


def _model_of(
    step: Step,
    arguments: Mapping[str, Any],
    scope: Scope,
    steps: Mapping[str, Step],
    models: Mapping[str, Mapping[str, Any]],
) -> Any:
    """The request that makes what a transform names: of a Model step, or from `--model`."""
    readers = [reference.step for reference in step_references(step.arguments.get("ModelName"))]
    for name, other in steps.items():
        if other.type != MODEL:
            continue
        request = resolve(dict(other.arguments), scope)
        if name in readers or request.get("ModelName", "") == arguments.get("ModelName"):
            return request
    named = arguments.get("ModelName")
    if isinstance(named, str) and named in models:
        return models[named]
    raise StepError(
        f"ModelName is {named!r:.80}, which no Model step of this definition makes; describe the "
        "model with --model NAME=FILE, the answer of `aws sagemaker describe-model`"
    )


def _model_faults(checked: _Checked) -> Iterator[str]:
    read_containers(checked.arguments)
    yield from ()


def _condition_faults(checked: _Checked) -> Iterator[str]:
    conditions = checked.step.arguments.get("Conditions")
    if not isinstance(conditions, list) or not conditions:
        yield "Conditions must be a non-empty list"
        return
    for condition in conditions:
        yield from condition_faults(condition)


def _fail_faults(checked: _Checked) -> Iterator[str]:
    message = checked.arguments.get("ErrorMessage", "")
    if not isinstance(message, str):
        yield f"ErrorMessage is {message!r:.80}, expected a string"


def _no_faults(_checked: _Checked) -> Iterator[str]:
    """Whatever can be wrong with the request is found when it is read."""
    yield from ()


def _processing_faults(checked: _Checked) -> Iterator[str]:
    resources = RequestReader(checked.arguments).section("ProcessingResources")
    yield from _machine_faults(read_instances(resources.section("ClusterConfig")))


def _training_faults(checked: _Checked) -> Iterator[str]:
    reader = RequestReader(checked.arguments)
    yield from _machine_faults(read_instances(reader.section("ResourceConfig")))
    if reader.section("AlgorithmSpecification").texts("ContainerEntrypoint"):
        return  # The toolkit, which reads these hyperparameters, does not start the script.
    hyperparameters = reader.text_map("HyperParameters")
    if isinstance(checked.job, TrainingRequest) and checked.job.algorithm is not None:
        channels = {each.name: each.content_type for each in checked.job.channels}
        told = (*hyperparameters.values(), *channels.values())
        if not any(isinstance(value, Unresolved) for value in told):
            yield from xgboost_faults(hyperparameters, channels)
    fault = launcher_fault(hyperparameters)
    if fault is not None:
        yield fault
    if is_on(hyperparameters, TRAINING_COMPILER_HYPERPARAMETER):
        yield (
            f"{TRAINING_COMPILER_HYPERPARAMETER} needs SageMaker Training Compiler, which is in "
            "AWS's images only; run it on SageMaker"
        )


def _machine_faults(instances: Instances) -> Iterator[str]:
    if _ACCELERATORS_ABSENT_HERE.match(instances.kind):
        yield f"InstanceType {instances.kind} needs Trainium or Inferentia, which is not here"


REQUEST_FAULTS: Mapping[str, Callable[[_Checked], Iterator[str]]] = {
    TRAINING: _training_faults,
    PROCESSING: _processing_faults,
    CONDITION: _condition_faults,
    FAIL: _fail_faults,
    REGISTER_MODEL: _no_faults,
    LAMBDA: _no_faults,
    MODEL: _model_faults,
    TRANSFORM: _no_faults,
}
"""What this machine cannot do for each type of step, though its request could be read."""


def _image_faults(
    checked: _Checked, sources: ImageSources, images: dict[str, Image]
) -> Iterator[str]:
    if checked.job is None:
        return
    image = checked.job.image
    if isinstance(image, Unresolved):
        yield (
            f"the image {image} must be known before the execution starts; "
            f"{_remedy(checked.step.name)}"
        )
        return
    try:
        if image not in images:
            images[image] = find_image(image, sources)
        yield from _library_faults(checked.job, images[image])
        yield from _program_faults(checked, images[image])
    except ImageEnvironmentError as error:
        yield str(error)


def _output_faults(checked: _Checked, store: ObjectStore) -> Iterator[str]:
    """Places that cannot be written, which would be known only after the job has computed."""
    for uri in () if checked.job is None else checked.job.output_prefixes:
        if not isinstance(uri, Unresolved):
            try:
                store.path(uri)
            except StepError as error:
                yield f"its output: {error}"


def _program_faults(checked: _Checked, image: Image) -> Iterator[str]:
    """A launcher that only AWS's images have."""
    job, name = checked.job, checked.step.name
    if not isinstance(job, ProcessingRequest) or not isinstance(image, Environment):
        return
    program = job.entrypoint[0].rpartition("/")[2]
    there = (image.python.parent / program).exists() or shutil.which(program) is not None
    if program == SPARK_LAUNCHER and not there:
        yield (
            f"{SPARK_LAUNCHER} is in AWS's Spark images only; let a command do the step with a "
            f"Spark of yours (--command {name}='spark-submit ...'), or leave it out (--skip {name})"
        )


def _library_faults(job: JobRequest, image: Image) -> Iterator[str]:
    """XGBoost, where it trains or answers by itself and the image's environment has it not."""
    algorithm = job.algorithm if isinstance(job, TrainingRequest | TransformRequest) else None
    if algorithm == XGBOOST and isinstance(image, Environment) and not image.has_module("xgboost"):
        yield (
            f"the built-in algorithm {XGBOOST} needs xgboost, which is not in {image.python}'s "
            f"environment: {image.python} -m pip install xgboost-cpu, or name an environment that "
            "has it with --image"
        )


def _function_faults(
    steps: Iterable[Step], scope: Scope, functions: FunctionSources, handlers: dict[str, Handler]
) -> Iterator[str]:
    for step in steps:
        if step.type != LAMBDA:
            continue
        try:
            arn = resolve(step.function, scope)
            if isinstance(arn, Unresolved):
                yield f"{step.name}: the function {arn} must be known before the execution starts"
            else:
                handlers[step.name] = find_handler(arn, functions)
        except (ExpressionError, StepError) as error:
            yield f"{step.name}: {error}"


def _needs(checked: _Checked) -> Needs:
    outputs = () if checked.job is None else checked.job.output_prefixes
    step = checked.step
    return Needs(step.name, step.type, _needed_uris(checked), outputs, checked.arguments)


def _needs_of_call(step: Step, scope: Scope) -> Needs:
    """A step that a function or a command stands for may write wherever it is told to."""
    try:
        told = resolve({**step.arguments, **step.members}, scope)
    except (ExpressionError, StepError):
        told = {}
    return Needs(step.name, step.type, (), tuple(places_in(told)), {})


def _needed_uris(checked: _Checked) -> tuple[str, ...]:
    if checked.job is not None:
        return checked.job.input_uris
    return () if checked.package is None else checked.package.model_data_uris
