"""How a posture moves, and why: courses of weekly executions, and what changes between them."""

from __future__ import annotations

import dataclasses
import re

import pytest

from compilegate.posture.contract import Policy
from compilegate.posture.function import crashed
from compilegate.posture.records import Record
from compilegate.posture.state import Event, Posture, Settled
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

BENCHMARK, SHADOW, ON = benchmark(), put(Posture.SHADOW), put(Posture.ON, 0, "compiled")


def ended(letter: str, week: int) -> Settled:
    """An execution's end, by a letter for what it shows."""
    name, when, turn = f"e{week}", 7 * week + 0.1, (-1) ** week
    if letter in "lL":
        registered = "none" if letter == "L" else "baseline"
        return settled(name, when, lost="SIGKILL", registered=registered)
    what = {
        "p": seen("pass"),
        "f": seen("fail", difference=-0.05),
        "b": seen("fail", broken=True),
        "c": seen("fail", crashed=True),
        "w": seen("pass", value=0.8),
        "i": seen("inconclusive", difference=0.001 * turn),
        "u": seen("inconclusive", difference=-0.01 + 0.03 * turn),
        "d": seen("inconclusive", difference=-0.03 + 0.001 * turn),
        "D": seen("inconclusive", difference=-0.09 + 0.0001 * turn),
    }
    return settled(name, when, what[letter])


@pytest.mark.parametrize(
    ("begins", "weeks", "trained", "posture", "why"),
    [
        # Promotion
        (None, "pp.", "AAC", "on", "2 passes"),
        (BENCHMARK, "pp.", "aAC", "on", "2 passes"),
        (BENCHMARK, "piiiii.", "aAAAAAC", "on", "6 executions together"),
        (BENCHMARK, "p[image]pp.", "aAAC", "on", "2 passes"),
        (SHADOW, "u" * 24 + ".", "A" * 24 + "B", "reverted", "24 executions"),
        # Before `on`, a failed execution is repeated with the baseline registered
        (BENCHMARK, "pfpp.", "aAaAC", "on", "2 passes"),
        (BENCHMARK, "fff.", "aaaB", "reverted", "last 2 in a row"),
        (SHADOW, "fff.", "AaaB", "reverted", "last 2 in a row"),
        # In `on`: one execution in eight is an audit, and one after a value below the reference
        (BENCHMARK, "p" * 18 + ".", "aA" + 2 * ("C" * 7 + "A") + "C", "on", ""),
        (BENCHMARK, "ppwp.", "aACAC", "on", ""),
        (BENCHMARK, "ppwfp.", "aACAaC", "on", ""),
        (BENCHMARK, "ppwfff.", "aACAaaB", "reverted", "last 2 in a row"),
        (ON, "d" * 7 + ".", "A" * 7 + "B", "reverted", "accuracy is worse"),
        (BENCHMARK, "ppwfDDD.", "aACAaaaB", "reverted", "accuracy is worse"),
        # A change of what trains is audited until an audit happens
        *((BENCHMARK, f"pp[{what}]..p.", "aAAAAC", "on", "") for what in HERE),
        (BENCHMARK, "pp[undeclared].", "aAA", "shadow", "no longer declares"),
        # What is no chance refuses at once
        *(
            (BENCHMARK, f"{before}{letter}.", f"{trained}B", "reverted", "fail by the gate")
            for letter in "bc"
            for before, trained in (("", "a"), ("p", "aA"), ("pp", "aAC"))
        ),
        # `reverted` and `off` stay until a person resets them; `reverted` until the image changes
        (BENCHMARK, "b.[code].[image].", "aBBa", "benchmark", "image changed"),
        (BENCHMARK, "b.[reset].[off].[image].", "aBaBB", "off", ""),
        # A job that the machine lost moves nothing, however often; the baseline makes a model
        (BENCHMARK, "l" * 12 + ".", "a" * 13, "benchmark", ""),
        (SHADOW, "l" * 12 + ".", "A" * 13, "shadow", ""),
        (BENCHMARK, "ppllll.", "aACCCCC", "on", ""),
        (BENCHMARK, "ppLp.", "aACBC", "on", ""),
    ],
)
def test_a_course_of_weekly_executions(
    begins: Event | None, weeks: str, trained: str, posture: str, why: str
) -> None:
    """Weeks: a letter each, `.` for one that does not end; before it what [changes].
    Trained: (A)ll, or all with the baseline registered (a), (B)aseline, (C)andidate."""
    record = Record(workload="news") if begins is None else after(begins)
    found, fingerprint, candidates = "", {**HERE}, ("compiled",)
    for week, (change, letter) in enumerate(re.findall(r"(?:\[(\w+)])?([\w.])", weeks)):
        if change in {"reset", "off"}:
            record = record.after(put(Posture("off" if change == "off" else "benchmark"), 7 * week))
        elif change == "undeclared":
            candidates = ("other",)
        elif change:
            fingerprint[change] = "another"
        record = record.after(
            started(f"e{week}", 7 * week, fingerprint={**fingerprint}, candidates=candidates)
        )
        plan = record.state.open[f"e{week}"]
        code = {"all": "A", "baseline": "B", "compiled": "C"}[plan.arms]
        found += "a" if (code, plan.registers) == ("A", "baseline") else code
        if letter != ".":
            record = record.after(ended(letter, week))
    assert (found, record.state.posture) == (trained, posture)
    assert why in record.state.reason


