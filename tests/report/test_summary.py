"""The summary of a verdict: at a glance, what to do, what it costs and saves, what is left out."""

from __future__ import annotations

import dataclasses

import pytest

from compilegate.gate.findings import Code, Outcome, Reason, failure
from compilegate.gate.observations import Observations
from compilegate.gate.verdict import (
    Amount,
    BaselineVerdict,
    CandidateCost,
    CompileState,
    Decision,
    Interval,
    MemoryJudgement,
    Verdict,
)
from compilegate.report import decided, render_html, render_markdown, saves, summary_lines
from compilegate.report.details import candidate_rows, required
from compilegate.report.formats import amount, dollars, times
from compilegate.report.remedies import baseline_remedies, remedies
from compilegate.report.summary import Cell, glance

NOTHING = Cell("\N{EN DASH}")
BREAK_EVEN = "Break-even, in runs, counting warm compilation"
LEFT_OUT = "Arms left out of this execution and not judged: compiled, larger-batch."


def lines_of(verdict: Verdict) -> dict[str, tuple[Cell, ...]]:
    return {line.name: line.cells for line in glance(verdict)}


def test_what_was_judged_shows_how_it_came_out_beside_its_interval_and_limit(verdict):
    lines = lines_of(verdict)
    assert lines["Accuracy"][0] == Cell(
        "-0.38 points", "-0.71 to -0.05; margin -1.00", Outcome.PASS
    )
    assert lines["Log loss"][0].outcome is Outcome.INCONCLUSIVE
    assert lines["Perplexity"][0] == Cell("+0.0274", "-0.0128 to +0.0676; watched", None)
    assert lines["Slices"][0] == Cell("1 of 1 inconclusive", "", Outcome.INCONCLUSIVE)
    assert lines["Parity"][0] == Cell("pass", "4.52 times eager's rounding; limit 20", Outcome.PASS)
    speed = lines["Speed-up"][0]
    assert speed.detail.endswith("; required 1.20\N{MULTIPLICATION SIGN}")
    # What could not be compared says on what grounds.
    assert lines["Other grounds"] == (NOTHING, Cell("training failed", "", Outcome.FAIL))
    judged = {name for name, cells in lines.items() if cells[1] != NOTHING}
    assert judged == {"Parity", "Memory", "Other grounds"}


def test_a_fail_beside_good_numbers_is_seen_and_what_no_candidate_has_is_left_out(verdict):
    reasons = (
        failure(Code.CONFOUND_UNDECLARED, "torch differs."),
        failure(Code.EVIDENCE_CHANGED, "Seed 1: other columns."),
        failure(Code.EXAMPLES_MALFORMED, "Seed 2: two examples."),
    )
    candidate = dataclasses.replace(verdict.candidates[0], reasons=reasons)
    lines = lines_of(dataclasses.replace(verdict, candidates=(candidate,)))
    assert lines["Other grounds"] == (Cell("confounds, evidence", "", Outcome.FAIL),)
    lines = lines_of(dataclasses.replace(verdict, candidates=verdict.candidates[1:]))
    assert list(lines) == ["Parity", "Memory", "Other grounds"]


def advice(verdict: Verdict, code: Code, **changes: object) -> str:
    """The first remedy where `code` decided against the first candidate, changed so."""
    reason = Reason(code, Outcome.FAIL, "Found.", {"metric": "log_loss", "part": None})
    changed = {"outcome": Outcome.FAIL, "reasons": (reason,), **changes}
    candidate = dataclasses.replace(verdict.candidates[0], **changed)
    return remedies(dataclasses.replace(verdict, cost=None), candidate)[0]


