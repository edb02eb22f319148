"""Settle a workload's file: every value is known afterwards."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from compilegate.catalog.images import UnknownImageError
from compilegate.catalog.instances import instance_of
from compilegate.catalog.tested_models import default_batch_size
from compilegate.declaration_errors import read_toml
from compilegate.gate.settings import Padding
from compilegate.job.compilers import Option, declarations
from compilegate.job.contract import BASELINE_ARM, MOST_BUCKETS, NO_ARM, NOTHING_NEW
from compilegate.workload.declaration.arms import ArmTable
from compilegate.workload.declaration.data import Data
from compilegate.workload.declaration.workload_file import WorkloadFile
from compilegate.workload.kinds import Kind, kind_of
from compilegate.workload.parameters import LONGEST_JOB_SECONDS
from compilegate.workload.settled import (
    Arm,
    ScaledRate,
    Served,
    Workload,
    WorkloadError,
)

HANDLER = "inference.py"
"""Default name of the handler in AWS's toolkits; the built-in one's name."""
JSON = "application/json"
BUILT_IN_TYPES = (JSON, "application/jsonlines", "text/plain")
"""What the handler of the built-in program reads; it answers with the first two."""
STEP_GRAPHS = "step_graphs"
"""The option of compilers of whole steps that limits their graphs."""
LARGEST_EXPERIMENT = 63
"""Training jobs of one execution: evidence travels through inputs of a processing job, of which
the service allows ten. The gate takes seven (the others are its program, the experiment and what is
registered), each gathered from nine."""


def find_workload(name_or_path: str, folder: Path) -> Path:
    """The file of a workload that is given by its name (`news-topics`) or by its path.

    Raises WorkloadError when there is none, naming those that there are.
    """
    given = Path(name_or_path)
    by_name = given.suffix != ".toml" and given.parent == Path()
    path = folder / f"{name_or_path}.toml" if by_name else given
    if path.is_file():
        return path
    known = sorted(entry.stem for entry in folder.glob("*.toml"))
    close = difflib.get_close_matches(given.stem, known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    there = ", ".join(known) or "no workload at all"
    raise WorkloadError(f"{path}: no such file{hint}; {folder} holds {there}")


def read_workload(path: Path) -> Workload:
    """The workload of one file, with every value settled.

    Raises WorkloadError with one sentence for each thing that is wrong with the file.
    """
    file = read_toml(path, WorkloadFile, WorkloadError)
    try:
        workload = settle(file)
    except WorkloadError as error:
        raise error.within(path) from error
    if workload.name != path.stem:
        raise WorkloadError(
            f"{path}: name is {workload.name!r}, expected {path.stem!r}, as the file is called"
        )
    return workload


def read_data_table(path: Path) -> tuple[Data, bool] | None:
    """`[data]` of a file that may be wrong elsewhere, and whether the built-in program is to train;
    None where the table itself is wrong. So that data are looked into before the rest is right."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        data: Data = TypeAdapter(Data).validate_python(raw.get("data"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError):
        return None
    return data, "program" not in raw


def settle(file: WorkloadFile) -> Workload:
    """The workload that a file declares, with what it leaves out filled in.

    Raises WorkloadError where its tables do not fit together, or a value follows from nothing.
    """
    kind, groups = kind_of(file), file.data.groups
    for problem in _problems(file, kind):
        raise WorkloadError(problem)
    settled: dict[str, Any] = {
        **dict(file),
        "kind": kind,
        "arms": _arms(file, kind),
        "gate": file.gate if groups is None else file.gate.model_copy(update={"groups": groups}),
        "serving": served(file),
    }
    return Workload.model_construct(**settled)


def _problems(file: WorkloadFile, kind: Kind) -> Iterator[str]:
    """What does not go together; a problem may follow from the one before it."""
    yield from _wrong_waits(file)
    yield from _incomparable(file)
    if file.posture is not None:
        yield from _without_posture(file)
    yield from _unknown_slices(file, kind)
    yield from serving_problems(file)
    arms, seeds = len(file.arms), len(file.seeds)
    if arms * seeds > LARGEST_EXPERIMENT:
        yield (
            f"arms x seeds is {arms} x {seeds} = {arms * seeds} training jobs, expected "
            f"{LARGEST_EXPERIMENT} at most in one execution"
        )
    for name, arm in file.arms.items():
        yield from _unfit(name, arm, kind)
        yield from _of_many_shapes(name, arm, kind)


def _without_posture(file: WorkloadFile) -> Iterator[str]:
    if len(file.arms) == 1:
        yield (
            f"posture is given and arms holds only {BASELINE_ARM}, expected one or more candidates "
            "beside it, since a posture is that of candidates"
        )
    for name, arm in file.arms.items():
        if arm.compiler == "neuron":
            yield (
                f"posture is given and arms.{name}.compiler is 'neuron', expected compilers whose "
                "graphs need no job of their own before training"
            )


