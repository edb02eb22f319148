"""Enable, benchmark first, or stay off: the seven considerations and the judgement of each option;
and the order in which options and workloads are worth being worked through. Pure.

A verdict is confident, `enable` or `stay off`, only where what decides it is known; what is open
leads to `benchmark first`, with the question that would settle it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from compilegate.advice.effects import (
    Basis,
    Outcome,
    chance_of,
    expected,
    findings,
    next_instance,
    outcome_of,
    own_experience,
    tested_row,
)
from compilegate.advice.facts import HALF, PART_OF, WITHOUT_A_GRAPH, Experience, Facts
from compilegate.advice.rules import NOTHING, Consideration, Option, Range, rules
from compilegate.catalog.compilers import compilers, library_obstacle


class Verdict(StrEnum):
    """What to do, the surest first; no change alone is the reference of all others."""

    ENABLE = "enable"
    BENCHMARK = "benchmark first"
    OFF = "stay off"
    REFERENCE = "reference"


class Stance(StrEnum):
    FOR = "for"
    AGAINST = "against"
    STOPS = "stops"
    OPEN = "open"
    NEUTRAL = "does not matter"


@dataclass(frozen=True)
class Argument:
    """One consideration's judgement of one option, and whether the fact behind it is known."""

    stance: Stance
    sentence: str
    known: bool = True
    remedy: str = ""  # what would change it, as far as the catalog says
    of: str = ""


@dataclass(frozen=True, kw_only=True)
class OptionAdvice:
    """One option for one workload, and what decided; the weightiest consideration first."""

    rule: Option
    verdict: Verdict
    reason: str
    in_use: bool
    considerations: tuple[Argument, ...]
    outcome: Outcome | None  # the outcome; None when the option is impossible or its effect unknown
    own: Experience | None  # what the workload's newest execution measured of it
    chance: float | None
    """How likely it is as much faster as is worth keeping; None where nothing was measured."""

    @property
    def name(self) -> str:
        return self.rule.name

    def first(self, *stances: Stance) -> Argument | None:
        """The weightiest consideration of the first of these stances that there is."""
        found = (it for stance in stances for it in self.considerations if it.stance is stance)
        return next(found, None)


@dataclass(frozen=True, kw_only=True)
class Advice:
    """All options for one workload, what is worth the next step first."""

    facts: Facts
    options: tuple[OptionAdvice, ...]

    @property
    def to_do(self) -> list[OptionAdvice]:
        """What would be a change and does not stay off."""
        open_to = (Verdict.ENABLE, Verdict.BENCHMARK)
        return [each for each in self.options if each.verdict in open_to and not each.in_use]

    @property
    def best(self) -> OptionAdvice | None:
        """The option that is worth the next step; None where all stay off."""
        return next(iter(self.to_do), None)

    @property
    def compiler(self) -> OptionAdvice:
        """The compiler that is worth the next step; where all stay off, one of the file's arms, or
        the one that runs on most machines."""
        found, arms = [it for it in self.options if it.rule.kind == "compiler"], self.facts.arms
        off = sorted(found, key=lambda it: (it.name not in arms, it.name != "torch-compile"))
        return next((it for it in found if it.verdict is not Verdict.OFF), off[0])

    @property
    def missing(self) -> list[Consideration]:
        """Every question that is open for an option that is not off, the weightiest first."""
        worth = [each for each in self.options if each.verdict is not Verdict.OFF]
        opened = {it.of for each in worth for it in each.considerations if it.stance is Stance.OPEN}
        return [each for each in rules().considerations if each.name in opened]

    def option(self, name: str) -> OptionAdvice:
        return next(each for each in self.options if each.name == name)

    def saved(self, *, first_year: bool = False) -> Range | None:
        """What the next step saves in a year, or in the first, after its benchmark."""
        if self.best is None:
            return NOTHING
        found = self.best.outcome
        year, first = (found.saved_usd_per_year, found.first_year_usd) if found else (None, None)
        return first if first_year else year


def advise(facts: Facts, experiences: Iterable[Experience] = ()) -> Advice:
    """The advice for a workload, by what is known of it and what executions measured."""
    measured = list(experiences)
    judged = [_judge(facts, option, measured) for option in rules().options]
    return Advice(facts=facts, options=tuple(sorted(judged, key=rank)))


