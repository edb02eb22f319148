"""Findings: every judgement of the gate as a stable code, a sentence and its numbers.

Codes are an interface: programs match on them, so a code is never renamed or given another meaning.
docs/gate.md has a table of them; tests/gate/test_codes.py holds the table against this file.
"""

from __future__ import annotations

import math
import re
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
    """The outcome of several that must all hold; of none a fail: nothing judged is no pass."""
    return max(outcomes, key=_SEVERITY.__getitem__, default=Outcome.FAIL)


class Code(StrEnum):
    """The stable codes: what was looked at, a dot, and what was found."""

    EVIDENCE_MISSING = "evidence.missing"
    EVIDENCE_UNREADABLE = "evidence.unreadable"
    EVIDENCE_OF_ANOTHER = "evidence.of_another"
    EVIDENCE_DUPLICATED = "evidence.duplicated"
    EVIDENCE_UNDECLARED = "evidence.undeclared"
    EVIDENCE_LACKING = "evidence.lacking"
    EVIDENCE_CHANGED = "evidence.changed"
    EVIDENCE_LOST = "evidence.lost"
    ARM_FAILED = "arm.failed"
    BASELINE_UNSOUND = "baseline.unsound"

    DATA_DIFFERS = "data.differs"
    DATA_TRAINED_ON = "data.trained_on"
    DATA_INPUTS_TRAINED_ON = "data.inputs_trained_on"
    DATA_GROUPS_TRAINED_ON = "data.groups_trained_on"
    DATA_OTHER_TRAINED_ON = "data.other_trained_on"
    MODEL_SEED_UNUSED = "model.seed_unused"
    MODEL_SEEDS_CLOSE = "model.seeds_close"
    MODEL_OUTPUTS_OF_ANOTHER = "model.outputs_of_another"

    STEPS_COUNT = "steps.count"
    STEPS_LOSS_NOT_FINITE = "steps.loss_not_finite"
    STEPS_LOSS_CONSTANT = "steps.loss_constant"
    STEPS_LOSS_FLAT = "steps.loss_flat"
    STEPS_SECONDS_INVALID = "steps.seconds_invalid"
    STEPS_TIMES_DISAGREE = "steps.times_disagree"
    STEPS_OTHER_START = "steps.other_start"
    STEPS_OTHER_END = "steps.other_end"

    EXAMPLES_MALFORMED = "examples.malformed"
    EXAMPLES_DIFFER = "examples.differ"
    EXAMPLES_INPUTS_DIFFER = "examples.inputs_differ"
    EXAMPLES_LOSSES_EQUAL = "examples.losses_equal"
    EXAMPLES_LOSSES_DISAGREE = "examples.losses_disagree"
    EXAMPLES_ONE_CLASS = "examples.one_class"

    METRIC_ABOVE_ONE = "metric.above_one"
    METRIC_UNDEFINED = "metric.undefined"
    METRIC_BELOW_FLOOR = "metric.below_floor"
    METRIC_AT_CONSTANT = "metric.at_constant"
    METRIC_DISAGREES = "metric.disagrees"
    METRIC_TOO_GOOD = "metric.too_good"

    COMPILER_DIFFERS = "compiler.differs"
    COMPILER_DID_NOT_RUN = "compiler.did_not_run"
    COMPILER_RECOMPILED = "compiler.recompiled"
    RECIPE_DIFFERS = "recipe.differs"
    RECIPE_PRECISION = "recipe.precision"
    CONFOUND_UNDECLARED = "confound.undeclared"
    CONFOUND_EXAMPLES_SEEN = "confound.examples_seen"
    CONFOUND_HARDWARE = "confound.hardware"
    CONFOUND_HARDWARE_UNKNOWN = "confound.hardware_unknown"

    PARITY_ALIKE = "parity.alike"
    PARITY_DIFFERS = "parity.differs"
    PARITY_CANNOT_TELL = "parity.cannot_tell"
    PRINTED_ONLY = "printed.only"

    QUALITY_NOT_WORSE = "quality.not_worse"
    QUALITY_WORSE = "quality.worse"
    QUALITY_UNDECIDED = "quality.undecided"
    QUALITY_SINGLE_SEED = "quality.single_seed"
    QUALITY_RELEASED_WORSE = "quality.released_worse"
    QUALITY_LONG_TAIL = "quality.long_tail"
    QUALITY_WATCHED = "quality.watched"
    SEEDS_FAILURE_RATE = "seeds.failure_rate"
    SEEDS_FEW = "seeds.few"
    GROUPS_MISSING = "groups.missing"
    GROUPS_COUNTED = "groups.counted"
    SLICE_NOT_JUDGED = "slice.not_judged"
    EFFECT_SPLIT = "effect.split"
    CONFIDENCE_HOLM = "confidence.holm"
    MARGIN_BELOW_RESOLUTION = "margin.below_resolution"

    MEMORY_INCREASED = "memory.increased"
    MEMORY_NOT_COMPARED = "memory.not_compared"

    SPEED_FASTER = "speed.faster"
    SPEED_BELOW_MINIMUM = "speed.below_minimum"
    SPEED_NOT_REPAID = "speed.not_repaid"
    SPEED_UNDECIDED = "speed.undecided"
    SPEED_UNMEASURED = "speed.unmeasured"
    SPEED_DISAGREES = "speed.disagrees"
    SPEED_BEYOND_BELIEF = "speed.beyond_belief"
    SPEED_NOT_PAIRED = "speed.not_paired"
    SPEED_HINDERED = "speed.hindered"

    REGISTERED_WORSE = "registered.worse"
    REGISTERED_UNREADABLE = "registered.unreadable"

    @classmethod
    def _missing_(cls, value: object) -> Code | None:
        """A code of an earlier edition, so that its verdicts can still be read and shown."""
        if not isinstance(value, str) or not re.fullmatch(r"[a-z]+\.[a-z_]+", value):
            return None
        code = str.__new__(cls, value)
        vars(code).update(_name_=value, _value_=value)
        return code

    @property
    def subject(self) -> str:
        """The subject of the judgement: the part before the dot."""
        return self.partition(".")[0]


