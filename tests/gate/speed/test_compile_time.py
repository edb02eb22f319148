"""Compile time: cold and warm are told apart, and break-even counts what the jobs started from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from compilegate.gate.judge import judge
from compilegate.gate.judgements import CompileState, CompileTime
from compilegate.gate.observations import observe
from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.speed.compile_time import CompileTimes, compile_times
from compilegate.job.evidence import CompileCacheRecord, EvidenceRecord, column_digests
from compilegate.report.formats import compilations

COLD = CompileCacheRecord("cold", "There was none.", "f" * 64, 0, 2, 0, 570_000)
WARM = CompileCacheRecord(
    "warm",
    "All 2 graphs were in the cache.",
    "f" * 64,
    2,
    0,
    570_000,
    0,
    load_seconds=0.1,
    cold_compile_seconds=25.0,
    cold_first_step_seconds=25.2,
)


def replicate(record: EvidenceRecord, cache: CompileCacheRecord | None, seconds: float) -> Any:
    """The record with a first step and a compile time of so many seconds."""
    assert record.steps is not None
    times = record.steps.seconds.copy()
    times[0] = seconds + 0.25
    steps = dataclasses.replace(record.steps, seconds=times)
    evidence = dataclasses.replace(
        record.evidence,
        compile_cache=cache,
        compiler=dataclasses.replace(record.evidence.compiler, compile_seconds=seconds),
        speed=dataclasses.replace(
            record.evidence.speed,
            train_seconds=float(times.sum()),
            total_seconds=float(times.sum()) + 3.0,
        ),
        digests={**record.evidence.digests, **column_digests(steps, None, None)},
    )
    return dataclasses.replace(record, evidence=evidence, steps=steps)


def times_of(execution: Any, *replicates: tuple[CompileCacheRecord | None, float]) -> CompileTimes:
    record = execution.records["fast", 1]
    return compile_times([replicate(record, cache, seconds) for cache, seconds in replicates])


def test_each_state_has_its_own_mean_and_warm_counts_as_soon_as_it_was_measured(execution):
    times = times_of(execution, (COLD, 20.0), (COLD, 30.0), (WARM, 3.0))
    assert times.cold == CompileTime(25.0, 25.25, jobs=2)
    assert times.warm == CompileTime(3.0, 3.25, jobs=1)
    assert (times.state, times.seconds) == (CompileState.WARM, 3.0)


def test_warm_jobs_bring_the_cold_figures_of_the_job_that_filled_the_cache(execution):
    times = times_of(execution, (WARM, 2.0), (WARM, 4.0))
    assert times.cold == CompileTime(25.0, 25.2, jobs=2, earlier=True)
    assert (times.state, times.seconds) == (CompileState.WARM, 3.0)


@pytest.mark.parametrize("state", ["cold", "ignored", None])
def test_a_job_that_did_not_find_its_graphs_started_cold(execution, state):
    cache = None if state is None else dataclasses.replace(COLD, state=state)
    times = times_of(execution, (cache, 21.0))
    assert (times.cold, times.warm) == (CompileTime(21.0, 21.25, jobs=1), None)
    assert (times.state, times.seconds) == (CompileState.COLD, 21.0)


@pytest.mark.slow
def test_the_verdict_counts_warm_compilation_in_a_warm_execution(
    new_execution: Callable[..., Any],
) -> None:
    cold, warm = new_execution(), new_execution()
    for execution, cache, seconds in ((cold, None, 5.0), (warm, WARM, 0.5)):
        for key, record in execution.records.items():
            if key[0] == "fast":
                execution.records[key] = replicate(record, cache, seconds)
    candidates = [judge(each.experiment, each.records, None).candidates[0] for each in (cold, warm)]
    speeds = [candidate.speed.run for candidate in candidates]
    assert [speed.compile_state for speed in speeds] == ["cold", "warm"]
    few = speeds[1].break_even_steps  # whole steps: rounded up from a tenth of the cold ones
    assert 10 * (few - 1) < speeds[0].break_even_steps <= 10 * few
    assert (
        candidates[0].speed.speedup == candidates[1].speed.speedup
    )  # the first step is never a steady one
    sentences = " ".join(reason.sentence for each in candidates for reason in each.reasons)
    assert "Compiling took 5.0 s cold. " in sentences
    assert "Compiling took 25.0 s cold, 0.5 s warm." in sentences
    assert compilations(speeds[0]) == "5.0 s cold (first step 5.2 s), warm not measured"
    assert compilations(speeds[1]) == (
        "25.0 s cold (first step 25.2 s, of the jobs that filled the cache), "
        "500 ms warm (first step 750 ms)"
    )


def test_a_first_job_that_compiled_all_is_no_time_lost_elsewhere(execution):
    """Its minute is compilation: of these trainings, though the next ones will be warm."""
    for key, record in execution.records.items():
        if key[0] == "fast":
            first = key[1] == 1
            cache, seconds = (COLD, 300.0) if first else (WARM, 0.5)
            execution.records[key] = replicate(record, cache, seconds)
    candidate = judge(execution.experiment, execution.records, None).candidates[0]
    assert candidate.speed.run.candidate_compile_seconds == 0.5
    assert Code.SPEED_LOST_ELSEWHERE not in [reason.code for reason in candidate.reasons]
    assert candidate.outcome is Outcome.PASS


def test_why_a_cache_was_ignored_is_observed_for_the_report(execution):
    ignored = dataclasses.replace(COLD, state="ignored", reason="a.tar was ignored: it is damaged.")
    records = {
        **execution.records,
        ("fast", 1): replicate(execution.records["fast", 1], ignored, 20.0),
        ("fast", 2): replicate(execution.records["fast", 2], COLD, 20.0),
    }
    observed = observe(execution.experiment, records).replicates
    reasons = {(item.arm, item.seed): item.cache_ignored for item in observed}
    assert reasons["fast", 1] == "a.tar was ignored: it is damaged."
    assert reasons["fast", 2] is None
    assert reasons["baseline", 1] is None
