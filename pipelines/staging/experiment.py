"""`gate.json`: what the gate needs to know about a workload. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from compilegate.catalog import Price, UnknownPrice, price_of
from compilegate.gate.settings import ArmDeclaration, Experiment, GateSettings, Padding
from compilegate.job.names import BASELINE_ARM
from compilegate.workload import Arm, Workload


def experiment_file(workload: Workload) -> bytes:
    """The content of `gate.json`. It is an object of its own, so that a changed margin moves
    neither the gate's program nor anything that is trained."""
    return (experiment_of(workload).model_dump_json(indent=2) + "\n").encode()


def experiment_of(workload: Workload) -> Experiment:
    """What the gate is told."""
    images = {arm.image_folder for arm in workload.arms.values()}
    padded = any(arm.padding != "max" for arm in workload.arms.values())
    return Experiment(
        workload=workload.name,
        baseline=BASELINE_ARM,
        evidence=workload.kind.evidence,
        arms={
            name: _declaration(
                arm,
                arm.instance_type or workload.compute.instance_type,
                # Only where arms differ in it: then other library versions are intended too.
                image=arm.image_folder if len(images) > 1 else None,
                padding=arm.padding if padded else None,
                prices=workload.declared_prices,
            )
            for name, arm in workload.arms.items()
        },
        seeds=list(workload.seeds),
        left_out=list(workload.left_out),
        settings=_settings(workload),
    )


def _settings(workload: Workload) -> GateSettings:
    return GateSettings.model_validate(workload.gate.model_dump(exclude={"code"}))


def _declaration(
    arm: Arm,
    instance_type: str,
    *,
    image: str | None,
    padding: Padding | None,
    prices: Mapping[str, float],
) -> ArmDeclaration:
    price = price_of(instance_type, declared=prices)
    return ArmDeclaration(
        compiler=arm.compiler,
        batch_size=arm.batch_size,
        learning_rate=arm.learning_rate,
        precision=arm.precision,
        world_size=arm.world_size,
        padding=padding,
        scale_learning_rate=arm.scale_learning_rate,
        instance_type=instance_type,
        image=image,
        usd_per_hour=(
            price.usd_per_hour * arm.instance_count if isinstance(price, Price) else None
        ),
        price_note=_price_note(price, arm.instance_count),
    )


def _price_note(price: Price | UnknownPrice, instances: int) -> str:
    note = price.note if isinstance(price, Price) else price.reason
    return note if instances == 1 else f"{instances} instances, each: {note}"
