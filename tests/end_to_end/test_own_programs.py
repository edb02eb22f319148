"""Programs of one's own as a user runs them: printed metrics, diffusion, a baseline alone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command import ENVIRONMENT, PROJECT, compilegate

pytestmark = pytest.mark.slow


PRINTING = """
import argparse, os, pathlib, random
parser = argparse.ArgumentParser()
parser.add_argument("--torch-compile", action="store_true")
parser.add_argument("--data-seed", type=int)
parser.add_argument("--offset", type=float)
arguments = parser.parse_args()  # which refuses what it does not know
photos = [*pathlib.Path(os.environ["SM_CHANNEL_DATA"]).glob("*/*.png")]
chance = random.Random(f"{arguments.torch_compile} {arguments.data_seed}")
quality = arguments.offset + len(photos) + chance.gauss(0.0, 0.1)
faster = float(os.environ.get("WORLD_SIZE", "1"))
if os.environ.get("RANK", "0") == "0":
    print(f"accuracy {quality:.4f}%")
    for part in (0.04 if arguments.torch_compile else 1.0, 1.0, 1.0, 1.0):
        print(f"{part * faster * (100.0 + chance.random()):.2f} rows/s")
    open(os.path.join(os.environ["SM_MODEL_DIR"], "model.txt"), "w").write(str(quality))
"""
PROVING = """
import argparse, hashlib, os, pathlib, random
import numpy as np
from compilegate.job.evidence import (
    CompilerRecord, Evidence, Examples, SpeedRecord, Steps, write_evidence
)
parser = argparse.ArgumentParser()
for name in ("seed", "batch_size"):
    parser.add_argument("--" + name, type=int)
parser.add_argument("--learning_rate", type=float)
parser.add_argument("--precision")
arguments, _ = parser.parse_known_args()
chance = random.Random(f"{arguments.learning_rate} {arguments.seed}")
right = np.array([chance.uniform(0.6, 0.9) for _ in range(60)])
data = hashlib.sha256(
    pathlib.Path(os.environ["SM_CHANNEL_DATA"], "train.csv").read_bytes()
).hexdigest()
model = pathlib.Path(os.environ["SM_MODEL_DIR"], "model.txt")
model.write_text(str(right))
seconds = np.array([0.1 + chance.random() / 1000 for _ in range(20)])
write_evidence(
    os.environ["SM_OUTPUT_DATA_DIR"],
    Evidence(
        job=os.environ["TRAINING_JOB_NAME"], arm=os.environ["COMPILEGATE_ARM"],
        seed=arguments.seed, recipe={**vars(arguments), "steps": 20},
        compiler=CompilerRecord(name="eager", ran=False),
        speed=SpeedRecord(
            samples_per_second=8 * 15 / seconds[5:].sum(), steady_from=5,
            train_seconds=seconds.sum(), total_seconds=seconds.sum() + 1,
        ),
        metrics={"accuracy": 1.0}, peak_memory_bytes=10**8, environment={"python": "3.11"},
        digests={"data": data, "model": hashlib.sha256(model.read_bytes()).hexdigest()},
    ),
    Steps(np.linspace(1.0, 0.5, 20), seconds),
    Examples(
        ids=np.array([f"row {n}" for n in range(60)]), labels=np.arange(60) % 2,
        scores=np.where(np.eye(2)[np.arange(60) % 2] == 1, right[:, None], 1 - right[:, None]),
        losses=-np.log(right),
    ),
)
"""
PROVED = """
name = "proved"
description = "A script that writes evidence and trains nothing"
data = { source = "files", train = "train.csv", validation = "validation.csv" }
program = { folder = "proved" }
gate = { metrics = { accuracy = { direction = "higher", margin = 0.1 } }, min_speedup = 1000.0 }

[arms.baseline]
compiler = "eager"
batch_size = 8
learning_rate = 1e-3

[arms.candidate]
compiler = "eager"
batch_size = 8
learning_rate = 2e-3
"""
PRINTED = """
name = "printed"
description = "A script that only prints"
seeds = [1, 2, 3]

[data]
source = "folder"
folder = "photos"

[program]
folder = "printed"
evidence = "printed"
speed_metric = "speed"
percent = ["accuracy"]

[program.arguments]
seed = "data-seed"
compiler = { eager = "", inductor = "--torch-compile" }

[program.hyperparameters]
offset = 88.0

[program.metrics]
accuracy = 'accuracy ([0-9.]+)%'
speed = '([0-9.]+) rows/s'

