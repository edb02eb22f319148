"""Is each mistake that a colleague could make named, and the right arm spoilt?

    python benchmarks/gate/accidents.py [--draws 3] [--processes 2] [--anew] [PART OF A NAME]

A mistake is made in an honest execution with a baseline and two candidates: in one job of an arm or
in all of them. Then the arm must be given one of the mistake's codes and must not pass, the other
candidate must, and the baseline must stay valid unless the mistake was made there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from results import Counts, Page, Program, listed, main, table  # isort: skip
from simulated import (  # isort: skip
    BASELINE, CANDIDATE, OTHER, Array, Clock, Execution, Generator, Job, classified, digest,
    edited, execution, guards, lossy, predicted, softmax,
)  # fmt: skip
from compilegate.gate.settings import MetricGuard, SliceGuard
from compilegate.job.evidence import EvidenceError
from compilegate.job.evidence.trained_on import hashed

ROWS, DRAWS = 400, 3
COLUMNS = ("ids", "labels", "scores", "losses", "inputs")
Edit = Callable[[Execution, Job], object]
ONE, ALL, BASE_ONE, BASE = "one job", "all jobs", "one baseline job", "the baseline"
PLACES = {ONE: (CANDIDATE, 2), ALL: (CANDIDATE,), BASE_ONE: (BASELINE, 2), BASE: (BASELINE,)}
HERE, COMPARED = (ONE, ALL), (ONE, ALL, BASE_ONE)


@dataclass(frozen=True)
class Mistake:
    """One mistake."""

    name: str
    codes: str  # any of these names it, with a space between two
    edit: Edit = lambda made, job: None
    """The same of the execution, and one of the jobs in which the mistake is made."""
    places: Sequence[str] = tuple(PLACES)
    undecided: bool = False  # whether the candidate may stay undecided instead of being refused
    settings: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "classes"  # of models: `classes`, `numbers`, or `losses` alone
    of_all: bool = False  # whether no candidate passes, and the baseline stays valid


def put(**values: Any) -> Edit:
    """Attributes of the job; of functions, what they make of the present value."""

    def edit(_: Execution, job: Job) -> None:
        for name, it in values.items():
            setattr(job, name, it(getattr(job, name)) if callable(it) else it)

    return edit


def told(which: str, **values: Any) -> Edit:
    """Keys of one of its mappings."""
    return lambda _, job: getattr(job, which).update(values)


def summed(edit: Edit, **factors: float) -> Edit:
    """The edit, while the record of speed stays as it was, times these factors."""

    def change(made: Execution, job: Job) -> None:
        job.speed = {key: it * factors.get(key, 1) for key, it in job.sums(32).items()}
        edit(made, job)

    return change


def rows(**changes: Callable[[Array], Array]) -> Edit:
    """Columns of its examples, with all that follows."""
    return lambda _, job: edited(
        job, **{name: make(getattr(job.examples, name)) for name, make in changes.items()}
    )


def rescored(make: Callable[[Array, Array], Array]) -> Edit:
    """Scores, by those that there were and the labels; losses follow."""

    def edit(_: Execution, job: Job) -> None:
        labels = job.examples.labels
        scores = make(job.examples.scores.copy(), labels)
        edited(job, scores=scores, losses=-np.log(scores[np.arange(len(labels)), labels]))

    return edit


def damaged(happens: Callable[[Any], Any]) -> Edit:
    """Something happens to the record after the job wrote it."""
    return lambda _, job: job.damage.append(happens)


def of_another(columns: str) -> Edit:
    """Columns of another job lie beside its evidence.json."""

    def edit(made: Execution, job: Job) -> None:
        other = made.jobs[job.arm, 1 if job.seed != 1 else 3].record(32)
        job.damage.append(lambda it: replace(it, **{columns: getattr(other, columns)}))

    return edit


def at(step: int, value: float) -> Callable[[Array], Array]:
    """One number, or row, in place of what there was."""

    def change(it: Array) -> Array:
        found = it.astype(np.float64)
        found[step] = value
        return found

    return change


def confused(count: int, among: Callable[[Array], Array] | None = None) -> Edit:
    """So many right answers become wrong, of all rows or of those among which."""

    def change(scores: Array, labels: Array) -> Array:
        chosen = scores.argmax(axis=1) == labels
        found = np.flatnonzero(chosen & (True if among is None else among(labels)))[:count]
        other, before = (labels[found] + 1) % 4, scores[found, labels[found]]
        scores[found, labels[found]], scores[found, other] = scores[found, other], before
        return scores

    return rescored(change)


def parity(make: Callable[[Array], Array], name: str = "compiled") -> Edit:
    """The compiled errors, by the eager ones; or all."""
    return put(parity=lambda it: replace(it, **{each: make(it.eager) for each in name.split()}))


def first_model(noise: float) -> Edit:
    """The model of the arm's first seed, with a device's noise."""

    def edit(made: Execution, job: Job) -> None:
        first, draw = made.jobs[job.arm, 1], np.random.default_rng(job.seed)
        if job is first:
            return
        job.examples, job.parity = first.examples, first.parity
        job.loss = first.loss * np.append(1.0, draw.lognormal(0.0, noise, len(first.loss) - 1))
        if noise:
            noisy = rescored(lambda it, _: it * draw.lognormal(0.0, noise, it.shape))
            noisy(made, job)
        else:
            job.digests["model"] = digest("model", job.arm, 1)
            job.about_parity["compared"] = {"exact": digest("exact", job.arm, 1)}

    return edit


def from_elsewhere(what: str) -> Edit:
    """Another checkpoint, or another job's output, was read."""

    def edit(made: Execution, job: Job) -> None:
        first = made.jobs[job.arm, 1]
        if what == "last week's":
            made.ran = {key: f"train-{key[0]}-{key[1]}" for key in made.jobs}
            job.fields["job"] = f"last-week-{job.seed}"
        elif what == "the first seed's job":
            name, model = f"train-{job.arm}-1", digest("model", job.arm, 1)
            told = {"fields": {"job": name}, "digests": {"model": model}}
            exact = {"compared": {"exact": digest("exact", job.arm, 1)}}
            copied = replace(first, seed=job.seed, about_parity=exact, **told)
            made.jobs[job.arm, job.seed] = copied
        else:
            source = first if what == "the first seed's" else made.jobs[BASELINE, job.seed]
            job.examples = source.examples

    return edit


