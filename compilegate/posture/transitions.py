"""What an execution trains, and what an event does to a state, and why. Pure: the same events give
the same state.

`MOVES` is the table of postures and findings; a choice leads to its posture from anywhere. No
verdict moves a posture up by more than one step. A verdict counts for the posture that its
execution was planned under: where another execution has moved it meanwhile, the verdict is kept and
moves nothing. So executions that overlap cannot promote twice or undo a person's choice.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from compilegate.posture.contract import ALL, BASELINE, Policy
from compilegate.posture.sequential import drift, proven_worse, why_promoted
from compilegate.posture.state import (
    ALL_TRAIN,
    Chosen,
    Event,
    Plan,
    Posture,
    Reference,
    Registered,
    Seen,
    Settled,
    Started,
    State,
    Track,
)

CONFIRMATIONS = 2
"""A failed execution and so many more in a row refuse a candidate, without any statistics of
several executions: with two, each at the gate's level, chance does not do that."""
_MOST_OPEN = 50
"""Executions that are remembered as running; the oldest, which will not come back, go first."""
_MOST_ITEMS = 60
"""Looks and values that a record keeps; a year of weekly executions."""
_SCHEDULE_JITTER_DAYS = 0.5
"""A weekly schedule comes a few minutes early as often as late, so a week may lack half a day."""

_Item = TypeVar("_Item")


class Finding(enum.Enum):
    """The finding of a start or an end about the candidates."""

    NOTHING = enum.auto()
    READY = enum.auto()
    """A candidate has shown enough for the next posture."""
    REFUSED = enum.auto()
    """All candidates are out; in `on`, the one that trains alone is."""
    UNDECLARED = enum.auto()
    """The workload no longer declares the candidate that trains alone."""
    NEW_IMAGE = enum.auto()


MOVES: Mapping[tuple[Posture, Finding], Posture] = {
    (Posture.BENCHMARK, Finding.READY): Posture.SHADOW,
    (Posture.BENCHMARK, Finding.REFUSED): Posture.REVERTED,
    (Posture.SHADOW, Finding.READY): Posture.ON,
    (Posture.SHADOW, Finding.REFUSED): Posture.REVERTED,
    (Posture.ON, Finding.REFUSED): Posture.REVERTED,
    (Posture.ON, Finding.UNDECLARED): Posture.SHADOW,
    (Posture.REVERTED, Finding.NEW_IMAGE): Posture.BENCHMARK,
}
"""Any other pair leaves the posture as it is."""


@dataclass(frozen=True)
class Moved:
    """A state, and one sentence for why it is what it is now."""

    state: State
    reason: str
    finding: Finding = Finding.NOTHING


def transition(state: State, event: Event) -> Moved:
    """The state after an event."""
    match event:
        case Started():
            return _start(state, event)
        case Settled():
            return _settle(state, event)
        case Registered():
            return Moved(state, f"the model of {event.execution} is registered")
        case Chosen():
            return _choose(state, event)


def _choose(state: State, event: Chosen) -> Moved:
    """Enter a posture whatever was found; no earlier evidence counts in it."""
    fresh = State(epoch=state.epoch, open=state.open, arm=event.arm)
    return Moved(_enter(fresh, event.posture, event.when, event.reason), event.reason)


def _moved(found: Moved, when: str) -> Moved:
    """The posture that the table gives for a finding."""
    posture = MOVES.get((found.state.posture, found.finding))
    if posture is None:
        return found
    return replace(found, state=_enter(found.state, posture, when, found.reason))


def _enter(state: State, posture: Posture, when: str, reason: str) -> State:
    """A posture's first state. What the benchmark showed about a candidate counts in shadow."""
    on = posture is Posture.ON
    benchmarked = (state.posture, posture) == (Posture.BENCHMARK, Posture.SHADOW)
    return State(
        posture=posture,
        since=when,
        reason=reason,
        epoch=state.epoch + 1,
        arm=state.arm if on else "",
        tracks=state.tracks if benchmarked else {},
        fingerprint=state.fingerprint,
        reference=state.reference if on else None,
        rescue=state.rescue,
        open=state.open,
    )


# An execution's start


def _days_between(earlier: str, later: str) -> float:
    span = datetime.datetime.fromisoformat(later) - datetime.datetime.fromisoformat(earlier)
    return span.total_seconds() / 86400


def _has_passed(days: float, since: str, now: str) -> bool:
    """Whether so many days have passed, as a schedule counts them."""
    return _days_between(since, now) >= days - min(_SCHEDULE_JITTER_DAYS, days / 2)


def plan(state: State, policy: Policy, candidates: tuple[str, ...], when: str) -> Plan:
    """The plan of an execution that starts now."""
    arms, reason = _arms(state, policy, when)
    running = [track for track in state.tracks.values() if not track.refused]
    # A candidate does not ship while all are only measured: in the benchmark, or after a failure.
    in_trial = bool(running) and all(track.trial for track in running)
    measured = state.posture is Posture.BENCHMARK or in_trial
    return Plan(
        posture=state.posture,
        epoch=state.epoch,
        candidates=candidates,
        policy=policy,
        arms=arms,
        watched=state.posture is Posture.ON
        and not _has_passed(policy.watch_days, state.since, when),
        reason=f"{state.posture}: {reason}",
        registers="baseline" if arms == ALL and measured else "gate",
    )


