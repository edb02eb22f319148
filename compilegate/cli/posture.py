"""`compilegate posture`: how far a workload has come with its compiler, and what happens next."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from compilegate.cli.options import (
    FILE,
    Project,
    completing,
    json_option,
    pass_project,
    print_or_write,
)
from compilegate.cli.places import Place, place_of
from compilegate.cli.terminal.errors import aligned
from compilegate.posture.function.handler import now
from compilegate.posture.machine.events import Event, Reset, SetByPerson
from compilegate.posture.machine.planning import plan
from compilegate.posture.month import month_of, month_page, month_subject, month_text
from compilegate.posture.policy import Policy
from compilegate.posture.records.coding import encoded, event_document
from compilegate.posture.records.record import Decision, Record
from compilegate.posture.state import Posture
from compilegate.workload import Workload

_SHOWN = 10
RESET = "reset"
THIS_MONTH = "this month"


@click.command("posture")
@click.argument("workload", metavar="NAME", shell_complete=completing("workload"))
@click.argument(
    "state",
    metavar="[STATE]",
    required=False,
    type=click.Choice([*(one.value for one in Posture), RESET]),
)
@click.option("--reason", help="With STATE: why; it is kept with the decision.")
@click.option("--arm", help="With `on`: the candidate that is to train alone, after an audit.")
@click.option("--all", "show_all", is_flag=True, help="Show every decision, not the last ten.")
@click.option(
    "--month",
    metavar="[YYYY-MM]",
    is_flag=False,
    flag_value=THIS_MONTH,
    help="Sum up a month (default: the current): hours and dollars saved and spent, audits, the "
    "registered arm's age.",
)
@click.option("--output", "-o", type=FILE, help="With --month: write it as a page.")
@json_option
@pass_project
def command(
    project: Project,
    workload: str,
    state: str | None,
    *,
    reason: str | None,
    arm: str | None,
    show_all: bool,
    month: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Say how far a workload has come with its compiler; set or reset it.

    \b
      compilegate posture news-topics                            where it stands, and what is next
      compilegate posture news-topics reset --reason "torch 2.14"   begin with a benchmark
      compilegate posture news-topics off --reason "a freeze"       train the baseline alone
      compilegate posture news-topics on --arm compiled --reason "measured elsewhere"
      compilegate posture news-topics --month                    what this month came to

    STATE is off, benchmark, shadow, on or reverted, or reset. A workload has a posture if its file
    has the table [posture]. It stands in HOME/posture/NAME.json, with every decision: who, when,
    and from what evidence. With --aws it is the record of the deployed workload, in DynamoDB.
    """
    declared, policy = _declared(project, workload)
    place = place_of(project)
    if output is not None and month is None:
        raise click.UsageError("--output: allowed with --month")
    if state is not None:
        event = _event(place, declared, state, reason, arm)
        _show_decision(place.change_posture(declared.name, event))
        return
    if reason is not None or arm is not None:
        raise click.UsageError("--reason, --arm: allowed with a STATE")
    if month is not None:
        _show_month(place, declared.name, month, output, as_json=as_json)
        return
    _show_state(place.posture(declared.name), declared, policy, show_all=show_all, as_json=as_json)


def _event(
    place: Place, declared: Workload, state: str, reason: str | None, arm: str | None
) -> Event:
    """A person's decision. Refuses one without a reason, or with an arm that does not fit."""
    if reason is None:
        raise click.UsageError("--reason is missing, allowed: why the posture is changed")
    if state == Posture.ON and arm not in declared.candidates:
        raise click.UsageError(
            f"--arm: found {arm!r}, allowed with on: {', '.join(declared.candidates)}"
        )
    if state != Posture.ON and arm is not None:
        raise click.UsageError(f"--arm: found it with {state}, allowed: with on")
    if state == RESET:
        return Reset(when=now(), who=place.who(), reason=reason)
    return SetByPerson(
        posture=Posture(state), when=now(), who=place.who(), reason=reason, arm=arm or ""
    )


def _show_state(
    record: Record, declared: Workload, policy: Policy, *, show_all: bool, as_json: bool
) -> None:
    """Print where a workload stands, what happens next, and its decisions."""
    state = record.state
    following = plan(state, policy, tuple(declared.candidates), execution="next", when=now())
    decisions = record.decisions if show_all else record.decisions[-_SHOWN:]
    if as_json:
        document = {
            "workload": declared.name,
            "state": encoded(state),
            "next": {"arms": following.arms, "audit": following.audit, "reason": following.reason},
            "decisions": [_decision(one) for one in decisions],
        }
        click.echo(json.dumps(document, indent=2))
        return
    click.echo(f"{declared.name}: {state.posture}{f', {state.arm}' if state.arm else ''}")
    click.echo(f"since {state.since[:10] or 'ever'}: {state.reason}")
    click.echo(f"next: {following.reason}")
    if decisions:
        click.echo()
        rows = [("WHEN", "WHO", "BEFORE", "AFTER", "WHY"), *(_row(one) for one in decisions)]
        for line in aligned(rows):
            click.echo(line)


def _show_month(place: Place, name: str, month: str, output: Path | None, *, as_json: bool) -> None:
    """Print or write a month's summary."""
    chosen = now()[:7] if month == THIS_MONTH else month
    if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", chosen):
        raise click.UsageError(f"--month: found {chosen!r}, allowed: a month such as 2026-10")
    expected = place.expected(name)
    found = month_of(place.posture(name), chosen, now=now(), expected=expected)
    if advice := tuple(place.advised(name, chosen)):
        found = replace(found, advice=advice)
    if output is not None:
        print_or_write(month_page(found), output)
        click.echo(f"{output}: {month_subject(found)}", err=True)
    if as_json:
        click.echo(json.dumps({**asdict(found), "advice": dict(found.advice)}, indent=2))
    elif output is None:
        click.echo(f"{month_subject(found)}\n\n{month_text(found)}")


def _declared(project: Project, name: str) -> tuple[Workload, Policy]:
    workload, path = project.load(name)
    if workload.posture is None:
        raise click.UsageError(
            f"{path} has no table [posture], so that every execution trains all arms; allowed: a "
            "workload with one"
        )
    return workload, workload.posture.policy


def _show_decision(record: Record) -> None:
    decision = record.decisions[-1]
    click.echo(f"{record.workload}: {decision.before} -> {decision.after}, {decision.reason}")


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "number": decision.number,
        "before": str(decision.before),
        "after": str(decision.after),
        "reason": decision.reason,
        "event": event_document(decision.event),
    }


def _row(decision: Decision) -> tuple[str, ...]:
    event = decision.event
    return (
        event.when[:16].replace("T", " "),
        event.who,
        str(decision.before),
        str(decision.after),
        decision.reason,
    )
