"""`compilegate posture`: how far a workload has come with its compiler, and what happens next."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from compilegate.cli import options
from compilegate.cli.options import Project, completing, pass_project, refuse_given
from compilegate.cli.printing import print_json, print_table
from compilegate.execution.result import ExecutionResult
from compilegate.execution.status import UNSUCCESSFUL, ExecutionStatus
from compilegate.local import Handler
from compilegate.posture import contract, function
from compilegate.posture.records import Decision, FileRecords, Record, current, decide, encoded
from compilegate.posture.state import Chosen, Plan, Posture, Settled, State
from compilegate.posture.transitions import plan
from compilegate.workload import Workload

if TYPE_CHECKING:
    from compilegate.cli.places import Place

_SHOWN = 10
RESET = "reset"


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
@options.as_json
@pass_project
def command(
    project: Project,
    workload: str,
    state: str | None,
    *,
    reason: str | None,
    arm: str | None,
    show_all: bool,
    as_json: bool,
) -> None:
    """Say how far a workload has come with its compiler; set or reset it.

    \b
      compilegate posture news-topics                            where it stands, and what is next
      compilegate posture news-topics reset --reason "torch 2.14"   begin with a benchmark
      compilegate posture news-topics off --reason "a freeze"       train the baseline alone
      compilegate posture news-topics on --arm compiled --reason "measured elsewhere"

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
    if state is not None:
        choice = _choice(place, declared, state, reason, arm)
        with place.records(name) as records:
            record = decide(records, name, choice)
        last = record.decisions[-1]
        click.echo(f"{name}: {last.before} -> {last.after}, {last.reason}")
        return
    refuse_given({"--reason", "--arm"}, "needs a STATE")
    with place.records(name) as records:
        record = current(records, name, when=function.now(), who="compilegate")
    policy, candidates = declared.posture.policy, tuple(declared.candidates)
    following = plan(record.state, policy, candidates, function.now())
    decisions = record.decisions if show_all else record.decisions[-_SHOWN:]
    _show_state(record, following, decisions, as_json=as_json)


def _choice(
    place: Place, declared: Workload, state: str, reason: str | None, arm: str | None
) -> Chosen:
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
    who = place.who()
    return Chosen(
        posture=Posture.BENCHMARK if state == RESET else Posture(state),
        when=function.now(),
        who=who,
        reason=f"{'reset' if state == RESET else 'set'} by {who}: {reason}",
        arm=arm or "",
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
            "decisions": [encoded(each) for each in decisions],
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


# Around an execution on this machine.


def records_in(home: Path) -> FileRecords:
    """The records of a home."""
    return FileRecords(home.resolve() / "posture")


def posture_function(home: Path, *, fresh: bool = False) -> tuple[str, Handler]:
    """The pattern of the function that keeps the records, and what stands for it; `fresh` where
    nothing comes from the cache, so that every execution trains."""
    environment = {contract.FOLDER_VARIABLE: str(records_in(home).folder)}
    if fresh:
        environment[contract.FRESH_VARIABLE] = "1"
    if contract.DAY_VARIABLE in os.environ:
        environment[contract.DAY_VARIABLE] = os.environ[contract.DAY_VARIABLE]
    handler = Handler(Path(function.__file__), environment=environment)
    return f"*:function:{contract.FUNCTION}", handler


def posture_lines(workload: str, execution: str, home: Path) -> Iterator[str]:
    """What an execution has changed in the workload's posture; nothing where it has no record."""
    record = current(records_in(home), workload, when=function.now(), who=execution)
    if settled := record.latest(Settled, execution):
        _, decision = settled
        moved = decision.before is not decision.after
        before = f"{decision.before} -> {decision.after}" if moved else str(decision.after)
        yield f"posture: {before}, {decision.reason}"


def settle_failed(workload: Workload, home: Path, result: ExecutionResult) -> State | None:
    """Settle an execution that ended before its gate could; None where there is nothing to settle.

    A candidate whose job failed is refused. Nothing is learned from any other failure.
    """
    if workload.posture is None or result.status is not ExecutionStatus.FAILED:
        return None
    failed = {
        step.name: "" if step.failure is None else step.failure.sentence
        for step in result.steps.values()
        if step.status in UNSUCCESSFUL
    }
    after = function.settle_ended(
        records_in(home),
        workload.name,
        result.execution_id,
        failed=failed,
        otherwise=str(result.failure),
        who="runner",
    )
    return None if after is None else after.state
