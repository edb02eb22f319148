"""Enable, benchmark first, or stay off: the judgement of each option for a workload. Pure.

A verdict is confident, `enable` or `stay off`, only where what decides it is known. What is open
leads to `benchmark first`, with the question that would settle it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from compilegate.advice.considering import consider
from compilegate.advice.effects import (
    Basis,
    Expectation,
    MemoryPrior,
    Prediction,
    expected,
    in_half,
    memory_prior,
    predictions,
)
from compilegate.advice.known.experience import Experience, latest
from compilegate.advice.known.facts import Fact, Facts, Obstacle, known
from compilegate.advice.outcome import Outcome, outcome_of
from compilegate.advice.ranges import NOTHING, Range
from compilegate.advice.rules import STATUS_QUO, Option, rules
from compilegate.advice.stances import Considered, Stance, considered


class Verdict(StrEnum):
    """What to do."""

    ENABLE = "enable"
    BENCHMARK = "benchmark first"
    OFF = "stay off"
    REFERENCE = "reference"
    """No change alone is that: all others are held against it."""


ORDER = {Verdict.ENABLE: 0, Verdict.BENCHMARK: 1, Verdict.OFF: 2}
"""The verdicts on what would be a change."""


@dataclass(frozen=True, kw_only=True)
class OptionAdvice:
    """One option for one workload."""

    name: str
    title: str
    verdict: Verdict
    reason: str
    """What decided, without a full stop."""
    in_use: bool
    """Whether the workload has it already."""
    considerations: tuple[Considered, ...]
    """The weightiest first."""
    outcome: Outcome | None
    """None: it cannot be taken, or nothing is known of what it would do."""
    basis: Basis | None
    basis_sentence: str
    on: str | None
    """The instances that it would run on, where they are others."""
    source: str
    compile_seconds: Range | None
    memory: str | None
    """What is known of the memory it takes."""
    obstacles: tuple[Obstacle, ...]
    """What stands in its way in the workload's script, the gravest first."""
    predictions: tuple[Prediction, ...]
    """What the priors said and executions measured."""

    @property
    def missing(self) -> tuple[Considered, ...]:
        """The considerations that are open."""
        return tuple(each for each in self.considerations if each.stance is Stance.OPEN)


@dataclass(frozen=True, kw_only=True)
class Advice:
    """All options for one workload, on one scale: the most that is saved in a year first."""

    facts: Facts
    options: tuple[OptionAdvice, ...]

    @cached_property
    def best(self) -> OptionAdvice | None:
        """The option that is worth the next step; None where all stay off."""
        to_do = [
            each
            for each in self.options
            if each.verdict is not Verdict.OFF and not each.in_use and each.name != STATUS_QUO
        ]
        return min(to_do, key=_next_step, default=None)

    @property
    def missing(self) -> tuple[Considered, ...]:
        """Every question that is open for an option that is not off, once, the weightiest first."""
        found = {
            each.name: each
            for option in self.options
            if option.verdict is not Verdict.OFF
            for each in option.missing
        }
        found |= {each.name: each for each in _details(self)}
        return tuple(sorted(found.values(), key=lambda each: each.rank))

    def option(self, name: str) -> OptionAdvice:
        """The option of that name. Raises KeyError."""
        for each in self.options:
            if each.name == name:
                return each
        raise KeyError(name)


def advise(facts: Facts, experiences: Sequence[Experience] = ()) -> Advice:
    """The advice for a workload, by what is known of it and what executions measured."""
    facts = _with_measured_hours(facts, experiences)
    judged = [_judge(facts, option, experiences) for option in rules().options]
    others = [each for each in judged if each.name != STATUS_QUO]
    quo = [_status_quo(each, others) for each in judged if each.name == STATUS_QUO]
    return Advice(facts=facts, options=tuple(sorted([*others, *quo], key=scale)))


