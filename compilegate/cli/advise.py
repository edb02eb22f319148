"""`compilegate advise`: is it worth compiling, before the first GPU hour."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from compilegate.advice import Advice, Facts, advise
from compilegate.advice.portfolio import Portfolio, portfolio_of
from compilegate.advice.told.arms import Proposal, proposals
from compilegate.advice.told.document import advice_document, portfolio_document
from compilegate.advice.told.text import advice_text, headline, portfolio_headline, portfolio_text
from compilegate.cli.measured import advice_on, experiences, forecast_lines, known_facts
from compilegate.cli.options import (
    FILE,
    Project,
    json_option,
    optional_workload_argument,
    pass_project,
    print_json,
    print_or_write,
    refuse_given,
    region_option,
)
from compilegate.errors import CompilegateError
from compilegate.workload import Workload, WorkloadError, read_workload
from compilegate.workload.feasibility import check_feasible


@click.command("advise")
@optional_workload_argument
@click.option("--all", "everything", is_flag=True, help="Advise on every workload of the folder.")
@json_option
@click.option(
    "--output",
    "-o",
    type=FILE,
    help="Write a page to this file: sortable, with what would be saved a year.",
)
@click.option(
    "--write-arms",
    is_flag=True,
    help="Print proposed arms as TOML, to be appended to the workload's file.",
)
@region_option
@pass_project
def command(
    project: Project,
    workload: str | None,
    *,
    everything: bool,
    as_json: bool,
    output: Path | None,
    write_arms: bool,
    region: str | None,
) -> None:
    """Say whether compiling is worth it: enable, benchmark first, or stay off.

    \b
      compilegate advise news-topics
      compilegate advise --all --output advice.html
      compilegate advise news-topics --write-arms >> workloads/news-topics.toml

    Each compiler and each alternative stands on one scale of dollars and hours, a run and a year,
    as a range, with what a benchmark costs and when it is repaid. The table [advice] of a
    workload's file holds what only people know. What finished executions in --home measured takes
    the place of published figures. Last comes how likely the gate lets an equal candidate pass, by
    the newest verdict on the workload. Nothing is executed.
    """
    if (workload is None) is not everything:
        raise click.UsageError("name one workload, or give --all")
    if write_arms:
        refuse_given({"--all", "--json", "--output"}, "does not go with --write-arms")
    region = region or project.settings.region
    if workload is None:
        _advise_all(project, region, as_json=as_json, page=output)
        return
    declared, path = project.load(workload)
    advice = advice_on(project, declared, path, region)
    if write_arms:
        click.echo(_arms_text(advice, declared, path), nl=False)
        return
    if output is not None:
        _write_page(output, portfolio_of([advice]))
    foreseen = list(forecast_lines(declared, path, project.home))
    if as_json:
        print_json({**advice_document(advice), "forecast": foreseen})
    elif output is None:
        chances = ["", "  How likely the gate lets an equal candidate pass:"] if foreseen else []
        chances += [f"    {line}" for line in foreseen]
        click.echo("\n".join([*advice_text(advice), *chances]))


def _advise_all(project: Project, region: str | None, *, as_json: bool, page: Path | None) -> None:
    paths = sorted(project.workloads.glob("*.toml"))
    if not paths:
        raise WorkloadError(
            f"{project.workloads} holds no workload file NAME.toml; `compilegate init` writes one"
        )
    known: dict[str, Facts] = {}
    problems: list[str] = []
    for path in paths:
        try:
            known[path.stem] = known_facts(project, read_workload(path), path, region)
        except CompilegateError as error:
            problems += error.problems
    measured = experiences(project, known, region)
    advices = [advise(facts, measured) for facts in known.values()]
    portfolio = portfolio_of(advices, problems)
    if page is not None:
        _write_page(page, portfolio)
    if as_json:
        print_json(portfolio_document(portfolio))
    elif page is None:
        click.echo("\n".join(portfolio_text(portfolio)))
    if problems and not known:
        raise WorkloadError(*problems)


def _write_page(path: Path, portfolio: Portfolio) -> None:
    from compilegate.advice.told.page import render_advice_html  # noqa: PLC0415  jinja2 takes time

    print_or_write(render_advice_html(portfolio), path)
    click.echo(f"{path}: {portfolio_headline(portfolio)}", err=True)


def _arms_text(advice: Advice, workload: Workload, path: Path) -> str:
    """The proposed arms that the file stays valid with; the others as comments that say why."""
    try:
        check_feasible(workload)
    except CompilegateError as error:  # no arm would make the file valid
        raise WorkloadError(*(f"{path}: {each}" for each in error.problems)) from error
    proposed = proposals(advice, workload)
    kept: list[Proposal] = []
    texts: list[str] = []
    written = path.read_text(encoding="utf-8")
    for each in proposed:
        problem = _problem_with(written, [*kept, each], path.name)
        if problem is None:
            kept.append(each)
            texts.append(each.text)
        else:
            texts.append(f"# No arm {each.name}: {problem}.\n")
    if not proposed:
        return f"# Nothing to propose for {workload.name}: {headline(advice)}\n"
    return "\n".join(["", *texts])


def _problem_with(written: str, added: Sequence[Proposal], name: str) -> str | None:
    """Why the file with these arms would be refused; None where it would not."""
    with tempfile.TemporaryDirectory(prefix="advise-") as folder:
        path = Path(folder) / name
        path.write_text("\n".join([written, *(each.table for each in added)]), encoding="utf-8")
        try:
            check_feasible(read_workload(path))
        except CompilegateError as error:
            return error.problems[0].removeprefix(f"{path}: ")
    return None
