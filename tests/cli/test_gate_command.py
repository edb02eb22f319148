"""`compilegate gate` as a process: evidence from anywhere in, files and an exit status out."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import (
    CompilerRecord,
    Evidence,
    Examples,
    SpeedRecord,
    Steps,
    write_evidence,
)
from tests.command import compilegate

pytestmark = pytest.mark.slow

CONFIG = """
workload = "prices"
baseline = "eager"
seeds = [1, 2]

[arms.eager]
compiler = "eager"
batch_size = 8
learning_rate = 0.01
precision = "fp32"

[arms.compiled]
compiler = "my-own-compiler"
batch_size = 8
learning_rate = 0.01
precision = "fp32"

[settings.metrics.mae]
direction = "lower"
margin = 0.05

[[settings.slices]]
column = "region"
metric = "mae"
margin = 0.1
"""


def gate(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return compilegate("gate", *arguments, cwd=folder)


def suites(path: Path) -> list[ET.Element]:
    root = ET.parse(path).getroot()  # noqa: S314 - written by the command under test
    return root.findall("testsuite")


def write_replicate(folder: Path, arm: str, seed: int, *, worse_by: float = 0.0) -> None:
    """What a training program of a user's own writes, for a model that predicts numbers."""
    count = 400
    targets = np.random.default_rng(0).normal(10.0, 3.0, count)
    noise = np.random.default_rng([seed, len(arm)]).normal(0.0, 0.05, count)
    shared = np.random.default_rng(1).normal(0.0, 1.0, count)
    predictions = targets + (1.0 + worse_by) * (shared + noise)
    examples = Examples(
        ids=np.array([f"house-{index}" for index in range(count)]),
        labels=np.zeros(count, dtype=np.int64),
        scores=np.empty((count, 0)),
        losses=(predictions - targets) ** 2,
        targets=targets,
        predictions=predictions,
        slices={"region": np.array(["north", "south"] * (count // 2))},
    )
    compiled = arm != "eager"
    jitter = np.random.default_rng([seed, len(arm)]).uniform(0.99, 1.01, 50)
    seconds = np.full(50, 0.05 if compiled else 0.099) * jitter
    evidence = Evidence(
        job=f"{arm}-{seed}",
        arm=arm,
        seed=seed,
        recipe={"batch_size": 8, "learning_rate": 0.01, "precision": "fp32", "steps": 50},
        compiler=CompilerRecord("my-own-compiler", True, graphs=1, proof={"calls": 50})
        if compiled
        else CompilerRecord("eager", False),
        speed=SpeedRecord(
            samples_per_second=8 / float(seconds.mean()),
            steady_from=6,
            train_seconds=float(seconds.sum()),
            total_seconds=float(seconds.sum()) + 1.0,
        ),
        environment={"cpu": "a processor"},
        digests={
            "data": hashlib.sha256(b"data").hexdigest(),
            "model": hashlib.sha256(f"{arm}{seed}".encode()).hexdigest(),
        },
    )
    steps = Steps(loss=np.linspace(3.0, 1.0, 50), seconds=seconds)
    write_evidence(folder / f"{arm}--{seed}", evidence, steps, examples)


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """Evidence of four jobs of a regression, and the experiment beside it."""
    for arm in ("eager", "compiled"):
        for seed in (1, 2):
            write_replicate(tmp_path / "evidence", arm, seed)
    (tmp_path / "experiment.toml").write_text(CONFIG)
    return tmp_path


def test_evidence_of_a_training_system_of_one_s_own_is_judged(evidence: Path) -> None:
    done = gate(evidence, "evidence", "--config", "experiment.toml", "--output", "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Release compiled, seed 1")
    verdict = Verdict.from_json((evidence / "out" / "verdict.json").read_bytes())
    assert {metric.part for metric in verdict.candidates[0].metrics} == {
        None,
        "region = north",
        "region = south",
    }


def test_a_model_that_predicts_worse_is_refused_and_the_baseline_released(evidence: Path) -> None:
    for seed in (1, 2):
        write_replicate(evidence / "evidence", "compiled", seed, worse_by=0.5)
    done = gate(evidence, "evidence", "--config", "experiment.toml")
    assert done.returncode == 0
    assert done.stdout.startswith("Release eager, seed 1: no candidate passed (compiled failed)")


def test_json_says_the_same_as_toml(evidence: Path) -> None:
    (evidence / "experiment.json").write_text(json.dumps(tomllib.loads(CONFIG)))
    done = [
        gate(evidence, "evidence", "--config", f"experiment.{kind}") for kind in ("toml", "json")
    ]
    assert done[0].stdout == done[1].stdout


def test_no_sound_baseline_is_exit_status_4_and_still_a_report(evidence: Path) -> None:
    (evidence / "evidence" / "eager--2" / "evidence" / "evidence.json").unlink()
    done = gate(evidence, "evidence", "--config", "experiment.toml", "--output", "junit.xml")
    assert done.returncode == 4
    assert done.stdout.startswith("Release nothing")
    assert suites(evidence / "junit.xml")[0].get("failures") == "1"


def test_each_report_goes_where_it_was_asked_for(evidence: Path) -> None:
    done = gate(
        evidence,
        "evidence",
        "--config=experiment.toml",
        "--output=junit.xml",
        "--output=report.md",
        "--output=report.html",
        "--output=verdict.json",
    )
    assert done.returncode == 0
    assert (evidence / "report.md").read_text().startswith("# prices\n")
    assert (evidence / "report.html").read_text().startswith("<!doctype html>")
    assert Verdict.from_json((evidence / "verdict.json").read_bytes()).decision.arm == "compiled"
    baseline, candidate = suites(evidence / "junit.xml")
    assert (baseline.get("name"), candidate.get("name")) == ("eager", "compiled")
    assert candidate.get("tests") == "4"  # one metric, two slices, the speed


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nowhere", "--config=experiment.toml"], "Directory 'nowhere' does not exist"),
        (["evidence", "--config=nowhere.toml"], "nowhere.toml cannot be read"),
        (["evidence", "--config=broken.toml"], "broken.toml is not readable TOML"),
        (["evidence", "--config=wrong.toml"], "wrong.toml: settings.metrics.mae.margin"),
        (
            ["evidence", "--config=experiment.toml", "--output=nowhere/report.html"],
            "--output: nowhere/report.html cannot be written",
        ),
        (
            ["evidence", "--config=experiment.toml", "--output=report.pdf"],
            "--output is report.pdf, expected a file .html",
        ),
        (
            ["elsewhere", "--config=experiment.toml"],
            "FOLDER elsewhere holds no folder ARM--SEED, expected eager--1, eager--2",
        ),
        (
            ["others", "--config=experiment.toml"],
            "FOLDER others holds jax--1, expected eager--1",
        ),
    ],
)
def test_bad_usage_ends_in_a_sentence_and_exit_status_2(
    evidence: Path, arguments: list[str], named: str
) -> None:
    (evidence / "broken.toml").write_text("workload = ")
    (evidence / "wrong.toml").write_text(CONFIG.replace("margin = 0.05", "margin = -1"))
    (evidence / "elsewhere" / "eager" / "1").mkdir(parents=True)
    (evidence / "others" / "jax--1").mkdir(parents=True)
    done = gate(evidence, *arguments)
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_a_metric_of_one_s_own_is_found_beside_the_evidence(evidence: Path) -> None:
    (evidence / "house_metrics.py").write_text(
        "def within_two(examples):\n    return abs(examples.predictions - examples.targets) < 2.0\n"
    )
    own = """
[settings.metrics.within_two]
direction = "higher"
margin = 0.02
function = "house_metrics.within_two"
"""
    (evidence / "experiment.toml").write_text(CONFIG + own)
    done = gate(evidence, "evidence", "--config=experiment.toml", "--output=out")
    assert done.returncode == 0, done.stderr
    verdict = Verdict.from_json((evidence / "out" / "verdict.json").read_bytes())
    found = {metric.metric: metric for metric in verdict.candidates[0].metrics}
    assert found["within_two"].baseline == pytest.approx(0.95, abs=0.03)


def test_changed_targets_fail(evidence: Path) -> None:
    file = evidence / "evidence" / "compiled--1" / "evidence" / "examples.npz"
    with np.load(file) as stored:
        columns = {name: stored[name] for name in stored.files}
    columns["targets"] = columns["predictions"]
    np.savez_compressed(file, **columns)
    done = gate(evidence, "evidence", "--config=experiment.toml")
    assert "compiled failed" in done.stdout


def test_strict_fails_where_a_candidate_does_though_the_baseline_may_be_released(
    evidence: Path,
) -> None:
    assert gate(evidence, "evidence", "--config", "experiment.toml", "--strict").returncode == 0
    (evidence / "evidence" / "compiled--2" / "evidence" / "steps.npz").unlink()
    lenient = gate(evidence, "evidence", "--config", "experiment.toml")
    strict = gate(evidence, "evidence", "--config", "experiment.toml", "--strict")
    assert (lenient.returncode, strict.returncode) == (0, 4)
    assert "Release eager, seed 1" in strict.stdout
