"""From the tables that people write to a workload in which every value is known. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compilegate.catalog.compilers import compilers
from compilegate.catalog.instances import instance_of
from compilegate.catalog.tested_models import TestedBatch, default_batch_size
from compilegate.gate.settings import Padding
from compilegate.job.compilers import Option, declarations
from compilegate.job.names import BASELINE_ARM, MOST_BUCKETS, NO_ARM, NOTHING_NEW
from compilegate.workload.arms import Arm, ScaledRate
from compilegate.workload.declared.arm import ArmTable
from compilegate.workload.declared.file import WorkloadFile
from compilegate.workload.declared.gate import Gate
from compilegate.workload.errors import WorkloadError
from compilegate.workload.kinds import Kind, kind_of
from compilegate.workload.parameters import LONGEST_JOB_SECONDS, MAX_RUNTIME
from compilegate.workload.serving import served, serving_problems
from compilegate.workload.settled import Workload

STEP_GRAPHS = "step_graphs"
"""The option of compilers of whole steps that limits their graphs."""
LARGEST_EXPERIMENT = 63
"""Training jobs of one execution: evidence travels through inputs of a processing job, of which
the service allows ten. The gate takes seven (the others are its program, the experiment and what is
registered), each gathered from nine."""


def settle(file: WorkloadFile) -> Workload:
    """The workload that a file declares, with what it leaves out filled in.

    Raises WorkloadError where its tables do not fit together, or a value follows from nothing.
    """
    kind = kind_of(file)
    for problem in _problems(file, kind):
        raise WorkloadError(problem)
    return Workload(
        name=file.name,
        description=file.description,
        seeds=tuple(file.seeds),
        data=file.data,
        kind=kind,
        arms=_arms(file, kind),
        gate=_gate(file),
        compute=file.compute,
        registry=file.registry,
        cache=file.cache,
        compile_cache=file.compile_cache,
        schedule=file.schedule,
        new_data=file.new_data,
        advice=file.advice,
        budget=file.budget,
        posture=file.posture,
        serving=served(file),
    )


def _gate(file: WorkloadFile) -> Gate:
    """What the gate goes by, the units of the data among it."""
    groups = file.data.groups
    return file.gate if groups is None else file.gate.model_copy(update={"groups": groups})


def _problems(file: WorkloadFile, kind: Kind) -> Iterator[str]:
    """What does not go together; a problem may follow from the one before it."""
    yield from _wrong_waits(file)
    repeated = sorted({seed for seed in file.seeds if file.seeds.count(seed) > 1})
    if repeated:
        yield f"seeds holds {repeated[0]} more than once, allowed: distinct seeds"
    yield from _incomparable(file)
    if file.posture is not None:
        yield from _without_posture(file)
    yield from _unknown_slices(file, kind)
    yield from serving_problems(file)
    trained = len(file.arms)
    jobs = trained * len(file.seeds)
    if jobs > LARGEST_EXPERIMENT:
        yield (
            f"arms x seeds is {trained} x {len(file.seeds)} = {jobs} training jobs, "
            f"allowed: {LARGEST_EXPERIMENT} at most in one execution"
        )
    for name, arm in file.arms.items():
        yield from _unfit(name, arm, kind)
        yield from _of_many_shapes(name, arm, kind)


def _without_posture(file: WorkloadFile) -> Iterator[str]:
    if len(file.arms) == 1:
        yield (
            f"posture is given and arms holds only {BASELINE_ARM}, allowed: one or more candidates "
            "beside it, since a posture is that of candidates"
        )
    for name, arm in file.arms.items():
        if arm.compiler == "neuron":
            yield (
                f"posture is given and arms.{name}.compiler is 'neuron', allowed: compilers whose "
                "graphs need no job of their own before training"
            )


def _wrong_waits(file: WorkloadFile) -> Iterator[str]:
    runtime = file.compute.max_runtime_seconds
    scheduled = file.schedule.parameters.get(MAX_RUNTIME) if file.schedule else None
    for name, arm in file.arms.items():
        wait = _wait(file, arm)
        if wait is not None and isinstance(scheduled, int) and scheduled > wait:
            yield (
                f"schedule.parameters.{MAX_RUNTIME} is {scheduled}, allowed: {wait} or less, "
                f"which is the wait of the spot arm {name}"
            )
        if arm.max_wait_seconds is None:
            continue
        key = f"arms.{name}.max_wait_seconds"
        if not arm.spot:
            yield f"{key} is {arm.max_wait_seconds}, allowed: only with spot = true"
        if arm.max_wait_seconds < runtime:
            yield (
                f"{key} is {arm.max_wait_seconds}, allowed: compute.max_runtime_seconds "
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
            f"arms holds {names}, allowed: a table [arms.{BASELINE_ARM}], and any "
            "candidates beside it"
        )
    elif file.arms[BASELINE_ARM].compiler != "eager":
        yield (
            f"arms.{BASELINE_ARM}.compiler is {file.arms[BASELINE_ARM].compiler!r}, allowed: "
            "'eager', since candidates are compared with training without a compiler"
        )
    elif len(file.arms) > 1 and all(it.margin is None for it in file.gate.metrics.values()):
        yield (
            "gate.metrics have no margin, allowed: one or more with a margin, by which candidates "
            "are compared"
        )
    for name in (NO_ARM, NOTHING_NEW):
        if name in file.arms:
            yield f"arms.{name} is not allowed: a verdict says {name!r} where it names no arm"


def _unknown_slices(file: WorkloadFile, kind: Kind) -> Iterator[str]:
    if file.gate.groups is not None and file.data.groups != file.gate.groups:
        yield (
            f"gate.groups is {file.gate.groups!r} and data.groups is {file.data.groups!r}, "
            "allowed: data.groups alone, since the data must carry the column"
        )
    carried = kind.slice_columns
    if carried is None:
        return
    for index, part in enumerate(file.gate.slices):
        if part.column not in carried:
            there = ", ".join(repr(name) for name in carried) or "none"
            yield (
                f"gate.slices[{index}].column is {part.column!r}, allowed: a column that "
                f"data.slices names (now: {there}), since only those reach the evidence"
            )


def _unfit(name: str, arm: ArmTable, kind: Kind) -> Iterator[str]:
    if kind.resumes_one_process and arm.spot and arm.distribution != "none":
        yield (
            f"arms.{name}.spot is true with distribution {arm.distribution!r}, allowed: one of "
            "them, since a checkpoint holds the state of one process"
        )
    keys = [option.key for option in arm.options_given]
    if keys and not kind.calls_compiler:
        yield (
            f"arms.{name}.{keys[0]} is given and program.evidence is {kind.evidence!r}, allowed: "
            "with 'written', where the script calls the compiler through compilegate.job; give one "
            "that only prints a hyperparameter"
        )


def _of_many_shapes(name: str, arm: ArmTable, kind: Kind) -> Iterator[str]:
    """Padding that the arm's program, or its compiler, cannot do with."""
    if kind.padding is None:
        if arm.padding is not None:
            yield (
                f"arms.{name}.padding is {arm.padding!r} without the built-in program for texts, "
                "allowed: to leave it out, since your own program pads as it likes"
            )
        return
    compiler = declarations()[arm.compiler]
    given = {option.name: value for option, value in arm.options_given.items()}
    if (arm.padding or kind.padding) != "longest" or compiler.serves_any_shape(given):
        return
    where = "data.padding" if arm.padding is None else f"arms.{name}.padding"
    option = compiler.any_shape
    switch = f", or no {option.key} = false in the arm" if isinstance(option, Option) else ""
    yield (
        f"{where} is 'longest', and compiler {arm.compiler!r} of arms.{name} compiles every shape "
        f"anew, allowed: arms.{name}.padding = 'buckets' or 'max', which have a few shapes or "
        f"one{switch}"
    )


