"""What executions measured comes first: hours, steps and gains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from compilegate.advice.effects import Basis, Effect
from compilegate.advice.facts import Experience, Machine, experiences_of, timing_of
from compilegate.advice.judge import OptionAdvice, Verdict, advise
from compilegate.advice.render import in_the_way
from compilegate.advice.rules import Range
from compilegate.cli import main
from compilegate.gate.observations import observe
from tests.advice.declared import LAPTOP, declared, experience, known, timing
from tests.gate.conftest import build_execution

OPEN = Verdict.BENCHMARK


def torch_compile(folder: Path, *measured: Experience, **changes: Any) -> OptionAdvice:
    return advise(known(folder, **changes), measured).option("torch-compile")


def effect_of(option: OptionAdvice) -> Effect:
    assert option.outcome is not None
    return option.outcome.effect


@pytest.mark.parametrize(
    ("changes", "verdict", "words", "chance"),
    [
        ({}, Verdict.ENABLE, "the gate passed it", (0.99, 1.0)),
        ({"speedup": Range(1.02, 1.08), "estimate": 1.05}, Verdict.OFF, "less than", (0, 0.05)),
        ({"speedup": Range(1.12, 1.18), "estimate": 1.15}, OPEN, "borderline", (0.9, 1)),
        ({"speedup": Range(0.9, 1.34), "estimate": 1.1}, OPEN, "borderline", (0.4, 0.6)),
        ({"outcome": "fail", "regression": "accuracy fell."}, Verdict.OFF, "worse", (0.99, 1)),
        ({"outcome": "inconclusive"}, OPEN, "inconclusive", (0.99, 1)),
    ],
)
def test_the_newest_interval_is_held_against_the_thresholds(
    tmp_path, changes, verdict, words, chance
):
    older = experience(speedup=Range(1.0, 1.05), estimate=1.02, started=0.5)
    found = torch_compile(tmp_path, older, experience(**changes))
    assert found.verdict is verdict
    assert words in found.reason
    assert found.chance is not None
    assert chance[0] <= found.chance <= chance[1]
    assert effect_of(found).basis is Basis.MEASURED
    assert found.outcome is not None
    assert found.outcome.benchmark_jobs == 0  # it has been paid for


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"machine": LAPTOP}, "on another machine"),
        ({"precision": "fp32"}, "in fp32, not fp16"),
        ({"batch_size": 8}, "at a batch of 8, not 32"),
        ({"sequence_length": 512}, "at a sequence length of 512, not 128"),
    ],
)
def test_a_gain_under_other_conditions_is_widened_says_so_and_enables_nothing(
    tmp_path, changes, words
):
    found = torch_compile(tmp_path, experience(speedup=Range(1.9, 2.1), estimate=2.0, **changes))
    effect = effect_of(found)
    assert (effect.basis, words in effect.sentence) == (Basis.OTHER_CONDITIONS, True)
    assert (effect.speedup.low, effect.speedup.high) == pytest.approx((1.0, 2.1))
    assert found.verdict is Verdict.BENCHMARK


def test_similar_workloads_stand_in_say_where_they_differ_and_enable_nothing(tmp_path):
    others = [
        experience(workload="reviews", batch_size=64),
        experience(workload="mails", speedup=Range(1.6, 1.7), estimate=1.65),
    ]
    found = torch_compile(tmp_path, *others)
    effect = effect_of(found)
    assert (effect.basis, effect.speedup) == (Basis.SIMILAR, Range(1.35, 1.7))
    assert "2 of 2 were surely 1.10" in effect.sentence
    assert "at a batch of 64, not 32" in effect.sentence
    assert found.verdict is Verdict.BENCHMARK
    assert advise(known(tmp_path)).option("training-compiler").verdict is Verdict.ENABLE
    slower = experience(workload="reviews", option="training-compiler", speedup=Range(0.9, 1.02))
    option = advise(known(tmp_path), [slower]).option("training-compiler")
    assert option.verdict is not Verdict.ENABLE


@pytest.mark.parametrize(
    ("name", "value"), [("family", "vision"), ("family", None), ("shapes", "varying")]
)
def test_what_differs_in_family_or_shapes_says_nothing(tmp_path, name, value):
    found = torch_compile(tmp_path, experience(workload="reviews", **{name: value}))
    assert effect_of(found).basis is Basis.PUBLISHED


TOLD = 'runs_per_week = 3\nbottleneck = "compute"'


def test_an_execution_says_how_long_a_run_is_and_how_many_steps_it_has(tmp_path):
    facts = known(tmp_path, advice=TOLD, timings=[timing()])
    assert facts.hours.value == Range(6.1, 6.2)
    assert "60,000 steps" in facts.hours.source
    advice = advise(facts, [experience()])
    assert "dollars" not in {each.name for each in advice.missing}


@pytest.mark.parametrize(
    ("changes", "instance", "hours"),
    [
        ({"machine": LAPTOP}, "ml.g5.48xlarge", Range(0.061, 6.2)),
        ({"machine": LAPTOP}, "ml.m5.xlarge", Range(1.525, 24.8)),
        ({"machine": Machine(None, "NVIDIA H200")}, "ml.g5.48xlarge", None),
        ({"batch_size": 8}, "ml.g5.48xlarge", None),  # another recipe
        ({"workload": "reviews"}, "ml.g5.48xlarge", None),
    ],
)
def test_a_run_elsewhere_bounds_the_length_or_leaves_it_open(tmp_path, changes, instance, hours):
    given = {"instance": instance, "advice": TOLD, "gpus": (1, 1)}
    found = known(tmp_path, timings=[timing(**changes)], **given).hours.value
    if hours is None:
        assert found is None
    else:
        assert (found.low, found.high) == pytest.approx((hours.low, hours.high))


def test_a_run_that_is_short_on_a_laptop_repays_no_compiling(tmp_path):
    arm = '[arms.compiled]\ncompiler = "inductor"\nbatch_size = 32\nlearning_rate = 2e-5\n'
    short = timing(machine=LAPTOP, hours=Range(0.01, 0.01))
    given = {"advice": TOLD, "arms": arm, "gpus": (1, 1), "timings": [short]}
    assert torch_compile(tmp_path, **given).verdict is Verdict.OFF
    assert in_the_way(advise(known(tmp_path, **given))) is None  # that is for an account to show


def test_no_run_is_longer_than_it_may_be(tmp_path):
    facts = known(tmp_path, compute="max_runtime_seconds = 1200")
    assert facts.hours.value is not None
    assert facts.hours.value.high == pytest.approx(1 / 3)
    nobody = known(tmp_path, compute="max_runtime_seconds = 1200", advice=TOLD)
    assert advise(nobody).option("torch-compile").verdict is Verdict.OFF


def test_a_profile_counts_on_the_machine_that_it_was_taken_on(tmp_path):
    shares = {"compute": Range(0.2, 0.24), "launches": Range(0.05, 0.07), "data": Range(0.6, 0.7)}
    parts = {**shares, "communication": Range(0.0, 0.0), "other": Range(0.02, 0.05)}
    told = "runs_per_week = 3\nhours = 6"
    here = known(tmp_path, advice=told, profiled=("NVIDIA A10G (8)", parts))
    assert here.bottleneck.value == "data"
    found = advise(here).option("training-compiler")
    assert found.verdict is Verdict.OFF
    assert found.outcome is not None
    assert found.outcome.saved_share.high <= 0.24 + 0.07
    there = known(tmp_path, advice=told, profiled=("AMD EPYC", parts))
    assert there.bottleneck.value is None
    assert "another machine" in there.bottleneck.source


@pytest.mark.slow
def test_what_the_gate_wrote_is_read_as_experience():
    execution = build_execution(speedup=1.5)
    verdict, seen = execution.judge(), observe(execution.experiment, execution.records)
    (found,) = experiences_of("k3v9x0qhw2ta", 1.0, verdict, seen, None)
    assert (found.workload, found.arm, found.option) == ("topics", "fast", "torch-compile")
    assert (found.outcome, found.regression, found.same_batch) == ("pass", None, True)
    assert found.speedup.low < 1.5 < found.speedup.high
    assert found.speedup.low < found.estimate < found.speedup.high
    assert found.compile_seconds is not None
    timed = timing_of("k3v9x0qhw2ta", 1.0, seen)
    assert timed is not None
    assert (timed.steps > 0, timed.hours.low > 0) == (True, True)
    execution = build_execution(worse_by=0.05)
    seen = observe(execution.experiment, execution.records)
    (worse,) = experiences_of("k3v9x0qhw2ta", 1.0, execution.judge(), seen, None)
    assert worse.outcome == "fail"
    assert "accuracy" in str(worse.regression)


@pytest.mark.slow
def test_after_an_execution_the_command_asks_neither_for_hours_nor_for_steps(tmp_path):
    advice = 'runs_per_week = 3\nbottleneck = "compute"'
    recipe = {"name": "topics", "gpus": (1, 1), "advice": advice}
    execution = build_execution()
    seen = observe(execution.experiment, execution.records)
    baseline = next(each for each in seen.arms if each.arm == "baseline")
    path = declared(
        tmp_path, batch=baseline.batch_size, precision=baseline.precision or "fp32", **recipe
    )
    folder = tmp_path / "home" / "executions" / "k3v9x0qhw2ta"
    folder.mkdir(parents=True)
    (folder / "verdict.json").write_text(execution.judge().to_json(), encoding="utf-8")
    (folder / "observations.json").write_text(seen.to_json(), encoding="utf-8")
    words = ["advise", str(path), "--home", str(tmp_path / "home")]
    printed = " ".join(CliRunner().invoke(main, words, catch_exceptions=False).output.split())
    assert "hours of a run not known" not in printed
    assert "execution k3v9x0qhw2ta trained" in printed
