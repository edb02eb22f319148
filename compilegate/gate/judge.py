"""Composes the gate: all evidence of one execution in, the verdict out. Pure.

The evidence is examined, each candidate is measured once, its confidence is chosen, and it is
judged at it. A finding that refuses a candidate hides nothing: quality, parity and speed are judged
as far as the evidence allows, and the gravest comes first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from compilegate.gate.confounds import about_confounds, about_hardware, find_confounds
from compilegate.gate.cost import cost_of, judge_memory
from compilegate.gate.decision import Registered, below_registered, decide
from compilegate.gate.evidence import Replicate
from compilegate.gate.findings import (
    Code,
    Note,
    Outcome,
    Reason,
    failure,
    gravest_first,
    split,
    undecided,
    worst,
)
from compilegate.gate.metrics import MetricValues
from compilegate.gate.parity import judge_parity
from compilegate.gate.quality import (
    ArmQuality,
    Replicates,
    compare_arms,
    find_compiler_only,
    judge_quality,
    noise_floors,
    released_is_worse,
    split_effect,
)
from compilegate.gate.record import examples_of_steps
from compilegate.gate.records import (
    Examined,
    Records,
    about_precision,
    about_repeated,
    examine,
    have_one_recipe,
)
from compilegate.gate.scores import check_scores, too_good
from compilegate.gate.settings import Experiment
from compilegate.gate.speed import (
    ArmSpeed,
    Pairs,
    UnknownSpeed,
    about_hindrances,
    about_speed,
    busy_machine,
    judge_speed,
    measure_arm,
    paired_jobs,
)
from compilegate.gate.statistics import about_few_seeds, about_holm, holm, judge_failures
from compilegate.gate.verdict import (
    BaselineVerdict,
    CandidateVerdict,
    Confound,
    EffectSplit,
    MemoryJudgement,
    MetricJudgement,
    ParityJudgement,
    SpeedJudgement,
    Verdict,
)
from compilegate.job.evidence import EvidenceError, EvidenceRecord

MOST_CONFOUNDS = 200
"""Differences that a verdict lists."""
PRINTED_ONLY = Note(
    Code.PRINTED_ONLY,
    "The jobs left only printed metrics: nothing proves that the compiler ran, that both arms saw "
    "the same data, or that compiling was repaid.",
)


@dataclass(frozen=True)
class _Measured:
    """All that is known of a candidate before a confidence is chosen."""

    arm: str
    said: Sequence[Reason | Note]
    """What holds at any confidence."""
    quality: ArmQuality | None
    """None where there is nothing to compare."""
    compiler_only: str | None
    """The candidate with the same compiler that differs from the baseline by it alone."""
    parity: ParityJudgement | None
    memory: MemoryJudgement | None
    confounds: tuple[Confound, ...]
    pairs: Pairs
    failed_seeds: int


def judge(
    experiment: Experiment,
    records: Records,
    jobs: Mapping[Replicate, str] | None = None,
    values: MetricValues | None = None,
    registered: Registered | None = None,
) -> Verdict:
    """The verdict on one execution.

    `records` holds, for each (arm, seed), the evidence or the error that reading it met; one that
    is not there is missing evidence. `jobs` names the training job that this execution ran, or took
    from the step cache, for each (arm, seed): evidence of another job fails. None skips that check.
    `values` may be shared with `observe`, so that metrics are computed once. `registered` is the
    model that was registered last.
    """
    values = MetricValues() if values is None else values
    examined = examine(experiment, records, jobs)
    quality, compiler_only = _compare(examined, values)
    examined = _with_scores(examined, values)
    speeds = {
        arm: measure_arm(_step_size(examined, arm), examined.timed(arm)) for arm in experiment.arms
    }
    dropped = {arm: _below_registered(examined, arm, registered, values) for arm in experiment.arms}
    measured = {
        arm: _measure(
            examined,
            arm,
            quality.get(arm),
            compiler_only.get(arm),
            dropped=dropped[arm],
            values=values,
        )
        for arm in experiment.candidates
    }
    confidences = holm(
        experiment.candidates,
        experiment.settings.confidence,
        lambda arm, level: (
            _conclude(examined, measured, speeds, arm, level).outcome is Outcome.PASS
        ),
    )
    baseline = _judge_baseline(examined, dropped[experiment.baseline], values)
    candidates = tuple(
        _conclude(examined, measured, speeds, arm, confidences[arm])
        for arm in experiment.candidates
    )
    return Verdict(
        workload=experiment.workload,
        seeds=tuple(experiment.seeds),
        confidence=experiment.settings.confidence,
        decision=decide(experiment, baseline, candidates, _registered_arms(examined, registered)),
        baseline=baseline,
        candidates=candidates,
        cost=cost_of(experiment, examined, speeds, candidates),
    )


def _compare(
    examined: Examined, values: MetricValues
) -> tuple[dict[str, ArmQuality], dict[str, str]]:
    """The quality of each candidate that can be compared, and the compiler-only one of each. Those
    that are compared on the same seeds are compared together."""
    experiment = examined.experiment
    together: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for arm in experiment.candidates:
        seeds = examined.distinct((experiment.baseline, arm))
        if seeds:
            together[seeds].append(arm)
    quality: dict[str, ArmQuality] = {}
    compiler_only: dict[str, str] = {}
    for seeds, arms in together.items():
        among = find_compiler_only(experiment, arms)
        candidates = {arm: _replicates(examined, arm, seeds) for arm in arms}
        baseline = _replicates(examined, experiment.baseline, seeds)
        quality |= compare_arms(experiment.settings, baseline, candidates, among, values)
        compiler_only |= among
    return quality, compiler_only


def _replicates(examined: Examined, arm: str, seeds: Sequence[int]) -> Replicates:
    """What records of these seeds measured."""
    records = [examined.records[arm, seed] for seed in seeds]
    examples = [record.examples for record in records if record.examples is not None]
    return Replicates(
        examples=examples if len(examples) == len(records) else [],
        reported=[record.evidence.metrics for record in records],
    )


def _with_scores(examined: Examined, values: MetricValues) -> Examined:
    """What was examined, with what the arms' metrics show by themselves."""
    experiment, settings = examined.experiment, examined.experiment.settings
    findings = defaultdict(list, {key: list(it) for key, it in examined.findings.items()})
    scored = {
        arm: {seed: examined.records[arm, seed] for seed in examined.scored(arm)}
        for arm in experiment.arms
    }
    before = experiment.arms[experiment.baseline]
    for arm, records in scored.items():
        for seed, finding in check_scores(arm, records, settings, values):
            findings[arm, seed].append(finding)
        if arm != experiment.baseline and have_one_recipe(before, experiment.arms[arm]):
            for finding in too_good(scored[experiment.baseline], records, settings, values):
                findings[arm, min(records)].append(finding)
    return replace(examined, findings={key: tuple(it) for key, it in findings.items()})


