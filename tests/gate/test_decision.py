"""What is registered: the table of `compilegate.gate.decision`, and the job that applies it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from compilegate.gate.decision import Registered
from compilegate.gate.evidence import take_rows
from compilegate.gate.findings import Code
from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import EvidenceError, EvidenceRecord
from compilegate.pipelines.programs import gate, registered
from compilegate.report import notice_of
from tests.gate.conftest import SyntheticExecution, build_execution

ACCURACY = {"direction": "higher", "margin": 0.01}
DROPPING = {"accuracy": {**ACCURACY, "drop": 0.02}}


def before(accuracy: float = 0.95, examples: int = 2000, **metrics: float) -> Registered:
    """The evidence of the model that was registered last, on rows that are `examples` the same."""
    execution = build_execution(accuracy=accuracy, examples=examples)
    for name, value in metrics.items():
        execution.alter("baseline", 1, **{f"metrics__{name}": value})
    return another_model(execution.record("baseline", 1))


def another_model(record: EvidenceRecord) -> Registered:
    digests = {**record.evidence.digests, "model": "e" * 64}
    evidence = dataclasses.replace(record.evidence, digests=digests)
    return Registered(dataclasses.replace(record, evidence=evidence))


def registers(verdict: Verdict) -> tuple[str, str]:
    return verdict.decision.arm, verdict.decision.registers


def against_registered(verdict: Verdict) -> dict[str, set[Code]]:
    """By arm, the codes that the registered model is behind."""
    arms = {it.arm: it.reasons for it in (verdict.baseline, *verdict.candidates)}
    return {
        arm: found
        for arm, reasons in arms.items()
        if (found := {it.code for it in reasons if it.code.subject == "registered"})
    }


@pytest.mark.parametrize(
    ("changes", "accuracy", "expected"),
    [
        ({}, None, "fast"),
        ({}, 0.95, "fast"),
        ({}, 0.97, "fast"),
        ({"worse_by": 0.05}, 0.95, "baseline"),
        ({"worse_by": 0.05}, None, "baseline"),
        ({}, 0.99, "none"),
        ({"accuracy": 0.4}, 0.99, "none"),
    ],
)
def test_the_winner_is_registered_where_it_is_within_the_drop(changes, accuracy, expected) -> None:
    model = None if accuracy is None else before(accuracy)
    verdict = build_execution(metrics=DROPPING, **changes).judge(registered=model)
    assert registers(verdict) == (expected, expected)
    assert verdict.baseline.sound
    assert notice_of(verdict).send is (expected != "fast")
    assert Verdict.from_json(verdict.to_json()) == verdict


@pytest.mark.parametrize(("worse", "other"), [("fast", "baseline"), ("baseline", "fast")])
def test_a_drop_of_one_arm_leaves_the_other(worse, other) -> None:
    """A candidate within its margin may lie beyond the drop; and so may the baseline alone."""
    guard = {"accuracy": {**ACCURACY, "margin": 0.05, "drop": 0.0}}
    execution = build_execution(metrics=guard)
    for seed in (1, 2, 3) if worse == "fast" else (1,):
        poor = build_execution(worse_by=0.03).examples("fast", seed)
        execution.put(worse, seed, examples=poor)
    verdict = execution.judge(registered=another_model(execution.record(other, 1)))
    assert registers(verdict) == (other, other)
    assert against_registered(verdict) == {worse: {Code.REGISTERED_WORSE}}


@pytest.mark.parametrize(("candidates", "winner"), [(("fast",), "fast"), ((), "baseline")])
def test_the_registered_model_is_not_registered_twice(candidates, winner) -> None:
    execution = build_execution(candidates=candidates, metrics=DROPPING)
    record = execution.record(winner, 1)
    verdict = execution.judge(registered=Registered(record))
    assert registers(verdict) == (winner, "nothing-new")
    notice = notice_of(verdict)  # nobody has to hear every night that nothing changed
    assert (notice.send, notice.subject) == (False, "topics: nothing new")
    for other in (another_model(record), Registered(record, as_now=False)):
        assert registers(execution.judge(registered=other)) == (winner, winner)


@pytest.mark.parametrize(
    ("accuracy", "floor", "expected"),
    [(0.95, None, "baseline"), (0.95, 0.9, "baseline"), (0.8, 0.9, "none"), (0.8, 0.7, "none")],
)
def test_a_baseline_alone_is_held_to_its_floor_and_to_the_registered_model(
    accuracy, floor, expected
) -> None:
    guard = {"direction": "higher", "floor": floor, "drop": 0.02}
    execution = build_execution(candidates=(), accuracy=accuracy, metrics={"accuracy": guard})
    verdict = execution.judge(registered=before())
    assert registers(verdict) == (expected, expected)
    assert verdict.candidates == ()
    assert verdict.baseline.sound is (accuracy > (floor or 0.0))


def test_what_the_choice_of_rows_explains_is_no_drop() -> None:
    """Two of 100 rows are answered otherwise: below the drop, and no more than chance."""
    guard = {"accuracy": {**ACCURACY, "drop": 0}}
    execution = build_execution(candidates=(), examples=100, metrics=guard)
    record = execution.record("baseline", 1)
    right = np.flatnonzero(record.examples.scores.argmax(axis=1) == record.examples.labels)
    for count, expected in ((2, "baseline"), (12, "none")):
        scores = record.examples.scores.copy()
        scores[right[:count]] = np.roll(scores[right[:count]], 1, axis=1)
        execution.put_scores("baseline", 1, scores)
        assert registers(execution.judge(registered=another_model(record)))[1] == expected


def test_on_other_rows_recorded_values_are_compared() -> None:
    execution = build_execution(candidates=(), metrics=DROPPING)
    for accuracy, expected in ((0.95, "baseline"), (0.99, "none")):
        verdict = execution.judge(registered=before(accuracy, examples=500))
        assert registers(verdict)[1] == expected


def test_the_order_of_the_registered_rows_does_not_matter() -> None:
    execution = build_execution(candidates=(), metrics=DROPPING)
    model = before(0.975)
    order = np.random.default_rng(0).permutation(2000)
    rows = take_rows(model.evidence.examples, order)
    shuffled = Registered(dataclasses.replace(model.evidence, examples=rows))
    assert execution.judge(registered=shuffled) == execution.judge(registered=model)


@pytest.mark.parametrize(
    ("known", "expected"),
    [({}, "baseline"), ({"bleu": 27.9}, "baseline"), ({"bleu": 28.1}, "none")],
)
def test_reported_metrics_are_compared_by_value_and_new_ones_by_none(known, expected) -> None:
    bleu = {"direction": "higher", "margin": 0.5, "reported": True, "drop": 1.0}
    execution = build_execution(candidates=(), metrics={"accuracy": ACCURACY, "bleu": bleu})
    execution.alter_all("baseline", metrics__bleu=27.0)
    assert registers(execution.judge(registered=before(**known)))[1] == expected


def test_a_registered_model_that_cannot_be_read_stops_a_drop_from_being_judged() -> None:
    lost = Registered(EvidenceError("evidence.json is missing"))
    verdict = build_execution(metrics=DROPPING).judge(registered=lost)
    assert registers(verdict) == ("none", "none")
    assert set(against_registered(verdict)) == {"baseline", "fast"}
    assert verdict.baseline.reasons[0].sentence in notice_of(verdict).message
    assert registers(build_execution().judge(registered=lost)) == ("fast", "fast")


@pytest.mark.slow
@pytest.mark.parametrize("model_exists", [True, False])
def test_the_job_compares_with_what_the_last_execution_kept(tmp_path: Path, model_exists) -> None:
    execution = build_execution(candidates=(), metrics=DROPPING)
    execution.write(tmp_path)
    place = tmp_path / "registered"
    assert registered.main(["open", str(place / "note")]) == 0
    if model_exists:
        model = SyntheticExecution(execution.experiment, {("baseline", 1): before(0.99).evidence})
        (tmp_path / "last").mkdir()
        model.write(tmp_path / "last", archives=True)
        written = tmp_path / "last" / "evidence" / "baseline--1"
        assert registered.main(["keep", str(written), str(place / "evidence")]) == 0
    places = {"experiment": "gate.json", "evidence": "evidence", "registered": "registered"}
    output = tmp_path / "output"
    files = [f"--{name}={tmp_path / path}" for name, path in places.items()]
    assert gate.main([*files, f"--output={output}"]) == 0
    verdict = Verdict.from_json((output / "verdict.json").read_bytes())
    assert registers(verdict)[1] == ("none" if model_exists else "baseline")
    assert verdict.decision.sentence in (output / "report.md").read_text()
    assert json.loads((output / "notice.json").read_text())["send"] is model_exists


def test_what_is_not_there_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    assert registered.main(["keep", str(tmp_path / "in"), str(tmp_path / "out")]) == 2
    for name in ("output.tar.gz", "other"):
        (tmp_path / "in" / name).write_bytes(b"evidence")
    assert registered.main(["keep", str(tmp_path / "in"), str(tmp_path / "out")]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "output.tar.gz",
        "registration.txt",
    ]
