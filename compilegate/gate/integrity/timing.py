"""Integrity of a job's times: what it says it took must be what its steps took.

Any two times of a record that follow from each other must agree. Steps that a GPU was not waited
for are over in 5 ms each while the training takes as long as before: then the steps do not add up
to the training. A training that is shorter than its steps, or samples a second that are not those
of its steps, were measured on something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from compilegate.evidence import CompileCacheRecord, Evidence, EvidenceRecord, SpeedRecord, Steps
from compilegate.gate.judgements import CompileState
from compilegate.gate.reasons import Code, Reason, Subject, clipped
from compilegate.gate.settings import ArmDeclaration, Experiment
from compilegate.gate.speed.steady import added_seconds, steady_mask

ROUNDING = 0.01
"""How much of a time two clocks of one job may differ by."""
MOST_BETWEEN_STEPS = 0.10
MOST_SECONDS_BETWEEN = 0.5
"""The share of a training, and the seconds besides, that may pass between its steps: loops,
logging, what a job does around the first step and the last."""
MOST_TIMES_TRAINING = 10.0
MOST_SECONDS_BESIDE = 6 * 3600.0
"""How long a job may take beside its training: data, start and evaluation, a short night of them,
and ten times the training."""
MOST_EXAMPLES = 10**12
SPEED_TOLERANCE = 1.25
"""The factor by which reported samples per second may be off: other steps count as steady for the
job than for the gate."""


def check_times(
    evidence: Evidence, steps: Steps, declaration: ArmDeclaration | None, about: Subject
) -> Iterator[Reason]:
    """Whether steps, training, the whole job and its speed agree; `steps` are all plausible."""
    speed = evidence.speed
    if speed is None:
        return
    yield from _check_sums(evidence, speed, steps, about)
    if speed.total_seconds < (1.0 - ROUNDING) * speed.train_seconds:
        yield about.fails(
            Code.EVIDENCE_IMPLAUSIBLE,
            f"speed.total_seconds is {speed.total_seconds:.6g}, but the training in it took "
            f"{speed.train_seconds:.6g} s (speed.train_seconds).",
        )
    yield from _check_total(speed, about)
    if declaration is not None:
        yield from _check_reported_speed(evidence, speed, steps, declaration, about)


def _check_sums(
    evidence: Evidence, speed: SpeedRecord, steps: Steps, about: Subject
) -> Iterator[Reason]:
    in_steps = float(steps.seconds.sum())
    told = speed.train_seconds
    if told < (1.0 - ROUNDING) * in_steps:
        yield about.fails(
            Code.EVIDENCE_IMPLAUSIBLE,
            f"speed.train_seconds is {told:g}, but the steps in steps.npz took {in_steps:g} s.",
        )
        return
    known = in_steps + _outside_of_steps(evidence, steps)
    left = told - known
    if left > MOST_BETWEEN_STEPS * told + MOST_SECONDS_BETWEEN:
        yield about.fails(
            Code.STEPS_TIME_UNACCOUNTED,
            f"the training took {told:.4g} s (speed.train_seconds), and its steps, compilation and "
            f"checkpoints account for {known:.4g} s: {left:.4g} s are of no step. Where a GPU "
            "computes, wait for it before a step's time is taken, or time steps with "
            "compilegate.job.",
            train_seconds=told,
            accounted_seconds=known,
        )


def _check_total(speed: SpeedRecord, about: Subject) -> Iterator[Reason]:
    """Whether a job took so long that it did hardly anything else than wait."""
    most = speed.train_seconds * MOST_TIMES_TRAINING + MOST_SECONDS_BESIDE
    if speed.total_seconds > most:
        yield about.fails(
            Code.STEPS_TOTAL_UNACCOUNTED,
            f"the job took {speed.total_seconds:,.0f} s (speed.total_seconds), and the training "
            f"in it {speed.train_seconds:,.4g} s: see whether both are in seconds.",
            total_seconds=speed.total_seconds,
            train_seconds=speed.train_seconds,
        )


def _outside_of_steps(evidence: Evidence, steps: Steps) -> float:
    """Seconds of the training that the record says were of no step."""
    found = sum(each.lost_seconds for each in evidence.resumed)
    if evidence.checkpoints is not None:
        found += evidence.checkpoints.seconds
    if evidence.compiler is not None:
        before = evidence.compiler.compile_seconds - added_seconds(evidence, steps)
        found += max(before, 0.0)
    return found


def _check_reported_speed(
    evidence: Evidence,
    speed: SpeedRecord,
    steps: Steps,
    declaration: ArmDeclaration,
    about: Subject,
) -> Iterator[Reason]:
    size = examples_of_a_step(evidence, declaration)
    steady = steps.seconds[steady_mask(evidence, steps)]
    own = steps.seconds[speed.steady_from :]
    rates = [size / float(each.mean()) for each in (steady, own, steps.seconds) if each.size]
    told = speed.samples_per_second
    if min(rates) / SPEED_TOLERANCE <= told <= max(rates) * SPEED_TOLERANCE:
        return
    yield about.fails(
        Code.STEPS_SPEED_DIFFERS,
        f"the job says that it trained {told:.4g} samples a second, and steps of {size} samples "
        f"that take {float(np.mean(steady if steady.size else steps.seconds)):.4g} s are "
        f"{rates[0]:.4g}.",
        reported=told,
        computed=rates[0],
    )


def examples_of_a_step(evidence: Evidence, declaration: ArmDeclaration) -> int:
    """Training examples of an optimizer's step, of all processes and micro-batches."""
    told = evidence.recipe.get("global_batch_size")
    whole = isinstance(told, int) and not isinstance(told, bool) and 0 < told <= MOST_EXAMPLES
    return told if whole and isinstance(told, int) else declaration.global_batch_size


def examples_of_steps(
    experiment: Experiment, timed: Callable[[str], Sequence[EvidenceRecord]]
) -> dict[str, int]:
    """By arm, the examples of its steps: what all its jobs say, as with micro-batches, or else the
    declared ones. A candidate's word counts where its steps are like the baseline's."""
    arms, baseline = experiment.arms, experiment.baseline
    told = {arm: _told_by_all(timed(arm), declared) for arm, declared in arms.items()}
    return {
        arm: told[arm]
        if arm == baseline or told[arm] == told[baseline]
        else declared.global_batch_size
        for arm, declared in arms.items()
    }


def _told_by_all(records: Sequence[EvidenceRecord], declaration: ArmDeclaration) -> int:
    """Only a multiple of the declared batch is believed: micro-batches are whole ones."""
    told = {examples_of_a_step(record.evidence, declaration) for record in records}
    if len(told) == 1:
        (size,) = told
        if size % declaration.global_batch_size == 0:
            return size
    return declaration.global_batch_size


def check_cache(cache: CompileCacheRecord, about: Subject) -> Iterator[Reason]:
    """Whether the state of a compile cache is what its counts say."""
    found = f"{cache.hits} hits and {cache.misses} misses"
    if cache.state == CompileState.WARM and (cache.misses or not cache.hits):
        yield about.fails(
            Code.COMPILER_CACHE_CONTRADICTS,
            f"the compile cache is called warm with {clipped(found)}: every graph of a warm job "
            "comes from the cache.",
        )
