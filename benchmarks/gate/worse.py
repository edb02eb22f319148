"""Count how often a candidate passes that is truly worse, or slower, than what is allowed.

Each candidate is worse by exactly its margin in the population of seeds and rows, or exactly as
fast as `min_speedup`, so every pass is false: 5% are promised. 62 of 1,000 allow for chance: one
kind in twenty that keeps the promise has more. Such a kind is judged five times as often, and 276
of 5,000 allow for as much. Harm that strikes some seeds is there in every execution: those in which
no seed diverged show nothing of it, and are drawn again. Two exceptions are shown: harm in fewer
than 1 of 500 rows, and harm of which a few seeds have most (log-normal over seeds), which a few
seeds need not show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import binom

from benchmarks.gate.proof import FULL, Counts, Program, list_counts, most
from compilegate.job.evidence import Examples

from benchmarks.gate.simulated import (  # isort: skip
    BASELINE, CANDIDATE, Array, Clock, Execution, Generator, class_examples, codes_against,
    execution, guards, loss_examples, number_examples,
)  # fmt: skip

PASSES, FROM_IDS = 62 / 1000, 80 / 1000
PROMISED = 0.05
Shift = Callable[[Generator, int], Array]
RARE = np.array([0.70, 0.20, 0.08, 0.02])
"""The shares of the classes, where metrics of classes are guarded."""
RIGHT = 0.92
"""The share of right answers of a model that lost none."""


@dataclass(frozen=True)
class Kind:
    """One way to be worse."""

    name: str
    draw: Callable[[Kind, Generator], Iterator[Examples]]
    """Draws what all models share, then each model's examples by its harm."""
    metric: str = "accuracy"
    margin: float = 0.03
    seeds: int = 3
    rows: int = 1000
    limit: float | None = PASSES  # the share that may pass; None: it is shown
    harm: float = 1.0  # of the candidate, in margins
    shift: Shift = lambda random, seeds: np.ones(seeds)
    """Draws each seed's share of the harm: one on average."""
    clock: Clock = field(default_factory=Clock)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def harms(self, random: Generator) -> Array:
        """(2 x seeds,) of the baseline's models and of the candidate's, in margins."""
        return np.append(np.zeros(self.seeds), self.harm * self.shift(random, self.seeds))

    def execution(self, random: Generator) -> Execution:
        """One execution of the kind."""
        guard = guards(self.metric == "mse", **{self.metric: self.margin})
        models = product((BASELINE, CANDIDATE), range(1, self.seeds + 1))
        examples = dict(zip(models, self.draw(self, random), strict=True))
        return execution(examples, random, guard, self.clock, **self.settings)


def answers(
    random: Generator, labels: Array, right: Array, classes: int, sure: Any = 0.8, **more: Any
) -> Examples:
    """Examples that are right where `right` is true; elsewhere the next class is predicted."""
    rows, sure = np.arange(len(labels)), sure + 0.002 * random.standard_normal(len(labels))
    scores = np.repeat(((1.0 - sure) / (classes - 1))[:, None], classes, axis=1)
    scores[rows, np.where(right, labels, (labels + 1) % classes)] = sure
    return class_examples(labels, scores, **more)


def fewer_right(kind: Kind, random: Generator) -> Iterator[Examples]:
    """Lose a share of right answers: of all, or for metrics of classes of the rarest class."""
    of_classes = kind.metric != "accuracy"
    labels = random.choice(4, kind.rows, p=RARE if of_classes else np.full(4, 0.25))
    luck = random.random(kind.rows)
    lost, harmed = share_lost(kind.metric, kind.margin), (labels == 3) | (not of_classes)
    for harm in kind.harms(random):
        least = RIGHT - (lost * harm + 0.003 * random.standard_normal()) * harmed
        seen = (luck + 0.02 * random.standard_normal(kind.rows)) % 1.0
        yield answers(random, labels, seen < least, 4)


