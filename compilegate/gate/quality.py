"""Quality: is a candidate's model as good as the baseline's, to within a margin? Pure.

**The question** is about the arm, not about one lucky model: over the seeds one might have drawn
and the examples one might have held out, is the candidate's metric worse by less than the margin?
It is answered by a one-sided bound at the declared confidence (one side of Schuirmann's two
one-sided tests, 1987). All guarded metrics must pass, which needs no correction for their number:
that is an intersection-union test (Berger 1982). For several candidates, see `statistics.holm`.

**Pairing.** Both arms are scored on the same examples, and replicates with the same seed share the
initial weights and the order of the data. The interval is valid whatever that sharing is worth.
Choosing between paired and unpaired after seeing the data would make the confidence a lie.

**Relative margins** count the baseline's own uncertainty: where higher is better, the tested
quantity is candidate - baseline + fraction x baseline, example by example.

**Groups.** Ten images of one patient are right or wrong together; counted as ten, they make a bound
three times too narrow. docs/gate.md says which groups are used. A group's value is the sum of its
rows' deviations from the mean (Cochran, "Sampling Techniques", 1977, section 9A.2), so that the
mean of groups is the mean of rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from compilegate.gate.evidence import take_rows
from compilegate.gate.findings import (
    Code,
    Note,
    Number,
    Outcome,
    Reason,
    clipped,
    counted,
    failure,
    undecided,
)
from compilegate.gate.forecast import SampleSize, resolution, to_decide
from compilegate.gate.metrics import (
    MetricUndefinedError,
    MetricValues,
    Scored,
    Unit,
    bias_bound,
    column_of,
    constant_value,
    one_flip,
    unit_of,
)
from compilegate.gate.settings import (
    DECLARED,
    ArmDeclaration,
    Experiment,
    GateSettings,
    MetricGuard,
    SliceGuard,
)
from compilegate.gate.statistics import (
    BY_CHANCE,
    NO_EXAMPLES,
    CrossedMean,
    Differences,
    failed_seeds,
    mean_of_scalars,
    unseen_share,
)
from compilegate.gate.verdict import EffectSplit, Interval, MetricJudgement, NoiseFloor
from compilegate.job.evidence import EvidenceRecord, Examples, FloatArray, IntArray

MOST_MARGINS = 2.0
"""How much worse than the baseline the released model may be, in margins, and in standard
deviations of the baseline's seeds times 1.5: single models vary more than means do."""
MOST_CATEGORIES = 200
"""Categories of a slice's column: with more it is an identifier."""
COUNTER = re.compile(r"[-_#./:](?:[A-Za-z]{0,6}[-_]?)?\d+$")
"""The tail of `patient-7_img3`, `doc-17#3`."""
FEWEST_GROUPS, MOST_GROUPS = 20, 0.8
"""Fewest groups of a grouping, and most groups as a share of the rows."""
DRAWS = 999
TESTED_ROWS = 20_000
"""Rows of whole groups that the permutation test looks at."""
SAMPLED_IDS = 2_000


@dataclass(frozen=True)
class Comparison:
    """One metric of two arms, before a confidence is chosen."""

    metric: str
    guard: MetricGuard
    baseline: float
    candidate: float
    margin: float | None
    """Margin in the metric's units; None when only watched."""
    slack: CrossedMean
    """Margin minus harm, which must stay above zero; without a margin, minus harm."""
    failed: Sequence[bool]
    """By seed, whether it loses more than the margin and chance explain; empty for a slice."""
    part: str | None = None
    """The slice, in words; None for all examples."""
    rows: int = NO_EXAMPLES
    """Validation examples behind it."""
    constant: float | None = None
    """The metric of the best constant prediction; None where not known, and for a slice."""
    worst_example: float = 0.0
    """Distance of the worst example from its arm's mean; zero where flips are counted."""

    def outcome(self, confidence: float) -> Outcome | None:
        """The outcome at this confidence; None when it is only watched."""
        if self.margin is None:
            return None
        slack, half_width = self.slack, self.slack.half_width(confidence)
        one_scalar = slack.seed_variance is None and slack.examples == NO_EXAMPLES
        if slack.mean + half_width < 0.0 and not one_scalar:
            return Outcome.FAIL
        if slack.seed_variance is None or slack.mean - half_width <= 0.0:
            return Outcome.INCONCLUSIVE
        return Outcome.PASS


