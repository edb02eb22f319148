"""An execution's evidence as files: read, kept consistent, and written.

Nothing here imports the gate or the evidence writer. The format is that of docs/gate.md and of the
jobs' files, and what a job computes from its columns (metrics and digests) is computed here anew.
So a rewrite of either side meets evidence that it did not write.
"""

from __future__ import annotations

import copy
import hashlib
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

BASES = Path(__file__).parent / "bases"
Replicate = tuple[str, int]
"""An (arm, seed)."""
Array = npt.NDArray[Any]
OUTPUTS = ("scores", "losses", "predictions")
FLOATS = {
    "steps": ("loss", "seconds"),
    "paired": ("baseline_seconds", "candidate_seconds", "baseline_first"),
    "parity": ("eager", "repeated", "compiled"),
}
"""By file, the columns whose digest is that of their numbers in order."""


@dataclass
class Job:
    """What one training job left."""

    document: dict[str, Any]
    """evidence.json."""
    files: dict[str, dict[str, Array]] = field(default_factory=dict)
    """By name of the .npz file, its columns by name."""

    @property
    def examples(self) -> dict[str, Array]:
        """The columns of examples.npz."""
        return self.files["examples"]

    def measure(self) -> None:
        """Report the metrics that its examples have now, of those that it reported before."""
        found = metrics_of(self.examples)
        reported = self.document["metrics"]
        self.document["metrics"] = {
            name: found.get(name, value) for name, value in reported.items()
        }

    def seal(self) -> None:
        """Write the digests that an honest job would have written of all this."""
        digests = self.document["digests"]
        for name in ("examples", "outputs", "trained_on", *FLOATS):
            digests.pop(name, None)
        digests.update(digests_of(self.files))
        self.document["sha256"] = document_digest(self.document)


@dataclass
class Execution:
    """The evidence of one execution, and the experiment that it is judged by."""

    experiment: dict[str, Any]
    jobs: dict[Replicate, Job]
    ran: dict[Replicate, str] | None = None
    """By replicate, the training job that the execution ran; None where nobody says."""
    damage: list[Callable[[Path], None]] = field(default_factory=list)
    """What happens to the files after the jobs wrote them, given the folder that holds them."""

    def of(self, arm: str, *seeds: int) -> Iterator[tuple[int, Job]]:
        """The arm's jobs with their seeds: the named ones, or all."""
        for (name, seed), job in self.jobs.items():
            if name == arm and (not seeds or seed in seeds):
                yield seed, job

    @property
    def candidates(self) -> list[str]:
        """The arms that are compared with the baseline."""
        return [arm for arm in self.experiment["arms"] if arm != self.experiment["baseline"]]

    def write(self, folder: Path) -> Path:
        """Write all jobs' evidence below the folder; returns the experiment's file."""
        evidence = folder / "evidence"
        for (arm, seed), job in self.jobs.items():
            job.seal()
            write_job(job, evidence / f"{arm}--{seed}" / "evidence")
        for happens in self.damage:
            happens(evidence)
        path = folder / "experiment.json"
        path.write_text(json.dumps(self.experiment), encoding="utf-8")
        return path


def read_base(name: str) -> Execution:
    """The evidence of a base as its trainings left it."""
    folder = BASES / name
    experiment = tomllib.loads((folder / "experiment.toml").read_text(encoding="utf-8"))
    jobs = {
        (arm, seed): copy.deepcopy(_read_job(folder / f"{arm}--{seed}" / "evidence"))
        for arm in experiment["arms"]
        for seed in experiment["seeds"]
    }
    return Execution(experiment, jobs)


@cache
def _read_job(folder: Path) -> Job:
    files = {}
    for path in sorted(folder.glob("*.npz")):
        with np.load(path, allow_pickle=False) as stored:
            files[path.stem] = {name: stored[name] for name in stored.files}
    return Job(json.loads((folder / "evidence.json").read_text(encoding="utf-8")), files)


def write_job(job: Job, folder: Path) -> None:
    """Write the files of one job, as they are."""
    folder.mkdir(parents=True)
    for name, columns in job.files.items():
        np.savez(folder / f"{name}.npz", **columns)
    (folder / "evidence.json").write_text(json.dumps(job.document, indent=2), encoding="utf-8")


def document_digest(document: Mapping[str, Any]) -> str:
    """The digest of evidence.json: of all its keys but this one, sorted."""
    rest = {key: value for key, value in document.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def digests_of(files: Mapping[str, Mapping[str, Array]]) -> dict[str, str]:
    """The digests of all columns, by the names that evidence.json has for them."""
    found = {}
    for name, columns in FLOATS.items():
        if name in files:
            tensors = files[name].get("tensors")
            found[name] = _digest({each: files[name][each] for each in columns}, tensors)
    if "trained_on" in files:
        found["trained_on"] = _digest(files["trained_on"], kind="<i8")
    if "examples" in files:
        examples = files["examples"]
        found["outputs"] = _digest({each: examples[each] for each in OUTPUTS if each in examples})
        columns = [
            examples[each].tolist()
            for each in ("ids", "labels", "targets", "inputs")
            if each in examples
        ]
        rows = ("\t".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))
        found["examples"] = hashlib.sha256("".join(rows).encode()).hexdigest()
    return found


def _digest(columns: Mapping[str, Array], names: Array | None = None, *, kind: str = "<f8") -> str:
    digest = hashlib.sha256()
    for text in [] if names is None else names.tolist():
        encoded = text.encode()
        digest.update(b"%d:%s" % (len(encoded), encoded))
    for name, column in columns.items():
        digest.update(f"{name} {column.shape}\n".encode())
        digest.update(np.ascontiguousarray(column, dtype=kind).tobytes())
    return digest.hexdigest()


def metrics_of(examples: Mapping[str, Array]) -> dict[str, float]:
    """The metrics that a job reports of its examples."""
    labels, scores, losses = (examples[name] for name in ("labels", "scores", "losses"))
    found = {"log_loss": float(losses.mean()), "loss": float(losses.mean())}
    found["perplexity"] = float(np.exp(losses.mean()))
    if "predictions" in examples:
        errors = examples["predictions"] - examples["targets"]
        found |= {"mse": float(np.mean(errors**2)), "mae": float(np.abs(errors).mean())}
    if scores.shape[1]:
        predicted = scores.argmax(axis=1)
        right = predicted == labels
        found["accuracy"] = float(right.mean())
        occurring = np.unique(labels)
        found["balanced_accuracy"] = float(
            np.mean([right[labels == it].mean() for it in occurring])
        )
        found["macro_f1"] = float(
            np.mean(
                [
                    2
                    * (right & (labels == it)).sum()
                    / ((predicted == it).sum() + (labels == it).sum())
                    for it in occurring
                ]
            )
        )
    return found
