"""Which arms an execution trains, from the state at its start. Pure."""

from __future__ import annotations

import datetime

from compilegate.posture.names import ALL
from compilegate.posture.policy import Policy
from compilegate.posture.state import ALL_TRAIN, Plan, Posture, State

BASELINE = "baseline"

_SCHEDULE_JITTER_DAYS = 0.5
"""A weekly schedule comes a few minutes early as often as late: a week is over when half a day is
missing."""


def days_between(earlier: str, later: str) -> float:
    """Days from one moment to another, both ISO 8601."""
    span = datetime.datetime.fromisoformat(later) - datetime.datetime.fromisoformat(earlier)
    return span.total_seconds() / 86400


def has_passed(days: float, since: str, now: str) -> bool:
    """Whether so many days have passed, as a schedule counts them."""
    return not since or days_between(since, now) >= days - min(_SCHEDULE_JITTER_DAYS, days / 2)


def plan(
    state: State, policy: Policy, candidates: tuple[str, ...], *, execution: str, when: str
) -> Plan:
    """What an execution that starts now trains."""
    arms, audit, reason = _arms(state, policy, when)
    watched = state.posture is Posture.ON and not has_passed(
        policy.watch_days, state.promoted, when
    )
    return Plan(
        execution=execution,
        when=when,
        posture=state.posture,
        epoch=state.epoch,
        candidates=candidates,
        arms=arms,
        audit=audit,
        watched=watched,
        reason=reason,
        registers="baseline" if _only_measured(state) and arms == ALL else "gate",
    )


def _only_measured(state: State) -> bool:
    """Whether all arms train to learn something, and no candidate is to be shipped for it: in the
    benchmark, and while a failed audit is looked into."""
    return state.posture is Posture.BENCHMARK or state.trial is not None


def _arms(state: State, policy: Policy, when: str) -> tuple[str, bool, str]:
    if state.rescue:
        return BASELINE, False, f"{state.posture}: the baseline alone, because {state.rescue}"
    if state.posture in ALL_TRAIN:
        return ALL, False, f"{state.posture}: all arms train"
    if state.posture is not Posture.ON:
        until = "a person resets it"
        if state.posture is Posture.REVERTED:
            until = "a person resets it or an image changes"
        return BASELINE, False, f"{state.posture}: the baseline trains alone until {until}"
    why = audit_reason(state, policy, when)
    if why:
        return ALL, True, f"on: an audit of all arms, because {why}"
    return state.arm, False, f"on: {state.arm} trains alone"


def audit_reason(state: State, policy: Policy, when: str) -> str:
    """Why an execution that starts now in `on` must train all arms; empty when it need not."""
    if state.audit_due:
        return state.audit_due
    if state.reference is None:
        return "there are no reference metrics to hold a candidate alone against"
    if days_between(state.reference.when, when) > policy.reference_days:
        return (
            f"the reference metrics of {state.reference.when[:10]} are older than "
            f"{policy.reference_days:g} days"
        )
    if state.since_audit + 1 >= policy.audit_every:
        return f"one execution in {policy.audit_every} is an audit"
    return ""
