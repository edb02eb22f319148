"""`compilegate aws plan`: what an execution would cost and need, and what quotas say to it."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from compilegate.access import Arns
from compilegate.account.errors import AwsError, NotDeployedError
from compilegate.account.executions import read_pipeline
from compilegate.account.images import unbuilt_images
from compilegate.account.plan.budget import BudgetError
from compilegate.account.plan.jobs import jobs_given
from compilegate.account.plan.planning import Plan, make_plan, target_deployment, target_sources
from compilegate.account.plan.quotas import QuotaAnswer, QuotaError, check_quotas, read_quotas
from compilegate.account.session import StackOutputs, read_outputs
from compilegate.cli import options
from compilegate.cli.definitions import image_bases, project_images, refuse_infeasible
from compilegate.cli.options import Project, one_of, pass_project
from compilegate.cli.places import Account, open_account
from compilegate.cli.printing import aligned, announce
from compilegate.datasets import raw_data
from compilegate.document.reading import read_definition
from compilegate.document.writing import compact
from compilegate.pipelines.compilation import compile_definition
from compilegate.pipelines.deployment import Deployment, Sources
from compilegate.pipelines.images import image_folders_of
from compilegate.pipelines.staging.placement import placement_of
from compilegate.posture.contract import FUNCTION_KIND
from compilegate.report import formats
from compilegate.workload import Workload
from compilegate.workload.parameters import INSTANCE_TYPE

FORMATS = ("text", "markdown", "json")
_COLUMNS = ("JOBS", "INSTANCE", "EACH AT MOST", "COST AT MOST")
_MARKS = {"forbids": "FORBIDDEN", "limits": "limited", "unknown": "unknown", "allows": "ok"}
"""The answers of quotas, the worst first."""
_DEFINITION = {
    "not deployed": "not deployed yet",
    "same": "the same as the deployed one",
    "changed": "not the deployed one; make diff shows the changes",
}


@click.command("plan")
@options.optional_workload
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Markdown suits a comment on a pull request.",
)
@click.option(
    "--quotas", "only_quotas", is_flag=True, help="Only quotas: of every workload that is deployed."
)
@options.parameters
@pass_project
def command(
    project: Project,
    workload: str | None,
    *,
    form: str,
    only_quotas: bool,
    parameters: dict[str, str],
) -> None:
    """Show what an execution of this checkout would cost and need, before anything starts.

    \b
      compilegate aws plan news-topics                       in words
      compilegate aws plan news-topics --format markdown     as a comment on a pull request
      compilegate aws plan news-topics --format json         for a program
      compilegate aws plan --quotas                          as `make deploy` does at its end

    Says whether this checkout's definition is the deployed one, the maximum cost, and which of the
    account's quotas are too low. Nothing is written or started. With --quotas, the exit status is 2
    where a workload that starts by itself would fail.
    """
    one_of(workload, flag=only_quotas, otherwise="--quotas")
    account = open_account(project)
    if workload is None:
        _print_deployed_quotas(project, account)
        return
    declared, path = project.load(workload)
    bases, region = image_bases(project), account.session.region
    instance_type = parameters.get(INSTANCE_TYPE)
    refuse_infeasible(declared, path, bases, region=region, instance_type=instance_type)
    announce(f"looking up where {declared.name} is deployed")
    deployment, sources = _target(account, declared, path, project)
    definition = compact(compile_definition(declared, deployment, sources))
    announce("reading the deployed definition and the account's quotas")
    plan = make_plan(
        account.session,
        account.names.pipeline(declared.name),
        definition,
        declared,
        given=parameters,
        settings=account.names.settings,
        unbuilt=_unbuilt(account, declared, deployment),
        now=datetime.now(UTC),
    )
    if form == "json":
        click.echo(json.dumps(dataclasses.asdict(plan), indent=2, allow_nan=False))
    else:
        click.echo("\n".join(_lines(plan, markdown=form == "markdown")))
    if plan.over_budget:
        raise BudgetError(*plan.over_budget)


def _print_deployed_quotas(project: Project, account: Account) -> None:
    """Print what the quotas say to each deployed workload, as it is deployed.

    Raises QuotaError for those that start by themselves and would fail: nobody is there who could
    run fewer steps at a time, as `aws submit` does.
    """
    try:
        quotas = read_quotas(account.session)
    except AwsError as error:
        click.echo(f"Quotas: not known ({error})")
        return
    failing: list[str] = []
    for workload, _ in project.deployed_workloads(account.names.settings):
        name = workload.name
        try:
            deployed = read_pipeline(account.session, account.names.pipeline(name))
        except NotDeployedError as error:
            click.echo(f"{name}: {error}")
            continue
        definition, _ = read_definition(deployed)
        jobs = jobs_given(definition, {})
        answers = check_quotas(definition, jobs, quotas, workload.compute.max_parallel_steps)
        click.echo(f"{name}: {_quota_sentence(answers, None)}")
        for mark, sentence in _marked(answers):
            if mark != "ok":
                click.echo(f"  {mark}: {sentence}")
        starts = (workload.schedule, workload.new_data)
        starts_itself = any(each is not None and each.enabled for each in starts)
        if starts_itself and any(each.answer in ("forbids", "limits") for each in answers):
            failing.append(
                f"{name} starts by itself and would fail: change [compute], or ask for more (see "
                "above)"
            )
    if failing:
        raise QuotaError(*failing)


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
    account: Account, workload: Workload, path: Path, project: Project
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
        {name: folder.tag for name, folder in project_images(project).items()},
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


def _lines(plan: Plan, *, markdown: bool) -> Iterator[str]:
    """The plan for the terminal; or as Markdown, whose first line marks the comment so that it can
    be found again."""
    rows, costs = list(_rows(plan)), list(_cost_sentences(plan))
    if markdown:
        yield f"<!-- compilegate aws plan {plan.pipeline} -->"
        yield f"### Plan of `{plan.pipeline}` in {plan.region}"
    else:
        yield f"{plan.pipeline} in {plan.region}"
    yield from ("", f"Definition: {_DEFINITION[plan.definition]}", "")
    if markdown:
        for cells in (_COLUMNS, ["---"] * len(_COLUMNS), *rows):
            yield f"| {' | '.join(map(_escaped, cells))} |"
        costs = ["  \n".join(costs)]
    else:
        yield from (f"  {line}" for line in aligned([_COLUMNS, *rows]))
    yield from ("", *costs, "", _quota_sentence(plan.quotas, plan.quotas_unknown))
    yield from [""] if markdown else []
    for mark, sentence in _marked(plan.quotas):
        yield f"- **{mark}**: {_escaped(sentence)}" if markdown else f"  {mark}: {sentence}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Jobs that are alike on one line."""
    alike = Counter(
        (job.kind, job.instance_type, job.instances, job.max_seconds, plan.usd_of.get(job.step))
        for job in plan.jobs
    )
    for (kind, instance_type, instances, seconds, usd), count in alike.items():
        yield (
            f"{count} {kind}",
            instance_type if instances == 1 else f"{instances} x {instance_type}",
            formats.seconds(seconds),
            formats.NOTHING if usd is None else formats.dollars(usd * count),
        )