@dataclass
class ArmQuality:
    """The comparisons of one candidate, and statements about them."""

    comparisons: list[Comparison] = field(default_factory=list)
    statements: list[Reason | Note] = field(default_factory=list)
    """Statements on what could not be judged, and on how rows were counted."""
    contrasts: dict[str, CrossedMean] = field(default_factory=dict)
    """This candidate minus the compiler-only one, by metric; empty without another one."""


def compare_arms(
    settings: GateSettings,
    baseline: Sequence[EvidenceRecord],
    candidates: Mapping[str, Sequence[EvidenceRecord]],
    compiler_only: Mapping[str, str],
    values: MetricValues,
) -> dict[str, ArmQuality]:
    """Compare every candidate with the baseline, metric by metric and slice by slice.

    The records of each arm are in the order of the seeds, and their rows are the same ones.
    `compiler_only` names, for a candidate that has one, the candidate that differs from the
    baseline by the same compiler alone; `values` receives each replicate's metrics.
    """
    declared, possible, statements = None, list[Grouping](), list[Reason | Note]()
    parts = list[_Part | Reason | Note]()
    before = _examples_of(baseline)
    models = {name: _examples_of(records) for name, records in candidates.items()}
    if before and settings.from_examples:
        declared, possible, statements = _groups_of(settings, before[0])
        parts = [it for each in settings.slices for it in _parts_of(each, before[0])]
    tables = _tables(settings, before, models, compiler_only, values, groups=declared)
    found = {name: ArmQuality(statements=statements.copy()) for name in candidates}
    for name, quality in found.items():
        after = models[name]
        for metric, guard in settings.metrics.items():
            table = tables.get((name, metric))
            if table is None:
                quality.comparisons += _of_scalars(metric, guard, baseline, candidates[name])
                continue
            if table.contrast.by_seed:
                quality.contrasts[metric] = table.contrast.mean()
            together = _correlated(possible, table.differences)
            if together is not None:
                quality.statements.append(_about_groups(metric, together))
                table = _table(metric, guard, before, after, together)
            constant = constant_value(guard.measure(metric), before[0])
            quality.comparisons.append(replace(table.compared(), constant=constant))
        for part in parts:
            if not isinstance(part, _Part):
                quality.statements.append(part)
            elif after:
                _compare_part(settings, part, before, after, quality)
    return found


def _examples_of(records: Sequence[EvidenceRecord]) -> list[Examples]:
    """The examples of all records; empty where a job wrote none."""
    found = [record.examples for record in records if record.examples is not None]
    return found if len(found) == len(records) else []


@dataclass(frozen=True)
class _Column:
    """One metric of one replicate."""

    values: FloatArray
    mean: float
    flip: float
    bias: float


def _column(
    measure: str, scored: Scored, groups: Grouping | None, values: MetricValues | None = None
) -> _Column:
    """The column, of which `values` receives the mean. Raises MetricUndefinedError."""
    column = column_of(measure, scored, None if groups is None else groups.of_row)
    mean, flip = float(column.mean()), one_flip(measure, scored.examples.labels, column)
    if values is not None:
        values.remember(measure, scored.examples, mean)
    return _Column(column, mean, flip, bias_bound(measure, scored))


