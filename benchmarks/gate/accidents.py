"""Is each mistake that a colleague could make named, and the right arm spoilt?

    python benchmarks/gate/accidents.py [--draws 3] [--processes 2] [--anew] [PART OF A NAME]

A mistake is made in an honest execution with a baseline and two candidates: in one job of an arm or
in all of them. Then the arm must be given one of the mistake's codes and must not pass, the other
candidate must, and the baseline must stay valid unless the mistake was made there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from proof import Counts, Program, listed, main, table
from scipy.special import softmax

from compilegate.gate.settings import MetricGuard, SliceGuard
from compilegate.job.evidence import EvidenceError
from compilegate.job.evidence.writing import hashed

from simulated import (  # isort: skip
    BASELINE, CANDIDATE, OTHER, Array, Clock, Execution, Generator, Job, classified, codes_against,
    digest, edited, execution, guards, lossy, predicted,
)  # fmt: skip

ROWS = 400
COLUMNS = ("ids", "labels", "scores", "losses", "inputs")
Edit = Callable[[Execution, Job], object]
"""Makes a mistake in an execution, in one of the jobs where it is made."""
ONE, ALL, BASE_ONE, BASE = "one job", "all jobs", "one baseline job", "the baseline"
PLACES = {ONE: (CANDIDATE, 2), ALL: (CANDIDATE,), BASE_ONE: (BASELINE, 2), BASE: (BASELINE,)}
HERE, COMPARED = (ONE, ALL), (ONE, ALL, BASE_ONE)


@dataclass(frozen=True)
class Mistake:
    """One mistake."""

    name: str
    codes: str  # any of these names it, with a space between two
    edit: Edit = lambda made, job: None
    places: Sequence[str] = tuple(PLACES)
    undecided: bool = False  # whether the candidate may stay undecided instead of being refused
    settings: Mapping[str, Any] = field(default_factory=dict)
    of_all: bool = False  # whether no candidate passes, and the baseline stays valid


def edit(change: Callable[..., object]) -> Callable[..., Edit]:
    """Make a maker of edits from a change to an execution and a job, by further arguments."""
    return lambda *given, **named: lambda made, job: change(made, job, *given, **named)


@edit
def put(_: Execution, job: Job, **values: Any) -> None:
    """Attributes of the job; of functions, what they make of the present value."""
    for name, it in values.items():
        setattr(job, name, it(getattr(job, name)) if callable(it) else it)


@edit
def told(_: Execution, job: Job, which: str, **values: Any) -> None:
    """Keys of one of its mappings."""
    getattr(job, which).update(values)


@edit
def summed(made: Execution, job: Job, inner: Edit, **factors: float) -> None:
    """The inner edit, while the record of speed stays as it was, times these factors."""
    job.speed = {key: it * factors.get(key, 1) for key, it in job.sums(32).items()}
    inner(made, job)


@edit
def rows(_: Execution, job: Job, **changes: Callable[[Array], Array]) -> None:
    """Columns of its examples."""
    edited(job, **{name: make(getattr(job.examples, name)) for name, make in changes.items()})


@edit
def rescored(_: Execution, job: Job, make: Callable[[Array, Array], Array]) -> None:
    """Scores, by those that there were and the labels; losses follow."""
    labels = job.examples.labels
    scores = make(job.examples.scores.copy(), labels)
    edited(job, scores=scores, losses=-np.log(scores[np.arange(len(labels)), labels]))


@edit
def of_another(made: Execution, job: Job, columns: str) -> None:
    """Columns of another job lie beside its evidence.json."""
    other = made.jobs[job.arm, 1 if job.seed != 1 else 3].record(32)
    job.damage.append(lambda it: replace(it, **{columns: getattr(other, columns)}))


def confused(count: int, among: slice = slice(None)) -> Edit:
    """So many right answers among these rows become wrong."""

    def change(scores: Array, labels: Array) -> Array:
        right = np.flatnonzero(scores.argmax(axis=1) == labels)
        found = right[np.isin(right, np.arange(len(labels))[among])][:count]
        other, before = (labels[found] + 1) % 4, scores[found, labels[found]]
        scores[found, labels[found]], scores[found, other] = scores[found, other], before
        return scores

    return rescored(change)


@edit
def first_model(made: Execution, job: Job, noise: float) -> None:
    """The model of the arm's first seed, with a device's noise."""
    first, draw = made.jobs[job.arm, 1], np.random.default_rng(job.seed)
    if job is first:
        return
    job.examples, job.parity = first.examples, first.parity
    job.loss = first.loss * np.append(1.0, draw.lognormal(0.0, noise, len(first.loss) - 1))
    if noise:
        rescored(lambda it, _: it * draw.lognormal(0.0, noise, it.shape))(made, job)
    else:
        job.digests["model"] = digest("model", job.arm, 1)
        job.about_parity["compared"] = {"exact": digest("exact", job.arm, 1)}


def first_job(made: Execution, job: Job) -> None:
    """What the arm's first job wrote is read again."""
    copied = replace(made.jobs[job.arm, 1], seed=job.seed, fields={"job": f"train-{job.arm}-1"})
    copied.digests = {"model": digest("model", job.arm, 1)}
    copied.about_parity = {"compared": {"exact": digest("exact", job.arm, 1)}}
    made.jobs[job.arm, job.seed] = copied