def _cost_sentences(plan: Plan) -> Iterator[str]:
    counted, jobs = len(plan.usd_of), len(plan.jobs)
    if counted == 0:
        yield f"Cost, at most: unknown, for all of the {jobs} jobs"
    else:
        of = f"the {jobs}" if counted == jobs else f"{counted} of the {jobs}"
        yield (
            f"Cost, at most: {formats.dollars(plan.most_usd)} for {of} jobs at their maximum "
            "runtimes, nothing cached"
        )
    yield from (f"Unknown: {reason}" for reason in plan.unknown)
    if plan.network is not None:
        yield plan.network


def _quota_sentence(quotas: Sequence[QuotaAnswer], unknown: str | None) -> str:
    if unknown is not None:
        return f"Quotas: not known ({unknown})"
    counts, of = Counter(quota.answer for quota in quotas), len(quotas)
    if counts["forbids"]:
        text = f"Quotas: {counts['forbids']} of {of} forbid an execution"
    elif counts["limits"]:
        text = f"Quotas: {counts['limits']} of {of} let fewer jobs run in parallel than could"
    else:
        text = f"Quotas: {counts['allows']} of {of} allow an execution"
    return f"{text}, {counts['unknown']} unknown" if counts["unknown"] else text


def _marked(quotas: Sequence[QuotaAnswer]) -> list[tuple[str, str]]:
    """The mark and the sentence of each quota, the worst first."""
    marks = list(_MARKS)
    ordered = sorted(quotas, key=lambda quota: marks.index(quota.answer))
    return [(_MARKS[quota.answer], quota.sentence) for quota in ordered]
