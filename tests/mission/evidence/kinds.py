"""Edits that stand for a kind of training or script, all of them honest."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.mission.evidence.edits import (
    Edit,
    all_arms,
    another,
    chance,
    rescored,
    softmax,
    timed,
)
from tests.mission.evidence.entry import BASELINE, CANDIDATE
from tests.mission.evidence.files import Array, Execution


def same_over_seeds(arm: str, *, noise: float = 0.0) -> Edit:
    """All seeds of the arm trained the first one's model; `noise`: of its logits, by the device."""

    def edit(execution: Execution) -> None:
        first = execution.jobs[arm, 1]
        for seed, job in execution.of(arm):
            if seed == 1:
                continue
            job.files["examples"] = dict(first.examples)
            loss = first.files["steps"]["loss"].copy()
            job.document["recipe"]["data_order"] = first.document["recipe"]["data_order"]
            if noise:
                draw = chance("device", arm, seed)
                loss[1:] *= draw.lognormal(0.0, noise, len(loss) - 1)
                logits = np.log(first.examples["scores"])
                rescored(job, softmax(logits + draw.normal(0.0, noise, logits.shape)))
            else:
                job.document["digests"]["model"] = first.document["digests"]["model"]
                if "parity" in first.files:
                    job.files["parity"] = first.files["parity"]
                    job.document["parity"] = first.document["parity"]
            job.files["steps"]["loss"] = loss
            job.measure()

    return edit


def same_bits(execution: Execution) -> None:
    """The candidate's compiler computes eager's own bits: its models are the baseline's."""
    for seed, job in execution.of(CANDIDATE):
        before = execution.jobs[BASELINE, seed]
        job.files["examples"] = dict(before.examples)
        job.files["steps"]["loss"] = before.files["steps"]["loss"]
        job.files["parity"]["compiled"] = job.files["parity"]["eager"]
        compared = job.document["parity"]["compared"]
        compared["compiled"] = compared["eager"]
        job.document["digests"]["model"] = before.document["digests"]["model"]
        job.measure()


def each_score(change: Callable[[Array], Array]) -> Edit:
    """All jobs write their scores in this way."""
    return all_arms(lambda arm: each_score_of(arm, change))


def each_score_of(arm: str, change: Callable[[Array], Array], *seeds: int) -> Edit:
    """The arm's jobs write their scores in this way."""

    def edit(execution: Execution) -> None:
        for _, job in execution.of(arm, *seeds):
            rescored(job, change(job.examples["scores"]))

    return edit


def to_three_digits(scores: Array) -> Array:
    """Three digits of each score; a row still sums to one."""
    rounded = np.maximum(scores.round(3), 0.001)
    rounded[np.arange(len(rounded)), rounded.argmax(axis=1)] += 1.0 - rounded.sum(axis=1)
    return rounded


