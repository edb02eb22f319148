"""`compilegate aws plan`: what a deployment would change, and an execution reuse, cost and need."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from compilegate.access import Arns
from compilegate.account.deployed import StackOutputs, read_outputs
from compilegate.account.errors import AwsError, NotDeployedError
from compilegate.account.images import unbuilt_images
from compilegate.account.plan.budget import BudgetError
from compilegate.account.plan.changes import FieldChange
from compilegate.account.plan.cost import GIGABYTE, Total, usd_a_month
from compilegate.account.plan.planning import Plan, make_plan
from compilegate.account.plan.target import target_deployment, target_sources
from compilegate.cli.checks import image_bases, refuse_infeasible
from compilegate.cli.definitions import compiled
from compilegate.cli.options import (
    Project,
    parameter_option,
    parameter_pairs,
    pass_project,
    workload_argument,
)
from compilegate.cli.places import Account, open_account
from compilegate.cli.terminal.errors import aligned, refusing_os_errors
from compilegate.datasets import raw_data
from compilegate.document.writing import compact
from compilegate.pipelines.deployment import Deployment, Sources
from compilegate.pipelines.requests.images import image_folders_of
from compilegate.pipelines.staging import placement_of
from compilegate.posture.contract import FUNCTION_KIND
from compilegate.report import formats
from compilegate.workload import Workload
from compilegate.workload.parameters import INSTANCE_TYPE

FORMATS = ("text", "markdown", "json")
LONGEST_VALUE = 160
_COLUMNS = ("STEP", "INSTANCE", "WOULD", "TOOK LAST", "USUALLY", "AT MOST", "WHY")
_MARKS = {"forbids": "FORBIDDEN", "limits": "limited", "unknown": "unknown", "allows": "ok"}
"""The answers of quotas, the worst first."""


@click.command("plan")
@workload_argument
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Markdown suits a comment on a pull request.",
)
@parameter_option
@pass_project
def command(project: Project, workload: str, *, form: str, parameters: tuple[str, ...]) -> None:
    """Show what this checkout would change in the account, before anything starts.

    \b
      compilegate aws plan news-topics                       in words
      compilegate aws plan news-topics --format markdown     as a comment on a pull request
      compilegate aws plan news-topics --format json         for a program

    Compares this checkout's definition with the deployed one, by step and field. For an execution
    it shows which steps would come from the step cache (a prediction), the usual and the maximum
    cost, and which quotas are too low. Nothing is written or started.
    """
    given = parameter_pairs(parameters)
    declared, path = project.load(workload)
    account = open_account(project)
    bases = image_bases(project.containers, account.names.settings.images.base)
    refuse_infeasible(
        declared,
        path,
        region=account.session.region,
        bases=bases,
        instance_type=given.get(INSTANCE_TYPE),
    )
    click.echo(f"looking up where {declared.name} is deployed", err=True)
    with refusing_os_errors():
        deployment, sources = _target(account, declared, path, project.containers)
    definition = compact(compiled(declared, deployment, sources))
    click.echo(
        "reading the deployed definition, its latest executions and the account's quotas", err=True
    )
    plan = make_plan(
        account.session,
        account.names.pipeline(declared.name),
        definition,
        declared,
        given=given,
        settings=account.names.settings,
        bucket=deployment.bucket,
        unbuilt=_unbuilt(account, declared, deployment),
        now=datetime.now(UTC),
    )
    if form == "json":
        click.echo(json.dumps(dataclasses.asdict(plan), indent=2, allow_nan=False))
    else:
        click.echo("\n".join(_text(plan) if form == "text" else _markdown(plan)))
    if plan.over_budget:
        raise BudgetError(*plan.over_budget)


def _unbuilt(account: Account, workload: Workload, deployment: Deployment) -> list[str]:
    """The images that the workload's jobs run in and that are not there as this checkout has them.

    Where the registry cannot be asked, all of them: what the quota says holds for any build.
    """
    used = image_folders_of(workload)
    images = {name: uri for name, uri in deployment.images.items() if name in used}
    try:
        return unbuilt_images(account.session, images)
    except AwsError:
        return list(images)


def _target(
    account: Account, workload: Workload, path: Path, containers: Path
) -> tuple[Deployment, Sources]:
    """Where this checkout's definition would be deployed. Raises NotDeployedError if not even
    the foundation is deployed."""
    session, names = account.session, account.names
    foundation = read_outputs(session, names.foundation_stack)
    stack = _outputs(account, names.workload_stack(workload.name))
    made = names.settings.network.create
    deployment = target_deployment(
        foundation,
        stack,
        names,
        {name: folder.tag for name, folder in account.image_folders(containers).items()},
        session.region,
        network=_outputs(account, names.network_stack) if made else None,
    )
    if workload.posture is not None:
        function = Arns.of(session).function(names.function(workload.name, FUNCTION_KIND))
        deployment = dataclasses.replace(deployment, posture_function=function)
    data = raw_data(workload.data, path.parent)
    staged = placement_of(workload, deployment, data, path.parent).sources
    # Without a stack there is nothing to compare with, and where its code lies affects no more.
    return deployment, staged if stack is None else target_sources(staged, stack)


def _outputs(account: Account, stack: str) -> StackOutputs | None:
    """A stack's outputs; None before its deployment."""
    try:
        return read_outputs(account.session, stack)
    except NotDeployedError:
        return None


def _text(plan: Plan) -> Iterator[str]:
    """The plan for the terminal."""
    yield from (f"{plan.pipeline} in {plan.region}", "", _definition_sentence(plan))
    yield from (f"  {line}" for line in _change_lines(plan))
    yield from ("", _cache_sentence(plan))
    yield from (f"  {line}" for line in aligned([_COLUMNS, *_rows(plan)]))
    yield from ("", *_cost_sentences(plan), "", _quota_sentence(plan))
    yield from (f"  {mark}: {sentence}" for mark, sentence in _quotas(plan))


