"""A machine that is too busy for an answer: what the gate says then, and what it does not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from compilegate.evidence import Evidence, EvidenceRecord
from compilegate.gate.judgements import CompileTime
from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.settings import GateSettings, MetricGuard
from compilegate.gate.speed.arm_speed import ArmSpeed, Runs
from compilegate.gate.speed.compile_time import CompileTimes
from compilegate.gate.speed.judgement import judge_speed
from compilegate.gate.speed.machine import busy_machine
from compilegate.job.evidence import CompilerRecord

BUSY = "9.6 processes wanted to run on 2 processors"
SETTINGS = GateSettings(
    metrics={"accuracy": MetricGuard(direction="higher", margin=0.01)}, min_speedup=1.2
)


def record(**checkup: object) -> EvidenceRecord:
    evidence = Evidence(
        job="a",
        arm="baseline",
        seed=1,
        recipe={},
        compiler=CompilerRecord(name="eager", ran=False),
        speed=None,
        metrics={},
        environment={},
        digests={},
        checkup=checkup,
    )
    return EvidenceRecord(evidence=evidence, steps=None, examples=None)


def arm(*rates: float, compile_seconds: float = 0.0) -> ArmSpeed:
    compiling = CompileTime(compile_seconds, compile_seconds, len(rates))
    return ArmSpeed(
        batch_size=32,
        rates=rates,
        runs=Runs(
            steady_seconds=tuple(np.full(500, 32 / rate) for rate in rates),
            compilation=CompileTimes(compiling, None),
            train_seconds=100.0,
            steps=1000,
        ),
    )


QUIET = arm(100.0, 101.0, 99.0)


def test_jobs_that_had_their_processors_to_themselves_say_nothing():
    """Two jobs on two processors, and what compiles for them now and then."""
    assert busy_machine([record(load=2.6, processors=2, steal=0.001)] * 4) is None


@pytest.mark.parametrize(
    "checkup", [{}, {"load": 9.0}, {"load": "much", "processors": 2}, {"load": float("nan")}]
)
def test_jobs_that_do_not_tell_say_nothing(checkup: dict[str, object]):
    assert busy_machine([record(**checkup)] * 2) is None
    assert busy_machine([]) is None


def test_waiting_processes_and_stolen_time_are_named():
    said = busy_machine([record(load=9.61, processors=2, steal=0.12)] * 3)
    assert said == f"{BUSY} and its hypervisor gave 12% of the processors' time to others"
    assert busy_machine([record(load=4.0, processors=1)]) == (
        "4.0 processes wanted to run on one processor"
    )


def test_one_disturbed_job_of_four_does_not_make_the_machine_busy():
    quiet, busy = record(load=2.0, processors=2), record(load=20.0, processors=2)
    assert busy_machine([quiet, busy, quiet, quiet]) is None
    assert busy_machine([busy, busy, quiet, busy]) is not None


def test_what_a_busy_machine_left_undecided_is_its_own_reason_and_asks_for_no_more_seeds():
    undecided = arm(110.0, 150.0, 140.0)
    _, by_seeds = judge_speed(QUIET, undecided, SETTINGS, 0.95)
    judgement, reason = judge_speed(QUIET, undecided, SETTINGS, 0.95, busy_machine=BUSY)
    assert by_seeds.code is Code.SPEED_UNDECIDED
    assert "would settle it" in by_seeds.sentence
    assert (reason.code, reason.outcome) == (Code.SPEED_BUSY_MACHINE, Outcome.INCONCLUSIVE)
    assert f"The machine was busy: {BUSY}. This says nothing about the compiler" in reason.sentence
    assert "would settle it" not in reason.sentence
    assert judgement is not None
    assert judgement.busy_machine == BUSY


def test_a_compilation_that_a_busy_machine_drew_out_fails_nothing():
    """How long compiling takes is timed once in a job, so nothing averages the neighbours out."""
    slow_to_compile = arm(140.0, 141.0, 139.0, compile_seconds=150.0)
    _, reason = judge_speed(QUIET, slow_to_compile, SETTINGS, 0.95)
    assert (reason.code, reason.outcome) == (Code.SPEED_NOT_REPAID, Outcome.FAIL)
    _, reason = judge_speed(QUIET, slow_to_compile, SETTINGS, 0.95, busy_machine=BUSY)
    assert (reason.code, reason.outcome) == (Code.SPEED_BUSY_MACHINE, Outcome.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("rates", "outcome"),
    [((150.0, 151.0, 149.0), Outcome.PASS), ((104.0, 105.0, 103.0), Outcome.FAIL)],
)
def test_what_is_clear_all_the_same_stays_decided(rates: tuple[float, ...], outcome: Outcome):
    calm = judge_speed(QUIET, arm(*rates), SETTINGS, 0.95)
    busy = judge_speed(QUIET, arm(*rates), SETTINGS, 0.95, busy_machine=BUSY)
    assert calm[1] == busy[1]
    assert busy[1].outcome is outcome
    assert calm[0] is not None
    assert busy[0] == dataclasses.replace(calm[0], busy_machine=BUSY)
