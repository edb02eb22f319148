"""What the report's words mean, for a reader who was not there."""

from __future__ import annotations

GLOSSARY: tuple[tuple[str, str], ...] = (
    (
        "arm",
        "One way to train the workload: compiler, batch size, learning rate and precision. "
        "One arm is the baseline, the others are candidates.",
    ),
    ("replicate", "One training run of an arm with one seed."),
    (
        "interval",
        "The range that the evidence leaves open. Each end is a one-sided bound: the true value "
        "lies below the lower end, or above the upper end, with the stated small chance each.",
    ),
    (
        "margin",
        "How much worse a metric may be before the candidate counts as worse. "
        "It is declared before anything is trained.",
    ),
    (
        "watched",
        "Measured and shown, but without a margin: it decides nothing.",
    ),
    (
        "slice",
        "A part of the validation data, such as the documents in one language.",
    ),
    (
        "control",
        "A candidate with the baseline's batch size, learning rate and precision. What it differs "
        "by is the compiler's doing; what another candidate differs from it by is not.",
    ),
    (
        "parity",
        "Whether a compiled step computes what an eager step computes: its error against float64 "
        "as a multiple of what eager's own rounding explains. It says nothing of the trained "
        "model's quality, and fails a candidate on its own.",
    ),
    ("pass", "The whole interval is on the good side of the margin: shown to be no worse."),
    ("fail", "The whole interval is on the bad side, or the evidence cannot be trusted."),
    (
        "inconclusive",
        "The interval reaches across: neither is shown. The baseline stands.",
    ),
    (
        "points",
        "Percentage points: accuracy 95% against 94% is one point.",
    ),
    (
        "noise floor",
        "How much a metric moves between the baseline's own seeds. "
        "Differences of that size are chance.",
    ),
    (
        "speed-up",
        "Training samples per second once compilation is over, candidate over baseline. It must "
        "reach the declared minimum, and be enough for one run to repay its compilation.",
    ),
    (
        "break-even",
        "The step from which the time that faster steps save exceeds the time compilation took.",
    ),
    (
        "confound",
        "Something beside the compiler that differs between candidate and baseline.",
    ),
)
