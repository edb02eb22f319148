"""Advice as text for a terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compilegate.advice.judging import Advice, OptionAdvice, Verdict
from compilegate.advice.outcome import Outcome
from compilegate.advice.portfolio import Portfolio
from compilegate.advice.ranges import NOTHING
from compilegate.advice.rules import STATUS_QUO
from compilegate.advice.stances import NOT_HERE, Stance
from compilegate.advice.told import words

MOST_OBSTACLES = 3
"""How many of the script's lines are told with an option."""


def advice_text(advice: Advice) -> Iterator[str]:
    """One workload: the next step, every option on one scale, what is not known."""
    facts = advice.facts
    yield f"{facts.workload}: {headline(advice)}"
    yield f"  runs on {facts.hardware}; {_known_line(advice)}"
    yield ""
    yield from _table([_HEAD, *(_row(option) for option in advice.options)])
    for option in advice.options:
        if option.verdict is not Verdict.OFF and option.name != STATUS_QUO and not option.in_use:
            yield ""
            yield from _details(option)
    off = [each for each in advice.options if each.verdict is Verdict.OFF]
    if off:
        yield ""
        yield "  Stays off:"
        for option in off:
            yield f"    {option.title}: {option.reason}"
    if advice.missing:
        yield ""
        yield "  Not known, the weightiest first:"
        for each in advice.missing:
            yield f"    {each.question}"
            yield f"      It would settle {each.settles}. To find out: {each.find_out}."


def headline(advice: Advice) -> str:
    """The decision in one sentence."""
    best = advice.best
    if best is None:
        return "stay as it is; nothing else is worth a benchmark."
    outcome, title = best.outcome, words.within(best.title)
    verb = {"enable": "enable", "benchmark first": "benchmark"}[str(best.verdict)]
    if outcome is None:
        return f"{verb} {title}: {best.reason}."
    if outcome.saved_usd_per_year is not None:
        saved = f"{words.usd(outcome.saved_usd_per_year)} a year"
    else:
        saved = f"{words.share(outcome.saved_share)} of a run's time"
    return f"{verb} {title}, expected to save {saved}: {best.reason}."


def in_the_way(advice: Advice) -> str | None:
    """The one line that `validate` prints, where something should be done: an arm that is declared
    will not pay, or the script stands in its way. None where nothing should."""
    more = f"see `compilegate advise {advice.facts.workload}`"
    declared = [each for each in advice.options if _declared(each, advice.facts.compilers)]
    for option in declared:
        if option.verdict is Verdict.OFF:
            return f"advice: {option.title} should stay off: {option.reason}; {more}"
    for option in declared:
        if option.obstacles and option.obstacles[0].severity == "error":
            first = option.obstacles[0].sentence
            return f"advice: the script stands in the way of {option.title}: {first}; {more}"
    return None


def _declared(option: OptionAdvice, compilers: tuple[str, ...]) -> bool:
    of = {
        "torch-compile": ("inductor", "torch-compile"),
        "training-compiler": ("training-compiler",),
        "neuron": ("neuron",),
    }
    return bool(set(of.get(option.name, ())) & set(compilers))


def _known_line(advice: Advice) -> str:
    facts = advice.facts
    runs = facts.runs_per_week.value
    hours = facts.hours.value
    parts = [
        "runs a week not known" if runs is None else words.runs_a_week(runs),
        "hours a run not known" if hours is None else f"{words.hours(hours)} a run",
    ]
    price = facts.usd_per_run_hour
    if price is None:
        parts.append(f"no price ({facts.usd_per_hour.source})")
    else:
        parts.append(f"${price:,.2f} an hour in all ({facts.usd_per_hour.source})")
    return ", ".join(parts)


_HEAD = ("OPTION", "VERDICT", "SAVED A RUN", "SAVED A YEAR", "RESTS ON")


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


def _row(option: OptionAdvice) -> tuple[str, ...]:
    outcome = option.outcome
    title = option.title if option.on is None else f"{option.title} ({option.on})"
    verdict = "in use" if option.in_use else str(option.verdict)
    if outcome is None:
        return option.title, verdict, "-", "-", "-"
    a_run = outcome.saved_usd
    run = words.usd(a_run) if a_run is not None else words.share(outcome.saved_share)
    year = words.usd(outcome.saved_usd_per_year)
    if outcome.saved_usd_per_year is None and outcome.saved_hours_per_year is not None:
        year = words.hours(outcome.saved_hours_per_year)
    if option.verdict is Verdict.REFERENCE:
        year = words.usd(NOTHING)
    return title, verdict, run, year, "" if option.basis is None else str(option.basis)


