"""Honest experiments: nothing went wrong, and what is unusual lies in arms, models or seeds.

"Row" is a row of the gate's issue, whose table lists the kinds that must pass.
"""

from __future__ import annotations

import numpy as np

from tests.mission.evidence.edits import (
    all_arms,
    clock,
    column,
    damaged,
    declare,
    failed,
    higher,
    jittered,
    judged_by,
    lower,
    missing,
    more_seeds,
    record,
    rows,
)
from tests.mission.evidence.entry import (
    BASELINE,
    CANDIDATE,
    FAIL,
    LARGER,
    OPEN,
    PASS,
    Entry,
    released,
    stands,
)
from tests.mission.evidence.generated import classified, predicted
from tests.mission.evidence.kinds import (
    a_seed_more,
    averaged_weights,
    classes_without_scores,
    each_score,
    in_archives,
    in_bf16,
    machine,
    older_version,
    overconfident,
    printed,
    processes,
    same_bits,
    same_over_seeds,
    taken_from_the_cache,
    to_three_digits,
    training_loss,
)

CPU = "ml.c5.xlarge", "Intel(R) Xeon(R) Platinum 8124M CPU @ 3.00GHz", 4
LARGER_CPU = "ml.c5.2xlarge", "Intel(R) Xeon(R) Platinum 8275CL CPU @ 3.00GHz", 8
SKEWED = (0.00005, 0.0003, 0.0012, 0.005, 0.02)

BASES = [
    Entry(
        "compiler-only",
        "The built-in program trained two arms that differ in their compiler alone.",
        released(),
    ),
    Entry(
        "busy-machine",
        "The same three arms as they really ran, beside four other processes on two cores.",
        stands(OPEN, also=LARGER),
        base="topics-as-left",
    ),
    Entry(
        "own-script-in-bf16",
        "A script on compilegate.job trained both arms in bf16.",
        released(),
        base="digits",
    ),
    Entry(
        "regression",
        "A loop and a product of matrices predict numbers; evidence written by hand.",
        released("matrix"),
        base="regression",
    ),
    Entry(
        "printed",
        "A script prints accuracy, loss and speed; seeds and arms differ.",
        released(),
        [
            printed(CANDIDATE, "accuracy", 0.9893, 0.9869, 0.9911),
            printed(CANDIDATE, "log_loss", 0.0384, 0.0363, 0.0371),
        ],
        base="printed",
    ),
    Entry(
        "older-evidence",
        "The jobs ran with a version whose evidence has none of the later keys.",
        released(),
        [older_version],
    ),
    Entry(
        "archives",
        "The evidence comes from SageMaker, one output.tar.gz for each job.",
        released(),
        [damaged(in_archives)],
    ),
    Entry(
        "step-cache",
        "Every training came from the step cache: evidence of an earlier execution's jobs.",
        released(),
        [taken_from_the_cache],
    ),
]

ARMS = [
    Entry(
        "two-candidates",
        "Both candidates are as good, and the larger batch is the faster one.",
        released(LARGER, compiler_only=PASS),
        [jittered(LARGER, 0.1, like=BASELINE)],
        base="topics-three",
    ),
    Entry(
        "failed-beside-a-good-one",
        "The larger batch did not fit in memory, which its jobs recorded; the other is good.",
        released(larger_batch=FAIL),
        [failed(LARGER, "RuntimeError: out of memory")],
        base="topics-three",
    ),
    Entry(
        "candidate-never-ran",
        "No job of the candidate got a machine; the baseline is there.",
        stands(FAIL, OPEN, why="what never ran is no evidence, and what is missing fails closed"),
        [missing(CANDIDATE)],
    ),
    Entry(
        "two-processes",
        "Both arms train in two processes, and their evidence counts the examples of both.",
        released(),
        [processes(2)],
    ),
    Entry(
        "another-instance-type",
        "The candidate is declared to run on a larger instance; no steps could take turns.",
        released(),
        [machine(BASELINE, *CPU), machine(CANDIDATE, *LARGER_CPU), clock(CANDIDATE, 0.0042)],
    ),
    Entry(
        "another-image",
        "The candidate's image is declared, and holds other versions.",
        released(),
        [
            declare(
                {f"arms.{BASELINE}.image": "training:1", f"arms.{CANDIDATE}.image": "training:2"}
            ),
            record(CANDIDATE, {"environment.image": "training:2", "environment.torch": "2.14.0"}),
            record(BASELINE, {"environment.image": "training:1"}),
            clock(CANDIDATE, 0.0042),
        ],
    ),
    Entry(
        "another-precision",
        "The candidate is declared in bf16, the baseline in fp32.",
        released(),
        [
            declare({f"arms.{BASELINE}.precision": "fp32"}),
            record(BASELINE, {"recipe.precision": "fp32", "recipe.evaluated_in": "fp32"}),
        ],
        base="digits",
    ),
    Entry(
        "single-seed",
        "There was time for one seed only.",
        stands(OPEN),
        [declare({"seeds": [1]}), missing(BASELINE, 2, 3), missing(CANDIDATE, 2, 3)],
    ),
    Entry(
        "seed-not-declared",
        "A fourth seed of the candidate was trained for fun; the experiment declares three.",
        released(),
        [a_seed_more],
    ),
]