def _step_size(examined: Examined, arm: str) -> int:
    """The examples of an arm's step: what its jobs say, where the baseline's say the same."""
    arms, baseline = examined.experiment.arms, examined.experiment.baseline
    own, usual = (examples_of_steps(examined.timed(name), arms[name]) for name in (arm, baseline))
    return own if arm == baseline or own == usual else arms[arm].global_batch_size


def _measure(
    examined: Examined,
    arm: str,
    quality: ArmQuality | None,
    compiler_only: str | None,
    *,
    dropped: Sequence[Reason],
    values: MetricValues,
) -> _Measured:
    experiment, settings = examined.experiment, examined.experiment.settings
    declared, before = experiment.arms[arm], experiment.arms[experiment.baseline]
    seeds = examined.distinct((experiment.baseline, arm))
    said: list[Reason | Note] = [*examined.reasons(arm), *examined.notes(arm), *dropped]
    said += _about_baseline(examined, arm, seeds)
    repeated = {about_repeated(examined, name) for name in (experiment.baseline, arm)} - {None}
    for sentence in sorted(map(str, repeated)):
        enough = len(seeds) > 1
        code = Code.MODEL_SEED_UNUSED
        said.append(Note(code, sentence) if enough else undecided(code, sentence))
    own, usual = (
        [it.evidence for it in examined.trained(name).values()]
        for name in (arm, experiment.baseline)
    )
    usual_seeds = examined.trained(experiment.baseline)
    both = [seed for seed in examined.trained(arm) if seed in usual_seeds]
    confounds = find_confounds(
        [examined.records[experiment.baseline, seed].evidence for seed in both],
        [examined.records[arm, seed].evidence for seed in both],
        (before, declared),
        settings.examples_tolerance,
    )
    memory, about_memory = judge_memory(usual, own, settings.max_memory_increase)
    said += [*about_confounds(confounds), *about_memory]
    parity = None
    if declared.compiled:
        parity, about_parity = judge_parity(arm, examined.trained(arm), settings.parity)
        said += [*about_parity, *about_hindrances([it.evidence for it in examined.timed(arm)])]
    if experiment.evidence == "written" and own and usual:
        said += about_hardware([*usual, *own])
    pairs = paired_jobs(examined.timed(arm), before, declared)
    precision = about_precision(experiment, examined.records, arm)
    said += [] if precision is None else [precision]
    if quality is not None:
        said += quality.said
        said += [PRINTED_ONLY] if experiment.evidence == "printed" else []
        said += _about_released(examined, arm, seeds, values)
    failed_jobs = sum(not examined.was_trained(arm, seed) for seed in experiment.seeds)
    failed = [] if quality is None else [it.failed for it in quality.comparisons if it.failed]
    failed_seeds = sum(any(of_seed) for of_seed in zip(*failed, strict=False))
    return _Measured(
        arm=arm,
        said=said,
        quality=quality,
        compiler_only=compiler_only,
        parity=parity,
        memory=memory,
        confounds=tuple(sorted(confounds, key=lambda it: it.intended)[:MOST_CONFOUNDS]),
        pairs=pairs,
        failed_seeds=min(failed_jobs + failed_seeds, len(experiment.seeds)),
    )


