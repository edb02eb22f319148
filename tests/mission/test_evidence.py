"""The corpus of evidence: what the gate decides of each entry is right. See README.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mission.evidence.corpus import CORPUS, GROUPS
from tests.mission.evidence.entry import PASS
from tests.mission.evidence.files import (
    BASES,
    digests_of,
    document_digest,
    metrics_of,
    read_base,
)
from tests.mission.evidence.gate import NOTHING, judge

LEAST = {"honest": 45, "accident": 40, "worse": 15}
"""How many entries of each group there must be."""


@pytest.mark.long
@pytest.mark.parametrize("name", CORPUS)
def test_the_decision_is_right(name: str, tmp_path: Path) -> None:
    entry = CORPUS[name]
    found = judge(entry.execution(), tmp_path)
    shown = f"{entry.situation} Codes: {found.codes}"
    assert found.candidates.keys() == entry.right.candidates.keys(), shown
    for arm, allowed in entry.right.candidates.items():
        assert found.candidates[arm] in allowed, shown
        assert (found.candidates[arm] == PASS) == (not found.reasons[arm]), shown
    assert found.baseline_valid in entry.right.baseline_valid, shown
    assert found.registered in entry.right.registered, shown
    assert found.baseline_valid == (not found.reasons[found.baseline]), shown
    some_model = found.baseline_valid or PASS in found.candidates.values()
    assert some_model == (found.registered != NOTHING), shown


def test_there_are_entries_enough_and_each_name_is_given_once() -> None:
    for group, entries in GROUPS.items():
        assert len(entries) >= LEAST[group]
        assert len({entry.name for entry in entries}) == len(entries)


def test_where_two_decisions_are_right_the_entry_says_why() -> None:
    assert [name for name, it in CORPUS.items() if bool(it.right.why) == it.right.is_sharp] == []


@pytest.mark.parametrize("base", sorted(path.name for path in BASES.iterdir()))
def test_what_the_corpus_computes_of_a_base_is_what_its_jobs_wrote(base: str) -> None:
    for job in read_base(base).jobs.values():
        digests = job.document["digests"]
        assert digests_of(job.files).items() <= digests.items()
        assert document_digest(job.document) == job.document["sha256"]
        if "examples" in job.files:
            found = {name: metrics_of(job.examples)[name] for name in job.document["metrics"]}
            assert found == pytest.approx(job.document["metrics"])