def _details(advice: Advice) -> list[Considered]:
    """What is not known and decides nothing alone, where an option would be told better by it."""
    facts = advice.facts
    asked = [each for each in advice.options if each.verdict in (Verdict.ENABLE, Verdict.BENCHMARK)]
    measured = [each.outcome.benchmark for each in asked if each.outcome is not None]
    fact_of: dict[str, tuple[Fact[int] | Fact[bool], bool]] = {
        "epochs": (facts.epochs, any(each.trainings for each in measured)),
        "resumes": (facts.resumes, any(each.name == "spot" for each in asked)),
    }
    return [
        considered(detail, Stance.OPEN, fact.source, fact.standing)
        for detail in rules().details
        for fact, wanted in [fact_of[detail.name]]
        if wanted and fact.value is None
    ]


def scale(option: OptionAdvice) -> tuple[float, float, float, float]:
    """The one scale: dollars a year, else dollars a run, else the share of a run; by the low end of
    the range first, since a wide range is no merit, then by the high end.

    What stays off comes after what does not, and what cannot be taken last. No change is zero.
    """
    outcome = option.outcome
    if outcome is None:
        return (3, 0, 0.0, 0.0) if option.verdict is Verdict.OFF else (1, 0, 0.0, 0.0)
    group = 2 if option.verdict is Verdict.OFF and option.name != STATUS_QUO else 0
    amounts = (outcome.saved_usd_per_year, outcome.saved_usd, outcome.saved_share)
    unit, amount = next((unit, each) for unit, each in enumerate(amounts) if each is not None)
    return group, unit, -amount.low, -amount.high


def _next_step(option: OptionAdvice) -> tuple[float, ...]:
    """Compilers of which something was published or measured, those with the least against them,
    then the scale; of two that promise as little at worst, the one that is tried faster."""
    group, unit, low, high = scale(option)
    compiles = rules().option(option.name).kind == "compiler"
    guessed = not compiles or option.basis in (None, Basis.ASSUMED)
    hours = 0.0 if option.outcome is None else option.outcome.benchmark.engineer_hours.low
    against = sum(each.stance is Stance.AGAINST for each in option.considerations)
    return ORDER[option.verdict], guessed, group, against, unit, low, hours, high


def _with_measured_hours(facts: Facts, experiences: Sequence[Experience]) -> Facts:
    """The length of a run by its own executions, where nobody has declared it."""
    if facts.hours.value is not None:
        return facts
    newest = latest(
        [
            each
            for each in experiences
            if each.workload == facts.workload and each.ran_on(facts) and each.baseline_hours
        ]
    )
    if newest is None or not newest.baseline_hours:
        return facts
    hours = known(
        Range.exactly(newest.baseline_hours),
        f"execution {newest.execution} took that long on {newest.machine}",
    )
    return replace(facts, hours=hours)


def _judge(facts: Facts, option: Option, experiences: Sequence[Experience]) -> OptionAdvice:
    own = latest(
        [
            each
            for each in experiences
            if each.option == option.name and each.workload == facts.workload and each.ran_on(facts)
        ]
    )
    expectation = expected(facts, option, experiences)
    outcome = None
    if expectation is not None:
        outcome = outcome_of(
            facts,
            expectation.effect,
            trainings=_trainings(option, own),
            engineer_hours=NOTHING if own is not None else option.engineer_hours,
        )
    considerations = consider(facts, option, outcome)
    stopped = next((each for each in considerations if each.stance is Stance.STOPS), None)
    in_use = _in_use(facts, option)
    if in_use:
        verdict, reason = Verdict.ENABLE, "it is in use"
        outcome = None
    elif own is not None:
        verdict, reason = _by_evidence(own, outcome)
    elif stopped is not None:
        verdict, reason = Verdict.OFF, stopped.sentence
        if stopped.name == "fit":
            outcome = None
    else:
        verdict, reason = _by_priors(option, considerations, expectation)
    return OptionAdvice(
        name=option.name,
        title=option.title,
        verdict=verdict,
        reason=reason,
        in_use=in_use,
        considerations=considerations,
        outcome=outcome,
        basis=None if expectation is None or outcome is None else expectation.basis,
        basis_sentence="" if expectation is None else expectation.sentence,
        on=None if expectation is None else expectation.on,
        source=option.source,
        compile_seconds=_compile_seconds(option, expectation),
        memory=_memory(facts, option, own),
        obstacles=facts.obstacles_of(option.compiler) if option.kind == "compiler" else (),
        predictions=predictions(facts, option, experiences),
    )