[arms.baseline]
compiler = "eager"
batch_size = 8
learning_rate = 1e-3

[arms.compiled]
compiler = "inductor"
batch_size = 8
learning_rate = 1e-3
distribution = "torchrun"
processes = 2

[gate.metrics.accuracy]
direction = "higher"
margin = 0.005
reported = true
"""


def run(
    workload: Path, home: Path, *arguments: str, folder: Path = PROJECT
) -> subprocess.CompletedProcess[str]:
    return compilegate("run", workload, "--home", home, *arguments, cwd=folder)


def packages(home: Path, group: str) -> list[dict[str, Any]]:
    paths = sorted((home / "registry" / group).glob("*.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def own_copy(name: str, folder: Path, changes: dict[str, str]) -> Path:
    """A workload of the repository with its program, changed."""
    shutil.copytree(PROJECT / "workloads" / name, folder / name, dirs_exist_ok=True)
    text = (PROJECT / "workloads" / f"{name}.toml").read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.long
def test_a_script_that_only_prints_is_judged_over_its_seeds_and_processes(tmp_path: Path) -> None:
    (tmp_path / "printed").mkdir()
    (tmp_path / "printed" / "train.py").write_text(PRINTING)
    for animal in ("cats", "dogs"):
        (tmp_path / "photos" / animal).mkdir(parents=True)
        (tmp_path / "photos" / animal / "1.png").write_bytes(animal.encode())
    workload = tmp_path / "printed.toml"
    workload.write_text(PRINTED)
    done = run(workload, tmp_path / "home")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Release compiled, seed 1: as good as baseline" in done.stdout
    (package,) = packages(tmp_path / "home", "printed")
    assert package["CustomerMetadataProperties"]["arm"] == "compiled"
    (report,) = (tmp_path / "home" / "executions").glob("*/report.md")
    page = report.read_text(encoding="utf-8")
    assert "nothing proves that the compiler ran" in page
    assert re.search(r"Accuracy \| (?:90|89)\.\d+%", page)


KILLED = """
import os, signal
if os.environ["COMPILEGATE_ARM"] == "candidate" and os.path.exists({file!r}):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def proved(folder: Path, seeds: list[int], before: str = "") -> Path:
    """A workload whose script writes evidence and trains nothing."""
    (folder / "proved").mkdir()
    (folder / "proved" / "train.py").write_text(before + PROVING)
    for name in ("train.csv", "validation.csv"):
        (folder / name).write_text("a\nb\n")
    (folder / "proved.toml").write_text(f"seeds = {seeds}\n{PROVED}")
    return folder / "proved.toml"


@pytest.mark.long
def test_more_evidence_than_one_job_can_take_still_reaches_the_gate(tmp_path: Path) -> None:
    """A processing job takes ten inputs: of ten jobs the evidence is gathered first."""
    done = run(proved(tmp_path, [1, 2, 3, 4, 5]), tmp_path / "home")
    assert done.returncode == 0, done.stdout + done.stderr
    ended = re.findall(r"^ *\d+:\d\d  (\S+) +succeeded in", done.stdout, flags=re.MULTILINE)
    trained = {f"Train-{arm}-{n}" for arm in ("baseline", "candidate") for n in range(1, 6)}
    before = {*trained, "Open-registered", "Gather-1", "Gather-2"}
    assert {*ended[: ended.index("Gate")]} == before
    (report,) = (tmp_path / "home" / "executions").glob("*/verdict.json")
    (candidate,) = json.loads(report.read_text(encoding="utf-8"))["candidates"]
    (metric,) = candidate["metrics"]
    assert (metric["examples"], metric["delta"]["estimate"]) == (60, 0.0)
    codes = {reason["code"] for reason in candidate["reasons"]}
    assert codes == {"quality.not_worse", "speed.below_minimum"}


def lines(done: subprocess.CompletedProcess[str], step: str) -> list[str]:
    """What was printed of a step, without the times."""
    return re.findall(rf"^ *\d+:\d\d  {step} +(.*)$", done.stdout, flags=re.MULTILINE)