def test_the_cheapest_way_to_settle_it_comes_first_with_the_rule_that_binds(verdict):
    first, second, last = remedies(verdict, verdict.candidates[0])
    assert first.startswith("To settle it, add about 4,300 validation examples")
    assert first.endswith(
        "`margin = 0.05` in [gate.metrics.log_loss] binds: it may be worse by up to 0.0548 nats. "
        "`margin = 0.055` would have passed."
    )
    assert second == "To settle it, add about 3 more seeds, 6 jobs: 5.5 h of machine time."
    assert last.startswith("Or turn it off")
    (figures,) = verdict.cost.candidates
    rows = dataclasses.replace(figures.more_examples, growth=708.3, examples=1_500_000)
    far = dataclasses.replace(figures, more_examples=rows)
    cost = dataclasses.replace(verdict.cost, candidates=(far,))
    first, *_ = remedies(dataclasses.replace(verdict, cost=cost), verdict.candidates[0])
    assert first.startswith("To settle it, add about 3 more seeds")


def test_each_rule_is_named_with_its_value_the_value_met_and_what_would_have_passed(verdict):
    speed = verdict.candidates[0].speed
    slow = dataclasses.replace(
        speed, speedup=Interval(1.1, 1.08, 1.12), required_speedup=1.2, binding="min_speedup"
    )
    assert advice(verdict, Code.SPEED_BELOW_MINIMUM, speed=slow).endswith(
        f"`min_speedup = 1.2` in [gate] binds: the speed-up is at least {times(1.08)}. "
        "`min_speedup = 1.08` would have passed."
    )
    slower = dataclasses.replace(slow, speedup=Interval(0.9, 0.8, 0.95))
    assert "would have passed" not in advice(verdict, Code.SPEED_BELOW_MINIMUM, speed=slower)
    memory = MemoryJudgement(10, 15, "device", "device", 0.5, 0.2, None)
    assert advice(verdict, Code.MEMORY_INCREASED, memory=memory).endswith(
        "`max_memory_increase = 0.2` in [gate] binds: memory grew by 0.5 of the baseline's. "
        "`max_memory_increase = 0.5` would have passed."
    )
    assert "`fp32_limit = 20` in [gate.parity] binds" in advice(verdict, Code.PARITY_DIFFERS)


def test_the_runs_that_repay_compilation_are_those_at_which_the_lower_bound_repays(verdict):
    """21.5 s, at 48 examples a step and 480.2 a second, of which a step saves 1 - 1/1.31."""
    speed = dataclasses.replace(
        verdict.candidates[0].speed, min_speedup=1.0, required_speedup=1.458, binding="repayment"
    )
    run = dataclasses.replace(speed.run, repaid_within_steps=684)
    told = advice(verdict, Code.SPEED_NOT_REPAID, speed=dataclasses.replace(speed, run=run))
    steps = 21.5 / (48 / 480.2 * (1 - 1 / 1.31))
    assert steps / 684 == pytest.approx(1.329, abs=0.001)
    assert "`repaid_within_runs = 1` in [gate] binds" in told
    assert told.endswith("`repaid_within_runs = 1.4` would have passed.")


def test_wrong_arithmetic_is_the_remedys_only_cause_and_a_baseline_has_its_own(verdict):
    reasons = tuple(
        Reason(code, Outcome.FAIL, "Found.")
        for code in (Code.PARITY_DIFFERS, Code.ARM_FAILED, Code.QUALITY_WORSE)
    )
    candidate = dataclasses.replace(verdict.candidates[0], outcome=Outcome.FAIL, reasons=reasons)
    found = remedies(dataclasses.replace(verdict, cost=None), candidate)
    assert len(found) == 2
    assert found[0].startswith("Try another torch version or backend")
    numbers = {"metric": "accuracy", "value": 0.93, "registered_value": 0.95, "drop": 0.01}
    worse = Reason(Code.REGISTERED_WORSE, Outcome.FAIL, "Found.", numbers)
    (told,) = baseline_remedies(BaselineVerdict("baseline", True, (worse,), ()))
    assert told.endswith(
        "`drop = 0.01` in [gate.metrics.accuracy] binds: the value is 0.93, the registered "
        "model's 0.95. `drop = 0.02` would have passed."
    )


