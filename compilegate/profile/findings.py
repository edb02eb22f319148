"""What holds the steps up, gravest first: one of them is the bottleneck.

There are two sorts. A fault is something that no compiler mends, or that takes away what one would
gain: a slow loader, shapes that change, a value that is asked for in every step. A nature is what
the steps compute when nothing is wrong with them. A fault that counts goes before any nature.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compilegate.job.names import RULE_BREAK, RULE_DYNAMIC_UNSET, RULE_ITEM_IN_STEP
from compilegate.job.profiling.record import COMPUTING, UPDATE, Profile
from compilegate.profile.breakdown import (
    BETWEEN,
    COMMUNICATION,
    COMPILED,
    COPIES,
    DATA,
    ELEMENTWISE,
    KINDS,
    LAUNCHES,
    Breakdown,
)
from compilegate.rules import table

SHAPES, SYNCHRONISATION, BREAKS = "shapes", "synchronisation", "breaks"
WORTH_NAMING = {
    DATA: 0.25,
    COPIES: 0.2,
    COMMUNICATION: 0.25,
    BETWEEN: 0.3,
    UPDATE: 0.25,
    SHAPES: 0.2,
    SYNCHRONISATION: 0.15,
    BREAKS: 0.15,
}
"""Share of the step from which a fault is one."""
_SENTENCES = {
    DATA: "The steps wait for data in {share:.0%} of their time, which no compiler shortens.",
    COPIES: "Copies between host and device take {share:.0%} of a step, with nothing beside them.",
    COMMUNICATION: "Communication between the processes takes {share:.0%} of a step.",
    BETWEEN: "In {share:.0%} of the time no operator of torch runs and no loader is waited for: "
    "the program makes a batch itself, logs, saves, sleeps, or waits for a file or a lock.",
    "matrix": "The steps multiply matrices: {share:.0%} of their time is in products that a "
    "library computes, whoever asks for them.",
    "convolution": "The steps convolve: {share:.0%} of their time.",
    ELEMENTWISE: "The steps move memory: {share:.0%} of their time is in element-wise operations, "
    "normalisation and reductions.",
    LAUNCHES: "The steps are many small operations: in {share:.0%} of their time the host gets the "
    "next one going.",
    COMPILED: "The steps run what a compiler made: {share:.0%} of their time.",
}
MOST_STEADY_SHAPES = 4
"""As many graphs as a compiler makes without much ado, as of texts padded to a few lengths."""
_CALLS_BETWEEN = 100
"""Operators between two questions for a value, from which the question matters little: the host
can fill a device's queue meanwhile."""
_BREAKS_THAT_MATTER = 4
_MANY_CALLS = 100
"""Operators of an update, from which it is many small ones and not just a small step."""


@dataclass(frozen=True)
class Finding:
    """Something that holds the steps up."""

    kind: str
    score: float
    """The share of a step that it takes, or that it keeps a compiler from."""
    fault: bool
    sentence: str
    remedy: str
    where: tuple[str, ...] = ()
    rule: str | None = None
    """The rule of `compilegate check` that finds it in the source."""


def shapes_vary(shapes: Sequence[int]) -> bool:
    """Whether new shapes keep coming."""
    late = sum(
        1 for at, each in enumerate(shapes) if each not in shapes[:at] and at >= len(shapes) // 2
    )
    count = len(set(shapes))
    return count > MOST_STEADY_SHAPES or (count > 2 and late >= 2)


def findings_of(profile: Profile, parts: Breakdown) -> tuple[Finding, ...]:
    """All that is worth naming; the first is the bottleneck."""
    faults = sorted(
        (each for each in _faults(profile, parts) if each.score >= WORTH_NAMING[each.kind]),
        key=lambda each: -each.score,
    )
    natures = sorted(
        (
            _simple(kind, parts.share(parts.of_kind(kind)), profile.compiler, fault=False)
            for kind in KINDS
        ),
        key=lambda each: -each.score,
    )
    first = natures[0]
    # What is asked for seldom enough, or breaks into few enough parts, is no bottleneck of steps
    # that compute something large.
    minor = (SYNCHRONISATION, BREAKS)
    small = [each for each in faults if each.kind in minor and each.score < first.score / 2]
    large = [each for each in faults if each not in small]
    rest = [] if large else [each for each in natures[1:] if each.score >= 0.25]
    return (*large, first, *small, *rest)