def _about_baseline(examined: Examined, arm: str, seeds: Sequence[int]) -> list[Reason | Note]:
    """What the baseline's evidence decides, before any comparison."""
    experiment = examined.experiment
    if examined.reasons(experiment.baseline):
        follows = "so nothing compared with it can pass" if seeds else "so there is no comparison"
        return [failure(Code.BASELINE_UNSOUND, f"The baseline is not valid, {follows}.")]
    return []


def _below_registered(
    examined: Examined, arm: str, registered: Registered | None, values: MetricValues
) -> list[Reason]:
    """Why the model that the arm would release is too far below the registered one."""
    experiment, seed = examined.experiment, examined.experiment.seeds[0]
    if seed not in examined.scored(arm):
        return []
    record = examined.records[arm, seed]
    return list(below_registered(experiment.settings, record, registered, values))


def _registered_arms(examined: Examined, registered: Registered | None) -> frozenset[str]:
    """The arms whose model to release is the registered one: it has the same digest."""
    if registered is None or not registered.as_now:
        return frozenset()
    if isinstance(registered.evidence, EvidenceError):
        return frozenset()
    seed = examined.experiment.seeds[0]
    digest = registered.evidence.evidence.digests.get("model")
    return frozenset(
        arm
        for arm in examined.experiment.arms
        if isinstance(record := examined.records.get((arm, seed)), EvidenceRecord)
        and digest is not None
        and record.evidence.digests.get("model") == digest
    )


