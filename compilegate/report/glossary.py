"""What the report's words mean, for a reader who does not know them."""

from __future__ import annotations

GLOSSARY: tuple[tuple[str, str], ...] = (
    (
        "arm",
        "One way to train the workload: compiler, batch size, learning rate and precision. "
        "One arm is the baseline, the others are candidates.",
    ),
    (
        "replicate, seed",
        "One training run of an arm. Its seed decides the initial weights and the order of the "
        "data, so replicates differ by chance alone.",
    ),
    (
        "eager",
        "PyTorch without a compiler: each operation runs as it comes. Compilers (inductor, which "
        "is torch.compile; xla; neuron) turn a whole training step into a graph first.",
    ),
    (
        "interval",
        "The range of values that fit the evidence. Each end is a one-sided bound: the true value "
        "is below the lower end, or above the upper end, with the stated small probability.",
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
        "compiler-only",
        "A candidate with the baseline's batch size, learning rate and precision. Where it differs "
        "from the baseline, the compiler is the cause; where another candidate differs from it, "
        "the rest of the recipe is.",
    ),
    (
        "parity",
        "Whether a compiled step computes what an eager step computes: its error against float64 "
        "as a multiple of what eager's own rounding explains. It says nothing about the trained "
        "model's quality: a candidate whose arithmetic differs fails, however good its models.",
    ),
    ("pass", "The whole interval is on the good side of the margin: shown to be no worse."),
    ("fail", "The whole interval is on the bad side, or the evidence cannot be trusted."),
    (
        "inconclusive",
        "The interval crosses the margin: neither is shown. The baseline's model is released.",
    ),
    (
        "points",
        "Percentage points: accuracy 95% against 94% is one point.",
    ),
    (
        "nats",
        "The unit of log loss, which is the mean of -ln(probability given to the right class). "
        "0.69 nats is a coin toss between two classes.",
    ),
    (
        "standard deviation",
        "A typical distance from the mean: about two seeds in three lie within it.",
    ),
    (
        "noise floor",
        "How much a metric varies between the baseline's own seeds. "
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
        "cold, warm",
        "A compilation from nothing, and one that reuses what an earlier job left in the compile "
        "cache.",
    ),
    (
        "graph break, recompilation",
        "Where the compiler had to hand part of the step back to eager, and where it had to "
        "compile again because shapes or settings had changed. Both cost time.",
    ),
    (
        "confound",
        "Something besides the compiler that differs between candidate and baseline.",
    ),
)
