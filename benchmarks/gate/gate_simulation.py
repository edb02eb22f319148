"""Simulated experiments with known truth, for the gate's calibration, and tables of rates.

A candidate is worse than the baseline by exactly `harm` margins in the population: over all seeds
and all examples that might have been drawn. What a single experiment shows is left to chance.

Every replicate scores the same examples. A latent score decides what happens to an example:

    latent[arm, seed, i] = level[arm] + seed_effect[arm, seed] + shared[i] + own[arm, seed, i]

`correlation` is the share of the examples' variance that is `shared`; `paired` is the share of the
seed effect's variance that the two arms have in common at the same seed. A prediction is right when
its latent score is positive; a loss is the exponential of its latent score, so that losses are
skewed as real ones are (log-normal, with a standard deviation of the logarithm of 1.5 unless the
design says otherwise). For ranking, the latent score ranks, positives are higher by the level, and
a harmed candidate ranks a share of the positives as if they were negatives: a few examples carry
all the harm. For the calibration error, confidences are the same in all replicates, the baseline is
right as often as it is confident, and a harmed candidate less often by the harm at every
confidence: that is where the sample's own bias hides it best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from compilegate.gate.settings import MetricGuard
from compilegate.job import Examples

FloatArray = npt.NDArray[np.float64]

Z = 1.959964
"""The normal quantile of a 95% interval."""
LOSS_SPREAD = 1.5
RARE_CLASSES = (0.70, 0.20, 0.08, 0.02)
"""The shares of the classes; a harmed candidate is worse in the last one only."""
RECALL = 0.95
LOSS = 0.20
AREA = 0.90
POSITIVES = 0.1
CONFIDENCE_LEVEL = 1.0
"""A latent level: confidences are (1 + ndtr(level + a normal score)) / 2, 0.88 on average."""
CLASS_AVERAGED = ("balanced_accuracy", "macro_f1")
LOWER_IS_BETTER = ("log_loss", "calibration_error")
MARGINS = {
    "accuracy": 0.01,
    "balanced_accuracy": 0.02,
    "macro_f1": 0.02,
    "auroc": 0.02,
    "log_loss": 0.03,
    "calibration_error": 0.02,
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
    """The correlation of the same example's latent scores in two replicates."""
    paired: float = 0.0
    harm: float = 0.0
    """How much worse the candidate truly is, in margins."""
    usual_margins: float = 1.0
    """The margin, as a multiple of the one in MARGINS."""
    loss_spread: float = LOSS_SPREAD
    """Standard deviation of the logarithm of the losses: how long their tail is."""
    positives: float = POSITIVES
    """Share of the examples that AUROC counts as positive."""
    harmed_share: float | None = None
    """Share of the examples that carry all the harm to the log loss; None: all losses grow."""

    def __post_init__(self) -> None:
        if self.metric == "calibration_error" and self.seed_sd > 0.0:
            raise ValueError("the calibration error is simulated without noise between seeds")

    @property
    def margin(self) -> float:
        return self.usual_margins * MARGINS[self.metric]

    @property
    def guard(self) -> MetricGuard:
        lower = self.metric in LOWER_IS_BETTER
        return MetricGuard(direction="lower" if lower else "higher", margin=self.margin)

    def true_value(self, *, candidate: bool) -> float:
        """The metric of an arm in the population."""
        harm = self.harm * self.margin if candidate else 0.0
        if self.metric == "calibration_error":
            return harm
        value = _population(self.metric, _level(self, candidate), _seed_effect_sd(self))
        if self.metric == "auroc":
            return value - harm
        return value if self.harmed_share is None else value + harm


def draw(design: Design, generator: np.random.Generator) -> tuple[list[Examples], list[Examples]]:
    """The replicates of the baseline and of the candidate, seed by seed."""
    labels = _labels(design, generator)
    shared = math.sqrt(design.correlation) * generator.standard_normal(design.examples)
    common = generator.standard_normal(design.seeds)
    confidence = _confidence(design, generator)
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
                    confidence=confidence,
                )
                for effect in effects
            ]
        )
    return arms[0], arms[1]


def harmed(design: Design, harm: float) -> Design:
    """The same design with a candidate that is `harm` margins worse."""
    return replace(design, harm=harm)


def _noise(design: Design, shared: FloatArray, generator: np.random.Generator) -> FloatArray:
    """(examples,) the shared part plus the replicate's own part."""
    own = generator.standard_normal(design.examples)
    return shared + math.sqrt(1.0 - design.correlation) * own


