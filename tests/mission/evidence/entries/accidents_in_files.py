"""Accidents in files, jobs, data and columns: what a colleague gets wrong, and must be refused.

Of each, the base is sound, and what is changed is changed with all that follows from it, except
where the damage itself is the accident.
"""

from __future__ import annotations

import numpy as np

from tests.mission.evidence.edits import (
    GONE,
    column,
    damaged,
    declare,
    failed,
    higher,
    jittered,
    judged_by,
    losses_alone,
    lower,
    missing,
    record,
    rows,
)
from tests.mission.evidence.entry import (
    BASELINE,
    CANDIDATE,
    FAIL,
    OPEN,
    Entry,
    either,
    nothing,
    stands,
)
from tests.mission.evidence.generated import classified
from tests.mission.evidence.kinds import (
    in_archives,
    printed,
    reports_alone,
    stopped,
    taken_from_the_cache,
)
from tests.mission.evidence.mistakes import (
    copied,
    cut,
    of_another_job,
    predicted_in_other_units,
    relabelled,
    shuffled_scores,
    swapped,
    trained_on_validation_rows,
    without_steps,
)

FIRST, SECOND = f"{CANDIDATE}--1", f"{CANDIDATE}--2"
LACKS = "what is missing fails closed, and is no evidence of a bad arm either"
NOT_JUDGED = "nothing can be compared with such a baseline"

FILES = [
    Entry(
        "killed-job",
        "One job of the candidate was killed and left nothing.",
        stands(FAIL, OPEN, why=LACKS),
        [missing(CANDIDATE, 2)],
    ),
    Entry(
        "killed-baseline-job",
        "One job of the baseline was killed and left nothing.",
        either(FAIL, OPEN, why="two of its three jobs are sound, and one is missing"),
        [missing(BASELINE, 3)],
    ),
    Entry(
        "crashed-job",
        "One job of the candidate raised, which the launcher recorded.",
        stands(FAIL),
        [failed(CANDIDATE, "RuntimeError: LoweringException in the backward graph", 2)],
    ),
    Entry(
        "crashed-baseline-job",
        "One job of the baseline raised, which the launcher recorded.",
        nothing(FAIL, OPEN, why=NOT_JUDGED),
        [failed(BASELINE, "FileNotFoundError: vocabulary.txt", 3)],
    ),
    Entry(
        "truncated-archive",
        "The upload of one archive broke off.",
        stands(FAIL),
        [damaged(in_archives), damaged(cut(f"{SECOND}/output.tar.gz"))],
    ),
    Entry(
        "truncated-columns",
        "The disk was full when examples.npz was written.",
        stands(FAIL),
        [damaged(cut(f"{SECOND}/evidence/examples.npz", 0.7))],
    ),
    Entry(
        "swapped-seeds",
        "Two folders of the candidate got each other's names.",
        stands(FAIL),
        [damaged(swapped(FIRST, SECOND))],
    ),
    Entry(
        "swapped-arms",
        "A folder of the candidate and one of the baseline got each other's names.",
        nothing(FAIL, OPEN, why=NOT_JUDGED),
        [damaged(swapped(FIRST, f"{BASELINE}--1"))],
    ),
    Entry(
        "copied-columns",
        "A script to repair a bucket put the examples of one seed beside the record of another.",
        stands(FAIL),
        [damaged(copied(FIRST, SECOND, "examples.npz"))],
    ),
    Entry(
        "stale-job",
        "The bucket has one job's evidence of last week, under the candidate's name.",
        stands(FAIL),
        [taken_from_the_cache, of_another_job(CANDIDATE, 2)],
    ),
    Entry(
        "one-job-under-two-seeds",
        "One job's output folder was read for two seeds, each with its own number in the record.",
        stands(FAIL, OPEN, why="a copy, or a seed that counts once"),
        [relabelled(CANDIDATE, 2, 3)],
    ),
    Entry(
        "printed-instead-of-written",
        "The experiment asks for evidence, and the jobs left printed metrics.",
        nothing(FAIL, OPEN, why=LACKS),
        [declare({"evidence": "written"})],
        base="printed",
    ),
    Entry(
        "metric-not-reported",
        "One job of the candidate did not report the guarded score.",
        stands(FAIL, OPEN, why=LACKS),
        [
            judged_by(bleu=higher(0.5, reported=True), loss=lower(0.05, reported=True)),
            reports_alone(bleu=(27.0, 0.3), loss=(1.9, 0.02)),
            record(CANDIDATE, {"metrics.bleu": GONE}, 2),
        ],
    ),
    Entry(
        "slice-without-a-column",
        "A guarded slice names a column that the jobs did not write.",
        stands(FAIL, OPEN, why=LACKS),
        [
            declare(
                {"settings.slices": [{"column": "source", "metric": "accuracy", "margin": 0.05}]}
            )
        ],
    ),
    Entry(
        "no-steps",
        "The candidate's loader was empty: no step was taken.",
        stands(FAIL, OPEN, why=LACKS),
        [without_steps(CANDIDATE)],
    ),
    Entry(
        "no-steps-in-the-baseline",
        "The baseline's loader was empty: no step was taken.",
        nothing(FAIL, OPEN, why=NOT_JUDGED),
        [without_steps(BASELINE)],
    ),
    Entry(
        "fewer-steps-than-recorded",
        "The recipe says 1,000 steps, and the training ended after 640.",
        stands(FAIL),
        [
            jittered(CANDIDATE, 0.1, like=BASELINE),
            stopped(CANDIDATE, {2: 640}),
            record(CANDIDATE, {"recipe.steps": 1000}, 2),
        ],
    ),
]