def in_order(advices: Iterable[Advice]) -> list[Advice]:
    """What is known to be worth most in its first year first, then what is not known, then what
    stays as it is."""

    def order(each: Advice) -> tuple[float, float, str]:
        worth, best = each.saved(first_year=True), each.best
        if best is None or worth is None or best.outcome is None:
            return 2 if best is None else 1, 0.0, each.facts.workload
        # What a benchmark shows to be of no use stays off: the benchmark is all that is lost.
        spent = best.outcome.benchmark_usd or NOTHING
        return 0, -max(worth.low, -spent.high) - worth.high, each.facts.workload

    return sorted(advices, key=order)


def rank(option: OptionAdvice) -> tuple[float, ...]:
    """Options by verdict; then compilers with published or measured figures, the
    maintained first, and those with the least against them; then what is saved at worst, in
    dollars a year, else a run, else its share; of two that promise as little, the one that is
    tried faster."""
    outcome, unit, amount = option.outcome, 0, NOTHING
    guessed = option.rule.kind != "compiler" or outcome is None
    if outcome is not None:
        guessed = guessed or outcome.effect.basis is Basis.ASSUMED
        amounts = (outcome.saved_usd_per_year, outcome.saved_usd, outcome.saved_share)
        unit, amount = next((unit, each) for unit, each in enumerate(amounts) if each is not None)
    against = sum(each.stance is Stance.AGAINST for each in option.considerations)
    sure = list(Verdict).index(option.verdict)
    ended = compilers()[option.rule.compiler or "eager"].maintained.status == "ended"
    before = (sure, guessed, outcome is None, ended, against, unit)
    return *before, -amount.low, option.rule.engineer_hours, -amount.high


def _judge(facts: Facts, option: Option, experiences: Sequence[Experience]) -> OptionAdvice:
    own = own_experience(facts, option.name, experiences)
    effect, outcome = expected(facts, option, experiences), None
    in_use, to_benchmark = option.name in facts.in_use, own is None and option.kind != "none"
    if effect is not None and not in_use:
        arms = facts.arms.get(option.name, 1) if to_benchmark else 0
        hours = option.engineer_hours if to_benchmark else 0.0
        outcome = outcome_of(facts, effect, arms=arms, engineer_hours=hours)
    considerations = consider(facts, option, outcome)
    stops = next((each for each in considerations if each.stance is Stance.STOPS), None)
    if option.kind == "none":
        verdict, reason = Verdict.REFERENCE, "all other options are held against it"
    elif in_use:
        verdict, reason = Verdict.ENABLE, "it is in use"
    elif own is not None:
        verdict, reason = _by_evidence(own, outcome)
    elif stops is not None:
        verdict, reason = Verdict.OFF, stops.sentence
        outcome = None if stops.of == "fit" else outcome
    else:
        verdict, reason = _by_priors(option, considerations, outcome)
    return OptionAdvice(
        rule=option,
        verdict=verdict,
        reason=reason,
        in_use=in_use,
        considerations=considerations,
        outcome=outcome,
        own=own,
        chance=None if own is None else chance_of(own, rules().thresholds["off_speedup"]),
    )


def _by_evidence(own: Experience, outcome: Outcome | None) -> tuple[Verdict, str]:
    """The article's thresholds, on the interval that the gate found."""
    limit, speedup = rules().thresholds, own.speedup
    off, enable = limit["off_speedup"], limit["enable_speedup"]
    saved = None if outcome is None else outcome.saved_hours
    if own.regression is not None:
        verdict, why = Verdict.OFF, f"and the model got worse: {own.regression.rstrip('.')}"
    elif saved is not None and saved.high <= 0:
        verdict, why = Verdict.OFF, "and compiling takes longer than that saves"
    elif speedup.high < off:
        verdict, why = Verdict.OFF, f"less than the {off:.2f} that is worth keeping"
    elif own.outcome != "pass":
        verdict, why = Verdict.BENCHMARK, f"and the gate's verdict was {own.outcome}"
    elif speedup.low >= enable and (saved is None or saved.low > 0):
        verdict, why = Verdict.ENABLE, "and the gate passed it"
    else:
        verdict = Verdict.BENCHMARK
        why = f"borderline: {off:.2f} to {enable:.2f}, or too short a run"
    ends = f"{speedup.low:.2f} to {speedup.high:.2f} times"
    return verdict, f"execution {own.execution} measured {ends}, {why}"


