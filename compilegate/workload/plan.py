"""What an arm leaves out and what it therefore is: its batch size, its learning rate. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from compilegate.catalog.instances import instance_of
from compilegate.catalog.tested_models import TestedBatch, default_batch_size
from compilegate.workload.arm import UNSETTLED, Arm
from compilegate.workload.scaling import ScaledRate


def settled_arms(
    arms: Mapping[str, Arm],
    *,
    baseline: str,
    built_in: bool,
    model_id: str | None,
    instance_type: str,
    sequence_length: int | None,
) -> dict[str, Arm]:
    """The arms with every batch size and learning rate in place.

    `built_in` says whether the built-in program trains; `instance_type` is that of arms that name
    none; `model_id` is None for a model of no name.
    Raises ValueError, in the words of a workload file, where nothing follows from the rest.
    """
    for name, arm in arms.items():
        if built_in:
            _check_spot(name, arm)
        else:
            _check_own_program(name, arm)
    batched = {
        name: _with_batch_size(
            name,
            _with_processes(name, arm, arm.instance_type or instance_type),
            model_id=model_id,
            instance_type=arm.instance_type or instance_type,
            sequence_length=sequence_length,
        )
        for name, arm in arms.items()
    }
    return {name: _with_rate(name, arm, batched[baseline]) for name, arm in batched.items()}


def _check_own_program(name: str, arm: Arm) -> None:
    """The settings of a compiler that this project calls; a script calls its compiler itself."""
    keys = [*arm.torch_compile_keys, *(["step_graphs"] if arm.step_graphs is not None else [])]
    if keys:
        raise ValueError(
            f"arms.{name}.{keys[0]} is given with a program of one's own, allowed: only with the "
            "built-in program, since the script decides it; give it a hyperparameter"
        )


def _check_spot(name: str, arm: Arm) -> None:
    if arm.spot and arm.distribution != "none":
        raise ValueError(
            f"arms.{name}.spot is true with distribution {arm.distribution!r}, allowed: one of "
            "them, since a checkpoint holds the state of one process"
        )


def _with_processes(name: str, arm: Arm, instance_type: str) -> Arm:
    """Of what starts one for each accelerator: as many as the instance has, if it is known."""
    instance = instance_of(instance_type)
    if arm.distribution in ("none", "torchrun") or instance is None:
        return arm
    if "processes" in arm.model_fields_set and arm.processes != instance.accelerators:
        raise ValueError(
            f"arms.{name}.processes is {arm.processes} with distribution {arm.distribution!r}, "
            f"which starts one for each of the {instance.accelerators} accelerators of "
            f"{instance_type}, allowed: {instance.accelerators}, or to leave it out"
        )
    return arm.with_processes(instance.accelerators)


def _with_batch_size(
    name: str, arm: Arm, *, model_id: str | None, instance_type: str, sequence_length: int | None
) -> Arm:
    if arm.batch_size != UNSETTLED:
        return arm
    missing = f"arms.{name}.batch_size is missing, allowed: a number"
    if model_id is None:
        raise ValueError(
            f"{missing}; only models of the hub that AWS has tested have a batch size by default"
        )
    stack = arm.stack
    tested = default_batch_size(
        model_id,
        instance_type=instance_type,
        precision=arm.precision,
        sequence_length=sequence_length,
        # What fits under that compiler says nothing of the others; what fits without one, does.
        compiled=arm.compiler == "training-compiler",
        framework="pytorch" if stack is None else stack.framework,
        version=None if stack is None else stack.version,
    )
    if not isinstance(tested, TestedBatch):
        raise ValueError(f"{missing}; there is none by default, since {tested.reason}")
    return arm.with_batch_size(
        tested.batch_size, f"batch_size {tested.batch_size}: {tested.sentence}"
    )


def _with_rate(name: str, arm: Arm, baseline: Arm) -> Arm:
    if arm.scale_learning_rate == "none":
        return arm
    if baseline.scale_learning_rate != "none":
        raise ValueError(
            f"arms.{name}.scale_learning_rate is {arm.scale_learning_rate!r}, but the baseline has "
            "no learning_rate of its own, allowed: one there, from which others are scaled"
        )
    return arm.with_rate(
        ScaledRate(
            rule=arm.scale_learning_rate,
            base_rate=baseline.learning_rate,
            base_batch=baseline.global_batch_size,
            batch=arm.global_batch_size,
        )
    )
