"""A new model against the one that was approved last, on the same validation examples."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from compilegate.gate.findings import Code, Outcome
from compilegate.gate.judge import judge
from compilegate.gate.settings import Experiment
from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import (
    Evidence,
    EvidenceError,
    EvidenceRecord,
    Origin,
    column_digests,
    write_evidence,
    write_examples,
)
from compilegate.job.names import CHALLENGER_ARM, CHAMPION_ARM
from compilegate.pipelines.programs import champion, gate
from compilegate.report import notice_of

SEEDS = (1, 2, 3)


class Succession:
    """Records of a challenger and of a champion, of which tests change some."""

    def __init__(self, new_execution, worse_by=0.0, **options):
        execution = new_execution(seeds=SEEDS, worse_by=worse_by, examples=1000, **options)
        self.experiment = Experiment(
            workload="topics",
            champion=True,
            seeds=list(SEEDS),
            settings=execution.experiment.settings,
        )
        self.records = {}
        for seed in SEEDS:
            record = execution.record("fast", seed)
            evidence = dataclasses.replace(record.evidence, arm=CHALLENGER_ARM)
            self.records[CHALLENGER_ARM, seed] = dataclasses.replace(record, evidence=evidence)
        self.score(execution.record("baseline", 1).examples)

    def score(self, examples):
        """Make these what the registered model says; None: no model was registered."""
        origin = Origin.ABSENT if examples is None else Origin.SCORED
        digests = {"model": "f" * 64, **column_digests(None, examples, None)}
        evidence = Evidence(
            "evaluation", CHAMPION_ARM, 0, {}, None, None, digests=digests, origin=origin
        )
        self.records[CHAMPION_ARM, 0] = EvidenceRecord(evidence, None, examples)

    def lose(self):
        """Let the registered model's evidence be unreadable."""
        self.records[CHAMPION_ARM, 0] = EvidenceError("it is missing")

    @property
    def champion(self):
        return self.records[CHAMPION_ARM, 0].examples

    def judge(self, jobs=None):
        return judge(self.experiment, self.records, jobs)

    def change_evidence(self, seed, **fields):
        record = self.records[CHALLENGER_ARM, seed]
        evidence = dataclasses.replace(record.evidence, **fields)
        self.records[CHALLENGER_ARM, seed] = dataclasses.replace(record, evidence=evidence)


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
    assert "against the registered model" in verdict.candidates[0].reasons[0].sentence
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
    succession = Succession(new_execution, worse_by=0.3)
    succession.score(None)
    verdict = succession.judge()
    assert not verdict.baseline.exists
    assert (verdict.decision.arm, codes(verdict)) == ("challenger", {Code.CHAMPION_NONE})
    assert verdict.decision.sentence.endswith("no model was approved before.")


def test_the_same_model_again_is_not_registered_twice(new_execution):
    succession = Succession(new_execution)
    succession.score(succession.records[CHALLENGER_ARM, 1].examples)
    verdict = succession.judge()
    assert (verdict.decision.arm, codes(verdict)) == ("champion", {Code.CHAMPION_SAME})
    assert not notice_of(verdict).send  # nobody has to hear every night that nothing changed


def test_the_order_of_the_champions_rows_does_not_matter(new_execution):
    succession = Succession(new_execution)
    before = succession.judge()
    found = succession.champion
    order = np.random.default_rng(0).permutation(len(found.ids))
    columns = {name: getattr(found, name)[order] for name in ("ids", "labels", "scores", "losses")}
    succession.score(dataclasses.replace(found, **columns))
    assert succession.judge() == before


def test_evidence_of_another_job_is_refused_and_without_a_champion_nothing_is_left(new_execution):
    succession = Succession(new_execution)
    jobs = {(CHALLENGER_ARM, seed): f"train-fast-{seed}" for seed in SEEDS}
    assert succession.judge(jobs).decision.arm == "challenger"
    succession.change_evidence(2, job="another")
    verdict = succession.judge(jobs)
    assert verdict.decision.arm == "champion"
    assert codes(verdict) == {Code.EVIDENCE_OF_ANOTHER, Code.QUALITY_NOT_WORSE}
    succession.score(None)
    assert succession.judge(jobs).decision.arm == "none"


