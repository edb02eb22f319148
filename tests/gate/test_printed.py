"""Jobs that left nothing but printed metrics are judged over seeds, and what they lack is said."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
import scipy.stats

from compilegate.gate.findings import Code, Outcome
from compilegate.gate.judge import judge
from compilegate.gate.settings import Experiment
from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import Evidence, EvidenceOrigin, EvidenceRecord, write_evidence
from compilegate.pipelines.programs.gate import main

BEFORE, AFTER = [27.1, 27.4, 26.9, 27.2], [27.0, 27.5, 26.8, 27.2]
RATES = [100.0, 101.0, 99.0, 100.0]
SPEED = "samples_per_second"
BLEU = {"bleu": {"direction": "higher", "margin": 0.5, "reported": True}}
ARM = {"batch_size": 8, "learning_rate": 0.1, "precision": "fp32"}


def experiment(**settings: Any) -> Experiment:
    arms = {name: {"compiler": of, **ARM} for name, of in (("baseline", "eager"), ("fast", "xla"))}
    document = {
        "workload": "mine",
        "baseline": "baseline",
        "evidence": "printed",
        "arms": arms,
        "seeds": [1, 2, 3, 4],
        "settings": {"metrics": BLEU, **settings},
    }
    return Experiment.model_validate(document)


def record(arm: str, seed: int, **metrics: float) -> EvidenceRecord:
    known = {"job": f"{arm}-{seed}", "origin": EvidenceOrigin.PRINTED, "metrics": metrics}
    evidence = Evidence(arm=arm, seed=seed, recipe={}, compiler=None, speed=None, **known)
    return EvidenceRecord(evidence, None, None)


def printed(speed: str = SPEED, times: float = 1.5) -> dict[tuple[str, int], EvidenceRecord]:
    found = {}
    for seed, before, after, rate in zip([1, 2, 3, 4], BEFORE, AFTER, RATES, strict=True):
        found["baseline", seed] = record("baseline", seed, bleu=before, samples_per_second=rate)
        found["fast", seed] = record("fast", seed, **{"bleu": after, speed: times * rate})
    return found


def codes(verdict: Verdict) -> set[Code]:
    return {reason.code for reason in verdict.candidates[0].reasons}


def test_a_faster_candidate_whose_seeds_are_as_good_wins_and_the_missing_proof_is_said() -> None:
    verdict = judge(experiment(), printed())
    (candidate,) = verdict.candidates
    expected = scipy.stats.ttest_rel(AFTER, BEFORE).confidence_interval(0.90)
    delta = candidate.metrics[0].delta
    assert (delta.lower, delta.upper) == pytest.approx(tuple(expected))
    assert candidate.speed.speedup.estimate == pytest.approx(1.5, rel=0.01)
    assert candidate.speed.run is None  # nobody knows what compiling took
    assert verdict.cost is None
    assert (verdict.decision.arm, candidate.outcome) == ("fast", Outcome.PASS)
    assert Code.PRINTED_ONLY in {note.code for note in candidate.notes}


def test_a_speed_that_was_not_printed_or_is_none_decides_nothing() -> None:
    verdict = judge(experiment(), printed("other"))
    assert (verdict.candidates[0].outcome, Code.SPEED_UNMEASURED in codes(verdict)) == (
        Outcome.INCONCLUSIVE,
        True,
    )
    records = {**printed(), ("fast", 2): record("fast", 2, bleu=27.0, samples_per_second=1e-300)}
    assert Code.EVIDENCE_UNREADABLE in codes(judge(experiment(), records))


def test_what_is_required_and_was_not_recorded_fails() -> None:
    verdict = judge(experiment(parity={"required": True}), printed())
    assert codes(verdict) >= {Code.PARITY_CANNOT_TELL}
    assert verdict.decision.arm == "baseline"
    computed = {"accuracy": {"direction": "higher", "margin": 0.01}}
    verdict = judge(experiment(metrics=computed), printed())
    assert verdict.baseline.reasons[0].code is Code.EVIDENCE_LACKING


def test_the_job_writes_the_whole_report_with_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "gate.json").write_text(experiment().model_dump_json())
    for (arm, seed), each in printed().items():
        notes = (f"the speed crept to {seed}.5 rows/s: print it less",) if arm == "fast" else ()
        course = {"bleu": (*(seed / 10 for _ in range(5)), *(float(n) for n in range(20)))}
        evidence = dataclasses.replace(each.evidence, notes=notes, printed=course)
        write_evidence(tmp_path / "evidence" / f"{arm}--{seed}", evidence)
    files = ("experiment=gate.json", "evidence=evidence", "output=out")
    assert main([f"--{each.replace('=', f'={tmp_path}/')}" for each in files]) == 0
    for name in ("report.md", "report.html"):
        report = (tmp_path / "out" / name).read_text()
        assert "1.50×" in report  # noqa: RUF001
        assert "nothing proves that the compiler ran" in report
        assert "0.3, 0.3, 0.3, 0.3, 0.3, ..., 15, 16, 17, 18, 19" in report.replace("\\", "")
        # What differs in its numbers alone is said once.
        assert "fast, seed 1, 2, 3, 4" in report
        assert report.count("the speed crept to 1.5 rows/s") == report.count("speed crept") == 1
        # What nobody measured is neither zero nor all right.
        assert not re.search(r"Break-even, counting|0 ms|the only difference", report)
