"""The main job as a user runs it: declared, compiled, trained, judged, registered, reported."""

from __future__ import annotations

import contextlib
import html
import json
import random
import re
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command import COMMAND, ENVIRONMENT, compilegate

pytestmark = pytest.mark.slow

TOPICS = {"sea": "ship harbour captain anchor", "bank": "money loan credit interest"}

WORKLOAD = """
name = "tiny"
description = "Two topics that differ in every word"
seeds = {seeds}

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
margin = 0.45
floor = 0.1  # a dozen steps may learn nothing that shows
"""
"""No compiler makes training a thousand times faster: the baseline is what must be registered."""


@dataclass(frozen=True)
class Folder:
    """A user's folder: a workload, its data, and the home of its executions."""

    path: Path

    @property
    def home(self) -> Path:
        return self.path / "home"

    @property
    def declared(self) -> Path:
        return self.path / "tiny.toml"

    def declare(self, old: str, new: str) -> None:
        """Write something else into the workload."""
        text = self.declared.read_text(encoding="utf-8")
        assert old in text
        self.declared.write_text(text.replace(old, new), encoding="utf-8")

    def arguments(self, *more: str) -> list[str]:
        return ["run", str(self.declared), "--home", str(self.home), *more]

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        return compilegate(*self.arguments(*more))

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