def last_week(made: Execution, job: Job) -> None:
    """The evidence is of an execution before."""
    made.ran = {key: f"train-{key[0]}-{key[1]}" for key in made.jobs}
    job.fields["job"] = f"last-week-{job.seed}"


@edit
def evaluated(made: Execution, job: Job, arm: str, seed: int | None = None) -> None:
    """The checkpoint of another arm or seed was evaluated."""
    job.examples = made.jobs[arm, seed or job.seed].examples


@edit
def of_everybody(made: Execution, _: Job, change: Edit, seeds: int = 3) -> None:
    """The same in all jobs; the execution has so many seeds."""
    made.jobs = {key: each for key, each in made.jobs.items() if key[1] <= seeds}
    for each in made.jobs.values():
        change(made, each)


@edit
def leaked(_: Execution, job: Job, column: str, count: int) -> None:
    """So many validation rows are in its training data."""
    found = getattr(job.examples, column)[:count]
    found = found if column == "inputs" else hashed(found.tolist())
    seen = np.union1d(getattr(job.trained_on, column), found)
    job.trained_on = replace(job.trained_on, **{column: seen})


@edit
def shorter(_: Execution, job: Job, count: int) -> None:
    """The training ended after so many steps, as it says."""
    job.loss, job.seconds = job.loss[:count], job.seconds[:count]
    job.recipe["steps"] = count
    job.compiler["proof"] = {"graph_calls": count} if job.compiler["ran"] else {}


def off_by_one(it: Array) -> Array:
    """Each row has what belongs to the one before."""
    return np.roll(it, 1, axis=0)


LIMITED, STRICT = {"max_memory_increase": 0.1}, {"parity": {"required": True}}
FLOOR = {"metrics": {"accuracy": MetricGuard(direction="higher", margin=0.3, floor=0.8)}}
F1 = {"metrics": {"f1": MetricGuard(direction="higher", margin=0.1, reported=True)}}
HALF = [SliceGuard(column="half", metric="accuracy", margin=0.06)]
THIRD = [SliceGuard(column="third", metric="accuracy", margin=0.06)]
NUMBERS = {"metrics": guards(mse=1.0)}
IN_A_SLICE = {"slices": HALF, "metrics": guards(accuracy=0.4)}
UNREADABLE, DISAGREE = "evidence.unreadable", "steps.times_disagree evidence.unreadable"
MALFORMED, DIFFER, RECIPE = "examples.malformed", "examples.differ", "recipe.differs"
LACKING, UNUSED = "evidence.lacking", "model.seed_unused evidence.duplicated"
CHANGED, UNDECLARED, OTHERS = "evidence.changed", "confound.undeclared", "evidence.of_another"
WORSE, INVALID, SEEN = "quality.worse", "steps.seconds_invalid", "confound.examples_seen"
NOT_RUN, UNKNOWN = "compiler.did_not_run", "parity.cannot_tell"
CHECKPOINT, HARDLY = "model.outputs_of_another", "quality.worse metric.below_floor"

