"""Edits that stand for a mistake that a colleague made, or for damage."""

from __future__ import annotations

import copy
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.mission.evidence.edits import EPSILON, Edit, chance, rescored, softmax
from tests.mission.evidence.files import Array, Execution


def wrong_gradient(errors: dict[str, Array]) -> None:
    """The compiled gradient of one parameter is zero."""
    errors["compiled"][:, -1] = 1.0


def wrong_by_rounding(times: float, precision: str = "fp32") -> Callable[[dict[str, Array]], None]:
    """All compiled tensors err so many times what rounding explains."""

    def change(errors: dict[str, Array]) -> None:
        usual = np.maximum(errors["eager"].max(axis=0), EPSILON[precision])
        errors["compiled"] = errors["compiled"] * 0.0 + times * usual

    return change


def not_measured(errors: dict[str, Array]) -> None:
    """All errors are zero, which no arithmetic in single precision gives."""
    for name in ("eager", "repeated", "compiled"):
        errors[name] = 0.0 * errors[name]


def at_chance(scores: Array) -> Array:
    """Each row has the classes' shares, and the noise of an untrained model."""
    shares = np.log(np.maximum(scores.mean(axis=0), 1e-4))
    noise = chance("at chance", float(scores[0, 0])).normal(0.0, 0.2, scores.shape)
    return softmax(shares + noise)


def ranked_last(arm: str, count: int) -> Edit:
    """In so many rows the label has the lowest score, and had the highest."""

    def edit(execution: Execution) -> None:
        for _, job in execution.of(arm):
            scores, labels = job.examples["scores"].copy(), job.examples["labels"]
            found = np.flatnonzero(scores.argmax(axis=1) == labels)[:count]
            lowest = scores[found].argmin(axis=1)
            before = scores[found, labels[found]]
            scores[found, labels[found]] = scores[found, lowest]
            scores[found, lowest] = before
            rescored(job, scores)

    return edit


def lost_outright(arm: str, count: int) -> Edit:
    """So many rows have a label of which the model is sure that it is wrong."""

    def edit(execution: Execution) -> None:
        for _, job in execution.of(arm):
            scores, labels = job.examples["scores"].copy(), job.examples["labels"]
            found = np.arange(0, len(labels), len(labels) // count)[:count]
            scores[found] = 1e-5 / 7
            scores[found, (labels[found] + 1) % 8] = 1.0 - 1e-5
            rescored(job, scores)

    return edit


def swapped(one: str, other: str) -> Callable[[Path], None]:
    """Two jobs' folders have each other's names."""

    def happens(folder: Path) -> None:
        (folder / one).rename(folder / "between")
        (folder / other).rename(folder / one)
        (folder / "between").rename(folder / other)

    return happens


def copied(source: str, target: str, *names: str) -> Callable[[Path], None]:
    """Files of one job, or all, lie in another's folder."""

    def happens(folder: Path) -> None:
        for name in names or [path.name for path in (folder / source / "evidence").iterdir()]:
            to = folder / target / "evidence" / name
            shutil.copyfile(folder / source / "evidence" / name, to)

    return happens


def cut(path: str, share: float = 0.5) -> Callable[[Path], None]:
    """A file ends early."""

    def happens(folder: Path) -> None:
        whole = (folder / path).read_bytes()
        (folder / path).write_bytes(whole[: int(share * len(whole))])

    return happens


def evaluated_with(arm: str, seed: int, of: tuple[str, int]) -> Edit:
    """The job evaluated the checkpoint of another one, and saved its own."""

    def edit(execution: Execution) -> None:
        job = execution.jobs[arm, seed]
        job.files["examples"] = dict(execution.jobs[of].examples)
        job.measure()

    return edit


def of_another_job(arm: str, seed: int) -> Edit:
    """The execution ran another job than the one whose evidence lies there."""

    def edit(execution: Execution) -> None:
        assert execution.ran is not None
        execution.ran[arm, seed] = f"this-week-{arm}-{seed}"

    return edit


def relabelled(arm: str, seed: int, other: int) -> Edit:
    """The other seed's evidence is this one's, with the other number in the record."""

    def edit(execution: Execution) -> None:
        job = copy.deepcopy(execution.jobs[arm, seed])
        job.document["seed"] = other
        execution.jobs[arm, other] = job

    return edit


def without_steps(arm: str) -> Edit:
    """No step was taken; the untrained model was evaluated."""

    def edit(execution: Execution) -> None:
        for _, job in execution.of(arm):
            job.files["steps"] = {name: it[:0] for name, it in job.files["steps"].items()}
            job.document["recipe"]["steps"] = 0
            job.document["speed"] |= {
                **{"samples_per_second": 0.0, "steady_from": 0},
                **{"train_seconds": 0.1, "total_seconds": 6.0},
            }
            for name in ("parity", "paired"):
                job.files.pop(name, None)
            job.document |= {"parity": None, "paired_speed": None}

    return edit


def shuffled_scores(arm: str) -> Edit:
    """The rows' scores come in another order than their ids and labels."""

    def edit(execution: Execution) -> None:
        for seed, job in execution.of(arm):
            order = chance("shuffled", seed).permutation(len(job.examples["ids"]))
            rescored(job, job.examples["scores"][order])

    return edit


def predicted_in_other_units(arm: str, unit: float) -> Edit:
    """The arm's targets and predictions are so many times the others'."""

    def edit(execution: Execution) -> None:
        for _, job in execution.of(arm):
            for name in ("targets", "predictions"):
                job.examples[name] = job.examples[name] * unit
            job.examples["losses"] = job.examples["losses"] * unit**2
            job.measure()

    return edit


def trained_on_validation_rows(arm: str, *, name: str = "ids", count: int = 60) -> Edit:
    """So many validation rows were in the arm's training data, as their ids or inputs show."""

    def edit(execution: Execution) -> None:
        for _, job in execution.of(arm):
            column = job.examples[name][:count]
            hashes = column if name == "inputs" else np.array([id_hash(it) for it in column])
            seen = np.concatenate([job.files["trained_on"][name], hashes])
            job.files["trained_on"][name] = np.unique(seen)

    return edit


def id_hash(identifier: str) -> int:
    """The hash under which trained_on.npz has a training example's id."""
    digest = hashlib.blake2b(str(identifier).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
