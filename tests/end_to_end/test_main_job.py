"""The main job as a user runs it: declared, compiled, trained, judged, registered, reported."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from compilegate.cli import main; main(prog_name='compilegate')"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PROJECT), "PYTHONUNBUFFERED": "1"}
TOPICS = {"sea": "ship harbour captain anchor", "bank": "money loan credit interest"}

WORKLOAD = """
name = "tiny"
description = "Two topics that differ in every word"
seeds = [1, 2]

[data]
source = "files"
train = "train.csv"
validation = "validation.csv"
sequence_length = 16
vocabulary = 64

[model]
source = "random"
layers = 1
hidden_size = 16
attention_heads = 2
intermediate_size = 16

[recipe]
epochs = 2

[arms.baseline]
compiler = "eager"
batch_size = 8
learning_rate = 3e-3

[arms.candidate]
compiler = "{compiler}"
batch_size = 4
learning_rate = {learning_rate}
spot = true

[gate]
min_speedup = 1000.0

[gate.metrics.accuracy]
direction = "higher"
margin = 0.5
"""
"""No compiler makes training a thousand times faster: the baseline is what must be registered."""


@dataclass(frozen=True)
class Folder:
    """A user's folder: a workload, its data, and the home of its executions."""

    path: Path

    @property
    def home(self) -> Path:
        return self.path / "home"

    def arguments(self, *more: str) -> list[str]:
        given = ["run", str(self.path / "tiny.toml"), "--home", str(self.home)]
        return [*COMMAND, *given, "--containers", str(PROJECT / "containers"), *more]

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.arguments(*more), capture_output=True, text=True, check=False, env=ENVIRONMENT
        )

    def packages(self) -> list[dict[str, Any]]:
        paths = sorted((self.home / "registry" / "tiny").glob("*.json"))
        return [json.loads(path.read_text(encoding="utf-8")) for path in paths]

    def evidence(self) -> dict[str, dict[str, Any]]:
        """By arm, what a job of it left."""
        found = {}
        for path in self.home.glob("s3/**/training/*/output/output.tar.gz"):
            with tarfile.open(path) as archive:
                member = archive.extractfile("evidence/evidence.json")
                assert member is not None
                evidence = json.loads(member.read())
                found[evidence["arm"]] = evidence
        return found

    def reports(self) -> list[Path]:
        return sorted(self.home.glob("executions/*/report.html"))


