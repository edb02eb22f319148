"""The summary of a verdict: what was judged, what it saves, what to do, what the gate cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compilegate.gate.findings import Code, Outcome, Reason, failure
from compilegate.gate.verdict import (
    Amount,
    BaselineVerdict,
    Decision,
    Interval,
    MemoryJudgement,
    Verdict,
)
from compilegate.report import decided, saves, summary_lines
from compilegate.report.formats import amount, dollars, times
from compilegate.report.remedies import baseline_remedies, remedies
from compilegate.report.summary import NOT_JUDGED, Cell, summary_table

MORE_EXAMPLES = "judge on about 4,300 validation examples, 2.0 times as many (3.7 h of machine time"
MORE_SEEDS = "add about 3 seeds (6 jobs, 5.5 h of machine time)"


def lines_of(verdict: Verdict) -> dict[str, tuple[Cell, ...]]:
    return {line.name: line.cells for line in summary_table(verdict)}


def test_each_judgement_has_its_value_interval_limit_and_outcome(verdict):
    lines = lines_of(verdict)
    assert lines["Accuracy"][0] == Cell(
        "-0.38 points",
        "-0.71 to -0.05",
        "margin -1.00",
        "94.33% against 94.71% on 2,189 examples; a constant answer has 49.48%",
        Outcome.PASS,
    )
    assert lines["Log loss"][0].outcome is Outcome.INCONCLUSIVE
    assert lines["Perplexity"][0].outcome is None
    assert lines["Slices"][0] == Cell("1 of 1 inconclusive", outcome=Outcome.INCONCLUSIVE)
    assert lines["Parity"][0].bounds == "limit 20 times eager's rounding"
    assert lines["Speed-up"][0].limit == f"required {times(1.2)}"
    # What could not be compared says why.
    assert lines["Other reasons"] == (NOT_JUDGED, Cell("arm.failed", outcome=Outcome.FAIL))
    judged = {name for name, cells in lines.items() if cells[1] != NOT_JUDGED}
    assert judged == {"Parity", "Memory", "Other reasons"}


def test_reasons_besides_the_numbers_are_named_and_empty_lines_left_out(verdict):
    codes = (Code.CONFOUND_UNDECLARED, Code.EVIDENCE_CHANGED, Code.EVIDENCE_CHANGED)
    reasons = tuple(failure(code, "Found.") for code in codes)
    candidate = replace(verdict.candidates[0], reasons=reasons)
    lines = lines_of(replace(verdict, candidates=(candidate,)))
    found = Cell("confound.undeclared, evidence.changed", outcome=Outcome.FAIL)
    assert lines["Other reasons"] == (found,)
    lines = lines_of(replace(verdict, candidates=verdict.candidates[1:]))
    assert list(lines) == ["Parity", "Memory", "Other reasons"]


@pytest.mark.parametrize(
    ("required", "limit"),
    [
        (1.2, f"required {times(1.2)}"),
        (1.458, f"required {times(1.458)} to repay cold compilation within 684 steps"),
        (None, "no speed-up is enough to repay cold compilation within 684 steps"),
    ],
)
def test_the_speed_up_has_one_limit_the_one_that_decides(verdict, required, limit):
    speed = verdict.candidates[0].speed
    run = replace(speed.run, repaid_within_steps=684)
    candidate = replace(
        verdict.candidates[0], speed=replace(speed, required_speedup=required, run=run)
    )
    assert lines_of(replace(verdict, candidates=(candidate,)))["Speed-up"][0].limit == limit


# What to do.


def advice(verdict: Verdict, code: Code, numbers: dict[str, object], **changes: object) -> str:
    """The first remedy where `code` decided against the first candidate, changed so."""
    reason = Reason(code, Outcome.FAIL, "Found.", numbers)
    changed = {"outcome": Outcome.FAIL, "reasons": (reason,), **changes}
    return remedies(replace(verdict, cost=None), replace(verdict.candidates[0], **changed))[0]


def test_the_cheapest_way_within_reach_comes_first_with_the_rule_that_binds(verdict):
    first, second, last = remedies(verdict, verdict.candidates[0])
    assert first.startswith(f"To decide, {MORE_EXAMPLES}")
    assert "`margin = 0.05` in [gate.metrics.log_loss] binds" in first
    assert "0.0548 nats" in first
    assert first.endswith("`margin = 0.055` would have passed.")
    assert second == f"To decide, {MORE_SEEDS}."
    assert "[arms.larger-batch]" in last
    (figures,) = verdict.cost.candidates
    rows = replace(figures.more_examples, growth=708.3, examples=1_500_000)
    cost = replace(verdict.cost, candidates=(replace(figures, more_examples=rows),))
    first, *_ = remedies(replace(verdict, cost=cost), verdict.candidates[0])
    assert first.startswith(f"To decide, {MORE_SEEDS}")


@pytest.mark.parametrize(
    ("code", "rule", "met", "passing"),
    [
        (Code.SPEED_BELOW_MINIMUM, "`min_speedup = 1.2` in [gate]", times(1.08), "1.08"),
        (Code.MEMORY_INCREASED, "`max_memory_increase = 0.2` in [gate]", "0.5", "0.5"),
        (Code.PARITY_DIFFERS, "`fp32_limit = 20` in [gate.parity]", "30 times", "30"),
        (Code.COMPILER_RECOMPILED, "`max_recompilations = 2` in [gate]", "7 times", "7"),
        (Code.QUALITY_WORSE, "`margin = 0.05` in [gate.metrics.log_loss]", "0.0548", "0.055"),
    ],
)
def test_each_rule_is_named_with_its_value_the_value_met_and_what_would_have_passed(
    verdict, code, rule, met, passing
):
    first = verdict.candidates[0]
    slow = replace(first.speed, speedup=Interval(1.1, 1.08, 1.12), binding="min_speedup")
    found = advice(
        verdict,
        code,
        {"metric": "log_loss", "part": None, "recompilations": 7, "allowed": 2},
        speed=slow,
        memory=MemoryJudgement(10, 15, "device", "device", 0.5, 0.2, None),
        parity=replace(first.parity, worst=replace(first.parity.worst, ratio=30.0)),
    )
    assert f"{rule} binds" in found
    assert met in found
    assert f"{passing}` would have passed." in found


def test_no_value_is_offered_where_none_would_have_passed(verdict):
    slower = replace(verdict.candidates[0].speed, speedup=Interval(0.9, 0.8, 0.95))
    assert "would have passed" not in advice(verdict, Code.SPEED_BELOW_MINIMUM, {}, speed=slower)


def test_the_runs_that_repay_compilation_are_those_at_which_the_lower_bound_repays(verdict):
    """21.5 s, at 48 examples a step and 480.2 a second, of which a step saves 1 - 1/1.31."""
    speed = replace(
        verdict.candidates[0].speed, min_speedup=1.0, required_speedup=1.458, binding="repayment"
    )
    run = replace(speed.run, repaid_within_steps=684)
    found = advice(verdict, Code.SPEED_NOT_REPAID, {}, speed=replace(speed, run=run))
    steps = 21.5 / (48 / 480.2 * (1 - 1 / 1.31))
    assert steps / 684 == pytest.approx(1.329, abs=0.001)
    assert "`repaid_within_runs = 1` in [gate] binds" in found
    assert found.endswith("`repaid_within_runs = 1.4` would have passed.")


def test_wrong_arithmetic_hides_what_follows_from_it(verdict):
    codes = (Code.PARITY_DIFFERS, Code.ARM_FAILED, Code.QUALITY_WORSE)
    reasons = tuple(Reason(code, Outcome.FAIL, "Found.") for code in codes)
    candidate = replace(verdict.candidates[0], outcome=Outcome.FAIL, reasons=reasons)
    alone = replace(candidate, reasons=reasons[:1])
    without_cost = replace(verdict, cost=None)
    assert remedies(without_cost, candidate) == remedies(without_cost, alone)


@pytest.mark.parametrize(
    ("code", "numbers", "rule", "passing"),
    [
        (Code.REGISTERED_WORSE, {"registered_value": 0.95, "drop": 0.01}, "drop = 0.01", "0.02"),
        (Code.METRIC_BELOW_FLOOR, {"floor": 0.95}, "floor = 0.95", "0.93"),
        (Code.METRIC_BELOW_FLOOR, {"value": 0.931, "floor": 0.5}, "floor = 0.5", "0.94"),
    ],
)
def test_a_baseline_that_may_not_be_released_names_what_would_have_passed(
    code, numbers, rule, passing
):
    reason = Reason(code, Outcome.FAIL, "Found.", {"metric": "accuracy", "value": 0.93} | numbers)
    (found,) = baseline_remedies(BaselineVerdict("baseline", False, (reason,), ()))
    assert f"`{rule}` in [gate.metrics.accuracy] binds" in found
    assert found.endswith(f"= {passing}` would have passed.")


# The terminal's lines.


def test_the_terminals_lines_are_short_plain_text_with_every_reason_in_full(verdict):
    lines = summary_lines(verdict)
    assert lines[0] == verdict.decision.sentence
    assert "larger-batch: inconclusive" in lines
    assert any(line.startswith(f"  To decide, {MORE_EXAMPLES}") for line in lines)
    assert "at least 2.6 h of machine time" in lines[-1]
    assert "4 jobs" in lines[-1]
    assert "2 jobs without valid evidence" in lines[-1]
    cost = replace(verdict.cost, gate=Amount(9540.0, 3.731), jobs_not_counted=0)
    assert "2.6 h ($3.73)" in summary_lines(replace(verdict, cost=cost))[-1]
    many = summary_lines(replace(verdict, candidates=verdict.candidates * 20))
    assert len(many) == 15
    assert all(line.isprintable() for line in many)


def test_dollars_keep_the_digits_that_matter():
    found = [dollars(usd) for usd in (0.0, 0.00421, 0.25, 1.408, 1234.5)]
    assert found == ["$0.00", "$0.00421", "$0.25", "$1.41", "$1,234.50"]
    assert amount(Amount(90.0, None)) == "90.0 s"


def deciding(verdict: Verdict, arm: str, **figures: object) -> Verdict:
    """The verdict with another decision, and figures of `larger-batch` changed so."""
    changed = replace(verdict.cost.candidates[0], **figures)
    cost = replace(verdict.cost, candidates=(changed,))
    return replace(verdict, decision=Decision(arm, 1, f"Release {arm}."), cost=cost)


def test_the_decision_is_followed_by_what_was_registered(verdict):
    made = deciding(verdict, "larger-batch")
    assert decided(made, []) == "Release larger-batch."
    assert decided(made, ["news/1, Approved"]).endswith("Registered: news/1, Approved.")


@pytest.mark.parametrize(
    ("arm", "figures", "shown"),
    [
        ("larger-batch", {"saved": Amount(900.0, 0.045)}, ("15.0 min (25%)", "$0.045 less", "11")),
        ("larger-batch", {"saved": Amount(900.0, -0.01)}, ("$0.01 more",)),
        ("larger-batch", {"retrainings_to_repay": None}, ("no number of retrainings",)),
        ("larger-batch", {"saved": Amount(-3.0, None)}, ("nothing: ", "3.0 s longer")),
        ("baseline", {}, ("nothing: the baseline is released",)),
        ("none", {}, ("nothing: no model is released",)),
    ],
)
def test_what_the_decision_saves_of_each_retraining(verdict, arm, figures, shown):
    found = saves(deciding(verdict, arm, **figures))
    assert [words for words in shown if words not in found] == []
