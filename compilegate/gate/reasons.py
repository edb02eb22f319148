"""Text from an evidence record, made fit for a sentence.

Evidence may come from anywhere: its strings may hold line breaks, control characters, halves of
surrogate pairs that no file can store, or be very long.

Reasons: every judgement of the gate as a stable code, a sentence and its numbers.

Codes are an interface: programs match on them, so a code is never renamed or reused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Number = str | int | float | bool | None


class Outcome(StrEnum):
    """The outcome of a reason, and of a candidate."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    INCONCLUSIVE = "inconclusive"
    FAIL = "fail"


_SEVERITY = {Outcome.PASS: 0, Outcome.INCONCLUSIVE: 1, Outcome.FAIL: 2}


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The outcome of several that must all hold: a fail fails, then doubt remains doubt.

    Nothing judged is not a pass: the worst of no outcomes is a fail.
    """
    return max(outcomes, key=_SEVERITY.__getitem__, default=Outcome.FAIL)


def gravest_first(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """What decided comes first: causes and harm before formalities (`_GRAVITY`), otherwise in the
    order found."""
    return tuple(
        sorted(reasons, key=lambda reason: (-_SEVERITY[reason.outcome], _gravity(reason.code)))
    )


class Code(StrEnum):
    """The stable codes: what was looked at, a dot, and what was found."""

    EVIDENCE_MISSING = "evidence.missing"
    EVIDENCE_TRUNCATED = "evidence.truncated"
    EVIDENCE_UNREADABLE = "evidence.unreadable"
    EVIDENCE_SWAPPED = "evidence.swapped"
    EVIDENCE_WRONG_JOB = "evidence.wrong_job"
    EVIDENCE_DUPLICATED = "evidence.duplicated"
    EVIDENCE_UNDECLARED = "evidence.undeclared"
    EVIDENCE_IMPLAUSIBLE = "evidence.implausible"
    EVIDENCE_LACKING = "evidence.lacking"
    EVIDENCE_NO_ENVIRONMENT = "evidence.no_environment"
    EVIDENCE_LOST = "evidence.lost"
    ARM_FAILED = "arm.failed"

    DIGEST_MISSING = "digest.missing"
    DIGEST_DIFFERS = "digest.differs"
    DIGEST_PLACEHOLDER = "digest.placeholder"
    DATA_DIFFERS = "data.differs"
    DATA_TRAINED_ON = "data.trained_on"
    DATA_INPUTS_TRAINED_ON = "data.inputs_trained_on"
    DATA_OTHER_TRAINED_ON = "data.other_trained_on"
    MODEL_DUPLICATED = "model.duplicated"
    MODEL_SEEDS_ALIKE = "model.seeds_alike"
    MODEL_SEEDS_CLOSE = "model.seeds_close"
    MODEL_OUTPUTS_OF_ANOTHER = "model.outputs_of_another"

    STEPS_COUNT = "steps.count"
    STEPS_LOSS_NOT_FINITE = "steps.loss_not_finite"
    STEPS_SECONDS_INVALID = "steps.seconds_invalid"
    STEPS_TIME_UNACCOUNTED = "steps.time_unaccounted"
    STEPS_SPEED_DIFFERS = "steps.speed_differs"
    STEPS_LOSS_FLAT = "steps.loss_flat"
    STEPS_TIMES_OF_ANOTHER = "steps.times_of_another"
    STEPS_TOTAL_UNACCOUNTED = "steps.total_unaccounted"
    STEPS_SEEDS_ALIKE = "steps.seeds_alike"
    STEPS_OTHER_START = "steps.other_start"
    STEPS_OTHER_END = "steps.other_end"

    EXAMPLES_ONE_CLASS = "examples.one_class"
    EXAMPLES_LOSSES_EQUAL = "examples.losses_equal"
    EXAMPLES_TOO_FEW = "examples.too_few"
    EXAMPLES_NOT_FINITE = "examples.not_finite"
    EXAMPLES_NOT_PROBABILITIES = "examples.not_probabilities"
    EXAMPLES_LOSSES_DISAGREE = "examples.losses_disagree"
    EXAMPLES_LABEL_RANGE = "examples.label_range"
    EXAMPLES_IDS_UNREADABLE = "examples.ids_unreadable"
    EXAMPLES_IDS_REPEAT = "examples.ids_repeat"
    EXAMPLES_IDS_DIFFER = "examples.ids_differ"
    EXAMPLES_LABELS_DIFFER = "examples.labels_differ"
    EXAMPLES_CLASSES_DIFFER = "examples.classes_differ"
    EXAMPLES_TARGETS_DIFFER = "examples.targets_differ"
    EXAMPLES_INPUTS_DIFFER = "examples.inputs_differ"
    EXAMPLES_SLICES_DIFFER = "examples.slices_differ"
    EXAMPLES_LOSSES_UNCHECKED = "examples.losses_unchecked"

    METRIC_MISSING = "metric.missing"
    METRIC_NOT_FINITE = "metric.not_finite"
    METRIC_ABOVE_ONE = "metric.above_one"
    METRIC_DISAGREES = "metric.disagrees"
    METRIC_UNDEFINED = "metric.undefined"
    METRIC_BELOW_FLOOR = "metric.below_floor"
    METRIC_TOO_GOOD = "metric.too_good"

    COMPILER_DIFFERS = "compiler.differs"
    COMPILER_DID_NOT_RUN = "compiler.did_not_run"
    COMPILER_RAN_IN_EAGER = "compiler.ran_in_eager"
    COMPILER_RECOMPILED = "compiler.recompiled"
    COMPILER_IN_PIECES = "compiler.in_pieces"
    COMPILER_NO_PROOF = "compiler.no_proof"
    COMPILER_FEW_CALLS = "compiler.few_calls"
    COMPILER_CACHE_CONTRADICTS = "compiler.cache_contradicts"
    RECIPE_BATCH_SIZE = "recipe.batch_size"
    RECIPE_WORLD_SIZE = "recipe.world_size"
    RECIPE_LEARNING_RATE = "recipe.learning_rate"
    RECIPE_PRECISION = "recipe.precision"
    RECIPE_PADDING = "recipe.padding"

    BASELINE_UNSOUND = "baseline.unsound"
    CONFOUND_UNDECLARED = "confound.undeclared"
    CONFOUND_EXAMPLES_SEEN = "confound.examples_seen"
    CONFOUND_MORE = "confound.more"
    CONFOUND_HARDWARE_UNKNOWN = "confound.hardware_unknown"

    PARITY_ALIKE = "parity.alike"
    PARITY_DIFFERS = "parity.differs"
    PARITY_CANNOT_TELL = "parity.cannot_tell"
    PARITY_NOT_MEASURED = "parity.not_measured"
    PARITY_BEYOND_ROUNDING = "parity.beyond_rounding"
    PARITY_PARTIAL = "parity.partial"
    PARITY_COVERAGE_UNKNOWN = "parity.coverage_unknown"
    PARITY_OF_ANOTHER = "parity.of_another"

    CHAMPION_NONE = "champion.none"
    CHAMPION_SAME = "champion.same"
    CHAMPION_UNUSABLE = "champion.unusable"

    PRINTED_ONLY = "printed.only"

    QUALITY_NOT_WORSE = "quality.not_worse"
    QUALITY_WORSE = "quality.worse"
    QUALITY_UNDECIDED = "quality.undecided"
    QUALITY_SINGLE_SEED = "quality.single_seed"
    QUALITY_NO_SPREAD = "quality.no_spread"
    QUALITY_RELEASED_WORSE = "quality.released_worse"
    QUALITY_LONG_TAIL = "quality.long_tail"
    QUALITY_WATCHED = "quality.watched"

    SEEDS_OPEN = "seeds.open"
    SEEDS_FAILURE_RATE = "seeds.failure_rate"

    GROUPS_MISSING = "groups.missing"
    GROUPS_TOO_FEW = "groups.too_few"
    GROUPS_DECLARED = "groups.declared"
    GROUPS_REPEATED = "groups.repeated"
    GROUPS_INPUTS = "groups.inputs"
    GROUPS_NEIGHBOURS = "groups.neighbours"

    SLICE_MISSING = "slice.missing"
    SLICE_TOO_SMALL = "slice.too_small"
    SLICE_UNDEFINED = "slice.undefined"

    PADDING_LARGE = "padding.large"

    EFFECT_SPLIT = "effect.split"
    CONFIDENCE_HOLM = "confidence.holm"
    MARGIN_LOOSE = "margin.loose"
    MARGIN_BELOW_RESOLUTION = "margin.below_resolution"

    MEMORY_WITHIN = "memory.within"
    MEMORY_INCREASED = "memory.increased"
    MEMORY_NOT_COMPARED = "memory.not_compared"

    SPEED_FASTER = "speed.faster"
    SPEED_BELOW_MINIMUM = "speed.below_minimum"
    SPEED_NOT_REPAID = "speed.not_repaid"
    SPEED_UNDECIDED = "speed.undecided"
    SPEED_UNMEASURED = "speed.unmeasured"
    SPEED_DISAGREES = "speed.disagrees"
    SPEED_NOT_PAIRED = "speed.not_paired"
    SPEED_BUSY_MACHINE = "speed.busy_machine"
    SPEED_HINDERED = "speed.hindered"
    SPEED_NO_SPREAD = "speed.no_spread"
    SPEED_BEYOND_BELIEF = "speed.beyond_belief"
    SPEED_DRIFTS = "speed.drifts"
    SPEED_LOST_ELSEWHERE = "speed.lost_elsewhere"
    SPEED_WITH_MACHINE = "speed.with_machine"

    @property
    def subject(self) -> str:
        """What was looked at: the part before the dot."""
        return self.partition(".")[0]


_GRAVITY = (
    "parity.differs",
    "arm",
    "steps.loss_not_finite",
    "examples.not_finite",
    "quality.worse",
    "evidence",
    "data",
    "digest.differs",
    "model",
    "examples",
    "steps",
    "baseline",
    "champion",
    "compiler.did_not_run",
    "compiler.differs",
    "compiler.ran_in_eager",
    "recipe",
    "confound",
    "metric",
    "groups",
    "quality",
    "seeds",
    "slice",
    "memory",
    "speed",
    "parity",
    "digest",
    "compiler",
)
"""Codes and subjects, the gravest first. Wrong arithmetic is why losses explode and metrics fall;
a recompilation is a blemish. What is not here comes last."""


def _gravity(code: Code) -> int:
    ranks = [_GRAVITY.index(name) for name in (code, code.subject) if name in _GRAVITY]
    return min(ranks, default=len(_GRAVITY))


@dataclass(frozen=True)
class Reason:
    """One judgement: what was found, which way it counts, and the numbers behind it."""

    code: Code
    outcome: Outcome
    sentence: str
    """In words that stand alone: names the arm's seed, file or key, what was found, the limit."""
    numbers: Mapping[str, Number] = field(default_factory=dict)
    """Finite numbers, by name, in the units that the sentence uses or in seconds and fractions."""