def _arms(file: WorkloadFile, kind: Kind) -> dict[str, Arm]:
    """The arms with every batch size, learning rate and number of processes in place."""
    batches = {name: _batch(file, kind, name, table) for name, table in file.arms.items()}
    baseline = batches[BASELINE_ARM]
    return {name: _arm(file, kind, name, batch, baseline) for name, batch in batches.items()}


@dataclass(frozen=True, kw_only=True)
class _Batch:
    """An arm's processes and batch, by which the learning rates of all arms are scaled."""

    table: ArmTable
    processes: int
    size: int
    explanations: tuple[str, ...]

    @property
    def examples(self) -> int:
        """Examples of one step, of all processes together."""
        return self.size * self.processes * self.table.instance_count


def _batch(file: WorkloadFile, kind: Kind, name: str, table: ArmTable) -> _Batch:
    instance_type = table.instance_type or file.compute.instance_type
    processes = _processes(name, table, instance_type)
    if table.batch_size is not None:
        return _Batch(table=table, processes=processes, size=table.batch_size, explanations=())
    tested = _tested_batch(kind, name, table, instance_type)
    return _Batch(
        table=table,
        processes=processes,
        size=tested.batch_size,
        explanations=(f"batch_size {tested.batch_size}: {tested.sentence}",),
    )


