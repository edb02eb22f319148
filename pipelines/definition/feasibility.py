"""Whether each arm can run: what the catalog has against it. Pure, and without the SDK."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

from pipelines.catalog import Asked, Finding, check
from pipelines.definition.images import stack_of
from pipelines.definition.program import program_findings
from pipelines.workload import Arm, TextClassification, TrainingCompiler, Workload
from pipelines.workload.arm import AWS_IMAGE


@dataclass(frozen=True, kw_only=True)
class ArmFinding:
    """One thing that the catalog has to say about an arm."""

    arm: str
    finding: Finding

    @property
    def sentence(self) -> str:
        """`arms.NAME.KEY: reason; remedy`, without a full stop."""
        return (
            f"arms.{self.arm}.{_KEYS.get(self.finding.about, 'compiler')}: {self.finding.sentence}"
        )

    @property
    def refused(self) -> bool:
        """Whether the arm must not start; otherwise its owner should know."""
        return self.finding.severity == "refusal"


_KEYS = {
    "instance_type": "instance_type",
    "precision": "precision",
    "instance_count": "instance_count",
    "distribution": "distribution",
    "profiler": "profiler",
    "debugger": "debugger",
    "extends_image": "image",
    "debug_mode": "training_compiler.debug",
}
"""The arm's key by the field of what is asked; everything else is about its compiler."""


class InfeasibleError(Exception):
    """An arm cannot run. The message has a line for each reason."""


NO_DAY = datetime.date.min
"""Nothing is refused because of the day; only warnings depend on it."""


def check_feasible(workload: Workload, *, region: str | None = None, local: bool = False) -> None:
    """Raises InfeasibleError with every refusal, on SageMaker in that region or on this machine."""
    found = findings(workload, today=NO_DAY, region=region, local=local)
    refused = [each.sentence for each in found if each.refused]
    if refused:
        raise InfeasibleError("\n".join(refused))


def findings(
    workload: Workload, *, today: datetime.date, region: str | None = None, local: bool = False
) -> tuple[ArmFinding, ...]:
    """What the catalog has to say about each arm, on SageMaker in that region or on this machine.

    Without a region it is not asked whether AWS has an image there. Of a local run only what is
    refused there is told: instances and regions are not asked for.
    """
    return tuple(
        ArmFinding(arm=name, finding=finding)
        for name, arm in workload.arms.items()
        for finding in (
            *check(asked_of(workload, arm, region=region, local=local), today),
            *_of_the_program(workload, arm),
        )
        if not local or finding.about == "local"
    )


def _of_the_program(workload: Workload, arm: Arm) -> Iterator[Finding]:
    """Of the project's own one; what a workload's own program needs, nobody else knows."""
    stack = stack_of(arm)
    if stack is not None and isinstance(workload.kind, TextClassification):
        yield from program_findings(stack, as_it_is=arm.image_folder == AWS_IMAGE)


def asked_of(
    workload: Workload, arm: Arm, *, region: str | None = None, local: bool = False
) -> Asked:
    """What an arm asks for, in the catalog's words."""
    stack = arm.stack
    return Asked(
        compiler=arm.compiler,
        framework="pytorch" if stack is None else stack.framework,
        version=None if stack is None else stack.version,
        transformers=None if stack is None else stack.transformers,
        instance_type=arm.instance_type or workload.compute.instance_type,
        instance_count=arm.instance_count,
        region=region,
        precision=arm.precision,
        distribution=None if arm.distribution == "none" else arm.distribution,
        extends_image=stack is not None and arm.image_folder != AWS_IMAGE,
        profiler=arm.profiler,
        debugger=arm.debugger,
        debug_mode=isinstance(stack, TrainingCompiler) and stack.debug,
        local=local,
    )
