"""How a posture moves, and why."""

from __future__ import annotations

import dataclasses

import pytest

from compilegate.posture.contract import Policy
from compilegate.posture.records import Record
from compilegate.posture.state import Posture
from compilegate.posture.transitions import MOVES
from tests.posture.scenes import (
    HERE,
    POLICY,
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


def test_a_workload_without_a_record_is_in_shadow() -> None:
    plan = planned(Record(workload="news"), 0)
    assert (plan.posture, plan.arms) == (Posture.SHADOW, "all")
    assert "lost" in Record(workload="news").state.reason


def test_a_lost_record_does_not_shorten_the_shadow_week() -> None:
    record = executed(Record(workload="news"), 0, seen("pass"))
    record = executed(record, 1, seen("pass"))
    assert record.state.posture is Posture.SHADOW
    assert "not before" in record.decisions[-1].reason


def test_a_candidate_that_passes_its_benchmark_and_its_week_trains_alone() -> None:
    record = executed(after(benchmark()), 0, seen("pass"))
    assert record.state.posture is Posture.SHADOW
    assert record.state.reason == "compiled passed the benchmark"
    record = executed(record, 3, seen("pass"))
    assert record.state.posture is Posture.SHADOW
    record = executed(record, 7, seen("pass"))
    assert record.state.posture is Posture.ON
    assert record.state.reason == "compiled is promoted: 3 passes of the gate in a row"
    assert planned(record, 14).arms == "compiled"


def test_models_are_watched_for_a_month_after_the_promotion() -> None:
    record = turned_on()
    assert planned(record, 14).watched
    assert planned(record, 36).watched
    assert not planned(record, 38).watched
    assert not planned(after(put(Posture.OFF)), 1).watched


def test_of_several_candidates_the_fastest_is_promoted() -> None:
    both = [seen("pass", arm="a", speedup=1.3), seen("pass", arm="b", speedup=1.6)]
    record = executed(after(benchmark()), 0, *both, candidates=("a", "b"))
    record = executed(record, 7, *both, candidates=("a", "b"))
    assert record.state.arm == "b"


def test_a_refused_candidate_does_not_hold_back_another() -> None:
    broken = dataclasses.replace(seen("fail", arm="a"), broken=True)
    first = [broken, seen("pass", arm="b")]
    record = executed(after(benchmark()), 0, *first, candidates=("a", "b"))
    second = [seen("pass", arm="a", speedup=9.0), seen("pass", arm="b")]
    record = executed(record, 7, *second, candidates=("a", "b"))
    assert (record.state.posture, record.state.arm) == (Posture.ON, "b")


@pytest.mark.parametrize("stage", ["benchmark", "shadow", "on"])
def test_a_candidate_that_crashes_is_refused_wherever_it_is(stage: str) -> None:
    records = {
        "benchmark": after(benchmark()),
        "shadow": executed(after(benchmark()), 0, seen("pass")),
        "on": turned_on(),
    }
    crashed = dataclasses.replace(seen("fail"), crashed=True)
    record = executed(records[stage], 20, crashed)
    assert record.state.posture is Posture.REVERTED
    assert "fail by the gate" in record.state.reason
    assert planned(record, 21).arms == "baseline"


LOST = "compiled: Train-compiled-1: killed by SIGKILL"


@pytest.mark.parametrize("stage", ["benchmark", "shadow", "on"])
def test_a_job_that_the_machine_lost_moves_no_posture(stage: str) -> None:
    """However often it happens: half a percent of killed jobs would revert good compilers."""
    records = {
        "benchmark": after(benchmark()),
        "shadow": executed(after(benchmark()), 0, seen("pass")),
        "on": turned_on(),
    }
    before = records[stage]
    record = before
    for week in range(1, 13):
        record = record.after(started(f"e{week}", 20 + week))
        record = record.after(settled(f"e{week}", 20 + week, lost=LOST))
    assert (record.state.posture, record.state.arm) == (before.state.posture, before.state.arm)
    assert "killed by SIGKILL" in record.decisions[-1].reason
    assert not record.state.rescue


def test_what_other_candidates_showed_counts_beside_a_lost_job() -> None:
    record = after(benchmark()).after(started("e", 0, candidates=("a", "b")))
    record = record.after(settled("e", 0.1, seen("pass", arm="b"), lost="a: its job was killed"))
    assert (record.state.posture, record.state.reason) == (
        Posture.SHADOW,
        "b passed the benchmark",
    )


def test_a_workload_that_a_lost_job_left_without_a_model_gets_one_from_its_baseline() -> None:
    record = turned_on().after(started("e", 20))
    record = record.after(settled("e", 20.1, lost=LOST, registered="none"))
    assert record.state.posture is Posture.ON
    plan = planned(record, 20.2)
    assert plan.arms == "baseline"
    assert "lost" in plan.reason


def test_trying_ends_when_nothing_is_decided_for_long() -> None:
    record, policy = after(benchmark()), Policy(patience=4)
    for number in range(4):
        assert record.state.posture is Posture.BENCHMARK
        record = record.after(started(f"e{number}", number, policy=policy))
        what = seen("inconclusive", difference=-0.02 + 0.01 * (-1) ** number)
        record = record.after(settled(f"e{number}", number, what))
    assert record.state.posture is Posture.REVERTED
    assert record.state.reason == "no candidate was promoted in 4 executions"


def test_inconclusive_executions_that_agree_promote_together() -> None:
    record = executed(after(benchmark()), 0, seen("pass", difference=0.001))
    for week in range(1, 6):
        what = seen("inconclusive", difference=0.001 * (-1) ** week)
        record = executed(record, 7 * week, what)
    assert record.state.posture is Posture.ON
    assert "over 6 executions together" in record.state.reason


def test_one_execution_in_eight_is_an_audit() -> None:
    record = turned_on()
    kinds = []
    for week in range(2, 20):
        plan = planned(record, 7 * week)
        kinds.append(plan.audit)
        assert plan.arms == ("all" if plan.audit else "compiled")
        record = executed(record, 7 * week, seen("pass"))
    assert [week for week, audit in enumerate(kinds, start=1) if audit] == [8, 16]


@pytest.mark.parametrize("what", ["code", "data", "image", "instance", "libraries"])
def test_a_change_of_what_trains_is_audited_at_once(what: str) -> None:
    plan = planned(turned_on(), 14, fingerprint={**HERE, what: "another"})
    assert (plan.arms, plan.audit) == ("all", True)
    assert plan.reason == f"on: an audit of all arms, because {what} changed"


def test_an_audit_that_failed_to_happen_is_still_due() -> None:
    changed = {**HERE, "image": "i2"}
    record = turned_on().after(started("lost", 14, fingerprint=changed))
    assert planned(record, 21, fingerprint=changed).audit


def test_the_reference_is_renewed_by_an_audit_and_expires_without() -> None:
    policy = Policy(passes=2, audit_every=1000, reference_days=90)
    record = turned_on()
    assert not planned(record, 95, policy=policy).audit
    plan = planned(record, 105, policy=policy)
    assert plan.audit
    assert "older than 90 days" in plan.reason
    record = record.after(started("audit", 105, policy=policy))
    record = record.after(settled("audit", 105.1, seen("pass")))
    assert record.state.reference is not None
    assert len(record.state.reference.values) > 1
    assert not planned(record, 112, policy=policy).audit


def test_a_value_far_below_the_reference_is_audited() -> None:
    record = executed(turned_on(), 14, seen("pass", value=0.8))
    assert record.state.posture is Posture.ON
    plan = planned(record, 21)
    assert plan.audit
    assert "accuracy is 0.1 worse than its reference" in plan.reason
    passed = executed(record, 21, seen("pass"))
    assert passed.state.posture is Posture.ON
    assert not planned(passed, 28).audit


def test_a_failed_audit_is_repeated_with_the_baseline_registered_meanwhile() -> None:
    record = executed(turned_on(), 14, seen("pass", value=0.8))
    record = executed(record, 21, seen("fail"))
    assert record.state.posture is Posture.ON
    again = planned(record, 28)
    assert (again.audit, again.registers) == (True, "baseline")
    assert "it is repeated" in again.reason
    passed = executed(record, 28, seen("pass"))
    assert passed.state.posture is Posture.ON
    assert "after one that failed" in passed.decisions[-1].reason
    assert (planned(passed, 35).arms, planned(passed, 35).registers) == ("compiled", "gate")


def test_audits_that_fail_again_and_again_revert() -> None:
    record = executed(turned_on(), 14, seen("pass", value=0.8))
    for week in (3, 4):
        record = executed(record, 7 * week, seen("fail", difference=-0.05))
        assert record.state.posture is Posture.ON
    record = executed(record, 35, seen("fail", difference=-0.05))
    assert record.state.posture is Posture.REVERTED
    assert "3 executions failed, the last 2 in a row" in record.state.reason


def test_repeated_audits_revert_by_what_they_prove_together() -> None:
    record = executed(turned_on(), 14, seen("pass", value=0.8))
    record = executed(record, 21, seen("fail", difference=-0.09))
    for week in range(4, 12):
        if record.state.posture is not Posture.ON:
            break
        what = seen("inconclusive", difference=-0.09 + 0.0001 * (-1) ** week)
        record = executed(record, 7 * week, what)
    assert record.state.posture is Posture.REVERTED
    assert "worse than the baseline's by" in record.state.reason


def test_an_audit_that_fails_by_its_evidence_reverts_at_once() -> None:
    record = executed(turned_on(), 14, seen("pass", value=0.8))
    broken = dataclasses.replace(seen("fail"), broken=True)
    assert executed(record, 21, broken).state.posture is Posture.REVERTED
    crashed = dataclasses.replace(seen("fail"), crashed=True)
    assert executed(record, 21, crashed).state.posture is Posture.REVERTED


def test_the_benchmark_registers_the_baseline() -> None:
    assert planned(after(benchmark()), 0).registers == "baseline"
    assert planned(executed(after(benchmark()), 0, seen("pass")), 7).registers == "gate"


def test_audits_that_agree_revert_what_no_single_one_refuses() -> None:
    record = turned_on().after(put(Posture.ON, 8, "compiled"))
    for week in range(2, 12):
        if record.state.posture is Posture.REVERTED:
            break
        what = seen("inconclusive", difference=-0.03 + 0.001 * (-1) ** week)
        record = executed(record, 7 * week, what)
    assert record.state.posture is Posture.REVERTED
    assert "accuracy is worse than the baseline's by" in record.state.reason


def test_audits_that_decide_nothing_lead_back_to_shadow() -> None:
    policy = Policy(passes=2, patience=3)
    record = turned_on()
    record = record.after(put(Posture.ON, 8, "compiled"))
    for week in range(2, 5):
        assert planned(record, 7 * week, policy=policy).audit
        record = record.after(started(f"e{week}", 7 * week, policy=policy))
        what = seen("inconclusive", difference=0.1 * (-1) ** week)
        record = record.after(settled(f"e{week}", 7 * week, what))
    assert record.state.posture is Posture.SHADOW
    assert "audits in a row decided nothing" in record.state.reason


def test_reverted_stays_until_a_person_or_an_image_changes_it() -> None:
    record = executed(turned_on(), 14, seen("fail"))
    again = executed(record, 21)
    assert again.state.posture is Posture.REVERTED
    assert planned(again, 28, fingerprint={**HERE, "code": "c2"}).arms == "baseline"
    plan = planned(again, 28, fingerprint={**HERE, "image": "i2"})
    assert (plan.posture, plan.arms) == (Posture.BENCHMARK, "all")
    reset = again.after(benchmark(28))
    assert reset.state.posture is Posture.BENCHMARK
    assert reset.state.reason == "reset by anna: a new compiler to try"


def test_passes_under_another_image_do_not_count() -> None:
    record = executed(after(benchmark()), 0, seen("pass"))
    changed = {**HERE, "image": "i2"}
    record = executed(record, 7, seen("pass"), fingerprint=changed)
    assert record.state.posture is Posture.SHADOW
    record = executed(record, 14, seen("pass"), fingerprint=changed)
    assert record.state.posture is Posture.ON


def test_a_verdict_of_an_earlier_posture_moves_nothing() -> None:
    record = executed(after(benchmark()), 0, seen("pass"))
    record = record.after(started("slow", 6)).after(started("fast", 7))
    record = record.after(settled("fast", 7.1, seen("pass")))
    assert record.state.posture is Posture.ON
    late = record.after(settled("slow", 7.2, seen("fail")))
    assert late.state.posture is Posture.ON
    assert late.decisions[-1].reason == (
        "planned under shadow, which it no longer is: the verdict moves nothing"
    )


def test_an_execution_is_settled_once() -> None:
    record = after(benchmark(), started("e", 0), settled("e", 1, seen("pass")))
    again = record.after(settled("e", 2, seen("fail")))
    assert again.state == record.state
    assert "is settled: nothing moves" in again.decisions[-1].reason


def test_an_execution_that_was_stopped_says_nothing() -> None:
    record = after(benchmark(), started("e", 0), settled("e", 1, nothing="it was stopped"))
    assert record.state.posture is Posture.BENCHMARK
    assert record.decisions[-1].reason == "nothing was learned: it was stopped"


def test_a_candidate_that_is_no_longer_declared_does_not_train() -> None:
    plan = planned(turned_on(), 14, candidates=("other",))
    assert (plan.posture, plan.arms) == (Posture.SHADOW, "all")


def test_what_a_person_sets_is_done_and_turning_on_is_audited_first() -> None:
    assert planned(after(put(Posture.OFF)), 1).arms == "baseline"
    plan = planned(after(put(Posture.ON, 0, "compiled")), 1)
    assert (plan.arms, plan.audit) == ("all", True)
    assert POLICY.passes == 2


@pytest.mark.parametrize("stage", [Posture.BENCHMARK, Posture.SHADOW])
def test_a_failed_execution_before_on_is_repeated_with_the_baseline_registered(
    stage: Posture,
) -> None:
    record = executed(after(put(stage)), 0, seen("fail", difference=-0.05))
    assert record.state.posture is stage
    assert record.decisions[-1].reason == f"{stage}: compiled fail, to be repeated"
    assert planned(record, 7).registers == "baseline"
    passed = executed(record, 7, seen("pass"))
    assert passed.state.posture is Posture.SHADOW
    assert planned(passed, 14).registers == "gate"
    for week in (1, 2):
        assert record.state.posture is stage
        record = executed(record, 7 * week, seen("fail", difference=-0.05))
    assert record.state.posture is Posture.REVERTED
    assert "3 executions failed, the last 2 in a row" in record.state.reason


def test_every_move_of_the_table_is_by_one_step_or_back() -> None:
    order = [Posture.REVERTED, Posture.BENCHMARK, Posture.SHADOW, Posture.ON]
    for (before, _), to in MOVES.items():
        assert order.index(to) - order.index(before) <= 1
