"""Whether each arm can run, by what the catalog knows. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from compilegate.catalog import Asked, Finding, check
from compilegate.catalog.findings import refusal
from compilegate.catalog.images import BaseImage
from compilegate.execution.target import Target
from compilegate.workload.arms import Arm
from compilegate.workload.declared.arm import AWS_IMAGE, stack_key
from compilegate.workload.errors import InfeasibleError
from compilegate.workload.parameters import INSTANCE_TYPE
from compilegate.workload.settled import Workload

Bases = Mapping[str, BaseImage | str]
"""What each folder of containers/ extends: an image of the catalog, or the URI of any other, which
is taken at its word."""

NO_BASES: Bases = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class ArmFinding:
    """One thing that the catalog has to say about an arm."""

    arm: str
    key: str
    """The arm's key that it is about."""
    finding: Finding

    @property
    def sentence(self) -> str:
        """`arms.NAME.KEY: reason; remedy`, without a full stop."""
        return f"arms.{self.arm}.{self.key}: {self.finding.sentence}"

    @property
    def refused(self) -> bool:
        """Whether the arm must not start; otherwise its owner should know."""
        return self.finding.severity == "refusal"


_KEYS = {
    "instance_type": "instance_type",
    "precision": "precision",
    "instance_count": "instance_count",
    "distribution": "distribution",
    "processes": "processes",
    "profiler": "profiler",
    "debugger": "debugger",
    "extends_image": "image",
    "image": "image",
    "debug_mode": "training_compiler.debug",
}
"""The arm's key by the field of what is asked; everything else is about its compiler."""


NO_DAY = datetime.date.min
"""Nothing is refused because of the day; only warnings depend on it."""


def check_feasible(
    workload: Workload,
    *,
    region: str | None = None,
    target: Target = Target.SAGEMAKER,
    bases: Bases = NO_BASES,
    instance_type: str | None = None,
) -> None:
    """Raises InfeasibleError with every refusal at that target, and in that region.

    `instance_type` is what an execution is given for arms that name none.
    """
    found = findings(
        workload,
        today=NO_DAY,
        region=region,
        target=target,
        bases=bases,
        instance_type=instance_type,
    )
    refused = [each.sentence for each in found if each.refused]
    if refused:
        raise InfeasibleError(*refused)


def findings(
    workload: Workload,
    *,
    today: datetime.date,
    region: str | None = None,
    target: Target = Target.SAGEMAKER,
    bases: Bases = NO_BASES,
    instance_type: str | None = None,
) -> tuple[ArmFinding, ...]:
    """What the catalog has to say about each arm at that target, and in that region.

    Without a region it is not asked whether AWS has an image there. Anywhere but on SageMaker,
    instances and regions do not matter: only what the target refuses is told. `instance_type` is
    what an execution is given for arms that name none; what the schedule gives is looked at too.
    """
    given = [instance_type] if instance_type else [None, *_scheduled_instance_types(workload)]
    found = (
        ArmFinding(arm=name, key=_key(finding, arm), finding=finding)
        for name, arm in workload.arms.items()
        for finding in (
            *(
                finding
                for each in given
                for finding in check(
                    asked_of(
                        workload, arm, region=region, target=target, bases=bases, instance_type=each
                    ),
                    today,
                )
            ),
            *_program_findings(workload, arm),
            *_base_findings(arm, bases.get(arm.image_folder)),
        )
        if target is Target.SAGEMAKER or finding.about == "target"
    )
    return tuple(dict.fromkeys(found))


def _scheduled_instance_types(workload: Workload) -> list[str]:
    """What the schedule gives each execution for arms that name none, if it does."""
    parameters = {} if workload.schedule is None else workload.schedule.parameters
    return [str(parameters[INSTANCE_TYPE])] if INSTANCE_TYPE in parameters else []


def _key(finding: Finding, arm: Arm) -> str:
    if finding.about == "version" and arm.stack is not None:
        return f"{stack_key(arm.compiler)}.version"
    return _KEYS.get(finding.about, "compiler")


def _program_findings(workload: Workload, arm: Arm) -> Iterator[Finding]:
    """What the training program has against the image of the arm's stack."""
    stack = arm.known_stack
    if stack is not None:
        yield from workload.kind.stack_findings(stack, as_it_is=arm.image_folder == AWS_IMAGE)


def _base_findings(arm: Arm, base: BaseImage | str | None) -> Iterator[Finding]:
    """An arm's stack has to be the one that its image extends."""
    stack = arm.known_stack
    if stack is not None and isinstance(base, BaseImage) and base.name != stack.image.name:
        yield refusal(
            "image",
            f"{arm.image_folder!r} extends {base.name}, and the arm's stack is {stack.label}, "
            f"which is in {stack.image.name}",
            "declare the stack that the image has, or another image",
        )


def asked_of(
    workload: Workload,
    arm: Arm,
    *,
    region: str | None = None,
    target: Target = Target.SAGEMAKER,
    bases: Bases = NO_BASES,
    instance_type: str | None = None,
) -> Asked:
    """What an arm asks for, in the catalog's words."""
    stack, base = arm.stack, bases.get(arm.image_folder)
    image = base if stack is None and isinstance(base, BaseImage) else None
    framework, version = ("pytorch", None) if image is None else (image.library, image.version)
    return Asked(
        compiler=arm.compiler,
        framework=framework if stack is None else stack.framework,
        version=version if stack is None else stack.version,
        transformers=None if stack is None else stack.transformers,
        image=image,
        instance_type=arm.instance_type or instance_type or workload.compute.instance_type,
        instance_count=arm.instance_count,
        region=region,
        precision=arm.precision,
        distribution=None if arm.distribution == "none" else arm.distribution,
        # Training Compiler's processes are started by the toolkit, or not at all.
        launches_itself=not workload.kind.calls_compiler and arm.compiler != "training-compiler",
        processes=arm.processes,
        extends_image=stack is not None and arm.image_folder != AWS_IMAGE,
        profiler=arm.profiler,
        debugger=arm.debugger,
        debug_mode=stack is not None and stack.debug,
        target=target,
    )
