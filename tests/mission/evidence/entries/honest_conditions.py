"""Honest experiments: what is unusual lies in data, metrics, machines or compilers.

"Row" is a row of the gate's issue, whose table lists the kinds that must pass.
"""

from __future__ import annotations

import hashlib

import numpy as np

from tests.mission.evidence.edits import (
    all_arms,
    clock,
    column,
    declare,
    everywhere,
    higher,
    jittered,
    judged_by,
    losses_alone,
    lower,
    metric,
    parity,
    record,
    rows,
    softmax,
)
from tests.mission.evidence.entry import (
    BASELINE,
    CANDIDATE,
    Entry,
    released,
)
from tests.mission.evidence.generated import classified
from tests.mission.evidence.kinds import (
    doubled_rows,
    each_score_of,
    label_smoothing,
    machine,
    of_one_class,
    other_random_numbers,
    part_of_the_data,
    reports_alone,
    resumed_at,
    stopped,
    times_of_shapes,
)

CPU = "ml.c5.xlarge", "Intel(R) Xeon(R) Platinum 8124M CPU @ 3.00GHz", 4
LARGER_CPU = "ml.c5.2xlarge", "Intel(R) Xeon(R) Platinum 8275CL CPU @ 3.00GHz", 8
OWN = "tests.mission.evidence.own_metric"
OF_NOTHING = hashlib.sha256(b"").hexdigest()

DATA = [
    Entry(
        "rows-in-another-order",
        "The candidate's loader returns the validation rows in another order.",
        released(),
        [rows(CANDIDATE, lambda count: np.random.default_rng(3).permutation(count))],
    ),
    Entry(
        "inputs-hashed-after-a-cast",
        "The candidate hashes its inputs after a cast, so that all differ. Row: inputs hashed.",
        released(),
        [
            column(CANDIDATE, "examples", "inputs", lambda it: it ^ 0x5A5A5A5A),
            column(CANDIDATE, "trained_on", "inputs", lambda it: np.sort(it ^ 0x5A5A5A5A)),
        ],
    ),
    Entry(
        "part-of-an-epoch",
        "Jobs end within an epoch, and so saw other parts of the data. Row: part of an epoch.",
        released(),
        [part_of_the_data],
    ),
    Entry(
        "doubled-rows",
        "Every validation row is there twice, under two ids.",
        released(),
        [doubled_rows],
    ),
    Entry(
        "groups-that-do-not-correlate",
        "A thousand rows in declared tens that have nothing in common. Issue, 2.1.",
        released(),
        [
            declare({"settings.groups": "page"}),
            judged_by(accuracy=higher(0.02)),
            classified(
                1000,
                key="tens",
                noise=0.25,
                groups=("page", np.repeat([f"p{it}" for it in range(100)], 10)),
            ),
        ],
    ),
    Entry(
        "slice",
        "Accuracy is guarded on the long stories as well.",
        released(),
        [
            declare(
                {"settings.slices": [{"column": "length", "metric": "accuracy", "margin": 0.06}]}
            )
        ],
    ),
    Entry(
        "one-class",
        "All validation rows are of one class. Codes: a note.",
        released(),
        [judged_by(accuracy=higher(0.05)), of_one_class],
    ),
    Entry(
        "data-made-in-the-script",
        "The script makes its data, whose digest is the hash of empty input. Codes: delete.",
        released(),
        [everywhere({"digests.data": OF_NOTHING})],
    ),
]

METRICS = [
    Entry(
        "metric-of-ones-own",
        "A function of the workload's own is guarded, and is as good.",
        released(),
        [metric("top_two", "higher", 0.03, function=f"{OWN}.top_two")],
    ),
    Entry(
        "watched-metric",
        "A metric that is only watched becomes much worse.",
        released(),
        [
            judged_by(accuracy=higher(0.03), log_loss={"direction": "lower", "watched": True}),
            each_score_of(CANDIDATE, lambda it: softmax(0.35 * np.log(it))),
        ],
    ),
    Entry(
        "language-model",
        "A model without classes: the losses of its examples are all there is.",
        released(),
        [judged_by(perplexity=lower(0.15)), losses_alone],
    ),
    Entry(
        "reported-alone",
        "The jobs report a score and a loss, and write no examples.",
        released(),
        [
            judged_by(bleu=higher(0.5, reported=True), loss=lower(0.05, reported=True)),
            reports_alone(bleu=(27.0, 0.3), loss=(1.9, 0.02)),
        ],
    ),
    Entry(
        "rare-positives",
        "One row in ten is positive; the area under the curve is guarded.",
        released(),
        [
            judged_by(auroc=higher(0.02), accuracy=higher(0.02)),
            classified(2000, key="rare", shares=(0.9, 0.1), sure=2.2),
        ],
    ),
    Entry(
        "metric-computed-otherwise",
        "The jobs leave doubtful rows out of their accuracy. Row: metric computed otherwise.",
        released(),
        [everywhere({"metrics.accuracy": lambda it: it + 0.02})],
    ),
    Entry(
        "label-smoothing",
        "The losses of the examples are smoothed as in training. Row: label smoothing.",
        released(),
        [label_smoothing],
    ),
]

