"""How often does a candidate pass that is truly worse, or slower, than what is allowed?

    python benchmarks/gate/worse.py [--draws 1000] [--processes 2] [--anew] [PART OF A NAME]

Each candidate is worse by exactly its margin in the population of seeds and rows, or exactly as
fast as `min_speedup`, so every pass is false: 5% are promised, 62 of 1,000 allow for chance. Harm
that strikes some seeds is there in every execution: those in which no seed diverged show nothing of
it, and are drawn again. Two exceptions are shown: harm in fewer than 1 of 500 rows, and harm of
which a few seeds have most (log-normal over seeds), which a few seeds need not show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from results import (  # isort: skip
    FULL, Counts, Page, Program, listed, main, most, table,
)  # fmt: skip
from simulated import (  # isort: skip
    BASELINE, CANDIDATE, Array, Clock, Generator, classified, digest, execution, guards, lossy,
    predicted,
)  # fmt: skip
from compilegate.gate.settings import MetricGuard
from compilegate.job.evidence import Examples

PASSES, FROM_IDS = 62 / 1000, 80 / 1000
Shift = Callable[[Generator, int], Array]
Make = Callable[[float, int], Examples]
"""The examples of an arm with this harm in margins (0 or 1), and of a seed."""


@dataclass(frozen=True)
class Kind:
    """One way to be worse."""

    name: str
    draw: Callable[[Kind, Generator], Make]  # draws what all models share
    metric: str = "accuracy"
    margin: float = 0.03
    seeds: int = 3
    rows: int = 1000
    limit: float | None = PASSES  # the share that may pass; None: it is shown
    clock: Clock = field(default_factory=Clock)
    shift: Shift = lambda random, seeds: np.ones(seeds)
    """For the random numbers and how many seeds, each one's share of the harm: one on average."""
    settings: Mapping[str, Any] = field(default_factory=dict)


def answers(random: Generator, labels: Array, right: Array, classes: int, **more: Any) -> Examples:
    """Right where `right` is true; else the next class is predicted."""
    rows, sure = np.arange(len(labels)), more.pop("sure", 0.8)
    sure = sure + 0.002 * random.standard_normal(len(labels))
    scores = np.repeat(((1.0 - sure) / (classes - 1))[:, None], classes, axis=1)
    scores[rows, np.where(right, labels, (labels + 1) % classes)] = sure
    return classified(labels, scores, **more)


def fewer_right(kind: Kind, random: Generator) -> Make:
    """A share of right answers is lost: of all, or for metrics of classes of the rarest."""
    of_classes = kind.metric != "accuracy"
    shares = np.array([0.70, 0.20, 0.08, 0.02]) if of_classes else np.full(4, 0.25)
    labels, luck = random.choice(4, kind.rows, p=shares), random.random(kind.rows)
    lost = {"balanced_accuracy": 4.0 * kind.margin, "macro_f1": recall_lost(kind.margin, shares)}
    own = lost.get(kind.metric, kind.margin) * kind.shift(random, kind.seeds)
    harmed = (labels == 3) | (not of_classes)

    def make(worse: float, seed: int) -> Examples:
        least = 0.92 - (own[seed] * worse + 0.003 * random.standard_normal()) * harmed
        seen = (luck + 0.02 * random.standard_normal(kind.rows)) % 1.0
        return answers(random, labels, seen < least, 4)

    return make


def recall_lost(margin: float, shares: Array) -> float:
    """What the rarest class must lose of its recall, for macro F1 to lose the margin."""

    def value(lost: float) -> float:
        hits = shares * (0.92 - lost * (np.arange(4) == 3))
        return float(np.mean(2.0 * hits / (shares + hits + np.roll(shares - hits, 1))))

    lost = np.linspace(0.0, 0.92, 5000)
    return float(np.interp(margin, [value(0.0) - value(each) for each in lost], lost))


