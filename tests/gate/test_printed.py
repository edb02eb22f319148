"""Jobs that left nothing but printed metrics are judged over seeds, and what they lack is said."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
import scipy.stats

from compilegate.gate.findings import Code, Outcome
from compilegate.gate.judge import judge
from compilegate.gate.settings import Experiment
from compilegate.job.evidence import Evidence, EvidenceRecord, Origin, write_evidence
from compilegate.pipelines.programs.gate import main

BEFORE, AFTER = [27.1, 27.4, 26.9, 27.2], [27.0, 27.5, 26.8, 27.2]
SPEEDS = {"baseline": [100.0, 101.0, 99.0, 100.0], "fast": [150.0, 151.0, 149.0, 150.0]}


def experiment(**settings):
    arm = {"batch_size": 8, "learning_rate": 0.1, "precision": "fp32"}
    return Experiment.model_validate(
        {
            "workload": "mine",
            "baseline": "baseline",
            "evidence": "printed",
            "arms": {
                "baseline": {"compiler": "eager", **arm},
                "fast": {"compiler": "inductor", **arm},
            },
            "seeds": [1, 2, 3, 4],
            "settings": {
                "metrics": {"bleu": {"direction": "higher", "margin": 0.5, "reported": True}},
                **settings,
            },
        }
    )


def record(arm, seed, metrics, job=None):
    evidence = Evidence(
        job or f"{arm}-{seed}", arm, seed, {}, None, None, metrics=metrics, origin=Origin.PRINTED
    )
    return EvidenceRecord(evidence, None, None)


def printed(after=AFTER, speeds=SPEEDS):
    return {
        (arm, seed): record(
            arm, seed, {"bleu": bleu, **({"samples_per_second": rate} if rate else {})}
        )
        for arm, values in (("baseline", BEFORE), ("fast", after))
        for seed, bleu, rate in zip([1, 2, 3, 4], values, speeds[arm], strict=True)
    }


def codes(verdict):
    return {reason.code for reason in verdict.candidates[0].reasons}


def deciding(verdict):
    candidate = verdict.candidates[0]
    return {reason.code for reason in candidate.reasons if reason.outcome is candidate.outcome}


def test_a_faster_candidate_whose_seeds_are_as_good_wins_and_the_missing_proof_is_said():
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


def test_a_candidate_that_is_worse_fails():
    verdict = judge(experiment(), printed(after=[25.1, 25.3, 24.8, 25.0]))
    assert verdict.decision.arm == "baseline"
    assert Code.QUALITY_WORSE in codes(verdict)


def test_without_a_printed_speed_nothing_is_faster():
    verdict = judge(experiment(), printed(speeds=dict.fromkeys(SPEEDS, [None] * 4)))
    assert (verdict.decision.arm, codes(verdict)) == (
        "baseline",
        {Code.QUALITY_NOT_WORSE, Code.SPEED_UNMEASURED},
    )


def averages(candidate):
    """A baseline's steady speed against a candidate's average, with the time to compile in it."""
    found = printed()
    for (arm, _), each in found.items():
        if arm == "fast":
            del each.evidence.metrics["samples_per_second"]
            each.evidence.metrics["average_samples_per_second"] = candidate
    return found


def test_an_average_with_compilation_in_it_does_not_tell_how_slow_a_candidate_is():
    verdict = judge(experiment(), averages(4.0))
    assert Code.SPEED_UNMEASURED in codes(verdict)
    assert verdict.candidates[0].outcome is Outcome.INCONCLUSIVE


def test_an_average_that_is_fast_enough_with_compilation_in_it_is_fast_enough():
    assert judge(experiment(), averages(150.0)).decision.arm == "fast"


def test_what_is_required_and_was_not_recorded_fails():
    verdict = judge(experiment(parity={"required": True}), printed())
    assert codes(verdict) >= {Code.PARITY_CANNOT_TELL}
    assert verdict.decision.arm == "baseline"
    computed = {"accuracy": {"direction": "higher", "margin": 0.01}}
    assert judge(experiment(metrics=computed), printed()).baseline.reasons[0].code is (
        Code.EVIDENCE_LACKING
    )


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda found: found.pop(("fast", 2)), Code.EVIDENCE_MISSING),
        (
            lambda found: found.update(
                {("fast", 2): record("fast", 2, {"bleu": 27.0}, job="fast-1")}
            ),
            Code.EVIDENCE_DUPLICATED,
        ),
        (
            lambda found: found.update({("fast", 2): record("fast", 2, {"other": 1.0})}),
            Code.EVIDENCE_LACKING,
        ),
        (
            lambda found: found.update({("fast", 2): record("fast", 2, {"bleu": np.nan})}),
            Code.EVIDENCE_UNREADABLE,
        ),
        (
            lambda found: found.update({("fast", 2): record("fast", 2, {"bleu": -1e300})}),
            Code.EVIDENCE_UNREADABLE,
        ),
        (
            lambda found: found["fast", 2].evidence.metrics.update({"samples_per_second": 1e-300}),
            Code.EVIDENCE_UNREADABLE,
        ),
    ],
)
def test_what_cannot_be_trusted_fails(change, code):
    found = printed()
    change(found)
    verdict = judge(experiment(), found)
    assert verdict.decision.arm == "baseline"
    assert code in codes(verdict)


def test_a_percentage_is_no_accuracy():
    """Evidence of other training systems may have it; the launcher refuses it in the job."""
    found = {
        key: record(*key, {"accuracy": 95.3, "samples_per_second": 100.0}) for key in printed()
    }
    guard = {"direction": "higher", "margin": 0.3, "reported": True}
    verdict = judge(experiment(metrics={"accuracy": guard}), found)
    (reason, *_) = verdict.baseline.reasons
    assert reason.code is Code.METRIC_ABOVE_ONE


@pytest.mark.slow
def test_printed_metrics_do_not_stand_in_for_evidence_that_is_asked_for(execution):
    """Nor does anything else that a record can say of itself."""
    for origin in (Origin.PRINTED, Origin.SCORED, Origin.ABSENT, "another"):
        execution.change_evidence("fast", 2, origin=origin)
        verdict = execution.judge()
        assert Code.EVIDENCE_LACKING in codes(verdict)
        assert verdict.candidates[0].outcome is Outcome.FAIL
        assert verdict.baseline.sound


def test_one_seed_of_printed_metrics_is_refused():
    with pytest.raises(ValueError, match="evidence is 'printed', allowed: two seeds or more"):
        Experiment.model_validate({**experiment().model_dump(), "seeds": [1]})


def test_an_unsound_baseline_releases_nothing():
    found = printed()
    del found["baseline", 3]
    verdict = judge(experiment(), found)
    assert verdict.decision.arm == "none"
    assert deciding(verdict) == {Code.BASELINE_UNSOUND}


def test_a_candidate_that_could_not_be_trained_leaves_the_baseline_its_release():
    found = printed()
    evidence = dataclasses.replace(
        found["fast", 1].evidence,
        origin=Origin.MEASURED,
        metrics={},
        failure="it ran out of memory",
    )
    found["fast", 1] = EvidenceRecord(evidence, None, None)
    verdict = judge(experiment(), found)
    assert verdict.decision.arm == "baseline"
    assert deciding(verdict) == {Code.ARM_FAILED}


def test_the_job_writes_the_whole_report_with_what_there_is(tmp_path):
    (tmp_path / "gate.json").write_text(experiment().model_dump_json())
    for (arm, seed), each in printed().items():
        notes = (f"the speed crept to {seed}.5 rows/s: print it less",) if arm == "fast" else ()
        course = {"bleu": (*(seed / 10 for _ in range(5)), *(float(n) for n in range(20)))}
        evidence = dataclasses.replace(each.evidence, notes=notes, printed=course)
        write_evidence(tmp_path / "evidence" / f"{arm}--{seed}", evidence)
    told = ("experiment=gate.json", "evidence=evidence", "output=out")
    assert main([f"--{each.replace('=', f'={tmp_path}/')}" for each in told]) == 0
    for name in ("report.md", "report.html"):
        report = (tmp_path / "out" / name).read_text()
        assert "1.50×" in report  # noqa: RUF001
        assert "nothing proves that the compiler ran" in report
        assert "0.3, 0.3, 0.3, 0.3, 0.3, ..., 15, 16, 17, 18, 19" in report.replace("\\", "")
        # What differs in its numbers alone is said once.
        assert "fast, seed 1, 2, 3, 4" in report
        assert report.count("the speed crept to 1.5 rows/s") == report.count("speed crept") == 1
        # What nobody measured is not told as nothing, or as all right.
        assert not re.search(r"Break-even, counting|0 ms|the only difference", report)
