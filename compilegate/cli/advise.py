"""`compilegate advise`: is it worth compiling? By a workload's own files, and by what executions
and profiles in the home measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from compilegate.advice.facts import (
    Experience,
    Facts,
    Obstacle,
    Profiled,
    experiences_of,
    facts_of,
    timing_of,
)
from compilegate.advice.judge import Advice, advise
from compilegate.advice.render import (
    advice_document,
    advice_text,
    portfolio_document,
    portfolio_text,
)
from compilegate.advice.rules import Range
from compilegate.cli import options
from compilegate.cli.definitions import design_of, image_bases
from compilegate.cli.options import Project, one_of, pass_project, refuse_given
from compilegate.cli.printing import print_json
from compilegate.diagnose.jobs import OutputError
from compilegate.errors import CompilegateError
from compilegate.job.contract import BASELINE_ARM, OBSERVATIONS_FILE, VERDICT_FILE
from compilegate.pipelines.staging.requirements import imported_libraries, source_folder_of
from compilegate.workload import Workload, WorkloadError, read_workload

if TYPE_CHECKING:
    from compilegate.gate.observations import Observations
    from compilegate.gate.verdict import Verdict

PLACES = ("executions", "aws")
"""Folders of the home with the executions here, and with those fetched from SageMaker."""
UNKNOWN = (
    "how likely an equal candidate passes is not known before the first run; its report has the "
    "noise floor, to be declared as expected_seed_sd"
)


@click.command("advise")
@options.optional_workload
@click.option("--all", "everything", is_flag=True, help="Advise on every workload of the folder.")
@click.option(
    "--options", "show_all", is_flag=True, help="Show all options, by seven considerations."
)
@options.as_json
@options.region
@pass_project
def command(
    project: Project,
    workload: str | None,
    *,
    everything: bool,
    show_all: bool,
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
    one_of(workload, flag=everything, otherwise="--all")
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
    text = advice_text(advice, everything=show_all, forecast=lines, passing=passing)
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


class Execution(NamedTuple):
    """A finished one of the home, whose verdict is of Compilegate's kind."""

    name: str
    began: float
    verdict: Verdict
    observations: Observations | None
    """None where they cannot be read."""


def known_facts(
    project: Project,
    workload: Workload,
    path: Path,
    region: str | None = None,
    *,
    done: Sequence[Execution] = (),
) -> Facts:
    """What is known of a workload; `region` is whose prices hold, and `done` has finished
    executions. Compilegate's own program has no obstacles."""
    root = source_folder_of(workload, path)
    timings = (
        timing_of(it.name, it.began, it.observations) for it in done if it.observations is not None
    )
    return facts_of(
        workload,
        libraries=imported_libraries(workload, path),
        region=region,
        now=datetime.now(UTC),
        bases=image_bases(project),
        profiled=_profiled(project.home, workload.name),
        obstacles=_obstacles(root) if root is not None and root.is_dir() else (),
        timings=[each for each in timings if each is not None],
    )


def advice_on(
    project: Project, workload: Workload, path: Path, region: str | None = None
) -> Advice:
    """The advice for a workload, by all that is known of it."""
    done = executions(project.home)
    facts = known_facts(project, workload, path, region, done=done)
    return advise(facts, experiences(project, {facts.workload: facts}, done, region))


def experiences(
    project: Project,
    known: Mapping[str, Facts],
    done: Sequence[Execution],
    region: str | None = None,
) -> tuple[Experience, ...]:
    """What finished executions measured, of these workloads and of others."""
    facts, found = dict[str, Facts | None](known), list[Experience]()
    for name in {each.verdict.workload for each in done} - set(facts):
        path = project.workloads / f"{name}.toml"
        facts[name] = None
        if path.is_file():
            with suppress(CompilegateError):
                facts[name] = known_facts(project, read_workload(path), path, region)
    for each in done:
        if each.observations is not None:
            of = facts[each.verdict.workload]
            found += experiences_of(each.name, each.began, each.verdict, each.observations, of)
    return tuple(found)


