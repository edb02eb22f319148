"""What an entry changes in the files of its base.

An edit takes an execution and changes it. What follows from a change follows with it: metrics from
outputs, a training's time from its steps, digests from everything (`files.Execution.write`). Where
random numbers are needed, they are the same in every run.
"""

from __future__ import annotations

import copy
import hashlib
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.mission.evidence.files import Array, Execution, Job

Edit = Callable[[Execution], None]
GONE = object()
"""In `record` and `declare`: the key is taken away."""
EPSILON = {"fp32": 2.0**-23, "bf16": 2.0**-7, "fp16": 2.0**-10}


def chance(*key: object) -> np.random.Generator:
    """The random numbers of this key."""
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def hexadecimal(*key: object) -> str:
    """A sha256 as that of some file."""
    return hashlib.sha256(repr(key).encode()).hexdigest()


def declare(changes: Mapping[str, Any]) -> Edit:
    """Change the experiment, by keys such as `settings.min_speedup`."""

    def edit(execution: Execution) -> None:
        for path, value in changes.items():
            _put(execution.experiment, path, value)

    return edit


def metric(name: str, direction: str, margin: float | None = None, **more: object) -> Edit:
    """Judge by this metric, too."""
    guard = {"direction": direction, **({} if margin is None else {"margin": margin}), **more}
    return declare({f"settings.metrics.{name}": guard})


def judged_by(**metrics: Mapping[str, Any]) -> Edit:
    """Judge by these metrics and no others."""
    return declare({"settings.metrics": dict(metrics)})


def higher(margin: float, **more: object) -> dict[str, Any]:
    """A guarded metric of which more is better."""
    return {"direction": "higher", "margin": margin, **more}


def lower(margin: float, **more: object) -> dict[str, Any]:
    """A guarded metric of which less is better."""
    return {"direction": "lower", "margin": margin, **more}


def record(arm: str, changes: Mapping[str, Any], *seeds: int) -> Edit:
    """Change evidence.json of the arm's jobs, by keys such as `compiler.graphs`.

    A value may be a function of the present one.
    """

    def edit(execution: Execution) -> None:
        for _, job in execution.of(arm, *seeds):
            for path, value in changes.items():
                _put(job.document, path, value)

    return edit


def everywhere(changes: Mapping[str, Any]) -> Edit:
    """Change evidence.json of all jobs."""

    def edit(execution: Execution) -> None:
        for job in execution.jobs.values():
            for path, value in changes.items():
                _put(job.document, path, value)

    return edit


def _put(document: dict[str, Any], path: str, value: Any) -> None:
    *above, last = path.split(".")
    for key in above:
        document = document[key]
    if value is GONE:
        document.pop(last, None)
    else:
        document[last] = value(document.get(last)) if callable(value) else copy.deepcopy(value)


def column(arm: str, file: str, name: str, change: Callable[[Array], Array], *seeds: int) -> Edit:
    """Change a column of the arm's jobs, and the metrics that follow from outputs."""

    def edit(execution: Execution) -> None:
        for _, job in execution.of(arm, *seeds):
            job.files[file][name] = change(job.files[file][name].copy())
            if file == "examples":
                job.measure()

    return edit


def rows(arm: str, choose: Callable[[int], Array], *seeds: int) -> Edit:
    """Take these rows of the arm's validation examples, given how many there are."""

    def edit(execution: Execution) -> None:
        for _, job in execution.of(arm, *seeds):
            chosen = choose(len(job.examples["ids"]))
            job.files["examples"] = {name: each[chosen] for name, each in job.examples.items()}
            job.measure()

    return edit


def jobs(arm: str, change: Callable[[int, Job], None], *seeds: int) -> Edit:
    """Let a function of seed and job change the arm's jobs."""

    def edit(execution: Execution) -> None:
        for seed, job in execution.of(arm, *seeds):
            change(seed, job)

    return edit


def all_arms(change: Callable[[str], Edit]) -> Edit:
    """The same edit of every arm."""

    def edit(execution: Execution) -> None:
        for arm in execution.experiment["arms"]:
            change(arm)(execution)

    return edit


def only(*arms: str) -> Edit:
    """Leave the other arms out of the experiment."""

    def edit(execution: Execution) -> None:
        declared = execution.experiment["arms"]
        execution.experiment["arms"] = {arm: declared[arm] for arm in arms}
        kept = {key: job for key, job in execution.jobs.items() if key[0] in arms}
        execution.jobs = kept

    return edit


