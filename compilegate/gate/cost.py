"""Cost: what an execution took in seconds and dollars, and when a faster arm has repaid it.

Dollars are measured seconds times a declared price, and nothing else. They are told only where the
evidence itself names the instance that has the price: a local run measures seconds of this machine,
on which no price of a rented one has any bearing. Jobs that a step cache answered count as if they
had been run, since their evidence is what the verdict rests on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
    MetricJudgement,
    MoreExamples,
    MoreSeeds,
    SpeedJudgement,
)
from compilegate.job.evidence import Evidence, EvidenceRecord, SpeedRecord

INSTANCE_TYPE = "instance_type"
"""Key of the evidence's environment: the instance that the job really ran on."""
MOST_RETRAININGS = 1_000_000
"""More than that counts as never."""


def cost_of(
    experiment: Experiment,
    examined: Examined,
    speeds: Mapping[str, ArmSpeed | UnknownSpeed],
    candidates: Sequence[CandidateVerdict],
) -> CostFigures | None:
    """The cost of one execution, over the jobs whose times stand; None without any. `speeds` are
    those of the same records."""
    arms = {
        arm: _arm_cost(arm, declared, jobs, speeds[arm])
        for arm, declared in experiment.arms.items()
        if (jobs := _timed(examined.timed(arm)))
    }
    if not arms:
        return None
    counted = sum(cost.jobs for cost in arms.values())
    gate = _gate_amount(arms, experiment.baseline)
    return CostFigures(
        arms=tuple(arms.values()),
        gate=gate,
        jobs_counted=counted,
        jobs_not_counted=len(experiment.replicates) - counted,
        candidates=tuple(
            _candidate_cost(candidate, arms[experiment.baseline], arms[candidate.arm], gate)
            for candidate in candidates
            if candidate.metrics and {experiment.baseline, candidate.arm} <= set(arms)
        ),
    )


def retrainings_to_repay(gate: Amount, saved: Amount) -> tuple[int | None, str]:
    """Retrainings until what they save makes up for the gate, and what that is counted by.

    None where nothing is saved. Counted in dollars where both are known, since arms may run on
    instances of different prices; else in seconds.
    """
    if gate.usd is not None and saved.usd is not None:
        return _times(gate.usd, saved.usd), "dollars"
    return _times(gate.seconds, saved.seconds), "seconds"


def price_that_holds(
    declaration: ArmDeclaration, ran_on: Sequence[str | None]
) -> tuple[float | None, str]:
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


@dataclass(frozen=True)
class _Job:
    """The times of one job."""

    record: EvidenceRecord
    evidence: Evidence
    speed: SpeedRecord
    compile_seconds: float

    @property
    def seconds(self) -> float:
        """From its start to its end, probes included."""
        probes = (self.evidence.parity, self.evidence.paired_speed)
        return self.speed.total_seconds + sum(each.seconds for each in probes if each is not None)


def _timed(records: Sequence[EvidenceRecord]) -> list[_Job]:
    """Those that measured themselves: jobs that only print their metrics do not."""
    return [
        _Job(it, it.evidence, it.evidence.speed, compile_seconds(it))
        for it in records
        if it.evidence.speed is not None and it.evidence.compiler is not None
    ]


def _arm_cost(
    arm: str, declared: ArmDeclaration, jobs: Sequence[_Job], speed: ArmSpeed | UnknownSpeed
) -> ArmCost:
    ran_on = [_ran_on(job.evidence) for job in jobs]
    usd_per_hour, note = price_that_holds(declared, ran_on)
    rate = speed.rate if isinstance(speed, ArmSpeed) else None
    # Of each job without its own compilation, and with that of a retraining instead.
    others = [max(job.speed.train_seconds - job.compile_seconds, 0.0) for job in jobs]
    retraining = _mean(others) + compile_times([job.record for job in jobs]).seconds
    return ArmCost(
        arm=arm,
        jobs=len(jobs),
        training=_amount(_mean([job.speed.train_seconds for job in jobs]), usd_per_hour),
        retraining=_amount(retraining, usd_per_hour),
        job=_amount(_mean([job.seconds for job in jobs]), usd_per_hour),
        samples_per_second=rate,
        samples_per_dollar=_per_dollar(rate, usd_per_hour),
        instance_type=ran_on[0] if len(set(ran_on)) == 1 else None,
        usd_per_hour=usd_per_hour,
        price_note=note,
    )