def more_loss(kind: Kind, random: Generator) -> Make:
    """Losses grow: in all rows, or in a few alone."""
    shared, few = random.lognormal(-1.5, 0.8, kind.rows), random.random(kind.rows) < 0.002
    of_rows = few / 0.002 if kind.name.startswith("harm in") else random.exponential(1.0, kind.rows)
    own = kind.margin * kind.shift(random, kind.seeds)

    def make(worse: float, seed: int) -> Examples:
        noise = 1.0 + 0.01 * random.standard_normal()
        losses = noise * shared * random.lognormal(0.0, 0.05, kind.rows)
        return lossy(losses + worse * own[seed] * of_rows)

    return make


def larger_errors(kind: Kind, random: Generator) -> Make:
    """Squared errors grow by the margin, a share of them."""
    targets, errors = random.normal(0.0, 3.0, kind.rows), random.standard_normal(kind.rows)

    def make(worse: float, seed: int) -> Examples:
        own = errors + 0.15 * random.standard_normal(kind.rows)
        times = (1.0 + worse * kind.margin) ** 0.5 * random.lognormal(0.0, 0.005)
        return predicted(targets, targets + times * own)

    return make


def lost_positives(kind: Kind, random: Generator) -> Make:
    """For an area of 0.9 under the curve, some is lost: positives fall below all rows."""
    labels = (random.random(kind.rows) < 0.1).astype(np.int64)
    latent = random.standard_normal(kind.rows) + 1.8124 * labels
    lost = (labels == 1) & (random.random(kind.rows) < kind.margin / 0.9)

    def make(worse: float, seed: int) -> Examples:
        seen = latent + 0.05 * random.standard_normal(kind.rows)
        seen = np.where(lost & (worse > 0.0), -6.0 + seen / 10.0, seen)
        second = 1.0 / (1.0 + np.exp(0.9 - seen))
        return classified(labels, np.stack([1.0 - second, second], axis=1))

    return make


def too_sure(kind: Kind, random: Generator) -> Make:
    """Answers are right less often than the model is sure."""
    sure, luck = random.uniform(0.6, 0.99, kind.rows), random.random(kind.rows)
    labels = random.integers(0, 2, kind.rows)

    def make(worse: float, seed: int) -> Examples:
        seen = (luck + 0.02 * random.standard_normal(kind.rows)) % 1.0
        return answers(random, labels, seen < sure - kind.margin * worse, 2, sure=sure)

    return make


def clusters(kind: Kind, random: Generator) -> Make:
    """Ten rows of a patient are lost together. Groups are declared, or ids have the patient."""
    adjacent, declared = "adjacent" in kind.name, bool(kind.settings)
    order = np.arange(kind.rows) if adjacent else random.permutation(kind.rows)
    patient, image = order // 10, order % 10
    ids = [f"patient-{it}_img{of}" for it, of in zip(patient, image, strict=True)]
    easy, lost = (random.random((2, kind.rows)) < [[0.92], [kind.margin / 0.92 / 0.98]])[:, patient]
    labels = random.integers(0, 4, kind.rows)
    told = {"slices": {"patient": patient.astype(str)}} if declared else {"ids": np.array(ids)}

    def make(worse: float, seed: int) -> Examples:
        right = (easy & ~(lost & (worse > 0.0))) ^ (random.random(kind.rows) < 0.01)
        return answers(random, labels, right, 4, **told)

    return make


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


