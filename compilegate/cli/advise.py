"""`compilegate advise`: is it worth compiling, before the first GPU hour."""

from __future__ import annotations

import click

from compilegate.advice.facts import Facts
from compilegate.advice.judge import advise
from compilegate.advice.render import (
    advice_document,
    advice_text,
    portfolio_document,
    portfolio_text,
)
from compilegate.cli.measured import (
    advice_on,
    executions,
    experiences,
    forecast_of,
    known_facts,
)
from compilegate.cli.options import (
    Project,
    json_option,
    optional_workload_argument,
    pass_project,
    print_json,
    refuse_given,
    region_option,
)
from compilegate.errors import CompilegateError
from compilegate.workload import WorkloadError, read_workload


@click.command("advise")
@optional_workload_argument
@click.option("--all", "everything", is_flag=True, help="Advise on every workload of the folder.")
@click.option("--options", is_flag=True, help="Show all options, by seven considerations.")
@json_option
@region_option
@pass_project
def command(
    project: Project,
    workload: str | None,
    *,
    everything: bool,
    options: bool,
    as_json: bool,
    region: str | None,
) -> None:
    """Say whether compiling is worth it: enable, benchmark first, or stay off.

    \b
      compilegate advise news-topics             four lines
      compilegate advise news-topics --options   every compiler and every alternative
      compilegate advise --all                   a table of all workloads

    The four lines say whether it is worth it, what decides, what that rests on, and what would
    change it. What finished executions in --home measured comes first, then AWS's tables, then
    rules of thumb. The table [advice] of a workload's file holds what only people know. Nothing is
    executed.
    """
    if (workload is None) is not everything:
        raise click.UsageError("name one workload, or give --all")
    region = region or project.settings.region
    if workload is None:
        refuse_given({"--options"}, "goes with one workload")
        _advise_all(project, region, as_json=as_json)
        return
    declared, path = project.load(workload)
    advice = advice_on(project, declared, path, region)
    lines, passing = forecast_of(declared, path, project.home)
    if as_json:
        print_json({**advice_document(advice, passing), "forecast": lines})
        return
    text = advice_text(advice, everything=options, forecast=lines, passing=passing)
    click.echo("\n".join(text))


def _advise_all(project: Project, region: str | None, *, as_json: bool) -> None:
    paths = sorted(project.workloads.glob("*.toml"))
    if not paths:
        raise WorkloadError(
            f"{project.workloads} holds no workload file NAME.toml; `compilegate init` writes one"
        )
    done, known, problems = executions(project.home), dict[str, Facts](), list[str]()
    for path in paths:
        try:
            known[path.stem] = known_facts(project, read_workload(path), path, region, done=done)
        except CompilegateError as error:
            problems += error.problems
    measured = experiences(project, known, done, region)
    advices = [advise(facts, measured) for facts in known.values()]
    if as_json:
        print_json(portfolio_document(advices, problems))
    else:
        click.echo("\n".join(portfolio_text(advices, problems)))
    if problems and not known:
        raise WorkloadError(*problems)