SCORES, TIMES = "scores", "times"
"""Parts of a replicate's evidence that a finding may make unusable."""
_BOTH, _NONE = frozenset({SCORES, TIMES}), frozenset[str]()
_SPOILS = {
    **dict.fromkeys(
        (
            Code.EVIDENCE_MISSING,
            Code.EVIDENCE_OF_ANOTHER,
            Code.EVIDENCE_DUPLICATED,
            Code.EVIDENCE_CHANGED,
            Code.EVIDENCE_LOST,
            Code.EVIDENCE_LACKING,
            Code.ARM_FAILED,
        ),
        _BOTH,
    ),
    **dict.fromkeys(
        (Code.EXAMPLES_MALFORMED, Code.EXAMPLES_DIFFER, Code.MODEL_OUTPUTS_OF_ANOTHER),
        frozenset({SCORES}),
    ),
    **dict.fromkeys((Code.STEPS_COUNT, Code.STEPS_SECONDS_INVALID), frozenset({TIMES})),
}
"""Parts that a finding makes unusable, by code. After any other finding the job is refused, and its
measurements are still compared and shown."""


@dataclass(frozen=True)
class Reason:
    """One judgement: what was found, which way it counts, and the numbers behind it."""

    code: Code
    outcome: Outcome
    sentence: str
    """One sentence that stands alone: seed, file or key, what was found, the limit."""
    numbers: Mapping[str, Number] = field(default_factory=dict)
    """Finite numbers, by name, in the units that the sentence uses or in seconds and fractions."""