def missing(arm: str, *seeds: int) -> Edit:
    """The arm's jobs left nothing: killed, or their output was lost."""

    def edit(execution: Execution) -> None:
        for key in [(arm, seed) for seed, _ in execution.of(arm, *seeds)]:
            del execution.jobs[key]

    return edit


def failed(arm: str, why: str, *seeds: int) -> Edit:
    """The script raised, and the launcher recorded that."""

    def edit(execution: Execution) -> None:
        for _, job in execution.of(arm, *seeds):
            job.files = {}
            job.document |= {
                **{"failure": why, "speed": None, "metrics": {}, "parity": None},
                **{"paired_speed": None, "compile_cache": None, "peak_memory_bytes": None},
                **{"memory_of": None, "checkpoints": None, "hindrances": [], "padding": None},
                **{"digests": {"data": job.document["digests"]["data"]}},
            }

    return edit


def more_seeds(count: int) -> Edit:
    """As many seeds, numbered from 1; what a job of a new one left is like that of an old one."""

    def edit(execution: Execution) -> None:
        trained = list(execution.experiment["seeds"])
        execution.experiment["seeds"] = list(range(1, count + 1))
        for arm in execution.experiment["arms"]:
            for seed in range(len(trained) + 1, count + 1):
                like = execution.jobs[arm, trained[seed % len(trained)]]
                execution.jobs[arm, seed] = another(like, arm, seed)

    return edit


def another(like: Job, arm: str, seed: int) -> Job:
    """What the job of another seed left, as far as it does not follow from the model's outputs."""
    job, noise = copy.deepcopy(like), chance("another", arm, seed)
    job.document |= {"job": f"{arm}-{seed}", "seed": seed}
    job.document["digests"]["model"] = hexadecimal("model", arm, seed)
    if job.document["parity"]:
        job.document["parity"]["compared"] = {
            name: hexadecimal(name, arm, seed) for name in ("exact", "compiled", "eager")
        }
    if "steps" in job.files:
        for name in ("loss", "seconds"):
            course = job.files["steps"][name]
            job.files["steps"][name] = course * noise.lognormal(0.0, 0.03, len(course))
        timed(job, float(job.files["steps"]["seconds"].sum()) + 0.2)
    return job


def clock(
    arm: str,
    step: float,
    *,
    spread: float = 0.01,
    noise: float = 0.04,
    rest: float = 0.0009,
    baseline: float | None = None,
    compiling: float | None = None,
    outside: float = 0.0,
    slower: float = 1.0,
) -> Edit:
    """The arm's jobs took these times, in seconds, and nothing else disturbed them.

    `step`: a steady step. `spread`: standard deviation of jobs, as a share. `noise`: that of steps.
    `rest`: what a step takes besides forward, backward and update. `baseline`: a step of the
    baseline, for the blocks that took turns; None: no steps took turns. `compiling`: of each job;
    None: what it recorded. `outside`: time between steps, as a share of the steps' time. `slower`:
    times by which the last step is slower than the first.
    """

    def edit(execution: Execution) -> None:
        found = list(execution.of(arm))
        shifts = np.linspace(-1.0, 1.0, len(found)) if len(found) > 1 else np.zeros(1)
        shifts *= spread / max(float(shifts.std(ddof=1)) if len(found) > 1 else 1.0, 1e-12)
        for shift, (seed, job) in zip(shifts, found, strict=True):
            draw = chance("clock", arm, seed)
            compiler = job.document["compiler"]
            if compiling is not None:
                compiler["compile_seconds"] = compiling
            took = compiler["compile_seconds"]
            count = len(job.files["steps"]["loss"])
            own = step * np.exp(shift)
            course = np.linspace(1.0, slower, count)
            seconds = own * np.exp(draw.normal(0.0, noise, count)) * course / course.mean()
            seconds[0] += took
            job.files["steps"]["seconds"] = seconds
            timed(job, float(seconds.sum() + outside * seconds[1:].sum()))
            _take_turns(job, own - rest, None if baseline is None else baseline - rest, draw)
            if job.document["checkup"]:
                job.document["checkup"] |= {"load": 1.0, "cores_of_other_processes": 0.0}

    return edit


def timed(job: Job, training: float, beside: float = 6.0) -> None:
    """The job's own account of its times, by its steps: `beside` is the rest of the job's time."""
    speed, seconds = job.document["speed"], job.files["steps"]["seconds"]
    size = job.document["recipe"].get("global_batch_size", job.document["recipe"]["batch_size"])
    speed |= {
        "samples_per_second": size / float(seconds[speed["steady_from"] :].mean()),
        "train_seconds": training,
        "total_seconds": training + beside,
    }


