"""`compilegate posture`: how far a workload has come with its compiler, and what happens next."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from compilegate.cli.options import (
    FILE,
    Project,
    completing,
    json_option,
    pass_project,
    print_json,
    print_or_write,
    print_table,
    refuse_given,
)
from compilegate.execution.result import ExecutionResult
from compilegate.execution.status import UNSUCCESSFUL, ExecutionStatus
from compilegate.local import FunctionSources, Handler
from compilegate.posture import names
from compilegate.posture.function import handler
from compilegate.posture.function.ended import FailedStep, settle_ended
from compilegate.posture.function.handler import now
from compilegate.posture.machine.events import Event, Reset, SetByPerson, Settled
from compilegate.posture.machine.planning import plan
from compilegate.posture.month import month_page, month_subject, month_text
from compilegate.posture.records.coding import encoded, event_document
from compilegate.posture.records.files import FileRecords
from compilegate.posture.records.keeping import current
from compilegate.posture.records.record import Decision, Record
from compilegate.posture.state import Plan, Posture, State
from compilegate.workload import Workload

if TYPE_CHECKING:
    from compilegate.cli.places import Place

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
    help="Sum up a month (default: current): hours, dollars, audits, the registered arm's age.",
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

    A workload has a posture if its file has the table [posture]. It stands in
    HOME/posture/NAME.json, with every decision: who, when, and from what evidence. With --aws it is
    the record of the deployed workload, in DynamoDB.
    """
    from compilegate.cli.places import place_of  # noqa: PLC0415  boto3 takes time

    declared, path = project.load(workload)
    if declared.posture is None:
        raise click.UsageError(
            f"{path} has no table [posture]: every execution trains all arms; add the table first"
        )
    place, name = place_of(project), declared.name
    if month is None:
        refuse_given({"--output"}, "needs --month")
    if state is not None:
        record = place.change_posture(name, _event(place, declared, state, reason, arm))
        last = record.decisions[-1]
        click.echo(f"{name}: {last.before} -> {last.after}, {last.reason}")
        return
    refuse_given({"--reason", "--arm"}, "needs a STATE")
    if month is not None:
        _show_month(place, name, month, output, as_json=as_json)
        return
    record = place.posture(name)
    following = plan(
        record.state,
        declared.posture.policy,
        tuple(declared.candidates),
        execution="next",
        when=now(),
    )
    decisions = record.decisions if show_all else record.decisions[-_SHOWN:]
    _show_state(record, following, decisions, as_json=as_json)


def _event(
    place: Place, declared: Workload, state: str, reason: str | None, arm: str | None
) -> Event:
    """A person's decision. Refuses one without a reason, or with an arm that does not fit."""
    if reason is None:
        raise click.UsageError("--reason is missing; say why the posture changes")
    if state == Posture.ON and arm not in declared.candidates:
        found = "missing" if arm is None else repr(arm)
        raise click.UsageError(
            f"--arm is {found}, expected one of the candidates {', '.join(declared.candidates)}"
        )
    if state != Posture.ON and arm is not None:
        raise click.UsageError(f"--arm goes with the state `on`, not with {state}")
    if state == RESET:
        return Reset(when=now(), who=place.who(), reason=reason)
    return SetByPerson(
        posture=Posture(state), when=now(), who=place.who(), reason=reason, arm=arm or ""
    )


def _show_state(
    record: Record, following: Plan, decisions: Sequence[Decision], *, as_json: bool
) -> None:
    """Print where a workload stands, what happens next, and its decisions."""
    state = record.state
    if as_json:
        document = {
            "workload": record.workload,
            "state": encoded(state),
            "next": {"arms": following.arms, "audit": following.audit, "reason": following.reason},
            "decisions": [
                {**encoded(each), "event": event_document(each.event)} for each in decisions
            ],
        }
        print_json(document)
        return
    click.echo(f"{record.workload}: {state.posture}{f', {state.arm}' if state.arm else ''}")
    click.echo(f"since {state.since[:10] or 'ever'}: {state.reason}")
    click.echo(f"next: {following.reason}")
    if not decisions:
        return
    click.echo()
    rows = [("WHEN", "WHO", "BEFORE", "AFTER", "WHY")]
    for each in decisions:
        when = each.event.when[:16].replace("T", " ")
        rows.append((when, each.event.who, str(each.before), str(each.after), each.reason))
    print_table(rows)


def _show_month(place: Place, name: str, month: str, output: Path | None, *, as_json: bool) -> None:
    """Print or write a month's summary."""
    chosen = now()[:7] if month == THIS_MONTH else month
    if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", chosen):
        raise click.UsageError(f"--month is {chosen!r}, expected a month such as 2026-10")
    found = place.month(name, chosen)
    if output is not None:
        print_or_write(month_page(found), output)
        click.echo(f"{output}: {month_subject(found)}", err=True)
    if as_json:
        print_json({**asdict(found), "advice": dict(found.advice)})
    elif output is None:
        click.echo(f"{month_subject(found)}\n\n{month_text(found)}")


# Around an execution on this machine.


def records_in(home: Path) -> FileRecords:
    """The records of a home."""
    return FileRecords(home.resolve() / "posture")


def posture_functions(home: Path) -> FunctionSources:
    """What stands for the function that keeps the records."""
    environment = {names.FOLDER_VARIABLE: str(records_in(home).folder)}
    if names.DAY_VARIABLE in os.environ:
        environment[names.DAY_VARIABLE] = os.environ[names.DAY_VARIABLE]
    here = Handler(Path(handler.__file__), environment=environment)
    return FunctionSources(patterns=((f"*:function:{names.FUNCTION}", here),))


def posture_lines(workload: str, execution: str, home: Path) -> Iterator[str]:
    """What an execution has changed in the workload's posture; nothing where it has no record."""
    record, _ = current(records_in(home), workload, when=now(), who=execution)
    for decision in record.decisions:
        if isinstance(decision.event, Settled) and decision.event.execution == execution:
            moved = decision.before is not decision.after
            before = f"{decision.before} -> {decision.after}" if moved else str(decision.after)
            yield f"posture: {before}, {decision.reason}"


def settle_failed(workload: Workload, home: Path, result: ExecutionResult) -> State | None:
    """Settle an execution that ended before its gate could; None where there is nothing to settle.

    A candidate whose job failed is refused. Nothing is learned from any other failure.
    """
    if workload.posture is None or result.status is not ExecutionStatus.FAILED:
        return None
    failed = [
        FailedStep(step.name, "" if step.failure is None else step.failure.sentence)
        for step in result.steps.values()
        if step.status in UNSUCCESSFUL
    ]
    after = settle_ended(
        records_in(home),
        workload.name,
        result.execution_id,
        failed=failed,
        otherwise=str(result.failure),
        when=now(),
        who="runner",
    )
    return None if after is None else after.state
