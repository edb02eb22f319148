"""Accidents in trainings: recipe, machine, seed, checkpoint, compiler, arithmetic, clock, unit."""

from __future__ import annotations

import numpy as np

from tests.mission.evidence.edits import (
    clock,
    column,
    declare,
    jittered,
    no_parity,
    parity,
    record,
    step_times,
)
from tests.mission.evidence.entry import (
    BASELINE,
    CANDIDATE,
    FAIL,
    LARGER,
    OPEN,
    PASS,
    Entry,
    decided,
    nothing,
    stands,
)
from tests.mission.evidence.kinds import (
    accumulated,
    each_score,
    machine,
    same_over_seeds,
    stopped,
)
from tests.mission.evidence.mistakes import (
    at_chance,
    evaluated_with,
    not_measured,
    wrong_by_rounding,
    wrong_gradient,
)

GPU = {
    **{"environment.accelerator": "NVIDIA A10G", "environment.accelerators": 1},
    **{"recipe.device": "cuda", "recipe.evaluated_on": "accelerator"},
}
ONCE = "its seeds count as one, which decides nothing; or the mistake is refused"
UNKNOWN = "what cannot be trusted may be refused, or be called unknown"
NOT_JUDGED = "nothing can be compared with such a baseline"

RECIPES = [
    Entry(
        "another-learning-rate",
        "The candidate's script has a default that wins over its argument.",
        stands(FAIL),
        [record(CANDIDATE, {"recipe.learning_rate": 0.003})],
    ),
    Entry(
        "another-batch-size",
        "The candidate trained with twice the declared batch.",
        stands(FAIL),
        [record(CANDIDATE, {"recipe.batch_size": 16, "recipe.global_batch_size": 16})],
    ),
    Entry(
        "another-precision",
        "The candidate's script turned autocast on.",
        stands(FAIL),
        [record(CANDIDATE, {"recipe.precision": "bf16", "parity.precision": "bf16"})],
    ),
    Entry(
        "another-weight-decay",
        "The candidate's branch of the script has another weight decay.",
        stands(FAIL),
        [record(CANDIDATE, {"recipe.weight_decay": 0.1})],
    ),
    Entry(
        "stopped-early-undeclared",
        "The candidate's jobs stopped early, at 12% fewer steps, and nobody declared that.",
        stands(FAIL),
        [stopped(CANDIDATE, {1: 880, 2: 870, 3: 890}), jittered(CANDIDATE, 0.1, like=BASELINE)],
    ),
    Entry(
        "stopped-far-too-early",
        "Early stopping is declared, and the candidate saw half of the baseline's examples.",
        stands(FAIL),
        [
            declare({"settings.examples_tolerance": 0.3}),
            stopped(CANDIDATE, {1: 480, 2: 510, 3: 490}),
            jittered(CANDIDATE, 0.1, like=BASELINE),
        ],
    ),
    Entry(
        "micro-batches-counted-as-steps",
        "The baseline accumulates four batches and counts each as a step of its own.",
        stands(FAIL),
        [accumulated(CANDIDATE, 4), jittered(CANDIDATE, 0.1, like=BASELINE)],
    ),
    Entry(
        "another-version-of-torch",
        "The candidate's image has another torch, which nobody declared.",
        stands(FAIL),
        [record(CANDIDATE, {"environment.torch": "2.12.1+cpu"})],
    ),
    Entry(
        "another-kind-of-machine",
        "The baseline ran on a processor, the candidate on a GPU, which nobody declared.",
        stands(FAIL),
        [record(CANDIDATE, GPU)],
    ),
    Entry(
        "another-instance-than-declared",
        "Both arms are declared for one instance type; the candidate ran on a larger one.",
        stands(FAIL),
        [
            machine(BASELINE, "ml.c5.xlarge", "Intel Xeon", 4),
            machine(CANDIDATE, "ml.c5.xlarge", "Intel Xeon", 4),
            record(
                CANDIDATE,
                {"environment.instance_type": "ml.c5.4xlarge", "environment.cores_available": 16},
            ),
        ],
    ),
]

