"""A settled workload: everything that executions need is known. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from compilegate.job.compilers import declarations
from compilegate.job.names import BASELINE_ARM, EVALUATION_PLACES
from compilegate.workload.arms import Arm
from compilegate.workload.declared.compute import Compute
from compilegate.workload.declared.data import Data
from compilegate.workload.declared.file import Cache, CompileCache, Registry
from compilegate.workload.declared.gate import Gate
from compilegate.workload.declared.known.advice import Advice
from compilegate.workload.declared.known.budget import Budget
from compilegate.workload.declared.starts import NewData, Posture, Schedule
from compilegate.workload.errors import WorkloadError
from compilegate.workload.kinds import OwnProgram, TextClassification
from compilegate.workload.serving import Served


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One model that is trained again and again."""

    name: str
    description: str
    seeds: tuple[int, ...]
    """The replicates of every arm. The first is the one whose model is released."""
    data: Data
    kind: TextClassification | OwnProgram
    arms: Mapping[str, Arm]
    """The baseline, and the candidates that are compared with it, if any."""
    left_out: tuple[str, ...] = ()
    """Arms that the file declares and this workload goes without."""
    gate: Gate
    compute: Compute
    registry: Registry
    cache: Cache
    compile_cache: CompileCache
    schedule: Schedule | None
    new_data: NewData | None
    advice: Advice = field(default_factory=Advice)
    """What only people know of it."""
    budget: Budget | None = None
    """None where nothing limits what executions cost."""
    posture: Posture | None = None
    """None where every execution trains all arms."""
    serving: Served | None = None
    """None where the file does not say how its models are served."""

    @property
    def candidates(self) -> dict[str, Arm]:
        """The arms that are compared with the baseline, in the order they were declared."""
        return {name: arm for name, arm in self.arms.items() if name != BASELINE_ARM}

    @property
    def model_package_group(self) -> str:
        return self.registry.group or self.name

    def keeps_compiled(self, setup: Arm) -> bool:
        """Whether what an arm's jobs compile is kept for the next one."""
        return (
            self.kind.calls_compiler
            and self.compile_cache.enabled
            and declarations()[setup.compiler].keeps_output(setup.compiler_options)
        )

    @property
    def evaluates_on(self) -> str:
        """Where all its jobs evaluate their models: on the host, once an arm's compiler keeps the
        accelerator to itself."""
        kept = any(declarations()[arm.compiler].keeps_accelerator for arm in self.arms.values())
        return EVALUATION_PLACES[1 if kept else 0]

    def with_arms(self, names: Sequence[str]) -> Workload:
        """The workload with these arms only, in the order that it declares them.

        It knows which arms it leaves out, so that nobody takes the rest for the whole. Raises
        WorkloadError for an arm that is not declared, and without the baseline.
        """
        unknown = [name for name in names if name not in self.arms]
        if unknown:
            raise WorkloadError(
                f"arms: {unknown[0]!r} is not declared, allowed: {', '.join(self.arms)}"
            )
        kept = {name: arm for name, arm in self.arms.items() if name in names}
        if BASELINE_ARM not in kept:
            raise WorkloadError(
                f"arms: found {', '.join(kept) or 'none'}, "
                f"allowed: {BASELINE_ARM}, and any candidates beside it"
            )
        return replace(
            self, arms=kept, left_out=tuple(name for name in self.arms if name not in kept)
        )
