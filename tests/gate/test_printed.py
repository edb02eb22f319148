"""Jobs that left nothing but printed metrics are judged over seeds, and over nothing else."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.stats

from compilegate.gate.printed import Printed, judge_printed
from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.settings import Experiment
from compilegate.gate.verdict import Verdict
from compilegate.pipelines.programs.printed_gate import main

BEFORE, AFTER = [27.1, 27.4, 26.9, 27.2], [27.0, 27.5, 26.8, 27.2]
SPEEDS = {"baseline": [100.0, 101.0, 99.0, 100.0], "fast": [150.0, 151.0, 149.0, 150.0]}


def experiment():
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
                "metrics": {"bleu": {"direction": "higher", "margin": 0.5, "reported": True}}
            },
        }
    )


def printed(after=AFTER, speeds=SPEEDS):
    return {
        (arm, seed): Printed(
            f"{arm}-{seed}", {"bleu": bleu, **({"samples_per_second": rate} if rate else {})}
        )
        for arm, values in (("baseline", BEFORE), ("fast", after))
        for seed, bleu, rate in zip([1, 2, 3, 4], values, speeds[arm], strict=True)
    }


def codes(verdict):
    return {reason.code for reason in verdict.candidates[0].reasons}


def test_a_faster_candidate_whose_seeds_are_as_good_wins_and_the_missing_proof_is_said():
    verdict = judge_printed(experiment(), printed())
    (candidate,) = verdict.candidates
    expected = scipy.stats.ttest_rel(AFTER, BEFORE).confidence_interval(0.90)
    delta = candidate.metrics[0].delta
    assert (delta.lower, delta.upper) == pytest.approx(tuple(expected))
    assert candidate.speed.speedup.estimate == pytest.approx(1.5, rel=0.01)
    assert (verdict.decision.arm, candidate.outcome) == ("fast", Outcome.PASS)
    assert Code.PRINTED_ONLY in {note.code for note in candidate.notes}


def test_a_candidate_that_is_worse_fails():
    verdict = judge_printed(experiment(), printed(after=[25.1, 25.3, 24.8, 25.0]))
    assert verdict.decision.arm == "baseline"
    assert Code.QUALITY_WORSE in codes(verdict)


def test_without_a_printed_speed_nothing_is_faster():
    verdict = judge_printed(experiment(), printed(speeds=dict.fromkeys(SPEEDS, [None] * 4)))
    assert (verdict.decision.arm, codes(verdict)) == (
        "baseline",
        {Code.QUALITY_NOT_WORSE, Code.SPEED_UNMEASURED},
    )


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda found: found.pop(("fast", 2)), Code.EVIDENCE_MISSING),
        (
            lambda found: found.update({("fast", 2): Printed("fast-1", {"bleu": 27.0})}),
            Code.EVIDENCE_DUPLICATED,
        ),
        (
            lambda found: found.update({("fast", 2): Printed("fast-2", {"other": 1.0})}),
            Code.METRIC_MISSING,
        ),
        (
            lambda found: found.update({("fast", 2): Printed("fast-2", {"bleu": np.nan})}),
            Code.METRIC_NOT_FINITE,
        ),
        (
            lambda found: found.update({("fast", 2): Printed("fast-2", {"bleu": -1e300})}),
            Code.METRIC_NOT_FINITE,
        ),
        (
            lambda found: found["fast", 2].metrics.update({"samples_per_second": 1e-300}),
            Code.METRIC_NOT_FINITE,
        ),
    ],
)
def test_what_cannot_be_trusted_fails(change, code):
    found = printed()
    change(found)
    verdict = judge_printed(experiment(), found)
    assert verdict.decision.arm == "baseline"
    assert code in codes(verdict)


def test_one_seed_of_printed_metrics_is_refused():
    with pytest.raises(ValueError, match="evidence is 'printed', allowed: two seeds or more"):
        Experiment.model_validate({**experiment().model_dump(), "seeds": [1]})


def test_an_unsound_baseline_releases_nothing():
    found = printed()
    del found["baseline", 3]
    verdict = judge_printed(experiment(), found)
    assert (verdict.decision.arm, codes(verdict)) == ("none", {Code.BASELINE_UNSOUND})


def test_the_job_reads_the_metrics_from_its_arguments(tmp_path):
    (tmp_path / "gate.json").write_text(experiment().model_dump_json())
    whole = [
        f"--printed={arm}:{seed}:{each.job}:"
        + ",".join(f"{name}={value}" for name, value in each.metrics.items())
        for (arm, seed), each in printed().items()
    ]
    divided = [
        f"--printed={arm}:{seed}:{each.job}:{name}={value}"
        for (arm, seed), each in printed().items()
        for name, value in each.metrics.items()
    ]
    told = [f"--experiment={tmp_path / 'gate.json'}", f"--output={tmp_path / 'out'}"]
    for arguments in (whole, divided):
        assert main([*told, *arguments]) == 0
        written = Verdict.from_json((tmp_path / "out" / "verdict.json").read_bytes())
        assert written == judge_printed(experiment(), printed())
    for name in ("report.md", "report.html"):
        report = (tmp_path / "out" / name).read_text()
        assert "1.50×" in report  # noqa: RUF001
        # What nobody measured is not told as nothing, or as all right.
        assert not re.search(r"Break-even|0 ms|the only difference|is sound", report)
    assert main([*told, "--printed=fast:1:job:bleu=x"]) == 2
    assert main([*told, "--printed=fast:1:job:bleu=1", "--printed=fast:1:other:loss=1"]) == 2
