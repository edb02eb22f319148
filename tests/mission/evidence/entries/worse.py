"""Candidates that are truly worse, slower or never repaid, and those of which too little shows."""

from __future__ import annotations

import numpy as np

from tests.mission.evidence.edits import (
    clock,
    confused,
    declare,
    higher,
    judged_by,
    lower,
    more_seeds,
    record,
    softmax,
    step_times,
)
from tests.mission.evidence.entry import (
    CANDIDATE,
    FAIL,
    LARGER,
    OPEN,
    PASS,
    Entry,
    decided,
    stands,
)
from tests.mission.evidence.generated import classified, predicted
from tests.mission.evidence.kinds import each_score_of, printed, printed_speed
from tests.mission.evidence.mistakes import at_chance, lost_outright, ranked_last

OWN = "tests.mission.evidence.own_metric"
SOME_SEEDS = "some seeds are far worse; how often that happens may stay open"
SOME_ROWS = "some rows are far worse; how many there are may stay open"
LOST = "a known loss of time may be refused, or be called unknown"
SKEWED = (0.001, 0.002, 0.004, 0.006, 0.01, 0.015, 0.03, 0.05, 0.12, 0.4)
"""Nats that ten seeds lose, 0.064 on average."""
DIVERGED = (0.98, 0.981, 0.979, 0.62, 0.982, 0.98, 0.978, 0.981, 0.55, 0.98)
WELL = (0.981, 0.98, 0.98, 0.979, 0.981, 0.982, 0.979, 0.98, 0.981, 0.979)

QUALITY = [
    Entry(
        "accuracy",
        "The candidate loses six points, twice the margin.",
        stands(FAIL),
        [confused(CANDIDATE, 36, 7)],
    ),
    Entry(
        "log-loss-alone",
        "The candidate's answers are the baseline's, and it is far less sure of them.",
        stands(FAIL),
        [each_score_of(CANDIDATE, lambda it: softmax(0.35 * np.log(it)))],
    ),
    Entry(
        "squared-error",
        "The candidate's squared error is a tenth larger; the margin is a twentieth.",
        stands(FAIL, arm="matrix"),
        [
            judged_by(mse=lower(0.05, relative=True), mae=lower(0.5)),
            predicted(
                2000,
                key="worse",
                harm={"matrix": lambda draw, count: np.full(count, 0.06)},
            ),
        ],
        base="regression",
    ),
    Entry(
        "metric-of-ones-own",
        "The candidate's label is among its two best answers 8 points less often.",
        stands(FAIL),
        [
            judged_by(top_two=higher(0.03, function=f"{OWN}.top_two")),
            ranked_last(CANDIDATE, 40),
        ],
    ),
    Entry(
        "printed",
        "The candidate's script prints an accuracy that is six points lower.",
        stands(FAIL),
        [printed(CANDIDATE, "accuracy", 0.9281, 0.9262, 0.9324)],
        base="printed",
    ),
    Entry(
        "slice",
        "The candidate loses on the long stories, and hardly elsewhere.",
        stands(FAIL),
        [
            judged_by(accuracy=higher(0.1)),
            declare(
                {
                    "settings.slices": [
                        {
                            **{"column": "length", "value": "long"},
                            **{"metric": "accuracy", "margin": 0.05},
                        }
                    ]
                }
            ),
            confused(CANDIDATE, 30, among="slice:length=long"),
        ],
    ),
    Entry(
        "rare-class",
        "The candidate gives up a rare class; accuracy alone would let that pass.",
        stands(FAIL),
        [
            judged_by(accuracy=higher(0.1), balanced_accuracy=higher(0.03)),
            classified(1500, key="rare", shares=(0.9, 0.1), sure=2.2),
            confused(CANDIDATE, 45, among="labels=1"),
        ],
    ),
    Entry(
        "first-seed",
        "The model that would be registered is four margins worse, and the other seeds are fine.",
        stands(FAIL),
        [confused(CANDIDATE, 60, 0, 1)],
    ),
    Entry(
        "one-seed-diverges",
        "The third seed of the candidate ends at chance.",
        stands(FAIL, OPEN, why=SOME_SEEDS),
        [each_score_of(CANDIDATE, at_chance, 3)],
    ),
    Entry(
        "two-of-ten-seeds-diverge",
        "Two of the candidate's ten seeds lose forty points.",
        stands(FAIL, OPEN, why=SOME_SEEDS),
        [
            more_seeds(10),
            judged_by(accuracy=higher(0.03, reported=True)),
            printed("baseline", "accuracy", *WELL),
            printed(CANDIDATE, "accuracy", *DIVERGED),
        ],
        base="printed",
    ),
    Entry(
        "skewed-seeds",
        "Ten seeds lose more than the margin on average, nearly all of it in two of them.",
        stands(FAIL, OPEN, why=SOME_SEEDS),
        [
            more_seeds(10),
            judged_by(log_loss=lower(0.05, reported=True)),
            printed("baseline", "log_loss", *(0.040 + 0.0004 * np.arange(10))),
            printed(CANDIDATE, "log_loss", *(0.040 + 0.0004 * np.arange(10) + np.array(SKEWED))),
        ],
        base="printed",
    ),
    Entry(
        "rows-lost-outright",
        "The candidate is as sure as can be of a wrong answer in one row of fifty.",
        stands(FAIL, OPEN, why=SOME_ROWS),
        [judged_by(log_loss=lower(0.12)), lost_outright(CANDIDATE, 10)],
    ),
    Entry(
        "declared-patients",
        "Ten images of each patient are right or wrong together, as is declared.",
        stands(OPEN),
        [
            declare({"settings.groups": "patient"}),
            judged_by(accuracy=higher(0.03)),
            classified(
                600,
                key="patients-1",
                sure=2.6,
                better={CANDIDATE: 0.45},
                groups=("patient", np.array([f"patient-{row % 60}" for row in range(600)])),
                members=(np.arange(600) % 60, {CANDIDATE: 1.2}),
            ),
        ],
    ),
    Entry(
        "seeds-that-differ",
        "The candidate's seeds differ by more than the margin, in both directions.",
        stands(OPEN),
        [confused(CANDIDATE, 34, 0, 3), confused(CANDIDATE, 0, 14, 2)],
    ),
    Entry(
        "at-the-margin",
        "The candidate loses just the margin.",
        stands(OPEN),
        [confused(CANDIDATE, 17, 3)],
    ),
    Entry(
        "failure-rate",
        "One seed in ten may diverge, as declared; three seeds cannot show that none does.",
        stands(OPEN),
        [declare({"settings.max_failure_rate": 0.1})],
    ),
    Entry(
        "larger-batch",
        "The larger batch as it really trained: its seeds differ by more than the margin.",
        decided({CANDIDATE: [PASS], LARGER: [OPEN]}, CANDIDATE),
        base="topics-three",
    ),
    Entry(
        "one-of-two-candidates",
        "The larger batch ends at chance, and compiler-only is as good.",
        decided({CANDIDATE: [PASS], LARGER: [FAIL]}, CANDIDATE),
        [each_score_of(LARGER, at_chance)],
        base="topics-three",
    ),
    Entry(
        "noisy-candidate",
        "The candidate's models are all noise, the baseline's seeds close to each other. The law.",
        stands(FAIL, arm="matrix"),
        [
            judged_by(mse=lower(0.1), mae=lower(0.1)),
            predicted(
                400,
                key="noisy",
                seed_noise=0.01,
                noise=0.001,
                harm={"matrix": lambda draw, count: 4.0 * np.abs(draw.normal(0.0, 1.0, count))},
            ),
        ],
        base="regression",
    ),
]