def kinds() -> list[Kind]:
    """Every row of the table."""
    jobs, blocks = Clock(speedup=1.2, pairs=0, spread=0.02), Clock(speedup=1.2, spread=0.02)
    stalling = Clock(speedup=1.2, pairs=0, stalls=0.3)
    found = [
        Kind(f"accuracy, {rows} rows, {seeds} seeds", fewer_right, seeds=seeds, rows=rows)
        for rows, seeds in product((200, 1000, 5000), (2, 3, 5, 10))
    ]
    for n in (2, 3, 5, 10):
        groups, end = {"groups": "patient"}, f", {n} seeds"
        found += [
            Kind("log loss" + end, more_loss, "loss", 0.03, n),
            Kind("squared error, relative" + end, larger_errors, "mse", 0.1, n, 2000),
            Kind("balanced accuracy" + end, fewer_right, "balanced_accuracy", 0.03, n, 2000),
            Kind("macro F1" + end, fewer_right, "macro_f1", 0.03, n, 2000),
            Kind("area under the curve" + end, lost_positives, "auroc", 0.02, n, 2000),
            Kind("calibration error" + end, too_sure, "calibration_error", 0.03, n, 2000),
            Kind("declared clusters" + end, clusters, seeds=n, settings=groups),
            Kind("clusters in shuffled rows, by ids" + end, clusters, seeds=n, limit=FROM_IDS),
            Kind("clusters of adjacent rows, by ids" + end, clusters, seeds=n, limit=FROM_IDS),
            Kind("as fast as asked, jobs alone" + end, more_loss, "loss", 9.0, n, 200, clock=jobs),
            Kind("as fast as asked, blocks" + end, more_loss, "loss", 9.0, n, 200, clock=blocks),
            Kind("as fast as asked, stalls" + end, more_loss, "loss", 9.0, n, 200, clock=stalling),
        ]
    for share, n in ((0.1, 5), (0.1, 10), (0.2, 3), (0.2, 5), (0.2, 10)):
        for exactly in (False, True) if share * n >= 1.0 else (False,):
            name = f"{share:.0%} of {n} seeds lose 40 points, {'' if exactly else 'not '}exactly"
            shift = diverging(share, exactly=exactly)
            found.append(Kind(name, fewer_right, "accuracy", 0.4 * share, n, 500, shift=shift))
    for sigma, n in product((0.5, 1.5), (3, 5, 10)):
        name = f"log-normal harm of {n} seeds, sigma {sigma}"
        shift = log_normal(sigma)
        found.append(Kind(name, more_loss, "loss", 0.03, n, 500, None, shift=shift))
    rare = "harm in 0.2% of {} rows"
    return found + [
        Kind(rare.format(rows), more_loss, "loss", 0.03, 3, rows, None) for rows in (500, 2000)
    ]


_BY_NAME = {kind.name: kind for kind in kinds()}


def counted(name: str, draws: int) -> Counter[str]:
    """The outcomes of so many executions of the kind."""
    kind, found = _BY_NAME[name], Counter[str]()
    guard = guards(**{kind.metric: kind.margin})
    if kind.metric == "mse":
        guard = {"mse": MetricGuard(direction="lower", margin=kind.margin, relative=True)}
    slow, arms = kind.clock != Clock(), list(product((BASELINE, CANDIDATE), range(kind.seeds)))
    for number in range(draws):
        random = np.random.default_rng([int(digest(name)[:8], 16), number])
        make = kind.draw(kind, random)
        rows = {(arm, n + 1): make(float(arm != BASELINE and not slow), n) for arm, n in arms}
        verdict = execution(rows, random, guard, kind.clock, **kind.settings).judge()
        found[verdict.outcomes[CANDIDATE]] += 1
        found.update(f"by {code}" for code in verdict.codes[CANDIDATE])
    return found


def page(found: Mapping[str, Counts]) -> Page:
    """The table, and which figures are missed."""
    rows, missed = [], []
    for name, counts in found.items():
        passed, draws, limit = counts.get("pass", 0), counts["draws"], _BY_NAME[name].limit
        if limit is not None and passed > most(limit, draws):
            missed.append(f"{name}: {passed} of {draws} passed")
        told = "shown alone" if limit is None else f"{limit:.1%}"
        outcomes = counts.get("inconclusive", 0), counts.get("fail", 0)
        rows.append((name, draws, passed, told, *outcomes, listed(counts, "by ")))
    header = ("Kind", "Executions", "Passed", "Limit", "Undecided", "Refused", "By (executions)")
    return Page(table(header, rows), missed)


PROGRAM = Program("worse", FULL, list(_BY_NAME), counted, page)

if __name__ == "__main__":
    main(PROGRAM)
