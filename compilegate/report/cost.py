"""Cost in words: what the page, the Markdown and the terminal say about it. Pure."""

from __future__ import annotations

from compilegate.gate.verdict import Amount, ArmCost, CandidateCost, CostFigures
from compilegate.report import formats

ARM_HEADER = (
    "Training, mean",
    "A retraining",
    "Whole job, mean",
    "Samples per second",
    "Samples per dollar",
    "Dollars an hour",
)


def arm_cells(arm: ArmCost, cost: CostFigures) -> tuple[str, ...]:
    """The cells of one arm, as ARM_HEADER names them."""
    # Why a price is unknown stands above the table, where it is the same for all.
    notes = {it.price_note for it in cost.arms if it.usd_per_hour is None}
    why = f". {arm.price_note}" if len(notes) > 1 else ""
    return (
        amount(arm.training),
        amount(arm.retraining),
        amount(arm.job),
        formats.rate(arm.samples_per_second),
        formats.NOTHING if arm.samples_per_dollar is None else f"{arm.samples_per_dollar:,.0f}",
        (
            f"unknown{why}"
            if arm.usd_per_hour is None
            else f"{dollars(arm.usd_per_hour)} ({arm.instance_type}, {arm.price_note})"
        ),
    )


def gate_sentence(cost: CostFigures) -> str:
    """What the gate cost; and why, if its dollars are unknown."""
    left_out = cost.jobs_not_counted
    at_least = "at least " if left_out else ""
    why = f"; {_jobs(left_out)} without valid evidence left out" if left_out else ""
    what = "The comparison" if cost.candidates else "Training more seeds than one"
    return (
        f"{what} took {at_least}{amount(cost.gate)} of machine time: "
        f"{_jobs(cost.jobs_counted)}, not counting the one that the baseline needs anyway{why}."
        f"{_why_no_dollars(cost)}"
    )


def candidate_rows(candidate: CandidateCost) -> list[tuple[str, str]]:
    """(what, measured): what turning a candidate on costs and saves."""
    rows = [
        ("Saved by each retraining", saved(candidate.saved)),
        ("Retrainings that repay the gate", _repaid(candidate)),
        (_break_even_label(candidate), _runs(candidate.break_even_runs)),
    ]
    settles = what_settles_it(candidate)
    return [*rows, ("To settle what is undecided", settles)] if settles else rows


def what_settles_it(candidate: CandidateCost) -> str:
    """What it takes to settle what is undecided, and its cost; empty where nothing would."""
    ways = (more_seeds(candidate), more_examples(candidate))
    return "; or ".join(way for way in ways if way)


def more_seeds(candidate: CandidateCost) -> str:
    """The seeds that would settle it; empty where seeds would not."""
    more = candidate.more_seeds
    if more is None:
        return ""
    return (
        f"about {more.seeds} more seed{'' if more.seeds == 1 else 's'}, "
        f"{_jobs(2 * more.seeds)}: {amount(more.amount)} of machine time"
    )


def more_examples(candidate: CandidateCost) -> str:
    """The validation examples that would settle it; empty where examples would not."""
    more = candidate.more_examples
    if more is None:
        return ""
    return (
        f"about {more.examples:,} validation examples ({more.growth:.1f} times as many), on which "
        f"all its jobs and the baseline's run again: {amount(more.amount)} of machine time, and "
        "what the examples cost"
    )


def amount(value: Amount) -> str:
    """A time, with its dollars where they are known: ``4.1 min ($0.25)``."""
    if value.usd is None:
        return formats.seconds(value.seconds)
    return f"{formats.seconds(value.seconds)} ({dollars(value.usd)})"


def dollars(value: float) -> str:
    """Whole cents from a dollar on, else two significant digits or more: ``$12.30``, ``$0.0042``.

    The value is not negative.
    """
    return f"${value:,.2f}" if value >= 1.0 or value == 0.0 else f"${value:.3g}"


def _why_no_dollars(cost: CostFigures) -> str:
    if cost.gate.usd is not None:
        return ""
    notes = (arm.price_note for arm in cost.arms if arm.usd_per_hour is None)
    return f" Dollars are unknown. {next(notes, '')}".rstrip()


def saved(value: Amount) -> str:
    """What a retraining saves; or what it costs more."""
    time = (
        formats.seconds(value.seconds)
        if value.seconds > 0.0
        else f"nothing, it takes {formats.seconds(-value.seconds)} longer"
    )
    if value.usd is None:
        return time
    if value.usd < 0.0:
        return f"{time}; it costs {dollars(-value.usd)} more"
    return f"{time}; {dollars(value.usd)}"


def _repaid(candidate: CandidateCost) -> str:
    count = candidate.retrainings_to_repay
    if count is None:
        return "never"
    return f"{count:,}, counted in {candidate.repaid_in}"


def _break_even_label(candidate: CandidateCost) -> str:
    state = candidate.compile_state
    return "Break-even, in runs" + ("" if state is None else f", counting {state} compilation")


def _runs(runs: float | None) -> str:
    if runs is None:
        return "never"
    if runs <= 1.0:
        return f"within one: after {runs * 100:.0f}% of a run like these"
    return f"{runs:,.1f} times the length of these runs"


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"
