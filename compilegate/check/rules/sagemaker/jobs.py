"""What an estimator with Training Compiler must have, and must not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from compilegate.check.findings import Severity
from compilegate.check.rules.rule import TRAINING_COMPILER, Found, View, keyword, rule, written
from compilegate.check.rules.sagemaker.entry_points import started
from compilegate.check.rules.sagemaker.estimators import (
    Estimator,
    called_native,
    compiled_estimators,
    estimators,
    first_with_pytorchxla,
    keys,
    member,
    settled,
    supported_versions,
    version,
)
from compilegate.check.rules.xla.barriers import SPAWNS
from compilegate.job.names import TRAINING_COMPILER_DEBUG_HYPERPARAMETER

_ONLY = (TRAINING_COMPILER,)


@rule("compiler-distribution")
def compiler_distribution(view: View) -> Iterator[Found]:
    for estimator in compiled_estimators(view):
        given = estimator.given("distribution")
        if given is None and _one_process(view, estimator):
            said = f"without `pytorchxla` one of {estimator.gpus} GPUs trains"
            yield Found(estimator.call, said, Severity.WARNING)
        for key in keys(given):
            if estimator.framework == "TensorFlow":
                if key in {"smdistributed", "multi_worker_mirrored_strategy"}:
                    yield Found(estimator.where("distribution"), f"`{key}` with Training Compiler")
            elif key != "pytorchxla":
                said = f"`{key}` with Training Compiler, where only `pytorchxla` works"
                yield Found(estimator.where("distribution"), said)
            elif _launched(estimator):
                said = "`pytorchxla` is of PyTorch 1.11; before, a launcher starts the script"
                yield Found(estimator.where("distribution"), said)


def _one_process(view: View, estimator: Estimator) -> bool:
    """Whether nothing starts a process for each GPU: neither the estimator nor its script."""
    if estimator.framework == "TensorFlow" or _torch_version(estimator) < first_with_pytorchxla():
        return False  # of what is older another rule speaks
    script = started(view, estimator)
    if script is not None and script.calls_of(*SPAWNS):
        return False
    return estimator.read_whole and (estimator.gpus or 0) > 1


def _torch_version(estimator: Estimator) -> tuple[int, ...]:
    if estimator.framework == "PyTorch":
        return version(estimator.text("framework_version"))[:2]
    return version(estimator.text("pytorch_version"))[:2]


def _launched(estimator: Estimator) -> bool:
    """Whether its image has a launcher in front of the training script."""
    return (0,) < _torch_version(estimator) < first_with_pytorchxla()


@rule("compiler-launcher")
def compiler_launcher(view: View) -> Iterator[Found]:
    for estimator in compiled_estimators(view):
        if estimator.framework == "TensorFlow" or not _launched(estimator):
            continue
        instance = estimator.text("instance_type")
        if not instance or estimator.one_gpu:
            continue
        given, whole = estimator.hyperparameters
        told = estimator.given("hyperparameters") is not None
        if told and whole and "training_script" not in given:
            yield Found(estimator.call, f"no launcher starts the processes of {instance}")


@rule("compiler-instance")
def compiler_instance(view: View) -> Iterator[Found]:
    for estimator in compiled_estimators(view):
        if not estimator.supported:
            said = f"Training Compiler does not run on `{estimator.text('instance_type')}`"
            yield Found(estimator.where("instance_type"), said)
        groups = estimator.given("instance_groups")
        if groups is not None and not (isinstance(groups, ast.Constant) and groups.value is None):
            said = "Training Compiler does not run on `instance_groups`"
            yield Found(estimator.where("instance_groups"), said)


@rule("compiler-nodes")
def compiler_nodes(view: View) -> Iterator[Found]:
    for estimator in compiled_estimators(view):
        if not estimator.supported:
            continue  # which another rule says
        count = estimator.number("instance_count")
        if "one-gpu-each" in estimator.refused:
            said = f"{count} instances of one GPU each"
            yield Found(estimator.where("instance_count"), said)
        elif "no-efa" in estimator.refused:
            yield Found(estimator.where("instance_type"), f"{count} instances without EFA")


@rule("compiler-image")
def compiler_image(view: View) -> Iterator[Found]:
    for estimator in compiled_estimators(view):
        if estimator.framework != "TensorFlow" and estimator.given("image_uri") is not None:
            yield Found(estimator.where("image_uri"), "another image with Training Compiler")
        for name, supported in supported_versions(estimator.framework).items():
            given = estimator.text(name)
            if given and version(given)[:2] not in supported:
                yield Found(estimator.where(name), f"Training Compiler has no image for `{given}`")
                break  # the versions belong together


@rule("compiler-debugging")
def compiler_debugging(view: View) -> Iterator[Found]:
    for estimator in compiled_estimators(view):
        debug = keyword(estimator.compiler, "debug") if estimator.compiler is not None else None
        if isinstance(debug, ast.Constant) and debug.value is True:
            yield Found(debug, _DEBUGGED)
        for name in ("profiler_config", "rules"):
            given = estimator.given(name)
            if given is not None and not (isinstance(given, ast.Constant) and not given.value):
                yield Found(estimator.where(name), f"`{name}` is on")
        hook = estimator.given("debugger_hook_config")
        off = isinstance(hook, ast.Constant) and hook.value is False
        profiler = estimator.given("disable_profiler")
        if hook is not None and not off and not isinstance(hook, ast.Name):
            yield Found(estimator.where("debugger_hook_config"), "SageMaker Debugger is on")
        elif hook is None or profiler is None:
            missing = "debugger_hook_config=False" if hook is None else "disable_profiler=True"
            said = f"without `{missing}` SageMaker watches the job"
            yield Found(estimator.call, said, Severity.NOTE)
    if TRAINING_COMPILER_DEBUG_HYPERPARAMETER in view.analysis.words:
        for node in ast.walk(view.script.source.tree):
            if not isinstance(node, ast.Dict):
                continue
            given = member(node, TRAINING_COMPILER_DEBUG_HYPERPARAMETER)
            if isinstance(given, ast.Constant) and str(given.value).lower() == "true":
                yield Found(given, _DEBUGGED)


_DEBUGGED = "Training Compiler is in debug mode"


@rule("batch-without-rate")
def batch_without_rate(view: View) -> Iterator[Found]:
    every = [(each, _hyperparameters(each)) for each in estimators(view)]
    native = [pair for pair in every if pair[0].compiler is None]
    for estimator, settings in every:
        if estimator.compiler is None:
            continue
        for other, others in native:
            if other.text("entry_point") != estimator.text("entry_point"):
                continue
            batch, before = _of(settings, _BATCHES), _of(others, _BATCHES)
            rate, rate_before = _of(settings, _RATES), _of(others, _RATES)
            if not batch or not before or batch == before or rate != rate_before:
                continue
            if not _NUMBER.fullmatch(rate):
                continue  # reckoned, perhaps from the batch
            said = (
                f"the batch is {batch} here and {before} without the compiler, at one learning rate"
            )
            yield Found(estimator.call, said)
            break
        else:
            said = _rate_called_native(estimator, settings)
            if said:
                yield Found(estimator.call, said)


def _rate_called_native(estimator: Estimator, settings: dict[str, str]) -> str:
    """Whether the rate is what the script calls the rate without the compiler, the batch not."""
    script = estimator.script
    batch, rate = _of(settings, _BATCHES), _of(settings, _RATES)
    batches = {written(value) for _, value in called_native(script, "batch")}
    rates = {written(value): name for name, value in called_native(script, "rate|lr")}
    if not batch.isdecimal() or not batches or batch in batches or rate not in rates:
        return ""
    return f"the batch is {batch}, not that without the compiler, and the rate is `{rates[rate]}`"


_BATCHES = ("per_device_train_batch_size", "train_batch_size", "batch_size", "batch-size",
            "per_gpu_train_batch_size")  # fmt: skip
_NUMBER = re.compile(r"(?:float\()?['\"]?[\d.]+(?:e[+-]?\d+)?['\"]?\)?", re.IGNORECASE)
_RATES = ("learning_rate", "lr", "learning-rate")


def _hyperparameters(estimator: Estimator) -> dict[str, str]:
    """The hyperparameters as they are written, with names followed."""
    given, _ = estimator.hyperparameters
    return {key: written(settled(estimator.script, value)) for key, value in given.items()}


def _of(settings: dict[str, str], names: tuple[str, ...]) -> str:
    return next((settings[name] for name in names if name in settings), "")


RULES = (
    compiler_distribution,
    compiler_launcher,
    compiler_instance,
    compiler_nodes,
    compiler_image,
    compiler_debugging,
    batch_without_rate,
)