def folder_with(
    path: Path, *, seeds: str = "[1]", compiler: str = "eager", learning_rate: str = "3e-3"
) -> Folder:
    (path / "tiny.toml").write_text(
        WORKLOAD.format(seeds=seeds, compiler=compiler, learning_rate=learning_rate),
        encoding="utf-8",
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


@dataclass(frozen=True)
class Finished:
    """An execution that nothing disturbed, and what it printed and registered."""

    folder: Folder
    stdout: str
    package: dict[str, Any]
    report: Path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Of two seeds; what runs later in its folder finds these jobs in the cache."""
    folder = folder_with(tmp_path_factory.mktemp("finished"), seeds="[1, 2]")
    done = folder.run()
    assert done.returncode == 0, done.stdout + done.stderr
    (package,) = folder.packages()
    (report,) = folder.reports()
    return Finished(folder, done.stdout, package, report)


def steps_that(output: str, words: str) -> list[str]:
    """The steps of which the progress lines say so, in order of the lines."""
    return re.findall(rf"^ *\d+:\d\d  (\S+) +{words}", output, flags=re.MULTILINE)


@pytest.mark.slow
def test_the_winner_is_registered_with_its_verdict_and_a_page_says_why(finished: Finished) -> None:
    metadata = finished.package["CustomerMetadataProperties"]
    assert (metadata["arm"], metadata["seed"], metadata["workload"]) == ("baseline", "1", "tiny")
    assert finished.package["ModelApprovalStatus"] == "PendingManualApproval"
    verdict = json.loads((finished.report.parent / "verdict.json").read_text(encoding="utf-8"))
    assert verdict["decision"]["arm"] == "baseline"
    assert verdict["decision"]["sentence"] in finished.stdout
    page = html.unescape(finished.report.read_text(encoding="utf-8"))
    for shown in (finished.report.parent.name, "Run it again"):
        assert shown in page, shown
    assert verdict["decision"]["sentence"] in page
    (candidate,) = verdict["candidates"]
    # On a busy machine two jobs may differ so much that even this speed-up is only not settled.
    refusals = [each for each in candidate["reasons"] if each["outcome"] != "pass"]
    assert any(each["sentence"] in page for each in refusals)
    card = json.loads(finished.package["ModelCard"]["ModelCardContent"])
    observation = card["evaluation_details"][0]["evaluation_observation"]
    assert observation == verdict["decision"]["sentence"]
    *_, decided, saves, report = finished.stdout.splitlines()
    assert decided.startswith(f"decided: {verdict['decision']['sentence']} Registered: tiny/1, P")
    assert saves.startswith("saves:   nothing: the baseline is released")
    assert report == f"report:  {finished.report}"
    # A spot arm keeps checkpoints here too; on this machine nobody took anything away.
    evidence = finished.folder.evidence()
    assert {arm: each["checkpoints"] for arm, each in evidence.items()} == {
        "baseline": None,
        "candidate": {"written": 0, "seconds": 0.0, "ignored": None, "resumed": []},
    }


@pytest.mark.long
@pytest.mark.slow
def test_nothing_is_trained_again_when_nothing_changed_or_the_margin_alone(
    finished: Finished,
) -> None:
    folder = finished.folder
    trained = (f"Train-{arm}-{n}" for arm in ("baseline", "candidate") for n in (1, 2))
    steps = ["Open-registered", "Prepare", *trained]
    again = folder.run()
    assert again.returncode == 0, again.stdout + again.stderr
    assert sorted(steps_that(again.stdout, "taken from the cache")) == steps
    assert "decided: Nothing is new" in again.stdout
    assert folder.packages() == [finished.package]

    folder.declare("margin = 0.45", "margin = 0.4")
    judged = folder.run()
    folder.declare("margin = 0.4", "margin = 0.45")
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert sorted(steps_that(judged.stdout, "taken from the cache")) == steps
    assert "Gate" in steps_that(judged.stdout, "succeeded in")


@pytest.mark.long
@pytest.mark.slow
def test_a_candidate_that_diverges_is_refused_and_the_baseline_is_released(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, learning_rate="1e30")
    done = folder.run()
    assert done.returncode == 0, done.stdout + done.stderr
    (package,) = folder.packages()
    assert package["CustomerMetadataProperties"]["arm"] == "baseline"
    assert re.search(r"candidate: fail\n.*the training loss is (nan|inf) in step", done.stdout)


@pytest.mark.long
@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_and_ends_as_an_undisturbed_one(
    tmp_path: Path, finished: Finished
) -> None:
    """kill -9 while a job trains; no job survives it, and what had finished is kept."""
    folder = folder_with(tmp_path, seeds="[1, 2]")
    with _running(folder) as process:
        assert process.stdout is not None
        seen = _read_until(process.stdout, r"Train-\S+ +succeeded")
        process.kill()
    kept = steps_that(seen, "succeeded")
    resumed = folder.run("--resume")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "resumed" in resumed.stdout
    assert not set(kept) & set(steps_that(resumed.stdout, "started on core"))
    (package,) = folder.packages()
    ends = [each["CustomerMetadataProperties"] for each in (package, finished.package)]
    for name in ("arm", "seed", "workload"):
        assert ends[0][name] == ends[1][name]


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.slow
def test_a_job_that_fails_ends_with_status_3_its_last_lines_and_its_log(folder: Folder) -> None:
    """A label that training never saw cannot be learnt. Beyond the rows that `run` looks at before
    it starts, the prepare job says so and fails."""
    data = folder.path / "validation.csv"
    header, *rows = data.read_text().splitlines()
    data.write_text("\n".join([header, *rows * 520, "unheard of,mystery\n"]))
    done = folder.run()
    assert done.returncode == 3
    assert "mystery" in done.stderr
    (log,) = re.findall(r"Prepare: exit code 1; log: (\S+)", done.stderr)
    assert "mystery" in Path(log).read_text(encoding="utf-8")
    (report,) = folder.reports()
    assert "mystery" in report.read_text(encoding="utf-8")
    assert folder.packages() == []


@pytest.mark.long
@pytest.mark.slow
def test_a_compiled_candidate_proves_that_its_compiler_ran(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, compiler="inductor")
    done = folder.run()
    assert done.returncode == 0, done.stdout + done.stderr
    (report,) = folder.reports()
    (candidate,) = json.loads((report.parent / "verdict.json").read_text())["candidates"]
    # Nothing of the compiler, the evidence or confounds: it is too slow, and of one seed.
    codes = {reason["code"] for reason in candidate["reasons"]}
    assert codes == {"parity.alike", "quality.single_seed", "speed.below_minimum"}
    assert candidate["speed"]["run"]["candidate_compile_seconds"] > 0
    assert candidate["parity"]["answer"] == "pass"
    assert 0 < candidate["parity"]["worst"]["ratio"] < candidate["parity"]["limit"]

    # The step cache left aside, the jobs run again, and start from what these compiled.
    assert candidate["speed"]["run"]["compile_cold"]["earlier"] is False
    again = folder.run("--no-cache")
    assert again.returncode == 0, again.stdout + again.stderr
    (report,) = set(folder.reports()) - {report}
    (candidate,) = json.loads((report.parent / "verdict.json").read_text())["candidates"]
    speed = candidate["speed"]["run"]
    assert (speed["compile_state"], speed["compile_warm"]["jobs"]) == ("warm", 1)
    assert speed["compile_cold"]["earlier"] is True


OWN_METRIC = """
def certain(examples):
    return (examples.scores.max(axis=1) > 0.4).astype(float)
"""
OWN_METRIC_AND_SLICES = """
[gate.metrics.certain]
direction = "higher"
margin = 0.45
function = "own_metrics.certain"

[[gate.slices]]
column = "region"
metric = "accuracy"
margin = 0.45
min_examples = 9
"""


@pytest.mark.long
@pytest.mark.slow
def test_slices_and_a_metric_of_one_s_own_reach_the_gate_and_its_report(folder: Folder) -> None:
    """The columns travel with the data, the function with the gate's program."""
    folder.declare("sequence_length", 'slices = ["region"]\nsequence_length')
    text = folder.declared.read_text().replace("[gate]", '[gate]\ncode = ["own_metrics.py"]')
    folder.declared.write_text(text + OWN_METRIC_AND_SLICES)
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


@contextlib.contextmanager
def _running(folder: Folder) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*COMMAND, *folder.arguments()],
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