@dataclass
class _Table:
    """One metric of a candidate against the baseline, seed by seed."""

    metric: str
    guard: MetricGuard
    rows: int
    groups: Grouping | None
    differences: Differences = field(default_factory=Differences)
    contrast: Differences = field(default_factory=Differences)
    """The candidate minus the compiler-only one, where there is another one."""
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    flip: float = math.inf
    bias: list[float] = field(default_factory=list)
    worst: float = 0.0

    def add(self, before: _Column, after: _Column) -> None:
        """Take in one more seed."""
        sign = self.guard.sign
        difference = sign * (after.values - before.values)
        if self.guard.relative and self.guard.margin is not None:
            difference += self.guard.margin * math.copysign(1.0, before.mean) * before.values
        if self.groups is not None and len(difference) == self.rows:
            difference = self.groups.columns(difference)
        if not self.before and not before.flip:
            arms = (sign * before.values, sign * after.values)
            self.worst = max(float(arm.mean() - arm.min()) for arm in arms)
        self.differences.add(difference)
        self.before.append(before.mean)
        self.after.append(after.mean)
        self.flip = min(self.flip, before.flip, after.flip)
        self.bias.append(max(before.bias, after.bias))

    def compared(self, part: str | None = None) -> Comparison:
        """The comparison over all seeds."""
        flip, bias, groups = self.flip, float(np.mean(self.bias)), self.groups
        if groups is not None and len(self.differences.by_example) == groups.count:
            bias *= math.sqrt(self.rows / groups.count)
            flip *= groups.usual_size if groups.goes_together else groups.count / self.rows
        compared = _compared(
            self.metric, self.guard, self.before, self.after, self.differences.mean(flip, bias)
        )
        failed = compared.failed if part is None else ()
        return replace(compared, part=part, rows=self.rows, failed=failed, worst_example=self.worst)


def _compared(
    metric: str,
    guard: MetricGuard,
    before: Sequence[float],
    after: Sequence[float],
    better_by: CrossedMean,
) -> Comparison:
    """The comparison of values by seed. `better_by` is how much better the candidate is, a relative
    margin included."""
    baseline, sign = float(np.mean(before)), guard.sign
    margin = guard.margin_at(baseline)
    harms = [sign * (was - it) for it, was in zip(after, before, strict=True)]
    added = 0.0 if guard.relative or margin is None else margin
    return Comparison(
        metric=metric,
        guard=guard,
        baseline=baseline,
        candidate=float(np.mean(after)),
        margin=margin,
        slack=replace(better_by, mean=better_by.mean + added),
        failed=() if margin is None else failed_seeds(harms, before, margin),
    )


def _tables(
    settings: GateSettings,
    baseline: Sequence[Examples],
    candidates: Mapping[str, Sequence[Examples]],
    compiler_only: Mapping[str, str],
    values: MetricValues,
    *,
    groups: Grouping | None,
) -> dict[tuple[str, str], _Table]:
    """Differences from the baseline by (candidate, metric). What is undefined of a replicate
    is left out; a finding about the replicate says so."""
    tables: dict[tuple[str, str], _Table] = {}
    scored = {name: arm for name, arm in candidates.items() if arm}
    for index, examples in enumerate(baseline if scored else ()):
        rows, before = len(examples.labels), Scored(examples)
        arms = {name: Scored(arm[index]) for name, arm in scored.items()}
        # One metric at a time: columns of all at once are most of the memory.
        for metric, guard in settings.from_examples.items():
            measure, columns = guard.measure(metric), dict[str, _Column]()
            with suppress(MetricUndefinedError):
                usual = _column(measure, before, groups, values)
                for name, each in arms.items():
                    with suppress(MetricUndefinedError):
                        columns[name] = _column(measure, each, groups, values)
            for name, own in columns.items():
                table = tables.setdefault((name, metric), _Table(metric, guard, rows, groups))
                table.add(usual, own)
                if compiler_only.get(name) in columns:
                    table.contrast.add(own.values - columns[compiler_only[name]].values)
    return {key: table for key, table in tables.items() if len(table.before) == len(baseline)}


def _table(
    metric: str,
    guard: MetricGuard,
    before: Sequence[Examples],
    after: Sequence[Examples],
    groups: Grouping | None,
) -> _Table:
    """The table of one metric alone. Raises MetricUndefinedError."""
    table = _Table(metric, guard, len(before[0].labels), groups)
    for pair in zip(before, after, strict=True):
        table.add(*(_column(guard.measure(metric), Scored(each), groups) for each in pair))
    return table


