"""Whether each arm can run, by what the catalog knows. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from compilegate.catalog import NO_DAY, ArmSettings, Finding, check, finding
from compilegate.catalog.images import BaseImage
from compilegate.catalog.instances import processor_of
from compilegate.errors import CompilegateError
from compilegate.execution.status import Target
from compilegate.job.compilers import declarations
from compilegate.job.compilers.declaration import BACKEND, DEBUG
from compilegate.job.contract import BASELINE_ARM
from compilegate.workload.declaration.arms import AWS_IMAGE, ArmTable, stack_key
from compilegate.workload.parameters import INSTANCE_TYPE, MAX_RUNTIME
from compilegate.workload.settled import Arm, Workload


class InfeasibleError(CompilegateError):
    """An arm cannot run."""


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


_KEYS = {"extends_image": "image", "debug_mode": "training_compiler.debug"}
"""The arm's key by the field of `ArmSettings`, where it is not of the same name."""


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
        workload, target=target, bases=bases, region=region, instance_type=instance_type
    )
    refused = [each.sentence for each in found if each.refused]
    if refused:
        raise InfeasibleError(*refused)


def findings(
    workload: Workload,
    *,
    today: datetime.date = NO_DAY,
    region: str | None = None,
    target: Target = Target.SAGEMAKER,
    bases: Bases = NO_BASES,
    instance_type: str | None = None,
    libraries: frozenset[str] = frozenset(),
) -> tuple[ArmFinding, ...]:
    """What the catalog has to say about each arm at that target, and in that region.

    Without a region, whether AWS has an image there is not checked. Anywhere but on SageMaker,
    instances and regions do not matter: only the target's own refusals are reported.
    `instance_type` is that of arms that name none; the schedule's is looked at too.
    `libraries` are what the workload's own program imports.
    """
    scheduled = _scheduled(workload).get(INSTANCE_TYPE)
    given = [instance_type] if instance_type else [None, *([str(scheduled)] if scheduled else [])]
    found: list[ArmFinding] = []
    for name, arm in workload.arms.items():
        base = bases.get(arm.image_folder)
        settings = replace(
            settings_of(workload, arm, base), region=region, target=target, libraries=libraries
        )
        of_arm: list[Finding] = []
        for each in given:
            of_arm += check(replace(settings, instance_type=_instance(workload, arm, each)), today)
        of_arm += _image_findings(workload, arm, base)
        found += [
            ArmFinding(arm=name, key=_key(each, arm), finding=each)
            for each in of_arm
            if target is Target.SAGEMAKER or each.about == "target"
        ]
    found += [each for instance in given for each in _mixed_processors(workload, instance)]
    return tuple(dict.fromkeys(found))


def _mixed_processors(workload: Workload, given: str | None) -> Iterator[ArmFinding]:
    """A candidate on a CPU beside a baseline on a GPU, or the other way round: wherever they run,
    the gate would find the difference that nobody can declare, after all was trained."""
    baseline = _instance(workload, workload.arms[BASELINE_ARM], given)
    for name, arm in workload.arms.items():
        own = _instance(workload, arm, given)
        if {processor_of(own), processor_of(baseline)} == {"cpu", "gpu"}:
            mixed = finding("mixed-processors", own=own, baseline=baseline)
            yield ArmFinding(arm=name, key="instance_type", finding=mixed)


def _instance(workload: Workload, arm: Arm, given: str | None) -> str:
    return arm.instance_type or given or workload.compute.instance_type


def _scheduled(workload: Workload) -> Mapping[str, str | int]:
    """The parameters that the schedule gives each execution."""
    return {} if workload.schedule is None else workload.schedule.parameters.given


def _key(about: Finding, arm: Arm) -> str:
    if about.about == "version" and arm.stack is not None:
        return f"{stack_key(arm.compiler)}.version"
    return _KEYS.get(
        about.about, about.about if about.about in ArmTable.model_fields else "compiler"
    )


def _image_findings(
    workload: Workload, arm: Arm, base: BaseImage | str | None
) -> Iterator[Finding]:
    """What the training program has against the arm's image: that of its stack, which has to be
    the one that its folder extends; without a stack the folder decides alone."""
    stack = arm.known_stack
    if stack is not None:
        yield from workload.kind.stack_findings(stack, as_it_is=arm.image_folder == AWS_IMAGE)
        if isinstance(base, BaseImage) and base.name != stack.image.name:
            yield finding("other-stack", folder=arm.image_folder, image=base, stack=stack)
    elif isinstance(base, BaseImage):
        yield from workload.kind.image_findings(base, about="image")


def settings_of(workload: Workload, arm: Arm, base: BaseImage | str | None) -> ArmSettings:
    """What an arm asks for wherever it runs, in the catalog's words."""
    baseline = workload.arms[BASELINE_ARM]
    stack, options = arm.stack, arm.compiler_options
    declared = workload.compute.max_runtime_seconds
    has_backends = BACKEND in declarations()[arm.compiler].options
    image = base if stack is None and isinstance(base, BaseImage) else None
    framework, version = ("pytorch", None) if image is None else (image.library, image.version)
    return ArmSettings(
        compiler=arm.compiler,
        backend=str(options.get(BACKEND.name, BACKEND.default)) if has_backends else None,
        framework=framework if stack is None else stack.framework,
        version=version if stack is None else stack.version,
        transformers=None if stack is None else stack.transformers,
        image=image,
        instance_type=_instance(workload, arm, None),
        instance_count=arm.instance_count,
        precision=arm.precision,
        distribution=None if arm.distribution == "none" else arm.distribution,
        # Training Compiler's processes are started by the toolkit, or not at all.
        launches_itself=workload.kind.source_folder is not None
        and arm.compiler != "training-compiler",
        processes=arm.processes,
        extends_image=stack is not None and arm.image_folder != AWS_IMAGE,
        profiler=arm.profiler,
        debugger=arm.debugger,
        debug_mode=stack is not None and bool(stack.value(DEBUG)),
        model=workload.kind.model_name,
        limit_seconds=min(declared, int(_scheduled(workload).get(MAX_RUNTIME, declared))),
        examples=arm.global_batch_size,
        learning_rate=arm.learning_rate,
        baseline_examples=None if arm is baseline else baseline.global_batch_size,
        baseline_learning_rate=None if arm is baseline else baseline.learning_rate,
    )