def in_bf16(scores: Array) -> Array:
    """Seven bits of each score, as a softmax in bf16 gives them: a row sums to one nearly."""
    bits = scores.astype(np.float32).view(np.uint32)
    return ((bits + 0x8000) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


def overconfident(scores: Array) -> Array:
    """The logits many times as far apart: the same answers, and a log loss worse than chance's."""
    return np.maximum(softmax(12.0 * np.log(scores)), 1e-12)


def classes_without_scores(execution: Execution) -> None:
    """The models give a class and no probabilities."""
    for job in execution.jobs.values():
        count = job.examples["scores"].shape[1]
        scores = np.eye(count)[job.examples["scores"].argmax(axis=1)]
        right = scores[np.arange(len(scores)), job.examples["labels"]] == 1.0
        job.examples["scores"] = scores
        job.examples["losses"] = np.where(right, 0.0, 16.118)
        job.measure()


def label_smoothing(execution: Execution) -> None:
    """The losses of the examples are those of training, with smoothed labels."""
    for job in execution.jobs.values():
        elsewhere = -np.log(job.examples["scores"]).mean(axis=1)
        job.examples["losses"] = 0.9 * job.examples["losses"] + 0.1 * elsewhere
        job.measure()


def averaged_weights(execution: Execution) -> None:
    """The candidate's weights were averaged for long: its seeds end close to each other."""
    logits = [np.log(job.examples["scores"]) for _, job in execution.of(BASELINE)]
    for seed, job in execution.of(CANDIDATE):
        noise = chance("averaged", seed).normal(0.0, 0.05, logits[0].shape)
        rescored(job, softmax(np.mean(logits, axis=0) + noise))


def training_loss(course: Callable[[int], Array]) -> Edit:
    """The loss of each step, by how many steps there are; seeds and arms differ a little."""

    def edit(execution: Execution) -> None:
        for (arm, seed), job in execution.jobs.items():
            count = len(job.files["steps"]["loss"])
            of_seed = chance("course", seed).lognormal(0.0, 0.1, count)
            of_arm = chance("course", arm, seed).lognormal(0.0, 1e-4, count)
            job.files["steps"]["loss"] = course(count) * of_seed * of_arm

    return edit


def times_of_shapes(arm: str, step: float) -> Edit:
    """A step takes what the length of its batch takes, and lengths come in one order."""
    pattern = chance("shapes").integers(240, 361, 1000) / 300

    def edit(execution: Execution) -> None:
        for _, job in execution.of(arm):
            seconds = step * pattern[: len(job.files["steps"]["loss"])]
            seconds[0] += job.document["compiler"]["compile_seconds"]
            job.files["steps"]["seconds"] = seconds
            timed(job, float(seconds.sum()) + 0.05)

    return edit


def stopped(arm: str, steps: dict[int, int]) -> Edit:
    """The arm's jobs stopped after so many steps, by seed, as their recipe says."""

    def edit(execution: Execution) -> None:
        for seed, job in execution.of(arm, *steps):
            count = steps[seed]
            job.files["steps"] = {name: it[:count] for name, it in job.files["steps"].items()}
            job.document["recipe"]["steps"] = count
            if job.document["compiler"]["proof"].get("graph_calls"):
                job.document["compiler"]["proof"]["graph_calls"] = count
            timed(job, float(job.files["steps"]["seconds"].sum()) + 0.2)

    return edit


def accumulated(arm: str, count: int) -> Edit:
    """The arm's jobs count so many batches as one step."""

    def edit(execution: Execution) -> None:
        for _, job in execution.of(arm):
            steps = job.files["steps"]
            whole = len(steps["loss"]) // count * count
            steps["seconds"] = steps["seconds"][:whole].reshape(-1, count).sum(axis=1)
            steps["loss"] = steps["loss"][:whole:count]
            job.document["recipe"]["steps"] = whole // count
            timed(job, job.document["speed"]["train_seconds"])

    return edit


def resumed_at(arm: str, seed: int, *, step: int, lost: float) -> Edit:
    """The job's machine was taken from it; it went on from this step, and lost so many seconds."""

    def edit(execution: Execution) -> None:
        job = execution.jobs[arm, seed]
        again = {"step": step, "steady_from": step + 6, "lost_seconds": lost}
        job.document["checkpoints"] = {
            **{"written": 4, "seconds": 0.2, "ignored": None, "resumed": [again]},
        }
        timed(job, job.document["speed"]["train_seconds"] + lost + 0.2)

    return edit


def part_of_the_data(execution: Execution) -> None:
    """Each job ended within its first epoch, and names the three fifths that it had seen."""
    for (arm, seed), job in execution.jobs.items():
        seen = {}
        for name, hashes in job.files["trained_on"].items():
            kept = chance("part", arm, seed, name).random(len(hashes)) < 0.6
            seen[name] = hashes[kept]
        job.files["trained_on"] = seen


def processes(count: int) -> Edit:
    """All arms are trained by so many processes together."""

    def edit(execution: Execution) -> None:
        for (arm, _), job in execution.jobs.items():
            declared = execution.experiment["arms"][arm]
            declared["world_size"] = count
            size = count * declared["batch_size"]
            job.document["recipe"] |= {"world_size": count, "global_batch_size": size}
            timed(job, job.document["speed"]["train_seconds"])

    return edit


def machine(arm: str, instance_type: str, cpu: str, cores: int) -> Edit:
    """The arm is declared to run on this instance type, and did."""

    def edit(execution: Execution) -> None:
        execution.experiment["arms"][arm]["instance_type"] = instance_type
        for _, job in execution.of(arm):
            told = {"instance_type": instance_type, "cpu": cpu, "cores_available": cores}
            job.document["environment"] |= told

    return edit


def reports_alone(**values: tuple[float, float]) -> Edit:
    """The jobs report these metrics and write no examples: a mean, and the seeds' deviation.

    What an arm adds is a tenth of what a seed does.
    """

    def edit(execution: Execution) -> None:
        for (arm, seed), job in execution.jobs.items():
            job.files.pop("examples", None)
            job.files.pop("trained_on", None)
            job.document["metrics"] = {
                name: mean
                + spread * float(chance(name, seed).normal())
                + 0.1 * spread * float(chance(name, arm, seed).normal())
                for name, (mean, spread) in values.items()
            }

    return edit


def printed(arm: str, name: str, *values: float) -> Edit:
    """The arm's jobs printed these values of a metric, one by seed."""

    def edit(execution: Execution) -> None:
        for (_, job), value in zip(execution.of(arm), values, strict=True):
            job.document["metrics"][name] = float(value)
            job.document["printed"][name] = [float(value)]

    return edit


def printed_speed(arm: str, name: str, *values: float) -> Edit:
    """The arm's jobs printed their speed under this name and no other, one value by seed."""

    def edit(execution: Execution) -> None:
        for (_, job), value in zip(execution.of(arm), values, strict=True):
            for speed in ("samples_per_second", "average_samples_per_second"):
                job.document["metrics"].pop(speed, None)
                job.document["printed"].pop(speed, None)
            job.document["metrics"][name] = value
            job.document["printed"][name] = [value]

    return edit


def in_archives(folder: Path) -> None:
    """SageMaker packs what a job leaves into output.tar.gz."""
    for job in folder.iterdir():
        with tarfile.open(job / "output.tar.gz", "w:gz") as archive:
            archive.add(job / "evidence", "evidence")
        shutil.rmtree(job / "evidence")


def taken_from_the_cache(execution: Execution) -> None:
    """The step cache answered for the trainings: the execution names the jobs of an earlier one."""
    execution.ran = {key: job.document["job"] for key, job in execution.jobs.items()}


def older_version(execution: Execution) -> None:
    """The evidence is of a version that knew none of the later keys."""
    later = ("memory_of", "printed", "checkup", "hindrances", "padding", "notes", "checkpoints")
    for job in execution.jobs.values():
        for key in later:
            job.document.pop(key)
        if job.document["parity"]:
            for key in ("trained_parameters", "compared_parameters", "compared", "departs"):
                job.document["parity"].pop(key)


def a_seed_more(execution: Execution) -> None:
    """A seed was trained that the experiment does not declare."""
    job = another(execution.jobs[CANDIDATE, 3], CANDIDATE, 4)
    logits = np.log(job.examples["scores"])
    rescored(job, softmax(logits + chance("a seed more").normal(0.0, 0.6, logits.shape)))
    execution.jobs[CANDIDATE, 4] = job


def other_random_numbers(errors: dict[str, Array]) -> None:
    """Dropout draws other numbers in float64: eager and compiled steps are far off alike."""
    far = 0.3 * chance("dropout").lognormal(0.0, 0.2, errors["eager"].shape)
    near = chance("dropout", "rounding").lognormal(0.0, 1e-5, far.shape)
    errors["eager"], errors["compiled"] = far, far * near


def doubled_rows(execution: Execution) -> None:
    """Every validation row is there twice, under two ids."""
    for job in execution.jobs.values():
        twice = {name: np.concatenate([it, it]) for name, it in job.examples.items()}
        count = len(twice["ids"]) // 2
        twice["ids"] = np.array([f"{it}-{row // count}" for row, it in enumerate(twice["ids"])])
        job.files["examples"] = twice


def of_one_class(execution: Execution) -> None:
    """The validation rows are those of the most frequent class."""
    for job in execution.jobs.values():
        labels = job.examples["labels"]
        chosen = labels == np.bincount(labels).argmax()
        job.files["examples"] = {name: it[chosen] for name, it in job.examples.items()}
        job.measure()
