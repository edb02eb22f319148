"""Advice for people and programs: four lines for each answer, all options, all workloads, JSON, and
what was expected beside what came out. Pure.

The four lines are the same for each answer: whether it is worth it, what decides, what that rests
on, and what would change it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any

from compilegate.advice.effects import WEEKS_PER_YEAR, Basis, Ends, Outcome, tested_row
from compilegate.advice.facts import Experience, Facts
from compilegate.advice.judge import Advice, OptionAdvice, Stance, Verdict, in_order, words_of_hours
from compilegate.advice.rules import NOTHING, STATUS_QUO, Range, rules
from compilegate.catalog.compilers import compilers

MOST_OBSTACLES = 3
"""How many of the script's lines are listed with an option."""
WIDTH = 100

# Amounts, each as a range.


def _between(amount: Range, form: str) -> str:
    low, high = form.format(amount.low), form.format(amount.high)
    return low if low == high else f"{low} to {high}"


def _figures(amount: Range) -> str:
    return _between(amount, "{:,.0f}" if abs(amount.high) >= 100 else "{:.3g}")


def times(amount: Range) -> str:
    """A ratio."""
    return _between(amount, "{:.2f}")


def share(amount: Range) -> str:
    """Parts of a whole in per cent."""
    return f"{_between(amount.times(100), '{:.0f}')}%"


def usd(amount: Range | None) -> str:
    """Dollars: `$1,200 to $3,400`."""
    if amount is None:
        return "not known"
    large = max(abs(amount.low), abs(amount.high)) >= 100 or amount == NOTHING
    return _between(amount, "${:,.0f}" if large else "${:,.2f}").replace("$-", "-$")


def repaid(ends: Ends, of: str) -> str:
    """After how many runs, or steps, something is repaid."""
    best, worst = ends
    if best is None:
        return "never repaid"
    if best == worst:
        return f"repaid after {best:,} {of}"
    return (
        f"repaid after {best:,} {of} at best, {'never' if worst is None else f'{worst:,}'} at worst"
    )


# The four lines.


def answer(advice: Advice, option: OptionAdvice, passing: float | None = None) -> dict[str, str]:
    """The four lines for one option, by their names. `passing` is how likely the gate passes a
    model that is as good."""
    facts = advice.facts
    return {
        "worth it": _worth_it(option, passing),
        "what decides": _decides(facts, option),
        "rests on": _rests_on(facts, option),
        "would change": _would_change(facts, option),
    }


def _worth_it(option: OptionAdvice, passing: float | None) -> str:
    outcome, likely = option.outcome, ""
    if option.in_use or outcome is None:
        return "yes: it is in use" if option.in_use else _YES[option.verdict]
    if option.chance is not None:
        least = f"{rules().thresholds.off_speedup:.2f} times as fast"
        likely = f"; {least} or more with a probability of {_probability(option.chance)}"
    elif passing is not None and option.verdict is not Verdict.OFF:
        chance = f"a probability of {_probability(passing)}"
        likely = f"; the gate passes a model that is as good with {chance}"
    saved = outcome.saved_share
    run = f"saves {share(saved)} of a run"
    if saved.low < -1:
        run = f"a run gets up to {1 - saved.low:,.0f} times as long or {saved.high:.0%} shorter"
    elif saved.low < 0:
        run = f"a run gets {-saved.low:.0%} longer to {saved.high:.0%} shorter"
    if saved.high <= 0:
        run = f"a run gets up to {-saved.low:.0%} longer"
    if outcome.saved_hours is None:
        run += ", before compiling" if option.rule.kind == "compiler" else ""
    if outcome.saved_usd_per_year is not None and option.verdict is not Verdict.OFF:
        run += f", {usd(outcome.saved_usd_per_year)} a year"
    probably = option.verdict is Verdict.BENCHMARK and saved.low > 0
    return f"{'probably' if probably else _YES[option.verdict]}: {run}{likely}"


def _probability(chance: float) -> str:
    """Nothing is certain."""
    return f"{min(max(chance, 0.01), 0.99):.0%}"


