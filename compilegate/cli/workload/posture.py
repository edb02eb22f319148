"""`compilegate posture`: how far a workload has come with its compiler, and what happens next."""

from __future__ import annotations

import getpass
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from compilegate.account.deployed import read_outputs
from compilegate.account.errors import asking
from compilegate.cli.options.account import open_account, settings_option
from compilegate.cli.options.completing import complete_workload
from compilegate.cli.options.home import home_option
from compilegate.cli.options.project import load_workload, workloads_option
from compilegate.cli.terminal.errors import writing
from compilegate.cli.terminal.pages import advice_beside
from compilegate.cli.terminal.tables import aligned
from compilegate.cli.workload.posture_record import records_in
from compilegate.job.files import write_text
from compilegate.local import LocalExecutor, list_executions
from compilegate.posture import names
from compilegate.posture.expected import Expected, read_noted
from compilegate.posture.function.handler import now
from compilegate.posture.machine.events import Event, Reset, SetByPerson
from compilegate.posture.machine.planning import plan
from compilegate.posture.month import month_of, month_page, month_subject, month_text
from compilegate.posture.policy import Policy
from compilegate.posture.records.coding import encoded, event_document
from compilegate.posture.records.dynamodb import DynamoRecords
from compilegate.posture.records.keeping import Records, current, decide
from compilegate.posture.records.record import Decision, Record
from compilegate.posture.state import Posture
from compilegate.workload import Workload

_SHOWN = 10
_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Place:
    """Where the record is kept, and as whom a person changes it there."""

    records: Records
    who: str

    def read(self, workload: str) -> Record:
        """The record as it is now."""
        with self._asking(workload):
            return current(self.records, workload, when=now(), who=self.who)[0]

    def decide(self, workload: str, event: Event) -> Record:
        """Add a person's decision."""
        with self._asking(workload):
            return decide(self.records, workload, event)

    @contextmanager
    def _asking(self, workload: str) -> Iterator[None]:
        if isinstance(self.records, DynamoRecords):
            with asking(f"read or write the posture of {workload}"):
                yield
        else:
            yield


def place_options(command: _Command) -> _Command:
    """Add `--deployed`, `--settings` and `--home`."""
    deployed = click.option(
        "--deployed", is_flag=True, help="The record in the account, not the one in HOME."
    )
    return deployed(settings_option(home_option(command)))


def place_of(workload: str, *, home: Path, deployed: bool, settings: Path) -> Place:
    """This machine, or the account."""
    if not deployed:
        return Place(records_in(home), getpass.getuser())
    account = open_account(settings)
    outputs = read_outputs(account.session, account.names.workload_stack(workload))
    with asking("find out who you are"):
        arn = account.session.client("sts").get_caller_identity()["Arn"]
    table = DynamoRecords(account.session.client("dynamodb"), outputs["PostureTableName"])
    return Place(table, arn.rpartition(":")[2])


def _expected(workload: str, settings: Path) -> tuple[Expected, ...]:
    """What advice expected of the arms when the workload was deployed, from the function that
    sends the month."""
    account = open_account(settings)
    name = account.names.function(workload, names.FUNCTION_KIND)
    with asking(f"read the settings of the function {name}"):
        answer = account.session.client("lambda").get_function_configuration(FunctionName=name)
    variables = answer.get("Environment", {}).get("Variables", {})
    return read_noted(variables.get(names.EXPECTED_VARIABLE, "[]"))