MISTAKES = (
    Mistake("killed, nothing left", "evidence.missing", put(damage=[lambda _: None])),
    Mistake("file is no JSON", UNREADABLE, put(damage=[lambda _: EvidenceError("no JSON")])),
    Mistake("crashed", "arm.failed", told("fields", failure="RuntimeError: no kernel")),
    Mistake("evidence of another seed", OTHERS, told("fields", seed=9)),
    Mistake("last week's evidence", OTHERS, last_week),
    Mistake("one job under two seeds", UNUSED, first_job, (ONE, BASE_ONE), True),
    Mistake("evidence.json edited", CHANGED, put(damage=[lambda it: replace(
            it, as_written=False)])),
    Mistake("another job's examples.npz", CHANGED, of_another("examples")),
    Mistake("another job's steps.npz", CHANGED, of_another("steps")),
    Mistake("another job's parity.npz", CHANGED, of_another("parity"), HERE),
    Mistake("printed where written was asked", LACKING, told("fields", origin="printed")),
    Mistake("no environment", LACKING, put(environment={})),
    Mistake("reported metric is NaN", UNREADABLE, told("metrics", accuracy=np.nan)),
    Mistake("steps in milliseconds", DISAGREE, summed(put(seconds=lambda it: 1000.0 * it))),
    Mistake("samples of eight devices", DISAGREE, summed(put(), samples_per_second=8.0)),
    Mistake("a step of negative time", INVALID, put(seconds=lambda it: np.append(it[:-1], -0.01))),
    Mistake("a GPU that nobody waited for", f"speed.beyond_belief speed.disagrees {DISAGREE}",
            summed(put(seconds=lambda it: 0.01 * it), samples_per_second=100.0), (ALL,), True),
    Mistake("blocks say otherwise than steps", "speed.disagrees", put(paired=lambda it: replace(
            it, baseline_seconds=4 * it.baseline_seconds)), (ALL,), True),
    Mistake("memory in megabytes", UNREADABLE, told("fields", peak_memory_bytes=500)),
    Mistake("loss is NaN", "steps.loss_not_finite", put(loss=lambda it: np.nan * it)),
    Mistake("loss is a constant", "steps.loss_constant", put(loss=lambda it: 0 * it + it[0])),
    Mistake("fewer steps than recorded", "steps.count", told("recipe", steps=500)),
    Mistake("no step at all", f"steps.count {LACKING}", shorter(0)),
    Mistake("another batch size", RECIPE, told("recipe", batch_size=64)),
    Mistake("another learning rate", RECIPE, told("recipe", learning_rate=3e-3)),
    Mistake("another weight decay", UNDECLARED, told("recipe", weight_decay=0.1), (ALL,)),
    Mistake("another torch", UNDECLARED, told("environment", torch="2.9.0"), HERE),
    Mistake("an eighth fewer examples", SEEN, shorter(105), HERE),
    Mistake("half of the examples, early stopping", SEEN, shorter(55), (ALL,), False,
            {"examples_tolerance": 0.3}),
    Mistake("weights not loaded", "steps.other_start", put(loss=lambda it: it + 3.0), (ALL,), True),
    Mistake("seed not used", UNUSED, first_model(0.0), (ALL,), True),
    Mistake("seed not used on a GPU", UNUSED, first_model(1e-5), (ALL,), True),
    Mistake("seed not used", UNUSED, first_model(0.0), (BASE,), True, of_all=True),
    Mistake("another seed's checkpoint", CHECKPOINT, evaluated(CANDIDATE, 1), (ONE,), True),
    Mistake("another arm's checkpoint", CHECKPOINT, evaluated(BASELINE), HERE, True),
    Mistake("another data set", "data.differs", told("digests", data=digest("old")), COMPARED),
    Mistake("trained on validation rows", "data.trained_on", leaked("ids", 60)),
    Mistake("trained on validation inputs", "data.trained_on", leaked("inputs", 380), (ALL,)),
    Mistake("another split", DIFFER, rows(ids=lambda it: np.char.add("test-", it)), COMPARED),
    Mistake("labels off by a row", DIFFER, rows(labels=off_by_one, scores=off_by_one,
            losses=off_by_one), COMPARED),
    Mistake("evaluation cut short", DIFFER,
            rows(**dict.fromkeys(COLUMNS, lambda it: it[:250])), COMPARED),
    Mistake("inputs of other rows", DIFFER, rows(inputs=off_by_one), HERE),
    Mistake("ids that repeat", MALFORMED, rows(ids=lambda it: np.tile(it[:100], 4))),
    Mistake("labels from one", MALFORMED, rows(labels=lambda it: it + 1)),
    Mistake("logits for scores", MALFORMED, rows(scores=np.log)),
    Mistake("scores are NaN", MALFORMED, rows(scores=lambda it: np.nan * it)),
    Mistake("metric in per cent", "metric.above_one", told("metrics", f1=91.0), settings=F1),
    Mistake("targets in thousands", DIFFER, rows(targets=lambda it: it / 1e3, predictions=lambda
            it: it / 1e3, losses=lambda it: it / 1e6), HERE, settings=NUMBERS),
    Mistake("one loss for all rows", "examples.losses_equal", rows(losses=lambda it: 0 * it + 1),
            (ALL,), True, {"metrics": guards(loss=0.3)}),
    Mistake("no column of groups", "groups.missing", places=(ALL,), settings={"groups": "patient"},
            of_all=True),
    Mistake("no column of a slice", f"slice.not_judged {LACKING}", places=(ALL,),
            settings={"slices": THIRD}, of_all=True),
    Mistake("compiler did not run", NOT_RUN, told("compiler", ran=False, proof={}, graphs=0), HERE),
    Mistake("eager after 20 steps", NOT_RUN, told("compiler", proof={"graph_calls": 20}), HERE,
            True),
    Mistake("eager instead", "compiler.differs", put(compiler={"name": "eager", "ran": False}),
            HERE),
    Mistake("another backend", "compiler.differs", told("compiler", proof={"graph_calls": 120,
            "backend": "aot_eager"}), HERE),
    Mistake("baseline compiled", "compiler.differs", told("compiler", name="inductor", ran=True,
            graphs=1, proof={"graph_calls": 120}), (BASE_ONE, BASE)),
    Mistake("a gradient of zero", "parity.differs", put(parity=lambda it: replace(
            it, compiled=np.where(it.tensors == it.tensors[-1], 1.0, it.eager))), HERE),
    Mistake("40 times what rounding explains", "parity.differs", put(parity=lambda
            it: replace(it, compiled=40 * it.eager)), HERE),
    Mistake("parity required, not measured", UNKNOWN, put(parity=None), (ALL,), True, STRICT),
    Mistake("scores of other rows", f"{HARDLY} metric.at_constant",
            rescored(lambda it, _: np.roll(it, 7, axis=0)), (ALL, BASE)),
    Mistake("below a declared floor", "metric.below_floor", confused(80), (ALL, BASE), False,
            FLOOR),
    Mistake("fewer right answers", WORSE, confused(60), (ALL,)),
    Mistake("the released seed is far worse", f"quality.released_worse {WORSE}", lambda made, _:
            confused(120)(made, made.jobs[CANDIDATE, 1]), (ONE,)),
    Mistake("worse in a slice", WORSE, confused(80, slice(1, None, 2)), (ALL,), False,
            IN_A_SLICE),
    Mistake("one seed", "quality.single_seed", of_everybody(put(), 1), (ALL,), of_all=True),
    Mistake("a failure rate beyond 3 seeds", "seeds.failure_rate", places=(ALL,),
            settings={"max_failure_rate": 0.05}, of_all=True),
    Mistake("slower", "speed.below_minimum", put(seconds=lambda it: 2 * it, paired=lambda
            it: replace(it, candidate_seconds=2 * it.candidate_seconds)), (ALL,)),
    Mistake("compiles longer than it trains", "speed.not_repaid", put(
            seconds=lambda it: it + 100.0 * (np.arange(len(it)) == 0),
            compiler=lambda it: {**it, "compile_seconds": 104.0}), (ALL,)),
    Mistake("loses between its steps", f"speed.not_repaid {DISAGREE}", put(outside=35.0), (ALL,),
            True),
    Mistake("too few steps to time", "speed.unmeasured", of_everybody(shorter(8)), (ALL,),
            of_all=True),
    Mistake("more memory than allowed", "memory.increased", told("fields",
            peak_memory_bytes=700_000_000), (ALL,), False, LIMITED),
    Mistake("memory of a device", "memory.not_compared", told("fields", memory_of="device"),
            (ALL,), True, LIMITED),
)  # fmt: skip
CASES = {f"{it.name}: {place}": (it, place) for it in MISTAKES for place in it.places}