def of_everybody(change: Edit, seeds: int = 3) -> Edit:
    """The same in all jobs; the execution has so many seeds."""

    def edit(made: Execution, _: Job) -> None:
        made.jobs = {key: each for key, each in made.jobs.items() if key[1] <= seeds}
        for each in made.jobs.values():
            change(made, each)

    return edit


def leaked(column: str, count: int) -> Edit:
    """So many validation rows are in its training data."""

    def edit(_: Execution, job: Job) -> None:
        found = getattr(job.examples, column)[:count]
        found = found if column == "inputs" else hashed(found.tolist())
        seen = np.unique(np.concatenate([getattr(job.trained_on, column), found]))
        job.trained_on = replace(job.trained_on, **{column: seen})

    return edit


def shorter(count: int) -> Edit:
    """The training ended after so many steps, as it says."""

    def edit(_: Execution, job: Job) -> None:
        job.loss, job.seconds = job.loss[:count], job.seconds[:count]
        job.recipe["steps"] = count
        job.compiler["proof"] = {"graph_calls": count} if job.compiler["ran"] else {}

    return edit


def slower(times: float) -> Edit:
    """Its steps take so many times as long."""
    own = "candidate_seconds"
    return put(
        seconds=lambda it: it * times,
        paired=lambda it: replace(it, **{own: times * getattr(it, own)}),
    )


