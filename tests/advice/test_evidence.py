"""Executions take the place of published figures, and the report tells prediction from outcome."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from compilegate.advice import Range, Verdict, advise, experiences_of
from compilegate.advice.effects import Basis
from compilegate.advice.told.text import advice_text
from compilegate.cli import main
from compilegate.gate.observations import ArmObservation, Observations, observe
from compilegate.gate.verdict import Verdict as GateVerdict
from tests.advice.declared import bert, experience
from tests.gate.conftest import build_execution


def test_own_evidence_replaces_the_published_range(full):
    found = advise(full(), [experience()]).option("torch-compile")
    assert found.basis is Basis.MEASURED
    assert found.outcome is not None
    assert found.outcome.speedup.low == pytest.approx(1.35)
    assert found.outcome.speedup.high == pytest.approx(1.43)
    assert found.compile_seconds == Range(20.0, 150.0)
    assert found.memory is not None
    assert "-8%" in found.memory
    assert found.outcome.benchmark.trainings == 0  # it has been paid for


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({}, Verdict.ENABLE, "the gate passed it"),
        ({"speedup": Range(1.02, 1.08)}, Verdict.OFF, "less than the 1.10"),
        ({"speedup": Range(1.12, 1.18)}, Verdict.BENCHMARK, "borderline"),
        ({"speedup": Range(1.05, 1.30)}, Verdict.BENCHMARK, "borderline"),
        ({"outcome": "fail", "regression": "accuracy is 3 points lower."}, Verdict.OFF, "worse"),
        ({"outcome": "inconclusive"}, Verdict.BENCHMARK, "inconclusive"),
    ],
)
def test_the_thresholds_are_held_against_the_interval(full, changes, verdict, words):
    found = advise(full(), [experience(**changes)]).option("torch-compile")
    assert found.verdict is verdict
    assert words in found.reason


def test_the_newest_execution_counts(full):
    older = experience(execution="older", started=1.0)
    newer = experience(execution="newer", started=2.0, speedup=Range(1.0, 1.05))
    found = advise(full(), [newer, older]).option("torch-compile")
    assert found.verdict is Verdict.OFF
    assert [each.execution for each in found.predictions] == ["newer", "older"]


def test_similar_workloads_stand_in_and_enable_nothing(full):
    others = [
        experience(workload="reviews"),
        experience(workload="mails", speedup=Range(1.6, 1.7)),
    ]
    found = advise(full(), others).option("torch-compile")
    assert found.basis is Basis.SIMILAR
    assert found.outcome is not None
    assert found.outcome.speedup.low == pytest.approx(1.35)
    assert found.outcome.speedup.high == pytest.approx(1.7)
    assert found.verdict is Verdict.BENCHMARK
    assert found.outcome.benchmark.trainings == 3


def test_a_model_that_aws_tested_is_benchmarked_where_others_like_it_were_measured(full):
    assert advise(full()).option("training-compiler").verdict is Verdict.ENABLE
    other = experience(workload="reviews", option="training-compiler", speedup=Range(0.9, 1.02))
    found = advise(full(), [other]).option("training-compiler")
    assert found.verdict is not Verdict.ENABLE


@pytest.mark.parametrize(
    "changes",
    [
        {"family": "vision"},
        {"shapes": "varying"},
        {"precision": "fp32"},
        {"instance_type": "ml.p4d.24xlarge"},
        {"family": None},
    ],
)
def test_what_differs_in_family_shapes_precision_or_instance_says_nothing(full, changes):
    other = experience(workload="reviews", **changes)
    assert advise(full(), [other]).option("torch-compile").basis is Basis.PUBLISHED


def test_another_machine_widens_what_was_published(full):
    here = experience(instance_type=None, accelerator=None, speedup=Range(1.9, 2.1))
    found = advise(full(), [here]).option("torch-compile")
    assert found.basis is Basis.ELSEWHERE
    assert found.outcome is not None
    assert found.outcome.speedup.low == pytest.approx(1.0)
    assert found.outcome.speedup.high == pytest.approx(2.1)
    assert found.verdict is Verdict.BENCHMARK


def test_a_run_has_the_length_that_executions_took_where_nobody_says_it(full):
    told = 'runs_per_week = 3\nbottleneck = "compute"'
    facts = advise(full(told), [experience()]).facts
    assert facts.hours.value == Range(6.2, 6.2)
    assert "k3v9x0qhw2ta" in facts.hours.source
    elsewhere = experience(accelerator=None, instance_type=None)
    assert advise(full(told), [elsewhere]).facts.hours.value is None


def test_prediction_and_outcome_stand_beside_each_other(full):
    text = "\n".join(advice_text(advise(full(), [experience(speedup=Range(1.7, 1.8))])))
    assert "predicted 1.00 to 1.60 times, measured 1.70 to 1.80" in text
    assert "not as predicted" in text


def arm(name: str, compiler: str, **changes: object) -> ArmObservation:
    given: dict[str, object] = {
        "arm": name,
        "compiler": compiler,
        "batch_size": 32,
        "learning_rate": 1e-3,
        "precision": "fp16",
        "environment": {"accelerator": "NVIDIA A10G"},
        "proof": {},
        **changes,
    }
    return ArmObservation(**given)  # type: ignore[arg-type]


def seen(*arms: ArmObservation) -> Observations:
    return Observations(workload="bert", baseline="baseline", arms=arms, replicates=())


def test_a_verdict_without_speeds_is_no_experience(full):
    verdict = GateVerdict.from_json(
        '{"workload": "bert", "seeds": [1], "confidence": 0.95, "candidates": [], "decision": '
        '{"arm": "none", "seed": 1, "sentence": "Nothing."}, "baseline": {"arm": "baseline", '
        '"sound": false, "reasons": [], "noise_floor": []}, "schema_version": 1}'
    )
    assert experiences_of("id", 1.0, verdict, seen(arm("baseline", "eager")), full()) == ()


def judged(**options: object) -> tuple[GateVerdict, Observations]:
    """A verdict by the gate, and what it observed."""
    execution = build_execution(**options)  # type: ignore[arg-type]
    return execution.judge(), observe(execution.experiment, execution.records)


@pytest.mark.slow
def test_what_the_gate_wrote_is_read_as_experience():
    verdict, observations = judged(speedup=1.5)
    (found,) = experiences_of("k3v9x0qhw2ta", 1.0, verdict, observations, None)
    assert (found.workload, found.arm, found.option) == ("topics", "fast", "torch-compile")
    assert found.outcome == "pass"
    assert found.regression is None
    assert found.speedup.holds(1.5)
    assert found.compile_seconds is not None
    assert found.same_batch
    assert found.family is None
    assert found.baseline_hours is not None


@pytest.mark.slow
def test_a_model_that_got_worse_is_a_regression():
    verdict, observations = judged(worse_by=0.05)
    (found,) = experiences_of("k3v9x0qhw2ta", 1.0, verdict, observations, None)
    assert found.outcome == "fail"
    assert found.regression is not None
    assert "accuracy" in found.regression


@pytest.mark.slow
def test_an_execution_of_the_home_is_found_by_the_command(tmp_path):
    path = bert(tmp_path, "runs_per_week = 3\nhours = 6", name="topics", machines="")
    verdict, observations = judged()
    folder = tmp_path / "home" / "executions" / "k3v9x0qhw2ta"
    folder.mkdir(parents=True)
    (folder / "verdict.json").write_text(verdict.to_json(), encoding="utf-8")
    (folder / "observations.json").write_text(observations.to_json(), encoding="utf-8")
    (folder / "execution.json").write_text('{"started": 5.0}', encoding="utf-8")
    words = ["advise", str(path), "--home", str(tmp_path / "home")]
    printed = CliRunner().invoke(main, words, catch_exceptions=False).output
    assert "execution k3v9x0qhw2ta measured 1." in printed
    assert "measured on another machine" in printed