def executions(home: Path) -> tuple[Execution, ...]:
    """Those of the home, the latest first. A definition from elsewhere may write verdicts of
    another kind, which are passed over."""
    paths = [path for place in PLACES for path in home.glob(f"{place}/*/{VERDICT_FILE}")]
    if not paths:
        return ()
    from compilegate.gate.observations import Observations, ObservationsError  # noqa: PLC0415  numpy takes time
    from compilegate.gate.verdict import Verdict, VerdictError  # noqa: PLC0415  pydantic takes time

    found = []
    for path in paths:
        observations = None
        with suppress(OSError, ObservationsError):
            observations = Observations.from_json((path.parent / OBSERVATIONS_FILE).read_bytes())
        with suppress(OSError, VerdictError):
            verdict = Verdict.from_json(path.read_bytes())
            found.append(Execution(path.parent.name, _began(path.parent), verdict, observations))
    return tuple(sorted(found, key=lambda each: each.began, reverse=True))


def _began(folder: Path) -> float:
    """When an execution here started; of one on SageMaker, when its verdict was fetched."""
    try:
        return float(json.loads((folder / "execution.json").read_bytes())["started"])
    except (OSError, ValueError, LookupError, TypeError):
        return (folder / VERDICT_FILE).stat().st_mtime


def forecast_of(workload: Workload, path: Path, home: Path) -> tuple[list[str], float | None]:
    """A line for each guarded metric and the speed, after the key that it is about; and for each
    wish that no evidence of such a size can meet. Then the least of the chances, None where there
    is none. The newest verdict on the workload in the home is the pilot, which knows the spread of
    seeds, rows and times."""
    from compilegate.gate.forecast import forecast, in_words, never_passing  # noqa: PLC0415  scipy takes time

    if not workload.candidates:  # nothing is compared
        return [], None
    settings, design = workload.gate, design_of(workload, path)
    verdicts = (it.verdict for it in executions(home) if it.verdict.workload == workload.name)
    pilot = next((verdict for verdict in verdicts if verdict.candidates), None)
    own = () if pilot is None else pilot.candidates
    measured = [each for each in own if each.metrics and each.arm in workload.candidates]
    found = [(arm, it) for arm in measured or [None] for it in forecast(settings, design, arm)]
    lines = []
    for arm, it in found:
        key = "min_speedup" if it.of == "speed" else f"metrics.{it.of}"
        lines.append(f"{key}{f', {arm.arm}' if arm else ''}: {in_words(it)}")
    foreseen = {it.of for _, it in found}
    guarded = [name for name, guard in settings.metrics.items() if guard.margin is not None]
    if not measured:
        lines += [f"metrics.{name}: {UNKNOWN}" for name in guarded if name not in foreseen]
    chances = [it.chance for _, it in found if it.of != "speed"]
    never = never_passing(settings, design)
    return [*lines, *never], 0.0 if never else min(chances, default=None)


def _profiled(home: Path, workload: str) -> Profiled | None:
    """The shares of a step of the baseline, by its last profile; None where there is none, or it is
    one of another release."""
    folder = home / "profiles" / f"{workload}-{BASELINE_ARM}"
    if not folder.is_dir():
        return None
    from compilegate.diagnose import profile as profiles  # noqa: PLC0415  numpy takes time

    try:
        profile = profiles.read_profile(folder)
    except OutputError:
        return None
    found = profiles.breakdown_of(profile)
    if found.seconds <= 0:
        return None
    scattered, launches = found.share(found.margin), found.share(found.of_kind(profiles.LAUNCHES))
    computing = sum(map(found.of_part, profiles.PARTS))
    part = min(launches / computing, 1.0) if computing > 0 else 0.0

    def about(share: float) -> Range:
        return Range(max(share - scattered, 0.0), min(share + scattered, 1.0))

    return profile.hardware, {
        "compute": about(computing).times(1.0 - part),
        "launches": about(computing).times(part),
        "data": about(found.of_part(profiles.DATA) + found.of_part(profiles.COPIES)),
        "communication": about(found.of_part(profiles.COMMUNICATION)),
        "other": about(found.of_part(profiles.BETWEEN)),
    }


@lru_cache(maxsize=512)
def _obstacles(root: Path) -> tuple[Obstacle, ...]:
    """What `compilegate check` finds in a program's folder, the gravest first; nothing is imported
    for it. Once for each folder, which workloads may share."""
    from compilegate.check.checking import check_paths  # noqa: PLC0415  the rules take time

    found = sorted(check_paths([root]).findings, key=lambda each: -each.severity)
    return tuple(
        Obstacle(
            rule=each.rule,
            severity=each.severity.word,
            sentence=f"{each.place.removeprefix(f'{root.parent}/')}: {each.message} [{each.rule}]",
            compilers=each.compilers,
        )
        for each in found
    )
