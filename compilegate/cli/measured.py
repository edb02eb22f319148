"""What is known of a workload before it is trained: by its own files, and by what executions and
profiles in the home measured. For `advise`, `validate` and `run`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from compilegate.advice import (
    Advice,
    Experience,
    Facts,
    Obstacle,
    Profiled,
    Range,
    advise,
    experiences_of,
    facts_of,
    timing_of,
)
from compilegate.advice.render import foretold
from compilegate.cli.checks import design_of, image_bases
from compilegate.cli.options import Project
from compilegate.diagnose.jobs import OutputError
from compilegate.errors import CompilegateError
from compilegate.job.names import BASELINE_ARM, OBSERVATIONS_FILE, VERDICT_FILE
from compilegate.pipelines.staging import imported_libraries, source_folder_of
from compilegate.workload import Workload, read_workload

if TYPE_CHECKING:
    from compilegate.gate.observations import Observations
    from compilegate.gate.verdict import Verdict

PLACES = ("executions", "aws")
"""Folders of the home with the executions here, and with those fetched from SageMaker."""
UNKNOWN = (
    "how likely an equal candidate passes is not known before the first run; its report has the "
    "noise floor, to be declared as expected_seed_sd"
)


def known_facts(
    project: Project,
    workload: Workload,
    path: Path,
    region: str | None = None,
    *,
    done: Sequence[Execution] = (),
) -> Facts:
    """What is known of a workload; `region` is whose prices hold, and `done` has finished
    executions. Compilegate's own program has no obstacles, and neither has one that cannot be
    read."""
    root = source_folder_of(workload, path)
    timings = (timing_of(it.name, it.began, it.seen) for it in done if it.seen is not None)
    return facts_of(
        workload,
        libraries=imported_libraries(workload, path),
        region=region,
        now=datetime.now(UTC),
        bases=image_bases(project.containers, project.settings.images.base),
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


def expectations(project: Project, path: Path) -> list[dict[str, Any]]:
    """What advice expects of each option for this file's workload, before it is executed, to be
    noted with the execution; nothing where it cannot tell."""
    try:
        advice = advice_on(project, read_workload(path), path)
    except CompilegateError:
        return []
    return foretold(advice)


def experiences(
    project: Project,
    known: Mapping[str, Facts],
    done: Sequence[Execution],
    region: str | None = None,
) -> tuple[Experience, ...]:
    """What finished executions measured, of these workloads and of others."""
    facts: dict[str, Facts | None] = dict(known)
    found: list[Experience] = []
    for each in done:
        name = each.verdict.workload
        if each.seen is None:
            continue
        if name not in facts:
            facts[name] = _facts_if_declared(project, name, region)
        found += experiences_of(each.name, each.began, each.verdict, each.seen, facts[name])
    return tuple(found)


def _facts_if_declared(project: Project, name: str, region: str | None) -> Facts | None:
    path = project.workloads / f"{name}.toml"
    try:
        return known_facts(project, read_workload(path), path, region) if path.is_file() else None
    except CompilegateError:
        return None


class Execution(NamedTuple):
    """A finished one of the home, whose verdict is of Compilegate's kind."""

    name: str
    began: float
    verdict: Verdict
    seen: Observations | None
    """None where they cannot be read."""


def executions(home: Path) -> tuple[Execution, ...]:
    """Those of the home, the latest first."""
    paths = [path for place in PLACES for path in home.glob(f"{place}/*/{VERDICT_FILE}")]
    if not paths:
        return ()
    from compilegate.gate.observations import Observations, ObservationsError  # noqa: PLC0415  numpy takes time
    from compilegate.gate.verdict import Verdict, VerdictError  # noqa: PLC0415  pydantic takes time

    found = []
    for folder in (path.parent for path in paths):
        seen = None
        with suppress(OSError, ObservationsError):
            seen = Observations.from_json((folder / OBSERVATIONS_FILE).read_bytes())
        # A definition from elsewhere may write another kind.
        with suppress(OSError, VerdictError):
            verdict = Verdict.from_json((folder / VERDICT_FILE).read_bytes())
            found.append(Execution(folder.name, _began(folder), verdict, seen))
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
    measured = [
        candidate
        for candidate in (() if pilot is None else pilot.candidates)
        if candidate.metrics and candidate.arm in workload.candidates
    ]
    lines, chances = [], []
    for candidate in measured:
        for chance in forecast(settings, design, candidate):
            key = "min_speedup" if chance.of == "speed" else f"metrics.{chance.of}"
            lines.append(f"{key}, {candidate.arm}: {in_words(chance)}")
            chances += [chance.chance] if chance.of != "speed" else []
    if not measured:
        found = {chance.of: chance for chance in forecast(settings, design)}
        for metric, guard in settings.metrics.items():
            if guard.margin is not None:
                known = in_words(found[metric]) if metric in found else UNKNOWN
                lines.append(f"metrics.{metric}: {known}")
        chances = [chance.chance for chance in found.values()]
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
    scattered = found.share(found.margin)

    def together(*parts: str) -> Range:
        share = sum(map(found.of_part, parts))
        return Range(max(share - scattered, 0.0), min(share + scattered, 1.0))

    computing = together(*profiles.PARTS)
    own = sum(map(found.of_part, profiles.PARTS))
    launches = found.share(found.of_kind(profiles.LAUNCHES))
    part = min(launches / own, 1.0) if own > 0 else 0.0
    return Profiled(
        parts={
            "compute": computing.times(1.0 - part),
            "launches": computing.times(part),
            "data": together(profiles.DATA, profiles.COPIES),
            "communication": together(profiles.COMMUNICATION),
            "other": together(profiles.BETWEEN),
        },
        hardware=profile.hardware,
    )


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
