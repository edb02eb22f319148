"""Cost: what an execution took in seconds, dollars and memory, and when a faster arm has repaid it.

Dollars are measured seconds times a declared price, and only where the evidence itself names the
instance that has the price: a local run measures this machine. Jobs that a step cache answered
count as if they had been run, since their evidence is what the verdict rests on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from compilegate.gate.findings import Code, Outcome, Reason, clipped, failure, undecided
from compilegate.gate.forecast import rounded_up
from compilegate.gate.record import MOST_BYTES
from compilegate.gate.records import Examined
from compilegate.gate.settings import ArmDeclaration, Experiment
from compilegate.gate.speed import ArmSpeed, UnknownSpeed, compile_seconds, compile_times
from compilegate.gate.verdict import (
    Amount,
    ArmCost,
    CandidateCost,
    CandidateVerdict,
    CostFigures,
    MemoryJudgement,
    MoreExamples,
    MoreSeeds,
)
from compilegate.job.evidence import Evidence, EvidenceRecord

INSTANCE_TYPE = "instance_type"
"""Key of the evidence's environment: the instance that the job really ran on."""
MOST_RETRAININGS = 1_000_000
"""Retrainings above this count as never."""


def cost_of(
    experiment: Experiment,
    examined: Examined,
    speeds: Mapping[str, ArmSpeed | UnknownSpeed],
    candidates: Sequence[CandidateVerdict],
) -> CostFigures | None:
    """The cost of one execution, over the jobs whose times stand; None without any. `speeds` are
    those of the same records."""
    baseline = experiment.baseline
    costs = {
        arm: _arm_cost(arm, declared, examined.timed(arm), speeds[arm])
        for arm, declared in experiment.arms.items()
    }
    arms = {arm: cost for arm, cost in costs.items() if cost is not None}
    if not arms:
        return None
    counted = sum(cost.jobs for cost in arms.values())
    # All jobs but one of the baseline's, if it has any.
    gate = Amount.total(*((cost.jobs - (arm == baseline), cost.job) for arm, cost in arms.items()))
    return CostFigures(
        arms=tuple(arms.values()),
        gate=gate,
        jobs_counted=counted,
        jobs_not_counted=len(experiment.replicates) - counted,
        candidates=tuple(
            _candidate_cost(candidate, arms[baseline], arms[candidate.arm], gate)
            for candidate in candidates
            if candidate.metrics and {baseline, candidate.arm} <= set(arms)
        ),
    )


def _arm_cost(
    arm: str,
    declared: ArmDeclaration,
    records: Sequence[EvidenceRecord],
    speed: ArmSpeed | UnknownSpeed,
) -> ArmCost | None:
    """The cost of one arm; None where no job measured its times (printed metrics alone)."""
    jobs = [(it, it.evidence.speed) for it in records if it.evidence.speed is not None]
    if not jobs:
        return None
    names = [record.evidence.environment.get(INSTANCE_TYPE) for record, _ in jobs]
    ran_on = [None if name is None else clipped(str(name), 60) for name in names]
    usd_per_hour, note = _price(declared, ran_on)
    rate = speed.rate if isinstance(speed, ArmSpeed) else None
    unknown = rate is None or usd_per_hour is None
    # Of each job without its own compilation, and with that of a retraining instead.
    others = [max(times.train_seconds - compile_seconds(record), 0.0) for record, times in jobs]
    retraining = float(np.mean(others)) + compile_times([record for record, _ in jobs]).seconds
    whole = [times.total_seconds + _of_probes(record.evidence) for record, times in jobs]
    return ArmCost(
        arm=arm,
        jobs=len(jobs),
        training=_amount(float(np.mean([it.train_seconds for _, it in jobs])), usd_per_hour),
        retraining=_amount(retraining, usd_per_hour),
        job=_amount(float(np.mean(whole)), usd_per_hour),
        samples_per_second=rate,
        samples_per_dollar=None if unknown else rate * 3600.0 / usd_per_hour,
        instance_type=ran_on[0] if len(set(ran_on)) == 1 else None,
        usd_per_hour=usd_per_hour,
        price_note=note,
    )


def _price(declaration: ArmDeclaration, ran_on: Sequence[str | None]) -> tuple[float | None, str]:
    """(dollars per hour, when and where), or (None, why not), for jobs that ran on these instances.

    None in `ran_on` is a job that does not say.
    """
    if set(ran_on) == {None}:
        return None, "The jobs do not say that they ran on a rented instance."
    declared = declaration.instance_type
    others = sorted({name or "an unnamed machine" for name in ran_on if name != declared})
    if others:
        whose = "no instance is declared" if declared is None else f"the price is of {declared}"
        return None, f"Jobs ran on {' and '.join(others)}, and {whose}."
    if declaration.usd_per_hour is None:
        return None, f"No price: {declaration.price_note or f'none of {declared} is declared'}."
    return declaration.usd_per_hour, declaration.price_note or "as declared"


def _of_probes(evidence: Evidence) -> float:
    probes = (evidence.parity, evidence.paired_speed)
    return sum(each.seconds for each in probes if each is not None)


def _amount(seconds: float, usd_per_hour: float | None) -> Amount:
    return Amount(seconds, None if usd_per_hour is None else seconds / 3600.0 * usd_per_hour)