@dataclass(frozen=True)
class Note:
    """Something that the reader should know and that decides nothing."""

    code: Code
    sentence: str
    numbers: Mapping[str, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """A defect or an oddity of one replicate's evidence."""

    statement: Reason | Note
    spoils: frozenset[str]

    @property
    def refuses(self) -> bool:
        """Whether it makes the evidence of its arm invalid."""
        return isinstance(self.statement, Reason)


@dataclass(frozen=True)
class Subject:
    """The replicate that a finding is about."""

    seed: int

    def fails(
        self, code: Code, text: str, *, spoils: Iterable[str] | None = None, **numbers: Number
    ) -> Finding:
        """A finding that refuses the replicate. `text` is a sentence without its subject; `spoils`
        replaces what the code usually spoils."""
        reason = failure(code, f"Seed {self.seed}: {text}", seed=self.seed, **numbers)
        usual = _SPOILS.get(code, _NONE)
        return Finding(reason, usual if spoils is None else frozenset(spoils))

    def leaves_open(self, code: Code, text: str, **numbers: Number) -> Finding:
        """A finding after which nothing can be concluded about the replicate."""
        reason = undecided(code, f"Seed {self.seed}: {text}", seed=self.seed, **numbers)
        return Finding(reason, _SPOILS.get(code, _NONE))

    def notes(self, code: Code, text: str, **numbers: Number) -> Finding:
        """A finding that is worth knowing and decides nothing."""
        return Finding(
            Note(code, f"Seed {self.seed}: {text}", {"seed": self.seed, **numbers}), _NONE
        )


def failure(code: Code, sentence: str, **numbers: Number) -> Reason:
    """A reason that fails what it is found in."""
    return Reason(code, Outcome.FAIL, sentence, _finite(numbers))


def undecided(code: Code, sentence: str, **numbers: Number) -> Reason:
    """A reason for which nothing can be concluded."""
    return Reason(code, Outcome.INCONCLUSIVE, sentence, _finite(numbers))


def _finite(numbers: Mapping[str, Number]) -> dict[str, Number]:
    """NaN and infinity are no numbers of a verdict: the sentence has them."""
    return {
        name: None if isinstance(it, float) and not math.isfinite(it) else it
        for name, it in numbers.items()
    }


def split(findings: Iterable[Reason | Note]) -> tuple[list[Reason], list[Note]]:
    """Reasons and notes, each sentence once."""
    found = list({(each.code, each.sentence): each for each in findings}.values())
    reasons = [each for each in found if isinstance(each, Reason)]
    return reasons, [each for each in found if isinstance(each, Note)]


_GRAVITY = (
    *("parity.differs", "arm", "steps.loss_not_finite", "quality.worse", "evidence", "data"),
    *("model", "examples", "steps", "baseline", "registered", "compiler", "recipe", "confound"),
    *("metric", "groups", "quality", "seeds", "slice", "memory", "speed", "parity"),
)
"""Codes and subjects, the gravest first: causes and harm before formalities. Wrong arithmetic is
why losses explode and metrics fall."""


def gravest_first(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Reasons by outcome, then by `_GRAVITY`, otherwise in the order found."""

    def rank(reason: Reason) -> tuple[int, int]:
        names = (reason.code, reason.code.subject)
        ranks = [_GRAVITY.index(name) for name in names if name in _GRAVITY]
        return -_SEVERITY[reason.outcome], min(ranks, default=len(_GRAVITY))

    return tuple(sorted(reasons, key=rank))


def clipped(text: str, most: int = 300) -> str:
    """The text on one line, printable and at most `most` characters long.

    Evidence may hold anything: line breaks, control characters, halves of surrogate pairs.
    """
    printable = "".join(character if character.isprintable() else " " for character in text)
    return printable if len(printable) <= most else printable[: most - 3] + "..."


def percent(share: float) -> str:
    """A share in per cent: whole from 10% on, else two digits."""
    return f"{share:.0%}" if share >= 0.1 else f"{share * 100:.2g}%"


def counted(count: int, noun: str) -> str:
    """`1 seed`, `1,200 rows`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