def honest(settings: Mapping[str, Any], draw: Generator) -> Execution:
    """An execution of models that say what is guarded: classes, numbers, or losses alone."""
    labels = draw.permutation(np.arange(ROWS) % 4)
    shared, errors = draw.standard_normal((ROWS, 4)), draw.standard_normal(ROWS)
    shared[np.arange(ROWS), labels] += 3.0
    half = {"half": np.where(np.arange(ROWS) % 2, "odd", "even")} if "slices" in settings else {}
    inputs, targets = draw.integers(0, 2**50, ROWS), 3.0 * shared[:, 0]
    asked = {"metrics": guards(accuracy=0.06, log_loss=0.2), **settings}
    examples = {}
    for seed in (1, 2, 3):
        of_seed = shared + 0.2 * draw.standard_normal(shared.shape)
        for arm in (BASELINE, CANDIDATE, OTHER):
            own = of_seed + 0.02 * draw.standard_normal(shared.shape)
            if "mse" in asked["metrics"]:
                examples[arm, seed] = predicted(targets, targets + errors + own[:, 1])
            elif "loss" in asked["metrics"]:
                examples[arm, seed] = lossy(np.exp(0.5 * own[:, 1]))
            else:
                own = softmax(own, axis=1)
                examples[arm, seed] = classified(labels, own, inputs=inputs, slices=half)
    made = execution(examples, draw, clock=Clock(), **asked)
    for job in made.jobs.values():
        job.metrics["f1"] = 0.9 + 0.002 * draw.standard_normal()
    return made