def test_nothing_is_promoted_before_the_shadow_days_and_models_are_watched_after() -> None:
    record = executed(executed(after(benchmark()), 0, seen("pass")), 3, seen("pass"))
    assert (record.state.posture, planned(record, 3).watched) == (Posture.SHADOW, False)
    record = executed(record, 7, seen("pass"))
    assert [number for number in (14, 36, 38) if planned(record, number).watched] == [14, 36]


def test_of_several_candidates_the_fastest_that_is_not_refused_is_promoted() -> None:
    both = [seen("pass", arm="a", speedup=1.3), seen("pass", arm="b", speedup=1.6)]
    record = after(benchmark())
    for week, broken in enumerate((True, False)):
        third = seen("fail" if broken else "pass", arm="c", speedup=9.0, broken=broken)
        record = executed(record, 7 * week, *both, third, candidates=("a", "b", "c"))
    assert (record.state.posture, record.state.arm) == (Posture.ON, "b")


def test_what_other_candidates_showed_counts_beside_a_lost_job() -> None:
    record = after(benchmark(), started("e", 0, candidates=("a", "b")))
    record = record.after(settled("e", 0.1, seen("pass", arm="b"), lost="a: its job was killed"))
    assert record.state.posture is Posture.SHADOW


@pytest.mark.parametrize(
    ("reason", "by_the_program"),
    [
        ("AlgorithmError: ExecuteUserScriptError: RuntimeError: no kernel, exit code: 1", True),
        ("CapacityError: Unable to provision requested ML compute capacity.", False),
        ("AlgorithmError: , exit code: 137", False),
        ("ClientError: Please use an instance type with more memory; out of memory", False),
        ("AlgorithmError: killed by SIGTERM, exit code: 143", False),
        ("", False),
    ],
)
def test_a_candidate_is_refused_for_its_program_and_not_for_the_machine(
    reason: str, by_the_program: bool
) -> None:
    failed = dict.fromkeys(("Prepare", "Train-baseline-1", "Train-a-2", "Train-a-1"), reason)
    found, lost = crashed(["a", "b"], failed)
    expected = [("a", "fail", True)] if by_the_program else []
    assert [(each.arm, each.outcome, each.crashed) for each in found] == expected
    assert lost.startswith("Train-a-2: ") is not by_the_program


# What changes between executions


def test_the_reference_is_renewed_by_an_audit_and_expires_without() -> None:
    policy = Policy(passes=2, audit_every=1000, reference_days=90)
    assert [planned(turned_on(), when, policy=policy).audit for when in (95, 105)] == [False, True]
    record = executed(turned_on(), 105, seen("pass"), policy=policy)
    assert not planned(record, 112, policy=policy).audit


def test_a_verdict_of_an_earlier_posture_moves_nothing() -> None:
    record = executed(after(benchmark()), 0, seen("pass"))
    record = record.after(started("slow", 6), started("fast", 7), settled("fast", 8, seen("pass")))
    assert record.state.posture is Posture.ON
    late = record.after(settled("slow", 9, seen("fail")))
    assert late.state == dataclasses.replace(record.state, open={})


def test_a_suspicion_outlives_an_execution_that_overlaps() -> None:
    record = turned_on().after(started("slow", 14))
    record = executed(record, 14, seen("pass", value=0.8)).after(settled("slow", 15, seen("pass")))
    assert planned(record, 21).audit


def test_an_execution_is_settled_once_and_one_that_was_stopped_shows_nothing() -> None:
    record = after(benchmark(), started("e", 0), settled("e", 1, nothing_learned="it was stopped"))
    assert record.state.posture is Posture.BENCHMARK
    assert "it was stopped" in record.decisions[-1].reason
    assert record.after(settled("e", 2, seen("pass"))).state == record.state