def _by_priors(
    option: Option, considerations: Sequence[Argument], outcome: Outcome | None
) -> tuple[Verdict, str]:
    """Published figures enable only what fits in every respect, and what AWS itself tested."""
    opened = [each for each in considerations if each.stance is Stance.OPEN]
    against = [each.sentence for each in considerations if each.stance is Stance.AGAINST]
    verdict, why = Verdict.BENCHMARK, "it fits, and what it gains is for a measurement to say"
    if opened:
        rest = len(opened) - 1
        more = f"; {rest} more question{' is' if rest == 1 else 's are'} open" if rest else ""
        why = f"open: {opened[0].sentence}{more}"
    elif against or outcome is None:
        why = next(iter(against), "nothing was published of it")
    elif outcome.effect.basis in (Basis.SIMILAR, Basis.OTHER_CONDITIONS):
        why = "it fits, and was measured, but not of this on this machine"
    elif option.name == "training-compiler":
        verdict, why = Verdict.ENABLE, "it fits in every respect, and AWS tested the model"
    return verdict, why


# The seven considerations.


def consider(facts: Facts, option: Option, outcome: Outcome | None) -> tuple[Argument, ...]:
    """All seven, the weightiest first. `outcome` is None where nothing is known of its effect. What
    is not known stops nothing and proves nothing."""
    found = []
    for each in rules().considerations:
        judge = _JUDGES[each.name]
        argument = judge(facts, option, outcome) if option.kind in each.kinds else NOT_HERE
        if not argument.known and argument.stance in (Stance.FOR, Stance.STOPS):
            argument = replace(argument, stance=Stance.OPEN)
        if option.kind == "compiler" and argument.stance is not Stance.STOPS:
            argument = _with_the_script(argument, facts, option, each)
        found.append(replace(argument, of=each.name))
    return tuple(found)


def _with_the_script(
    argument: Argument, facts: Facts, option: Option, which: Consideration
) -> Argument:
    """The argument with what the check found in the workload's script that bears on it. A finding
    stops nothing, since it can be fixed; but nothing is enabled before it is."""
    obstacles = facts.obstacles_of(option.compiler)
    found = [it.sentence for it in obstacles if it.rule in which.rules and it.severity != "note"]
    if not found:
        return argument
    what = f"{found[0]}{f', and {len(found) - 1} more of the kind' if len(found) > 1 else ''}"
    if argument.stance is Stance.OPEN:
        return replace(argument, sentence=f"{argument.sentence}; the script has {what}")
    remedy = "a script without it: `compilegate check` has the remedy"
    return Argument(Stance.AGAINST, f"mend the script first: {what}", argument.known, remedy)


MOST_RUNS_A_YEAR = 5 * 365
"""Nobody is expected to train more often."""
NOT_HERE = Argument(Stance.NEUTRAL, "")
"""The consideration does not matter for the option."""


def _bottleneck(facts: Facts, option: Option, _: Outcome | None) -> Argument:
    bound, parts = facts.bottleneck, facts.parts
    if bound.value is None or not option.attacks:
        return Argument(Stance.OPEN, bound.source, known=False) if option.attacks else NOT_HERE
    part = f"the bottleneck is {rules().parts[bound.value]}"
    if PART_OF.get(bound.value, bound.value) in option.attacks:
        return Argument(Stance.FOR, f"{part}, which it makes faster", bound.known)
    share = parts["data"].low + parts["communication"].low
    least = f" ({share:.0%} or more of a step)" if share else ""
    return Argument(Stance.STOPS, f"{part}{least}, which this leaves as it is", bound.known)