_YES = {
    Verdict.ENABLE: "yes",
    Verdict.BENCHMARK: "only a benchmark tells",
    Verdict.OFF: "no",
    Verdict.REFERENCE: "all others are held against it",
}


def _decides(facts: Facts, option: OptionAdvice) -> str:
    """The reason, and the numbers: the gain, compiling, the benchmark."""
    outcome, effect, found = option.outcome, option.effect, [option.reason]
    if outcome is None or effect is None or (option.verdict is Verdict.OFF and not option.own):
        return option.reason
    if option.own is None:
        found.append(f"{times(outcome.speedup)} times as fast")
    if effect.compile_seconds != NOTHING:
        length = facts.hours.value
        run = "" if length is None else f" in a run of {words_of_hours(length)}"
        found.append(f"{_figures(effect.compile_seconds)} s of compiling{run}")
    if outcome.steps_to_repay is not None and facts.timing is not None:
        found[-1] += f", {repaid(outcome.steps_to_repay, 'steps')} of {facts.timing.steps:,}"
    if outcome.benchmark_jobs:
        found.append(_benchmark(outcome))
    return "; ".join(found)


def _benchmark(outcome: Outcome) -> str:
    took, cost = outcome.benchmark_hours, outcome.benchmark_usd
    words = f"a benchmark is {outcome.benchmark_jobs} more jobs"
    words += "" if took is None else f" ({words_of_hours(took)} together)"
    words += f" and {_figures(outcome.engineer_hours)} h of a person"
    words += "" if cost is None else f", {usd(cost)}"
    return words + (
        "" if outcome.runs_to_repay is None else f", {repaid(outcome.runs_to_repay, 'runs')}"
    )


_RESTS_ON = {
    Basis.MEASURED: "an execution here",
    Basis.SIMILAR: "executions of other workloads",
    Basis.ELSEWHERE: "an execution under other conditions, and a rule of thumb",
    Basis.PUBLISHED: "a rule of thumb from published figures",
    Basis.ASSUMED: "a rule of thumb, assumed",
}


def _rests_on(facts: Facts, option: OptionAdvice) -> str:
    stops = option.first(Stance.STOPS)
    if option.own is None and stops is not None and not option.in_use:
        repays = "a rule of thumb: 30 minutes repay compiling"
        return {
            "bottleneck": facts.bottleneck.source,
            "fit": "the catalog, which says what runs where",
            "shapes": facts.shapes.source,
            "amortisation": f"{facts.hours.source}; {repays}",
            "dollars": f"{facts.runs_per_week.source}; {facts.hours.source}; the price is "
            f"{facts.usd_per_hour.source}",
        }[stops.of]
    row = tested_row(facts) if option.name == "training-compiler" else None
    found = "the workload's file" if option.in_use else _basis(option)
    return found if row is None else f"{found}; {row.sentence}"


def _basis(option: OptionAdvice) -> str:
    effect = option.effect
    if effect is None:
        return "nothing that was measured or published"
    return f"{_RESTS_ON[effect.basis]}: {effect.sentence}"


def _would_change(facts: Facts, option: OptionAdvice) -> str:
    least = f"{rules().thresholds.off_speedup:.2f} times"
    worse = f"an execution that measures less than {least}, or a worse model"
    enabled = option.verdict is Verdict.ENABLE
    if option.own is not None:
        more = "another execution: more seeds, a longer run, a larger batch or a newer compiler"
        return worse if enabled else more
    found = option.first(Stance.STOPS, Stance.OPEN, Stance.AGAINST)
    if enabled or found is None:
        kept = compilers()[option.rule.compiler or "eager"].maintained
        return worse + (f"; and {kept.says}" if kept.status == "ended" and kept.says else "")
    which = rules().question(found.of)
    if found.stance is Stance.OPEN:
        return f"an answer. {which.question} To find out: {which.find_out}"
    cost = None if option.outcome is None else option.outcome.benchmark_usd
    saved = None if option.outcome is None else option.outcome.saved_usd
    change = {
        "bottleneck": f"another bottleneck: {which.find_out}",
        "fit": "another framework, instance or model"
        if found.stance is Stance.STOPS
        else "an execution that measures it",
        "shapes": "the same shapes in every step: pad, or resize and crop to one size",
        "amortisation": "longer runs, or an execution that measures a gain nevertheless",
        "precision": 'precision = "fp16", in the baseline too',
        "hyperparameters": "a larger batch with its learning rate, in the baseline too",
        "dollars": "an execution that measures it",
    }[which.name]
    stopped = found.stance is Stance.STOPS and which.name == "dollars"
    if stopped and cost is not None and saved is not None and saved.high > 0:
        change = f"{cost.low / saved.high / WEEKS_PER_YEAR:.2g} runs a week or more"
    return found.remedy or change


