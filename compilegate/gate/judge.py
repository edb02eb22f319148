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
from compilegate.gate.parity_findings import judge_parity
from compilegate.gate.quality import (
    ArmQuality,
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
    about_slowdowns,
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
    Verdict,
)

MOST_CONFOUNDS = 200
"""Differences that a verdict lists."""
PRINTED_ONLY = Note(
    Code.PRINTED_ONLY,
    "The jobs left only printed metrics: nothing proves that the compiler ran, that both arms saw "
    "the same data, or that compiling was repaid.",
)


@dataclass(frozen=True)
class _Measured:
    """A candidate's measurements, before a confidence is chosen."""

    arm: str
    statements: Sequence[Reason | Note]
    """Reasons and notes that hold at any confidence."""
    quality: ArmQuality | None
    """None without comparable evidence."""
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
    first = experiment.seeds[0]
    scored = {arm: examined.scored(arm) for arm in experiment.arms}
    released = {arm: records[first] for arm, records in scored.items() if first in records}
    dropped = {
        arm: tuple(below_registered(experiment.settings, record, registered, values))
        for arm, record in released.items()
    }
    measured = {
        arm: _measure(examined, arm, quality.get(arm), dropped.get(arm, ()), values)
        for arm in experiment.candidates
    }

    def concluded(arm: str, confidence: float) -> CandidateVerdict:
        only = measured.get(compiler_only.get(arm, ""))
        return _conclude(examined, measured[arm], only, speeds, confidence)

    confidences = holm(
        experiment.candidates,
        experiment.settings.confidence,
        lambda arm, confidence: concluded(arm, confidence).outcome is Outcome.PASS,
    )
    baseline = _judge_baseline(examined, dropped.get(experiment.baseline, ()), values)
    candidates = tuple(concluded(arm, confidences[arm]) for arm in experiment.candidates)
    return Verdict(
        workload=experiment.workload,
        seeds=tuple(experiment.seeds),
        confidence=experiment.settings.confidence,
        decision=decide(experiment, baseline, candidates, released, registered),
        baseline=baseline,
        candidates=candidates,
        cost=cost_of(experiment, examined, speeds, candidates),
        rules=experiment.settings.model_dump(mode="json"),
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
        candidates = {arm: examined.of_seeds(arm, seeds) for arm in arms}
        baseline = examined.of_seeds(experiment.baseline, seeds)
        quality |= compare_arms(experiment.settings, baseline, candidates, among, values)
        compiler_only |= among
    return quality, compiler_only


def _with_scores(examined: Examined, values: MetricValues) -> Examined:
    """The examined records, with the findings about each arm's own metrics."""
    experiment, settings = examined.experiment, examined.experiment.settings
    findings = defaultdict(list, {key: list(it) for key, it in examined.findings.items()})
    scored = {arm: examined.scored(arm) for arm in experiment.arms}
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
    dropped: Sequence[Reason],
    values: MetricValues,
) -> _Measured:
    experiment, settings = examined.experiment, examined.experiment.settings
    baseline, declared = experiment.baseline, experiment.arms[arm]
    before = experiment.arms[baseline]
    seeds = examined.distinct((baseline, arm))
    own, usual = examined.trained(arm), examined.trained(baseline)
    jobs, usual_jobs = ([it.evidence for it in each.values()] for each in (own, usual))
    both = [seed for seed in own if seed in usual]
    confounds = find_confounds(
        [usual[seed].evidence for seed in both],
        [own[seed].evidence for seed in both],
        (before, declared),
        settings.examples_tolerance,
    )
    memory, about_memory = judge_memory(usual_jobs, jobs, settings.max_memory_increase)
    statements: list[Reason | Note] = [
        *examined.reasons(arm),
        *examined.notes(arm),
        *dropped,
        *_about_seeds(examined, arm, seeds),
        *about_confounds(confounds),
        *about_memory,
    ]
    parity = None
    if declared.compiled:
        probed = examined.probed(arm)
        parity, about_parity = judge_parity(arm, probed, settings.parity)
        # Where the probe ended a job, what it found is why.
        statements = (
            [*about_parity, *statements]
            if probed.keys() - own.keys()
            else [*statements, *about_parity]
        )
        statements += about_slowdowns([it.evidence for it in examined.timed(arm)])
    if experiment.evidence == "written" and jobs and usual_jobs:
        statements += about_hardware([*usual_jobs, *jobs])
    precision = about_precision(experiment, examined.records, arm)
    statements += [] if precision is None else [precision]
    failures = [seed not in own for seed in experiment.seeds]
    if quality is not None:
        statements += quality.statements
        statements += [PRINTED_ONLY] if experiment.evidence == "printed" else []
        first = experiment.seeds[0]
        if first in seeds and len(seeds) > 1:
            in_order = (first, *(seed for seed in seeds if seed != first))
            before_models, models = (examined.of_seeds(it, in_order) for it in (baseline, arm))
            statements += released_is_worse(settings, before_models, models, values)
        failed = [it.failed for it in quality.comparisons if it.failed]
        failures += [any(of_seed) for of_seed in zip(*failed, strict=False)]
    return _Measured(
        arm=arm,
        statements=statements,
        quality=quality,
        parity=parity,
        memory=memory,
        confounds=tuple(sorted(confounds, key=lambda it: it.intended)[:MOST_CONFOUNDS]),
        pairs=paired_jobs(examined.timed(arm), before, declared),
        failed_seeds=min(sum(failures), len(experiment.seeds)),
    )