MODELS = [
    Entry(
        "deterministic-training",
        "Nothing in the training is random, so all seeds make one model. Row: deterministic.",
        stands(OPEN),
        [same_over_seeds(BASELINE), same_over_seeds(CANDIDATE)],
    ),
    Entry(
        "same-bits",
        "The compiler computes eager's own bits, as CUDA graphs alone do.",
        released(),
        [same_bits],
    ),
    Entry(
        "scores-of-three-digits",
        "Scores are written with three digits, on which both arms agree. Row: rounded outputs.",
        released(),
        [each_score(to_three_digits)],
    ),
    Entry(
        "classes-without-scores",
        "The models give classes, and both arms the same. Row: hard outputs.",
        released(),
        [judged_by(accuracy=higher(0.03)), classes_without_scores],
    ),
    Entry(
        "scores-in-bf16",
        "The softmax of the evaluation is computed in bf16, so that rows sum to one nearly.",
        released(),
        [each_score(in_bf16)],
    ),
    Entry(
        "overconfident",
        "Both arms answer well and are far too sure of it. Row: overconfident log loss.",
        released(),
        [judged_by(accuracy=higher(0.03), log_loss=lower(0.3)), each_score(overconfident)],
    ),
    Entry(
        "few-rows",
        "Forty validation rows cannot show three points. Row: few rows, inherent.",
        stands(OPEN),
        [rows(BASELINE, lambda count: np.arange(40)), rows(CANDIDATE, lambda count: np.arange(40))],
    ),
    Entry(
        "long-tailed-errors",
        "Errors have a long tail, and both arms the same. Row: long-tailed errors.",
        released("matrix"),
        [
            judged_by(mse=lower(0.25), mae=lower(0.05)),
            predicted(
                500, key="t", errors=lambda draw, count: draw.standard_t(3, count), noise=0.1
            ),
        ],
        base="regression",
    ),
    Entry(
        "skewed-seeds",
        "Five seeds lose next to nothing each, some more than others. Row: skewed seeds.",
        released(),
        [
            more_seeds(5),
            *[
                printed(arm, name, *values)
                for arm, name, values in (
                    (BASELINE, "accuracy", 0.98 + 0.001 * np.arange(5)),
                    (CANDIDATE, "accuracy", 0.98 + 0.001 * np.arange(5)[::-1]),
                    (BASELINE, "log_loss", 0.040 + 0.0004 * np.arange(5)),
                    (CANDIDATE, "log_loss", 0.040 + 0.0004 * np.arange(5) + np.array(SKEWED)),
                )
            ],
        ],
        base="printed",
    ),
    Entry(
        "equal-differences",
        "Printed metrics agree digit by digit, seed by seed. Row: equal differences.",
        released(),
        base="printed",
    ),
    Entry(
        "one-printed-value",
        "Two digits are printed, and all jobs print the same. Row: zero width.",
        released(),
        [
            judged_by(accuracy=higher(0.03, reported=True)),
            all_arms(lambda arm: printed(arm, "accuracy", 0.99, 0.99, 0.99)),
        ],
        base="printed",
    ),
    Entry(
        "averaged-weights",
        "The candidate's seeds end close to each other. Row: unusual but right.",
        released(),
        [averaged_weights],
    ),
    Entry(
        "much-better",
        "The candidate is better by five margins with the same recipe. Row: unusual but right.",
        released(),
        [classified(600, key="better", sure=2.0, better={CANDIDATE: 1.5})],
    ),
    Entry(
        "curriculum",
        "Examples become harder on the way, so the training loss rises. Row: curriculum.",
        released(),
        [training_loss(lambda count: np.linspace(0.4, 1.6, count))],
    ),
    Entry(
        "another-logged-loss",
        "The candidate's script logs the loss with a penalty that grows. Row: unusual but right.",
        released(),
        [
            jittered(CANDIDATE, 0.1, like=BASELINE),
            column(CANDIDATE, "steps", "loss", lambda it: it + np.linspace(0.0, 1.0, len(it))),
        ],
    ),
]

IN_MODELS = [*BASES, *ARMS, *MODELS]