def _simple(kind: str, share: float, compiler: str, *, fault: bool) -> Finding:
    known = table().measured[kind]
    remedy = known.remedy if compiler == "eager" else known.compiled_remedy
    return Finding(kind, share, fault, _SENTENCES[kind].format(share=share), remedy)


def _faults(profile: Profile, parts: Breakdown) -> Iterator[Finding]:
    for kind in (DATA, COPIES, COMMUNICATION, BETWEEN):
        yield _simple(kind, parts.of_part(kind), profile.compiler, fault=True)
    yield _update(profile, parts)
    if shapes_vary(profile.shapes):
        yield _shapes(profile, parts)
    yield from _synchronisation(profile, parts)
    if profile.graphs is not None and profile.graphs.breaks:
        yield _breaks(profile, parts)


def _found(
    kind: str, score: float, sentence: str, where: tuple[str, ...] = (), rule: str | None = None
) -> Finding:
    remedy = table().measured[kind].remedy
    return Finding(kind, min(score, 1.0), True, sentence, remedy, where[:5], rule)


def _update(profile: Profile, parts: Breakdown) -> Finding:
    calls = sum(each.calls for each in profile.operators if each.part == UPDATE)
    share = parts.share(parts.inside[UPDATE, LAUNCHES] + parts.inside[UPDATE, ELEMENTWISE])
    elsewhere = parts.share(parts.inside[COMPUTING, LAUNCHES])
    return _found(
        UPDATE,
        share if share > elsewhere and calls >= _MANY_CALLS else 0.0,
        f"Changing the weights takes {parts.of_part(UPDATE):.0%} of a step, most of it many small "
        "operations on one tensor after the other.",
    )


def _shapes(profile: Profile, parts: Breakdown) -> Finding:
    return _found(
        SHAPES,
        parts.of_part(COMPUTING) + parts.of_part(DATA) * 0.5,
        f"The operators were called with {len(set(profile.shapes))} sets of shapes in "
        f"{profile.profiled_steps} steps: a compiler of static shapes compiles each of them.",
        rule=RULE_DYNAMIC_UNSET,
    )


def _synchronisation(profile: Profile, parts: Breakdown) -> Iterator[Finding]:
    steps = max(profile.profiled_steps, 1)
    asked = [each for each in profile.synchronisations if each.count >= steps / 2]
    count = sum(each.count for each in asked) / steps
    if count < 0.9:
        return
    calls = sum(each.calls for each in profile.operators)
    dense = min(1.0, count * _CALLS_BETWEEN / calls) if calls else 1.0
    costs = (
        " On this processor the question itself costs little; on a GPU it empties the queue."
        if profile.device == "cpu"
        else ""
    )
    yield _found(
        SYNCHRONISATION,
        parts.share(parts.of_kind(LAUNCHES)) * dense,
        f"Each step asks {f'{count:.0f} times' if count >= 1.5 else 'once'} for the value of a "
        "tensor: the host cannot run ahead of a device, XLA ends its graph there, and within the "
        f"model any compiler's graph breaks.{costs}",
        tuple(each.where for each in asked),
        RULE_ITEM_IN_STEP,
    )


def _breaks(profile: Profile, parts: Breakdown) -> Finding:
    breaks = () if profile.graphs is None else profile.graphs.breaks
    places = tuple(dict.fromkeys(each.where for each in breaks))
    gains = sum(parts.inside[COMPUTING, kind] for kind in (LAUNCHES, ELEMENTWISE, COMPILED))
    return _found(
        BREAKS,
        parts.share(gains) * min(1.0, len(places) / _BREAKS_THAT_MATTER),
        f"torch.compile leaves its graph at {len(places)} place{'s' if len(places) > 1 else ''}: "
        f"{breaks[0].where}, {breaks[0].reason}.",
        places,
        RULE_BREAK,
    )