def _arms(state: State, policy: Policy, when: str) -> tuple[str, str]:
    """The arms that train, and the reason."""
    if state.rescue:
        return BASELINE, f"the baseline trains alone, because {state.rescue}"
    if state.posture in ALL_TRAIN:
        return ALL, "all arms train"
    if state.posture is not Posture.ON:
        image = " or an image changes" if state.posture is Posture.REVERTED else ""
        return BASELINE, f"the baseline trains alone until a person resets it{image}"
    if why := _audit_reason(state, policy, when):
        return ALL, f"an audit of all arms, because {why}"
    return state.arm, f"{state.arm} trains alone"


def _audit_reason(state: State, policy: Policy, when: str) -> str:
    """Why an execution that starts now in `on` must train all arms; empty when it need not."""
    if state.audit_due:
        return state.audit_due
    if state.reference is None:
        return "there are no reference metrics to compare with"
    if _days_between(state.reference.when, when) > policy.reference_days:
        measured = state.reference.when[:10]
        return f"the reference of {measured} is older than {policy.reference_days:g} days"
    due = state.since_audit + 1 >= policy.audit_every
    return f"one execution in {policy.audit_every} is an audit" if due else ""


def _start(state: State, event: Started) -> Moved:
    known = state if state.since else replace(state, since=event.when)
    adopted = _moved(_adopted(known, event), event.when).state
    planned = plan(adopted, event.policy, event.candidates, event.when)
    opened = [*adopted.open.items(), (event.execution, planned)][-_MOST_OPEN:]
    moved = f"{adopted.reason}; " if adopted.epoch != state.epoch else ""
    return Moved(replace(adopted, open=dict(opened), rescue=""), f"{moved}{planned.reason}")


def _adopted(state: State, event: Started) -> Moved:
    """The state under what the workload declares now."""
    before, now = state.fingerprint, event.fingerprint
    changed = [name for name in now if before and before.get(name) != now[name]]
    in_words = f"{' and '.join(changed)} changed"
    state = replace(state, fingerprint=now)
    if "image" in changed and state.posture is Posture.REVERTED:
        return Moved(state, f"{in_words}: a new image is benchmarked again", Finding.NEW_IMAGE)
    if changed:
        # Passes under another image are not passes of this one, and the reference goes with what
        # it was measured under: nothing is compared with it again.
        due = state.audit_due or in_words if state.posture is Posture.ON else ""
        state = replace(state, tracks={}, reference=None, audit_due=due)
    if state.posture is Posture.ON and state.arm not in event.candidates:
        return Moved(state, f"the workload no longer declares {state.arm}", Finding.UNDECLARED)
    return Moved(state, "")


# An execution's end


def _settle(state: State, event: Settled) -> Moved:
    planned = state.open.get(event.execution)
    if planned is None:
        return Moved(state, f"{event.execution} was not planned or is already settled")
    still_open = {name: each for name, each in state.open.items() if name != event.execution}
    state = replace(state, open=still_open)
    if planned.epoch != state.epoch:
        return Moved(state, f"planned under {planned.posture}, and the posture has moved since")
    crashed = any(seen.crashed for seen in event.seen)
    if crashed or (event.lost and event.registered == "none"):
        state = replace(state, rescue="a candidate's job failed and no model was registered")
    unlearned = event.nothing_learned or ("" if event.seen else event.lost)
    if unlearned:
        return Moved(state, f"nothing was learned: {unlearned}")
    return _moved(_learned(state, event, planned), event.when)


def _learned(state: State, event: Settled, planned: Plan) -> Moved:
    """The state after the execution's results."""
    if planned.arms == BASELINE:
        return Moved(state, f"{state.posture}: {event.registered} was registered")
    if state.posture in ALL_TRAIN:
        return _tried(state, event, planned)
    seen = next((one for one in event.seen if one.arm == state.arm), None)
    if seen is None:
        return Moved(state, f"on: no result of {state.arm}")
    if planned.audit:
        return _audited(state, planned.policy, seen, event.when)
    return _trained_alone(state, seen)