def _of_scalars(
    metric: str,
    guard: MetricGuard,
    baseline: Sequence[EvidenceRecord],
    arm: Sequence[EvidenceRecord],
) -> Iterator[Comparison]:
    """The comparison of a metric that all jobs only reported."""
    if not guard.reported or any(metric not in it.evidence.metrics for it in (*baseline, *arm)):
        return
    before, after = ([it.evidence.metrics[metric] for it in each] for each in (baseline, arm))
    usual, own = np.array(before), np.array(after)
    least = guard.sign * usual
    if guard.relative:
        least -= (guard.margin or 0.0) * math.copysign(1.0, usual.mean()) * usual
    yield _compared(metric, guard, before, after, mean_of_scalars(least, guard.sign * own))


# Groups.


@dataclass(frozen=True)
class Grouping:
    """A partition of the rows: patients, documents, customers."""

    of_row: IntArray
    """(rows,) the group of each, from 0."""
    by: str
    """The grouping in words, after "rows with "."""
    goes_together: bool = True
    """Whether the rows of a group are known to be right or wrong together, and not declared."""

    @property
    def count(self) -> int:
        """The number of groups."""
        return int(self.of_row.max()) + 1

    @property
    def usual_size(self) -> float:
        """The root mean square of their sizes, as a multiple of the mean one."""
        sizes = np.bincount(self.of_row).astype(np.float64)
        return float(np.sqrt(np.mean(sizes**2)) / sizes.mean())

    def columns(self, column: FloatArray) -> FloatArray:
        """(groups,) values with the mean of the rows' values."""
        mean = float(column.mean())
        sums = np.bincount(self.of_row, weights=column - mean)
        return np.asarray(mean + sums * (len(sums) / len(column)), dtype=np.float64)


def possible_groupings(examples: Examples) -> list[Grouping]:
    """Undeclared groupings of rows that might be right or wrong together."""
    found: list[tuple[str, npt.NDArray[np.generic] | None]] = [
        ("the same id but for its counter", _stems(examples.ids)),
        *((f"the same {column!r}", it) for column, it in sorted(examples.slices.items())),
        ("the same inputs", examples.inputs),
        ("the same outputs", _outputs(examples)),
    ]
    groupings = [Grouping(_numbered(it), by) for by, it in found if it is not None]
    most = MOST_GROUPS * len(examples.labels)
    return [each for each in groupings if FEWEST_GROUPS <= each.count <= most]


