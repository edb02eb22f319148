"""What is deployed and no longer declared: workloads, whose schedules still train, and a network.

Without arguments it names them (`make diff`, `make deploy`); `--remove` deletes their stacks
(`make prune`), after a question unless `--force` is given too. Registered models, their group and
all that lies in the bucket stay, as after `make destroy`. Endpoints that a removed stack leaves are
named, too, since a real-time one costs for as long as it is there.

Exit code 2: the settings, the workloads or the account do not allow it; standard error says why.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from botocore.exceptions import BotoCoreError, WaiterError

from compilegate.account.deployed import read_outputs, read_pipeline
from compilegate.account.errors import DeniedError, asking
from compilegate.account.executions.calls import running_execution
from compilegate.account.plan.budget import bound_of, spent_this_month
from compilegate.account.plan.jobs import jobs_of
from compilegate.account.session import AwsSession, open_session
from compilegate.document.model import parameter_values
from compilegate.document.reading import read_definition
from compilegate.errors import CompilegateError
from compilegate.infra.project import Project, read_project
from compilegate.workload.file import Budget

GONE = ("DELETE_COMPLETE", "DELETE_IN_PROGRESS")


class OrphanError(CompilegateError):
    """An orphan cannot be removed. The message says why."""


@dataclass(frozen=True)
class Orphan:
    """The stack of a workload that no file declares."""

    stack: str
    workload: str
    schedule: str | None
    """What starts it, in the service's words; None where nothing does."""
    pipeline: str | None
    spent_usd: float
    """What the month's executions have cost, without jobs whose price is unknown."""

    @property
    def sentence(self) -> str:
        starts = f"it trains on {self.schedule}" if self.schedule else "no schedule starts it"
        return (
            f"{self.stack}: deployed and no longer declared; {starts}, and its executions have "
            f"cost {self.spent_usd:,.2f} USD this month"
        )


@dataclass(frozen=True)
class LeftNetwork:
    """The stack of a network that the settings no longer make."""

    stack: str
    pipeline: None = None

    @property
    def sentence(self) -> str:
        return (
            f"{self.stack}: deployed and no longer declared; its interface endpoints cost by the "
            "hour, whether or not anything trains"
        )


def find_orphans(
    project: Project, session: AwsSession, now: datetime
) -> list[Orphan | LeftNetwork]:
    """By name, and a network last, which workloads may use. Raises AwsError."""
    names = project.names
    declared = {names.workload_stack(each.workload.name) for each in project.workloads}
    prefix, network = names.workload_stack(""), names.network_stack
    deployed = [
        stack for stack in _deployed(session) if stack.startswith(prefix) or stack == network
    ]
    workloads = [stack for stack in sorted(deployed) if stack not in {*declared, network}]
    left = network in deployed and not project.settings.network.create
    return [
        *(_orphan(session, project, stack, now) for stack in workloads),
        *([LeftNetwork(network)] if left else []),
    ]


def left_endpoints(project: Project, session: AwsSession) -> list[str]:
    """A sentence for each endpoint of the project whose workload's stack is gone: no stack made
    it, so that removing the stack leaves it, and nothing watches it. Raises AwsError."""
    names = project.names
    with asking("list the endpoints of the project"):
        pages = (
            session.client("sagemaker")
            .get_paginator("list_endpoints")
            .paginate(NameContains=names.endpoint(""))
        )
        found = [item["EndpointName"] for page in pages for item in page["Endpoints"]]
    endpoints = sorted(name for name in found if name.startswith(names.endpoint("")))
    deployed = set(_deployed(session)) if endpoints else set()
    return [
        f"{name}: the endpoint answers and may cost, and the workload that deployed it is gone; "
        f"end it with: aws sagemaker delete-endpoint --endpoint-name {name}"
        for name in endpoints
        if names.workload_stack(name.removeprefix(names.endpoint(""))) not in deployed
    ]


def _deployed(session: AwsSession) -> list[str]:
    """Every stack of the account and region."""
    with asking("list the stacks of the project"):
        pages = session.client("cloudformation").get_paginator("describe_stacks").paginate()
        return [
            stack["StackName"]
            for page in pages
            for stack in page["Stacks"]
            if stack["StackStatus"] not in GONE
        ]


def _orphan(session: AwsSession, project: Project, stack: str, now: datetime) -> Orphan:
    outputs = read_outputs(session, stack).values
    pipeline = outputs.get("PipelineName")
    return Orphan(
        stack=stack,
        workload=stack.removeprefix(project.names.workload_stack("")),
        schedule=_schedule(session, project.names.schedule_group, outputs.get("ScheduleName")),
        pipeline=pipeline,
        spent_usd=0.0 if pipeline is None else _spent(session, pipeline, now),
    )


def _schedule(session: AwsSession, group: str, name: str | None) -> str | None:
    if name is None:
        return None
    with asking(f"read the schedule {name}"):
        found = session.client("scheduler").get_schedule(GroupName=group, Name=name)
    return str(found["ScheduleExpression"]) if found["State"] == "ENABLED" else None


def _spent(session: AwsSession, pipeline: str, now: datetime) -> float:
    definition, _ = read_definition(read_pipeline(session, pipeline).definition)
    values, _ = parameter_values(definition.parameters, {})
    bound = bound_of(jobs_of(definition, values), Budget(), session.region)
    return spent_this_month(session, pipeline, bound.rates, now)


def remove(session: AwsSession, orphans: Sequence[Orphan | LeftNetwork]) -> None:
    """Delete the stacks, one after the other. Raises OrphanError, AwsError."""
    for orphan in orphans:
        running = None if orphan.pipeline is None else running_execution(session, orphan.pipeline)
        if running is not None:
            raise OrphanError(
                f"{orphan.stack}: an execution is running; stop it with: "
                f"compilegate aws stop {running}"
            )
        client = session.client("cloudformation")
        with asking(f"delete the stack {orphan.stack}"):
            client.delete_stack(StackName=orphan.stack)
        try:
            client.get_waiter("stack_delete_complete").wait(StackName=orphan.stack)
        except WaiterError as error:
            raise OrphanError(
                f"{orphan.stack}: CloudFormation did not delete it; its events in the console say "
                "why"
            ) from error
        print(f"{orphan.stack}: removed")


def main(arguments: Sequence[str]) -> int:
    try:
        project = read_project()
        session = open_session(project.settings.region, project.settings.account)
        orphans = find_orphans(project, session, datetime.now(UTC))
        for orphan in orphans:
            print(orphan.sentence, file=sys.stderr)
        if orphans and "--remove" not in arguments:
            print("remove what is no longer declared with: make prune", file=sys.stderr)
        elif orphans and ("--force" in arguments or _confirmed()):
            remove(session, orphans)
        for endpoint in left_endpoints(project, session):
            print(endpoint, file=sys.stderr)
    except DeniedError as error:
        print(f"not looked for what is no longer declared: {error}", file=sys.stderr)
        # CI's roles do not see the account's stacks, and have deployed what there was to deploy.
        return 2 if "--remove" in arguments else 0
    except (BotoCoreError, CompilegateError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _confirmed() -> bool:
    """Whether a person says yes; without a terminal nobody does."""
    if not sys.stdin.isatty():
        raise OrphanError("found no terminal to ask at, allowed: make prune FLAGS=--force")
    return input("Remove these stacks? [y/N] ").strip().lower() in ("y", "yes")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