# The text for a terminal.


def advice_text(
    advice: Advice,
    *,
    everything: bool = False,
    forecast: Sequence[str] = (),
    passing: float | None = None,
) -> Iterator[str]:
    """One workload: the compilers' answer, and that of the best option where it is another. With
    `everything` all options, by the seven considerations, and what is not known."""
    facts, shown = advice.facts, [advice.compiler]
    if (rather := _rather(advice)) is not None:
        shown.append(rather)
    yield f"{facts.workload}: {headline(advice)}"
    yield f"  {_known_line(facts)}"
    if everything:
        yield from ("", *_table(advice))
        shown = advice.to_do
    for option in shown:
        yield from ("", f"  {option.rule.title}: {_verdict(option)}")
        for name, line in answer(advice, option, passing).items():
            yield from _wrapped(f"    {f'{name}:':<14}", line)
        if everything:
            yield from _considered(advice, option)
    others = [it for it in advice.to_do if it.outcome is not None or it.rule.kind == "machine"]
    others = ", ".join(within(it.rule.title) for it in others if it not in shown)
    if not everything:
        yield from ("", *(_wrapped("  Also open: ", others) if others else ()))
        yield f"  All options, the considerations: compilegate advise {facts.workload} --options"
        return
    off = [each for each in advice.options if each.verdict is Verdict.OFF]
    missing = [
        f"{it.question} It would settle {it.settles}. To find out: {it.find_out}."
        for it in advice.missing
    ]
    for title, lines in (
        ("Stays off:", [f"{each.rule.title}: {each.reason}" for each in off]),
        ("Not known, the weightiest first:", missing),
        ("How likely the gate passes a model that is as good:", forecast),
    ):
        if lines:
            yield from ("", f"  {title}")
            for line in lines:
                yield from _wrapped("    ", line)


def _verdict(option: OptionAdvice) -> str:
    return "in use" if option.in_use else str(option.verdict)


_MARKS = dict(zip(Stance, "+-x? ", strict=True))
"""In front of a consideration, so that a glance shows what it says."""


def _considered(advice: Advice, option: OptionAdvice) -> Iterator[str]:
    for rank, said in enumerate(option.considerations, start=1):
        if said.sentence:
            line = f"{rules().question(said.of).title}: {said.sentence} ({said.standing})"
            yield from _wrapped(f"    {_MARKS[said.stance]} {rank}. ", line)
    found = _obstacles(advice, option)
    for obstacle in found[:MOST_OBSTACLES]:
        yield from _wrapped("    in the script: ", f"{obstacle.severity}: {obstacle.sentence}")
    if len(found) > MOST_OBSTACLES:
        more = f"{len(found) - MOST_OBSTACLES} more; `compilegate check` has all"
        yield f"    in the script: {more}"


def _obstacles(advice: Advice, option: OptionAdvice) -> tuple[Any, ...]:
    of_compiler = option.rule.kind == "compiler"
    return advice.facts.obstacles_of(option.rule.compiler) if of_compiler else ()


def _wrapped(label: str, text: str) -> list[str]:
    indent = " " * len(label)
    keep = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.wrap(text, WIDTH, initial_indent=label, subsequent_indent=indent, **keep)


def headline(advice: Advice) -> str:
    """The decision in one sentence."""
    rather, compiler = _rather(advice), advice.compiler
    title = within(compiler.rule.title)
    said = f"benchmark {title}."
    if compiler.verdict is Verdict.OFF:
        said = "no compiler is worth it."
    elif compiler.verdict is Verdict.ENABLE:
        said = f"enable {title}{', and let the gate measure it' * (compiler.own is None)}."
    return said if rather is None else f"{said} Rather look at {within(rather.rule.title)}."