def _wrong_waits(file: WorkloadFile) -> Iterator[str]:
    runtime = file.compute.max_runtime_seconds
    for name, arm in file.arms.items():
        key = f"arms.{name}.max_wait_seconds"
        if arm.max_wait_seconds is not None and not arm.spot:
            yield f"{key} is {arm.max_wait_seconds}, expected spot = true beside it"
        elif arm.max_wait_seconds is not None and arm.max_wait_seconds < runtime:
            yield (
                f"{key} is {arm.max_wait_seconds}, expected compute.max_runtime_seconds "
                f"({runtime}) or more, since the wait includes the run"
            )


def _wait(file: WorkloadFile, arm: ArmTable) -> int | None:
    """How long a job of a spot arm may take in all: twice its runtime unless declared."""
    if not arm.spot:
        return None
    return arm.max_wait_seconds or min(2 * file.compute.max_runtime_seconds, LONGEST_JOB_SECONDS)


def _incomparable(file: WorkloadFile) -> Iterator[str]:
    names = ", ".join(file.arms) or "no arm at all"
    if BASELINE_ARM not in file.arms:
        yield (
            f"arms holds {names}, expected a table [arms.{BASELINE_ARM}], and any "
            "candidates beside it"
        )
    elif file.arms[BASELINE_ARM].compiler != "eager":
        yield (
            f"arms.{BASELINE_ARM}.compiler is {file.arms[BASELINE_ARM].compiler!r}, expected "
            "'eager', since candidates are compared with training without a compiler"
        )
    elif len(file.arms) > 1 and all(it.margin is None for it in file.gate.metrics.values()):
        yield (
            "gate.metrics have no margin, expected one or more with a margin, by which candidates "
            "are compared"
        )
    for name in (NO_ARM, NOTHING_NEW):
        if name in file.arms:
            yield f"arms.{name} has the name that verdicts use for no arm, expected another name"


def _unknown_slices(file: WorkloadFile, kind: Kind) -> Iterator[str]:
    if file.gate.groups is not None and file.data.groups != file.gate.groups:
        yield (
            f"gate.groups is {file.gate.groups!r} and data.groups is {file.data.groups!r}, "
            "expected data.groups alone, since the data must carry the column"
        )
    carried = kind.slice_columns
    if carried is None:
        return
    for index, part in enumerate(file.gate.slices):
        if part.column not in carried:
            there = ", ".join(repr(name) for name in carried) or "none"
            yield (
                f"gate.slices[{index}].column is {part.column!r}, expected a column that "
                f"data.slices names (now: {there}), since only those reach the evidence"
            )


def _unfit(name: str, arm: ArmTable, kind: Kind) -> Iterator[str]:
    if kind.source_folder is None and arm.spot and arm.distribution != "none":
        yield (
            f"arms.{name}.spot is true with distribution {arm.distribution!r}, expected one of "
            "them, since a checkpoint holds the state of one process"
        )
    keys = [option.key for option in arm.options_given]
    if keys and not kind.calls_compiler:
        yield (
            f"arms.{name}.{keys[0]} is given and program.evidence is {kind.evidence!r}, expected "
            "'written', with which the script calls the compiler through compilegate.job; a script "
            "that only prints takes a hyperparameter instead"
        )


def _of_many_shapes(name: str, arm: ArmTable, kind: Kind) -> Iterator[str]:
    """Padding that the arm's program, or its compiler, cannot do with."""
    if kind.padding is None:
        if arm.padding is not None:
            yield (
                f"arms.{name}.padding is {arm.padding!r} without the built-in program for texts; "
                "leave it out: your own program pads as it likes"
            )
        return
    compiler = declarations()[arm.compiler]
    given = {option.name: value for option, value in arm.options_given.items()}
    if (arm.padding or kind.padding) != "longest" or compiler.serves_any_shape(given):
        return
    where = "data.padding" if arm.padding is None else f"arms.{name}.padding"
    yield (
        f"{where} is 'longest', and compiler {arm.compiler!r} of arms.{name} compiles every shape "
        f"anew, expected arms.{name}.padding = 'buckets' or 'max', which have a few shapes or one"
    )


def _arms(file: WorkloadFile, kind: Kind) -> dict[str, Arm]:
    """The arms with every batch size, learning rate and number of processes in place."""
    baseline = _arm(file, kind, BASELINE_ARM, None)
    return {
        name: baseline if name == BASELINE_ARM else _arm(file, kind, name, baseline)
        for name in file.arms
    }