MODELS = [
    Entry(
        "seed-not-used",
        "The candidate's script never passes its seed on.",
        stands(FAIL, OPEN, why=ONCE),
        [same_over_seeds(CANDIDATE)],
    ),
    Entry(
        "seed-not-used-on-a-gpu",
        "The candidate's script never passes its seed on, and only its device's noise differs.",
        stands(FAIL, OPEN, why=ONCE),
        [same_over_seeds(CANDIDATE, noise=1e-4)],
    ),
    Entry(
        "baseline-seed-not-used",
        "The baseline's script never passes its seed on: one good model, three times.",
        stands(FAIL, OPEN, why=ONCE),
        [same_over_seeds(BASELINE)],
    ),
    Entry(
        "another-arm-s-checkpoint",
        "The larger batch's jobs evaluated the baseline's checkpoints; compiler-only is fine.",
        decided({CANDIDATE: [PASS], LARGER: [FAIL, OPEN]}, CANDIDATE, why=UNKNOWN),
        [evaluated_with(LARGER, seed, (BASELINE, seed)) for seed in (1, 2, 3)],
        base="topics-three",
    ),
    Entry(
        "another-seed-s-checkpoint",
        "A job of the candidate evaluated the checkpoint of another seed.",
        stands(FAIL, OPEN, why=ONCE),
        [evaluated_with(CANDIDATE, 2, (CANDIDATE, 1))],
    ),
    Entry(
        "weights-not-loaded",
        "The candidate began with random weights, the baseline with trained ones.",
        stands(OPEN, FAIL, why=UNKNOWN),
        [
            column(BASELINE, "steps", "loss", lambda it: 0.3 * it),
            jittered(CANDIDATE, 0.1, like=BASELINE),
        ],
    ),
    Entry(
        "loss-not-finite",
        "The candidate's last loss is NaN in one job.",
        stands(FAIL),
        [
            column(CANDIDATE, "steps", "loss", lambda it: np.append(it[:-1], np.nan), 3),
            jittered(CANDIDATE, 0.1, like=BASELINE),
        ],
    ),
    Entry(
        "baseline-loss-infinite",
        "The baseline's loss overflowed in one job.",
        nothing(FAIL, OPEN, why=NOT_JUDGED),
        [column(BASELINE, "steps", "loss", lambda it: np.append(it[:-1], np.inf), 1)],
    ),
    Entry(
        "constant-loss",
        "The candidate writes the first batch's loss for every step: it is exactly constant.",
        stands(FAIL),
        [
            column(CANDIDATE, "steps", "loss", lambda it: np.full(len(it), it[0])),
            jittered(CANDIDATE, 0.1, like=BASELINE),
        ],
    ),
    Entry(
        "nothing-learnt",
        "The labels were shuffled in preparation, so that both arms answer at chance.",
        nothing(FAIL, OPEN, why=NOT_JUDGED),
        [each_score(at_chance)],
    ),
]

COMPILERS = [
    Entry(
        "compiler-did-not-run",
        "The candidate's script compiles a copy of the model and trains the other.",
        stands(FAIL),
        [
            record(
                CANDIDATE,
                {
                    **{"compiler.ran": False, "compiler.graphs": 0, "compiler.proof": {}},
                    **{"compiler.compile_seconds": 0.0, "compile_cache": None},
                },
            ),
            clock(CANDIDATE, 0.0042, baseline=0.0060),
        ],
    ),
    Entry(
        "back-to-eager",
        "After 30 steps the compiler gave up, and torch went on in eager mode.",
        stands(FAIL, OPEN, why=UNKNOWN),
        [record(CANDIDATE, {"compiler.proof.graph_calls": 30})],
    ),
    Entry(
        "another-backend",
        "The arm is declared inductor, and another backend ran.",
        stands(FAIL),
        [record(CANDIDATE, {"compiler.proof.backend": "aot_eager"})],
        base="digits",
    ),
    Entry(
        "eager-instead",
        "The variable that names the compiler was not set: the candidate trained in eager mode.",
        stands(FAIL),
        [
            record(
                CANDIDATE,
                {
                    **{"compiler.name": "eager", "compiler.ran": False, "compiler.graphs": 0},
                    **{"compiler.proof": {}, "compiler.compile_seconds": 0.0},
                    **{"compile_cache": None},
                },
            ),
            no_parity(CANDIDATE, None),
            clock(CANDIDATE, 0.0060),
        ],
    ),
    Entry(
        "baseline-compiled",
        "The variable that names the compiler was set for the baseline, too.",
        nothing(FAIL, OPEN, why=NOT_JUDGED),
        [
            record(
                BASELINE,
                {
                    **{"compiler.name": "torch-compile", "compiler.ran": True},
                    **{"compiler.graphs": 1, "compiler.proof": {"graph_calls": 1000}},
                },
            )
        ],
    ),
]

