"""What holds the steps up, gravest first: one of them is the bottleneck.

There are two sorts. A fault is something that no compiler mends, or that takes away what one would
gain: a slow loader, shapes that change, a value that is asked for in every step. A nature is what
the steps compute when nothing is wrong with them. A fault that counts goes before any nature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compilegate.job.names import (
    RULE_BREAK,
    RULE_DYNAMIC_UNSET,
    RULE_ITEM_IN_STEP,
    RULE_RAGGED_BATCH,
    RULE_SYNC_IN_REGION,
)
from compilegate.job.profiling.record import (
    BACKWARD,
    FORWARD,
    HOST,
    OTHER,
    UPDATE,
    Break,
    Line,
    Profile,
)
from compilegate.profile.breakdown import (
    COMMUNICATION,
    COMPILED,
    CONVOLUTION,
    COPIES,
    ELEMENTWISE,
    IDLE,
    LAUNCHES,
    LOADER,
    MATRIX,
    Breakdown,
)
from compilegate.rules import table

SHAPES, SYNCHRONISATION, BREAKS, BETWEEN, RAGGED, SMALL_UPDATE = (
    "shapes",
    "synchronisation",
    "breaks",
    "between steps",
    "ragged batch",
    "update",
)
_WORTH_NAMING = {
    LOADER: 0.25,
    COPIES: 0.2,
    COMMUNICATION: 0.25,
    BETWEEN: 0.3,
    IDLE: 0.25,
    SMALL_UPDATE: 0.25,
    SHAPES: 0.2,
    SYNCHRONISATION: 0.15,
    BREAKS: 0.15,
}
"""Share of the step from which a fault is one."""
MOST_STEADY_SHAPES = 4
"""As many graphs as a compiler makes without much ado, as of texts padded to a few lengths."""
_CALLS_BETWEEN = 100
"""Operators between two questions for a value, from which the question matters little: the host
can fill a device's queue meanwhile."""
_BREAKS_THAT_MATTER = 4
_MANY_CALLS = 100
"""Operators of an update, from which it is many small ones and not just a small step."""


EAGER = "eager"


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


@dataclass(frozen=True)
class SeenShapes:
    """How the steps' shapes were."""

    count: int
    steps: int
    varies: bool
    """New ones kept coming."""
    ragged: bool
    """One alone is of the last batch of each epoch."""