def _ran_on(evidence: Evidence) -> str | None:
    name = evidence.environment.get(INSTANCE_TYPE)
    return None if name is None else clipped(str(name), 60)


def _per_dollar(rate: float | None, usd_per_hour: float | None) -> float | None:
    if rate is None or usd_per_hour is None:
        return None
    samples = rate * 3600.0 / usd_per_hour
    return samples if math.isfinite(samples) else None


def _amount(seconds: float, usd_per_hour: float | None) -> Amount:
    return Amount(seconds, None if usd_per_hour is None else seconds / 3600.0 * usd_per_hour)


def _gate_amount(arms: Mapping[str, ArmCost], baseline: str) -> Amount:
    """All jobs but one of the baseline's; all of them when the baseline has no sound one."""
    amounts = [
        _times_over(cost.job, cost.jobs - (1 if arm == baseline else 0))
        for arm, cost in arms.items()
    ]
    return _sum(amounts)


def _candidate_cost(
    candidate: CandidateVerdict, baseline: ArmCost, cost: ArmCost, gate: Amount
) -> CandidateCost:
    saved = _sum([baseline.retraining, _times_over(cost.retraining, -1)])
    retrainings, repaid_in = retrainings_to_repay(gate, saved)
    run = None if candidate.speed is None else candidate.speed.run
    return CandidateCost(
        arm=candidate.arm,
        saved=saved,
        retrainings_to_repay=retrainings,
        repaid_in=repaid_in,
        break_even_runs=(
            None
            if run is None or run.break_even_steps is None
            else run.break_even_steps / run.candidate_steps
        ),
        compile_state=None if run is None else run.compile_state,
        more_seeds=_more_seeds(candidate, _sum([baseline.job, cost.job])),
        more_examples=_more_examples(
            candidate,
            _sum([_times_over(arm.job, arm.jobs) for arm in (baseline, cost)]),
        ),
    )


_QUALITY = frozenset({Code.QUALITY_UNDECIDED})
_QUALITY_AND_SPEED = _QUALITY | {Code.SPEED_UNDECIDED}


def _more_seeds(candidate: CandidateVerdict, one_seed: Amount) -> MoreSeeds | None:
    """`one_seed` is what a seed costs in all arms that need it: the candidate and the baseline."""
    if not _undecided_by(candidate, _QUALITY_AND_SPEED):
        return None
    judged: list[MetricJudgement | SpeedJudgement] = [*candidate.metrics]
    judged += [] if candidate.speed is None else [candidate.speed]
    undecided = [item for item in judged if item.outcome is Outcome.INCONCLUSIVE]
    needed = [item.seeds_needed for item in undecided if item.seeds_needed is not None]
    if len(needed) < len(undecided):
        return None
    more = max(needed) - undecided[0].seeds
    return MoreSeeds(more, _times_over(one_seed, more))


def _more_examples(candidate: CandidateVerdict, all_jobs: Amount) -> MoreExamples | None:
    """`all_jobs` is what all jobs of the candidate and the baseline cost: each scores them all."""
    if not _undecided_by(candidate, _QUALITY):
        return None
    undecided = [item for item in candidate.metrics if item.outcome is Outcome.INCONCLUSIVE]
    needed = [
        item.examples_needed / item.examples
        for item in undecided
        if item.examples_needed is not None
    ]
    if len(needed) < len(undecided):
        return None
    growth = max(needed)
    whole = max(item.examples for item in candidate.metrics)
    return MoreExamples(growth, rounded_up(whole * growth), all_jobs)


