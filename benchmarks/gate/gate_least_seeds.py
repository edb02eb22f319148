"""What few seeds can show of harm that differs from seed to seed, by the gate and by any rule.

    .venv/bin/python benchmarks/gate/gate_least_seeds.py [--experiments 2000]

Harm is log-normal over seeds, with a sigma of 1.5 and a mean of one margin; the seeds of both arms
differ by chance as well. The most powerful test of such harm against none is the likelihood ratio's
(Neyman & Pearson, 1933), told of the noise and of the distribution, which no gate is. The last
column has what even that one costs: the equal candidates that it refuses when it lets five of 100
harmful ones through. Takes a minute or two on one core.
"""

from __future__ import annotations

import argparse

import numpy as np
import numpy.typing as npt
from compilegate.gate.statistics.lopsided import harm_tail
from gate_simulation import rate, table
from scipy.stats import norm

from compilegate.gate.statistics import crossed_mean

FloatArray = npt.NDArray[np.float64]
Generator = np.random.Generator

SIGMA = 1.5
MEAN = -(SIGMA**2) / 2.0
CONFIDENCE = 0.95
NODES = 400
OF_THE_BEST = 20_000
"""Experiments in which the best test is tried."""
ROWS = 4
SEEDS = (3, 5, 10)
NOISES = (0.03, 0.06, 0.1, 0.2, 0.4)


def of_the_best(generator: Generator, seeds: int, noise: float, count: int) -> float:
    """The share of equal candidates that the most powerful test refuses."""
    spread = noise * np.sqrt(2.0)
    shape = (count, seeds)
    equal = spread * generator.standard_normal(shape)
    harmful = generator.lognormal(MEAN, SIGMA, shape) + spread * generator.standard_normal(shape)
    limit = np.quantile(_ratio(harmful, spread), 1.0 - CONFIDENCE)
    return float(np.mean(_ratio(equal, spread) >= limit))


def _ratio(harms: FloatArray, spread: float) -> FloatArray:
    """(experiments,) logarithms of the likelihood of harm over that of none."""
    sizes = np.exp(MEAN + SIGMA * norm.ppf((np.arange(NODES) + 0.5) / NODES))
    total = np.zeros(len(harms))
    for column in harms.T:
        harmed = np.zeros(len(column))
        for size in sizes:
            harmed += norm.pdf(column - size, scale=spread) / NODES
        total += np.log(harmed + 1e-300) - norm.logpdf(column, scale=spread)
    return total


def passes(
    generator: Generator, seeds: int, noise: float, count: int, *, harmful: bool
) -> tuple[int, int]:
    """How many candidates pass, by the gate's bound and by a t bound alone."""
    gate = plain = 0
    for _ in range(count):
        before, after = noise * generator.standard_normal((2, seeds))
        by_seed = after - before
        if harmful:
            by_seed = by_seed + generator.lognormal(MEAN, SIGMA, seeds)
        harms = np.tile(by_seed[:, None], ROWS)
        harms += 0.003 * generator.standard_normal(harms.shape)
        slack = crossed_mean(1.0 - harms)
        half_width = slack.half_width(CONFIDENCE)
        tail = harm_tail(harms, bounded=True, baseline=before, margin=1.0)
        plain += slack.mean > half_width
        gate += slack.mean > half_width + tail.width(slack, CONFIDENCE)
    return gate, plain


def least_seeds(count: int, of_best: int = OF_THE_BEST) -> str:
    """The table, with `count` experiments of each kind."""
    rows = []
    for number, (seeds, noise) in enumerate((k, sd) for k in SEEDS for sd in NOISES):
        generator = np.random.default_rng([2000 + number, count])
        gate, plain = passes(generator, seeds, noise, count, harmful=True)
        equal, equal_plain = passes(generator, seeds, noise, count, harmful=False)
        best = of_the_best(generator, seeds, noise, of_best)
        rows.append(
            (
                f"{seeds}",
                f"{noise:g}",
                rate(plain, count),
                rate(gate, count),
                rate(equal_plain, count),
                rate(equal, count),
                f"{100.0 * best:.1f}",
            )
        )
    header = (
        "Seeds",
        "Noise between seeds, margins",
        "t bound: false pass",
        "gate: false pass",
        "t bound: correct pass at no harm",
        "gate: correct pass at no harm",
        "best test at 5% false passes: equal candidates refused",
    )
    return table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", type=int, default=2000)
    print(least_seeds(parser.parse_args().experiments))


if __name__ == "__main__":
    main()