def _take_turns(job: Job, own: float, baseline: float | None, draw: np.random.Generator) -> None:
    if "paired" not in job.files:
        return
    if baseline is None:
        job.document["paired_speed"] = None
        del job.files["paired"]
        return
    pairs = 20
    job.files["paired"] = {
        "baseline_seconds": baseline * np.exp(draw.normal(0.0, 0.02, pairs)),
        "candidate_seconds": own * np.exp(draw.normal(0.0, 0.02, pairs)),
        "baseline_first": np.arange(pairs) % 2 == 0,
    }


def step_times(arm: str, change: Callable[[Array], Array], *seeds: int) -> Edit:
    """Change the step times, and the training's time by as much."""

    def edit(execution: Execution) -> None:
        for _, job in execution.of(arm, *seeds):
            before = job.files["steps"]["seconds"]
            after = change(before.copy())
            job.files["steps"]["seconds"] = after
            between = job.document["speed"]["train_seconds"] - float(before.sum())
            timed(job, float(after.sum()) + between)

    return edit


def rescored(job: Job, scores: Array) -> None:
    """Other scores, the losses that follow, and the metrics."""
    labels = job.examples["labels"]
    job.examples["scores"] = scores
    job.examples["losses"] = -np.log(scores[np.arange(len(labels)), labels])
    job.measure()


def softmax(logits: Array) -> Array:
    """(rows, classes) probabilities."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def jittered(arm: str, noise: float, like: str) -> Edit:
    """Another model that is as good: the logits of `like`'s model of the same seed, with noise."""

    def edit(execution: Execution) -> None:
        for seed, job in execution.of(arm):
            logits = np.log(execution.jobs[like, seed].examples["scores"])
            draw = chance("jitter", arm, seed)
            rescored(job, softmax(logits + draw.normal(0.0, noise, logits.shape)))

    return edit


def confused(arm: str, lost: int, gained: int = 0, *seeds: int, among: str | None = None) -> Edit:
    """So many right answers become wrong, and wrong ones right: label and prediction change places.

    The least certain answers change, so that the log loss hardly does. `among`: where this column
    of examples.npz has that value, as `COLUMN=VALUE`.
    """

    def edit(execution: Execution) -> None:
        for _, job in execution.of(arm, *seeds):
            scores, labels = job.examples["scores"].copy(), job.examples["labels"]
            predicted = scores.argmax(axis=1)
            second = np.argsort(scores, axis=1)[:, -2]
            by_row = np.arange(len(labels))
            gap = scores[by_row, predicted] - scores[by_row, second]
            there = np.ones(len(labels), dtype=bool)
            if among is not None:
                name, _, value = among.partition("=")
                there = job.examples[name].astype(str) == value
            for count, chosen, other in (
                (lost, (predicted == labels) & there, second),
                (gained, (predicted != labels) & there, labels),
            ):
                found = by_row[chosen][np.argsort(gap[chosen], kind="stable")][:count]
                assert len(found) == count
                keep = scores[found, predicted[found]]
                scores[found, predicted[found]] = scores[found, other[found]]
                scores[found, other[found]] = keep
            rescored(job, scores)

    return edit


def parity(arm: str, change: Callable[[dict[str, Array]], None], *seeds: int) -> Edit:
    """Change the errors of the arm's parity."""

    def edit(execution: Execution) -> None:
        for _, job in execution.of(arm, *seeds):
            change(job.files["parity"])

    return edit


def no_parity(arm: str, obstacle: str | None, *seeds: int) -> Edit:
    """The arm's jobs did not compare their steps, and say why; or say nothing."""

    def edit(execution: Execution) -> None:
        for _, job in execution.of(arm, *seeds):
            job.files.pop("parity", None)
            told = job.document["parity"]
            job.document["parity"] = (
                None
                if obstacle is None
                else {**told, "steps": 0, "obstacle": obstacle, "compared": {}}
            )

    return edit


def losses_alone(execution: Execution) -> None:
    """The model has no classes, as a language model: the loss of each example is all there is."""
    for job in execution.jobs.values():
        count = len(job.examples["ids"])
        job.examples["labels"] = np.zeros(count, dtype=np.int64)
        job.examples["scores"] = np.zeros((count, 0))
        job.document["metrics"] = {"loss": 0.0, "log_loss": 0.0, "perplexity": 1.0}
        job.measure()


def damaged(happens: Callable[[Any], None]) -> Edit:
    """Something happens to the files after the jobs wrote them, given the evidence folder."""
    return lambda execution: execution.damage.append(happens)
