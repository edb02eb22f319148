"""The gate's program, run as the Processing step runs it."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from compilegate.gate.findings import Code
from compilegate.gate.observations import Observations, observe
from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import EvidenceRecord
from compilegate.posture.machine.events import Observed
from compilegate.posture.records.coding import decoded

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def run_gate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "compilegate.pipelines.programs.gate",
            f"--experiment={folder / 'gate.json'}",
            f"--evidence={folder / 'evidence'}",
            f"--output={folder / 'output'}",
            *arguments,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def write_repro(folder: Path) -> Path:
    """The folder in a job's evidence, with what must not be taken along."""
    repro = folder / "parity_repro"
    (repro / "more").mkdir(parents=True)
    (repro / "repro.py").write_text("print('zero gradients')")
    (repro / "tensors.npz").write_bytes(b"tensors")
    (repro / "secret").symlink_to(ROOT / "pyproject.toml")
    return repro


@pytest.mark.parametrize("archives", [False, True])
def test_the_script_that_shows_wrong_arithmetic_lies_where_the_report_links_to(
    execution, tmp_path, archives
):
    parity = execution.record("fast", 2).evidence.parity
    execution.change_evidence("fast", 2, parity=dataclasses.replace(parity, repro="parity_repro"))
    execution.change_parity("fast", 2, compiled=np.full((2, 3), 0.5))
    execution.write(tmp_path)
    replicate = tmp_path / "evidence" / "fast--2"
    write_repro(replicate / "evidence")
    if archives:
        with tarfile.open(replicate / "output.tar.gz", "w:gz") as archive:
            (replicate / "evidence" / "parity_repro" / "secret").unlink()
            archive.add(replicate / "evidence", arcname="evidence")
        shutil.rmtree(replicate / "evidence")
    result = run_gate(tmp_path)
    assert result.returncode == 0, result.stderr
    beside = tmp_path / "output" / "repros" / "fast--2"
    assert sorted(file.name for file in beside.iterdir()) == ["repro.py", "tensors.npz"]
    assert (beside / "repro.py").read_text() == "print('zero gradients')"
    for report in ("report.html", "report.md"):
        assert "repros/fast--2/repro.py" in (tmp_path / "output" / report).read_text()


def test_a_script_that_is_not_there_costs_nobody_the_verdict(execution, tmp_path):
    parity = execution.record("fast", 2).evidence.parity
    execution.change_evidence("fast", 2, parity=dataclasses.replace(parity, repro="parity_repro"))
    execution.change_parity("fast", 2, compiled=np.full((2, 3), 0.5))
    execution.write(tmp_path)
    result = run_gate(tmp_path)
    assert result.returncode == 0
    assert "warning: fast, seed 2: there is no repro at parity_repro" in result.stderr
    assert read_verdict(tmp_path).decision.arm == "baseline"


def read_verdict(folder: Path) -> Verdict:
    return Verdict.from_json((folder / "output" / "verdict.json").read_bytes())


@pytest.mark.parametrize("archives", [False, True])
def test_the_job_writes_a_verdict_and_its_report(execution, tmp_path, archives):
    execution.write(tmp_path, archives=archives)
    result = run_gate(tmp_path)
    assert result.returncode == 0, result.stderr
    assert sorted(file.name for file in (tmp_path / "output").iterdir()) == [
        "model_card.json",
        "notice.json",
        "observations.json",
        "report.html",
        "report.md",
        "statistics.json",
        "verdict.json",
    ]
    assert read_verdict(tmp_path) == execution.judge()
    (figures,) = json.loads((tmp_path / "output" / "statistics.json").read_text()).values()
    released = read_verdict(tmp_path).decision
    judged = execution.record(released.arm, released.seed).examples
    right = (judged.scores.argmax(axis=1) == judged.labels).mean()
    assert figures["accuracy"]["value"] == pytest.approx(right)
    assert result.stdout.splitlines()[0] == read_verdict(tmp_path).decision.sentence
    assert len(result.stdout.splitlines()) <= 15
    observed = Observations.from_json((tmp_path / "output" / "observations.json").read_bytes())
    assert observed == observe(execution.experiment, execution.records)


def test_the_page_names_its_execution_and_no_date_costs_the_verdict(execution, tmp_path):
    execution.write(tmp_path)
    told = ["--execution=k3v9x0qhw2ta", "--started=2026-11-22T09:00:33.788+00:00"]
    assert run_gate(tmp_path, *told).returncode == 0
    page = (tmp_path / "output" / "report.html").read_text()
    assert "k3v9x0qhw2ta" in page
    assert "22 November 2026, 09:00 UTC" in page
    assert "sha256 3a6eb0790f39ac87" in page  # of the evidence's data
    assert run_gate(tmp_path, "--started=yesterday").returncode == 0
    assert "Started" not in (tmp_path / "output" / "report.html").read_text()


def test_a_verdict_without_a_winner_is_still_a_verdict(execution, tmp_path):
    execution.write(tmp_path, archives=True)
    for archive in tmp_path.glob("evidence/*/output.tar.gz"):
        archive.unlink()
    result = run_gate(tmp_path)
    assert result.returncode == 0
    assert read_verdict(tmp_path).decision.arm == "none"


