"""A new model against the one that was approved last, on the same validation examples."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

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
    Examples,
    Origin,
    column_digests,
    write_evidence,
    write_examples,
)
from compilegate.job.names import CHALLENGER_ARM, CHAMPION_ARM
from compilegate.pipelines.programs import champion, gate
from compilegate.report import notice_of
from tests.gate.conftest import build_execution

SEEDS = (1, 2, 3)
UNUSABLE = ("champion", {Code.CHAMPION_UNUSABLE})


class Succession:
    """Records of a challenger and of a champion, of which tests change some."""

    def __init__(self, worse_by: float = 0.0, **options: Any) -> None:
        execution = build_execution(seeds=SEEDS, worse_by=worse_by, examples=1000, **options)
        settings = execution.experiment.settings
        self.experiment = Experiment(
            workload="topics", champion=True, seeds=list(SEEDS), settings=settings
        )
        self.records: dict[Any, Any] = {}
        for seed in SEEDS:
            execution.change_evidence("fast", seed, arm=CHALLENGER_ARM)
            self.records[CHALLENGER_ARM, seed] = execution.record("fast", seed)
        self.score(execution.examples("baseline", 1))

    def score(self, examples: Examples | None) -> None:
        """Make these what the registered model says; None: no model was registered."""
        origin = Origin.ABSENT if examples is None else Origin.SCORED
        digests = {"model": "f" * 64, **column_digests(None, examples, None)}
        evidence = Evidence(
            "evaluation", CHAMPION_ARM, 0, {}, None, None, digests=digests, origin=origin
        )
        self.records[CHAMPION_ARM, 0] = EvidenceRecord(evidence, None, examples)

    def lose(self) -> None:
        """Let the registered model's evidence be unreadable."""
        self.records[CHAMPION_ARM, 0] = EvidenceError("it is missing")

    def rescore(self, **columns: Any) -> None:
        self.score(dataclasses.replace(self.records[CHAMPION_ARM, 0].examples, **columns))

    def change_evidence(self, seed: int, **fields: Any) -> None:
        record = self.records[CHALLENGER_ARM, seed]
        evidence = dataclasses.replace(record.evidence, **fields)
        self.records[CHALLENGER_ARM, seed] = dataclasses.replace(record, evidence=evidence)

    def judge(self, jobs: Any = None) -> Verdict:
        return judge(self.experiment, self.records, jobs)


def decided(verdict: Verdict) -> tuple[str, set[Code]]:
    return verdict.decision.arm, {reason.code for reason in verdict.candidates[0].reasons}


TIGHT = {"accuracy": {"direction": "higher", "margin": 0.0005}}


@pytest.mark.parametrize(
    ("made", "arm", "code", "outcome"),
    [
        ({}, "challenger", Code.QUALITY_NOT_WORSE, Outcome.PASS),
        ({"worse_by": 0.05}, "champion", Code.QUALITY_WORSE, Outcome.FAIL),
        ({"metrics": TIGHT}, "champion", Code.QUALITY_UNDECIDED, Outcome.INCONCLUSIVE),
    ],
)
def test_a_new_model_is_registered_where_it_is_as_good(made, arm, code, outcome) -> None:
    verdict = Succession(**made).judge()
    (candidate,) = verdict.candidates
    assert (verdict.decision.arm, candidate.outcome, candidate.speed) == (arm, outcome, None)
    assert code in decided(verdict)[1]
    assert notice_of(verdict).send is (arm == "champion")


def test_the_first_model_is_registered_without_a_comparison() -> None:
    succession = Succession(worse_by=0.3)
    succession.score(None)
    verdict = succession.judge()
    assert not verdict.baseline.exists
    assert decided(verdict) == ("challenger", {Code.CHAMPION_NONE})


def test_the_same_model_again_is_not_registered_twice() -> None:
    succession = Succession()
    succession.score(succession.records[CHALLENGER_ARM, 1].examples)
    verdict = succession.judge()
    assert decided(verdict) == ("champion", {Code.CHAMPION_SAME})
    assert not notice_of(verdict).send  # nobody has to hear every night that nothing changed