def _rather(advice: Advice) -> OptionAdvice | None:
    """The best option, where it is no compiler and of more than hearsay: nothing of it is open, or
    it makes trees faster, which no compiler does."""
    best = advice.best
    if best is None or best is advice.compiler or best.rule.kind == "compiler":
        return None
    return best if best.rule.trees or best.first(Stance.OPEN) is None else None


def within(title: str) -> str:
    """A title within a sentence; names keep their capital."""
    first, _, rest = title.partition(" ")
    return f"{first.lower()} {rest}" if first in ("A", "Managed", "No") else title


def in_the_way(advice: Advice) -> str | None:
    """The one line that `validate` prints, where something should be done: an arm that is declared
    will not pay, or the script stands in its way. None where nothing should, and where only runs
    on another machine say that it is short."""
    more = f"see `compilegate advise {advice.facts.workload}`"
    arms = [it for it in advice.options if it.name in advice.facts.arms]
    arms = [it for it in arms if it.rule.kind == "compiler"]
    for option in arms:
        stops = option.first(Stance.STOPS)
        elsewhere = stops is not None and stops.of == "amortisation" and advice.facts.hours.assumed
        if option.verdict is Verdict.OFF and not elsewhere:
            return f"advice: {option.rule.title} should stay off: {option.reason}; {more}"
    for option in arms:
        if (found := _obstacles(advice, option)) and found[0].severity == "error":
            stands = f"the script stands in the way of {option.rule.title}: {found[0].sentence}"
            return f"advice: {stands}; {more}"
    return None


def _known_line(facts: Facts) -> str:
    runs, price, length = facts.runs_per_week.value, facts.usd_per_run_hour, facts.hours.value
    often = "runs a week not known" if runs is None else f"{runs:.3g} run{'s' * (runs != 1)} a week"
    long = "hours of a run not known" if length is None else f"{words_of_hours(length)} a run"
    cost = "no price" if price is None else f"${price:,.2f} an hour in all"
    where = f"{facts.instances} x {facts.instance_type}"
    return f"{where}, {often}, {long}, {cost} ({facts.usd_per_hour.source})"


def _table(advice: Advice) -> Iterator[str]:
    rows: list[Sequence[str]] = [("OPTION", "VERDICT", "SAVED A RUN", "SAVED A YEAR", "RESTS ON")]
    for each in advice.options:
        outcome, effect = each.outcome, each.effect
        cells = ("-", "-", "-")
        if outcome is not None and effect is not None:
            run, quo = outcome.saved_usd, each.name == STATUS_QUO
            saved = share(outcome.saved_share) if run is None else usd(run)
            year = usd(NOTHING if quo else outcome.saved_usd_per_year)
            cells = (saved, year, "" if quo else str(effect.basis).partition(",")[0])
        rows.append((each.rule.title, _verdict(each), *cells))
    return _columns(rows)


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


# All workloads together.


def portfolio_text(advices: Sequence[Advice], problems: Sequence[str] = ()) -> Iterator[str]:
    """Where to start, and what would be saved; `problems` are files that cannot be read."""
    ordered = in_order(advices)
    start = next((each for each in ordered if each.best is not None), None)
    count = f"{len(ordered)} workload{'' if len(ordered) == 1 else 's'}"
    if start is None or start.best is None:
        yield f"{count}: nothing is worth a benchmark."
    else:
        untold = sum(each.saved() is None for each in ordered)
        total = (
            f"{usd(saved_by_all(ordered))} a year may be saved by one option each, if what does "
        )
        total += "not gain stays off"
        total += f"; of {untold} more the savings are not known in dollars yet" * bool(untold)
        if untold == len(ordered):
            total = "too little is known to tell their savings in dollars"
        first = f"Start with {start.facts.workload}: {within(start.best.rule.title)}."
        yield f"{count}: {total}. {first}"
    rows = [("WORKLOAD", "VERDICT", "NEXT STEP", "SAVED A YEAR", "FIRST YEAR")]
    for each in ordered:
        verdict = Verdict.OFF if each.best is None else each.best.verdict
        step = "no change" if each.best is None else each.best.rule.title
        saved = (usd(each.saved()), usd(each.saved(first_year=True)))
        rows.append((each.facts.workload, str(verdict), step, *saved))
    yield from ("", *_columns(rows))
    if problems:
        yield from ("", *problems)


