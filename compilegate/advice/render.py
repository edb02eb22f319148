"""Advice for people and programs: four lines for each answer, all options, all workloads, JSON.
Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from compilegate.advice.effects import WEEKS_PER_YEAR, tested_row
from compilegate.advice.facts import Facts
from compilegate.advice.judge import Advice, OptionAdvice, Stance, Verdict, in_order, words_of_hours
from compilegate.advice.rules import NOTHING, Range, rules
from compilegate.catalog.compilers import compilers

WIDTH = 100

# Amounts, each as a range.


def _between(amount: Range, form: str) -> str:
    low, high = form.format(amount.low), form.format(amount.high)
    return low if low == high else f"{low} to {high}"


def _share(amount: Range) -> str:
    return f"{_between(amount.times(100), '{:.0f}')}%"


def usd(amount: Range | None) -> str:
    """Dollars: `$1,200 to $3,400`."""
    if amount is None:
        return "not known"
    large = max(abs(amount.low), abs(amount.high)) >= 100 or amount == NOTHING
    return _between(amount, "${:,.0f}" if large else "${:,.2f}").replace("$-", "-$")


def _probability(chance: float) -> str:
    return f"a probability of {min(max(chance, 0.01), 0.99):.0%}"


# The four lines.


def answer(advice: Advice, option: OptionAdvice, passing: float | None = None) -> dict[str, str]:
    """The four lines for one option, by their names. `passing` is how likely the gate passes a
    model that is as good."""
    return {
        "worth it": _worth_it(option, passing),
        "what decides": _decides(advice.facts, option),
        "rests on": _rests_on(advice.facts, option),
        "would change": _would_change(option),
    }


_YES = {
    Verdict.ENABLE: "yes",
    Verdict.BENCHMARK: "only a benchmark tells",
    Verdict.OFF: "no",
    Verdict.REFERENCE: "all others are held against it",
}


def _worth_it(option: OptionAdvice, passing: float | None) -> str:
    outcome, off = option.outcome, option.verdict is Verdict.OFF
    if option.in_use or outcome is None:
        return "yes: it is in use" if option.in_use else _YES[option.verdict]
    saved, year = outcome.saved_share, outcome.saved_usd_per_year
    shorter = f"{saved.high:.0%} shorter"
    run = f"saves {_share(saved)} of a run"
    if saved.high <= 0:
        run = f"a run gets up to {-saved.low:.0%} longer"
    elif saved.low < -1:
        run = f"a run gets up to {1 - saved.low:,.0f} times as long or {shorter}"
    elif saved.low < 0:
        run = f"a run gets {-saved.low:.0%} longer to {shorter}"
    compiles = option.rule.kind == "compiler"
    run += ", before compiling" * (compiles and outcome.saved_hours is None)
    run += "" if year is None or off else f", {usd(year)} a year"
    if option.chance is not None:
        least = f"{rules().thresholds['off_speedup']:.2f} times as fast"
        run += f"; {least} or more with {_probability(option.chance)}"
    elif passing is not None and not off:
        run += f"; the gate passes a model that is as good with {_probability(passing)}"
    probably = option.verdict is Verdict.BENCHMARK and saved.low > 0
    return f"{'probably' if probably else _YES[option.verdict]}: {run}"


def _decides(facts: Facts, option: OptionAdvice) -> str:
    outcome, found = option.outcome, [option.reason]
    if outcome is None or (option.verdict is Verdict.OFF and not option.own):
        return option.reason
    seconds, length = outcome.effect.compile_seconds, facts.hours.value
    if option.own is None:
        found.append(f"{_between(outcome.effect.whole_speedup, '{:.2f}')} times as fast")
    if seconds != NOTHING:
        run = "" if length is None else f" in a run of {words_of_hours(length)}"
        found.append(f"{_between(seconds, '{:,.0f}')} s of compiling{run}")
    if outcome.benchmark_jobs:
        took, cost = outcome.benchmark_hours, outcome.benchmark_usd
        together = "" if took is None else f" ({words_of_hours(took)} together)"
        jobs = f"a benchmark is {outcome.benchmark_jobs} more jobs{together}"
        found.append(f"{jobs} and {outcome.engineer_hours:g} h of a person")
        if cost is not None and outcome.runs_to_repay is not None:
            best, worst = outcome.runs_to_repay
            latest = "never" if worst is None else f"{worst:,}"
            repaid = "never repaid"
            if best is not None:
                repaid = f"repaid after {best:,} runs at best, {latest} at worst"
            found[-1] += f", {usd(cost)}, {repaid}"
    return "; ".join(found)


def _rests_on(facts: Facts, option: OptionAdvice) -> str:
    stops = option.first(Stance.STOPS)
    if option.own is None and stops is not None and not option.in_use:
        runs, hours, price = facts.runs_per_week, facts.hours, facts.usd_per_hour
        return {
            "bottleneck": facts.bottleneck.source,
            "fit": "the catalog, which says what runs where",
            "shapes": facts.shapes.source,
            "amortisation": f"{hours.source}; a rule of thumb: 30 minutes repay compiling",
            "dollars": f"{runs.source}; {hours.source}; the price is {price.source}",
        }[stops.of]
    found = "the workload's file" if option.in_use else "nothing that was measured or published"
    if option.outcome is not None:
        found = f"{option.outcome.effect.basis}: {option.outcome.effect.sentence}"
    row = tested_row(facts) if option.name == "training-compiler" else None
    return found if row is None else f"{found}; {row[1]}"


def _would_change(option: OptionAdvice) -> str:
    least = f"{rules().thresholds['off_speedup']:.2f} times"
    worse = f"an execution that measures less than {least}, or a worse model"
    enabled = option.verdict is Verdict.ENABLE
    if option.own is not None:
        more = "another execution: more seeds, a longer run, a larger batch or a newer compiler"
        return worse if enabled else more
    found = option.first(Stance.STOPS, Stance.OPEN, Stance.AGAINST)
    if enabled or found is None:
        maintenance = compilers()[option.rule.compiler or "eager"].maintained
        ended = maintenance.status == "ended" and maintenance.says
        return f"{worse}; and {maintenance.says}" if ended else worse
    which = next(each for each in rules().considerations if each.name == found.of)
    if found.stance is Stance.OPEN:
        return f"an answer. {which.question} To find out: {which.find_out}"
    outcome, change = option.outcome, which.change
    if found.of == "fit" and found.stance is not Stance.STOPS:
        change = "an execution that measures it"
    if found.of == "dollars" and found.stance is Stance.STOPS and outcome is not None:
        cost, saved = outcome.benchmark_usd, outcome.saved_usd
        if cost is not None and saved is not None and saved.high > 0:
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
    """The answer for one workload: the compilers', and that of the best option where it is
    another. With `everything` all options, by the seven considerations, and what is not known."""
    facts, rather, to_do = advice.facts, _rather(advice), advice.to_do
    shown = [advice.compiler, *([] if rather is None else [rather])]
    yield from (f"{facts.workload}: {headline(advice)}", f"  {_known_line(facts)}")
    if everything:
        yield from ("", *_table(advice))
        shown = to_do
    for option in shown:
        yield from ("", f"  {option.rule.title}: {_verdict(option)}")
        for name, line in answer(advice, option, passing).items():
            yield from _wrapped(f"    {f'{name}:':<14}", line)
        yield from _considered(option) if everything else ()
    off = [each for each in advice.options if each.verdict is Verdict.OFF]
    known = [it for it in to_do if it.outcome is not None or it.rule.kind == "machine"]
    others = ", ".join(within(it.rule.title) for it in known if it not in shown)
    missing = [f"{it.question} It settles {it.settles}. {it.find_out}." for it in advice.missing]
    folded = f"All options, the considerations: compilegate advise {facts.workload} --options"
    sections = {"Also open:": [others] if others else [], folded: []}
    if everything:
        sections = {
            "Stays off:": [f"{each.rule.title}: {each.reason}" for each in off],
            "Not known, the weightiest first:": missing,
            "How likely the gate passes a model that is as good:": list(forecast),
        }
    for title, lines in sections.items():
        yield from ("", f"  {title}") if lines or title == folded else ()
        for line in lines:
            yield from _wrapped("    ", line)


def _verdict(option: OptionAdvice) -> str:
    return "in use" if option.in_use else str(option.verdict)


_MARKS = dict(zip(Stance, "+-x? ", strict=True))
"""Mark in front of a consideration."""


def _considered(option: OptionAdvice) -> Iterator[str]:
    for rank, each in enumerate(option.considerations, start=1):
        assumed = "" if each.known or each.stance is Stance.OPEN else " (assumed)"
        line = f"{rules().considerations[rank - 1].title}: {each.sentence}{assumed}"
        yield from _wrapped(f"    {_MARKS[each.stance]} {rank}. ", line) if each.sentence else ()


def _wrapped(label: str, text: str) -> list[str]:
    indent = " " * len(label)
    keep = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.wrap(text, WIDTH, initial_indent=label, subsequent_indent=indent, **keep)


def headline(advice: Advice) -> str:
    rather, compiler = _rather(advice), advice.compiler
    title = within(compiler.rule.title)
    headline = {
        Verdict.OFF: "no compiler is worth it.",
        Verdict.ENABLE: f"enable {title}{', and let the gate measure it' * (not compiler.own)}.",
    }.get(compiler.verdict, f"benchmark {title}.")
    return headline if rather is None else f"{headline} Rather look at {within(rather.rule.title)}."


def _rather(advice: Advice) -> OptionAdvice | None:
    """The best option, where it is no compiler and of more than hearsay: nothing of it is open, or
    it makes trees faster, which no compiler does."""
    best = advice.best
    if best is None or best.rule.kind == "compiler":
        return None
    return best if best.rule.kind == "trees" or best.first(Stance.OPEN) is None else None


def within(title: str) -> str:
    """A title within a sentence; names keep their capital."""
    return title[0].lower() + title[1:] if title.startswith(("A ", "No ")) else title


def in_the_way(advice: Advice) -> str | None:
    """The one line that `validate` prints where an arm that is declared will not pay, or the script
    stands in its way; None where only runs on another machine say that it is short."""
    facts, found = advice.facts, list[str]()
    arms = [it for it in advice.options if it.name in facts.arms and it.rule.kind == "compiler"]
    for option in arms:
        stops = option.first(Stance.STOPS)
        assumed = stops is not None and stops.of == "amortisation" and facts.hours.assumed
        if option.verdict is Verdict.OFF and not assumed:
            found.append(f"{option.rule.title} should stay off: {option.reason}")
    for option in arms:
        for worst in facts.obstacles_of(option.rule.compiler)[:1]:
            if worst.severity == "error":
                title = option.rule.title
                found.append(f"the script stands in the way of {title}: {worst.sentence}")
    return f"advice: {found[0]}; see `compilegate advise {facts.workload}`" if found else None


def _known_line(facts: Facts) -> str:
    runs, price, length = facts.runs_per_week.value, facts.usd_per_run_hour, facts.hours.value
    often = "runs a week not known" if runs is None else f"{runs:.3g} run{'s' * (runs != 1)} a week"
    long = "hours of a run not known" if length is None else f"{words_of_hours(length)} a run"
    cost = "no price" if price is None else f"${price:,.2f} an hour in all"
    where = f"{facts.instances} x {facts.instance_type}"
    return f"{where}, {often}, {long}, {cost} ({facts.usd_per_hour.source})"


def _table(advice: Advice) -> Iterator[str]:
    rows: list[Sequence[str]] = [("OPTION", "VERDICT", "SAVED A RUN", "SAVED A YEAR")]
    for each in advice.options:
        cells, outcome = ("-", "-"), each.outcome
        if outcome is not None:
            run = outcome.saved_usd
            year = NOTHING if each.rule.kind == "none" else outcome.saved_usd_per_year
            cells = (_share(outcome.saved_share) if run is None else usd(run), usd(year))
        rows.append((each.rule.title, _verdict(each), *cells))
    return _columns(rows)


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


# All workloads together.


def portfolio_text(advices: Sequence[Advice], problems: Sequence[str] = ()) -> Iterator[str]:
    """The table of workloads, and where to start; `problems` are files that cannot be read."""
    ordered, headline = in_order(advices), "nothing is worth a benchmark."
    rows: list[Sequence[str]] = [("WORKLOAD", "VERDICT", "NEXT STEP", "SAVED A YEAR", "FIRST YEAR")]
    for each in ordered:
        saved = (usd(each.saved()), usd(each.saved(first_year=True)))
        step = (str(Verdict.OFF), "no change")
        if each.best is not None:
            step = (str(each.best.verdict), each.best.rule.title)
        rows.append((each.facts.workload, *step, *saved))
    if ordered and ordered[0].best is not None:
        untold = sum(each.saved() is None for each in ordered)
        headline = f"{usd(saved_by_all(ordered))} a year may be saved by one option each"
        headline += f"; of {untold} more the savings are not known in dollars yet" * bool(untold)
        headline += f". Start with {rows[1][0]}: {within(rows[1][2])}."
    yield f"{len(ordered)} workload{'s' * (len(ordered) != 1)}: {headline}"
    yield from ("", *_columns(rows))
    yield from ("", *problems) if problems else ()


def saved_by_all(advices: Sequence[Advice]) -> Range:
    """The sum over workloads whose saving is known in dollars: one option of each, and nothing
    where it turns out to be of no use, since it then stays off."""
    saved = [each.saved() or NOTHING for each in advices]
    return Range(sum(max(it.low, 0.0) for it in saved), sum(max(it.high, 0.0) for it in saved))


# JSON.

SCHEMA_VERSION = 2
_NOT_SHOWN = ("rule", "settings", "needs", "obstacles")


def advice_document(advice: Advice, passing: float | None = None) -> dict[str, Any]:
    """One workload as JSON. Ranges are `{"low", "high"}`; null is what is not known."""
    facts, best = advice.facts, advice.best
    return {
        "schema_version": SCHEMA_VERSION,
        "workload": facts.workload,
        "headline": headline(advice),
        "answer": answer(advice, advice.compiler, passing),
        "compiler": advice.compiler.name,
        "best": None if best is None else best.name,
        "rules": rules().date,
        "facts": {"instance_type": facts.instance_type, **_plain(facts)},
        "options": [_option(advice, each, passing) for each in advice.options],
        "missing": [{"consideration": it.name, **_plain(it)} for it in advice.missing],
    }


def _option(advice: Advice, option: OptionAdvice, passing: float | None) -> dict[str, Any]:
    rule, outcome, compiles = option.rule, option.outcome, option.rule.kind == "compiler"
    considered = enumerate(option.considerations, start=1)
    return {
        **{key: getattr(rule, key) for key in ("name", "title", "source")},
        **_plain(option),
        "answer": answer(advice, option, passing),
        "compile_seconds": _plain(outcome.effect.compile_seconds) if outcome and compiles else None,
        "considerations": [{"rank": rank, **_plain(each)} for rank, each in considered],
        "obstacles": _plain(advice.facts.obstacles_of(rule.compiler)),
    }


def portfolio_document(advices: Sequence[Advice], problems: Sequence[str] = ()) -> dict[str, Any]:
    """All workloads, where to start first."""
    ordered = in_order(advices)
    return {
        "schema_version": SCHEMA_VERSION,
        "start": next((it.facts.workload for it in ordered if it.best is not None), None),
        "saved_usd_per_year": _plain(saved_by_all(ordered)),
        "workloads": [advice_document(each) for each in ordered],
        "problems": list(problems),
    }


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        names = (each.name for each in fields(value) if each.name not in _NOT_SHOWN)
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (tuple, list, frozenset)):
        return [_plain(each) for each in value]
    return value