def _about_released(
    examined: Examined, arm: str, seeds: Sequence[int], values: MetricValues
) -> list[Reason]:
    """What is wrong with the one model of the arm that would be released."""
    experiment, first = examined.experiment, examined.experiment.seeds[0]
    if first not in seeds or len(seeds) < 2:
        return []
    in_order = (first, *(seed for seed in seeds if seed != first))
    before, after = (_replicates(examined, name, in_order) for name in (experiment.baseline, arm))
    return released_is_worse(experiment.settings, first, before, after, values)


def _conclude(
    examined: Examined,
    measured: Mapping[str, _Measured],
    speeds: Mapping[str, ArmSpeed | UnknownSpeed],
    arm: str,
    confidence: float,
) -> CandidateVerdict:
    """The candidate's verdict at this confidence."""
    experiment, settings, candidate = (
        examined.experiment,
        examined.experiment.settings,
        measured[arm],
    )
    said = list(candidate.said)
    metrics: list[MetricJudgement] = []
    effects: list[EffectSplit] = []
    speed: SpeedJudgement | None = None
    if candidate.quality is not None:
        metrics, about_quality = judge_quality(candidate.quality, confidence)
        said += about_quality
        if not metrics:
            said.append(undecided(Code.METRIC_UNDEFINED, "No metric could be compared."))
        effects, about_effects = _effects(examined, measured, candidate, metrics, confidence)
        said += [*about_effects, *about_few_seeds(len(experiment.seeds), confidence)]
        if settings.max_failure_rate is not None:
            rate = settings.max_failure_rate
            seeds = len(experiment.seeds)
            said.append(judge_failures(seeds, candidate.failed_seeds, rate, confidence))
    if arm in speeds:
        timed = [*examined.timed(experiment.baseline), *examined.timed(arm)]
        speed, about = judge_speed(
            speeds[experiment.baseline],
            speeds[arm],
            settings,
            confidence,
            candidate.pairs,
            busy_machine=busy_machine(timed),
        )
        said += [*about, *([] if speed is None else about_speed(speed, candidate.pairs))]
    said += about_holm(len(experiment.candidates), settings.confidence, confidence)
    reasons, notes = split(said)
    return CandidateVerdict(
        arm=arm,
        outcome=worst(reason.outcome for reason in reasons),
        reasons=gravest_first(reasons),
        metrics=tuple(metrics),
        speed=speed,
        confounds=candidate.confounds,
        confidence=confidence,
        parity=candidate.parity,
        memory=candidate.memory,
        effects=tuple(effects),
        notes=tuple(notes),
    )


def _effects(
    examined: Examined,
    measured: Mapping[str, _Measured],
    candidate: _Measured,
    metrics: Sequence[MetricJudgement],
    confidence: float,
) -> tuple[list[EffectSplit], list[Note]]:
    only, quality = candidate.compiler_only, candidate.quality
    if only is None or quality is None or measured[only].quality is None or not metrics:
        return [], []
    of_only, _ = judge_quality(measured[only].quality or ArmQuality(), confidence)
    by_compiler = {it.metric: it for it in of_only if it.part is None}
    arms = examined.experiment.arms
    found = [
        split_effect(
            metric,
            contrast,
            only,
            by_compiler[metric],
            declarations=(arms[only], arms[candidate.arm]),
            confidence=confidence,
        )
        for metric, contrast in quality.contrasts.items()
        if metric in by_compiler
    ]
    return [effect for effect, _ in found], [note for _, note in found]


def _judge_baseline(
    examined: Examined, dropped: Sequence[Reason], values: MetricValues
) -> BaselineVerdict:
    experiment = examined.experiment
    baseline, reasons = experiment.baseline, examined.reasons(experiment.baseline)
    floors = ()
    if not reasons and len(experiment.seeds) > 1:
        replicates = _replicates(examined, baseline, experiment.seeds)
        floors = tuple(noise_floors(experiment.settings, replicates, values))
    return BaselineVerdict(
        arm=baseline,
        sound=not reasons,
        reasons=gravest_first([*reasons, *dropped]),
        noise_floor=floors,
    )