@cache
def share_lost(metric: str, margin: float) -> float:
    """The share of right answers (in metrics of classes: of the rarest) that makes the margin."""
    if metric != "macro_f1":
        return 4.0 * margin if metric == "balanced_accuracy" else margin
    lost = np.linspace(0.0, RIGHT, 5000)
    hits = RARE * (RIGHT - lost[:, None] * (np.arange(4) == 3))
    f1 = np.mean(2.0 * hits / (RARE + hits + np.roll(RARE - hits, 1, axis=1)), axis=1)
    return float(np.interp(margin, f1[0] - f1, lost))


def more_loss(kind: Kind, random: Generator, rare: bool = False) -> Iterator[Examples]:
    """Raise losses: in all rows, or in a few alone."""
    shared, few = random.lognormal(-1.5, 0.8, kind.rows), random.random(kind.rows) < 0.002
    of_rows = few / 0.002 if rare else random.exponential(1.0, kind.rows)
    for harm in kind.harms(random):
        noise = 1.0 + 0.01 * random.standard_normal()
        losses = noise * shared * random.lognormal(0.0, 0.05, kind.rows)
        yield loss_examples(losses + kind.margin * harm * of_rows)


def larger_errors(kind: Kind, random: Generator) -> Iterator[Examples]:
    """Raise squared errors by the margin, a share of them."""
    targets, errors = random.normal(0.0, 3.0, kind.rows), random.standard_normal(kind.rows)
    for harm in kind.harms(random):
        own = errors + 0.15 * random.standard_normal(kind.rows)
        times = (1.0 + harm * kind.margin) ** 0.5 * random.lognormal(0.0, 0.005)
        yield number_examples(targets, targets + times * own)


def lost_positives(kind: Kind, random: Generator) -> Iterator[Examples]:
    """Lose some of an area of 0.9 under the curve: positives fall below all rows."""
    labels = (random.random(kind.rows) < 0.1).astype(np.int64)
    latent = random.standard_normal(kind.rows) + 1.8124 * labels
    lost = (labels == 1) & (random.random(kind.rows) < kind.margin / 0.9)
    for harm in kind.harms(random):
        seen = latent + 0.05 * random.standard_normal(kind.rows)
        seen = np.where(lost & (harm > 0.0), -6.0 + seen / 10.0, seen)
        second = expit(seen - 0.9)
        yield class_examples(labels, np.stack([1.0 - second, second], axis=1))


def too_sure(kind: Kind, random: Generator) -> Iterator[Examples]:
    """Make answers right less often than the model is confident."""
    sure, luck = random.uniform(0.6, 0.99, kind.rows), random.random(kind.rows)
    labels = random.integers(0, 2, kind.rows)
    for harm in kind.harms(random):
        seen = (luck + 0.02 * random.standard_normal(kind.rows)) % 1.0
        yield answers(random, labels, seen < sure - kind.margin * harm, 2, sure)


def clusters(kind: Kind, random: Generator, adjacent: bool = False) -> Iterator[Examples]:
    """Lose ten rows of a patient together. Groups are declared, or ids name the patient."""
    order = np.arange(kind.rows) if adjacent else random.permutation(kind.rows)
    patient, image = order // 10, order % 10
    chances = [[RIGHT], [kind.margin / RIGHT / 0.98]]
    easy, lost = (random.random((2, kind.rows)) < chances)[:, patient]
    labels = random.integers(0, 4, kind.rows)
    columns: dict[str, Any] = {"slices": {"patient": patient.astype(str)}}
    if not kind.settings:
        ids = [f"patient-{it}_img{of}" for it, of in zip(patient, image, strict=True)]
        columns = {"ids": np.array(ids)}
    for harm in kind.harms(random):
        right = (easy & ~(lost & (harm > 0.0))) ^ (random.random(kind.rows) < 0.01)
        yield answers(random, labels, right, 4, **columns)


def diverging(share: float, *, exactly: bool) -> Shift:
    """This share of the seeds has all of the harm."""

    def shift(random: Generator, seeds: int) -> Array:
        found = np.arange(seeds) < round(share * seeds)
        while not exactly and not (found := random.random(seeds) < share).any():
            pass
        return random.permutation(found) / share

    return shift


def log_normal(sigma: float) -> Shift:
    """A few seeds have most of the harm."""
    return lambda random, seeds: random.lognormal(-(sigma**2) / 2.0, sigma, seeds)


