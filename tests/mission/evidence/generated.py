"""Validation outputs with known properties, in place of those that a base's models gave.

For what a base cannot show by a few changed rows: other numbers of rows, groups, tails, classes.
Both arms of a seed share what the seed does; what an arm adds is noise, and the harm that is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tests.mission.evidence.edits import Edit, chance, rescored, softmax
from tests.mission.evidence.files import Array, Execution, Job


def classified(
    rows: int,
    *,
    key: str,
    shares: Sequence[float] = (0.25, 0.25, 0.25, 0.25),
    sure: float = 2.4,
    noise: float = 0.15,
    seed_noise: float = 0.4,
    better: Mapping[str, float] | None = None,
    ids: Callable[[int], str] = "row-{:05d}".format,
    groups: tuple[str, Array] | None = None,
    members: tuple[Array, Mapping[str, float]] | None = None,
) -> Edit:
    """Examples of classes, with continuous scores.

    The label's logit is ahead by `sure` on average; every row has a difficulty of its own.
    `noise`: what the same seed's models of two arms differ by; `seed_noise`: two seeds.
    `better`: by arm, what is added to the label's logit. `groups`: a column of categories with its
    values by row. `members`: by row, the number of what it is a part of; and by arm, the standard
    deviation of what each of those adds to the label's logit.
    """

    def edit(execution: Execution) -> None:
        draw = chance("classified", key)
        labels = np.repeat(np.arange(len(shares)), np.round(np.array(shares) * rows).astype(int))
        labels = draw.permutation(labels)
        logits = draw.normal(0.0, 1.0, (rows, len(shares)))
        logits[np.arange(rows), labels] += sure
        for (arm, seed), job in execution.jobs.items():
            own = logits + chance(key, "seed", seed).normal(0.0, seed_noise, logits.shape)
            own += chance(key, arm, seed).normal(0.0, noise, logits.shape)
            added = np.full(rows, (better or {}).get(arm, 0.0))
            if members is not None and (spread := members[1].get(arm, 0.0)):
                numbers = members[0]
                own_draw = chance(key, arm, "members")
                added += own_draw.normal(0.0, spread, int(numbers.max()) + 1)[numbers]
            own[np.arange(rows), labels] += added
            _replace(job, {"ids": np.array([ids(row) for row in range(rows)]), "labels": labels})
            if groups is not None:
                job.examples[f"slice:{groups[0]}"] = groups[1]
            rescored(job, softmax(own))

    return edit


def predicted(
    rows: int,
    *,
    key: str,
    errors: Callable[[np.random.Generator, int], Array] | None = None,
    noise: float = 0.02,
    seed_noise: float = 0.05,
    harm: Mapping[str, Callable[[np.random.Generator, int], Array]] | None = None,
) -> Edit:
    """Predicted numbers with errors of a standard deviation of one, or as `errors` draws them.

    `harm`: by arm, what is added to the absolute errors of each seed's models.
    """

    def edit(execution: Execution) -> None:
        draw = chance("predicted", key)
        targets = draw.normal(0.0, 10.0, rows)
        usual = draw.normal(0.0, 1.0, rows) if errors is None else errors(draw, rows)
        for (arm, seed), job in execution.jobs.items():
            own = usual + chance(key, "seed", seed).normal(0.0, seed_noise, rows)
            own += chance(key, arm, seed).normal(0.0, noise, rows)
            if harm is not None and arm in harm:
                own += np.sign(own) * harm[arm](chance(key, arm, seed, "harm"), rows)
            ids = np.array([f"row-{row:05d}" for row in range(rows)])
            _replace(job, {"ids": ids, "labels": np.zeros(rows, dtype=np.int64)})
            job.examples.update(
                {
                    **{"scores": np.zeros((rows, 0)), "losses": own**2},
                    **{"targets": targets, "predictions": targets + own},
                }
            )
            job.measure()

    return edit


def _replace(job: Job, columns: dict[str, Array]) -> None:
    """Other rows; what the job trained on then has nothing to do with them."""
    job.files["examples"] = columns
    job.files.pop("trained_on", None)