def off_by_one(it: Array) -> Array:
    """Each row has what belongs to the one before."""
    return np.roll(it, 1, axis=0)


LIMITED, STRICT = {"max_memory_increase": 0.1}, {"parity": {"required": True}}
FLOOR = {"metrics": {"accuracy": MetricGuard(direction="higher", margin=0.3, floor=0.8)}}
F1 = {"metrics": {"f1": MetricGuard(direction="higher", margin=0.1, reported=True)}}
HALF = [SliceGuard(column="half", metric="accuracy", margin=0.06)]
IN_A_SLICE = {"slices": HALF, "metrics": guards(accuracy=0.4)}
UNREADABLE, DISAGREE = "evidence.unreadable", "steps.times_disagree evidence.unreadable"
MALFORMED, DIFFER, RECIPE = "examples.malformed", "examples.differ", "recipe.differs"
LACKING, UNUSED = "evidence.lacking", "model.seed_unused evidence.duplicated"
CHANGED, UNDECLARED, OTHERS = "evidence.changed", "confound.undeclared", "evidence.of_another"
WORSE, INVALID, SEEN = "quality.worse", "steps.seconds_invalid", "confound.examples_seen"
NOT_RUN, UNKNOWN = "compiler.did_not_run", "parity.cannot_tell"
HARDLY = "quality.worse metric.below_floor"

