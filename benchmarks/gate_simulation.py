"""Simulated experiments with known truth: what the gate's calibration is measured on.

A candidate is made worse than the baseline by exactly `harm` margins, in the population: over all
seeds and all examples that might have been drawn. What one experiment then shows is left to chance.

Every replicate scores the same examples. A latent score decides what happens to an example:

    latent[arm, seed, i] = level[arm] + seed_effect[arm, seed] + shared[i] + own[arm, seed, i]

`correlation` is the share of the examples' variance that is `shared`; `paired` is the share of the
seed effect's variance that the two arms have in common at the same seed. A prediction is right when
its latent score is positive; a loss is the exponential of its latent score, so that losses are
skewed as real ones are (log-normal, standard deviation 1.5 on the logarithm). For ranking, the
latent score is what ranks, positives lie higher by the level, and a harmed candidate ranks a share
of the positives as if they were negatives: a few examples carry all the harm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from pipelines.gate.config import MetricGuard
from training.evidence import Examples

FloatArray = npt.NDArray[np.float64]

LOSS_SPREAD = 1.5
RARE_CLASSES = (0.70, 0.20, 0.08, 0.02)
"""Shares of the classes; a harmed candidate is worse in the last one only."""
RECALL = 0.95
LOSS = 0.20
AREA = 0.90
POSITIVES = 0.1
MARGINS = {
    "accuracy": 0.01,
    "balanced_accuracy": 0.02,
    "macro_f1": 0.02,
    "auroc": 0.02,
    "log_loss": 0.03,
}
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)


@dataclass(frozen=True)
class Design:
    """One kind of experiment."""

    metric: str
    seeds: int
    examples: int
    seed_sd: float
    """Standard deviation of the metric over the seeds of one arm, in the metric's units."""
    correlation: float = 0.8
    """Of the same example's latent scores in two replicates."""
    paired: float = 0.0
    harm: float = 0.0
    """How much worse the candidate truly is, in margins."""

    @property
    def margin(self) -> float:
        return MARGINS[self.metric]

    @property
    def guard(self) -> MetricGuard:
        lower = self.metric == "log_loss"
        return MetricGuard(direction="lower" if lower else "higher", margin=self.margin)

    def true_value(self, *, candidate: bool) -> float:
        """The metric of an arm in the population."""
        lost = self.harm * self.margin if candidate and self.metric == "auroc" else 0.0
        return -lost + _population(self.metric, _level(self, candidate), _seed_effect_sd(self))


def draw(design: Design, generator: np.random.Generator) -> tuple[list[Examples], list[Examples]]:
    """The replicates of the baseline and of the candidate, seed by seed."""
    labels = _labels(design, generator)
    shared = math.sqrt(design.correlation) * generator.standard_normal(design.examples)
    common = generator.standard_normal(design.seeds)
    arms: list[list[Examples]] = []
    for candidate in (False, True):
        own = generator.standard_normal(design.seeds)
        effects = math.sqrt(design.paired) * common + math.sqrt(1.0 - design.paired) * own
        level, seed_effect_sd = _level(design, candidate), _seed_effect_sd(design)
        lost = generator.random(design.examples) < _lost_share(design, candidate)
        arms.append(
            [
                _replicate(
                    design,
                    level + seed_effect_sd * effect,
                    labels,
                    noise=_noise(design, shared, generator),
                    lost=lost,
                )
                for effect in effects
            ]
        )
    return arms[0], arms[1]


def harmed(design: Design, harm: float) -> Design:
    """The same design with a candidate that is `harm` margins worse."""
    return replace(design, harm=harm)


def _noise(design: Design, shared: FloatArray, generator: np.random.Generator) -> FloatArray:
    """(examples,) what is shared and what is the replicate's own."""
    own = generator.standard_normal(design.examples)
    return shared + math.sqrt(1.0 - design.correlation) * own


def _replicate(
    design: Design,
    level: FloatArray,
    labels: npt.NDArray[np.int64],
    *,
    noise: FloatArray,
    lost: npt.NDArray[np.bool_],
) -> Examples:
    ids = np.empty(0, dtype=np.str_)  # rows already meet, and metrics do not read ids
    if design.metric == "log_loss":
        losses = np.exp(level[0] + LOSS_SPREAD * noise)
        return Examples(ids, labels, np.empty((design.examples, 0)), losses)
    if design.metric == "auroc":
        likelihood = ndtr(noise + level[0] * (labels * ~lost))
        scores = np.column_stack([1.0 - likelihood, likelihood])
        return Examples(ids, labels, scores, np.empty(0))
    correct = level[labels] + noise > 0.0
    classes = len(_shares(design.metric))
    predictions = np.where(correct, labels, (labels + 1) % classes)
    scores = np.zeros((design.examples, classes))
    scores[np.arange(design.examples), predictions] = 1.0
    return Examples(ids, labels, scores, np.empty(0))