DATA = [
    Entry(
        "other-training-data",
        "The candidate's jobs trained on last month's data.",
        stands(FAIL),
        [record(CANDIDATE, {"digests.data": "5f" * 16 + "0c" * 16})],
    ),
    Entry(
        "other-validation-rows",
        "The candidate was evaluated on the test split.",
        stands(FAIL),
        [
            column(
                CANDIDATE, "examples", "ids", lambda it: np.char.replace(it, "validation", "test")
            )
        ],
    ),
    Entry(
        "validation-cut-short",
        "The candidate's evaluation stopped after 300 of 480 rows.",
        stands(FAIL),
        [rows(CANDIDATE, lambda count: np.arange(300))],
    ),
    Entry(
        "labels-shifted",
        "The candidate's labels are off by a row.",
        stands(FAIL),
        [
            column(CANDIDATE, "examples", "labels", lambda it: np.roll(it, 1)),
            column(CANDIDATE, "examples", "scores", lambda it: np.roll(it, 1, axis=0)),
            column(CANDIDATE, "examples", "losses", lambda it: np.roll(it, 1)),
        ],
    ),
    Entry(
        "scores-shuffled",
        "The candidate's loader shuffles, and its ids and labels are those of the file.",
        stands(FAIL),
        [shuffled_scores(CANDIDATE)],
    ),
    Entry(
        "some-inputs-differ",
        "The candidate read 37 rows in another encoding.",
        stands(FAIL),
        [
            column(
                CANDIDATE, "examples", "inputs", lambda it: np.where(np.arange(480) < 37, ~it, it)
            )
        ],
    ),
    Entry(
        "inputs-permuted",
        "The candidate's inputs are those of other rows.",
        stands(FAIL),
        [column(CANDIDATE, "examples", "inputs", lambda it: np.roll(it, 1))],
    ),
    Entry(
        "targets-in-other-units",
        "One arm predicts in thousands.",
        stands(FAIL, arm="matrix"),
        [predicted_in_other_units("matrix", 0.001)],
        base="regression",
    ),
    Entry(
        "leaked-rows",
        "The candidate trained on 60 of the validation rows.",
        stands(FAIL),
        [trained_on_validation_rows(CANDIDATE)],
    ),
    Entry(
        "leaked-rows-in-both-arms",
        "Both arms trained on 60 of the validation rows.",
        nothing(FAIL, OPEN, why=NOT_JUDGED),
        [trained_on_validation_rows(BASELINE), trained_on_validation_rows(CANDIDATE)],
    ),
    Entry(
        "leaked-inputs",
        "The candidate trained on nearly all validation inputs, under other ids.",
        stands(FAIL),
        [trained_on_validation_rows(CANDIDATE, name="inputs", count=450)],
    ),
    Entry(
        "ids-that-repeat",
        "The candidate numbers its rows in each worker.",
        stands(FAIL),
        [column(CANDIDATE, "examples", "ids", lambda it: np.tile(it[:120], 4))],
    ),
    Entry(
        "labels-from-one",
        "The candidate counts classes from one.",
        stands(FAIL),
        [column(CANDIDATE, "examples", "labels", lambda it: it + 1)],
    ),
    Entry(
        "logits-for-scores",
        "The candidate writes logits where scores are expected.",
        stands(FAIL),
        [column(CANDIDATE, "examples", "scores", np.log)],
    ),
    Entry(
        "scores-not-finite",
        "One row of the candidate's scores is NaN.",
        stands(FAIL),
        [
            column(
                CANDIDATE,
                "examples",
                name,
                lambda it: np.where(
                    (np.arange(480) == 7).reshape(-1, *[1] * (it.ndim - 1)), np.nan, it
                ),
                2,
            )
            for name in ("scores", "losses")
        ],
    ),
    Entry(
        "one-loss-for-all",
        "The jobs write the mean loss for every example.",
        either(FAIL, OPEN, why="the spread over rows is not known of either arm"),
        [
            judged_by(loss=lower(0.1)),
            losses_alone,
            column(BASELINE, "examples", "losses", lambda it: np.full(len(it), it.mean())),
            column(CANDIDATE, "examples", "losses", lambda it: np.full(len(it), it.mean())),
        ],
    ),
    Entry(
        "printed-in-per-cent",
        "The candidate's script prints its accuracy in per cent.",
        stands(FAIL),
        [printed(CANDIDATE, "accuracy", 98.93, 98.69, 99.11)],
        base="printed",
    ),
    Entry(
        "patients-in-many-rows",
        "Ten images of each patient are right or wrong together, as their ids say. Issue, 2.1.",
        stands(OPEN),
        [
            judged_by(accuracy=higher(0.03)),
            classified(
                600,
                key="patients-1",
                sure=2.6,
                better={CANDIDATE: 0.45},
                ids=lambda row: f"patient-{row % 60}_img{row // 60}",
                members=(np.arange(600) % 60, {CANDIDATE: 1.2}),
            ),
        ],
    ),
]

IN_FILES_AND_DATA = [*FILES, *DATA]