MISTAKES = (
    Mistake("killed, nothing left", "evidence.missing", damaged(lambda _: None)),
    Mistake("file is no JSON", UNREADABLE, damaged(lambda _: EvidenceError("no JSON"))),
    Mistake("crashed", "arm.failed", told("fields", failure="RuntimeError: no kernel")),
    Mistake("evidence of another seed", OTHERS, told("fields", seed=9)),
    Mistake("last week's evidence", OTHERS, from_elsewhere("last week's")),
    Mistake("one job under two seeds", UNUSED, from_elsewhere("the first seed's job"),
            (ONE, BASE_ONE), True),
    Mistake("evidence.json edited", CHANGED, damaged(lambda it: replace(it, as_written=False))),
    Mistake("another job's examples.npz", CHANGED, of_another("examples")),
    Mistake("another job's steps.npz", CHANGED, of_another("steps")),
    Mistake("another job's parity.npz", CHANGED, of_another("parity"), HERE),
    Mistake("printed where written was asked", LACKING, told("fields", origin="printed")),
    Mistake("no environment", LACKING, put(environment={})),
    Mistake("no digest of the data", UNREADABLE, told("digests", data="")),
    Mistake("reported metric is NaN", UNREADABLE, told("metrics", accuracy=np.nan)),
    Mistake("memory below zero", UNREADABLE, told("fields", peak_memory_bytes=-1)),
    Mistake("job shorter than its training", DISAGREE, summed(put(), total_seconds=0.3)),
    Mistake("steps in milliseconds", DISAGREE, summed(put(seconds=lambda it: 1000.0 * it))),
    Mistake("training in milliseconds", DISAGREE, summed(put(), train_seconds=1000.0)),
    Mistake("samples of eight devices", DISAGREE, summed(put(), samples_per_second=8.0)),
    Mistake("a step of negative time", INVALID, put(seconds=at(50, -0.01))),
    Mistake("an endless step", INVALID, summed(put(seconds=at(50, np.inf)))),
    Mistake("a GPU that nobody waited for", f"speed.beyond_belief speed.disagrees {DISAGREE}",
            summed(put(seconds=lambda it: 0.01 * it), samples_per_second=100.0), (ALL,), True),
    Mistake("blocks say otherwise than steps", "speed.disagrees", put(paired=lambda it: replace(
            it, baseline_seconds=4 * it.baseline_seconds)), (ALL,), True),
    Mistake("memory in megabytes", UNREADABLE, told("fields", peak_memory_bytes=500)),
    Mistake("loss is NaN", "steps.loss_not_finite", put(loss=at(-1, np.nan))),
    Mistake("loss is a constant", "steps.loss_constant", put(loss=lambda it: 0 * it + it[0])),
    Mistake("fewer steps than recorded", "steps.count", told("recipe", steps=500)),
    Mistake("no step at all", f"steps.count {LACKING}", shorter(0)),
    Mistake("another batch size", RECIPE, told("recipe", batch_size=64)),
    Mistake("another learning rate", RECIPE, told("recipe", learning_rate=3e-3)),
    Mistake("another number of processes", RECIPE, told("recipe", world_size=4)),
    Mistake("another weight decay", UNDECLARED, told("recipe", weight_decay=0.1), (ALL,)),
    Mistake("another torch", UNDECLARED, told("environment", torch="2.9.0"), HERE),
    Mistake("a GPU in one arm", UNDECLARED, told("environment", accelerator="A10G"), HERE),
    Mistake("an eighth fewer examples", SEEN, shorter(105), HERE),
    Mistake("half of the examples, early stopping", SEEN, shorter(55), (ALL,), False,
            {"examples_tolerance": 0.3}),
    Mistake("weights not loaded", "steps.other_start", put(loss=lambda it: it + 3.0), (ALL,), True),
    Mistake("seed not used", UNUSED, first_model(0.0), (ALL,), True),
    Mistake("seed not used on a GPU", UNUSED, first_model(1e-5), (ALL,), True),
    Mistake("seed not used", UNUSED, first_model(0.0), (BASE,), True, of_all=True),
    Mistake("another seed's checkpoint", "model.outputs_of_another",
            from_elsewhere("the first seed's"), (ONE,), True),
    Mistake("another arm's checkpoint", "model.outputs_of_another", from_elsewhere(
            "the baseline's"), HERE, True),
    Mistake("another data set", "data.differs", told("digests", data=digest("old")), COMPARED),
    Mistake("trained on validation rows", "data.trained_on", leaked("ids", 60)),
    Mistake("trained on validation inputs", "data.trained_on", leaked("inputs", 380), (ALL,)),
    Mistake("another split", DIFFER, rows(ids=lambda it: np.char.add("test-", it)), COMPARED),
    Mistake("labels off by a row", DIFFER, rows(labels=off_by_one, scores=off_by_one,
            losses=off_by_one), COMPARED),
    Mistake("evaluation cut short", DIFFER,
            rows(**dict.fromkeys(COLUMNS, lambda it: it[:250])), COMPARED),
    Mistake("inputs of other rows", DIFFER, rows(inputs=off_by_one), HERE),
    Mistake("a class more", DIFFER, rescored(lambda it, _: np.hstack(
            [0.999 * it, 0.001 + 0 * it[:, :1]])), HERE),
    Mistake("ids that repeat", MALFORMED, rows(ids=lambda it: np.tile(it[:100], 4))),
    Mistake("labels from one", MALFORMED, rows(labels=lambda it: it + 1)),
    Mistake("logits for scores", MALFORMED, rows(scores=np.log)),
    Mistake("a row is NaN", MALFORMED, rows(scores=at(7, np.nan), losses=at(7, np.nan))),
    Mistake("one validation row", MALFORMED, rows(**dict.fromkeys(COLUMNS, lambda it: it[:1]))),
    Mistake("metric in per cent", "metric.above_one", told("metrics", f1=91.0), settings=F1),
    Mistake("targets in thousands", DIFFER, rows(targets=lambda it: it / 1e3, predictions=lambda
            it: it / 1e3, losses=lambda it: it / 1e6), HERE, kind="numbers"),
    Mistake("one loss for all rows", "examples.losses_equal", rows(losses=lambda it: 0 * it + 1),
            (ALL,), True, kind="losses"),
    Mistake("no column of groups", "groups.missing", places=(ALL,), settings={"groups": "patient"},
            of_all=True),
    Mistake("no column of a slice", f"slice.not_judged {LACKING}", places=(ALL,),
            settings={"slices": HALF}, of_all=True),
    Mistake("compiler did not run", NOT_RUN, told("compiler", ran=False, proof={}, graphs=0), HERE),
    Mistake("compiler left no trace", NOT_RUN, told("compiler", graphs=0, proof={}), HERE),
    Mistake("eager after 20 steps", NOT_RUN, told("compiler", proof={"graph_calls": 20}), HERE,
            True),
    Mistake("eager instead", "compiler.differs", put(compiler={"name": "eager", "ran": False}),
            HERE),
    Mistake("another backend", "compiler.differs", told("compiler", proof={"graph_calls": 120,
            "backend": "aot_eager"}), HERE),
    Mistake("baseline compiled", "compiler.differs", told("compiler", name="inductor", ran=True,
            graphs=1, proof={"graph_calls": 120}), (BASE_ONE, BASE)),
    Mistake("a gradient of zero", "parity.differs", parity(lambda it: np.where(
            np.arange(it.shape[1]) == 5, 1.0, it)), HERE),
    Mistake("40 times what rounding explains", "parity.differs", parity(lambda it: 40 * it), HERE),
    Mistake("parity required, not measured", UNKNOWN, put(parity=None), (ALL,), True, STRICT),
    Mistake("parity required, all zeros", UNKNOWN, parity(lambda it: 0 * it, "compiled eager"),
            (ALL,), True, STRICT),
    Mistake("parity required, a tenth compared", UNKNOWN, told("about_parity",
            compared_parameters=100), (ALL,), True, STRICT),
    Mistake("scores of other rows", f"{HARDLY} metric.at_constant",
            rescored(lambda it, _: np.roll(it, 7, axis=0)), (ALL, BASE)),
    Mistake("below a declared floor", "metric.below_floor", confused(80), (ALL, BASE), False,
            FLOOR),
    Mistake("fewer right answers", WORSE, confused(60), (ALL,)),
    Mistake("far less sure", WORSE, rescored(lambda it, _: softmax(0.3 * np.log(it))), (ALL,)),
    Mistake("the released seed is far worse", f"quality.released_worse {WORSE}", lambda made, _:
            confused(120)(made, made.jobs[CANDIDATE, 1]), (ONE,)),
    Mistake("worse in a slice", WORSE, confused(80, lambda it: np.arange(ROWS) % 2 == 1), (ALL,),
            False, IN_A_SLICE),
    Mistake("a class is given up", WORSE, confused(95, lambda it: it == 3), (ALL,), False,
            {"metrics": guards(balanced_accuracy=0.05)}),
    Mistake("one seed", "quality.single_seed", of_everybody(put(), 1), (ALL,), of_all=True),
    Mistake("a failure rate beyond 3 seeds", "seeds.failure_rate", places=(ALL,),
            settings={"max_failure_rate": 0.05}, of_all=True),
    Mistake("slower", "speed.below_minimum", slower(2.0), (ALL,)),
    Mistake("compiles longer than it trains", "speed.not_repaid", lambda made, job: (
            put(seconds=lambda it: it + 100.0 * (np.arange(len(it)) == 0))(made, job),
            told("compiler", compile_seconds=104.0)(made, job)), (ALL,)),
    Mistake("loses between its steps", f"speed.not_repaid {DISAGREE}", put(outside=35.0), (ALL,),
            True),
    Mistake("too few steps to time", "speed.unmeasured", of_everybody(shorter(8)), (ALL,),
            of_all=True),
    Mistake("more memory than allowed", "memory.increased", told("fields",
            peak_memory_bytes=700_000_000), (ALL,), False, LIMITED),
    Mistake("memory of a device", "memory.not_compared", told("fields", memory_of="device"),
            (ALL,), True, LIMITED),
)  # fmt: skip
_CASES = {f"{it.name}: {place}": (it, place) for it in MISTAKES for place in it.places}