def _tried(state: State, event: Settled, planned: Plan) -> Moved:
    """The state after an execution of all arms before `on`."""
    policy, tracks = planned.policy, {**state.tracks}
    for seen in event.seen:
        tracks[seen.arm] = _tracked(tracks.get(seen.arm, Track()), seen, policy)
    state = replace(state, tracks=tracks)
    refused = [arm for arm in planned.candidates if arm in tracks and tracks[arm].refused]
    if refused and len(refused) == len(planned.candidates):
        why = "; ".join(f"{arm} was refused: {tracks[arm].refused}" for arm in refused)
        return Moved(state, why, Finding.REFUSED)
    running = [seen for seen in event.seen if not tracks[seen.arm].refused]
    passed = [seen for seen in running if seen.outcome == "pass"]
    if state.posture is Posture.BENCHMARK and passed:
        return Moved(state, f"{_fastest(passed).arm} passed the benchmark", Finding.READY)
    promoted = _promoted(state, policy, running, event.when)
    if state.posture is Posture.SHADOW and promoted is not None:
        return promoted
    if running and min(tracks[seen.arm].executions for seen in running) >= policy.patience:
        why = f"no candidate was promoted in {policy.patience} executions"
        return Moved(state, why, Finding.REFUSED)
    results = ", ".join(
        f"{seen.arm} {seen.outcome}{', to be repeated' if tracks[seen.arm].trial else ''}"
        for seen in event.seen
    )
    return Moved(state, f"{state.posture}: {results or 'no result of any candidate'}")


def _promoted(state: State, policy: Policy, running: list[Seen], when: str) -> Moved | None:
    why = {seen.arm: why_promoted(state.tracks[seen.arm], policy) for seen in running}
    ready = [seen for seen in running if seen.outcome != "fail" and why[seen.arm]]
    if not ready:
        return None
    arm = _fastest(ready).arm
    if not _has_passed(policy.shadow_days, state.since, when):
        days = f"{policy.shadow_days:g} days in shadow"
        return Moved(state, f"{arm} has shown enough; it is promoted after {days}")
    reference = _reference(state.tracks[arm], state.tracks[arm].values, when)
    promoted = replace(state, arm=arm, reference=reference)
    return Moved(promoted, f"{arm} is promoted: {why[arm]}", Finding.READY)


def _fastest(seen: list[Seen]) -> Seen:
    """The first declared of those that are equally fast."""
    return max(seen, key=lambda one: one.speedup or 0.0)


def _latest(before: tuple[_Item, ...], new: _Item) -> tuple[_Item, ...]:
    """Items with a new one, unless it is empty, without the oldest beyond the limit."""
    return (*before, new)[-_MOST_ITEMS:] if new else before


def _tracked(track: Track, seen: Seen, policy: Policy) -> Track:
    """The track with one more execution of all arms.

    One failed execution refuses nothing: data that change between executions fail even a good
    candidate now and then. It is repeated, which is a trial, and the planned looks restart.
    """
    failed, passed = seen.outcome == "fail", seen.outcome == "pass"
    begins = failed and not track.trial
    after = replace(
        track,
        passes=track.passes + 1 if passed else 0,
        executions=0 if begins else track.executions + 1,
        looks=_latest(track.looks, seen.differences),
        values=_latest(track.values, seen.values),
        trial=not passed and (failed or track.trial),
        trials=track.trials + begins,
        failures=track.failures + 1 if failed and not begins else 0,
        recent=() if begins else _latest(track.recent, seen.differences),
    )
    return replace(after, refused=track.refused or _refusal(after, seen, policy))


def _refusal(track: Track, seen: Seen, policy: Policy) -> str:
    """Why an execution puts a candidate out; empty where it does not."""
    if seen.outcome == "fail" and (seen.broken or seen.crashed):
        return seen.reason
    if (found := proven_worse(track, policy)) or track.failures < CONFIRMATIONS:
        return found
    count = f"{1 + track.failures} executions failed, the last {track.failures} in a row"
    return f"{count}: {seen.reason}"


def _reference(
    track: Track, values: tuple[Mapping[str, float], ...], when: str
) -> Reference | None:
    margins = {one.metric: one.margin for look in track.looks[-1:] for one in look}
    return Reference(when=when, values=values, margins=margins) if values else None


def _trained_alone(state: State, seen: Seen) -> Moved:
    """The state after the candidate trained alone."""
    if seen.outcome == "fail":
        return Moved(state, f"{state.arm} failed: {seen.reason}", Finding.REFUSED)
    worse = "" if state.reference is None else drift(seen.values, state.reference)
    state = replace(state, since_audit=state.since_audit + 1, audit_due=worse or state.audit_due)
    then = f"{worse}: the next execution is an audit" if worse else f"on: {state.arm} trained alone"
    return Moved(state, then)


def _audited(state: State, policy: Policy, seen: Seen, when: str) -> Moved:
    """The state after an audit. Audits are repeated until one passes, or refuses the candidate."""
    arm, track = state.arm, _tracked(state.tracks.get(state.arm, Track()), seen, policy)
    state = replace(state, tracks={arm: track}, since_audit=0)
    if track.refused:
        return Moved(state, f"{arm} was refused in an audit: {track.refused}", Finding.REFUSED)
    if seen.outcome == "pass":
        values = state.reference.values if state.reference is not None else ()
        renewed = _reference(track, _latest(values, seen.values), when)
        passed = replace(state, reference=renewed, audit_due="")
        return Moved(passed, f"on: {arm} passed its audit; the reference is renewed")
    ended = "failed" if seen.outcome == "fail" else "was inconclusive"
    due = f"the last audit {ended}: {seen.reason}"
    return Moved(replace(state, audit_due=due), due)
