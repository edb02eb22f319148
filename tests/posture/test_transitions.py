"""How a posture moves, and why."""

from __future__ import annotations

import dataclasses

import pytest

from compilegate.posture.contract import Policy
from compilegate.posture.function import crashed
from compilegate.posture.records import Record
from compilegate.posture.state import Posture, Seen
from compilegate.posture.transitions import MOVES
from tests.posture.scenes import (
    HERE,
    after,
    benchmark,
    executed,
    planned,
    put,
    seen,
    settled,
    started,
    turned_on,
)

NEW_IMAGE = {**HERE, "image": "i2"}


def benchmarked() -> Record:
    return executed(after(benchmark()), 0, seen("pass"))


def suspected() -> Record:
    """In `on`, with an audit due."""
    return executed(turned_on(), 14, seen("pass", value=0.8))


STAGES = {"benchmark": after(benchmark()), "shadow": benchmarked(), "on": turned_on()}


def test_every_move_of_the_table_is_by_one_step_or_back() -> None:
    order = [Posture.REVERTED, Posture.BENCHMARK, Posture.SHADOW, Posture.ON]
    for (before, _), to in MOVES.items():
        assert order.index(to) - order.index(before) <= 1


# Promotion


def test_a_workload_without_a_record_is_in_shadow_for_a_whole_week() -> None:
    record = Record(workload="news")
    assert planned(record, 0).arms == "all"
    for number in (0, 1):
        record = executed(record, number, seen("pass"))
    assert record.state.posture is Posture.SHADOW
    assert executed(record, 7, seen("pass")).state.posture is Posture.ON


def test_a_candidate_that_passes_its_benchmark_and_its_week_trains_alone() -> None:
    assert planned(after(benchmark()), 0).registers == "baseline"
    record = benchmarked()
    assert planned(record, 3).registers == "gate"
    record = executed(record, 3, seen("pass"))
    assert record.state.posture is Posture.SHADOW
    record = executed(record, 7, seen("pass"))
    assert (record.state.posture, planned(record, 14).arms) == (Posture.ON, "compiled")
    assert "3 passes" in record.state.reason


def test_models_are_watched_for_a_month_after_the_promotion() -> None:
    watched = [number for number in (14, 36, 38) if planned(turned_on(), number).watched]
    assert watched == [14, 36]
    assert not planned(after(put(Posture.OFF)), 1).watched


def test_of_several_candidates_the_fastest_that_is_not_refused_is_promoted() -> None:
    candidates = ("a", "b", "c")
    broken = dataclasses.replace(seen("fail", arm="c", speedup=9.0), broken=True)
    both = [seen("pass", arm="a", speedup=1.3), seen("pass", arm="b", speedup=1.6)]
    record = executed(after(benchmark()), 0, *both, broken, candidates=candidates)
    repaired = seen("pass", arm="c", speedup=9.0)
    record = executed(record, 7, *both, repaired, candidates=candidates)
    assert (record.state.posture, record.state.arm) == (Posture.ON, "b")


def test_inconclusive_executions_that_agree_promote_together() -> None:
    record = executed(after(benchmark()), 0, seen("pass", difference=0.001))
    for week in range(1, 6):
        what = seen("inconclusive", difference=0.001 * (-1) ** week)
        record = executed(record, 7 * week, what)
    assert record.state.posture is Posture.ON
    assert "6 executions together" in record.state.reason


def test_passes_under_another_image_do_not_count() -> None:
    record = executed(benchmarked(), 7, seen("pass"), fingerprint=NEW_IMAGE)
    assert record.state.posture is Posture.SHADOW
    record = executed(record, 14, seen("pass"), fingerprint=NEW_IMAGE)
    assert record.state.posture is Posture.ON


def test_trying_ends_when_nothing_is_decided_for_long() -> None:
    record, policy = after(benchmark()), Policy(patience=4)
    for number in range(4):
        assert record.state.posture is Posture.BENCHMARK
        what = seen("inconclusive", difference=-0.02 + 0.01 * (-1) ** number)
        record = executed(record, number, what, policy=policy)
    assert record.state.posture is Posture.REVERTED


# Failures