def test_evidence_is_bound_to_the_jobs_of_this_execution(execution, tmp_path):
    execution.write(tmp_path)
    expected = [f"{arm}:{seed}:{job}" for (arm, seed), job in execution.jobs().items()]
    assert run_gate(tmp_path, "--expect", *expected).returncode == 0
    assert read_verdict(tmp_path).decision.arm == "fast"
    expected[-1] += "-again"
    assert run_gate(tmp_path, "--expect", *expected).returncode == 0
    verdict = read_verdict(tmp_path)
    assert verdict.decision.arm == "baseline"
    assert verdict.candidates[0].reasons[0].code is Code.EVIDENCE_OF_ANOTHER


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--expect", "fast:1"], "'fast:1' is not ARM:SEED:JOBNAME"),
        (["--expect", "fast:1:a-job"], "names no job for baseline:1"),
        (["--evidence", "/nowhere"], "--evidence /nowhere is not a folder"),
        (["--experiment", "/nowhere.json"], "/nowhere.json cannot be read"),
    ],
)
def test_bad_usage_ends_in_one_sentence(execution, tmp_path, arguments, told):
    execution.write(tmp_path)
    result = run_gate(tmp_path, *arguments)
    assert result.returncode == 2
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "output").exists()


def test_a_metric_function_that_is_not_there_is_told_before_anything_is_judged(
    new_execution, tmp_path
):
    guard = {"direction": "higher", "margin": 0.1, "function": "no_such_module.metric"}
    new_execution(metrics={"own": guard}, examples=100).write(tmp_path)
    result = run_gate(tmp_path)
    assert result.returncode == 2
    assert "settings.metrics.own.function: metric function no_such_module.metric" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_bad_experiment_file_is_named_with_its_key(execution, tmp_path):
    execution.write(tmp_path)
    declared = json.loads((tmp_path / "gate.json").read_text())
    declared["settings"]["min_speedup"] = "fast"
    (tmp_path / "gate.json").write_text(json.dumps(declared))
    result = run_gate(tmp_path)
    assert result.returncode == 2
    assert "gate.json: settings.min_speedup" in result.stderr
    assert "Traceback" not in result.stderr


def test_what_an_execution_showed_is_told_for_its_posture(execution, tmp_path):
    execution.write(tmp_path)
    assert run_gate(tmp_path, "--posture").returncode == 0
    document = json.loads((tmp_path / "output" / "posture.json").read_text())
    observed = decoded(Observed, json.loads(document["observed"]))
    assert document["arm"] == observed.registered == "fast"
    (seen,) = observed.seen
    assert (seen.arm, seen.outcome) == ("fast", "pass")
    assert [one.metric for one in seen.differences] == ["accuracy", "log_loss", "speed"]
    assert all(one.standard_error > 0 for one in seen.differences)
    assert seen.values["log_loss"] < 0, "above is better, whatever the metric's direction"
    assert seen.speedup > 1.2


@pytest.mark.parametrize("arm", ["baseline", "fast"])
def test_an_arm_that_trained_alone_is_judged_alone(execution, tmp_path, arm):
    execution.write(tmp_path)
    for folder in (tmp_path / "evidence").iterdir():
        if folder.name != f"{arm}--1":
            shutil.rmtree(folder)
    result = run_gate(tmp_path, "--posture", f"--alone={arm}")
    assert result.returncode == 0, result.stderr
    document = json.loads((tmp_path / "output" / "posture.json").read_text())
    observed = decoded(Observed, json.loads(document["observed"]))
    assert document["arm"] == arm
    assert [seen.arm for seen in observed.seen] == ([] if arm == "baseline" else ["fast"])
    for seen in observed.seen:
        assert seen.outcome == "pass"
        assert seen.values.keys() == {"accuracy", "log_loss"}
        assert seen.differences == ()


def test_an_arm_alone_that_did_not_compile_is_refused(execution, tmp_path):
    compiler = execution.record("fast", 1).evidence.compiler
    changed = dataclasses.replace(compiler, graphs=0)
    execution.change_evidence("fast", 1, compiler=changed)
    execution.write(tmp_path)
    for folder in (tmp_path / "evidence").iterdir():
        if folder.name != "fast--1":
            shutil.rmtree(folder)
    assert run_gate(tmp_path, "--posture", "--alone=fast").returncode == 0
    document = json.loads((tmp_path / "output" / "posture.json").read_text())
    observed = decoded(Observed, json.loads(document["observed"]))
    assert observed.registered == "none"
    assert observed.seen[0].outcome == "fail"


@pytest.mark.parametrize("arguments", [("--posture",), ("--posture", "--alone=fast")])
def test_a_job_that_the_machine_lost_is_no_evidence_about_its_arm(execution, tmp_path, arguments):
    evidence = execution.record("fast", 1).evidence
    killed = dataclasses.replace(evidence, failure="it was killed", ending="killed", speed=None)
    execution.records["fast", 1] = EvidenceRecord(killed, None, None)
    execution.write(tmp_path)
    alone = len(arguments) > 1
    for folder in (tmp_path / "evidence").iterdir():
        if alone and folder.name != "fast--1":
            shutil.rmtree(folder)
    assert run_gate(tmp_path, *arguments).returncode == 0
    document = json.loads((tmp_path / "output" / "posture.json").read_text())
    observed = decoded(Observed, json.loads(document["observed"]))
    assert (observed.seen, observed.registered) == ((), "none" if alone else "baseline")
    assert observed.lost.startswith("fast: ")
    notice = json.loads((tmp_path / "output" / "notice.json").read_text())
    assert notice["lost"] is True
