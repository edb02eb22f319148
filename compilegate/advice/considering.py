"""The seven considerations: what each says of an option for a workload. Pure.

A consideration stands for the option, against it, stops it, leaves it open, or does not matter
here. Only what is known may stop an option or count for a confident verdict: what is assumed or
unknown leaves it open.
"""

from __future__ import annotations

from compilegate.advice.fitting import fit
from compilegate.advice.known.facts import Fact, Facts, Standing
from compilegate.advice.outcome import Outcome
from compilegate.advice.ranges import UNCHANGED, Range
from compilegate.advice.rules import Consideration, Option, rules
from compilegate.advice.stances import NOT_HERE, Considered, Said, Stance, considered

HALF_PRECISIONS = ("bf16", "fp16")


def consider(facts: Facts, option: Option, outcome: Outcome | None) -> tuple[Considered, ...]:
    """All seven, the weightiest first. `outcome` is None where nothing is known of its effect."""
    judges = {
        "bottleneck": _bottleneck,
        "fit": _fit,
        "shapes": _shapes,
        "amortisation": _amortisation,
        "precision": _precision,
        "hyperparameters": _hyperparameters,
        "dollars": _dollars,
    }
    return tuple(
        considered(
            each, *_with_the_script(judges[each.name](facts, option, outcome), facts, option, each)
        )
        for each in rules().considerations
    )


def _with_the_script(
    said: Said, facts: Facts, option: Option, consideration: Consideration
) -> Said:
    """What is said, and what the check found in the workload's script that bears on it. That stops
    nothing, for it can be mended; but nothing is enabled before it is."""
    stance, sentence, standing = said
    if option.kind != "compiler" or stance is Stance.STOPS:
        return said
    found = [
        each
        for each in facts.obstacles_of(option.compiler)
        if each.rule in consideration.rules and each.severity != "note"
    ]
    if not found:
        return said
    more = f", and {len(found) - 1} more of the kind" if len(found) > 1 else ""
    if stance is Stance.OPEN:
        return stance, f"{sentence}; the script has {found[0].sentence}{more}", standing
    return Stance.AGAINST, f"mend the script first: {found[0].sentence}{more}", standing


def _bottleneck(facts: Facts, option: Option, _: Outcome | None) -> Said:
    if option.kind in ("none", "money", "trees"):
        return NOT_HERE
    if option.too_large_only:
        return NOT_HERE
    bound = facts.bottleneck
    if bound.value is None:
        return Stance.OPEN, bound.source, bound.standing
    part = "compute" if bound.value == "memory" else bound.value
    words = {
        "compute": "arithmetic",
        "memory": "memory bandwidth",
        "launches": "launches from the host",
        "data": "waiting for data",
        "communication": "communication between GPUs",
        "other": "what the program does besides",
    }[bound.value]
    if part in option.attacks:
        return Stance.FOR, f"the bottleneck is {words}, which it makes faster", bound.standing
    share = facts.parts["data"].low + facts.parts["communication"].low
    least = f" ({share:.0%} or more of a step)" if share else ""
    return (
        Stance.STOPS,
        f"the bottleneck is {words}{least}, which this leaves as it is",
        bound.standing,
    )


def _fit(facts: Facts, option: Option, _: Outcome | None) -> Said:
    return fit(facts, option)


def _shapes(facts: Facts, option: Option, _: Outcome | None) -> Said:
    if option.kind != "compiler":
        return NOT_HERE
    shapes = facts.shapes
    if shapes.value is None:
        return Stance.OPEN, shapes.source, shapes.standing
    if shapes.value == "static":
        return Stance.FOR, f"every step has the same shapes: {shapes.source}", shapes.standing
    if shapes.value == "few":
        return (
            Stance.AGAINST,
            f"a few shapes: each is compiled once ({shapes.source})",
            shapes.standing,
        )
    if option.static_only:
        return (
            Stance.STOPS,
            f"it needs static shapes, and they vary: {shapes.source}",
            shapes.standing,
        )
    return (
        Stance.AGAINST,
        f"shapes vary, so that it compiles again or runs slower: {shapes.source}; pad, or resize "
        "and crop to one size, first",
        shapes.standing,
    )