@pytest.mark.parametrize("stage", [Posture.BENCHMARK, Posture.SHADOW])
def test_a_failed_execution_before_on_is_repeated_with_the_baseline_registered(
    stage: Posture,
) -> None:
    record = executed(after(put(stage)), 0, seen("fail", difference=-0.05))
    assert (record.state.posture, planned(record, 7).registers) == (stage, "baseline")
    passed = executed(record, 7, seen("pass"))
    assert (passed.state.posture, planned(passed, 14).registers) == (Posture.SHADOW, "gate")
    for week in (1, 2):
        assert record.state.posture is stage
        record = executed(record, 7 * week, seen("fail", difference=-0.05))
    assert record.state.posture is Posture.REVERTED
    assert "the last 2 in a row" in record.state.reason


@pytest.mark.parametrize("how", ["crashed", "broken"])
@pytest.mark.parametrize("stage", STAGES)
def test_what_is_no_chance_refuses_at_once(stage: str, how: str) -> None:
    failed = dataclasses.replace(seen("fail"), crashed=how == "crashed", broken=how == "broken")
    record = executed(STAGES[stage], 20, failed)
    assert record.state.posture is Posture.REVERTED
    assert failed.reason in record.state.reason
    assert planned(record, 21).arms == "baseline"


@pytest.mark.parametrize("stage", STAGES)
def test_a_job_that_the_machine_lost_moves_no_posture(stage: str) -> None:
    """However often it happens: half a percent of killed jobs would revert good compilers."""
    before = record = STAGES[stage]
    for week in range(1, 13):
        name, when = f"e{week}", 20 + week
        record = record.after(started(name, when), settled(name, when, lost="killed by SIGKILL"))
    assert (record.state.posture, record.state.arm) == (before.state.posture, before.state.arm)
    assert "killed by SIGKILL" in record.decisions[-1].reason


def test_what_other_candidates_showed_counts_beside_a_lost_job() -> None:
    record = after(benchmark(), started("e", 0, candidates=("a", "b")))
    record = record.after(settled("e", 0.1, seen("pass", arm="b"), lost="a: its job was killed"))
    assert record.state.posture is Posture.SHADOW


def test_a_workload_that_a_lost_job_left_without_a_model_gets_one_from_its_baseline() -> None:
    record = turned_on().after(started("e", 20), settled("e", 20.1, lost="x", registered="none"))
    assert record.state.posture is Posture.ON
    assert planned(record, 20.2).arms == "baseline"


@pytest.mark.parametrize(
    "reason",
    [
        "InternalServerError: We encountered an internal error. Please try again.",
        "CapacityError: Unable to provision requested ML compute capacity.",
        "AlgorithmError: , exit code: 137",
        "ClientError: Please use an instance type with more memory; out of memory",
        "AlgorithmError: killed by SIGTERM, exit code: 143",
        "",
    ],
)
def test_what_the_machine_did_shows_nothing_about_the_candidate(reason: str) -> None:
    found, lost = crashed(["compiled"], {"Train-compiled-1": reason})
    assert found == ()
    assert lost.startswith("Train-compiled-1: ")


def test_what_its_program_did_refuses_a_candidate_and_no_other_step_does() -> None:
    why = "AlgorithmError: ExecuteUserScriptError: RuntimeError: no kernel, exit code: 1"
    failed = dict.fromkeys(("Train-a-2", "Train-baseline-1", "Prepare"), why)
    found, lost = crashed(["a", "b"], failed)
    assert [(each.arm, each.outcome, each.crashed) for each in found] == [("a", "fail", True)]
    assert lost == ""


# Audits


def test_one_execution_in_eight_is_an_audit() -> None:
    record, audits = turned_on(), []
    for week in range(2, 20):
        plan = planned(record, 7 * week)
        assert plan.arms == ("all" if plan.audit else "compiled")
        audits += [week] * plan.audit
        record = executed(record, 7 * week, seen("pass"))
    assert audits == [9, 17]


@pytest.mark.parametrize("what", HERE)
def test_a_change_of_what_trains_is_audited_until_an_audit_happens(what: str) -> None:
    changed = {**HERE, what: "another"}
    plan = planned(turned_on(), 14, fingerprint=changed)
    assert (plan.arms, plan.audit) == ("all", True)
    assert f"{what} changed" in plan.reason
    assert planned(turned_on().after(started("lost", 14, fingerprint=changed)), 21).audit