def _replicate(
    design: Design,
    level: FloatArray,
    labels: npt.NDArray[np.int64],
    *,
    noise: FloatArray,
    lost: npt.NDArray[np.bool_],
    confidence: FloatArray,
) -> Examples:
    ids = np.empty(0, dtype=np.str_)  # rows already meet, and metrics do not read ids
    if design.metric == "log_loss":
        losses = np.exp(level[0] + design.loss_spread * noise - design.loss_spread**2 / 2.0)
        if design.harmed_share is not None:
            losses = losses + lost * (design.harm * design.margin / design.harmed_share)
        return Examples(ids, labels, np.empty((design.examples, 0)), losses)
    if design.metric == "auroc":
        likelihood = ndtr(noise + level[0] * (labels * ~lost))
        scores = np.column_stack([1.0 - likelihood, likelihood])
        return Examples(ids, labels, scores, np.empty(0))
    if design.metric == "calibration_error":
        correct, rest = ndtr(noise) < confidence + level[0], 1.0 - confidence
    else:
        correct, rest = level[labels] + noise > 0.0, np.zeros(design.examples)
    classes = len(_shares(design))
    predictions = np.where(correct, labels, (labels + 1) % classes)
    scores = np.zeros((design.examples, classes))
    scores[np.arange(design.examples), (predictions + 1) % classes] = rest
    scores[np.arange(design.examples), predictions] = 1.0 - rest
    return Examples(ids, labels, scores, np.empty(0))


def _confidence(design: Design, generator: np.random.Generator) -> FloatArray:
    """(examples,) confidence in the predicted class, for the calibration error."""
    if design.metric != "calibration_error":
        return np.empty(0)
    sureness = generator.standard_normal(design.examples)
    confidence: FloatArray = (1.0 + ndtr(CONFIDENCE_LEVEL + sureness)) / 2.0
    return confidence


def _labels(design: Design, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    shares = _shares(design)
    return generator.choice(len(shares), design.examples, p=shares)


def _shares(design: Design) -> Sequence[float]:
    if design.metric == "auroc":
        return (1.0 - design.positives, design.positives)
    return RARE_CLASSES if design.metric in CLASS_AVERAGED else (0.5, 0.5)


def _lost_share(design: Design, candidate: bool) -> float:
    """The share of the examples, or of the positives, that carry all the harm.

    A positive that is ranked as a negative loses the area that it had above one half.
    """
    if not candidate or design.harm == 0.0:
        return 0.0
    if design.metric != "auroc":
        return design.harmed_share or 0.0
    return design.harm * design.margin / (harmed(design, 0.0).true_value(candidate=False) - 0.5)


def _level(design: Design, candidate: bool) -> FloatArray:
    """(classes,) the latent levels that give the arm its true value."""
    by_level = candidate and design.harmed_share is None
    harm = design.harm * design.margin if by_level else 0.0
    return _solved_level(design.metric, harm, _seed_effect_sd(design))


@cache
def _solved_level(metric: str, harm: float, seed_effect_sd: float) -> FloatArray:
    spread = math.sqrt(1.0 + seed_effect_sd**2)
    if metric == "log_loss":
        return np.array([math.log(LOSS + harm) - seed_effect_sd**2 / 2.0])
    if metric == "calibration_error":
        return np.array([-harm])
    if metric == "auroc":  # harmed by losing positives, not by its level
        return np.array([ndtri(AREA) * math.sqrt(2.0 + seed_effect_sd**2)])
    classes = len(RARE_CLASSES) if metric in CLASS_AVERAGED else 2
    level = np.full(classes, ndtri(RECALL) * spread)
    if harm == 0.0:
        return level
    target = _population(metric, level, seed_effect_sd) - harm
    # Accuracy is harmed in all classes alike, the class-averaged metrics in the rarest only.
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
    return np.exp(level[:, 0])


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


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95% interval of a proportion (Wilson, JASA 1927)."""
    share, spread = successes / trials, Z**2 / trials
    middle = share + spread / 2.0
    half = Z * math.sqrt(share * (1.0 - share) / trials + spread / (4.0 * trials))
    return max((middle - half) / (1.0 + spread), 0.0), min((middle + half) / (1.0 + spread), 1.0)


def rate(successes: int, trials: int) -> str:
    """The rate in per cent, with its interval."""
    low, high = wilson(successes, trials)
    return f"{100 * successes / trials:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