def test_the_order_of_the_champions_rows_does_not_matter() -> None:
    succession = Succession()
    before, found = succession.judge(), succession.records[CHAMPION_ARM, 0].examples
    order = np.random.default_rng(0).permutation(1000)
    names = ("ids", "labels", "scores", "losses")
    succession.rescore(**{name: getattr(found, name)[order] for name in names})
    assert succession.judge() == before


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"job": "another"}, Code.EVIDENCE_OF_ANOTHER),
        ({"failure": "the script ended with exit status 1", "speed": None}, Code.ARM_FAILED),
    ],
)
def test_where_the_new_model_cannot_be_trusted_the_registered_one_stands(fields, code) -> None:
    succession = Succession()
    jobs = {(CHALLENGER_ARM, seed): f"train-fast-{seed}" for seed in SEEDS}
    assert succession.judge(jobs).decision.arm == "challenger"
    succession.change_evidence(2, **fields)
    verdict = succession.judge(jobs)
    assert decided(verdict) == ("champion", {code, Code.QUALITY_NOT_WORSE})
    assert notice_of(verdict).send
    succession.score(None)
    assert succession.judge(jobs).decision.arm == "none"


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        (None, Code.EVIDENCE_UNREADABLE),
        ({"ids": lambda it: it[::-1]}, Code.EXAMPLES_DIFFER),
        ({"ids": lambda it: np.char.add(it, "x")}, Code.EXAMPLES_DIFFER),
        ({"losses": lambda it: np.nan * it}, Code.EXAMPLES_MALFORMED),
    ],
)
def test_a_registered_model_that_cannot_be_compared_stands(columns, code) -> None:
    succession = Succession()
    if columns is None:
        succession.lose()
    else:
        found = succession.records[CHAMPION_ARM, 0].examples
        succession.rescore(**{name: it(getattr(found, name)) for name, it in columns.items()})
    verdict = succession.judge()
    assert decided(verdict) == UNUSABLE
    assert code in {each.code for each in verdict.baseline.reasons}
    assert verdict.baseline.reasons[0].sentence in notice_of(verdict).message


@pytest.mark.slow
@pytest.mark.parametrize("changed", [False, True])
def test_the_job_writes_verdict_report_and_notice_and_trusts_no_other_examples(
    tmp_path: Path, capsys, changed
) -> None:
    succession, output = Succession(), tmp_path / "output"
    (tmp_path / "gate.json").write_text(succession.experiment.model_dump_json())
    for (arm, seed), record in succession.records.items():
        place = tmp_path / "evidence" / f"{arm}--{seed}"
        write_evidence(place, record.evidence, record.steps, record.examples, record.parity)
    if changed:
        found = succession.records[CHAMPION_ARM, 0].examples
        other = dataclasses.replace(found, labels=1 - found.labels // 2)
        write_examples(tmp_path / "evidence" / "champion--0" / "evidence", other)
    places = {"experiment": "gate.json", "evidence": "evidence", "output": "output"}
    jobs = [f"--expect={CHALLENGER_ARM}:{seed}:train-fast-{seed}" for seed in SEEDS]
    assert gate.main([*(f"--{it}={tmp_path / place}" for it, place in places.items()), *jobs]) == 0
    verdict = Verdict.from_json((output / "verdict.json").read_bytes())
    assert decided(verdict) == UNUSABLE if changed else verdict.decision.arm == "challenger"
    for said in ((output / "report.md").read_text(), capsys.readouterr().out):
        assert verdict.decision.sentence in said
    assert json.loads((output / "notice.json").read_text())["send"] is changed


def test_what_is_kept_is_the_archive_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    assert champion.main(["keep", str(tmp_path / "in"), str(tmp_path / "out")]) == 2
    for name in ("model.tar.gz", "other"):
        (tmp_path / "in" / name).write_bytes(b"model")
    assert champion.main(["keep", str(tmp_path / "in"), str(tmp_path / "out")]) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model.tar.gz"]