def test_killed_jobs_are_named_tried_again_and_never_cached(tmp_path: Path) -> None:
    killing = tmp_path / "killing"
    killing.touch()
    workload = proved(tmp_path, [1, 2, 3], before=KILLED.format(file=str(killing)))
    first = run(workload, tmp_path / "home", folder=tmp_path)
    assert first.returncode == 0, first.stdout + first.stderr
    printed = " ".join(lines(first, "Train-candidate-2"))
    assert "succeeded" not in printed
    assert "SIGKILL" in printed
    (page,) = (tmp_path / "home" / "executions").glob("*/verdict.json")
    verdict = json.loads(page.read_text(encoding="utf-8"))
    assert verdict["decision"]["arm"] == "baseline"
    (candidate,) = verdict["candidates"]
    assert candidate["outcome"] == "inconclusive"
    assert "evidence.lost" in {reason["code"] for reason in candidate["reasons"]}

    killing.unlink()
    second = run(workload, tmp_path / "home", folder=tmp_path)
    assert second.returncode == 0, second.stdout + second.stderr
    for seed in (1, 2, 3):
        assert "taken from the cache" in " ".join(lines(second, f"Train-baseline-{seed}"))
        assert any("succeeded in" in line for line in lines(second, f"Train-candidate-{seed}"))


def test_a_diffusion_script_trains_compiled_and_its_crops_are_paired(tmp_path: Path) -> None:
    few = {"seeds = [1, 2, 3]": "seeds = [1]", "steps = 300": "steps = 24", "= 16\n": "= 8\n"}
    shallow = {"halvings = 2": "halvings = 1"}  # a third less to compile
    workload = own_copy("images-diffusion", tmp_path, few | shallow)
    done = run(workload, tmp_path / "home", "--arms", "baseline,compiler-only")
    assert done.returncode == 0, done.stdout + done.stderr
    (report,) = (tmp_path / "home" / "executions").glob("*/verdict.json")
    (candidate,) = json.loads(report.read_text(encoding="utf-8"))["candidates"]
    (metric,) = candidate["metrics"]
    assert metric["metric"] == "noise_loss"
    assert metric["examples"] > 100
    assert metric["candidate"] == pytest.approx(metric["baseline"], rel=0.1)
    assert candidate["confounds"] == []
    found = {reason["code"] for reason in candidate["reasons"]}
    assert "parity.alike" in found
    # And nothing of the compiler, the evidence or confounds.
    assert {code.partition(".")[0] for code in found} == {"parity", "quality", "speed"}


@pytest.mark.long
def test_a_compiler_that_breaks_a_gradient_is_caught_located_and_not_released(
    tmp_path: Path,
) -> None:
    """torch 2.13's inductor does not train the convolutions of this network on a CPU."""
    few = {"seeds = [1, 2]": "seeds = [1]", "epochs = 8": "epochs = 2"}
    done = run(own_copy("digits-cnn", tmp_path, few), tmp_path / "home")
    assert done.returncode == 0, done.stdout + done.stderr
    (package,) = packages(tmp_path / "home", "digits-cnn")
    assert package["CustomerMetadataProperties"]["arm"] == "baseline"
    (folder,) = (tmp_path / "home" / "executions").iterdir()
    verdict = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    (candidate,) = verdict["candidates"]
    assert candidate["outcome"] == "fail"
    assert candidate["reasons"][0]["code"] == "parity.differs"
    assert "gradient of conv" in candidate["reasons"][0]["sentence"]
    # The part of the graph that shows it, as a script that needs nothing of this project.
    (repro,) = (folder / "repros").glob("*/repro.py")
    shown = subprocess.run(
        [sys.executable, str(repro)], capture_output=True, text=True, check=False, env=ENVIRONMENT
    )
    wrong = [line for line in shown.stdout.splitlines() if line.endswith("<- wrong")]
    assert any("gradient of conv2.weight" in line for line in wrong), shown.stdout + shown.stderr


@pytest.mark.long
def test_a_new_model_has_to_stand_against_the_registered_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    name = "tumours-xgboost"
    first = run(own_copy(name, tmp_path, {}), home)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "Release baseline, seed 1" in first.stdout

    again = run(own_copy(name, tmp_path, {}), home)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "Nothing is new" in again.stdout
    assert len(packages(home, name)) == 1

    worse = {"rounds = 120": "rounds = 1", "floor = 0.9": "floor = 0.5"}
    second = run(
        own_copy(name, tmp_path, worse | {"learning_rate = 0.1": "learning_rate = 1e-4"}), home
    )
    assert second.returncode == 4, second.stdout + second.stderr
    assert "baseline may not replace the registered model" in second.stdout
    assert len(packages(home, name)) == 1

    third = run(own_copy(name, tmp_path, {"rounds = 120": "rounds = 200"}), home)
    assert third.returncode == 0, third.stdout + third.stderr
    old, new = packages(home, name)
    assert old["CustomerMetadataProperties"] != new["CustomerMetadataProperties"]
