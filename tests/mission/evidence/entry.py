"""What an entry of the corpus is, and the bases that entries change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.mission.evidence.edits import Edit, clock, only
from tests.mission.evidence.files import Execution, read_base
from tests.mission.evidence.gate import NOTHING

PASS, FAIL, OPEN = "pass", "fail", "inconclusive"
BASELINE, CANDIDATE, LARGER = "baseline", "compiler-only", "larger-batch"


@dataclass(frozen=True)
class Right:
    """The decision that is right. Where sense allows two outcomes, `why` says so in one line."""

    candidates: Mapping[str, frozenset[str]]
    baseline_valid: frozenset[bool]
    registered: frozenset[str]
    why: str = ""

    @property
    def is_sharp(self) -> bool:
        """Whether a single decision is right."""
        sets = (*self.candidates.values(), self.baseline_valid, self.registered)
        return all(len(each) == 1 for each in sets)


@dataclass(frozen=True)
class Entry:
    """A set of evidence: a base, what is changed in it, and the decision that is right."""

    name: str
    situation: str
    """What happened, in a sentence of the colleague whose execution it is."""
    right: Right
    edits: Sequence[Edit] = ()
    base: str = "topics"

    def execution(self) -> Execution:
        """The evidence, as it is before it is written."""
        execution = BASES[self.base]()
        for edit in self.edits:
            edit(execution)
        return execution


def released(arm: str = CANDIDATE, **others: str) -> Right:
    """This candidate passes and is registered. `others`: what becomes of the other candidates."""
    outcomes = {name.replace("_", "-"): outcome for name, outcome in others.items()}
    return _right({arm: {PASS}, **{name: {it} for name, it in outcomes.items()}}, {True}, {arm})


def stands(*outcomes: str, arm: str = CANDIDATE, why: str = "", also: str | None = None) -> Right:
    """The candidate has one of these outcomes; the baseline is valid, and registered.

    `also`: another candidate of the same fate.
    """
    arms = [each for each in (arm, also) if each is not None]
    return _right({each: set(outcomes) for each in arms}, {True}, {BASELINES[arm]}, why)


def decided(candidates: Mapping[str, Sequence[str]], registered: str, why: str = "") -> Right:
    """Several candidates with an outcome each; the baseline is valid."""
    return _right({arm: set(it) for arm, it in candidates.items()}, {True}, {registered}, why)


def nothing(*outcomes: str, arm: str = CANDIDATE, why: str = "") -> Right:
    """The baseline is not valid, nothing passes, and nothing is registered."""
    return _right({arm: set(outcomes)}, {False}, {NOTHING}, why)


def either(*outcomes: str, arm: str = CANDIDATE, why: str) -> Right:
    """The candidate does not pass; whether the baseline is valid may be seen in two ways."""
    return _right({arm: set(outcomes)}, {True, False}, {NOTHING, BASELINES[arm]}, why)


def _right(
    candidates: Mapping[str, set[str]], valid: set[bool], registered: set[str], why: str = ""
) -> Right:
    outcomes = {arm: frozenset(allowed) for arm, allowed in candidates.items()}
    return Right(outcomes, frozenset(valid), frozenset(registered), why)


BASELINES = {CANDIDATE: BASELINE, LARGER: BASELINE, "matrix": "loop"}
"""By candidate, the baseline of its base."""


def _topics() -> Execution:
    """Topics of news stories by the built-in program: baseline and compiler-only.

    On a quiet machine: the jobs' own times are those of a busy one, and few of them are comparable.
    """
    execution = _topics_of_three()
    only(BASELINE, CANDIDATE)(execution)
    return execution


def _topics_of_three() -> Execution:
    """The same with larger-batch, whose models are other ones."""
    execution = read_base("topics")
    for edit in (
        clock(BASELINE, 0.0060),
        clock(CANDIDATE, 0.0042, baseline=0.0060),
        clock(LARGER, 0.0046, baseline=0.0060),
    ):
        edit(execution)
    return execution


def _digits() -> Execution:
    """Handwritten digits by a script on `compilegate.job`, in bf16, on a quiet machine."""
    execution = read_base("digits")
    for edit in (
        clock(BASELINE, 0.0020, rest=0.0003),
        clock(CANDIDATE, 0.0015, rest=0.0003, baseline=0.0020),
    ):
        edit(execution)
    return execution


def _printed() -> Execution:
    """Handwritten digits by a script that prints its metrics, on a quiet machine."""
    execution = read_base("printed")
    for (arm, seed), job in execution.jobs.items():
        speeds = job.document["printed"]["samples_per_second"]
        usual = (8000.0 if arm == BASELINE else 10500.0) * (1.0 + 0.01 * (seed - 2))
        told = [speeds[0], *[round(usual * (1.0 + 0.002 * it), 2) for it in range(-5, 6)]]
        job.document["printed"]["samples_per_second"] = told
        job.document["metrics"]["samples_per_second"] = sum(told[1:]) / 11
        job.document["checkup"] |= {"load": 1.0, "cores_of_other_processes": 0.0}
    return execution


BASES: dict[str, Callable[[], Execution]] = {
    "topics": _topics,
    "topics-three": _topics_of_three,
    "topics-as-left": lambda: read_base("topics"),
    "digits": _digits,
    "printed": _printed,
    "regression": lambda: read_base("regression"),
}
