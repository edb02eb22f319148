"""A verdict and observations with fixed numbers, some of them from hostile sources."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compilegate.gate import verdict as judged
from compilegate.gate.findings import Code, Note, Outcome, Reason
from compilegate.gate.observations import ArmObservation, Curve, Observations, ReplicateObservation

ACCURACY = judged.MetricJudgement(
    metric="accuracy",
    direction="higher",
    margin=0.01,
    relative_margin=None,
    baseline=0.9471,
    candidate=0.9433,
    delta=judged.Interval(-0.0038, -0.0071, -0.0005),
    outcome=Outcome.PASS,
    seeds=3,
    examples=2189,
    seed_sd=0.0021,
    seed_standard_error=0.0012,
    example_standard_error=0.0009,
    seeds_needed=None,
    examples_needed=None,
)
LOG_LOSS = replace(
    ACCURACY,
    metric="log_loss",
    direction="lower",
    margin=0.05,
    baseline=0.2011,
    candidate=0.2233,
    delta=judged.Interval(0.0222, -0.0104, 0.0548),
    outcome=Outcome.INCONCLUSIVE,
)
WATCHED = replace(LOG_LOSS, metric="perplexity", margin=None, outcome=None)
IN_ONE_LANGUAGE = replace(ACCURACY, outcome=Outcome.INCONCLUSIVE, part="language = <de>")
PARITY = judged.ParityJudgement(
    answer=judged.ParityAnswer.PASS,
    sentence="The compiled arithmetic is eager's.",
    seed=2,
    precision="fp32",
    limit=20.0,
    steps=4,
    tensors=27,
    judged=26,
    median_ratio=0.98,
    worst=judged.WorstTensor("gradient of <pooler>.bias", 3, 4.52, 5.4e-7, 9.1e-8),
)
BROKEN_PARITY = replace(
    PARITY,
    answer=judged.ParityAnswer.FAIL,
    median_ratio=None,
    worst=judged.WorstTensor("gradient of conv.weight", 0, 8.4e6, 1.0, 1.2e-7),
    departs="In the backward pass, <conv> departs first.",
    repro="repros/broken--1/repro.py",
)
SPEEDUP = judged.Interval(1.37, 1.31, 1.43)
SPEED = judged.SpeedJudgement(
    outcome=Outcome.PASS,
    speedup=SPEEDUP,
    min_speedup=1.2,
    source=judged.SpeedSource.PAIRS,
    paired=judged.PairedJudgement(SPEEDUP, 2, 80, 1.48, 0.22, 0.0981, 0.0663, probe_seconds=7.0),
    by_jobs=judged.Interval(1.29, 0.97, 1.71),
    required_speedup=1.2,
    conditional_on_run=False,
    baseline_samples_per_second=480.2,
    candidate_samples_per_second=657.9,
    advice="fast enough to turn on",
    seeds=2,
    seeds_needed=None,
    run=judged.RunJudgement(
        repaid_within_steps=684,
        compile_state=judged.CompileState.COLD,
        baseline_compile_seconds=0.0,
        candidate_compile_seconds=21.5,
        compile_cold=judged.CompileTime(21.5, 21.6, jobs=2),
        compile_warm=None,
        candidate_batch_size=48,
        candidate_steps=684,
        break_even_steps=797,
        break_even_minutes=1.33,
        train_time_ratio=0.93,
        baseline_train_seconds=68.4,
        candidate_train_seconds=73.5,
    ),
)
MEMORY = judged.MemoryJudgement(6_120_000, 12_100_000, "process", "process", 0.977, 1.0, None)
NOT_MEASURED = replace(MEMORY, increase=None, max_increase=None, obstacle="job b is without <it>")
UNDECIDED = Reason(Code.QUALITY_UNDECIDED, Outcome.INCONCLUSIVE, "Why.", {"metric": "log_loss"})
FASTER = Reason(Code.SPEED_FASTER, Outcome.PASS, "Speed-up 1.37 times.")
FAILED = Reason(Code.ARM_FAILED, Outcome.FAIL, "Seed 2 could not be trained: a | b <loss> is nan.")
LARGER = judged.CandidateVerdict(
    arm="larger-batch",
    outcome=Outcome.INCONCLUSIVE,
    reasons=(UNDECIDED, FASTER),
    metrics=(replace(ACCURACY, constant=0.4948), LOG_LOSS, WATCHED, IN_ONE_LANGUAGE),
    speed=SPEED,
    confounds=(judged.Confound("batch_size", "32", "48", True, "declared by the workload"),),
    confidence=0.975,
    notes=(Note(Code.CONFIDENCE_HOLM, "Any of 2 candidates may win: bounds are at 97.5%.", {}),),
    parity=PARITY,
    memory=MEMORY,
)
BROKEN = judged.CandidateVerdict(
    "broken", Outcome.FAIL, (FAILED,), (), None, (), 0.975, (), (), BROKEN_PARITY, NOT_MEASURED
)
HOUR = judged.Amount(3600.0, 1.408)
EAGER_COST = judged.ArmCost(
    "baseline", 2, HOUR, HOUR, HOUR, 480.2, 1_227_784.0, "ml.g5.xlarge", 1.408, "in us-east-1"
)
SAVINGS = judged.CandidateCost(
    arm="larger-batch",
    saved=judged.Amount(900.0, None),
    retrainings_to_repay=11,
    repaid_in="seconds",
    break_even_runs=1.165,
    compile_state=judged.CompileState.COLD,
    more_seeds=judged.MoreSeeds(3, judged.Amount(19_980.0, None)),
    more_examples=judged.MoreExamples(1.96, 4_300, judged.Amount(13_320.0, None)),
)
COST = judged.CostFigures(
    arms=(EAGER_COST, replace(EAGER_COST, usd_per_hour=None, price_note="Jobs ran on <b>.")),
    gate=judged.Amount(9540.0, None),
    jobs_counted=4,
    jobs_not_counted=2,
    candidates=(SAVINGS,),
)


@pytest.fixture
def verdict() -> judged.Verdict:
    floor = judged.NoiseFloor("accuracy", 0.9471, 0.0034, 2)
    return judged.Verdict(
        workload="news-topics",
        seeds=(1, 2),
        confidence=0.95,
        decision=judged.Decision("baseline", 1, "Release baseline, seed 1: no candidate passed."),
        baseline=judged.BaselineVerdict("baseline", True, (), (floor,)),
        candidates=(LARGER, BROKEN),
        cost=COST,
    )


@pytest.fixture
def observations() -> Observations:
    eager = ArmObservation(
        arm="baseline",
        compiler="eager",
        batch_size=32,
        learning_rate=0.001,
        precision="fp32",
        environment={"torch": "2.13.0+cpu", "cpu": "a processor"},
        proof={"unique_graphs": "1"},
    )
    trained = ReplicateObservation(
        arm="baseline",
        seed=1,
        job="train-1",
        metrics={"accuracy": 0.941, "log_loss": 0.201},
        loss=Curve(steps=(0.0, 50.0, 100.0), losses=(1.9, 0.4, 0.11)),
        steps=101,
        step_seconds=(0.05, 0.06, 0.065, 0.07, 0.075, 0.09, 0.3),
        samples_per_second=471.0,
        train_seconds=68.4,
        peak_memory_bytes=612_000_000,
        recompilations=0,
        notes=("The loader is <slow>: give it two workers.",),
    )
    compiled = replace(trained, arm="larger-batch", graphs=1, compile_seconds=21.5, notes=())
    return Observations(
        workload="news-topics",
        baseline="baseline",
        arms=(
            eager,
            replace(eager, arm="larger-batch", compiler="inductor", batch_size=48),
            replace(eager, arm="broken", compiler="xla"),
        ),
        replicates=(
            trained,
            replace(trained, seed=2, notes=()),
            compiled,
            replace(compiled, seed=2, compile_cache="cold"),
            replace(compiled, arm="broken"),
            ReplicateObservation("broken", 2, problem="the loss is nan in step 4"),
        ),
    )