def honest(mistake: Mistake, draw: Generator) -> Execution:
    """The execution before the mistake."""
    labels = draw.permutation(np.arange(ROWS) % 4)
    shared, errors = draw.standard_normal((ROWS, 4)), draw.standard_normal(ROWS)
    shared[np.arange(ROWS), labels] += 3.0
    half = {"half": np.where(np.arange(ROWS) % 2, "odd", "even")}
    slices = half if mistake.settings is IN_A_SLICE else {}
    columns = {"inputs": draw.integers(0, 2**50, ROWS), "slices": slices}
    examples = {}
    for seed in (1, 2, 3):
        of_seed = shared + 0.2 * draw.standard_normal(shared.shape)
        for arm in (BASELINE, CANDIDATE, OTHER):
            own = of_seed + 0.02 * draw.standard_normal(shared.shape)
            examples[arm, seed] = {
                "classes": classified(labels, softmax(own), **columns),
                "numbers": predicted(3.0 * shared[:, 0], 3.0 * shared[:, 0] + errors + own[:, 1]),
                "losses": lossy(np.exp(0.5 * own[:, 1])),
            }[mistake.kind]
    usual = {
        "classes": guards(accuracy=0.06, log_loss=0.2),
        "numbers": guards(mse=1.0),
        "losses": guards(loss=0.3),
    }[mistake.kind]
    made = execution(examples, draw, clock=Clock(), **{"metrics": usual, **mistake.settings})
    if mistake.settings is F1:
        for job in made.jobs.values():
            job.metrics["f1"] = 0.9 + 0.002 * draw.standard_normal()
    return made