def _fit(facts: Facts, option: Option, _: Outcome | None) -> Argument:
    """What stops an option on this framework and instance; then how well it suits the model."""
    framework = facts.framework
    if option.kind == "trees":
        fits = framework.value in (None, "xgboost")
        why = framework.source if fits else f"the workload is {framework.value}"
        return Argument(Stance.FOR if fits else Stance.STOPS, why, framework.known)
    if framework.value in WITHOUT_A_GRAPH and option.compiler is None:
        serves = f"it serves neural networks, and the workload is {framework.value}"
        return Argument(Stance.STOPS, serves, framework.known)
    against = findings(facts, option)
    for each in against.values():
        if each.severity == "refusal":
            known = framework.known or each.code not in ("no-graph", "framework")
            return Argument(Stance.STOPS, each.reason, known, each.remedy)
    if (why := _of_no_use(facts, option)) is not None:
        return Argument(Stance.STOPS, why)
    end = against.get("compiler-ends")
    if end is not None and option.instance_type is not None:
        return Argument(
            Stance.AGAINST, f"it is another machine, and {end.reason}", remedy=end.remedy
        )
    return _fit_of_model(facts, option)


def _of_no_use(facts: Facts, option: Option) -> str | None:
    if option.kind == "machine":
        name, why_not = next_instance(facts)
        return why_not if name is None else None
    if option.attacks == ("communication",) and facts.instances == 1:
        return "it serves several instances, and there is one"
    name, here = facts.framework.value, facts.instance_type
    return option.never or (option.library and library_obstacle(option.library, name, here))


def _fit_of_model(facts: Facts, option: Option) -> Argument:
    framework, family = facts.framework, facts.family
    by_model = option.kind == "compiler" or option.families
    if framework.value is None or not by_model:
        return Argument(Stance.FOR, framework.source, framework.known)
    if family.value is None:
        return Argument(Stance.OPEN, family.source, family.known)
    outside = bool(option.families) and family.value not in option.families
    if option.name == "training-compiler":
        tested = "AWS's FAQ names" if tested_row(facts) is None else "AWS tested"
        if untested := findings(facts, option).get("untested-model"):
            slower = f"{untested.reason}, so it may be slower"
            return Argument(Stance.AGAINST, slower, remedy=untested.remedy)
        none = f", but published no speed of {family.value} models" * outside
        stance = Stance.AGAINST if outside else Stance.FOR
        return Argument(
            stance, f"{tested} {facts.settings.model}{none}", outside or framework.known
        )
    if outside:
        serves = " and ".join(option.families)
        return Argument(
            Stance.STOPS, f"it serves {serves} models, not {family.value}", family.known
        )
    fits = family.value == "transformer"
    why = f"{framework.source}; " if fits else f"gains of {family.value} models vary: "
    stance = Stance.FOR if fits else Stance.AGAINST
    return Argument(stance, why + family.source, framework.known or not fits)


def _shapes(facts: Facts, option: Option, _: Outcome | None) -> Argument:
    shapes, stance = facts.shapes, Stance.AGAINST
    why = {
        "static": "every step has the same shapes: ",
        "few": "a few shapes, of which each is compiled once: ",
        "varying": "shapes vary, so that it compiles again or runs slower: ",
    }.get(shapes.value or "", "")
    if shapes.value == "varying" and option.static_only:
        stance, why = Stance.STOPS, "it needs static shapes, and they vary: "
    elif shapes.value in ("static", None):
        stance = Stance.FOR
    return Argument(stance, why + shapes.source, shapes.known)


def _amortisation(facts: Facts, option: Option, outcome: Outcome | None) -> Argument:
    compiling = compilers()[option.compiler or "eager"].compiling
    minutes = rules().thresholds["compiler_minutes"]
    minutes = minutes if compiling is None else compiling.repaid_seconds / 60
    hours, most, known = facts.hours.value, facts.settings.limit_seconds, facts.hours.known
    if hours is None and most is not None and most / 60 < minutes:
        hours, known = Range(0.0, most / 3600), True
    if hours is None:
        return Argument(Stance.OPEN, facts.hours.source, known)
    stance, why = Stance.FOR, ": compiling is a small part of it"
    saved = None if outcome is None else outcome.saved_hours
    by_others = outcome is not None and outcome.effect.basis is Basis.SIMILAR
    if saved is not None and saved.high <= 0:
        stance, why = Stance.STOPS, ", and would take longer by all that is known"
    elif saved is not None and by_others:
        stance = Stance.FOR if saved.low > 0 else Stance.AGAINST
        why = f", of which compiling as others measured it leaves {words_of_hours(saved)} saved"
    elif hours.high * 60 < minutes:
        # What another machine took leaves bounds that are generous enough to be sure.
        stance, why, known = (
            Stance.STOPS,
            f", and {minutes:g} minutes or more repay compiling",
            True,
        )
    elif hours.low * 60 < minutes:
        stance, why = Stance.AGAINST, f", around the {minutes:g} minutes that repay compiling"
    return Argument(stance, f"a run takes {words_of_hours(hours)}{why}", known)