MACHINES = [
    Entry(
        "another-processor",
        "One instance type has two kinds of processor. Row: other CPU.",
        released(),
        [
            machine(BASELINE, *CPU),
            machine(CANDIDATE, *CPU),
            record(CANDIDATE, {"environment.cpu": LARGER_CPU[1]}),
        ],
    ),
    Entry(
        "another-kernel",
        "The candidate's hosts had a kernel with a later patch. Row: other kernel.",
        released(),
        [record(CANDIDATE, {"environment.platform": "Linux-6.18.45-x86_64-with-glibc2.36"})],
    ),
    Entry(
        "hardware-not-recorded",
        "A script records library versions and not what it ran on. Codes: a note.",
        released(),
        [everywhere({"environment": {"torch": "2.13.0", "python": "3.11.7"}})],
    ),
    Entry(
        "path-in-the-recipe",
        "A script records its output folder, which has the arm's name. Row: paths.",
        released(),
        [
            all_arms(
                lambda arm: record(arm, {"recipe.output_dir": f"/opt/ml/checkpoints/{arm}/run"})
            )
        ],
    ),
    Entry(
        "seed-of-the-data",
        "A script draws a seed for its workers in each job. Row: keys that differ between seeds.",
        released(),
        [
            record(arm, {"recipe.worker_seed": value}, seed)
            for arm, values in ((BASELINE, (811, 24, 5)), (CANDIDATE, (97, 313, 64)))
            for seed, value in zip((1, 2, 3), values, strict=True)
        ],
    ),
    Entry(
        "memory-of-some-jobs",
        "One job of each arm measured no memory; a limit is declared. Row: memory.",
        released(),
        [
            declare({"settings.max_memory_increase": 0.5}),
            record(BASELINE, {"peak_memory_bytes": None, "memory_of": None}, 3),
            record(CANDIDATE, {"peak_memory_bytes": None, "memory_of": None}, 2),
        ],
    ),
    Entry(
        "evaluation-within-training",
        "Both arms evaluate between steps, for a quarter of the time. Row: evaluation.",
        released(),
        [
            clock(BASELINE, 0.0060, outside=0.33),
            clock(CANDIDATE, 0.0042, baseline=0.0060, outside=0.33),
        ],
    ),
    Entry(
        "time-outside-steps",
        "The candidate spends a quarter of its training between steps, and still ends earlier.",
        released(),
        [
            declare({"settings.min_speedup": 1.25, "settings.repaid_within_runs": 1.0}),
            clock(BASELINE, 0.5),
            clock(CANDIDATE, 0.333, baseline=0.5, outside=0.3),
        ],
    ),
    Entry(
        "no-steps-in-turns",
        "Steps were not timed in turns; three jobs of each arm are. Row: no paired blocks.",
        released(),
        [declare({"settings.min_speedup": 1.3}), clock(CANDIDATE, 0.0042)],
    ),
    Entry(
        "same-times",
        "The machine is simulated: steps take what their lengths take. Row: equal times.",
        released(),
        [times_of_shapes(BASELINE, 0.006), times_of_shapes(CANDIDATE, 0.0042)],
    ),
    Entry(
        "slower-on-the-way",
        "The candidate's processor becomes hot, and all its jobs slow down. Codes: delete.",
        released(),
        [declare({"settings.min_speedup": 1.2}), clock(CANDIDATE, 0.0042, slower=2.4)],
    ),
    Entry(
        "early-stopping",
        "Jobs stop early, each at its own step, and the workload declares it. Row: early stopping.",
        released(),
        [
            declare({"settings.examples_tolerance": 0.5}),
            stopped(BASELINE, {1: 900, 2: 1000, 3: 860}),
            stopped(CANDIDATE, {1: 760, 2: 910, 3: 930}),
            jittered(CANDIDATE, 0.1, like=BASELINE),
        ],
    ),
    Entry(
        "machine-taken-back",
        "A spot machine was taken back once; the job went on from its checkpoint.",
        released(),
        [resumed_at(CANDIDATE, 2, step=500, lost=40.0)],
    ),
    Entry(
        "cold-and-warm",
        "One job compiled from nothing, two from the cache, of which one lacked a graph.",
        released(),
        [record(CANDIDATE, {"compile_cache.misses": 1, "compile_cache.hits": 1}, 3)],
    ),
]

COMPILERS = [
    Entry(
        "one-recompilation",
        "A ragged last batch was compiled once more. Codes: a note.",
        released(),
        [record(CANDIDATE, {"compiler.recompilations": 1})],
    ),
    Entry(
        "many-graph-breaks",
        "The compiler left its graph 300 times, and the steps are faster all the same.",
        released(),
        [record(CANDIDATE, {"compiler.graph_breaks": 300, "compiler.graphs": 301})],
    ),
    Entry(
        "parity-under-dropout",
        "Float64 draws other random numbers, so parity cannot tell; it is not required.",
        released(),
        [parity(CANDIDATE, other_random_numbers)],
    ),
    Entry(
        "parity-without-coverage",
        "Parity is required and shown; the job does not say of how many parameters.",
        released(),
        [
            declare({"settings.parity": {"required": True}}),
            record(
                CANDIDATE,
                {"parity.trained_parameters": None, "parity.compared_parameters": None},
            ),
        ],
    ),
    Entry(
        "padded-to-buckets",
        "The candidate is declared to pad its documents to a few lengths.",
        released(),
        [
            declare({f"arms.{BASELINE}.padding": "max", f"arms.{CANDIDATE}.padding": "buckets"}),
            record(
                CANDIDATE,
                {
                    "recipe.padding": "buckets",
                    "recipe.data_order": lambda it: it[::-1],
                    "padding.padding": "buckets",
                    "padding.lengths": [24, 32, 40],
                },
            ),
        ],
    ),
]

IN_CONDITIONS = [*DATA, *METRICS, *MACHINES, *COMPILERS]