def counted(name: str, draws: int) -> Counter[str]:
    """How often the mistake was named, and what went wrong where it was not."""
    (mistake, place), found = _CASES[name], Counter[str]()
    arm, *seeds = PLACES[place]
    for number in range(draws):
        made = honest(mistake, np.random.default_rng([int(digest(name)[:8], 16), number]))
        for job in list(made.of(arm, *seeds)):
            mistake.edit(made, job)
        verdict = made.judge()
        wrong = list(_wrong(mistake, arm, verdict))
        found["wrong" if wrong else "right"] += 1
        found.update(f"because {each}" for each in wrong)
        found.update(f"by {code}" for code in verdict.codes[arm])
    return found


def _wrong(mistake: Mistake, arm: str, verdict: Any) -> Iterator[str]:
    blamed = arm == BASELINE and not mistake.of_all
    named = {*verdict.codes[arm], *(verdict.codes[CANDIDATE] if mistake.of_all else ())}
    if not named & set(mistake.codes.split()):
        yield "not named"
    if verdict.sound == blamed:
        yield "baseline valid" if blamed else "baseline spoilt"
    own, other = verdict.outcomes[CANDIDATE], verdict.outcomes[OTHER]
    if own == "pass" or (own != "fail" and not (blamed or mistake.undecided or mistake.of_all)):
        yield f"candidate: {own}"
    if (other == "pass") == (blamed or mistake.of_all):
        yield f"other candidate: {other}"


def page(found: Mapping[str, Counts]) -> Page:
    """The table, and which mistakes are missed."""
    shown, missed = [], []
    for name, counts in found.items():
        wrong, codes = listed(counts, "because "), listed(counts, "by ")
        if wrong:
            missed.append(f"{name}: {wrong}; {codes or 'no code'}")
        mistake, place = _CASES[name]
        shown.append((mistake.name, place, f"{counts.get('right', 0)} of {counts['draws']}", codes))
    return Page(table(("Mistake", "Made in", "Named", "Codes (executions)"), shown), missed)


PROGRAM = Program("accidents", DRAWS, list(_CASES), counted, page)

if __name__ == "__main__":
    main(PROGRAM)