def _undecided_by(candidate: CandidateVerdict, codes: frozenset[Code]) -> bool:
    """Whether these are all that keeps an undecided candidate from being decided.

    A fail stays one, and so does a doubt that neither seeds nor examples would lift.
    """
    doubts = {reason.code for reason in candidate.reasons if reason.outcome is Outcome.INCONCLUSIVE}
    return candidate.outcome is Outcome.INCONCLUSIVE and doubts <= codes


def _times(cost: float, saved: float) -> int | None:
    if saved <= 0.0 or cost / MOST_RETRAININGS > saved:
        return None
    return math.ceil(cost / saved)


def _times_over(amount: Amount, count: int) -> Amount:
    return Amount(amount.seconds * count, None if amount.usd is None else amount.usd * count)


def _sum(amounts: Sequence[Amount]) -> Amount:
    dollars = [amount.usd for amount in amounts if amount.usd is not None]
    return Amount(
        seconds=sum(amount.seconds for amount in amounts),
        usd=sum(dollars) if len(dollars) == len(amounts) else None,
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


# Memory. Only like is held against like: a host's memory says nothing of a GPU's.

_OF = {"device": "the device's memory", "process": "the process's memory"}


def judge_memory(
    baseline: Sequence[Evidence], candidate: Sequence[Evidence], limit: float | None
) -> tuple[MemoryJudgement | None, list[Reason]]:
    """Compare the largest peaks of the two arms' jobs that measured them; `limit` is the largest
    relative increase. There is no judgement where either arm has no jobs."""
    if not baseline or not candidate:
        return None, []
    before, after = _peak(baseline), _peak(candidate)
    obstacle = None
    for whose, peak in (("baseline", before), ("candidate", after)):
        if peak is None and obstacle is None:
            obstacle = f"no job of the {whose} measured its memory, or jobs measured two kinds"
    if before is not None and after is not None and before[1] != after[1]:
        obstacle = f"the baseline measured {_OF[before[1]]}, the candidate {_OF[after[1]]}"
    comparable = obstacle is None and before is not None and after is not None
    judgement = MemoryJudgement(
        baseline_bytes=None if before is None else before[0],
        candidate_bytes=None if after is None else after[0],
        baseline_of=None if before is None else before[1],
        candidate_of=None if after is None else after[1],
        increase=after[0] / before[0] - 1.0 if comparable and before and after else None,
        max_increase=limit,
        obstacle=obstacle,
    )
    return judgement, [] if limit is None else _about_memory(judgement, limit)


def _peak(jobs: Sequence[Evidence]) -> tuple[int, str] | None:
    """The largest peak of the jobs that measured one, and whose memory it is."""
    found = [
        (it.peak_memory_bytes, it.memory_of)
        for it in jobs
        if it.memory_of in _OF and it.peak_memory_bytes and it.peak_memory_bytes <= MOST_BYTES
    ]
    kinds = {whose for _, whose in found}
    if len(kinds) != 1:
        return None
    return max((peak, str(whose)) for peak, whose in found if peak)


def _about_memory(judgement: MemoryJudgement, limit: float) -> list[Reason]:
    before, after = judgement.baseline_bytes or 0, judgement.candidate_bytes or 0
    if judgement.increase is None:
        sentence = f"Memory cannot be compared: {judgement.obstacle}."
        return [undecided(Code.MEMORY_NOT_COMPARED, sentence, max_memory_increase=limit)]
    if judgement.increase <= limit:
        return []
    sentence = (
        f"Memory: {after / 1e9:.3g} GB against {before / 1e9:.3g} GB "
        f"({judgement.increase * 100:+.3g}%), the limit is +{limit * 100:.4g}% "
        "(max_memory_increase)."
    )
    sizes = {"baseline_bytes": before, "candidate_bytes": after}
    numbers = {**sizes, "increase": judgement.increase, "max_memory_increase": limit}
    return [failure(Code.MEMORY_INCREASED, sentence, **numbers)]