SPEED = [
    Entry(
        "slower",
        "The candidate's steps take a quarter longer.",
        stands(FAIL),
        [clock(CANDIDATE, 0.0075, baseline=0.0060)],
    ),
    Entry(
        "as-fast",
        "The candidate's steps take as long as the baseline's; a tenth less is asked.",
        stands(FAIL),
        [clock(CANDIDATE, 0.0059, baseline=0.0060)],
    ),
    Entry(
        "not-decided",
        "The candidate's jobs differ by a quarter, and no steps took turns.",
        stands(OPEN),
        [declare({"settings.min_speedup": 1.3}), clock(CANDIDATE, 0.0042, spread=0.25)],
    ),
    Entry(
        "never-repaid",
        "Every run compiles for longer than it takes in all.",
        stands(FAIL),
        [
            declare({"settings.repaid_within_runs": 1.0}),
            clock(CANDIDATE, 0.0042, baseline=0.0060, compiling=40.0),
        ],
    ),
    Entry(
        "compiling-not-told",
        "The first step takes five minutes, of which the record says nothing.",
        stands(FAIL),
        [
            record(CANDIDATE, {"compile_cache": None}),
            clock(CANDIDATE, 0.0042, baseline=0.0060, compiling=0.0),
            step_times(CANDIDATE, lambda it: np.append(300.0, it[1:])),
        ],
    ),
    Entry(
        "lost-between-steps",
        "The candidate loses between its steps more than they save.",
        stands(FAIL, OPEN, why=LOST),
        [clock(CANDIDATE, 0.0042, baseline=0.0060, outside=0.6)],
    ),
    Entry(
        "printed-average",
        "The candidate's script prints one average, with the compilation in it.",
        stands(OPEN),
        [
            printed(CANDIDATE, "accuracy", 0.9893, 0.9869, 0.9911),
            printed(CANDIDATE, "log_loss", 0.0384, 0.0363, 0.0371),
            printed_speed(CANDIDATE, "average_samples_per_second", 7200.0, 7350.0, 7280.0),
        ],
        base="printed",
    ),
    Entry(
        "printed-with-few-digits",
        "Speeds are printed without decimals, and rounding explains the difference.",
        stands(OPEN),
        [
            declare({"settings.min_speedup": 1.15}),
            printed(CANDIDATE, "accuracy", 0.9893, 0.9869, 0.9911),
            printed(CANDIDATE, "log_loss", 0.0384, 0.0363, 0.0371),
            printed_speed("baseline", "samples_per_second", 10.0, 10.0, 10.0),
            printed_speed(CANDIDATE, "samples_per_second", 12.0, 12.0, 12.0),
        ],
        base="printed",
    ),
]

MEMORY = [
    Entry(
        "memory",
        "The candidate takes 23% more memory; a tenth is allowed.",
        stands(FAIL),
        [declare({"settings.max_memory_increase": 0.1})],
    ),
    Entry(
        "memory-of-another-kind",
        "A limit is declared, and one arm measured its device's memory, the other its process's.",
        stands(OPEN, FAIL, why="what the limit asks for is not known of either arm"),
        [
            declare({"settings.max_memory_increase": 0.5}),
            record(CANDIDATE, {"memory_of": "device"}),
        ],
    ),
]

WORSE = [*QUALITY, *SPEED, *MEMORY]