def words_of_hours(hours: Range) -> str:
    """A length of a run, in the unit that suits it."""
    longest = max(abs(hours.low), abs(hours.high))
    unit, size = ("h", 1.0) if longest >= 1.5 else ("min", 60.0)
    unit, size = ("s", 3600.0) if longest < 1 / 60 else (unit, size)
    low, high = (f"{end * size:,.3g}" for end in (hours.low, hours.high))
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def _precision(facts: Facts, option: Option, _: Outcome | None) -> Argument:
    half, source = facts.precision in HALF, f"the baseline's precision is {facts.precision}"
    if option.kind == "precision":
        return NOT_HERE if half else Argument(Stance.FOR, f"{source}, and 16 bits are faster")
    if option.needs_half and not half:
        return Argument(Stance.AGAINST, f"{source}: in fp32 alone it gains single digits or loses")
    if option.needs_half and facts.precision == "bf16":
        return Argument(Stance.AGAINST, "AWS tested it with fp16, not with bf16")
    return Argument(Stance.FOR if half else Stance.NEUTRAL, f"{source}; 16 bits add to its gain")


def _hyperparameters(facts: Facts, option: Option, _: Outcome | None) -> Argument:
    row = tested_row(facts) if option.name == "training-compiler" else None
    fitted, batch = None if row is None else row[0], facts.batch_size
    if fitted is not None and 2 * batch <= fitted:
        small = f"a batch of {batch} is small where {fitted} fitted in AWS's test"
        return Argument(Stance.AGAINST, f"{small}: raise it in the baseline first")
    first = f"benchmark at the same batch of {batch} first, so that the compiler alone differs"
    tuned = "a larger one needs its rate and warm-up tuned, and its quality judged"
    return Argument(Stance.NEUTRAL, f"{first}; {tuned}")


def _dollars(facts: Facts, option: Option, outcome: Outcome | None) -> Argument:
    if option.kind == "machine" and (found := next_instance(facts))[0] is not None:
        return Argument(Stance.AGAINST, f"{found[0]} comes next, {found[1]}")
    runs = None if outcome is None else outcome.runs_to_repay
    if runs is not None and (runs[0] is None or runs[0] > MOST_RUNS_A_YEAR):
        after = "never repaid" if runs[0] is None else f"repaid after {runs[0]:,} runs at best"
        return Argument(Stance.STOPS, f"the benchmark and the work are {after}")
    wanted = (facts.runs_per_week, facts.hours, facts.usd_per_hour)
    if missing := [each.source for each in wanted if not each.known]:
        return Argument(Stance.OPEN, "; ".join(missing), known=False)
    first, spent = None if outcome is None else outcome.first_year_usd, "the benchmark and the work"
    if first is None:
        return Argument(Stance.AGAINST, "nothing was measured or published of what it saves")
    stance, why = Stance.AGAINST, f"whether the first year repays {spent} is open"
    if first.low > 0:
        stance, why = Stance.FOR, f"the first year repays {spent}, even at worst"
    elif first.high <= 0:
        stance, why = Stance.STOPS, f"the first year saves less than {spent} cost, even at best"
    return Argument(stance, why)


_JUDGES: dict[str, Callable[[Facts, Option, Outcome | None], Argument]] = {
    "bottleneck": _bottleneck,
    "fit": _fit,
    "shapes": _shapes,
    "amortisation": _amortisation,
    "precision": _precision,
    "hyperparameters": _hyperparameters,
    "dollars": _dollars,
}