class ByName(click.Group):
    """A group whose first word may also be a workload's name: then it is shown."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            args = ["show", *args]
        return super().resolve_command(ctx, args)


def reason_option(command: Any) -> Any:
    """Add `--reason`, which is kept."""
    return click.option("--reason", required=True, help="Why; it is kept with the decision.")(
        command
    )


@click.group("posture", cls=ByName)
def command() -> None:
    """Say how far a workload has come with its compiler; set or reset it.

    \b
      compilegate posture news-topics                           where it stands, and what is next
      compilegate posture reset news-topics --reason "torch 2.14"   begin with a benchmark
      compilegate posture set news-topics off --reason "a freeze"   train the baseline alone
      compilegate posture month news-topics                     what this month came to

    A workload has one whose file has the table [posture]. It stands in HOME/posture/NAME.json, with
    every decision: who, when, and from what evidence. With --deployed it is the record of the
    deployed workload, in DynamoDB.
    """


@command.command("show")
@click.argument("workload", metavar="NAME", shell_complete=complete_workload)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@click.option("--all", "show_all", is_flag=True, help="Show every decision, not the last ten.")
@place_options
@workloads_option
def show_command(  # noqa: PLR0917  one argument for each option
    workload: str,
    as_json: bool,
    show_all: bool,
    deployed: bool,
    settings: Path,
    home: Path,
    workloads: Path,
) -> None:
    """Show where a workload stands, what happens next, and its decisions."""
    declared, policy = _declared(workload, workloads)
    place = place_of(declared.name, home=home, deployed=deployed, settings=settings)
    record = place.read(declared.name)
    following = plan(record.state, policy, tuple(declared.candidates), execution="next", when=now())
    decisions = record.decisions if show_all else record.decisions[-_SHOWN:]
    if as_json:
        document = {
            "workload": declared.name,
            "state": encoded(record.state),
            "next": {"arms": following.arms, "audit": following.audit, "reason": following.reason},
            "decisions": [_decision(one) for one in decisions],
        }
        click.echo(json.dumps(document, indent=2))
        return
    state = record.state
    click.echo(f"{declared.name}: {state.posture}{f', {state.arm}' if state.arm else ''}")
    click.echo(f"since {state.since[:10] or 'ever'}: {state.reason}")
    click.echo(f"next: {following.reason}")
    if decisions:
        click.echo()
        rows = [("WHEN", "WHO", "BEFORE", "AFTER", "WHY"), *(_row(one) for one in decisions)]
        for line in aligned(rows):
            click.echo(line)


@command.command("set")
@click.argument("workload", metavar="NAME", shell_complete=complete_workload)
@click.argument("posture", type=click.Choice([one.value for one in Posture]))
@click.option("--arm", help="With `on`: the candidate that is to train alone, after an audit.")
@reason_option
@place_options
@workloads_option
def set_command(  # noqa: PLR0917  one argument for each option
    workload: str,
    posture: str,
    arm: str | None,
    reason: str,
    deployed: bool,
    settings: Path,
    home: Path,
    workloads: Path,
) -> None:
    """Choose a posture by hand."""
    declared, _ = _declared(workload, workloads)
    wanted = Posture(posture)
    if wanted is Posture.ON and arm not in declared.candidates:
        raise click.UsageError(
            f"--arm: found {arm!r}, allowed with on: {', '.join(declared.candidates)}"
        )
    if wanted is not Posture.ON and arm is not None:
        raise click.UsageError(f"--arm: found it with {posture}, allowed: with on")
    place = place_of(declared.name, home=home, deployed=deployed, settings=settings)
    event = SetByPerson(posture=wanted, when=now(), who=place.who, reason=reason, arm=arm or "")
    _tell(place.decide(declared.name, event))


@command.command("reset")
@click.argument("workload", metavar="NAME", shell_complete=complete_workload)
@reason_option
@place_options
@workloads_option
def reset_command(  # noqa: PLR0917  one argument for each option
    workload: str, reason: str, deployed: bool, settings: Path, home: Path, workloads: Path
) -> None:
    """Put all evidence aside and begin with a benchmark."""
    declared, _ = _declared(workload, workloads)
    place = place_of(declared.name, home=home, deployed=deployed, settings=settings)
    event = Reset(when=now(), who=place.who, reason=reason)
    _tell(place.decide(declared.name, event))


@command.command("month")
@click.argument("workload", metavar="NAME", shell_complete=complete_workload)
@click.option("--month", metavar="YYYY-MM", help="Which; the present one until now by default.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write it as a page.",
)
@place_options
@workloads_option
def month_command(  # noqa: PLR0917  one argument for each option
    workload: str,
    month: str | None,
    as_json: bool,
    page: Path | None,
    deployed: bool,
    settings: Path,
    home: Path,
    workloads: Path,
) -> None:
    """Sum up a month: runs, hours and dollars saved and spent, audits, the registered arm's age."""
    declared, _ = _declared(workload, workloads)
    chosen = month or now()[:7]
    if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", chosen):
        raise click.UsageError(f"--month: found {chosen!r}, allowed: a month such as 2026-10")
    place = place_of(declared.name, home=home, deployed=deployed, settings=settings)
    expected = _expected(declared.name, settings) if deployed else ()
    found = month_of(place.read(declared.name), chosen, now=now(), expected=expected)
    if not deployed:
        found = replace(found, advice=tuple(_advice(declared.name, chosen, home)))
    if page is not None:
        with writing(str(page), page.parent):
            write_text(page, month_page(found))
        click.echo(f"{page}: {month_subject(found)}", err=True)
    if as_json:
        click.echo(json.dumps({**asdict(found), "advice": dict(found.advice)}, indent=2))
    elif page is None:
        click.echo(f"{month_subject(found)}\n\n{month_text(found)}")


def _advice(name: str, month: str, home: Path) -> Iterator[tuple[str, str]]:
    """What advice expected beside what was measured, in the newest execution of the month that
    trained a candidate beside the baseline."""
    executor = LocalExecutor(home=home)
    here = [
        one
        for one in list_executions(home)
        if one.pipeline_name == name
        and datetime.fromtimestamp(one.started, UTC).strftime("%Y-%m") == month
    ]
    for one in sorted(here, key=lambda each: each.started, reverse=True):
        found = advice_beside(one) if executor.fetch_verdict(one) else ()
        if found:
            yield from ((f"Advice on {arm}", sentence) for arm, sentence in found)
            return


def _declared(name: str, workloads: Path) -> tuple[Workload, Policy]:
    workload, path = load_workload(name, workloads)
    if workload.posture is None:
        raise click.UsageError(
            f"{path} has no table [posture], so that every execution trains all arms; allowed: a "
            "workload with one"
        )
    return workload, workload.posture.policy


def _tell(record: Record) -> None:
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