ARITHMETIC = [
    Entry(
        "gradient-of-zero",
        "The compiler gives a parameter a gradient of zero, and the models are good all the same.",
        stands(FAIL),
        [parity(CANDIDATE, wrong_gradient)],
    ),
    Entry(
        "wrong-in-one-job",
        "In one of three jobs the compiled gradient is wrong.",
        stands(FAIL),
        [parity(CANDIDATE, wrong_gradient, 3)],
    ),
    Entry(
        "ten-times-bf16-rounding",
        "Compiled steps err ten times what rounding in bf16 explains.",
        stands(FAIL),
        [parity(CANDIDATE, wrong_by_rounding(10.0, "bf16"))],
        base="digits",
    ),
    Entry(
        "required-parity-not-measured",
        "Parity is required, and the probe was turned off.",
        stands(FAIL, OPEN, why=UNKNOWN),
        [declare({"settings.parity": {"required": True}}), no_parity(CANDIDATE, None)],
    ),
    Entry(
        "required-parity-of-zeros",
        "Parity is required, and the probe compared nothing: all errors are zero.",
        stands(FAIL, OPEN, why=UNKNOWN),
        [declare({"settings.parity": {"required": True}}), parity(CANDIDATE, not_measured)],
    ),
]

CLOCKS_AND_UNITS = [
    Entry(
        "device-not-waited-for",
        "The candidate's steps are timed without waiting for the GPU; its training takes as long.",
        stands(FAIL, OPEN, why=UNKNOWN),
        [
            clock(CANDIDATE, 0.0006, rest=0.0, baseline=0.0060, compiling=0.0, outside=9.0),
        ],
    ),
    Entry(
        "milliseconds-in-the-steps",
        "The candidate writes its steps in milliseconds, and its training in seconds.",
        stands(FAIL),
        [column(CANDIDATE, "steps", "seconds", lambda it: 1000.0 * it)],
    ),
    Entry(
        "baseline-in-milliseconds",
        "The baseline's times are in milliseconds, so the candidate looks 1,400 times as fast.",
        stands(FAIL),
        [clock(BASELINE, 6.0), clock(CANDIDATE, 0.0042)],
    ),
    Entry(
        "samples-of-another-batch",
        "The candidate's samples per second count eight devices, where there is one.",
        stands(FAIL),
        [record(CANDIDATE, {"speed.samples_per_second": lambda it: 8 * it})],
    ),
    Entry(
        "step-of-no-time",
        "The clock went back: one step took less than nothing.",
        stands(FAIL),
        [step_times(CANDIDATE, lambda it: np.append(it[:-1], -0.001), 2)],
    ),
    Entry(
        "megabytes-for-bytes",
        "The candidate writes its memory in megabytes.",
        stands(FAIL, OPEN, why=UNKNOWN),
        [
            declare({"settings.max_memory_increase": 0.2}),
            record(CANDIDATE, {"peak_memory_bytes": 554}),
        ],
    ),
    Entry(
        "blocks-of-another-batch",
        "Blocks in turns say five times as fast, the jobs' own steps 1.4: one of them is wrong.",
        stands(OPEN, FAIL, why=UNKNOWN),
        [
            declare({"settings.min_speedup": 1.5}),
            column(CANDIDATE, "paired", "baseline_seconds", lambda it: 4 * it),
        ],
    ),
]

IN_TRAININGS = [*RECIPES, *MODELS, *COMPILERS, *ARITHMETIC, *CLOCKS_AND_UNITS]