def _candidate_cost(
    candidate: CandidateVerdict, baseline: ArmCost, cost: ArmCost, gate: Amount
) -> CandidateCost:
    saved = Amount.total((1, baseline.retraining), (-1, cost.retraining))
    retrainings, repaid_in = retrainings_to_repay(gate, saved)
    run = None if candidate.speed is None else candidate.speed.run
    breaks_even = None
    if run is not None and run.break_even_steps is not None:
        breaks_even = run.break_even_steps / run.candidate_steps
    all_jobs = Amount.total((baseline.jobs, baseline.job), (cost.jobs, cost.job))
    return CandidateCost(
        arm=candidate.arm,
        saved=saved,
        retrainings_to_repay=retrainings,
        repaid_in=repaid_in,
        break_even_runs=breaks_even,
        compile_state=None if run is None else run.compile_state,
        more_seeds=_more_seeds(candidate, Amount.total((1, baseline.job), (1, cost.job))),
        more_examples=_more_examples(candidate, all_jobs),
    )


def retrainings_to_repay(gate: Amount, saved: Amount) -> tuple[int | None, str]:
    """Retrainings until what they save makes up for the gate, and what that is counted by.

    None where nothing is saved. Counted in dollars where both are known, since arms may run on
    instances of different prices; else in seconds.
    """
    cost, less, unit = gate.seconds, saved.seconds, "seconds"
    if gate.usd is not None and saved.usd is not None:
        cost, less, unit = gate.usd, saved.usd, "dollars"
    if less <= 0.0 or cost / MOST_RETRAININGS > less:
        return None, unit
    return math.ceil(cost / less), unit


def _more_seeds(candidate: CandidateVerdict, one_seed: Amount) -> MoreSeeds | None:
    """`one_seed` is what a seed costs in all arms that need it: the candidate and the baseline."""
    if not _undecided_by(candidate, Code.QUALITY_UNDECIDED, Code.SPEED_UNDECIDED):
        return None
    judged = [*candidate.metrics, *([] if candidate.speed is None else [candidate.speed])]
    undecided = [it for it in judged if it.outcome is Outcome.INCONCLUSIVE]
    needed = [it.seeds_needed for it in undecided if it.seeds_needed is not None]
    if len(needed) < len(undecided):
        return None
    more = max(needed) - undecided[0].seeds
    return MoreSeeds(more, Amount.total((more, one_seed)))


def _more_examples(candidate: CandidateVerdict, all_jobs: Amount) -> MoreExamples | None:
    """`all_jobs` is what all jobs of the candidate and the baseline cost: each scores them all."""
    if not _undecided_by(candidate, Code.QUALITY_UNDECIDED):
        return None
    undecided = [it for it in candidate.metrics if it.outcome is Outcome.INCONCLUSIVE]
    growths = [it.examples_needed / it.examples for it in undecided if it.examples_needed]
    if len(growths) < len(undecided):
        return None
    whole = max(it.examples for it in candidate.metrics)
    return MoreExamples(max(growths), rounded_up(whole * max(growths)), all_jobs)


def _undecided_by(candidate: CandidateVerdict, *codes: Code) -> bool:
    """Whether these are all that keeps an undecided candidate from being decided.

    A fail stays one, and so does a doubt that neither seeds nor examples would lift.
    """
    doubts = {reason.code for reason in candidate.reasons if reason.outcome is Outcome.INCONCLUSIVE}
    return candidate.outcome is Outcome.INCONCLUSIVE and doubts <= set(codes)


# Memory. Only like is held against like: a host's memory says nothing of a GPU's.

_OF: Mapping[str | None, str] = {
    "device": "the device's memory",
    "process": "the process's memory",
}


def judge_memory(
    baseline: Sequence[Evidence], candidate: Sequence[Evidence], limit: float | None
) -> tuple[MemoryJudgement | None, list[Reason]]:
    """Compare the largest peaks of the two arms' jobs that measured them; `limit` is the largest
    relative increase. There is no judgement where either arm has no jobs."""
    if not baseline or not candidate:
        return None, []
    before, before_of = _peak(baseline)
    after, after_of = _peak(candidate)
    increase = obstacle = None
    if before is None or after is None:
        whose = "baseline" if before is None else "candidate"
        obstacle = f"no job of the {whose} measured its memory, or jobs measured two kinds"
    elif before_of != after_of:
        obstacle = f"the baseline measured {_OF[before_of]}, the candidate {_OF[after_of]}"
    else:
        increase = after / before - 1.0
    judgement = MemoryJudgement(
        baseline_bytes=before,
        candidate_bytes=after,
        baseline_of=before_of,
        candidate_of=after_of,
        increase=increase,
        max_increase=limit,
        obstacle=obstacle,
    )
    if limit is None:
        return judgement, []
    if before is None or after is None or increase is None:
        sentence = f"Memory cannot be compared: {obstacle}."
        return judgement, [undecided(Code.MEMORY_NOT_COMPARED, sentence, max_memory_increase=limit)]
    if increase <= limit:
        return judgement, []
    sentence = (
        f"Memory: {after / 1e9:.3g} GB against {before / 1e9:.3g} GB ({increase * 100:+.3g}%), the "
        f"limit is +{limit * 100:.4g}% (max_memory_increase)."
    )
    sizes = {"baseline_bytes": before, "candidate_bytes": after}
    numbers = {**sizes, "increase": increase, "max_memory_increase": limit}
    return judgement, [failure(Code.MEMORY_INCREASED, sentence, **numbers)]


def _peak(jobs: Sequence[Evidence]) -> tuple[int | None, str | None]:
    """The largest peak of the jobs that measured one, and whose memory it is."""
    found = [
        (it.peak_memory_bytes, it.memory_of)
        for it in jobs
        if it.memory_of in _OF and it.peak_memory_bytes and it.peak_memory_bytes <= MOST_BYTES
    ]
    kinds = {of for _, of in found}
    if len(kinds) != 1:
        return None, None
    return max(peak for peak, _ in found), kinds.pop()