def saved_by_all(advices: Sequence[Advice]) -> Range:
    """The sum over workloads whose saving is known in dollars: one option of each, and nothing
    where it turns out to be of no use, since it then stays off."""
    total = NOTHING
    for each in advices:
        saved = each.saved() or NOTHING
        total = total + Range(max(saved.low, 0.0), max(saved.high, 0.0))
    return total


# JSON.

SCHEMA_VERSION = 2
_NOT_SHOWN = ("rule", "asked", "needs", "obstacles")


def advice_document(advice: Advice, passing: float | None = None) -> dict[str, Any]:
    """One workload. Ranges are `{"low", "high"}`; null is what is not known."""
    return {
        "schema_version": SCHEMA_VERSION,
        "workload": advice.facts.workload,
        "headline": headline(advice),
        "answer": answer(advice, advice.compiler, passing),
        "compiler": advice.compiler.name,
        "best": None if advice.best is None else advice.best.name,
        "rules": rules().date,
        "facts": {"instance_type": advice.facts.instance_type, **_plain(advice.facts)},
        "options": [_option(advice, each, passing) for each in advice.options],
        "missing": [{"consideration": it.name, **_plain(it)} for it in advice.missing],
    }


def _option(advice: Advice, option: OptionAdvice, passing: float | None) -> dict[str, Any]:
    compiles = option.rule.kind == "compiler" and option.effect is not None
    considered = enumerate(option.considerations, start=1)
    return {
        "name": option.name,
        "title": option.rule.title,
        "source": option.rule.source,
        **_plain(option),
        "answer": answer(advice, option, passing),
        "compile_seconds": _plain(option.effect.compile_seconds)
        if option.effect and compiles
        else None,
        "considerations": [{"rank": rank, **_plain(each)} for rank, each in considered],
        "obstacles": _plain(_obstacles(advice, option)),
    }


def portfolio_document(advices: Sequence[Advice], problems: Sequence[str] = ()) -> dict[str, Any]:
    """All workloads, where to start first."""
    ordered = in_order(advices)
    return {
        "schema_version": SCHEMA_VERSION,
        "start": next((each.facts.workload for each in ordered if each.best is not None), None),
        "saved_usd_per_year": _plain(saved_by_all(ordered)),
        "workloads": [advice_document(each) for each in ordered],
        "problems": list(problems),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        names = (each.name for each in fields(value) if each.name not in _NOT_SHOWN)
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (tuple, list, frozenset)):
        return [_plain(each) for each in value]
    return value


# What was expected before an execution, beside what it measured.


def foretold(advice: Advice) -> list[dict[str, Any]]:
    """What advice expects of each option that can be expected to change a run's time, as JSON."""
    return [
        {
            "option": each.name,
            "speedup": _plain(each.effect.whole_speedup),
            "rests_on": str(each.effect.basis),
            "machine": advice.facts.instance_type,
        }
        for each in advice.options
        if each.effect is not None
    ]


def beside_outcome(
    expected: Iterable[Mapping[str, Any]], measured: Iterable[Experience]
) -> Iterator[tuple[str, str]]:
    """For each candidate whose option was foretold: its arm, and both ranges of the speed-up in one
    sentence; they agree where they overlap. Raises LookupError, TypeError or ValueError for what
    `foretold` did not make."""
    of_option = {each["option"]: each for each in expected}
    for each in measured:
        if (told := of_option.get(each.option)) is not None:
            before = Range(float(told["speedup"]["low"]), float(told["speedup"]["high"]))
            meets = "as expected" if before.overlaps(each.speedup) else "not as expected"
            yield (
                each.arm,
                f"{times(before)} times as fast was expected for {told['machine']} "
                f"({told['rests_on']}); {times(each.speedup)} was measured on "
                f"{each.machine.words}, {meets}",
            )
