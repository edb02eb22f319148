"""A new model against the one that was registered last, on the same validation examples."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from compilegate.gate.experiment import SuccessionExperiment
from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.succession import CHALLENGER, judge_succession
from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import Evidence, EvidenceError, Origin, write_evidence, write_examples
from compilegate.pipelines.programs.champion import main
from compilegate.report import notice_of

SEEDS = (1, 2, 3)


class Succession:
    """Records of a challenger, and the examples of a champion, of which tests change some."""

    def __init__(self, new_execution, worse_by=0.0, **options):
        execution = new_execution(seeds=SEEDS, worse_by=worse_by, examples=1000, **options)
        self.champion = execution.record("baseline", 1).examples
        self.experiment = SuccessionExperiment(
            workload="topics", seeds=list(SEEDS), settings=execution.experiment.settings
        )
        self.records = {}
        for seed in SEEDS:
            record = execution.record("fast", seed)
            evidence = dataclasses.replace(record.evidence, arm=CHALLENGER)
            self.records[CHALLENGER, seed] = dataclasses.replace(record, evidence=evidence)

    def judge(self, jobs=None):
        return judge_succession(self.experiment, self.records, jobs, self.champion)

    def change_evidence(self, seed, **fields):
        record = self.records[CHALLENGER, seed]
        evidence = dataclasses.replace(record.evidence, **fields)
        self.records[CHALLENGER, seed] = dataclasses.replace(record, evidence=evidence)


def codes(verdict):
    return {reason.code for reason in verdict.candidates[0].reasons}


def test_a_new_model_that_is_as_good_is_registered(new_execution):
    verdict = Succession(new_execution).judge()
    assert verdict.decision.arm == "challenger"
    assert verdict.decision.sentence.startswith("Register the new model, seed 1: as good as the")
    assert {metric.outcome for metric in verdict.candidates[0].metrics} == {Outcome.PASS}
    assert verdict.candidates[0].speed is None


def test_where_the_new_model_is_worse_the_registered_one_stands(new_execution):
    verdict = Succession(new_execution, worse_by=0.05).judge()
    assert verdict.decision.arm == "champion"
    assert verdict.decision.sentence == "The registered model stands: the new model failed."
    assert "points against the registered model, " in verdict.candidates[0].reasons[0].sentence
    assert Code.QUALITY_WORSE in codes(verdict)
    notice = notice_of(verdict)
    assert notice.send
    assert "the registered model stands, and the next execution tries again" in notice.message
    assert "batch_size" not in notice.message


def test_where_the_examples_cannot_show_it_the_registered_one_stands(new_execution):
    tight = {"accuracy": {"direction": "higher", "margin": 0.0005}}
    verdict = Succession(new_execution, metrics=tight).judge()
    assert verdict.decision.arm == "champion"
    assert verdict.candidates[0].outcome is Outcome.INCONCLUSIVE
    assert "not shown to be as good" in verdict.decision.sentence


def test_the_first_model_is_registered_without_a_comparison(new_execution):
    succession = Succession(new_execution, worse_by=0.5)
    succession.champion = None
    verdict = succession.judge()
    assert (verdict.decision.arm, codes(verdict)) == ("challenger", {Code.CHAMPION_NONE})
    assert verdict.decision.sentence.endswith("no model was registered before.")


def test_the_same_model_again_is_not_registered_twice(new_execution):
    succession = Succession(new_execution)
    succession.champion = succession.records[CHALLENGER, 1].examples
    verdict = succession.judge()
    assert (verdict.decision.arm, codes(verdict)) == ("champion", {Code.CHAMPION_SAME})
    assert not notice_of(verdict).send  # nobody has to hear every night that nothing changed


def test_the_order_of_the_champions_rows_does_not_matter(new_execution):
    succession = Succession(new_execution)
    before = succession.judge()
    found = succession.champion
    order = np.random.default_rng(0).permutation(len(found.ids))
    columns = {name: getattr(found, name)[order] for name in ("ids", "labels", "scores", "losses")}
    succession.champion = dataclasses.replace(found, **columns)
    assert succession.judge() == before


def test_evidence_of_another_job_is_refused_and_without_a_champion_nothing_is_left(new_execution):
    succession = Succession(new_execution)
    jobs = {(CHALLENGER, seed): f"train-fast-{seed}" for seed in SEEDS}
    assert succession.judge(jobs).decision.arm == "challenger"
    succession.change_evidence(2, job="another")
    verdict = succession.judge(jobs)
    assert (verdict.decision.arm, codes(verdict)) == ("champion", {Code.EVIDENCE_WRONG_JOB})
    succession.champion = None
    assert succession.judge(jobs).decision.arm == "none"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda found: EvidenceError("examples.npz is missing"), "examples.npz is missing."),
        (lambda found: dataclasses.replace(found, ids=found.ids[::-1]), "have another label than"),
        (
            lambda found: dataclasses.replace(found, ids=np.char.add(found.ids, "x")),
            "not today's evaluation's validation examples",
        ),
        (
            lambda found: dataclasses.replace(found, losses=np.full(len(found.ids), np.nan)),
            "1000 examples have a value that is not a number",
        ),
    ],
)
def test_a_champion_that_cannot_be_compared_stands_and_the_reason_is_told(
    new_execution, spoil, words
):
    succession = Succession(new_execution)
    succession.champion = spoil(succession.champion)
    verdict = succession.judge()
    assert (verdict.decision.arm, codes(verdict)) == ("champion", {Code.CHAMPION_UNUSABLE})
    assert words in verdict.candidates[0].reasons[0].sentence


def written(succession, folder):
    (folder / "gate.json").write_text(succession.experiment.model_dump_json())
    for (arm, seed), record in succession.records.items():
        place = folder / "evidence" / f"{arm}--{seed}"
        write_evidence(place, record.evidence, record.steps, record.examples, record.parity)
    scored = Evidence("evaluation", "champion", 0, {}, None, None, origin=Origin.SCORED)
    write_evidence(folder / "champion", scored, examples=succession.champion)
    return [
        "judge",
        *(f"--{name}={folder / place}" for name, place in PLACES.items()),
        *(f"--expect={CHALLENGER}:{seed}:train-fast-{seed}" for seed in SEEDS),
    ]


PLACES = {
    "experiment": "gate.json",
    "evidence": "evidence",
    "champion": "champion",
    "output": "output",
}


def test_the_job_writes_verdict_report_and_notice(new_execution, tmp_path, capsys):
    assert main(written(Succession(new_execution), tmp_path)) == 0
    verdict = Verdict.from_json((tmp_path / "output" / "verdict.json").read_bytes())
    assert verdict.decision.arm == "challenger"
    report = (tmp_path / "output" / "report.md").read_text()
    assert verdict.decision.sentence in report
    assert "| Accuracy |" in report
    page = (tmp_path / "output" / "report.html").read_text()
    assert f"<h1>{verdict.decision.sentence}</h1>" in page
    assert "1 candidate\n  against champion, 3 seeds" in page
    assert json.loads((tmp_path / "output" / "notice.json").read_text())["send"] is False
    assert verdict.decision.sentence in capsys.readouterr().out


def test_the_job_does_not_trust_examples_that_are_not_those_noted(new_execution, tmp_path):
    succession = Succession(new_execution)
    arguments = written(succession, tmp_path)
    other = dataclasses.replace(succession.champion, labels=1 - succession.champion.labels // 2)
    write_examples(tmp_path / "champion" / "evidence", other)
    assert main(arguments) == 0
    verdict = Verdict.from_json((tmp_path / "output" / "verdict.json").read_bytes())
    assert (verdict.decision.arm, codes(verdict)) == ("champion", {Code.CHAMPION_UNUSABLE})


def test_what_is_kept_is_the_archive_and_nothing_else(tmp_path):
    (tmp_path / "in").mkdir()
    assert main(["keep", str(tmp_path / "in"), str(tmp_path / "out")]) == 2
    (tmp_path / "in" / "model.tar.gz").write_bytes(b"model")
    (tmp_path / "in" / "other").write_bytes(b"other")
    assert main(["keep", str(tmp_path / "in"), str(tmp_path / "out")]) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model.tar.gz"]
