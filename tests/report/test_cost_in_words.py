"""What the report and the terminal say of cost."""

from __future__ import annotations

import dataclasses

import pytest

from compilegate.gate.verdict import Amount, CandidateCost, CompileState, Decision, Verdict
from compilegate.report import decided, render_html, render_markdown, saves, summary_lines
from compilegate.report.details import candidate_rows, required
from compilegate.report.formats import amount, dollars, times

BREAK_EVEN = "Break-even, in runs, counting warm compilation"


def candidate(**fields: object) -> dict[str, str]:
    """The rows of a candidate that saves 45 s and 4.5 cents."""
    cost = CandidateCost(
        arm="fast",
        saved=Amount(45.0, 0.045),
        retrainings_to_repay=11,
        repaid_in="dollars",
        break_even_runs=0.42,
        compile_state=CompileState.WARM,
        more_seeds=None,
        more_examples=None,
    )
    return dict(candidate_rows(dataclasses.replace(cost, **fields)))


def test_a_saving_and_when_it_repays_the_gate_are_said_with_their_units():
    assert candidate() == {
        "Saved by each retraining": "45.0 s; $0.045",
        "Retrainings that repay the gate": "11, counted in dollars",
        BREAK_EVEN: "within one: after 42% of a run like these",
    }


def test_never_is_said_where_nothing_is_saved():
    rows = candidate(saved=Amount(-30.0, None), retrainings_to_repay=None, break_even_runs=None)
    assert rows["Saved by each retraining"] == "nothing, it takes 30.0 s longer"
    assert rows["Retrainings that repay the gate"] == "never"
    assert rows[BREAK_EVEN] == "never"


def test_faster_and_dearer_is_said_as_both():
    rows = candidate(saved=Amount(45.0, -0.01), retrainings_to_repay=None)
    assert rows["Saved by each retraining"] == "45.0 s; it costs $0.01 more"


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (0.0, "$0.00"),
        (0.00421, "$0.00421"),
        (0.25, "$0.25"),
        (1.408, "$1.41"),
        (1234.5, "$1,234.50"),
    ],
)
def test_dollars_keep_the_digits_that_matter(usd, text):
    assert dollars(usd) == text


def test_an_amount_without_dollars_shows_none():
    assert amount(Amount(90.0, None)) == "90.0 s"


def test_the_terminal_says_what_the_gate_took_and_what_would_settle_it(verdict):
    lines = summary_lines(verdict)
    assert (
        "  To settle it: about 4,300 validation examples (2.0 times as many), on which all its "
        "jobs and the baseline's run again: 3.7 h of machine time, and what the examples cost; or "
        "about 3 more seeds, 6 jobs: 5.5 h of machine time."
    ) in lines
    assert lines[-1] == (
        "The comparison took at least 2.6 h of machine time: 4 jobs, not counting the one that the "
        "baseline needs anyway; 2 jobs without valid evidence left out. Dollars are unknown. "
        "Jobs ran on <b>, and the price is of ml.g5.xlarge."
    )


def test_what_repaying_compilation_asks_of_the_speed_up_is_said_where_it_decides(verdict):
    speed = verdict.candidates[0].speed
    assert required(speed) == f"{times(1.2)}, as declared"
    run = dataclasses.replace(speed.run, repaid_within_steps=684)
    one_run = dataclasses.replace(speed, required_speedup=1.458, run=run)
    assert required(one_run) == (f"{times(1.458)}, to repay cold compilation within 684 steps")
    hopeless = dataclasses.replace(one_run, required_speedup=None)
    assert required(hopeless) == (
        "no speed-up is enough to repay cold compilation within 684 steps"
    )


def test_known_dollars_need_no_explanation(verdict):
    cost = dataclasses.replace(verdict.cost, gate=Amount(9540.0, 3.731), jobs_not_counted=0)
    assert summary_lines(dataclasses.replace(verdict, cost=cost))[-1] == (
        "The comparison took 2.6 h ($3.73) of machine time: 4 jobs, not counting the one that the "
        "baseline needs anyway."
    )


@pytest.mark.parametrize("render", [render_html, render_markdown])
def test_a_verdict_without_cost_has_no_section_of_it(render, verdict, observations):
    assert "What it cost" in render(verdict, observations)
    assert "What it cost" not in render(dataclasses.replace(verdict, cost=None), observations)


def test_why_a_price_is_unknown_is_shown_and_escaped(verdict, observations):
    page = render_html(verdict, observations)
    assert "unknown. Jobs ran on &lt;b&gt;, and the price is of ml.g5.xlarge." in page
    assert "<b>, and" not in page


def deciding(verdict: Verdict, arm: str) -> Verdict:
    return dataclasses.replace(verdict, decision=Decision(arm, 1, f"Release {arm}."))


def test_the_decision_is_followed_by_what_was_registered(verdict: Verdict) -> None:
    made = deciding(verdict, "larger-batch")
    assert decided(made, []) == "Release larger-batch."
    assert decided(made, ["news/1, Approved"]) == (
        "Release larger-batch. Registered: news/1, Approved."
    )


def test_a_candidate_saves_time_of_each_retraining(verdict: Verdict) -> None:
    assert verdict.cost is not None
    (first, *others) = verdict.cost.candidates
    (baseline,) = [each for each in verdict.cost.arms if each.arm == "baseline"]
    quarter = Amount(baseline.retraining.seconds / 4, None)
    saving = dataclasses.replace(first, arm="larger-batch", saved=quarter, retrainings_to_repay=1)
    cost = dataclasses.replace(verdict.cost, candidates=(saving, *others))
    told = saves(deciding(dataclasses.replace(verdict, cost=cost), "larger-batch"))
    assert "of each retraining (25%), compilation included; 1 retraining repays" in told
    never = dataclasses.replace(saving, retrainings_to_repay=None)
    cost = dataclasses.replace(verdict.cost, candidates=(never, *others))
    told = saves(deciding(dataclasses.replace(verdict, cost=cost), "larger-batch"))
    assert told.endswith("of each retraining (25%), compilation included")


def test_a_candidate_that_takes_longer_saves_nothing(verdict: Verdict) -> None:
    assert verdict.cost is not None
    slower = dataclasses.replace(
        verdict.cost.candidates[0], arm="larger-batch", saved=Amount(-3.0, None)
    )
    made = dataclasses.replace(
        verdict, cost=dataclasses.replace(verdict.cost, candidates=(slower,))
    )
    assert saves(deciding(made, "larger-batch")) == (
        "nothing: each retraining takes 3.0 s longer, compilation included"
    )


def test_where_the_baseline_ships_what_would_settle_it_is_said(verdict: Verdict) -> None:
    told = saves(verdict)
    assert told.startswith("nothing: the baseline is released; larger-batch would be settled by ")
    assert "about 3 more seeds" in told


@pytest.mark.parametrize(
    ("arm", "told"),
    [
        ("none", "nothing: no model is released"),
    ],
)
def test_without_a_candidate_nothing_is_saved(verdict: Verdict, arm: str, told: str) -> None:
    assert saves(deciding(verdict, arm)).startswith(told)