def _arm(file: WorkloadFile, kind: Kind, name: str, baseline: Arm | None) -> Arm:
    table = file.arms[name]
    instance_type = table.instance_type or file.compute.instance_type
    processes, batch_size = _processes(table, instance_type), table.batch_size
    if batch_size is None:
        batch_size = _tested_batch(kind, name, table, instance_type)
    rate, scaled = table.learning_rate, None
    if rate is None:
        scaled = _scaled(name, table, batch_size * processes * table.instance_count, baseline)
        rate = scaled.rate
    padding = table.padding or kind.padding or "max"
    options = table.options_given | _more_graphs(table, padding)
    settled: dict[str, Any] = {
        **dict(table),
        "processes": processes,
        "max_wait_seconds": _wait(file, table),
        "batch_size": batch_size,
        "learning_rate": rate,
        "padding": padding,
        "scaled_rate": scaled,
        "compiler_options": {option.name: value for option, value in options.items()},
    }
    return Arm.model_construct(**settled)


def _more_graphs(table: ArmTable, padding: Padding) -> dict[Option, int]:
    """The limit of a compiler that has one for its graphs, where the arm leaves it out: it is meant
    for steps of one shape."""
    limits = [each for each in declarations()[table.compiler].options if each.name == STEP_GRAPHS]
    if padding != "buckets":
        return {}
    return {
        each: MOST_BUCKETS * int(each.default or 1)
        for each in limits
        if each not in table.options_given
    }


def _scaled(name: str, table: ArmTable, examples: int, baseline: Arm | None) -> ScaledRate:
    """The learning rate of an arm whose steps take so many examples."""
    rule = table.scale_learning_rate
    if baseline is None or rule == "none":
        raise WorkloadError(
            f"arms.{name}.scale_learning_rate is {rule!r}, expected a learning_rate of its own for "
            "the baseline, from which the others are scaled"
        )
    return ScaledRate(
        rule=rule,
        base_rate=baseline.learning_rate,
        base_batch=baseline.global_batch_size,
        batch=examples,
    )


def _processes(arm: ArmTable, instance_type: str) -> int:
    """What starts one process for each accelerator starts as many as the instance has; TensorFlow's
    strategies divide a step of one process among as many."""
    instance = instance_of(instance_type)
    for_each = arm.in_script or arm.distribution not in ("none", "torchrun")
    return instance.accelerators if instance is not None and for_each else arm.processes or 1


def _tested_batch(kind: Kind, name: str, arm: ArmTable, instance_type: str) -> int:
    missing = f"arms.{name}.batch_size is missing, expected a number"
    if kind.hub_model is None:
        raise WorkloadError(
            f"{missing}; only models of the hub that AWS tested have one by default"
        )
    stack, shapes = arm.stack, kind.document_shapes
    tested = default_batch_size(
        kind.hub_model,
        instance_type=instance_type,
        precision=arm.precision,
        sequence_length=None if shapes is None else shapes.sequence_length,
        # What fits under that compiler says nothing of the others; what fits without one, does.
        compiled=arm.compiler == "training-compiler",
        framework="pytorch" if stack is None else stack.framework,
        version=None if stack is None else stack.version,
    )
    if isinstance(tested, str):
        raise WorkloadError(f"{missing}; there is none by default, since {tested}")
    return tested[0]


def served(file: WorkloadFile) -> Served | None:
    """How the file's models are served; None where it does not say."""
    declared = file.serving
    if declared is None:
        return None
    built_in = file.program is None and declared.handler is None
    types = list(BUILT_IN_TYPES) if built_in else [JSON]
    settled: dict[str, Any] = {
        **dict(declared),
        "handler": HANDLER if built_in else declared.handler,
        "built_in": built_in,
        "framework": declared.framework or ("pytorch" if file.program else "huggingface"),
        "content_types": declared.content_types or types,
        "response_types": declared.response_types or types[:2],
    }
    return Served.model_construct(**settled)


def serving_problems(file: WorkloadFile) -> Iterator[str]:
    """What of `[serving]` does not go with the rest of the file."""
    declared, settled = file.serving, served(file)
    if declared is None or settled is None:
        return
    if file.program is None and (declared.handler is None) != (declared.folder is None):
        yield (
            "serving has one of handler and folder, expected both, or neither for the built-in "
            "handler"
        )
    does_without = settled.in_image_of_aws and settled.framework == "huggingface"
    if file.program is not None and declared.handler is None and not does_without:
        yield (
            "serving.handler is missing beside [program], expected the script that "
            "loads the model (an image of Hugging Face does without, with framework = "
            "'huggingface')"
        )
    if settled.in_image_of_aws:
        try:
            settled.base_image  # noqa: B018 - whether there is one
        except UnknownImageError as error:
            yield f"serving.version: {error}"