@dataclass(frozen=True)
class Note:
    """Something that the reader should know and that decides nothing."""

    code: Code
    sentence: str
    numbers: Mapping[str, Number] = field(default_factory=dict)


def split_findings(findings: Iterable[Reason | Note]) -> tuple[list[Reason], list[Note]]:
    """What decides, and what is only to be known."""
    reasons: list[Reason] = []
    notes: list[Note] = []
    for finding in findings:
        if isinstance(finding, Note):
            notes.append(finding)
        else:
            reasons.append(finding)
    return reasons, notes


def failure(code: Code, sentence: str, **numbers: Number) -> Reason:
    """A reason that fails what it is found in."""
    return Reason(code=code, outcome=Outcome.FAIL, sentence=sentence, numbers=numbers)


@dataclass(frozen=True)
class Subject:
    """The replicate that a reason is about."""

    seed: int
    registered: bool = False
    """True for the model that was approved last, which belongs to no seed."""

    def fails(self, code: Code, told: str, **numbers: Number) -> Reason:
        """A reason that fails the replicate; `told` is a sentence without its subject."""
        return failure(code, f"{self._called}: {told}", seed=self.seed, **numbers)

    def stays_open(self, code: Code, told: str) -> Reason:
        """A reason for which nothing can be said of the replicate."""
        return Reason(code, Outcome.INCONCLUSIVE, f"{self._called}: {told}", {"seed": self.seed})

    @property
    def _called(self) -> str:
        return "The registered model" if self.registered else f"Seed {self.seed}"


def interval_name(confidence: float) -> str:
    """What lies between two bounds that hold at this confidence each."""
    return f"{(2.0 * confidence - 1.0) * 100:.4g}% interval"


def clipped(text: str, most: int = 300) -> str:
    """The text on one line, printable and at most `most` characters long."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return printable if len(printable) <= most else printable[: most - 3] + "..."
