"""Generated documents, and real prepare and training processes over them."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compilegate.gate.evidence import read_evidence
from compilegate.job.evidence import Evidence, EvidenceRecord
from tests.environments.xla import interpreter
from tests.made_once import made_once

ROOT = Path(__file__).resolve().parents[2]
SEQUENCE_LENGTH = 16
TOPICS = {
    "finance": ["bank", "rate", "loan", "bond", "yield"],
    "harvest": ["wheat", "corn", "crop", "grain", "field"],
    "shipping": ["port", "vessel", "cargo", "strike", "dock"],
}
FILLER = ["the", "of", "said", "new", "and", "report", "year", "company"]
TINY = {
    "layers": 1,
    "hidden_size": 32,
    "intermediate_size": 64,
    "batch_size": 16,
    "learning_rate": 3e-3,
    "epochs": 3,
}
"""A model that learns the topics in about a second."""
DIVERGING = {"learning_rate": 1e30, "warmup_fraction": 0, "gradient_clip": 0}
TWO = {"distribution": "torchrun", "processes": 2, "batch_size": 8}


@dataclass(frozen=True)
class JobResult:
    """The remains of a training process."""

    status: int
    stdout: str
    stderr: str
    folder: Path

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def reason(self) -> str:
        """Why it failed, as SageMaker shows it."""
        return (self.folder / "output" / "failure").read_text()

    @property
    def record(self) -> EvidenceRecord:
        assert self.status == 0, self.stderr
        return read_evidence(self.folder / "output" / "data" / "evidence")

    @property
    def evidence(self) -> Evidence:
        return self.record.evidence


PrepareProcess = Callable[..., subprocess.CompletedProcess[str]]
StartJob = Callable[..., tuple[subprocess.Popen[str], Path]]
TrainJob = Callable[..., JobResult]


def documents(count: int, seed: int, filler: Sequence[int] = (8,)) -> Iterator[dict[str, str]]:
    """Documents whose words tell their topic, most of the time."""
    draw = random.Random(seed)
    for _ in range(count):
        topic = draw.choice(sorted(TOPICS))
        shown = draw.choice(sorted(TOPICS)) if draw.random() < 0.1 else topic
        words = draw.choices(FILLER, k=draw.choice(filler)) + draw.choices(TOPICS[shown], k=3)
        draw.shuffle(words)
        yield {"text": " ".join(words), "label": topic}


def write_jsonl(path: Path, rows: Any) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def start_python(
    *arguments: str, python: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start Python in the repository's root, as a container does in its source root."""
    fixed = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [python, *arguments],
        cwd=ROOT,
        env={**os.environ, **fixed, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def children(pid: int) -> list[int]:
    """The processes that a process started, in order."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture(scope="session")
def raw_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.jsonl and validation.jsonl."""
    folder = tmp_path_factory.mktemp("raw")
    write_jsonl(folder / "train.jsonl", documents(320, seed=1))
    write_jsonl(folder / "validation.jsonl", documents(90, seed=2))
    return folder


@pytest.fixture(scope="session")
def prepare_process() -> PrepareProcess:
    """Runs one real prepare job over a folder, into another, with further options."""

    def run(
        data: Path, output: Path, *options: str, python: str = sys.executable
    ) -> subprocess.CompletedProcess[str]:
        places = ("--data-dir", str(data), "--output-dir", str(output))
        sizes = ("--sequence-length", str(SEQUENCE_LENGTH), "--vocabulary", "200")
        process = start_python("-m", "training.prepare", *places, *sizes, *options, python=python)
        stdout, stderr = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    return run


@pytest.fixture(scope="session")
def prepared(
    raw_data: Path, prepare_process: PrepareProcess, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The prepared data set of `raw_data`."""

    def prepare(folder: Path) -> None:
        result = prepare_process(raw_data, folder)
        assert result.returncode == 0, result.stderr

    return made_once(tmp_path_factory, "prepared", prepare)


@pytest.fixture(scope="module")
def start_job(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> StartJob:
    """Starts one real training job; hyperparameters are keyword arguments."""

    def start(
        environment: Mapping[str, str] | None = None,
        python: str = sys.executable,
        program: Sequence[str] = ("training/train.py",),
        **options: object,
    ) -> tuple[subprocess.Popen[str], Path]:
        folder = tmp_path_factory.mktemp("job")
        (folder / "output" / "data").mkdir(parents=True)
        (folder / "model").mkdir()
        places = {
            "SM_CHANNEL_PREPARED": str(prepared),
            "SM_MODEL_DIR": str(folder / "model"),
            "SM_OUTPUT_DATA_DIR": str(folder / "output" / "data"),
            "SM_OUTPUT_DIR": str(folder / "output"),
            "TRAINING_JOB_NAME": "job-under-test",
        }
        flags = {"arm": "baseline", "seed": 1, **TINY, **options}
        words = [part for name, value in flags.items() for part in (f"--{name}", str(value))]
        process = start_python(
            *program, *words, python=python, environment={**places, **(environment or {})}
        )
        return process, folder

    return start


@pytest.fixture(scope="module")
def train_job(start_job: StartJob) -> TrainJob:
    """Runs one real training job to its end; hyperparameters are keyword arguments."""

    def run(*environment: Mapping[str, str], **options: Any) -> JobResult:
        process, folder = start_job(*environment, **options)
        stdout, stderr = process.communicate()
        return JobResult(process.returncode, stdout, stderr, folder)

    return run


@pytest.fixture(scope="session")
def xla_python() -> str:
    """The interpreter of an environment with torch_xla."""
    found = interpreter()
    if found is None:
        pytest.skip("NOTHING WAS TRAINED WITH XLA: make the environment with `make xla-env`")
    return str(found)