def judged(case: tuple[Mistake, str], random: Generator, _: int) -> Iterator[str]:
    """Whether the mistake was named, what went wrong where it was not, and the codes."""
    mistake, (arm, *seeds) = case[0], PLACES[case[1]]
    made = honest(mistake.settings, random)
    for job in list(made.of(arm, *seeds)):
        mistake.edit(made, job)
    verdict = made.judge()
    codes = {it.arm: codes_against(it) for it in (verdict.baseline, *verdict.candidates)}
    named = {*codes[arm], *(codes[CANDIDATE] if mistake.of_all else ())}
    own, other = (str(it.outcome) for it in verdict.candidates)
    sound, blamed = verdict.baseline.sound, arm == BASELINE and not mistake.of_all
    may_be_open = blamed or mistake.undecided or mistake.of_all
    wrong = {
        "not named": not named & set(mistake.codes.split()),
        "baseline valid": blamed and sound,
        "baseline spoilt": not blamed and not sound,
        f"candidate: {own}": own == "pass" or (own != "fail" and not may_be_open),
        f"other candidate: {other}": (other == "pass") == (blamed or mistake.of_all),
    }
    yield "wrong" if any(wrong.values()) else "right"
    yield from (f"because {each}" for each, holds in wrong.items() if holds)
    yield from (f"by {code}" for code in codes[arm])


def page(found: Mapping[str, Counts]) -> tuple[str, list[str]]:
    """The table, and which mistakes are missed."""
    shown, missed = [], []
    for name, counts in found.items():
        wrong, codes = listed(counts, "because "), listed(counts)
        if wrong:
            missed.append(f"{name}: {wrong}; {codes or 'no code'}")
        mistake, place = CASES[name]
        shown.append((mistake.name, place, f"{counts.get('right', 0)} of {counts['draws']}", codes))
    return table(("Mistake", "Made in", "Named", "Codes (executions)"), shown), missed


PROGRAM = Program(3, CASES, judged, page)

if __name__ == "__main__":
    main("accidents")