def _labels(design: Design, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    shares = _shares(design.metric)
    return generator.choice(len(shares), design.examples, p=shares)


def _shares(metric: str) -> Sequence[float]:
    if metric == "auroc":
        return (1.0 - POSITIVES, POSITIVES)
    return RARE_CLASSES if metric in ("balanced_accuracy", "macro_f1") else (0.5, 0.5)


def _lost_share(design: Design, candidate: bool) -> float:
    """The share of positives that a harmed candidate ranks as negatives; each costs an area of
    what it had above one half."""
    if design.metric != "auroc" or not candidate:
        return 0.0
    return design.harm * design.margin / (harmed(design, 0.0).true_value(candidate=False) - 0.5)


def _level(design: Design, candidate: bool) -> FloatArray:
    """(classes,) latent levels that give the arm its true value."""
    harm = design.harm * design.margin if candidate else 0.0
    return _solved_level(design.metric, harm, _seed_effect_sd(design))


@cache
def _solved_level(metric: str, harm: float, seed_effect_sd: float) -> FloatArray:
    spread = math.sqrt(1.0 + seed_effect_sd**2)
    if metric == "log_loss":
        offset = (LOSS_SPREAD**2 + seed_effect_sd**2) / 2.0
        return np.array([math.log(LOSS + harm) - offset])
    if metric == "auroc":  # harmed by losing positives, not by its level
        return np.array([ndtri(AREA) * math.sqrt(2.0 + seed_effect_sd**2)])
    level = np.full(len(_shares(metric)), ndtri(RECALL) * spread)
    if harm == 0.0:
        return level
    target = _population(metric, level, seed_effect_sd) - harm
    # Accuracy has every class alike; the class-averaged metrics are harmed in the rarest only.
    moved = slice(None) if metric == "accuracy" else slice(-1, None)

    def surplus(shift: float) -> float:
        shifted = level.copy()
        shifted[moved] -= shift
        return _population(metric, shifted, seed_effect_sd) - target

    level[moved] -= brentq(surplus, 0.0, 6.0)
    return level


@cache
def _solved_seed_effect_sd(metric: str, seed_sd: float) -> float:
    """The latent standard deviation over seeds that moves the metric by `seed_sd`."""
    if seed_sd == 0.0:
        return 0.0

    def surplus(seed_effect_sd: float) -> float:
        values = _by_seed_effect(metric, _solved_level(metric, 0.0, seed_effect_sd), seed_effect_sd)
        mean = np.average(values, weights=_WEIGHTS)
        return math.sqrt(np.average((values - mean) ** 2, weights=_WEIGHTS)) - seed_sd

    return float(brentq(surplus, 1e-6, 1.0))


def _seed_effect_sd(design: Design) -> float:
    return _solved_seed_effect_sd(design.metric, design.seed_sd)


def _population(metric: str, level: FloatArray, seed_effect_sd: float) -> float:
    """Mean over seeds of the metric over all examples."""
    return float(np.average(_by_seed_effect(metric, level, seed_effect_sd), weights=_WEIGHTS))


def _by_seed_effect(metric: str, level: FloatArray, seed_effect_sd: float) -> FloatArray:
    """The metric over all examples at each node of the seed effect."""
    of_class = level[None, :] + seed_effect_sd * _NODES[:, None]
    return _METRICS[metric](of_class)


def _log_loss(level: FloatArray) -> FloatArray:
    return np.exp(level[:, 0] + LOSS_SPREAD**2 / 2.0)


def _accuracy(level: FloatArray) -> FloatArray:
    return ndtr(level).mean(axis=1)


def _auroc(level: FloatArray) -> FloatArray:
    return ndtr(level[:, 0] / math.sqrt(2.0))


def _macro_f1(level: FloatArray) -> FloatArray:
    shares, recall = np.array(RARE_CLASSES), ndtr(level)
    hits = shares * recall
    mistaken = np.roll(shares * (1.0 - recall), 1, axis=1)  # predicted as the next class
    return (2.0 * hits / (shares + hits + mistaken)).mean(axis=1)


_METRICS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "accuracy": _accuracy,
    "balanced_accuracy": _accuracy,  # mean recall over classes of equal weight: the same formula
    "macro_f1": _macro_f1,
    "auroc": _auroc,
    "log_loss": _log_loss,
}