def _details(option: OptionAdvice) -> Iterator[str]:
    on = f" on {option.on}" if option.on else ""
    yield f"  {option.title}{on}: {'in use' if option.in_use else option.verdict}; {option.reason}"
    for each in option.considerations:
        if each.stance is not Stance.NEUTRAL or each.sentence != NOT_HERE[1]:
            yield f"    {words.MARKS[each.stance]} {each.rank}. {words.consideration(each)}"
    if option.outcome is not None:
        yield from _expected(option, option.outcome)
    if option.memory:
        yield f"    memory: {option.memory}"
    yield from _obstacles(option)
    if option.basis is not None:
        yield f"    rests on: {option.basis}: {option.basis_sentence} ({option.source})"
    yield from prediction_lines(option)


def _obstacles(option: OptionAdvice) -> Iterator[str]:
    """What `compilegate check` found in the script, the gravest first."""
    found = option.obstacles
    for each in found[:MOST_OBSTACLES]:
        yield f"    in the script: {each.severity}: {each.sentence}"
    if len(found) > MOST_OBSTACLES:
        yield f"    in the script: {len(found) - MOST_OBSTACLES} more; `compilegate check` has all"


def _expected(option: OptionAdvice, outcome: Outcome) -> Iterator[str]:
    amounts = ""
    if outcome.saved_hours is not None:
        amounts = f", {words.hours(outcome.saved_hours)} and {words.usd(outcome.saved_usd)} a run"
    yield (
        f"    expected: {words.times(outcome.speedup)} times as fast, "
        f"{words.share(outcome.saved_share)} of a run saved{amounts}"
    )
    if outcome.saved_hours_per_year is not None:
        yield (
            f"    a year: {words.hours(outcome.saved_hours_per_year)} and "
            f"{words.usd(outcome.saved_usd_per_year)}; in the first, after the benchmark, "
            f"{words.usd(outcome.first_year_usd)}"
        )
    if option.compile_seconds is not None:
        yield f"    compiling: {words.seconds(option.compile_seconds)}"
    yield f"    benchmark: {words.benchmark(outcome.benchmark)}"
    yield f"    repaid: {words.repaid(outcome.repayment)}"


def prediction_lines(option: OptionAdvice) -> Iterator[str]:
    """What was predicted, and what came out."""
    for each in option.predictions:
        said = "as predicted" if each.overlap else "not as predicted"
        yield (
            f"    predicted {words.times(each.predicted)} times, measured "
            f"{words.times(each.measured)} ({each.arm}, execution {each.execution}, on "
            f"{each.machine}, {each.outcome}): {said}"
        )


def portfolio_text(portfolio: Portfolio) -> Iterator[str]:
    """All workloads: where to start, what would be saved."""
    yield portfolio_headline(portfolio)
    yield ""
    head = ("WORKLOAD", "VERDICT", "NEXT STEP", "SAVED A YEAR", "FIRST YEAR")
    rows = [
        (
            entry.name,
            str(entry.verdict),
            "no change" if entry.best is None else entry.best.title,
            words.usd(entry.usd_per_year),
            words.usd(entry.first_year_usd),
        )
        for entry in portfolio.entries
    ]
    yield from _table([head, *rows])
    if portfolio.problems:
        yield ""
        yield from portfolio.problems


def portfolio_headline(portfolio: Portfolio) -> str:
    """Where to start, and the sum, in a sentence or two."""
    start = portfolio.start
    if not portfolio.entries:
        return "There is no workload to advise on."
    if start is None or start.best is None:
        return f"{_workloads(portfolio)}: nothing is worth a benchmark."
    untold = len(portfolio.untold)
    if untold == len(portfolio.entries):
        return (
            f"{_workloads(portfolio)}: nobody has said enough to tell their savings in dollars. "
            f"Start with {start.name}: {words.within(start.best.title)}."
        )
    but = f"; {untold} more cannot be told in dollars yet" if untold else ""
    return (
        f"{_workloads(portfolio)}: {words.usd(portfolio.usd_per_year)} a year may be "
        f"saved by one option each, if what does not gain stays off{but}. "
        f"Start with {start.name}: {words.within(start.best.title)}."
    )


def _workloads(portfolio: Portfolio) -> str:
    count = len(portfolio.entries)
    return f"{count} workload{'' if count == 1 else 's'}"