def folder_with(path: Path, *, compiler: str = "eager", learning_rate: str = "3e-3") -> Folder:
    (path / "tiny.toml").write_text(
        WORKLOAD.format(compiler=compiler, learning_rate=learning_rate), encoding="utf-8"
    )
    chance = random.Random(0)
    for split, documents in (("train", 64), ("validation", 40)):
        rows = ["text,label"]
        for number in range(documents):
            label = sorted(TOPICS)[number % 2]
            words = " ".join(chance.choices(TOPICS[label].split(), k=6))
            rows.append(f"{words} {number},{label}")
        (path / f"{split}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return Folder(path)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return folder_with(tmp_path)


def steps_that(output: str, words: str) -> list[str]:
    """The steps of which the progress lines say so, in order of the lines."""
    return re.findall(rf"^ *\d+:\d\d  (\S+) +{words}", output, flags=re.MULTILINE)


@pytest.mark.slow
def test_the_winner_is_registered_with_its_verdict_and_a_page_says_why(folder: Folder) -> None:
    done = folder.run()
    assert done.returncode == 0, done.stdout + done.stderr
    (package,) = folder.packages()
    metadata = package["CustomerMetadataProperties"]
    assert (metadata["arm"], metadata["seed"], metadata["workload"]) == ("baseline", "1", "tiny")
    assert package["ModelApprovalStatus"] == "PendingManualApproval"
    (report,) = folder.reports()
    page = report.read_text(encoding="utf-8")
    verdict = json.loads((report.parent / "verdict.json").read_text(encoding="utf-8"))
    assert verdict["decision"]["arm"] == "baseline"
    assert verdict["decision"]["sentence"] in done.stdout
    assert "candidate" in page
    assert f"report: {report}" in done.stdout
    assert "model:  tiny/1, PendingManualApproval" in done.stdout
    # A spot arm keeps checkpoints here too; on this machine nobody took anything away.
    assert {arm: evidence["checkpoints"] for arm, evidence in folder.evidence().items()} == {
        "baseline": None,
        "candidate": {"written": 0, "seconds": 0.0, "ignored": None, "resumed": []},
    }


@pytest.mark.slow
def test_nothing_is_trained_again_when_nothing_changed(folder: Folder) -> None:
    first = folder.run()
    assert first.returncode == 0, first.stdout + first.stderr
    second = folder.run()
    assert second.returncode == 0, second.stdout + second.stderr
    cached = steps_that(second.stdout, "taken from the cache")
    assert sorted(cached) == [
        "Prepare",
        "Train-baseline-1",
        "Train-baseline-2",
        "Train-candidate-1",
        "Train-candidate-2",
    ]
    first_package, second_package = folder.packages()
    job = "training_job"
    assert (
        first_package["CustomerMetadataProperties"][job]
        == second_package["CustomerMetadataProperties"][job]
    )


@pytest.mark.slow
def test_more_evidence_than_one_job_can_take_still_reaches_the_gate(folder: Folder) -> None:
    declared = folder.path / "tiny.toml"
    declared.write_text(declared.read_text().replace("seeds = [1, 2]", "seeds = [1, 2, 3, 4, 5]"))
    done = folder.run()
    assert done.returncode == 0, done.stdout + done.stderr
    ended = steps_that(done.stdout, "succeeded in")
    before_the_gate = ended[: ended.index("Gate")]
    assert {"Gather-1", "Gather-2"} < set(before_the_gate)
    assert len(before_the_gate) == 1 + 2 * 5 + 2
    (package,) = folder.packages()
    assert package["CustomerMetadataProperties"]["arm"] == "baseline"


@pytest.mark.slow
def test_a_changed_margin_judges_again_and_trains_nothing(folder: Folder) -> None:
    assert folder.run().returncode == 0
    declared = folder.path / "tiny.toml"
    declared.write_text(declared.read_text().replace("margin = 0.5", "margin = 0.4"))
    again = folder.run()
    assert again.returncode == 0
    assert len(steps_that(again.stdout, "taken from the cache")) == 5


@pytest.mark.slow
def test_a_candidate_that_diverges_is_refused_and_the_baseline_is_released(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, learning_rate="1e30")
    done = folder.run()
    assert done.returncode == 0, done.stdout + done.stderr
    (package,) = folder.packages()
    assert package["CustomerMetadataProperties"]["arm"] == "baseline"
    assert "loss" in done.stdout


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_and_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    """kill -9 while a job trains; no job survives it, and what had finished is kept."""
    undisturbed = folder_with(_made(tmp_path / "undisturbed"))
    assert undisturbed.run().returncode == 0

    folder = folder_with(_made(tmp_path / "disturbed"))
    with _running(folder) as process:
        assert process.stdout is not None
        seen = _read_until(process.stdout, r"Train-\S+ +succeeded")
        process.kill()
    finished = steps_that(seen, "succeeded")
    resumed = folder.run("--resume")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "resumed" in resumed.stdout
    assert not set(finished) & set(steps_that(resumed.stdout, "started on core"))
    arms = [
        [package["CustomerMetadataProperties"]["arm"] for package in each.packages()]
        for each in (folder, undisturbed)
    ]
    assert arms == [["baseline"], ["baseline"]]


@pytest.mark.slow
def test_ctrl_c_stops_the_jobs_and_leaves_an_execution_to_resume(folder: Folder) -> None:
    with _running(folder) as process:
        assert process.stdout is not None
        _read_until(process.stdout, r"Train-\S+ +started")
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait() == 130
    assert "execution stopped" in rest
    assert folder.packages() == []
    resumed = folder.run("--resume")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert len(folder.packages()) == 1


@pytest.mark.slow
def test_a_job_that_fails_ends_with_status_3_its_last_lines_and_its_log(folder: Folder) -> None:
    """A label that training never saw cannot be learnt: the prepare job says so and fails."""
    data = folder.path / "validation.csv"
    data.write_text(data.read_text() + "unheard of,mystery\n")
    done = folder.run()
    assert done.returncode == 3
    assert "mystery" in done.stderr
    (log,) = re.findall(r"Prepare: exit code 1; log: (\S+)", done.stderr)
    assert "mystery" in Path(log).read_text(encoding="utf-8")
    (report,) = folder.reports()
    assert "mystery" in report.read_text(encoding="utf-8")
    assert folder.packages() == []


@pytest.mark.slow
def test_a_compiled_candidate_proves_that_its_compiler_ran(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, compiler="inductor")
    done = folder.run()
    assert done.returncode == 0, done.stdout + done.stderr
    (report,) = folder.reports()
    observations = (report.parent / "verdict.json").read_text(encoding="utf-8")
    verdict = json.loads(observations)
    (candidate,) = verdict["candidates"]
    codes = {reason["code"] for reason in candidate["reasons"]}
    assert not {code for code in codes if code.startswith("integrity")}, codes
    assert candidate["speed"]["candidate_compile_seconds"] > 0
    assert candidate["parity"]["answer"] == "pass"
    assert 0 < candidate["parity"]["worst"]["ratio"] < candidate["parity"]["limit"]

    # The step cache left aside, the jobs run again, and start from what these compiled.
    assert candidate["speed"]["compile_cold"]["earlier"] is False
    again = folder.run("--no-cache")
    assert again.returncode == 0, again.stdout + again.stderr
    (report,) = set(folder.reports()) - {report}
    (candidate,) = json.loads((report.parent / "verdict.json").read_text())["candidates"]
    speed = candidate["speed"]
    assert (speed["compile_state"], speed["compile_warm"]["jobs"]) == ("warm", 2)
    assert speed["compile_cold"]["earlier"] is True


OWN_METRIC = """
def certain(examples):
    return (examples.scores.max(axis=1) > 0.4).astype(float)
"""
OWN_METRIC_AND_SLICES = """
[gate.metrics.certain]
direction = "higher"
margin = 0.9
function = "own_metrics.certain"

[[gate.slices]]
column = "region"
metric = "accuracy"
margin = 0.6
min_examples = 9
"""


@pytest.mark.slow
def test_slices_and_a_metric_of_one_s_own_reach_the_gate_and_its_report(folder: Folder) -> None:
    """The columns travel with the data, the function with the gate's program."""
    declared = folder.path / "tiny.toml"
    text = declared.read_text().replace("sequence_length", 'slices = ["region"]\nsequence_length')
    text = text.replace("[gate]", '[gate]\ncode = ["own_metrics.py"]')
    declared.write_text(text + OWN_METRIC_AND_SLICES)
    (folder.path / "own_metrics.py").write_text(OWN_METRIC)
    data = folder.path / "validation.csv"
    head, *rows = data.read_text().splitlines()
    regions = ["north", "south", "north"]
    marked = [f"{row},{regions[number % 3]}" for number, row in enumerate(rows)]
    data.write_text("\n".join([f"{head},region", *marked]) + "\n")
    done = folder.run()
    assert done.returncode == 0, done.stdout + done.stderr
    (report,) = folder.reports()
    verdict = json.loads((report.parent / "verdict.json").read_text(encoding="utf-8"))
    (candidate,) = verdict["candidates"]
    found = {(each["metric"], each["part"]): each["examples"] for each in candidate["metrics"]}
    assert found == {
        ("accuracy", None): 40,
        ("certain", None): 40,
        ("accuracy", "region = north"): 27,
        ("accuracy", "region = south"): 13,
    }
    assert "region = south" in report.read_text(encoding="utf-8")


def _made(path: Path) -> Path:
    path.mkdir()
    return path


@contextlib.contextmanager
def _running(folder: Folder) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        folder.arguments(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=ENVIRONMENT,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _read_until(lines: Iterator[str], pattern: str) -> str:
    seen = ""
    for line in lines:
        seen += line
        if re.search(pattern, line):
            return seen
    raise AssertionError(f"{pattern} was never printed:\n{seen}")
