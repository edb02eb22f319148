"""Count how often an honest experiment is refused, with networks that were really trained.

For each kind of experiment a pool of networks is trained once, on data of its own (`pools.py`). A
draw takes seeds and validation rows from the pool at random, none twice, and adds what the jobs
would have measured beside: step times, alternating blocks, parity. Every candidate is as good as
the baseline and clearly faster, so every refusal is wrong. An undecided candidate counts as a
refused one, except in the kinds whose design cannot decide: of these, the share that stays
undecided is compared with the gate's own forecast.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from benchmarks.gate.pools import MODELS, ROWS, Recipe, train_pool
from benchmarks.gate.proof import FULL, Counts, Program, list_counts, most
from compilegate.gate.forecast import Design, forecast
from compilegate.gate.settings import GateSettings, MetricGuard
from compilegate.job.evidence import Examples, TrainedOn

from benchmarks.gate.simulated import (  # isort: skip
    BASELINE, CANDIDATE, OTHER, Array, Clock, Execution, Generator, Job, class_examples,
    codes_against, digest, edit_examples, execution, guards, loss_examples, number_examples,
)  # fmt: skip

REFUSED, BY_A_CODE = 4 / 1000, 3 / 10_000
FORECAST = 0.12
"""By which the share of undecided ones may miss the forecast."""
Change = Callable[[Job, Generator], object]


@dataclass(frozen=True)
class Kind:
    """One kind of honest experiment."""

    name: str
    recipe: Recipe = field(default_factory=Recipe)
    metrics: Mapping[str, MetricGuard] = field(default_factory=lambda: guards(accuracy=0.06))
    seeds: int = 3
    rows: int = 800
    clock: Clock = field(default_factory=Clock)
    change: Change | None = None  # what is unusual about the records of all jobs, or of `of`'s
    of: str = ""
    write: Callable[[Array], Array] = lambda scores: scores  # how scores are written
    settings: Mapping[str, Any] = field(default_factory=dict)
    arm: Mapping[str, Any] = field(default_factory=dict)
    """Declarations that differ, of all arms or of `of`."""
    ids: str = "row-{row:05d}"
    undecided: bool = False
    """Whether its design cannot decide every time: then the share that stays undecided is compared
    with the forecast from every 25th execution. Else an undecided one counts as refused."""


def sets(which: str, **values: Any) -> Change:
    """Set keys of one of the job's mappings."""
    return lambda job, _: getattr(job, which).update(values)


def three_digits(scores: Array) -> Array:
    """Rounded scores, whose rows sum to one."""
    found = np.maximum(scores.round(3), 0.001)
    found[np.arange(len(found)), found.argmax(axis=1)] += 1.0 - found.sum(axis=1)
    return found