def _about_seeds(examined: Examined, arm: str, seeds: Sequence[int]) -> list[Reason | Note]:
    """What the baseline's evidence, and seeds that made the same model, leave to compare: `seeds`
    of the arm."""
    baseline = examined.experiment.baseline
    statements: list[Reason | Note] = []
    if examined.reasons(baseline):
        follows = "so nothing compared with it can pass" if seeds else "so there is no comparison"
        statements.append(failure(Code.BASELINE_UNSOUND, f"The baseline is not valid, {follows}."))
    repeated = {about_repeated(examined, name) for name in (baseline, arm)} - {None}
    for sentence in sorted(map(str, repeated)):
        code = Code.MODEL_SEED_UNUSED
        statements.append(Note(code, sentence) if len(seeds) > 1 else undecided(code, sentence))
    return statements


def _conclude(
    examined: Examined,
    candidate: _Measured,
    compiler_only: _Measured | None,
    speeds: Mapping[str, ArmSpeed | UnknownSpeed],
    confidence: float,
) -> CandidateVerdict:
    """The candidate's verdict at this confidence. `compiler_only` is the candidate with the same
    compiler that differs from the baseline by it alone."""
    experiment, settings = examined.experiment, examined.experiment.settings
    baseline, arm, seeds = experiment.baseline, candidate.arm, len(experiment.seeds)
    statements = list(candidate.statements)
    metrics: list[MetricJudgement] = []
    effects: list[EffectSplit] = []
    if candidate.quality is not None:
        metrics, about_quality = judge_quality(candidate.quality, confidence)
        statements += about_quality
        if not metrics:
            statements.append(undecided(Code.METRIC_UNDEFINED, "No metric could be compared."))
        elif compiler_only is not None:
            effects, about_effects = _effects(experiment, candidate, compiler_only, confidence)
            statements += about_effects
        statements += about_few_seeds(seeds, confidence)
        if (rate := settings.max_failure_rate) is not None:
            statements.append(judge_failures(seeds, candidate.failed_seeds, rate, confidence))
    speed, about = judge_speed(
        speeds[baseline],
        speeds[arm],
        settings,
        confidence,
        candidate.pairs,
        busy_machine=busy_machine([*examined.timed(baseline), *examined.timed(arm)]),
    )
    statements += [*about, *([] if speed is None else about_speed(speed, candidate.pairs))]
    statements += about_holm(len(experiment.candidates), settings.confidence, confidence)
    reasons, notes = split(statements)
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
    experiment: Experiment, candidate: _Measured, compiler_only: _Measured, confidence: float
) -> tuple[list[EffectSplit], list[Note]]:
    """The compiler's share of the candidate's difference, by metric."""
    if candidate.quality is None or compiler_only.quality is None:
        return [], []
    of_only, _ = judge_quality(compiler_only.quality, confidence)
    by_compiler = {it.metric: it for it in of_only if it.part is None}
    found = [
        split_effect(
            metric,
            contrast,
            compiler_only.arm,
            by_compiler[metric],
            declarations=(experiment.arms[compiler_only.arm], experiment.arms[candidate.arm]),
            confidence=confidence,
        )
        for metric, contrast in candidate.quality.contrasts.items()
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
        records = examined.of_seeds(baseline, experiment.seeds)
        floors = tuple(noise_floors(experiment.settings, records, values))
    return BaselineVerdict(
        arm=baseline,
        sound=not reasons,
        reasons=gravest_first([*reasons, *dropped]),
        noise_floor=floors,
    )