def _amortisation(facts: Facts, option: Option, outcome: Outcome | None) -> Said:
    if option.kind != "compiler":
        return NOT_HERE
    hours = facts.hours
    if hours.value is None:
        return Stance.OPEN, hours.source, hours.standing
    minutes, limit = hours.value.times(60), rules().thresholds.compiler_minutes
    took = f"a run takes {words_of_hours(hours.value)}"
    if minutes.high < limit:
        return (
            Stance.STOPS,
            f"{took}, and compiling is said to be repaid from {limit:g} minutes on",
            hours.standing,
        )
    if minutes.low < limit:
        return Stance.AGAINST, f"{took}, around the {limit:g} minutes that repay it", hours.standing
    if outcome is not None and outcome.saved_hours is not None and outcome.saved_hours.high <= 0:
        return Stance.STOPS, f"{took}, and would take longer by all that is known", hours.standing
    return Stance.FOR, f"{took}: compiling is a small part of it", hours.standing


def words_of_hours(hours: Range) -> str:
    """A length of a run in words."""
    low, high = _one_length(hours.low), _one_length(hours.high)
    return low if low == high else f"{low} to {high}"


def _one_length(hours: float) -> str:
    return f"{hours * 60:.0f} minutes" if hours < 1.5 else f"{hours:.3g} hours"


def _precision(facts: Facts, option: Option, _: Outcome | None) -> Said:
    precision = facts.precision
    if option.kind not in ("compiler", "precision"):
        return NOT_HERE
    if precision.value is None:
        return Stance.OPEN, precision.source, precision.standing
    if option.kind == "precision":
        return _precision_itself(precision)
    if precision.value in HALF_PRECISIONS:
        untested = option.needs_half and precision.value == "bf16"
        said = "AWS tested it with fp16, not with bf16" if untested else precision.source
        return (Stance.AGAINST if untested else Stance.FOR), said, precision.standing
    if option.needs_half:
        said = f"{precision.source}: in fp32 alone it gains single digits or loses"
        return Stance.AGAINST, said, precision.standing
    said = f"{precision.source}; it works without 16 bits, which add to its gain"
    return Stance.NEUTRAL, said, precision.standing


def _precision_itself(precision: Fact[str]) -> Said:
    if precision.value in HALF_PRECISIONS:
        return Stance.NEUTRAL, f"it is in use: {precision.source}", precision.standing
    return Stance.FOR, f"{precision.source}, and 16 bits are faster", precision.standing


def _hyperparameters(facts: Facts, option: Option, _: Outcome | None) -> Said:
    if option.kind != "compiler":
        return NOT_HERE
    batch = "" if facts.batch_size is None else f" of {facts.batch_size}"
    return (
        Stance.NEUTRAL,
        f"benchmark at the same batch{batch} first, so that the compiler alone differs; a larger "
        "one needs its rate and warm-up tuned, and its quality judged",
        Standing.KNOWN,
    )


def _dollars(facts: Facts, option: Option, outcome: Outcome | None) -> Said:
    if option.kind == "none":
        return NOT_HERE
    missing = _missing_money(facts)
    if missing:
        standings = [each.standing for each in missing]
        standing = Standing.UNKNOWN if Standing.UNKNOWN in standings else Standing.ASSUMED
        return Stance.OPEN, "; ".join(each.source for each in missing), standing
    first = None if outcome is None else _first_year(facts, outcome)
    if first is None:
        return Stance.OPEN, "what it saves cannot be told in dollars", Standing.UNKNOWN
    at = "" if facts.usd_per_hour.known else f", at the price of another region ({ELSEWHERE})"
    if first.high <= 0:
        said = "the first year saves less than the benchmark and the work cost, even at best"
        return Stance.STOPS, said + at, Standing.KNOWN
    if first.low > 0:
        said = "the first year repays the benchmark and the work, even at worst"
        return Stance.FOR, said + at, Standing.KNOWN
    said = "whether the first year repays the benchmark and the work is open"
    return Stance.AGAINST, said + at, Standing.KNOWN


ELSEWHERE = "give or take a third"


def _first_year(facts: Facts, outcome: Outcome) -> Range | None:
    """The first year in dollars; wider where the price is that of another region."""
    yearly, benchmark = outcome.saved_usd_per_year, outcome.benchmark
    if yearly is None or benchmark.usd is None:
        return None
    price = UNCHANGED if facts.usd_per_hour.known else rules().thresholds.price_elsewhere
    return yearly.times(price) - (benchmark.usd.times(price) + benchmark.engineer_usd)


def _missing_money(facts: Facts) -> list[Fact[float] | Fact[Range]]:
    """What is not known of runs, their length and price; a price of another region will do."""
    missing: list[Fact[float] | Fact[Range]] = []
    if not facts.runs_per_week.known:
        missing.append(facts.runs_per_week)
    if facts.hours.value is None:
        missing.append(facts.hours)
    if facts.usd_per_hour.value is None:
        missing.append(facts.usd_per_hour)
    return missing
