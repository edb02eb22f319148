"""The hardest cases for a bound on a mean: long tails, harm in few examples, rare classes.

A part of `gate_calibration.py`. Each experiment is judged by the gate, and by the same crossed t
bound without the gate's allowances for tails and bias: what they cost and what they prevent.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from gate_simulation import Design, draw, harmed, rate, table

from compilegate.gate.findings import Outcome
from compilegate.gate.metrics import MetricUndefinedError
from compilegate.gate.quality import arm_scores, compare_scores, outcome_of

SCORES: dict[str, dict[str, Any]] = {
    "log loss, light tail (0.5)": {"metric": "log_loss", "loss_spread": 0.5},
    "log loss, longer (1.0)": {"metric": "log_loss", "loss_spread": 1.0},
    "log loss, long (1.5)": {"metric": "log_loss"},
    "log loss, very long (2.0)": {"metric": "log_loss", "loss_spread": 2.0},
    "log loss, harm in 1 of 100": {"metric": "log_loss", "harmed_share": 0.01},
    "log loss, harm in 1 of 200": {"metric": "log_loss", "harmed_share": 0.005},
    "AUROC, 5% positives": {"metric": "auroc", "positives": 0.05, "usual_margins": 6.0},
    "AUROC, 2% positives": {"metric": "auroc", "positives": 0.02, "usual_margins": 6.0},
    "macro F1, a class of 2%": {"metric": "macro_f1", "usual_margins": 6.0},
    "balanced accuracy, a class of 2%": {"metric": "balanced_accuracy", "usual_margins": 6.0},
    "calibration error": {"metric": "calibration_error", "usual_margins": 3.0},
    "accuracy, harm and no gain": {
        "metric": "accuracy",
        "usual_margins": 3.0,
        "correlation": 1.0,
    },
}
"""The margins are wide enough that 200 examples have a chance."""
EXAMPLES = (200, 500, 2000)
SEEDS = (3, 5, 10)
NO_FLIP = 1e-12
"""Too small to affect a bound, but not zero, so that no tail is counted."""
UNDEFINED = "undefined"


def hard_scores(count: int, confidence: float, stream: Iterator[int]) -> str:
    """The table, with `count` experiments per cell and true harm."""
    rows = []
    for (name, scores), examples, seeds in itertools.product(SCORES.items(), EXAMPLES, SEEDS):
        usual = {"seeds": seeds, "examples": examples, "seed_sd": 0.0, "correlation": 0.9}
        design = Design(**{**usual, **scores})
        none, margin = (
            verdicts(harmed(design, harm), count, confidence, next(stream)) for harm in (0.0, 1.0)
        )
        rows.append(
            (
                name,
                f"{design.margin:g}",
                f"{examples}",
                f"{seeds}",
                rate(margin["gate", Outcome.PASS], count),
                rate(margin["gate", Outcome.INCONCLUSIVE] + margin["gate", UNDEFINED], count),
                rate(none["gate", Outcome.FAIL], count),
                rate(none["gate", Outcome.PASS], count),
                rate(margin["t alone", Outcome.PASS], count),
                rate(none["t alone", Outcome.PASS], count),
            )
        )
    header = (
        "Scores",
        "Margin",
        "Examples",
        "Seeds",
        "gate: false pass",
        "gate: inconclusive at the margin",
        "gate: false fail",
        "gate: correct pass at no harm",
        "t alone: false pass",
        "t alone: correct pass at no harm",
    )
    return table(header, rows)


def verdicts(
    design: Design, count: int, confidence: float, stream: int
) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    generator = np.random.default_rng([stream, count])
    for _ in range(count):
        drawn = draw(design, generator)
        try:
            arms = [arm_scores(design.metric, replicates) for replicates in drawn]
        except MetricUndefinedError:  # the rare class does not occur
            found["gate", UNDEFINED] += 1
            continue
        plain = [
            replace(arm, one_flip=arm.one_flip or NO_FLIP, counted=True, bias=0.0) for arm in arms
        ]
        comparison = compare_scores(design.metric, design.guard, *arms)
        found["gate", str(outcome_of(comparison, confidence))] += 1
        alone = compare_scores(design.metric, design.guard, *plain)
        alone = replace(alone, slack=replace(alone.slack, example_skewness=0.0))
        found["t alone", str(outcome_of(alone, confidence))] += 1
    return found