SLOW = {"draw": more_loss, "metric": "loss", "margin": 9.0, "rows": 200, "harm": 0.0}
HARMS = (
    Kind("log loss", more_loss, "loss"),
    Kind("squared error, relative", larger_errors, "mse", 0.1, rows=2000),
    Kind("balanced accuracy", fewer_right, "balanced_accuracy", rows=2000),
    Kind("macro F1", fewer_right, "macro_f1", rows=2000),
    Kind("area under the curve", lost_positives, "auroc", 0.02, rows=2000),
    Kind("calibration error", too_sure, "calibration_error", rows=2000),
    Kind("declared clusters", clusters, settings={"groups": "patient"}),
    Kind("clusters in shuffled rows, by ids", clusters, limit=FROM_IDS),
    Kind("clusters of adjacent rows, by ids", partial(clusters, adjacent=True), limit=FROM_IDS),
    Kind("as fast as asked, jobs alone", clock=Clock(speedup=1.2, pairs=0, spread=0.02), **SLOW),
    Kind("as fast as asked, blocks", clock=Clock(speedup=1.2, spread=0.02), **SLOW),
    Kind("as fast as asked, stalls", clock=Clock(speedup=1.2, pairs=0, stalls=0.3), **SLOW),
)


def _kinds() -> Iterator[Kind]:
    for rows, n in product((200, 1000, 5000), (2, 3, 5, 10)):
        yield Kind(f"accuracy, {rows} rows, {n} seeds", fewer_right, seeds=n, rows=rows)
    for n, harm in product((3, 10), HARMS):
        yield replace(harm, name=f"{harm.name}, {n} seeds", seeds=n)
    for share, n in ((0.1, 5), (0.1, 10), (0.2, 3), (0.2, 5), (0.2, 10)):
        for exactly in (False, True) if share * n >= 1.0 else (False,):
            name = f"{share:.0%} of {n} seeds lose 40 points, {'' if exactly else 'not '}exactly"
            shift = diverging(share, exactly=exactly)
            yield Kind(name, fewer_right, "accuracy", 0.4 * share, n, 500, shift=shift)
    for sigma, n in product((0.5, 1.5), (3, 10)):
        name, shift = f"log-normal harm of {n} seeds, sigma {sigma}", log_normal(sigma)
        yield Kind(name, more_loss, "loss", 0.03, n, 500, None, shift=shift)
    for rows in (500, 2000):
        draw = partial(more_loss, rare=True)
        yield Kind(f"harm in 0.2% of {rows} rows", draw, "loss", rows=rows, limit=None)


KINDS = {kind.name: kind for kind in _kinds()}


def outcomes(kind: Kind, random: Generator, _: int) -> Iterator[str]:
    """The outcome of one execution of the kind, and the codes against the candidate."""
    (candidate,) = kind.execution(random).judge().candidates
    yield str(candidate.outcome)
    yield from (f"by {code}" for code in codes_against(candidate))


def _most(limit: float, draws: int) -> int:
    """The largest number of passes that allows for no more chance than so many of `FULL`."""
    if limit == PASSES and draws > FULL:
        return int(binom.ppf(1.0 - PROMISED, draws, PROMISED))
    return most(limit, draws)


def _is_doubtful(kind: Kind, counts: Counts) -> bool:
    return kind.limit is not None and counts.get("pass", 0) > most(kind.limit, FULL)


def table(found: Mapping[str, Counts]) -> tuple[list[list[object]], list[str]]:
    """The rows, and the limits that are missed."""
    rows, missed = [], []
    for name, counts in found.items():
        passed, draws, limit = counts.get("pass", 0), counts["draws"], KINDS[name].limit
        if limit is not None and passed > _most(limit, draws):
            missed.append(f"{name}: {passed} of {draws} passed")
        allowed = "no limit" if limit is None else _most(limit, draws)
        others = counts.get("inconclusive", 0), counts.get("fail", 0)
        rows.append([name, draws, passed, allowed, *others, list_counts(counts)])
    return rows, missed


COLUMNS = ("kind", "executions", "passed", "limit", "undecided", "refused", "by (executions)")
PROGRAM = Program(FULL, KINDS, outcomes, COLUMNS, table, _is_doubtful)