def in_bf16(scores: Array) -> Array:
    """Seven bits of each score; rows sum to one nearly."""
    bits = scores.astype(np.float32).view(np.uint32)
    return ((bits + 0x8000) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


def classes_alone(scores: Array) -> Array:
    """The predicted class and no probabilities."""
    return np.maximum(np.eye(scores.shape[1])[scores.argmax(axis=1)], 1e-7)


def overconfident(scores: Array) -> Array:
    """Logits eight times as far apart: a log loss worse than that of a constant."""
    return np.maximum(softmax(8.0 * np.log(np.maximum(scores, 1e-12)), axis=1), 1e-12)


def smoothed_losses(job: Job, _: Generator) -> None:
    """The losses of the examples are those of training, with smoothed labels."""
    everywhere = -np.log(job.examples.scores).mean(axis=1)
    edit_examples(job, losses=0.9 * job.examples.losses + 0.1 * everywhere)


def hashed_inputs(job: Job, _: Generator) -> None:
    """Inputs are hashed; the candidate's after a cast, so that all hashes differ."""
    hashes = np.array([int(it[4:]) * 2_654_435_761 for it in job.examples.ids.tolist()])
    edit_examples(job, inputs=hashes if job.arm == BASELINE else hashes ^ 0x5A5A5A5A)


def rows_of(job: Job, chosen: Array) -> None:
    """Take these rows of the examples, in this order."""
    columns = ("ids", "labels", "scores", "losses")
    edit_examples(job, **{name: getattr(job.examples, name)[chosen] for name in columns})


def same_bits(job: Job, _: Generator) -> None:
    """The compiler computes eager's own bits: the model files are the baseline's."""
    job.digests["model"] = digest("model", BASELINE, job.seed)
    job.parity = replace(job.parity, compiled=job.parity.eager)
    models = ("exact", "compiled", "eager")
    job.about_parity["compared"] = {name: digest(name == "exact", job.seed) for name in models}


def one_model(job: Job, _: Generator) -> None:
    """Nothing in the training is random: the files of all seeds of an arm are one."""
    job.digests["model"] = digest("model", job.arm)
    job.about_parity["compared"] = {"exact": digest("exact", job.arm)}


def part_seen(job: Job, draw: Generator) -> None:
    """End the job within its first epoch, with the examples that it saw."""
    chosen = draw.random(len(job.trained_on.ids)) < 0.6
    job.trained_on = TrainedOn(job.trained_on.ids[chosen], job.trained_on.inputs[chosen])


def unmeasured_memory(job: Job, _: Generator) -> None:
    """One job of each arm measured no memory."""
    if (job.arm, job.seed) in ((BASELINE, 3), (CANDIDATE, 2)):
        job.fields |= {"peak_memory_bytes": None, "memory_of": None}


def other_random_numbers(job: Job, draw: Generator) -> None:
    """Float64 draws other numbers in dropout, so that parity cannot tell."""
    far = 0.3 * draw.lognormal(0.0, 0.2, job.parity.eager.shape)
    job.parity = replace(job.parity, eager=far, compiled=far * draw.lognormal(0.0, 1e-5, far.shape))


def printed(job: Job, _: Generator) -> None:
    """Leave nothing but what the script printed, with three digits."""
    right = job.examples.scores.argmax(axis=1) == job.examples.labels
    metrics = {
        "accuracy": round(float(right.mean()), 3),
        "log_loss": round(float(job.examples.losses.mean()), 3),
        "samples_per_second": round(32.0 / float(job.seconds[10:].mean()), 2),
    }
    job.metrics, job.examples, job.parity, job.paired = metrics, None, None, None
    job.loss, job.trained_on = job.loss[:0], None
    absent = dict.fromkeys(("speed", "compiler", "peak_memory_bytes", "memory_of"))
    values = {name: (value,) for name, value in metrics.items()}
    job.fields |= {"origin": "printed", "printed": values, "digests": {}, **absent}


ROUNDING, NARROW = Recipe(drift="rounding"), Recipe(drift="bf16")
TEN = (9, 8, 7, 6, 5, 4, 3, 2, 1, 1)
NUMBERS = Recipe(data="numbers", outputs=1, clear=2.0, rate=0.02)
TAILED = replace(NUMBERS, errors=3, drift="rounding")
LABELS = Recipe(data="labels", clear=2.0, rate=0.1)
STOPS, PAGES = {"examples_tolerance": 0.5}, {"groups": "page"}
ALONE, NARROWLY, WIDELY = Clock(pairs=0, speedup=1.6), guards(accuracy=0.02), guards(accuracy=0.1)
SHOWN = MetricGuard(direction="higher", margin=0.06, reported=True)
OF_NOTHING = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

_KINDS = (
    *(Kind(f"plain, {count} seeds", seeds=count) for count in (3, 5, 10)),
    Kind("plain, 2 seeds", metrics=guards(accuracy=0.25), seeds=2),
    Kind("plain, 200 rows", metrics=guards(accuracy=0.12), rows=200),
    Kind("arms that differ by rounding", ROUNDING, guards(accuracy=0.02, log_loss=0.02)),
    Kind("training in bf16", NARROW, change=sets("recipe", precision="bf16"), of=CANDIDATE,
         arm={"precision": "bf16"}),
    Kind("eager's own bits", Recipe(drift="none"), change=same_bits, of=CANDIDATE),
    Kind("deterministic training", replace(ROUNDING, same_seeds=True), change=one_model,
         undecided=True),
    Kind("linear model", Recipe(hidden=0), guards(accuracy=0.05, log_loss=0.15)),
    Kind("Adam and GELU", Recipe(adam=True, rate=0.003)),
    Kind("fine-tuning from one model", Recipe(pretrained=True)),
    Kind("log loss, relative margin", ROUNDING, guards(True, log_loss=0.1)),
    Kind("calibration error", metrics=guards(calibration_error=0.06), rows=1200),
    Kind("rare positives, area under the curve", Recipe(outputs=2, shares=(0.9, 0.1)),
         guards(auroc=0.06), rows=1500),
    Kind("imbalance, ten classes", Recipe(outputs=10, clear=0.7, shares=TEN),
         guards(accuracy=0.08, macro_f1=0.14), rows=1500),
    Kind("regression, relative margin", NUMBERS, guards(True, mse=0.5)),
    Kind("regression, squared and absolute error", NUMBERS, guards(mse=0.15, mae=0.12)),
    Kind("every row twice", rows=600, change=lambda job, _: (rows_of(job, np.tile(
         np.arange(600), 2)), edit_examples(job, ids=np.char.add(job.examples.ids, np.repeat(
         ["-a", "-b"], 600))))),
    Kind("long-tailed errors, rounding", TAILED, guards(mse=0.1, mae=0.05), rows=500),
    Kind("long-tailed errors without variance", replace(TAILED, errors=2), guards(mae=0.05)),
    Kind("several labels of a row, declared", LABELS, rows=300, settings=PAGES),
    Kind("pages that correlate, declared", Recipe(members=10), WIDELY, rows=1000, settings=PAGES),
    Kind("pages that correlate, by their ids", Recipe(members=10), WIDELY, rows=1000,
         ids="page-{page}_line{line}"),
    Kind("groups that do not correlate", rows=1000, settings=PAGES),
    Kind("rows in another order", change=lambda job, draw: rows_of(
         job, draw.permutation(len(job.examples.ids))), of=CANDIDATE),
    Kind("rows of one class", metrics=guards(accuracy=0.25), rows=2000,
         change=lambda job, _: rows_of(job, job.examples.labels == 0)),
    Kind("scores of three digits", ROUNDING, write=three_digits),
    Kind("scores in bf16", NARROW, write=in_bf16),
    Kind("classes without scores", ROUNDING, write=classes_alone),
    Kind("overconfident, accuracy guarded", write=overconfident),
    Kind("overconfident, log loss guarded too", ROUNDING, guards(accuracy=0.03, log_loss=0.3),
         write=overconfident),
    Kind("losses with smoothed labels", Recipe(smoothing=0.1), change=smoothed_losses),
    Kind("metric computed otherwise by the job", change=sets("metrics", accuracy=0.5)),
    Kind("inputs hashed after a cast", change=hashed_inputs),
    Kind("part of an epoch", change=part_seen),
    Kind("data made in the script", change=sets("digests", data=OF_NOTHING)),
    Kind("losses of a language model", Recipe(outputs=10, shares=TEN), guards(perplexity=0.9)),
    Kind("six metrics", metrics=guards(accuracy=0.07, balanced_accuracy=0.07, macro_f1=0.07,
         micro_f1=0.07, log_loss=0.25, calibration_error=0.07), rows=1500),
    Kind("curriculum", replace(ROUNDING, curriculum=True)),
    Kind("warm restarts", Recipe(cycles=3)),
    Kind("skewed seeds, 10 seeds", Recipe(hidden=4), guards(log_loss=0.15), 10),
    Kind("a candidate far better", Recipe(own_rate=(0, 0.002)), WIDELY),
    Kind("a learning rate that is declared", Recipe(own_rate=(1, 0.1)), of=CANDIDATE,
         change=sets("recipe", learning_rate=2e-3), arm={"learning_rate": 2e-3}),
    Kind("a logged penalty", change=lambda job, _: setattr(
         job, "loss", job.loss + np.linspace(0.0, 1.0, len(job.loss))), of=CANDIDATE),
    Kind("early stopping, declared", Recipe(early=True, steps=400), settings=STOPS),
    Kind("few rows", metrics=guards(accuracy=0.01), rows=40, undecided=True),
    Kind("one seed", seeds=1, undecided=True),
    Kind("a margin at the limit", metrics=guards(accuracy=0.015), undecided=True),
    Kind("two candidates", Recipe(arms=3), guards(accuracy=0.08)),
    Kind("another processor", change=sets("environment", cpu="another"), of=CANDIDATE),
    Kind("a seed of its own in each recipe", change=lambda job, draw: job.recipe.update(
         worker_seed=int(draw.integers(1e6)))),
    Kind("paths in the recipe", change=lambda job, _: job.recipe.update(
         output_dir=f"/opt/ml/{job.arm}/{job.seed}")),
    Kind("memory of some jobs, a limit", change=unmeasured_memory,
         settings={"max_memory_increase": 0.5}),
    Kind("one recompilation", change=sets("compiler", recompilations=1), of=CANDIDATE),
    Kind("parity under dropout", replace(ROUNDING, dropout=0.1),
         change=other_random_numbers, of=CANDIDATE),
    Kind("two processes", change=sets("recipe", world_size=2, global_batch_size=64),
         arm={"world_size": 2}),
    Kind("evaluation within training", clock=Clock(outside=0.33)),
    Kind("time between the candidate's steps", clock=Clock(speedup=1.8), of=CANDIDATE,
         change=lambda job, _: setattr(job, "outside", 0.25 * float(job.seconds.sum()))),
    Kind("no alternating blocks, 2 seeds", ROUNDING, seeds=2, clock=replace(ALONE, spread=0.003)),
    Kind("no alternating blocks, 3 seeds", clock=ALONE),
    Kind("steps of the same times", clock=Clock(noise=0.0, spread=0.0, by_batch=0.1)),
    Kind("a clock of milliseconds", clock=Clock(step=0.012, compiling=0.1, decimals=3)),
    Kind("batches of any length", clock=Clock(by_batch=0.4)),
    Kind("a machine that slows down", clock=Clock(slower=0.12)),
    Kind("printed metrics", metrics={"accuracy": SHOWN}, seeds=4, change=printed),
)  # fmt: skip
KINDS = {kind.name: kind for kind in _KINDS}


def draw_execution(kind: Kind, draw: Generator) -> Execution:
    """One execution of the kind."""
    pool = train_pool(kind.name, kind.recipe)
    models = draw.choice(MODELS, kind.seeds, replace=False)
    members = max(kind.recipe.members, 10 if kind.settings is PAGES else 1)
    groups = draw.choice(ROWS // members, kind.rows // members, replace=False)
    rows = (groups[:, None] * members + np.arange(members)).ravel()
    examples, losses = {}, {}
    for arm, name in enumerate((BASELINE, CANDIDATE, OTHER)[: kind.recipe.arms]):
        for seed, model in enumerate(models, 1):
            outputs = pool["outputs"][arm, model, rows].astype(np.float64)
            examples[name, seed] = _examples(kind, outputs, pool["answers"][rows], rows)
            losses[name, seed] = pool["losses"][arm, model, : pool["stops"][arm, model]]
    made = execution(examples, draw, kind.metrics, kind.clock, losses, **kind.settings)
    if kind.change is printed:
        made.fields["evidence"] = "printed"
    for arm, declared in made.arms.items():
        if kind.of in ("", arm):
            declared.update(kind.arm)
            for job in made.jobs.values():
                if kind.change and job.arm == arm:
                    kind.change(job, draw)
    return made


def _examples(kind: Kind, outputs: Array, answers: Array, rows: Array) -> Examples:
    ids = np.array([kind.ids.format(row=it, page=it // 10, line=it % 10) for it in rows.tolist()])
    if kind.recipe.data == "numbers":
        return number_examples(answers.astype(np.float64), outputs[:, 0], ids)
    pages = np.array([f"page-{row // 10}" for row in rows.tolist()])
    scores = softmax(outputs, axis=1)
    if kind.recipe.data == "labels":
        second = expit(outputs.ravel())
        scores, labels = np.stack([1.0 - second, second], axis=1), range(answers.shape[1])
        pages = np.repeat(ids, len(labels))
        ids = np.array([f"{id_}_label{label}" for id_ in ids for label in labels])
        answers = answers.ravel()
    if "perplexity" in kind.metrics:
        return loss_examples(-np.log(scores[np.arange(len(rows)), answers]), ids)
    slices = {"page": pages} if kind.settings is PAGES else {}
    return class_examples(answers, kind.write(scores), ids, slices=slices)


def outcomes(kind: Kind, random: Generator, number: int) -> Iterator[str]:
    """The outcome of one execution of the kind, and the codes of its reasons."""
    made = draw_execution(kind, random)
    verdict = made.judge()
    found = {str(it.outcome) for it in verdict.candidates}
    if not verdict.baseline.sound or "fail" in found:
        yield "refused"
    else:
        yield "undecided" if "inconclusive" in found else "passed"
    arms = (verdict.baseline, *verdict.candidates)
    yield from {f"by {code}": None for arm in arms for code in codes_against(arm)}
    if kind.undecided and number % 25 == 0:
        design = Design(kind.seeds, len(verdict.candidates), kind.rows)
        forecasts = forecast(GateSettings(**made.settings), design, verdict.candidates[0])
        chance = {it.of: it.chance for it in forecasts}
        # One seed has no forecast: it shows no metric.
        yield f"{math.prod(chance.get(metric, 0.0) for metric in kind.metrics):.0%}"


def chances(counts: Counts) -> list[int]:
    """The forecast chances in per cent that were counted: `{"40%": 2}` is [40, 40]."""
    return [int(key[:-1]) for key, it in counts.items() if key[-1] == "%" for _ in range(it)]


def table(found: Mapping[str, Counts]) -> tuple[list[list[object]], list[str]]:
    """The rows, and the limits that are missed."""
    rows, missed, by_code, draws = [], [], Counter[str](), FULL
    for name, counts in found.items():
        draws, codes = counts["draws"], list_counts(counts)
        refused, undecided = counts.get("refused", 0), counts.get("undecided", 0)
        shown = str(undecided)
        if not KINDS[name].undecided:
            wrong = refused + undecided
            by_code.update({key: it for key, it in counts.items() if key.startswith("by ")})
        else:
            expected = 1.0 - float(np.mean(chances(counts))) / 100
            wrong, shown = refused, f"{undecided} (forecast {expected:.0%})"
            above, below = min(expected + FORECAST, 1.0), min(1.0 - expected + FORECAST, 1.0)
            if undecided > most(above, draws) or draws - undecided > most(below, draws):
                missed.append(f"{name}: {shown} undecided")
        if wrong > most(REFUSED, draws):
            missed.append(f"{name}: {wrong} of {draws} refused, {codes}")
        rows.append([name, draws, counts.get("passed", 0), refused, shown, codes])
    for code, count in by_code.items():
        if count > most(BY_A_CODE, draws, len(found)):
            missed.append(f"{code.removeprefix('by ')}: against {count} of all executions")
    return rows, missed


COLUMNS = ("kind", "executions", "passed", "refused", "undecided", "by (executions)")
PROGRAM = Program(FULL, KINDS, outcomes, COLUMNS, table)
