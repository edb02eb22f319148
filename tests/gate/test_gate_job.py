"""The program of the gate's Processing step: its files, its exit status, its posture."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compilegate.gate.observations import Observations, observe
from compilegate.gate.verdict import Verdict
from compilegate.pipelines.programs import gate
from compilegate.posture.records import decoded
from compilegate.posture.state import Observed

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
OUTPUT = {"model_card", "notice", "observations", "report", "statistics", "verdict"}


@dataclass(frozen=True)
class Ended:
    """How the program ended, and what it printed."""

    status: int
    stdout: str
    stderr: str


def run_gate(folder: Path, *arguments: str) -> Ended:
    places = {"experiment": "gate.json", "evidence": "evidence", "output": "output"}
    files = [f"--{name}={folder / place}" for name, place in places.items()]
    stdout, stderr = io.StringIO(), io.StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr):
        try:
            status = gate.main([*files, *arguments])
        except SystemExit as error:  # argparse
            status = int(error.code or 0)
    return Ended(status, stdout.getvalue(), stderr.getvalue())


def output(folder: Path, name: str) -> Any:
    return json.loads((folder / "output" / name).read_text())


def verdict_in(folder: Path) -> Verdict:
    return Verdict.from_json((folder / "output" / "verdict.json").read_bytes())


def test_the_job_writes_a_verdict_and_its_report(execution, tmp_path) -> None:
    execution.write(tmp_path)
    result = run_gate(tmp_path)
    assert result.status == 0, result.stderr
    assert {file.stem for file in (tmp_path / "output").iterdir()} == OUTPUT
    verdict = verdict_in(tmp_path)
    assert verdict == execution.judge()
    (figures,) = output(tmp_path, "statistics.json").values()
    judged = execution.examples(verdict.decision.arm, verdict.decision.seed)
    right = (judged.scores.argmax(axis=1) == judged.labels).mean()
    assert figures["accuracy"]["value"] == pytest.approx(right)
    assert result.stdout.splitlines()[0] == verdict.decision.sentence
    assert len(result.stdout.splitlines()) <= 15
    observed = Observations.from_json((tmp_path / "output" / "observations.json").read_bytes())
    assert observed == observe(execution.experiment, execution.records)


@pytest.mark.parametrize("archives", [False, True])
def test_the_script_that_shows_wrong_arithmetic_lies_where_the_report_links_to(
    execution, tmp_path, archives
) -> None:
    """And nothing that a link in it names; where there is none, the verdict stands."""
    execution.alter("fast", 2, parity__repro="parity_repro", errors__compiled=np.full((2, 3), 0.5))
    execution.write(tmp_path)
    result = run_gate(tmp_path)
    assert result.status == 0
    assert "warning: fast, seed 2: there is no repro at parity_repro" in result.stderr
    assert verdict_in(tmp_path).decision.arm == "baseline"
    replicate = tmp_path / "evidence" / "fast--2"
    repro = replicate / "evidence" / "parity_repro"
    (repro / "more").mkdir(parents=True)
    (repro / "repro.py").write_text("print('zero gradients')")
    if archives:
        with tarfile.open(replicate / "output.tar.gz", "w:gz") as archive:
            archive.add(replicate / "evidence", arcname="evidence")
        shutil.rmtree(replicate / "evidence")
    else:
        (repro / "secret").symlink_to(ROOT / "pyproject.toml")
    assert run_gate(tmp_path).status == 0
    beside = tmp_path / "output" / "repros" / "fast--2"
    assert [file.name for file in beside.iterdir()] == ["repro.py"]
    assert "repros/fast--2/repro.py" in (tmp_path / "output" / "report.md").read_text()


def test_the_page_names_its_execution_and_no_date_costs_the_verdict(execution, tmp_path) -> None:
    execution.write(tmp_path)
    arguments = ["--execution=k3v9x0qhw2ta", "--started=2026-11-22T09:00:33.788+00:00"]
    assert run_gate(tmp_path, *arguments).status == 0
    page = (tmp_path / "output" / "report.html").read_text()
    for words in ("k3v9x0qhw2ta", "22 November 2026, 09:00 UTC", "sha256 3a6eb0790f39ac87"):
        assert words in page
    assert run_gate(tmp_path, "--started=yesterday").status == 0
    assert "Started" not in (tmp_path / "output" / "report.html").read_text()


OWN = {"direction": "higher", "margin": 0.1, "function": "no_such_module.metric"}


@pytest.mark.parametrize(
    ("arguments", "settings", "expected"),
    [
        (["--expect", "fast:1"], {}, "'fast:1' is not ARM:SEED:JOBNAME"),
        (["--expect", "fast:1:a-job"], {}, "names no job for baseline:1"),
        (["--evidence", "/nowhere"], {}, "--evidence /nowhere is not a folder"),
        (["--experiment", "/nowhere.json"], {}, "/nowhere.json cannot be read"),
        ([], {"metrics": {"own": OWN}}, "settings.metrics.own.function: metric function no_such"),
        ([], {"min_speedup": "fast"}, "gate.json: settings.min_speedup"),
    ],
)
def test_bad_usage_ends_in_one_sentence(execution, tmp_path, arguments, settings, expected) -> None:
    execution.write(tmp_path)
    declared = json.loads((tmp_path / "gate.json").read_text())
    declared["settings"].update(settings)
    (tmp_path / "gate.json").write_text(json.dumps(declared))
    result = run_gate(tmp_path, *arguments)
    assert result.status == 2
    assert expected in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "output").exists()


# What an execution showed, for its posture.


def observed_by(folder: Path, *arguments: str) -> tuple[str, Any]:
    result = run_gate(folder, "--posture", *arguments)
    assert result.status == 0, result.stderr
    document = output(folder, "posture.json")
    return document["arm"], decoded(Observed, json.loads(document["observed"]))


def leave_alone(folder: Path, arm: str) -> None:
    for place in (folder / "evidence").iterdir():
        if place.name != f"{arm}--1":
            shutil.rmtree(place)


def test_what_an_execution_showed_is_told_for_its_posture(execution, tmp_path) -> None:
    execution.write(tmp_path)
    arm, observed = observed_by(tmp_path)
    assert arm == observed.registered == "fast"
    (seen,) = observed.seen
    assert (seen.arm, seen.outcome) == ("fast", "pass")
    assert [one.metric for one in seen.differences] == ["accuracy", "log_loss", "speed"]
    assert all(one.standard_error > 0 for one in seen.differences)
    assert seen.values["log_loss"] < 0, "above is better, whatever the metric's direction"
    assert seen.speedup > 1.2


@pytest.mark.parametrize(
    ("arm", "graphs", "outcomes", "registered"),
    [("baseline", 1, [], "baseline"), ("fast", 1, ["pass"], "fast"), ("fast", 0, ["fail"], "none")],
)
def test_an_arm_that_trained_alone_is_judged_alone(
    execution, tmp_path, *, arm, graphs, outcomes, registered
) -> None:
    execution.alter("fast", 1, compiler__graphs=graphs)
    execution.write(tmp_path)
    leave_alone(tmp_path, arm)
    _, observed = observed_by(tmp_path, f"--alone={arm}")
    assert observed.registered == registered
    assert [seen.outcome for seen in observed.seen] == outcomes
    assert all(seen.differences == () for seen in observed.seen)


@pytest.mark.parametrize("alone", [False, True])
def test_a_job_that_the_machine_lost_is_no_evidence_about_its_arm(
    execution, tmp_path, alone
) -> None:
    execution.fail("fast", 1, "it was killed", ending="killed")
    execution.write(tmp_path)
    if alone:
        leave_alone(tmp_path, "fast")
    _, observed = observed_by(tmp_path, *(["--alone=fast"] if alone else []))
    assert (observed.seen, observed.registered) == ((), "none" if alone else "baseline")
    assert observed.lost.startswith("fast: ")
    assert output(tmp_path, "notice.json")["lost"] is True