def _trainings(option: Option, own: Experience | None) -> int:
    """How many trainings a benchmark takes."""
    if own is not None or option.kind == "none":
        return 0
    return 3 if option.kind == "compiler" else 2


def _in_use(facts: Facts, option: Option) -> bool:
    return (
        (option.name == "spot" and facts.spot)
        or (option.kind == "precision" and in_half(facts))
        or (option.name == "tree-method" and facts.tree_method in ("hist", "gpu_hist"))
    )


def _by_evidence(own: Experience, outcome: Outcome | None) -> tuple[Verdict, str]:
    """The article's thresholds, on the interval that the gate found."""
    limit, speedup = rules().thresholds, own.speedup
    said = f"execution {own.execution} measured {speedup.low:.2f} to {speedup.high:.2f} times"
    if own.regression is not None:
        return Verdict.OFF, f"{said}, and the model got worse: {own.regression.rstrip('.')}"
    if outcome is not None and outcome.saved_hours is not None and outcome.saved_hours.high <= 0:
        return Verdict.OFF, f"{said}, which compiling takes back"
    if speedup.high < limit.off_speedup:
        return Verdict.OFF, f"{said}, less than the {limit.off_speedup:.2f} that is worth keeping"
    gains = outcome is None or outcome.saved_hours is None or outcome.saved_hours.low > 0
    if own.outcome == "pass" and speedup.low >= limit.enable_speedup and gains:
        return Verdict.ENABLE, f"{said}, and the gate passed it"
    if own.outcome != "pass":
        return Verdict.BENCHMARK, f"{said}, and the gate said {own.outcome}"
    return (
        Verdict.BENCHMARK,
        f"{said}: borderline, from {limit.off_speedup:g} to {limit.enable_speedup:g}",
    )


def _by_priors(
    option: Option, considerations: Sequence[Considered], expectation: Expectation | None
) -> tuple[Verdict, str]:
    """Published figures enable only what fits in every respect, and what AWS itself tested."""
    opened = [each for each in considerations if each.stance is Stance.OPEN]
    against = [each for each in considerations if each.stance is Stance.AGAINST]
    if opened:
        more = f", and {len(opened) - 1} more open" if len(opened) > 1 else ""
        return Verdict.BENCHMARK, f"open: {opened[0].sentence}{more}"
    if against:
        return Verdict.BENCHMARK, against[0].sentence
    if expectation is None:
        return Verdict.BENCHMARK, "nothing was published of what it would do here"
    if expectation.basis in (Basis.SIMILAR, Basis.ELSEWHERE):
        return Verdict.BENCHMARK, f"it fits, and what is known was {expectation.basis}"
    if option.name == "training-compiler":
        return (
            Verdict.ENABLE,
            "it fits in every respect, and AWS tested the model; let the gate measure it",
        )
    return Verdict.BENCHMARK, "it fits, and what it gains is for a measurement to say"


def _status_quo(quo: OptionAdvice, others: Sequence[OptionAdvice]) -> OptionAdvice:
    """No change needs no benchmark: it is the zero that all others are held against, and what stays
    where none of them is worth a look."""
    to_do = [each for each in others if each.verdict is not Verdict.OFF and not each.in_use]
    reason = "all other options are held against it"
    if not to_do:
        reason = f"{reason}, and none is worth a benchmark"
    return replace(
        quo, verdict=Verdict.REFERENCE, reason=reason, basis=None, basis_sentence="", source=""
    )


def _compile_seconds(option: Option, expectation: Expectation | None) -> Range | None:
    if option.kind != "compiler" or expectation is None:
        return None
    return expectation.effect.compile_seconds


def _memory(facts: Facts, option: Option, own: Experience | None) -> str | None:
    if own is not None and own.memory_increase is not None:
        return f"measured: {own.memory_increase:+.0%} at its peak"
    if option.name != "training-compiler":
        return None
    prior = memory_prior(facts)
    return None if prior is None else memory_sentence(prior)


def memory_sentence(prior: MemoryPrior) -> str:
    """The prior in words."""
    return (
        f"published: the largest batch was {prior.ratio.low:.2f} to {prior.ratio.high:.2f} times "
        f"as large in {prior.tests} of AWS's tests of {prior.of}"
    )
