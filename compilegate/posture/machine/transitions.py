"""What an event does to a state, and why. Pure: the same events give the same state.

    off --set--> benchmark --a pass--> shadow --promoted--> on --audits pass--> on
                     \\__________ refused or undecided too long __|__ regression __/
                                             v
                     benchmark <--new image-- reverted <--reset by a person--> benchmark

No event moves a posture by more than one step. A verdict counts for the posture that its execution
was planned under: where another execution has moved it meanwhile, the verdict is kept and moves
nothing, so that executions which overlap cannot promote twice or undo a person's choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from compilegate.posture.evidence.promotion import (
    CONFIRMATIONS,
    drift,
    is_promoted,
    keeps,
    worse_in_audits,
    worse_in_trial,
)
from compilegate.posture.machine.events import (
    Event,
    Lost,
    Reset,
    Seen,
    SetByPerson,
    Settled,
    Started,
)
from compilegate.posture.machine.planning import BASELINE, has_passed, plan
from compilegate.posture.state import (
    ALL_TRAIN,
    Difference,
    Plan,
    Posture,
    Reference,
    State,
    Track,
)

_MOST_OPEN = 50
"""Executions that are remembered as running; the oldest, which will not come back, go first."""


@dataclass(frozen=True)
class Moved:
    """A state, and one sentence for why it is what it is now."""

    state: State
    reason: str


def transition(state: State, event: Event) -> Moved:
    """The state after an event."""
    match event:
        case Started():
            return _start(state, event)
        case Settled():
            return _settle(state, event)
        case SetByPerson():
            return _set(state, event)
        case Reset():
            why = f"reset by {event.who}: {event.reason}"
            return _enter(State(epoch=state.epoch), Posture.BENCHMARK, event.when, why)
        case Lost():
            return _enter(State(epoch=state.epoch), Posture.SHADOW, event.when, event.reason)


def _enter(state: State, posture: Posture, when: str, reason: str) -> Moved:
    """A posture's first state. Counters begin anew; `tracks` and `reference` are the caller's."""
    entered = replace(
        state,
        posture=posture,
        since=when,
        reason=reason,
        epoch=state.epoch + 1,
        arm=state.arm if posture is Posture.ON else "",
        promoted=when if posture is Posture.ON else "",
        tracks=state.tracks if posture in ALL_TRAIN else {},
        reference=state.reference if posture is Posture.ON else None,
        alone=(),
        since_audit=0,
        audit_due="",
        undecided_audits=0,
        trial=None,
        trials=0,
    )
    return Moved(entered, reason)


def _set(state: State, event: SetByPerson) -> Moved:
    why = f"set by {event.who}: {event.reason}"
    before = replace(state, tracks={}, reference=None, arm=event.arm)
    moved = _enter(before, event.posture, event.when, why)
    if event.posture is not Posture.ON:
        return moved
    due = "a person turned it on, and nothing was measured for that yet"
    return Moved(replace(moved.state, audit_due=due), why)


# An execution's start


def _start(state: State, event: Started) -> Moved:
    before = state
    state = _adopt(state if state.since else replace(state, since=event.when), event)
    planned = plan(
        state, event.policy, event.candidates, execution=event.execution, when=event.when
    )
    newest = list(state.open.items())[-(_MOST_OPEN - 1) :]
    opened = {**dict(newest), event.execution: planned}
    reason = planned.reason
    if state.epoch != before.epoch:
        reason = f"{state.reason}; {reason}"
    return Moved(replace(state, open=opened, rescue=""), reason)


def _adopt(state: State, event: Started) -> State:
    """The state under what the workload declares now."""
    changed = [
        name
        for name, value in event.fingerprint.items()
        if state.fingerprint and state.fingerprint.get(name) != value
    ]
    if not changed:
        known = state if state.fingerprint else replace(state, fingerprint=dict(event.fingerprint))
        return _candidate_is_declared(known, event)
    said = f"{' and '.join(changed)} changed"
    state = replace(state, fingerprint=dict(event.fingerprint))
    if state.posture is Posture.REVERTED and "image" in changed:
        why = f"{said}: a changed image earns a new benchmark"
        return _enter(state, Posture.BENCHMARK, event.when, why).state
    if state.posture in ALL_TRAIN:
        # Passes under another image are not passes of this one.
        return _candidate_is_declared(replace(state, tracks={}), event)
    if state.posture is Posture.ON:
        # The reference goes with what it was measured under: nothing is compared with it again.
        state = replace(
            state,
            audit_due=state.audit_due or said,
            reference=None,
            alone=(),
            tracks={},
            trial=None,
        )
    return _candidate_is_declared(state, event)


def _candidate_is_declared(state: State, event: Started) -> State:
    if state.posture is Posture.ON and state.arm not in event.candidates:
        why = f"{state.arm} is no longer declared"
        return _enter(state, Posture.SHADOW, event.when, why).state
    return state


# An execution's end


def _settle(state: State, event: Settled) -> Moved:
    planned = state.open.get(event.execution)
    if planned is None:
        return Moved(state, f"{event.execution} was not planned or is settled: nothing moves")
    state = replace(
        state, open={name: kept for name, kept in state.open.items() if name != event.execution}
    )
    if planned.epoch != state.epoch:
        return Moved(
            state,
            f"planned under {planned.posture}, which it no longer is: the verdict moves nothing",
        )
    if event.lost and event.registered == "none":
        state = replace(state, rescue="a candidate's job was lost and no model was registered")
    unlearned = event.nothing_learned or ("" if event.seen else event.lost)
    if unlearned:
        return Moved(state, f"nothing was learned: {unlearned}")
    if planned.arms == BASELINE:
        return Moved(state, f"{state.posture}: {event.registered} was registered")
    if any(seen.crashed for seen in event.seen):
        state = replace(state, rescue="a candidate crashed and no model was registered")
    if state.posture in ALL_TRAIN:
        return _all_trained(state, event, planned)
    return _on_ended(state, event, planned)


def _all_trained(state: State, event: Settled, planned: Plan) -> Moved:
    tracks = {**state.tracks}
    for seen in event.seen:
        tracks[seen.arm] = _tracked(tracks.get(seen.arm, Track()), seen)
    state = replace(state, tracks=tracks)
    now = {seen.arm: seen for seen in event.seen}
    refused = [arm for arm in planned.candidates if arm in tracks and tracks[arm].refused]
    if refused and len(refused) == len(planned.candidates):
        why = "; ".join(f"{arm} was refused: {tracks[arm].refused}" for arm in refused)
        return _enter(state, Posture.REVERTED, event.when, why)
    passed = [
        seen for seen in event.seen if seen.outcome == "pass" and not tracks[seen.arm].refused
    ]
    if state.posture is Posture.BENCHMARK and passed:
        why = f"{_best(passed).arm} passed the benchmark"
        return _enter(state, Posture.SHADOW, event.when, why)
    if state.posture is Posture.SHADOW:
        why_promoted = {
            seen.arm: is_promoted(tracks[seen.arm], event.policy)
            for seen in event.seen
            if not tracks[seen.arm].refused and seen.outcome != "fail"
        }
        ready = [seen for seen in event.seen if why_promoted.get(seen.arm)]
        if ready and has_passed(event.policy.shadow_days, state.since, event.when):
            best = _best(ready)
            return _promote(state, event, best.arm, why_promoted[best.arm])
        if ready:
            why = f"promoted after {event.policy.shadow_days:g} days in shadow, not before"
            return Moved(state, f"{_best(ready).arm} has shown enough; {why}")
    waited = [track for arm, track in tracks.items() if arm in now and not track.refused]
    if waited and min(track.executions for track in waited) >= event.policy.patience:
        why = f"no candidate was promoted in {event.policy.patience} executions"
        return _enter(state, Posture.REVERTED, event.when, why)
    return Moved(state, _told(state, event))


def _tracked(track: Track, seen: Seen) -> Track:
    passed = seen.outcome == "pass"
    return replace(
        track,
        passes=track.passes + 1 if passed else 0,
        failures=track.failures + 1 if seen.outcome == "fail" else 0,
        executions=track.executions + 1,
        refused=track.refused or (seen.reason if seen.outcome == "fail" else ""),
        looks=keeps(track.looks, seen.differences),
        values=keeps(track.values, seen.values),
    )


def _best(seen: list[Seen]) -> Seen:
    """The fastest; the first declared of those that are equally fast."""
    return max(seen, key=lambda one: one.speedup or 0.0)


def _told(state: State, event: Settled) -> str:
    told = ", ".join(f"{seen.arm} {seen.outcome}" for seen in event.seen) or "no candidate was seen"
    return f"{state.posture}: {told}"


def _promote(state: State, event: Settled, arm: str, why: str) -> Moved:
    track = state.tracks[arm]
    entered = replace(
        state, arm=arm, reference=_reference(arm, track.values, track.looks, event.when)
    )
    return _enter(entered, Posture.ON, event.when, f"{arm} is promoted: {why}")


def _reference(
    arm: str,
    values: tuple[Mapping[str, float], ...],
    looks: tuple[tuple[Difference, ...], ...],
    when: str,
) -> Reference | None:
    margins = {one.metric: one.margin for look in looks[-1:] for one in look}
    return Reference(arm=arm, when=when, values=values, margins=margins) if values else None


def _on_ended(state: State, event: Settled, planned: Plan) -> Moved:
    seen = next((one for one in event.seen if one.arm == state.arm), None)
    if seen is None:
        return Moved(state, f"nothing was seen of {state.arm}")
    if planned.audit:
        return _audited(state, event, seen)
    if seen.outcome == "fail":
        return _enter(state, Posture.REVERTED, event.when, f"{state.arm} failed: {seen.reason}")
    state = replace(state, alone=keeps(state.alone, seen.values), since_audit=state.since_audit + 1)
    if state.reference is None:
        return Moved(state, f"on: {state.arm} trained alone, without a reference to compare with")
    suspicious = drift(state.alone, state.reference)
    if suspicious:
        return Moved(replace(state, audit_due=suspicious), f"{suspicious}: audited next")
    return Moved(state, f"on: {state.arm} trained alone, within its reference")


def _audited(state: State, event: Settled, seen: Seen) -> Moved:
    if seen.outcome == "fail" and (seen.broken or seen.crashed):
        why = f"an audit refused {state.arm}: {seen.reason}"
        return _enter(state, Posture.REVERTED, event.when, why)
    track = _tracked(state.tracks.get(state.arm, Track()), seen)
    state = replace(state, tracks={state.arm: track}, since_audit=0)
    tried = None if state.trial is None else _tracked(state.trial, seen)
    found = worse_in_audits(track)
    if tried is not None and not found:
        found = worse_in_trial(tried, state.trials, event.policy)
    if tried is not None and not found and tried.failures >= CONFIRMATIONS:
        found = f"{1 + tried.failures} audits in a row failed: {seen.reason}"
    if found:
        return _enter(state, Posture.REVERTED, event.when, f"{state.arm}: {found}")
    if seen.outcome == "fail":
        return _tried(state, tried, seen)
    if seen.outcome == "inconclusive":
        undecided = state.undecided_audits + 1
        if undecided >= event.policy.patience:
            why = f"{undecided} audits in a row decided nothing, so the gate decides again"
            return _enter(replace(state, tracks={}), Posture.SHADOW, event.when, why)
        due = f"the last audit was inconclusive: {seen.reason}"
        state = replace(state, undecided_audits=undecided, audit_due=due, trial=tried)
        return Moved(state, due)
    before = state.reference.values if state.reference is not None else ()
    renewed = _reference(state.arm, keeps(before, seen.values), track.looks, event.when)
    state = replace(
        state,
        reference=renewed,
        alone=(),
        audit_due="",
        undecided_audits=0,
        trial=None,
    )
    again = "" if tried is None else ", after one that failed"
    return Moved(state, f"on: {state.arm} passed its audit{again}, the reference is renewed")


def _tried(state: State, tried: Track | None, seen: Seen) -> Moved:
    """One failed audit reverts nothing: data that change between executions fail a candidate that
    is as good now and then. It is repeated, and the baseline is registered meanwhile."""
    if tried is None:
        state = replace(state, trial=Track(), trials=state.trials + 1)
    else:
        state = replace(state, trial=tried)
    due = (
        f"an audit refused {state.arm} ({seen.reason}); it is repeated, and the baseline is "
        "registered until one passes"
    )
    return Moved(replace(state, audit_due=due), due)
