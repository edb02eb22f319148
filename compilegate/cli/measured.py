"""What is known of a workload before it is trained: by its own files, and by what executions and
profiles in the home measured. For `advise`, `validate` and `run`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
)
from compilegate.advice.told.foretold import foretold
from compilegate.cli.checks import design_of
from compilegate.cli.options import Project
from compilegate.diagnose.jobs import OutputError
from compilegate.errors import CompilegateError
from compilegate.job.names import BASELINE_ARM, OBSERVATIONS_FILE, VERDICT_FILE
from compilegate.pipelines.staging import imported_libraries, source_folder_of
from compilegate.workload import Workload, read_workload

if TYPE_CHECKING:
    from compilegate.gate.verdict import Verdict

PLACES = ("executions", "aws")
"""Folders of the home with the executions here, and with those fetched from SageMaker."""
UNKNOWN = (
    "how likely an equal candidate passes is not known before the first run; its report has the "
    "noise floor, to be declared as expected_seed_sd"
)


def known_facts(
    project: Project, workload: Workload, path: Path, region: str | None = None
) -> Facts:
    """What is known of a workload; `region` is whose prices hold. Compilegate's own program has no
    obstacles, and neither has one that cannot be read."""
    root = source_folder_of(workload, path)
    return facts_of(
        workload,
        libraries=imported_libraries(workload, path),
        region=region,
        now=datetime.now(UTC),
        profiled=_profiled(project.home, workload.name),
        obstacles=_obstacles(root) if root is not None and root.is_dir() else (),
    )


def advice_on(
    project: Project, workload: Workload, path: Path, region: str | None = None
) -> Advice:
    """The advice for a workload, by all that is known of it."""
    facts = known_facts(project, workload, path, region)
    return advise(facts, experiences(project, {facts.workload: facts}, region))


def expectations(project: Project, path: Path) -> list[dict[str, Any]]:
    """What advice expects of each option for this file's workload, before it is executed, to be
    noted with the execution; nothing where it cannot tell."""
    try:
        advice = advice_on(project, read_workload(path), path)
    except CompilegateError:
        return []
    return [each.document() for each in foretold(advice)]


def experiences(
    project: Project, known: Mapping[str, Facts], region: str | None = None
) -> tuple[Experience, ...]:
    """What finished executions of the home measured, of these workloads and of others."""
    from compilegate.gate.observations import Observations, ObservationsError  # noqa: PLC0415  numpy takes time

    facts: dict[str, Facts | None] = dict(known)
    found: list[Experience] = []
    for folder, verdict in _verdicts(project.home):
        name = verdict.workload
        try:
            observations = Observations.from_json((folder / OBSERVATIONS_FILE).read_bytes())
        except (OSError, ObservationsError):
            continue
        if name not in facts:
            facts[name] = _facts_if_declared(project, name, region)
        found += experiences_of(folder.name, _began(folder), verdict, observations, facts[name])
    return tuple(found)


def _facts_if_declared(project: Project, name: str, region: str | None) -> Facts | None:
    """What is known of a workload that was executed; None if it is not declared any longer."""
    path = project.workloads / f"{name}.toml"
    try:
        return known_facts(project, read_workload(path), path, region) if path.is_file() else None
    except CompilegateError:
        return None


def _verdicts(home: Path) -> Iterator[tuple[Path, Verdict]]:
    """The verdicts of Compilegate's kind in the home, the latest execution first, each with its
    folder."""
    paths = [path for place in PLACES for path in home.glob(f"{place}/*/{VERDICT_FILE}")]
    if not paths:
        return
    from compilegate.gate.verdict import Verdict, VerdictError  # noqa: PLC0415  pydantic takes time

    for folder in sorted((path.parent for path in paths), key=_began, reverse=True):
        # A definition from elsewhere may write another kind.
        with suppress(OSError, VerdictError):
            yield folder, Verdict.from_json((folder / VERDICT_FILE).read_bytes())


def _began(folder: Path) -> float:
    """When an execution here started; of one on SageMaker, when its verdict was fetched."""
    try:
        return float(json.loads((folder / "execution.json").read_bytes())["started"])
    except (OSError, ValueError, LookupError, TypeError):
        return (folder / VERDICT_FILE).stat().st_mtime


def forecast_lines(workload: Workload, path: Path, home: Path) -> Iterator[str]:
    """A line for each guarded metric and the speed, after the key that it is about; and for each
    wish that no evidence of such a size can meet. The newest verdict on the workload in the home is
    the pilot, which knows the spread of seeds, rows and times."""
    from compilegate.gate.forecast import forecast, in_words, never_passing  # noqa: PLC0415  scipy takes time

    if not workload.candidates:  # nothing is compared
        return
    settings, design = workload.gate, design_of(workload, path)
    verdicts = (verdict for _, verdict in _verdicts(home) if verdict.workload == workload.name)
    pilot = next((verdict for verdict in verdicts if verdict.candidates), None)
    measured = [
        candidate
        for candidate in (() if pilot is None else pilot.candidates)
        if candidate.metrics and candidate.arm in workload.candidates
    ]
    for candidate in measured:
        for chance in forecast(settings, design, candidate):
            key = "min_speedup" if chance.of == "speed" else f"metrics.{chance.of}"
            yield f"{key}, {candidate.arm}: {in_words(chance)}"
    if not measured:
        found = {chance.of: in_words(chance) for chance in forecast(settings, design)}
        for metric, guard in settings.metrics.items():
            if guard.margin is not None:
                yield f"metrics.{metric}: {found.get(metric, UNKNOWN)}"
    yield from never_passing(settings, design)


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
            place=each.place.removeprefix(f"{root.parent}/"),
            message=each.message,
            fix=each.fix,
            compilers=each.compilers,
        )
        for each in found
    )