def _arm(file: WorkloadFile, kind: Kind, name: str, batch: _Batch, baseline: _Batch) -> Arm:
    table = batch.table
    rate, scaled = table.learning_rate, None
    if rate is None:
        scaled = _scaled(name, batch, baseline)
        rate = scaled.rate
    padding = table.padding or kind.padding or "max"
    more_graphs = _more_graphs(table, padding)
    return Arm(
        compiler=table.compiler,
        image_folder=table.image_folder,
        stack=table.stack,
        instance_type=table.instance_type,
        instance_count=table.instance_count,
        distribution=table.distribution,
        processes=batch.processes,
        spot=table.spot,
        max_wait_seconds=_wait(file, table),
        profiler=table.profiler,
        debugger=table.debugger,
        batch_size=batch.size,
        learning_rate=rate,
        precision=table.precision,
        padding=padding,
        scaled_rate=scaled,
        compiler_options={
            option.name: value for option, value in {**table.options_given, **more_graphs}.items()
        },
        explanations=(
            *batch.explanations,
            *([scaled.sentence] if scaled else []),
            *(
                f"{option.key} {value}: {option.default} for each of at most {MOST_BUCKETS} "
                "lengths of the buckets"
                for option, value in more_graphs.items()
            ),
        ),
    )


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


def _scaled(name: str, batch: _Batch, baseline: _Batch) -> ScaledRate:
    rule = batch.table.scale_learning_rate
    if baseline.table.learning_rate is None or rule == "none":
        raise WorkloadError(
            f"arms.{name}.scale_learning_rate is {rule!r}, but the baseline has no learning_rate "
            "of its own, allowed: a learning_rate there, from which the others are scaled"
        )
    return ScaledRate(
        rule=rule,
        base_rate=baseline.table.learning_rate,
        base_batch=baseline.examples,
        batch=batch.examples,
    )


def _processes(name: str, arm: ArmTable, instance_type: str) -> int:
    """What starts one process for each accelerator starts as many as the instance has; TensorFlow's
    strategies divide a step of one process among as many."""
    instance = instance_of(instance_type)
    if instance is not None and arm.distribution == "none" and _divides_in_script(arm):
        return instance.accelerators
    if arm.distribution in ("none", "torchrun") or instance is None:
        return arm.processes or 1
    if arm.processes not in (None, instance.accelerators):
        raise WorkloadError(
            f"arms.{name}.processes is {arm.processes} with distribution {arm.distribution!r}, "
            f"which starts one for each of the {instance.accelerators} accelerators of "
            f"{instance_type}, allowed: {instance.accelerators}, or to leave it out"
        )
    return instance.accelerators


def _divides_in_script(arm: ArmTable) -> bool:
    stack = arm.stack
    if stack is None:
        return False
    known = compilers()[arm.compiler].stack(stack.framework, stack.version, stack.transformers)
    return known is not None and known.distribution == "in the script"


def _tested_batch(kind: Kind, name: str, arm: ArmTable, instance_type: str) -> TestedBatch:
    missing = f"arms.{name}.batch_size is missing, allowed: a number"
    if kind.hub_model is None:
        raise WorkloadError(
            f"{missing}; only models of the hub that AWS has tested have a batch size by default"
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
    if not isinstance(tested, TestedBatch):
        raise WorkloadError(f"{missing}; there is none by default, since {tested.reason}")
    return tested
