"""What finished executions measured: evidence that takes the place of published figures. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compilegate.advice.ranges import Range
from compilegate.job.names import BASELINE_ARM

if TYPE_CHECKING:
    from compilegate.advice.known.facts import Facts
    from compilegate.gate.observations import ArmObservation, Observations
    from compilegate.gate.verdict import ArmCost, CandidateVerdict, Verdict

_OPTION_OF = {
    "inductor": "torch-compile",
    "training-compiler": "training-compiler",
    "neuron": "neuron",
}
_OPTION_OF_BACKEND = {
    "inductor": "torch-compile",
    "cudagraphs": "cuda-graphs",
    "neuron": "neuron",
}
LEAST, MOST = 0.001, 1000.0
"""A speed-up beyond these is a slip of a clock, and so is a run of fewer hours."""
QUALITY_CODES = ("quality.", "parity.differs")
"""How the codes of reasons begin that are about the model, not about speed."""


@dataclass(frozen=True, kw_only=True)
class Experience:
    """What one execution measured of one candidate."""

    execution: str
    started: float
    workload: str
    arm: str
    option: str
    """The option of the rules that the candidate is."""
    outcome: str
    """`pass`, `fail` or `inconclusive`, as the gate said."""
    regression: str | None
    """Why the model is not as good; None where the gate found no such reason."""
    speedup: Range
    """The interval of the gate, at its confidence: steps of the candidate against the baseline."""
    compile_seconds: Range | None
    """From a warm compile cache to a cold one; None where jobs only printed their speed."""
    memory_increase: float | None
    """The candidate's peak over the baseline's, minus one."""
    same_batch: bool
    precision: str | None
    instance_type: str | None
    """None: it ran on no rented instance."""
    accelerator: str | None
    """None: on a CPU."""
    family: str | None = None
    shapes: str | None = None
    baseline_hours: float | None = None
    """One training job of the baseline, on that machine."""
    gate_hours: float | None = None
    """What the comparison took, beyond one job of the baseline."""
    gate_usd: float | None = None

    @property
    def machine(self) -> str:
        """Where it ran, in words."""
        return self.instance_type or self.accelerator or "a CPU"

    def ran_on(self, facts: Facts) -> bool:
        """Whether its machine is the one that the workload trains on."""
        if self.instance_type is not None:
            return self.instance_type == facts.instance_type
        if self.accelerator is None:
            return facts.processor == "cpu" and facts.instance_type is None
        return facts.accelerator is not None and facts.accelerator in self.accelerator.split()

    def resembles(self, facts: Facts) -> bool:
        """Whether family, shapes, precision and machine are those of the workload."""
        return (
            self.ran_on(facts)
            and self.family is not None
            and self.family == facts.family.value
            and self.shapes is not None
            and self.shapes == facts.shapes.value
            and self.precision == facts.precision.value
        )


def experiences_of(
    execution: str,
    started: float,
    verdict: Verdict,
    observations: Observations,
    facts: Facts | None,
) -> tuple[Experience, ...]:
    """What a verdict and its observations say of each candidate whose speed was measured. `facts`
    are those of its workload; None where it is not declared any longer."""
    arms = {each.arm: each for each in observations.arms}
    return tuple(_experiences(execution, started, verdict, arms, facts))


def _experiences(
    execution: str,
    started: float,
    verdict: Verdict,
    arms: Mapping[str, ArmObservation],
    facts: Facts | None,
) -> Iterator[Experience]:
    baseline = arms.get(verdict.baseline.arm)
    costs = {} if verdict.cost is None else {each.arm: each for each in verdict.cost.arms}
    for candidate in verdict.candidates:
        arm, speed = arms.get(candidate.arm), candidate.speed
        option = None if arm is None else _option(arm, baseline)
        if arm is None or speed is None or option is None:
            continue
        if not LEAST <= speed.speedup.lower <= speed.speedup.upper <= MOST:
            continue
        run = speed.run
        seconds = [] if run is None else [run.candidate_compile_seconds]
        if run is not None:
            seconds += [each.seconds for each in (run.compile_cold, run.compile_warm) if each]
        yield Experience(
            execution=execution,
            started=started,
            workload=verdict.workload,
            arm=candidate.arm,
            option=option,
            outcome=str(candidate.outcome),
            regression=_regression(candidate),
            speedup=Range(speed.speedup.lower, speed.speedup.upper),
            compile_seconds=Range(max(min(seconds), 0.0), max(*seconds, 0.0)) if seconds else None,
            memory_increase=None if candidate.memory is None else candidate.memory.increase,
            same_batch=baseline is not None and arm.batch_size == baseline.batch_size,
            precision=arm.precision,
            instance_type=_text(arm.environment.get("instance_type")),
            accelerator=_accelerator(arm),
            family=None if facts is None else facts.family.value,
            shapes=None if facts is None else facts.shapes.value,
            baseline_hours=_hours(costs.get(BASELINE_ARM)),
            gate_hours=None if verdict.cost is None else verdict.cost.gate.seconds / 3600,
            gate_usd=None if verdict.cost is None else verdict.cost.gate.usd,
        )


def _option(arm: ArmObservation, baseline: ArmObservation | None) -> str | None:
    return option_of(
        arm.compiler,
        backend=arm.proof.get("backend"),
        precision=arm.precision,
        before=None if baseline is None else baseline.precision,
    )


def option_of(
    compiler: str | None, *, backend: object, precision: str | None, before: str | None
) -> str | None:
    """Which option an arm is; `before` is the baseline's precision. None for one that the rules do
    not have."""
    if compiler == "torch-compile":
        return _OPTION_OF_BACKEND.get(_text(backend) or "inductor")
    if compiler == "eager":
        return "bf16" if precision in {"bf16", "fp16"} and before == "fp32" else None
    return _OPTION_OF.get(compiler or "")


def _regression(candidate: CandidateVerdict) -> str | None:
    """The gravest reason for a refusal that is about the model itself."""
    for reason in candidate.reasons:
        if str(reason.outcome) == "fail" and str(reason.code).startswith(QUALITY_CODES):
            return reason.sentence
    return None


def _accelerator(arm: ArmObservation) -> str | None:
    """The accelerator that jobs had; a described one was not there."""
    name = _text(arm.environment.get("accelerator"))
    return None if _text(arm.environment.get("described")) else name


def _text(value: object) -> str | None:
    return None if value in (None, "", "None", "none") else str(value)


def _hours(cost: ArmCost | None) -> float | None:
    hours = 0.0 if cost is None else cost.training.seconds / 3600
    return hours if hours >= LEAST / 100 else None


def latest(experiences: Sequence[Experience]) -> Experience | None:
    """The best candidate of the newest execution: one that passed, then the surest gain."""
    if not experiences:
        return None
    newest = max(each.started for each in experiences)
    of_newest = [each for each in experiences if each.started == newest]
    return max(of_newest, key=lambda each: (each.outcome == "pass", each.speedup.low))
