"""A profile answers the weightiest question, on the machine that it was taken on."""

from __future__ import annotations

from compilegate.advice import Profiled, Range, Verdict, advise, facts_of
from compilegate.workload import read_workload
from tests.advice.declared import NOW, bert

WAITING = Profiled(
    parts={
        "compute": Range(0.2, 0.24),
        "launches": Range(0.05, 0.07),
        "data": Range(0.6, 0.7),
        "communication": Range(0.0, 0.0),
        "other": Range(0.02, 0.05),
    },
    hardware="NVIDIA A10G (8)",
)


def advised(folder, told, profiled):
    workload = read_workload(bert(folder, f"runs_per_week = 3\nhours = 6\n{told}"))
    return advise(facts_of(workload, now=NOW, profiled=profiled))


def test_a_profile_on_the_machine_is_known_and_bounds_the_gain(tmp_path):
    advice = advised(tmp_path, "", WAITING)
    assert advice.facts.bottleneck.known
    assert advice.best is advice.option("data-loading")
    found = advice.option("training-compiler")
    assert found.verdict is Verdict.OFF
    assert found.outcome is not None
    assert found.outcome.saved_share.high <= 0.24 + 0.07


def test_a_profile_of_another_machine_is_told_and_proves_nothing(tmp_path):
    here = Profiled(parts=WAITING.parts, hardware="AMD EPYC 7R13")
    advice = advised(tmp_path, "", here)
    assert not advice.facts.bottleneck.known
    assert "another machine" in advice.facts.bottleneck.source
    assert advice.option("training-compiler").verdict is Verdict.BENCHMARK


def test_what_people_declare_of_their_machine_counts_before_it(tmp_path):
    advice = advised(tmp_path, 'bottleneck = "compute"', WAITING)
    assert advice.facts.bottleneck.value == "compute"
