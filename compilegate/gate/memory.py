"""Memory: does a candidate take much more of it than the baseline? Pure.

Only like is held against like: the memory of a device against that of a device, that of a process
against that of a process. A host's memory says nothing of a GPU's. Where a limit is declared and
the two cannot be compared, the candidate fails: nobody knows that it fits.
"""

from __future__ import annotations

from collections.abc import Sequence

from compilegate.evidence import Evidence
from compilegate.gate.integrity.replicate import MOST_BYTES
from compilegate.gate.judgements import MemoryJudgement
from compilegate.gate.reasons import Code, Outcome, Reason, clipped, failure

_OF = {"device": "the device's memory", "process": "the process's memory"}


def judge_memory(
    baseline: Sequence[Evidence], candidate: Sequence[Evidence], limit: float | None
) -> tuple[MemoryJudgement | None, Reason | None]:
    """Compare the largest peaks of two arms' jobs; `limit` is the largest relative increase.

    There is no reason where no limit is declared, and no judgement where either arm has no jobs.
    """
    if not baseline or not candidate:
        return None, None
    before, after = _peak(baseline), _peak(candidate)
    obstacle = _obstacle(baseline, candidate)
    increase = None
    if obstacle is None and before is not None and after is not None:
        increase = after / before - 1.0
    judgement = MemoryJudgement(
        baseline_bytes=before,
        candidate_bytes=after,
        baseline_of=_whose(baseline),
        candidate_of=_whose(candidate),
        increase=increase,
        max_increase=limit,
        obstacle=obstacle,
    )
    return judgement, None if limit is None else _reason(judgement, limit)


def _peak(jobs: Sequence[Evidence]) -> int | None:
    """The largest peak of the jobs; None unless all of them measured one of the same kind."""
    peaks = [_measured(job) for job in jobs]
    known = [peak for peak in peaks if peak is not None]
    return max(known) if len(known) == len(peaks) and _whose(jobs) is not None else None


def _measured(job: Evidence) -> int | None:
    """A job's peak; None without one, or where it does not say whose memory it is."""
    peak = job.peak_memory_bytes
    return peak if job.memory_of and peak and peak <= MOST_BYTES else None


def _whose(jobs: Sequence[Evidence]) -> str | None:
    kinds = {job.memory_of for job in jobs}
    return kinds.pop() if len(kinds) == 1 else None


def _obstacle(baseline: Sequence[Evidence], candidate: Sequence[Evidence]) -> str | None:
    """Why the two cannot be compared, in a sentence without its full stop."""
    for whose, jobs in (("baseline", baseline), ("candidate", candidate)):
        missing = next((job for job in jobs if _measured(job) is None), None)
        if missing is not None:
            return f"job {clipped(missing.job, 80)} of the {whose} did not measure its memory"
        if _whose(jobs) is None:
            return f"some jobs of the {whose} measured a device's memory, and others a process's"
    before, after = _whose(baseline), _whose(candidate)
    if before != after:
        return f"the baseline's jobs measured {_named(before)}, and the candidate's {_named(after)}"
    return None


def _named(whose: str | None) -> str:
    return _OF.get(whose or "", "nothing that is known")


def _reason(judgement: MemoryJudgement, limit: float) -> Reason:
    before, after, increase = (
        judgement.baseline_bytes,
        judgement.candidate_bytes,
        judgement.increase,
    )
    if before is None or after is None or increase is None:
        sentence = (
            f"Memory cannot be compared: {judgement.obstacle}. max_memory_increase requires it: "
            "measure all arms alike, as compilegate.job does on one kind of machine, or take the "
            "limit away."
        )
        return failure(Code.MEMORY_NOT_COMPARED, sentence, max_memory_increase=limit)
    change = f"{abs(increase) * 100:.3g}% {'more' if increase >= 0.0 else 'less'}"
    sentence = (
        f"The candidate takes {_gigabytes(after)} of {_named(judgement.candidate_of)}, {change} "
        f"than the baseline's {_gigabytes(before)}; {limit * 100:.4g}% more is allowed "
        "(max_memory_increase)."
    )
    numbers = {
        "baseline_bytes": before,
        "candidate_bytes": after,
        "increase": increase,
        "max_memory_increase": limit,
    }
    if increase > limit:
        return Reason(Code.MEMORY_INCREASED, Outcome.FAIL, sentence, numbers)
    return Reason(Code.MEMORY_WITHIN, Outcome.PASS, sentence, numbers)


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.3g} GB"