def go_together(differences: FloatArray, groups: Grouping, draws: int = DRAWS) -> bool:
    """Whether paired differences of rows agree within groups more than in any of so many
    permutations."""
    generator = np.random.default_rng(0)  # the same evidence gives the same verdict
    of_row = groups.of_row
    if len(of_row) > TESTED_ROWS:
        order = generator.permutation(groups.count)
        rank = np.empty(groups.count, dtype=np.int64)
        rank[order] = np.arange(groups.count)
        tested = rank[of_row] < max(FEWEST_GROUPS, groups.count * TESTED_ROWS // len(of_row))
        differences, of_row = differences[tested], _numbered(of_row[tested])
    centred = differences - differences.mean()
    if not centred.any():
        return False
    sizes = np.bincount(of_row)

    def statistic(values: FloatArray) -> float:
        sums = np.bincount(of_row, weights=values)
        return float((sums * sums / sizes).sum())

    seen = statistic(centred) * (1.0 - 1e-12)
    return not any(statistic(generator.permutation(centred)) >= seen for _ in range(draws))


def _about_groups(metric: str, groups: Grouping) -> Note:
    """The note on groups that nobody declared."""
    rows = len(groups.of_row)
    sentence = (
        f"{metric}: rows with {groups.by} are right or wrong together, so the {rows:,} rows count "
        f"as {groups.count:,}. Declare their column as `groups` in [data]."
    )
    numbers = {"metric": metric, "examples": rows, "effective": groups.count}
    return Note(Code.GROUPS_COUNTED, sentence, numbers)


def _correlated(groupings: Sequence[Grouping], differences: Differences) -> Grouping | None:
    """The grouping by which rows go together; of several, the one with the fewest groups. Values
    that are not of rows, as of a function with one number, have none."""
    values = differences.by_example
    groupings = [each for each in groupings if len(each.of_row) == len(values)]
    found = [each for each in groupings if go_together(values, each)]
    return min(found, key=lambda each: each.count, default=None)


def _groups_of(
    settings: GateSettings, examples: Examples
) -> tuple[Grouping | None, list[Grouping], list[Reason | Note]]:
    """The declared groups, or else the possible ones; and statements about them."""
    column, rows = settings.groups, len(examples.labels)
    if column is None:
        possible = possible_groupings(examples)
        sentence = f"The {rows:,} validation rows were treated as independent."
        note = Note(Code.GROUPS_COUNTED, sentence, {"examples": rows, "effective": rows})
        return None, possible, [] if possible else [note]
    if column not in examples.slices:
        there = clipped(", ".join(sorted(examples.slices)) or "none", 100)
        sentence = f"The examples have no column {column!r}, which `groups` names (there: {there})."
        return None, [], [failure(Code.GROUPS_MISSING, sentence)]
    groups = Grouping(_numbered(examples.slices[column]), f"the same {column!r}", False)
    if groups.count < 2:
        sentence = f"All {rows:,} rows have the same {column!r}: two groups or more are needed."
        return None, [], [undecided(Code.GROUPS_MISSING, sentence)]
    few = " So few make wide bounds." if groups.count < FEWEST_GROUPS else ""
    sentence = f"The {rows:,} validation rows are {groups.count:,} groups of {column!r}.{few}"
    numbers = {"examples": rows, "effective": groups.count}
    return groups, [], [Note(Code.GROUPS_COUNTED, sentence, numbers)]


def _stems(ids: npt.NDArray[np.str_]) -> npt.NDArray[np.str_] | None:
    """Ids without their trailing counters; None where a sample has too few such, or none."""
    sample = set(ids[:: max(len(ids) // SAMPLED_IDS, 1)].tolist())
    stems = {COUNTER.sub("", each) for each in sample}
    if len(stems) < FEWEST_GROUPS or stems == sample:
        return None
    return np.array([COUNTER.sub("", each) for each in ids.tolist()])


def _outputs(examples: Examples) -> npt.NDArray[np.generic] | None:
    """What a model says of each row, where most rows repeat another one; None elsewhere."""
    answers = examples.predictions if examples.predictions is not None else examples.losses
    distinct, number, times = np.unique(answers, return_inverse=True, return_counts=True)
    repeats = (times[number] > 1).mean() > 0.5 and times.max() <= 0.2 * len(answers)
    return number if repeats and len(distinct) >= FEWEST_GROUPS else None


def _numbered(values: npt.NDArray[np.generic]) -> IntArray:
    numbers: IntArray = np.unique(values, return_inverse=True)[1].astype(np.int64).reshape(-1)
    return numbers


# Slices.


@dataclass(frozen=True)
class _Part:
    """One slice that can be judged."""

    guard: SliceGuard
    name: str
    """``column = value``, as reports show it."""
    rows: IntArray


def _parts_of(guard: SliceGuard, examples: Examples) -> Iterator[_Part | Reason | Note]:
    """The slices that can be judged, and what is wrong with the others."""
    categories, of_all = examples.slices.get(guard.column), f"{guard.metric} by {guard.column!r}"
    if categories is None:
        there = clipped(", ".join(sorted(examples.slices)) or "none")
        yield _not_judged(guard, of_all, f"the columns are {there}")
        return
    values = np.unique(categories).tolist() if guard.value is None else [guard.value]
    if len(values) > MOST_CATEGORIES:
        why = f"it has {len(values)} categories, and the limit is {MOST_CATEGORIES}"
        yield _not_judged(guard, of_all, why)
        return
    for value in values:
        rows = np.flatnonzero(categories == value)
        name = f"{guard.column} = {clipped(value, 60)}"
        if len(rows) < guard.min_examples:
            why = f"{counted(len(rows), 'example')}, min_examples is {guard.min_examples}"
            yield _not_judged(guard, f"{guard.metric} where {name}", why)
        else:
            yield _Part(guard, name, rows)


def _not_judged(guard: SliceGuard, what: str, why: str) -> Reason | Note:
    numbers = {"column": guard.column, "value": guard.value, "metric": guard.metric}
    if guard.watched:
        return Note(Code.SLICE_NOT_JUDGED, f"{what} (watched) is not judged: {why}.", numbers)
    return undecided(Code.SLICE_NOT_JUDGED, f"{what} is not judged: {why}.", **numbers)


def _compare_part(
    settings: GateSettings,
    part: _Part,
    baseline: Sequence[Examples],
    arm: Sequence[Examples],
    quality: ArmQuality,
) -> None:
    """Add a candidate's comparison on one slice, or why there is none."""
    before, after = ([take_rows(it, part.rows) for it in each] for each in (baseline, arm))
    metric, slices, groups = part.guard.metric, before[0].slices, None
    if settings.groups in slices:
        groups = Grouping(_numbered(slices[settings.groups]), "declared", False)
        if groups.count < 2:
            why = "all of its rows belong to one group"
            quality.statements.append(_not_judged(part.guard, part.name, why))
            return
    try:
        table = _table(metric, settings.guard_of(part.guard), before, after, groups)
    except MetricUndefinedError as error:
        quality.statements.append(
            _not_judged(part.guard, f"{metric} where {part.name}", str(error))
        )
    else:
        quality.comparisons.append(table.compared(part.name))


# Judgements.


def judge_quality(
    quality: ArmQuality, confidence: float
) -> tuple[list[MetricJudgement], list[Reason | Note]]:
    """Each metric's judgement at this confidence, and what the verdict says about it."""
    judged = [_conclude(each, confidence) for each in quality.comparisons]
    statements = [it for _, about in judged for it in about]
    return [judgement for judgement, _ in judged], statements


def _conclude(
    comparison: Comparison, confidence: float
) -> tuple[MetricJudgement, list[Reason | Note]]:
    """The judgement at this confidence, and the reason (or, when watched, the note) in words."""
    outcome, slack = comparison.outcome(confidence), comparison.slack
    needed = SampleSize()
    if outcome is Outcome.INCONCLUSIVE:
        needed = to_decide(slack, comparison.rows, confidence)
    judgement = MetricJudgement(
        metric=comparison.metric,
        direction=comparison.guard.direction,
        margin=comparison.margin,
        relative_margin=comparison.guard.margin if comparison.guard.relative else None,
        baseline=comparison.baseline,
        candidate=comparison.candidate,
        delta=_interval(comparison.candidate - comparison.baseline, slack, confidence),
        outcome=outcome,
        seeds=slack.seeds,
        examples=comparison.rows,
        seed_sd=slack.seed_sd,
        seed_standard_error=None if slack.seed_variance is None else math.sqrt(slack.seed_variance),
        example_standard_error=math.sqrt(slack.example_variance),
        seeds_needed=needed.seeds,
        examples_needed=needed.examples,
        part=comparison.part,
        rest_standard_error=math.sqrt(slack.rest_variance),
        skewness=slack.example_skewness,
        constant=comparison.constant,
    )
    numbers: dict[str, Number] = {
        "metric": judgement.metric,
        "part": judgement.part,
        "delta": judgement.delta.estimate,
        "lower": judgement.delta.lower,
        "upper": judgement.delta.upper,
        "limit": judgement.limit,
        "seeds": judgement.seeds,
        "examples": judgement.examples,
        "seeds_needed": judgement.seeds_needed,
        "examples_needed": judgement.examples_needed,
    }
    subject = judgement.metric + ("" if judgement.part is None else f" where {judgement.part}")
    unit = unit_of(judgement.metric)
    found = f"{subject}: {_with_bounds(unit, judgement.delta, ' against the baseline')}"
    if outcome is None or judgement.limit is None:
        return judgement, [Note(Code.QUALITY_WATCHED, f"{found}; watched.", numbers)]
    found = f"{found}, margin {unit.amount(judgement.limit, signed=True)}."
    code, meaning = _meaning(comparison, outcome, needed)
    statements: list[Reason | Note] = [
        Reason(code, outcome, f"{found} {meaning}".rstrip(), numbers)
    ]
    statements += _about_long_tail(comparison, unit, confidence)
    smallest, margin = resolution(slack, confidence), comparison.margin or 0.0
    is_open = outcome is Outcome.INCONCLUSIVE and slack.seed_variance is not None
    if is_open and smallest > margin:
        sentence = (
            f"{subject}: this design resolves {unit.amount(smallest)}, and the margin is "
            f"{unit.amount(margin)}; an equal candidate would often stay undecided."
        )
        numbers = {"metric": judgement.metric, "margin": margin, "smallest": smallest}
        statements.append(Note(Code.MARGIN_BELOW_RESOLUTION, sentence, numbers))
    return judgement, statements


def _interval(estimate: float, spread: CrossedMean, confidence: float) -> Interval:
    half_width = spread.half_width(confidence)
    return Interval(estimate, estimate - half_width, estimate + half_width)


def _with_bounds(unit: Unit, interval: Interval, against: str = "") -> str:
    lower, upper = (unit.number(it, signed=True) for it in (interval.lower, interval.upper))
    return f"{unit.amount(interval.estimate, signed=True)}{against} ({lower} to {upper})"


def _meaning(comparison: Comparison, outcome: Outcome, needed: SampleSize) -> tuple[Code, str]:
    """The code, and in words the meaning of the interval or the cheapest way to decide."""
    seeds, rows = comparison.slack.seeds, comparison.rows
    if outcome is Outcome.PASS:
        return Code.QUALITY_NOT_WORSE, ""
    if outcome is Outcome.FAIL:
        only_one = ", for the one seed that was trained" if seeds == 1 else ""
        return Code.QUALITY_WORSE, f"Worse by more than the margin{only_one}."
    if seeds == 1:
        return Code.QUALITY_SINGLE_SEED, "One seed cannot show the spread of seeds: add `seeds`."
    sentence = "The difference is too close to the margin for more seeds or rows to decide."
    if comparison.margin == 0.0:
        sentence = (
            "The margin is relative and the baseline's value is zero: declare an absolute one."
        )
    elif needed.seeds is not None:
        sentence = f"About {counted(needed.seeds - seeds, 'more seed')} would decide."
    elif needed.examples is not None:
        sentence = f"About {needed.examples:,} validation rows instead of {rows:,} would decide."
    elif needed.both is not None:
        sentence = (
            f"About {needed.both[0]} seeds and {needed.both[1]:,} validation rows would decide, "
            "neither alone."
        )
    return Code.QUALITY_UNDECIDED, sentence


def _about_long_tail(comparison: Comparison, unit: Unit, confidence: float) -> list[Note]:
    """A note where a harm beyond the margin could lie in examples as bad as the worst one here, and
    so rare that the validation set need not hold any."""
    margin, examples = comparison.margin, comparison.slack.examples
    if not margin or examples == NO_EXAMPLES:
        return []
    share = unseen_share(examples, confidence)
    if share * comparison.worst_example < margin:
        return []
    sentence = (
        f"{comparison.metric}: harm confined to fewer than 1 in {math.floor(1.0 / share):,} rows "
        f"could go undetected; at {unit.amount(margin / share)} each it would exceed the margin."
    )
    return [Note(Code.QUALITY_LONG_TAIL, sentence, {"metric": comparison.metric})]


def noise_floors(
    settings: GateSettings, records: Sequence[EvidenceRecord], values: MetricValues
) -> Iterator[NoiseFloor]:
    """How much each metric moves between the arm's own seeds, of which there are two or more."""
    for metric, guard in settings.metrics.items():
        # A watched metric may be undefined; each candidate's notes say so.
        with suppress(MetricUndefinedError):
            found = [values.of_record(metric, guard, record) for record in records]
            yield NoiseFloor(
                metric, float(np.mean(found)), float(np.std(found, ddof=1)), len(found)
            )


def released_is_worse(
    settings: GateSettings,
    before: Sequence[EvidenceRecord],
    after: Sequence[EvidenceRecord],
    values: MetricValues,
) -> list[Reason]:
    """The reasons against releasing the first seed's model, by metric: an arm that is as good on
    average may hold one seed that is far worse, and if that is the first, users get it. To release
    another one instead would be to choose by the very examples that judge.

    The records are of the same two or more seeds, the released one first.
    """
    found, seed = [], after[0].evidence.seed
    released = [arm[0].examples for arm in (before, after)]
    for metric, guard in settings.metrics.items():
        with suppress(MetricUndefinedError):  # a finding says what a metric lacks
            usual, own = (
                [values.of_record(metric, guard, record) for record in arm]
                for arm in (before, after)
            )
            mean, sign = float(np.mean(usual)), guard.sign
            margin = guard.margin_at(mean)
            harm = min(sign * (mean - own[0]), sign * (usual[0] - own[0]))
            limit = MOST_MARGINS * max(margin or 0.0, 1.5 * float(np.std(usual, ddof=1)))
            if (
                margin
                and harm > limit
                and harm > BY_CHANCE * error_over_rows(metric, guard, *released)
            ):
                sentence = (
                    f"{metric} of seed {seed}, the model to release, is {own[0]:.5g} against "
                    f"{mean:.5g}: {harm / margin:.1f} margins worse, the limit is {MOST_MARGINS:g}."
                )
                numbers = {"metric": metric, "seed": seed, "value": own[0]}
                numbers["harm_in_margins"] = harm / margin
                found.append(failure(Code.QUALITY_RELEASED_WORSE, sentence, **numbers))
    return found


def error_over_rows(
    metric: str, guard: MetricGuard, before: Examples | None, after: Examples | None
) -> float:
    """The standard error of the difference of two models on the same rows, by their choice; zero
    where a job wrote none, or only reported the metric."""
    if guard.reported or before is None or after is None:
        return 0.0
    usual, own = (column_of(guard.measure(metric), Scored(each)) for each in (before, after))
    return float(np.std(own - usual)) / math.sqrt(len(own))


# The effect of the compiler, and of the rest of the recipe.


def find_compiler_only(experiment: Experiment, comparable: Sequence[str]) -> dict[str, str]:
    """Candidate to compiler-only candidate with the same compiler, among comparable arms."""
    arms = experiment.arms
    changed = {it: bool(changed_keys(arms[experiment.baseline], arms[it])) for it in comparable}
    # The first of several with one compiler.
    only = {arms[it].compiler: it for it in reversed(comparable) if not changed[it]}
    return {
        it: only[arms[it].compiler]
        for it in comparable
        if changed[it] and arms[it].compiler in only
    }


def changed_keys(before: ArmDeclaration, after: ArmDeclaration) -> tuple[str, ...]:
    """The declared keys, besides the compiler, in which two arms differ."""
    return tuple(key for key in DECLARED if getattr(before, key) != getattr(after, key))


def split_effect(
    metric: str,
    contrast: CrossedMean,
    compiler_only: str,
    by_compiler: MetricJudgement,
    *,
    declarations: tuple[ArmDeclaration, ArmDeclaration],
    confidence: float,
) -> tuple[EffectSplit, Note]:
    """Split one metric's difference; `contrast` is the candidate minus the compiler-only one, and
    `declarations` are those of the compiler-only candidate and of the candidate itself."""
    before, after = declarations
    changed = tuple(f"{key} {getattr(after, key)}" for key in changed_keys(before, after))
    unit, rest = unit_of(metric), _interval(contrast.mean, contrast, confidence)
    effect = EffectSplit(metric, compiler_only, by_compiler.delta, rest, changed)
    sentence = (
        f"{metric}: the compiler makes {_with_bounds(unit, effect.compiler)}, as {compiler_only} "
        f"shows, and {', '.join(changed)} {_with_bounds(unit, rest)}."
    )
    return effect, Note(Code.EFFECT_SPLIT, sentence, {"metric": metric})