def test_both_reports_name_the_arms_that_were_left_out(verdict, observations):
    left_out = dataclasses.replace(observations, left_out=("compiled", "larger-batch"))
    kept = Observations.from_json(left_out.to_json())
    for render in (render_markdown, render_html):
        assert LEFT_OUT in render(verdict, kept)
        assert "Arms left out" not in render(verdict, observations)


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
    rows = candidate(saved=Amount(-30.0, None), retrainings_to_repay=None, break_even_runs=None)
    assert rows["Saved by each retraining"] == "nothing, it takes 30.0 s longer"
    assert rows["Retrainings that repay the gate"] == rows[BREAK_EVEN] == "never"
    rows = candidate(saved=Amount(45.0, -0.01), retrainings_to_repay=None)
    assert rows["Saved by each retraining"] == "45.0 s; it costs $0.01 more"


def test_dollars_keep_the_digits_that_matter():
    found = [dollars(usd) for usd in (0.0, 0.00421, 0.25, 1.408, 1234.5)]
    assert found == ["$0.00", "$0.00421", "$0.25", "$1.41", "$1,234.50"]
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
    cost = dataclasses.replace(verdict.cost, gate=Amount(9540.0, 3.731), jobs_not_counted=0)
    assert summary_lines(dataclasses.replace(verdict, cost=cost))[-1] == (
        "The comparison took 2.6 h ($3.73) of machine time: 4 jobs, not counting the one that the "
        "baseline needs anyway."
    )


def test_what_repaying_compilation_asks_of_the_speed_up_is_said_where_it_decides(verdict):
    speed = verdict.candidates[0].speed
    assert required(speed) == f"{times(1.2)}, as declared"
    run = dataclasses.replace(speed.run, repaid_within_steps=684)
    one_run = dataclasses.replace(speed, required_speedup=1.458, run=run)
    assert required(one_run) == f"{times(1.458)}, to repay cold compilation within 684 steps"
    hopeless = dataclasses.replace(one_run, required_speedup=None)
    assert required(hopeless) == "no speed-up is enough to repay cold compilation within 684 steps"


@pytest.mark.parametrize("render", [render_html, render_markdown])
def test_a_verdict_without_cost_has_no_section_of_it(render, verdict, observations):
    assert "What it cost" in render(verdict, observations)
    assert "What it cost" not in render(dataclasses.replace(verdict, cost=None), observations)


def deciding(verdict: Verdict, arm: str, **saved: object) -> Verdict:
    """The verdict with another decision, and figures of `arm` changed so."""
    first, *others = verdict.cost.candidates
    figures = dataclasses.replace(first, arm="larger-batch", **saved)
    cost = dataclasses.replace(verdict.cost, candidates=(figures, *others))
    return dataclasses.replace(verdict, decision=Decision(arm, 1, f"Release {arm}."), cost=cost)


def test_the_decision_is_followed_by_what_was_registered(verdict: Verdict) -> None:
    made = deciding(verdict, "larger-batch")
    assert decided(made, []) == "Release larger-batch."
    assert decided(made, ["news/1, Approved"]) == (
        "Release larger-batch. Registered: news/1, Approved."
    )


def test_what_the_decision_saves_of_each_retraining(verdict: Verdict) -> None:
    quarter = Amount(verdict.cost.arms[0].retraining.seconds / 4, None)
    saving = deciding(verdict, "larger-batch", saved=quarter, retrainings_to_repay=1)
    assert "of each retraining (25%), compilation included; 1 retraining repays" in saves(saving)
    never = deciding(verdict, "larger-batch", saved=quarter, retrainings_to_repay=None)
    assert saves(never).endswith("of each retraining (25%), compilation included")
    assert saves(deciding(verdict, "larger-batch", saved=Amount(-3.0, None))) == (
        "nothing: each retraining takes 3.0 s longer, compilation included"
    )
    told = saves(verdict)
    assert told.startswith("nothing: the baseline is released; larger-batch would be settled by ")
    assert "about 3 more seeds" in told
    assert saves(deciding(verdict, "none")) == "nothing: no model is released"