def test_the_reference_is_renewed_by_an_audit_and_expires_without() -> None:
    policy = Policy(passes=2, audit_every=1000, reference_days=90)
    record = turned_on()
    assert [planned(record, when, policy=policy).audit for when in (95, 105)] == [False, True]
    record = executed(record, 105, seen("pass"), policy=policy)
    assert not planned(record, 112, policy=policy).audit


def test_a_value_far_below_the_reference_is_audited() -> None:
    record = suspected()
    assert record.state.posture is Posture.ON
    assert planned(record, 21).audit
    passed = executed(record, 21, seen("pass"))
    assert (passed.state.posture, planned(passed, 28).audit) == (Posture.ON, False)


def test_a_failed_audit_is_repeated_with_the_baseline_registered_meanwhile() -> None:
    record = executed(suspected(), 21, seen("fail", difference=-0.05))
    again = planned(record, 28)
    assert (again.audit, again.registers) == (True, "baseline")
    passed = planned(executed(record, 28, seen("pass")), 35)
    assert (passed.arms, passed.registers) == ("compiled", "gate")
    record = executed(record, 28, seen("fail", difference=-0.05))
    assert record.state.posture is Posture.ON
    record = executed(record, 35, seen("fail", difference=-0.05))
    assert record.state.posture is Posture.REVERTED
    assert "the last 2 in a row" in record.state.reason


def until_reverted(record: Record, difference: float, spread: float) -> Record:
    """Inconclusive audits, one a week."""
    for week in range(4, 14):
        if record.state.posture is Posture.ON:
            what: Seen = seen("inconclusive", difference=difference + spread * (-1) ** week)
            record = executed(record, 7 * week, what)
    return record


def test_audits_revert_by_what_they_prove_together() -> None:
    by_hand = turned_on().after(put(Posture.ON, 8, "compiled"))
    failed = executed(suspected(), 21, seen("fail", difference=-0.09))
    for record in (until_reverted(by_hand, -0.03, 0.001), until_reverted(failed, -0.09, 0.0001)):
        assert record.state.posture is Posture.REVERTED
        assert "accuracy is worse" in record.state.reason


# People, and executions that overlap


def test_reverted_stays_until_a_person_or_an_image_changes_it() -> None:
    record = executed(turned_on(), 14, seen("fail"))
    assert executed(record, 21).state.posture is Posture.REVERTED
    assert planned(record, 28, fingerprint={**HERE, "code": "c2"}).arms == "baseline"
    plan = planned(record, 28, fingerprint=NEW_IMAGE)
    assert (plan.posture, plan.arms) == (Posture.BENCHMARK, "all")
    reset = record.after(benchmark(28))
    assert (reset.state.posture, planned(reset, 29).arms) == (Posture.BENCHMARK, "all")
    assert reset.state.reason == "reset by anna: a new compiler to try"


def test_what_a_person_sets_holds_and_turning_on_begins_with_an_audit() -> None:
    assert planned(after(put(Posture.OFF)), 1).arms == "baseline"
    plan = planned(after(put(Posture.ON, 0, "compiled")), 1)
    assert (plan.arms, plan.audit) == ("all", True)


def test_a_candidate_that_is_no_longer_declared_does_not_train() -> None:
    plan = planned(turned_on(), 14, candidates=("other",))
    assert (plan.posture, plan.arms) == (Posture.SHADOW, "all")


def test_a_verdict_of_an_earlier_posture_moves_nothing() -> None:
    record = benchmarked().after(started("slow", 6), started("fast", 7))
    record = record.after(settled("fast", 7.1, seen("pass")))
    assert record.state.posture is Posture.ON
    late = record.after(settled("slow", 7.2, seen("fail")))
    assert late.state == dataclasses.replace(record.state, open={})


def test_an_execution_is_settled_once_and_one_that_was_stopped_shows_nothing() -> None:
    record = after(benchmark(), started("e", 0), settled("e", 1, nothing="it was stopped"))
    assert record.state.posture is Posture.BENCHMARK
    assert "it was stopped" in record.decisions[-1].reason
    again = record.after(settled("e", 2, seen("pass")))
    assert again.state == record.state
