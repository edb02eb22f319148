"""`compilegate advise`: is it worth compiling, before the first GPU hour."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from compilegate.advice import Advice, Experience, Facts, advise, experiences_of, facts_of
from compilegate.advice.portfolio import Portfolio, portfolio_of
from compilegate.advice.told.arms import Proposal, proposals
from compilegate.advice.told.document import advice_document, portfolio_document
from compilegate.advice.told.foretold import foretold
from compilegate.advice.told.text import (
    advice_text,
    headline,
    portfolio_headline,
    portfolio_text,
)
from compilegate.cli.options.completing import complete_workload
from compilegate.cli.options.home import home_option
from compilegate.cli.options.project import settings_here, workloads_option
from compilegate.cli.terminal.errors import writing
from compilegate.cli.workload.forecast import PLACES, forecast_lines
from compilegate.cli.workload.forecast import started as started_at
from compilegate.cli.workload.own_program import obstacles
from compilegate.cli.workload.profiled import profiled
from compilegate.errors import CompilegateError
from compilegate.job.files import write_text
from compilegate.job.names import OBSERVATIONS_FILE, VERDICT_FILE
from compilegate.pipelines.staging import imported_libraries
from compilegate.workload import (
    Workload,
    WorkloadError,
    find_workload,
    read_workload,
)
from compilegate.workload.feasibility import check_feasible


@click.command("advise")
@click.argument("workload", metavar="[NAME|FILE]", required=False, shell_complete=complete_workload)
@click.option("--all", "everything", is_flag=True, help="Advise on every workload of the folder.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a page to this file: sortable, with what would be saved a year.",
)
@click.option(
    "--write-arms",
    is_flag=True,
    help="Print proposed arms as TOML, to be appended to the workload's file.",
)
@click.option("--region", help="Whose prices hold; by default that of infra/settings.toml.")
@workloads_option
@home_option
def command(  # noqa: PLR0917  one argument for each option
    workload: str | None,
    everything: bool,
    as_json: bool,
    html: Path | None,
    write_arms: bool,
    region: str | None,
    workloads: Path,
    home: Path,
) -> None:
    """Say whether compiling is worth it: enable, benchmark first, or stay off.

    \b
      compilegate advise news-topics
      compilegate advise --all --html advice.html
      compilegate advise news-topics --write-arms >> workloads/news-topics.toml

    Each compiler and each alternative stands on one scale of dollars and hours, a run and a year,
    as a range, with what a benchmark costs and when it is repaid. It says what decided it, what is
    known, what was assumed, and how to find out. The table [advice] of a workload's file holds what
    only people know. What finished executions in --home measured takes the place of published
    figures. Last comes how likely the gate lets an equal candidate pass, by the newest verdict on
    the workload. Nothing is executed.
    """
    if (workload is None) == (not everything):
        found = "neither" if workload is None else "both"
        raise click.UsageError(f"found {found}, allowed: a NAME, or --all")
    if write_arms and (everything or as_json or html is not None):
        raise click.UsageError("--write-arms: allowed with one NAME, and without --json and --html")
    asked = _Asked(workloads=workloads, home=home, region=region or settings_here().region)
    if workload is None:
        _advise_all(asked, as_json=as_json, html=html)
        return
    path = find_workload(workload, workloads)
    declared = read_workload(path)
    facts = asked.facts(declared, path)
    advice = advise(facts, asked.experiences({facts.workload: facts}))
    if write_arms:
        click.echo(_arms_text(advice, declared, path), nl=False)
        return
    if html is not None:
        _write_page(html, portfolio_of([advice]))
    foreseen = list(forecast_lines(declared, path, home))
    if as_json:
        click.echo(json.dumps({**advice_document(advice), "forecast": foreseen}, indent=2))
    elif html is None:
        for line in (*advice_text(advice), *_forecast_text(foreseen)):
            click.echo(line)


def _forecast_text(foreseen: Sequence[str]) -> list[str]:
    if not foreseen:
        return []
    heading = "  How likely the gate lets an equal candidate pass:"
    return ["", heading, *(f"    {line}" for line in foreseen)]


def expectations(path: Path, workloads: Path, home: Path) -> list[dict[str, Any]]:
    """What advice expects of each option for this file's workload, before it is executed, to be
    noted with the execution; nothing where it cannot tell."""
    asked = _Asked(workloads=workloads, home=home, region=None)
    try:
        facts = asked.facts(read_workload(path), path)
        advice = advise(facts, asked.experiences({facts.workload: facts}))
    except CompilegateError:
        return []
    return [each.document() for each in foretold(advice)]


@dataclass(frozen=True)
class _Asked:
    """Where workloads and executions lie, and whose prices hold."""

    workloads: Path
    home: Path
    region: str | None

    def facts(self, workload: Workload, path: Path) -> Facts:
        """What is known of a workload."""
        return facts_of(
            workload,
            libraries=imported_libraries(workload, path),
            region=self.region,
            now=datetime.now(UTC),
            profiled=profiled(self.home, workload.name),
            obstacles=obstacles(workload, path),
        )

    def experiences(self, known: Mapping[str, Facts]) -> tuple[Experience, ...]:
        """What finished executions of the home measured, of these workloads and of others."""
        found = sorted(
            path for place in PLACES for path in self.home.glob(f"{place}/*/{VERDICT_FILE}")
        )
        if not found:
            return ()
        facts = dict(known)
        return tuple(
            each for path in found for each in _measured(path.parent, facts, self._other_facts)
        )

    def _other_facts(self, name: str) -> Facts | None:
        """Those of a workload that was executed, if it is still declared."""
        path = self.workloads / f"{name}.toml"
        try:
            return self.facts(read_workload(path), path) if path.is_file() else None
        except CompilegateError:
            return None


def _measured(
    folder: Path, facts: dict[str, Facts], others: Callable[[str], Facts | None]
) -> tuple[Experience, ...]:
    from compilegate.gate.observations import (  # noqa: PLC0415  numpy takes time
        Observations,
        ObservationsError,
    )
    from compilegate.gate.verdict import Verdict, VerdictError  # noqa: PLC0415

    try:
        verdict = Verdict.from_json((folder / VERDICT_FILE).read_bytes())
        observations = Observations.from_json((folder / OBSERVATIONS_FILE).read_bytes())
        started = started_at(folder)
    except (OSError, ValueError, VerdictError, ObservationsError):
        return ()  # a definition from elsewhere may write another kind of verdict
    if verdict.workload not in facts:
        found = others(verdict.workload)
        if found is None:
            return experiences_of(folder.name, started, verdict, observations, None)
        facts[verdict.workload] = found
    return experiences_of(folder.name, started, verdict, observations, facts[verdict.workload])


def _advise_all(asked: _Asked, *, as_json: bool, html: Path | None) -> None:
    paths = sorted(asked.workloads.glob("*.toml"))
    if not paths:
        raise WorkloadError(
            f"{asked.workloads}: found no workload, allowed: a folder with NAME.toml files"
        )
    known: dict[str, Facts] = {}
    problems: list[str] = []
    for path in paths:
        try:
            known[path.stem] = asked.facts(read_workload(path), path)
        except CompilegateError as error:
            problems += error.problems
    experiences = asked.experiences(known)
    advices = [advise(facts, experiences) for facts in known.values()]
    portfolio = portfolio_of(advices, problems)
    if html is not None:
        _write_page(html, portfolio)
    if as_json:
        click.echo(json.dumps(portfolio_document(portfolio), indent=2))
    elif html is None:
        for line in portfolio_text(portfolio):
            click.echo(line)
    if problems and not known:
        raise WorkloadError(*problems)


def _write_page(path: Path, portfolio: Portfolio) -> None:
    from compilegate.advice.told.page import render_advice_html  # noqa: PLC0415  jinja2 takes time

    with writing(f"--html {path}", path.parent):
        write_text(path, render_advice_html(portfolio))
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