def seen_shapes(profile: Profile) -> SeenShapes:
    """The shapes of the steps, and whether they are few."""
    seen = profile.shapes.by_step
    count = len(set(seen))
    late = sum(1 for at, each in enumerate(seen) if each not in seen[:at] and at >= len(seen) // 2)
    varies = count > MOST_STEADY_SHAPES or (count > 2 and late >= 2)
    rare = min((seen.count(each) for each in set(seen)), default=0)
    return SeenShapes(count, len(seen), varies, count == 2 and rare <= max(len(seen) // 8, 1))


def findings_of(profile: Profile, parts: Breakdown) -> tuple[Finding, ...]:
    """All that is worth naming; the first is the bottleneck."""
    faults = [
        each
        for each in (
            _loader(parts, profile),
            _copies(parts),
            _communication(parts),
            _between(parts, profile),
            _idle(parts, profile),
            _update(parts, profile),
            _shapes(parts, profile),
            _synchronisation(parts, profile),
            _breaks(parts, profile),
        )
        if each is not None and each.score >= _WORTH_NAMING[each.kind]
    ]
    faults.sort(key=lambda each: -each.score)
    natures = sorted(_natures(parts, profile.compiler), key=lambda each: -each.score)
    first = natures[0]
    # What is asked for seldom enough, or breaks into few enough parts, is no bottleneck of steps
    # that compute something large.
    minor = (SYNCHRONISATION, BREAKS)
    small = [each for each in faults if each.kind in minor and each.score < first.score / 2]
    large = [each for each in faults if each not in small]
    ragged = seen_shapes(profile)
    rest = [_ragged(ragged)] if ragged.ragged and not ragged.varies else []
    if large:
        return (*large, first, *small, *rest)
    return (first, *small, *rest, *(each for each in natures[1:] if each.score >= 0.25))


def _loader(parts: Breakdown, profile: Profile) -> Finding:
    share = parts.share(parts.loader.seconds)
    lines = _lines(profile.lines, "loads") or _lines(profile.lines, "", LOADER)
    return Finding(
        LOADER,
        share,
        True,
        f"The steps wait for data: {share:.0%} of their time, which no compiler shortens.",
        table().measured[LOADER].remedy,
        lines,
    )


def _copies(parts: Breakdown) -> Finding:
    share = parts.share(parts.copies.seconds)
    return Finding(
        COPIES,
        share,
        True,
        f"Copies between host and device take {share:.0%} of a step, with nothing beside them.",
        table().measured[COPIES].remedy,
    )


def _communication(parts: Breakdown) -> Finding:
    share = parts.share(parts.communication.seconds)
    return Finding(
        COMMUNICATION,
        share,
        True,
        f"Communication between the processes takes {share:.0%} of a step.",
        table().measured[COMMUNICATION].remedy,
    )


def _between(parts: Breakdown, profile: Profile) -> Finding:
    share = parts.share(parts.between.seconds)
    return Finding(
        BETWEEN,
        share,
        True,
        f"{share:.0%} of the time is neither data nor training: it is spent between the steps or "
        "before the model is called.",
        table().measured[BETWEEN].remedy,
        _lines(profile.lines, "computes", OTHER),
    )


def _idle(parts: Breakdown, profile: Profile) -> Finding:
    share = parts.share(parts.idle.seconds)
    return Finding(
        IDLE,
        share,
        True,
        f"Nothing computes in {share:.0%} of the time, and no batch is waited for: the program "
        "sleeps, or waits for a file, a network or a lock.",
        table().measured[IDLE].remedy,
        _lines(profile.lines, "computes"),
    )


def _update(parts: Breakdown, profile: Profile) -> Finding:
    calls = sum(each.calls for each in profile.operators if each.phase == UPDATE)
    own = parts.computing[UPDATE].seconds
    launches = parts.inside[UPDATE, LAUNCHES] + parts.inside[UPDATE, ELEMENTWISE]
    share = parts.share(launches)
    forward_too = parts.share(parts.of_kind(LAUNCHES, (FORWARD, BACKWARD)))
    return Finding(
        SMALL_UPDATE,
        share if share > forward_too and calls >= _MANY_CALLS else 0.0,
        True,
        f"Changing the weights takes {parts.share(own):.0%} of a step, most of it many small "
        "operations on one tensor after the other.",
        table().measured[SMALL_UPDATE].remedy,
    )


def _shapes(parts: Breakdown, profile: Profile) -> Finding | None:
    seen = seen_shapes(profile)
    if not seen.varies:
        return None
    computing = parts.computing[FORWARD].seconds + parts.computing[BACKWARD].seconds
    return Finding(
        SHAPES,
        parts.share(computing) + parts.share(parts.loader.seconds) * 0.5,
        True,
        f"The model was called with {seen.count} different shapes in {seen.steps} steps: a "
        "compiler of static shapes compiles each of them.",
        table().measured[SHAPES].remedy,
        rule=RULE_DYNAMIC_UNSET,
    )


def asked_each_step(profile: Profile) -> dict[str, float]:
    """By line, how often a step asks for a value; without those that a batch is made with."""
    steps = max(profile.looked_at, 1)
    found: dict[str, float] = {}
    for each in profile.synchronisations:
        if each.phase != LOADER:
            found[each.where] = found.get(each.where, 0.0) + each.count / steps
    return {where: count for where, count in found.items() if count >= 0.5}


def _synchronisation(parts: Breakdown, profile: Profile) -> Finding | None:
    asked = asked_each_step(profile)
    count = sum(asked.values())
    if count < 0.9:
        return None
    inside = any(
        each.phase in (FORWARD, BACKWARD) and each.where in asked
        for each in profile.synchronisations
    )
    host = parts.share(parts.of_kind(LAUNCHES))
    taken = sum(each.seconds for each in profile.synchronisations if each.where in asked)
    calls = sum(each.calls for each in profile.operators)
    dense = min(1.0, count * _CALLS_BETWEEN / calls) if calls else 1.0
    score = host * dense
    if profile.device != HOST:  # here an answer is at hand; there it is waited for
        score += parts.share(taken / max(profile.looked_at, 1))
    if inside:
        score += 0.5 * parts.share(parts.of_kind(ELEMENTWISE, (FORWARD, BACKWARD)))
    times = f"{count:.0f} times" if count >= 1.5 else "once"
    what = (
        "within the forward or backward pass, where a compiler's graph breaks"
        if inside
        else "so that the host cannot run ahead of a device, and XLA ends its graph there"
    )
    costs = (
        " On this processor the question itself costs little; on a GPU it empties the queue."
        if profile.device == "cpu"
        else ""
    )
    return Finding(
        SYNCHRONISATION,
        min(score, 1.0),
        True,
        f"Each step asks {times} for the value of a tensor, {what}.{costs}",
        table().measured[SYNCHRONISATION].remedy,
        tuple(sorted(asked, key=lambda each: -asked[each])[:5]),
        RULE_SYNC_IN_REGION if inside else RULE_ITEM_IN_STEP,
    )


def _breaks(parts: Breakdown, profile: Profile) -> Finding | None:
    captured = profile.captured
    if captured is None or not captured.breaks:
        return None
    asked = asked_each_step(profile)
    others = [each for each in captured.breaks if each.where not in asked]
    if not others:
        return None
    gains = parts.share(
        parts.of_kind(LAUNCHES, (FORWARD, BACKWARD))
        + parts.of_kind(ELEMENTWISE, (FORWARD, BACKWARD))
        + parts.of_kind(COMPILED, (FORWARD, BACKWARD))
    )
    places = len({each.where for each in others})
    return Finding(
        BREAKS,
        gains * min(1.0, places / _BREAKS_THAT_MATTER),
        True,
        f"torch.compile would leave its graph at {places} place{'s' if places > 1 else ''}: "
        f"{_told(others[0])}.",
        table().measured[BREAKS].remedy,
        tuple(dict.fromkeys(each.where for each in others))[:5],
        RULE_BREAK,
    )


def _told(each: Break) -> str:
    return f"{each.where}, {each.reason}"


def _ragged(seen: SeenShapes) -> Finding:
    return Finding(
        RAGGED,
        0.0,
        True,
        f"The last batch of an epoch has another shape ({seen.count} shapes in {seen.steps} "
        "steps): one more graph.",
        table().measured[RAGGED].remedy,
        rule=RULE_RAGGED_BATCH,
    )


def _natures(parts: Breakdown, compiler: str) -> list[Finding]:
    matrix = parts.share(parts.of_kind(MATRIX))
    convolution = parts.share(parts.of_kind(CONVOLUTION))
    elementwise = parts.share(parts.of_kind(ELEMENTWISE))
    launches = parts.share(parts.of_kind(LAUNCHES))
    compiled = parts.share(parts.of_kind(COMPILED))
    found = [
        Finding(
            MATRIX,
            matrix,
            False,
            f"The steps multiply matrices: {matrix:.0%} of their time is in products that a "
            "library computes, whoever asks for them.",
            table().measured[MATRIX].remedy,
        ),
        Finding(
            CONVOLUTION,
            convolution,
            False,
            f"The steps convolve: {convolution:.0%} of their time.",
            table().measured[CONVOLUTION].remedy,
        ),
        Finding(
            ELEMENTWISE,
            elementwise,
            False,
            f"The steps move memory: {elementwise:.0%} of their time is in element-wise "
            "operations, normalisation and reductions.",
            _left_to_do(ELEMENTWISE, compiler),
        ),
        Finding(
            LAUNCHES,
            launches,
            False,
            f"The steps are many small operations: in {launches:.0%} of their time the host gets "
            "the next one going.",
            _left_to_do(LAUNCHES, compiler),
        ),
    ]
    if compiled:
        found.append(
            Finding(
                COMPILED,
                compiled,
                False,
                f"The steps run what a compiler made: {compiled:.0%} of their time.",
                table().measured[COMPILED].remedy,
            )
        )
    return found


def _left_to_do(kind: str, compiler: str) -> str:
    known = table().measured[kind]
    return known.remedy if compiler == EAGER else known.compiled_remedy


def _lines(lines: Sequence[Line], what: str, phase: str | None = None) -> tuple[str, ...]:
    chosen: dict[str, int] = {}
    for each in lines:
        if (not what or each.what == what) and phase in (None, each.phase):
            chosen[each.where] = chosen.get(each.where, 0) + each.count
    return tuple(sorted(chosen, key=lambda each: -chosen[each])[:3])