def test_a_new_model_that_could_not_be_trained_leaves_the_registered_one_where_it_is(new_execution):
    succession = Succession(new_execution)
    succession.change_evidence(3, failure="the script ended with exit status 1", speed=None)
    verdict = succession.judge()
    assert verdict.decision.arm == "champion"
    assert codes(verdict) == {Code.ARM_FAILED, Code.QUALITY_NOT_WORSE}
    assert notice_of(verdict).send
    succession.score(None)
    assert succession.judge().decision.arm == "none"


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda it: it.lose(), Code.EVIDENCE_UNREADABLE),
        (
            lambda it: it.score(dataclasses.replace(it.champion, ids=it.champion.ids[::-1])),
            Code.EXAMPLES_DIFFER,
        ),
        (
            lambda it: it.score(
                dataclasses.replace(it.champion, ids=np.char.add(it.champion.ids, "x"))
            ),
            Code.EXAMPLES_DIFFER,
        ),
        (
            lambda it: it.score(dataclasses.replace(it.champion, losses=np.full(1000, np.nan))),
            Code.EXAMPLES_MALFORMED,
        ),
    ],
)
def test_a_registered_model_that_cannot_be_compared_stands(new_execution, spoil, code):
    succession = Succession(new_execution)
    spoil(succession)
    verdict = succession.judge()
    assert (verdict.decision.arm, codes(verdict)) == ("champion", {Code.CHAMPION_UNUSABLE})
    assert code in {each.code for each in verdict.baseline.reasons}
    assert verdict.baseline.reasons[0].sentence in notice_of(verdict).message


def written(succession, folder):
    (folder / "gate.json").write_text(succession.experiment.model_dump_json())
    for (arm, seed), record in succession.records.items():
        place = folder / "evidence" / f"{arm}--{seed}"
        write_evidence(place, record.evidence, record.steps, record.examples, record.parity)
    return [
        *(f"--{name}={folder / place}" for name, place in PLACES.items()),
        *(f"--expect={CHALLENGER_ARM}:{seed}:train-fast-{seed}" for seed in SEEDS),
    ]


PLACES = {"experiment": "gate.json", "evidence": "evidence", "output": "output"}


@pytest.mark.slow
def test_the_job_writes_verdict_report_and_notice(new_execution, tmp_path, capsys):
    assert gate.main(written(Succession(new_execution), tmp_path)) == 0
    verdict = Verdict.from_json((tmp_path / "output" / "verdict.json").read_bytes())
    assert verdict.decision.arm == "challenger"
    report = (tmp_path / "output" / "report.md").read_text()
    assert verdict.decision.sentence in report
    assert "| Accuracy |" in report
    page = (tmp_path / "output" / "report.html").read_text()
    assert f"<h1>{verdict.decision.sentence}</h1>" in page
    assert "1 candidate\n  against the registered model, 3 seeds" in page
    assert "Training loss" in page  # the new model's runs are shown as those of any arm
    assert json.loads((tmp_path / "output" / "notice.json").read_text())["send"] is False
    assert verdict.decision.sentence in capsys.readouterr().out


def test_the_job_does_not_trust_examples_that_are_not_those_noted(new_execution, tmp_path):
    succession = Succession(new_execution)
    arguments = written(succession, tmp_path)
    other = dataclasses.replace(succession.champion, labels=1 - succession.champion.labels // 2)
    write_examples(tmp_path / "evidence" / "champion--0" / "evidence", other)
    assert gate.main(arguments) == 0
    verdict = Verdict.from_json((tmp_path / "output" / "verdict.json").read_bytes())
    assert (verdict.decision.arm, codes(verdict)) == ("champion", {Code.CHAMPION_UNUSABLE})


def test_what_is_kept_is_the_archive_and_nothing_else(tmp_path):
    (tmp_path / "in").mkdir()
    assert champion.main(["keep", str(tmp_path / "in"), str(tmp_path / "out")]) == 2
    (tmp_path / "in" / "model.tar.gz").write_bytes(b"model")
    (tmp_path / "in" / "other").write_bytes(b"other")
    assert champion.main(["keep", str(tmp_path / "in"), str(tmp_path / "out")]) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model.tar.gz"]