def _markdown(plan: Plan) -> Iterator[str]:
    """The plan as Markdown; its first line marks the comment so that it can be found again."""
    yield f"<!-- compilegate aws plan {plan.pipeline} -->"
    yield from (f"### Plan of `{plan.pipeline}` in {plan.region}", "", _definition_sentence(plan))
    if changes := list(_change_lines(plan)):
        yield from ("", "```diff", *changes, "```")
    yield from ("", _cache_sentence(plan), "")
    for cells in (_COLUMNS, ["---"] * len(_COLUMNS), *_rows(plan)):
        yield f"| {' | '.join(map(_escaped, cells))} |"
    yield from ("", "  \n".join(_cost_sentences(plan)), "", _quota_sentence(plan), "")
    yield from (f"- **{mark}**: {_escaped(sentence)}" for mark, sentence in _quotas(plan))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _definition_sentence(plan: Plan) -> str:
    changes = plan.changes
    if not plan.deployed:
        return f"Definition: not deployed yet, {len(changes.added)} steps would be new"
    if changes.none:
        return "Definition: the same as the deployed one"
    changed = sum(len(change.steps) for change in changes.changed)
    return (
        f"Definition: {len(changes.added)} steps added, {len(changes.removed)} removed, "
        f"{changed} changed, {len(changes.parameters)} changes of parameters"
    )


def _change_lines(plan: Plan) -> Iterator[str]:
    """In the form of a diff: each line begins with `+`, `-` or `!`."""
    if not plan.deployed:
        return
    changes = plan.changes
    for name in changes.removed:
        yield f"- {name}"
    for name in changes.added:
        yield f"+ {name}"
    for change in changes.changed:
        yield f"! {', '.join(change.steps)}"
        yield from _field_lines(change.fields)
    for title, fields in (("parameters", changes.parameters), ("definition", changes.other)):
        if fields:
            yield f"! {title}"
            yield from _field_lines(fields)


def _field_lines(fields: Sequence[FieldChange]) -> Iterator[str]:
    for field in fields:
        for sign, value in (("-", field.before), ("+", field.after)):
            if value is not None:
                line = value.replace("\n", "\\n")
                cut = line if len(line) <= LONGEST_VALUE else f"{line[: LONGEST_VALUE - 3]}..."
                yield f"{sign}   {field.path}: {cut}"


def _cache_sentence(plan: Plan) -> str:
    served = sum(prediction.served for prediction in plan.predictions)
    return (
        f"Step cache: {served} of {len(plan.predictions)} jobs would come from it "
        "(a prediction: SageMaker does not show its cache)"
    )


def _rows(plan: Plan) -> list[tuple[str, ...]]:
    whys = {prediction.step: prediction.why for prediction in plan.predictions}
    return [
        (
            job.step,
            job.instance_type,
            "be cached" if job.served else "run",
            formats.seconds(job.usual_seconds),
            *(
                formats.NOTHING if usd is None else formats.dollars(usd)
                for usd in (job.usual_usd, job.most_usd)
            ),
            whys[job.step],
        )
        for job in plan.cost.jobs
    ]


def _cost_sentences(plan: Plan) -> Iterator[str]:
    cost, storage = plan.cost, plan.storage
    yield f"Cost, usually: {_amount(cost.usual, 'that would run, each as long as its last run')}"
    yield f"Cost, at most: {_amount(cost.most, 'at their maximum runtimes, nothing cached')}"
    yield from (f"Unknown: {reason}" for reason in cost.unknown)
    if plan.storage_unknown is not None:
        yield f"Storage: not known ({plan.storage_unknown})"
    if storage is not None:
        permanent = f"{_stored(storage.permanent)} never expire"
        yield f"Storage: {_stored(storage.total)}, of which {permanent}"
        if storage.growth:
            yield (
                f"Storage, in a year: {_stored(storage.growth)} more, if each of "
                f"{storage.starts_a_year} scheduled starts registers a model like the last"
            )
    if plan.network is not None:
        yield plan.network.sentence


def _stored(size: int) -> str:
    return f"{size / GIGABYTE:,.2f} GB ({usd_a_month(size):,.2f} USD a month)"


def _amount(total: Total, of_what: str) -> str:
    if total.of == 0:
        return "nothing, no job would run"
    if total.counted == 0:
        return f"unknown, for all of the {total.of} jobs {of_what}"
    counted = f"the {total.of}" if total.complete else f"{total.counted} of the {total.of}"
    more = "" if total.complete else "; the others are unknown"
    return f"{formats.dollars(total.usd)} for {counted} jobs {of_what}{more}"


def _quota_sentence(plan: Plan) -> str:
    if plan.quotas_unknown is not None:
        return f"Quotas: not known ({plan.quotas_unknown})"
    counts = Counter(quota.answer for quota in plan.quotas)
    of = len(plan.quotas)
    if counts["forbids"]:
        said = f"Quotas: {counts['forbids']} of {of} forbid this execution"
    elif counts["limits"]:
        said = f"Quotas: {counts['limits']} of {of} let fewer jobs run in parallel than could"
    else:
        said = f"Quotas: {counts['allows']} of {of} allow this execution"
    return f"{said}, {counts['unknown']} unknown" if counts["unknown"] else said


def _quotas(plan: Plan) -> list[tuple[str, str]]:
    """The mark and the sentence of each quota, the worst first."""
    marks = list(_MARKS)
    ordered = sorted(plan.quotas, key=lambda quota: marks.index(quota.answer))
    return [(_MARKS[quota.answer], quota.sentence) for quota in ordered]
