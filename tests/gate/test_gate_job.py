"""The gate's program, run as the Processing step runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from compilegate.gate.observations import Observations, observe
from compilegate.gate.reasons import Code
from compilegate.gate.verdict import Verdict

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


def read_verdict(folder: Path) -> Verdict:
    return Verdict.from_json((folder / "output" / "verdict.json").read_bytes())


@pytest.mark.parametrize("archives", [False, True])
def test_the_job_writes_a_verdict_and_its_report(execution, tmp_path, archives):
    execution.write(tmp_path, archives=archives)
    result = run_gate(tmp_path)
    assert result.returncode == 0, result.stderr
    assert sorted(file.name for file in (tmp_path / "output").iterdir()) == [
        "notice.json",
        "observations.json",
        "report.html",
        "report.md",
        "verdict.json",
    ]
    assert read_verdict(tmp_path) == execution.judge()
    assert result.stdout.splitlines()[0] == read_verdict(tmp_path).decision.sentence
    assert len(result.stdout.splitlines()) <= 15
    observed = Observations.from_json((tmp_path / "output" / "observations.json").read_bytes())
    assert observed == observe(execution.experiment, execution.records)


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
    assert verdict.candidates[0].reasons[0].code is Code.EVIDENCE_WRONG_JOB


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
