"""The summary of a verdict: what was judged, what it saves, what to do, what the gate cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compilegate.gate.findings import Code, Outcome, Reason, failure
from compilegate.gate.verdict import (
    Amount,
    BaselineVerdict,
    CandidateVerdict,
    Decision,
    Interval,
    MemoryJudgement,
    ParityAnswer,
    ParityJudgement,
    Verdict,
)
from compilegate.report import decided, saves, summary_lines
from compilegate.report.formats import amount, dollars, times
from compilegate.report.remedies import baseline_remedies, remedies
from compilegate.report.summary import NOT_JUDGED, Cell, summary_table


def changed(verdict: Verdict, **changes: object) -> Verdict:
    """The verdict on its first candidate alone, changed so."""
    return replace(verdict, candidates=(replace(verdict.candidates[0], **changes),))


def test_each_judgement_has_its_value_interval_limit_and_outcome(verdict):
    lines = dict(summary_table(verdict))
    assert lines["Accuracy"][0] == Cell(
        "-0.38 points",
        "-0.71 to -0.05",
        "margin -1.00",
        "94.33% against 94.71% on 2,189 examples; a constant prediction reaches 49.48%",
        Outcome.PASS,
    )
    assert lines["Log loss"][0].outcome is Outcome.INCONCLUSIVE
    assert lines["Perplexity"][0].outcome is None
    assert lines["Slices"][0].outcome is Outcome.INCONCLUSIVE
    # What could not be compared says why.
    assert lines["Other reasons"] == (NOT_JUDGED, Cell("arm.failed", outcome=Outcome.FAIL))
    judged = {name for name, cells in lines.items() if cells[1] != NOT_JUDGED}
    assert judged == {"Parity", "Memory", "Other reasons"}


def test_what_parity_cannot_tell_is_no_pass(verdict):
    silent = ParityJudgement(ParityAnswer.CANNOT_TELL, "Why.", seed=1)
    cells = dict(summary_table(changed(verdict, parity=silent)))
    assert cells["Parity"] == (Cell("cannot tell", outcome=Outcome.INCONCLUSIVE),)


@pytest.mark.parametrize(
    ("required", "limit"),
    [
        (1.2, f"required {times(1.2)}"),
        (1.458, f"required {times(1.458)} to repay cold compilation within 684 steps"),
        (None, "no speed-up is enough to repay cold compilation within 684 steps"),
    ],
)
def test_the_speed_up_has_one_limit_the_one_that_decides(verdict, required, limit):
    speed = replace(verdict.candidates[0].speed, required_speedup=required)
    assert dict(summary_table(changed(verdict, speed=speed)))["Speed-up"][0].limit == limit


# What to do.


def advice(candidate: CandidateVerdict, verdict: Verdict, *codes: Code, **numbers: object) -> str:
    """The first remedy where these codes decided against the candidate."""
    reasons = tuple(Reason(code, Outcome.FAIL, "Found.", numbers) for code in codes)
    failed = replace(candidate, outcome=Outcome.FAIL, reasons=reasons)
    return remedies(replace(verdict, cost=None), failed)[0]


def test_the_cheapest_way_within_reach_comes_first_with_the_rule_that_binds(verdict):
    first, second, _ = remedies(verdict, verdict.candidates[0])
    assert "4,300 validation examples, 2.0 times as many (3.7 h" in first
    assert "`margin = 0.05` in [gate.metrics.log_loss] binds" in first
    assert "0.0548 nats" in first
    assert first.endswith("`margin = 0.055` would have passed.")
    assert "3 seeds (6 jobs, 5.5 h" in second
    (figures,) = verdict.cost.candidates
    rows = replace(figures.more_examples, growth=708.3, examples=1_500_000)
    cost = replace(verdict.cost, candidates=(replace(figures, more_examples=rows),))
    first, *_ = remedies(replace(verdict, cost=cost), verdict.candidates[0])
    assert "3 seeds" in first


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
    candidate = replace(
        first,
        speed=replace(first.speed, speedup=Interval(1.1, 1.08, 1.12), binding="min_speedup"),
        memory=MemoryJudgement(10, 15, "device", "device", 0.5, 0.2, None),
        parity=replace(first.parity, worst=replace(first.parity.worst, ratio=30.0)),
    )
    numbers = {"metric": "log_loss", "part": None, "recompilations": 7, "allowed": 2}
    found = advice(candidate, verdict, code, **numbers)
    assert f"{rule} binds" in found
    assert met in found
    assert f"{passing}` would have passed." in found
    slower = replace(first, speed=replace(first.speed, speedup=Interval(0.9, 0.8, 0.95)))
    assert "would have passed" not in advice(slower, verdict, Code.SPEED_BELOW_MINIMUM)


def test_the_runs_that_repay_compilation_are_those_at_which_the_lower_bound_repays(verdict):
    """21.5 s, at 48 examples a step and 480.2 a second, of which a step saves 1 - 1/1.31."""
    first = verdict.candidates[0]
    changes = {"min_speedup": 1.0, "required_speedup": 1.458, "binding": "repayment"}
    candidate = replace(first, speed=replace(first.speed, **changes))
    steps = 21.5 / (48 / 480.2 * (1 - 1 / 1.31))
    assert steps / 684 == pytest.approx(1.329, abs=0.001)
    found = advice(candidate, verdict, Code.SPEED_NOT_REPAID)
    assert "`repaid_within_runs = 1` in [gate] binds" in found
    assert found.endswith("`repaid_within_runs = 1.4` would have passed.")


def test_wrong_arithmetic_hides_what_follows_from_it(verdict):
    first = verdict.candidates[0]
    codes = (Code.ARM_FAILED, Code.QUALITY_WORSE, Code.PARITY_DIFFERS)
    assert advice(first, verdict, *codes) == advice(first, verdict, Code.PARITY_DIFFERS)


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
    reason = failure(code, "Found.", **({"metric": "accuracy", "value": 0.93} | numbers))
    (found,) = baseline_remedies(BaselineVerdict("baseline", False, (reason,), ()))
    assert f"`{rule}` in [gate.metrics.accuracy] binds" in found
    assert found.endswith(f"= {passing}` would have passed.")


# The terminal's lines.


def test_the_terminals_lines_are_short_plain_text(verdict):
    lines = summary_lines(verdict)
    assert lines[0] == verdict.decision.sentence
    assert "larger-batch: inconclusive" in lines
    assert f"  {remedies(verdict, verdict.candidates[0])[0]}" in lines
    assert [it in lines[-1] for it in ("at least 2.6 h", "4 jobs", "2 jobs")] == [True] * 3
    many = summary_lines(replace(verdict, candidates=verdict.candidates * 20))
    assert len(many) == 15
    assert all(line.isprintable() for line in many)


def test_dollars_keep_the_digits_that_matter():
    found = [dollars(usd) for usd in (0.0, 0.00421, 0.25, 1.408, 1234.5)]
    assert found == ["$0.00", "$0.00421", "$0.25", "$1.41", "$1,234.50"]
    assert amount(Amount(9540.0, 3.731)) == "2.6 h ($3.73)"
    assert amount(Amount(90.0, None)) == "90.0 s"


@pytest.mark.parametrize(
    ("arm", "figures", "shown"),
    [
        ("larger-batch", {"saved": Amount(900.0, 0.045)}, ("15.0 min (25%)", "$0.045 less", "11")),
        ("larger-batch", {"saved": Amount(900.0, -0.01)}, ("$0.01 more",)),
        ("larger-batch", {"retrainings_to_repay": None}, ("no number of retrainings",)),
        ("larger-batch", {"saved": Amount(-3.0, None)}, ("nothing: ", "3.0 s longer")),
        ("baseline", {}, ("nothing: ",)),
        ("none", {}, ("nothing: ",)),
    ],
)
def test_the_decision_names_what_was_registered_and_what_each_retraining_saves(
    verdict, arm, figures, shown
):
    cost = replace(verdict.cost, candidates=(replace(verdict.cost.candidates[0], **figures),))
    other = replace(verdict, cost=cost, decision=Decision(arm, 1, f"Release {arm}."))
    assert decided(other, []) == f"Release {arm}."
    assert decided(other, ["news/1, Approved"]).endswith(" news/1, Approved.")
    assert [words for words in shown if words not in saves(other)] == []
