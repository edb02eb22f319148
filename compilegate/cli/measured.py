"""What is known of a workload before it is trained: by its own files, and by what executions and
profiles in the home measured. For `advise`, `validate` and `run`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compilegate.advice import (
    Experience,
    Facts,
    Profiled,
    Range,
    advise,
    experiences_of,
    facts_of,
)
from compilegate.advice.told.foretold import foretold
from compilegate.cli.checks import obstacles
from compilegate.cli.options import Project
from compilegate.datasets.inspection import validation_rows
from compilegate.errors import CompilegateError
from compilegate.job.names import BASELINE_ARM, OBSERVATIONS_FILE, VERDICT_FILE
from compilegate.pipelines.staging import imported_libraries
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
    """What is known of a workload; `region` is whose prices hold."""
    return facts_of(
        workload,
        libraries=imported_libraries(workload, path),
        region=region,
        now=datetime.now(UTC),
        profiled=profiled(project.home, workload.name),
        obstacles=obstacles(workload, path),
    )


def expectations(project: Project, path: Path) -> list[dict[str, Any]]:
    """What advice expects of each option for this file's workload, before it is executed, to be
    noted with the execution; nothing where it cannot tell."""
    try:
        facts = known_facts(project, read_workload(path), path)
        advice = advise(facts, experiences(project, {facts.workload: facts}))
    except CompilegateError:
        return []
    return [each.document() for each in foretold(advice)]


def experiences(
    project: Project, known: Mapping[str, Facts], region: str | None = None
) -> tuple[Experience, ...]:
    """What finished executions of the home measured, of these workloads and of others."""

    def others(name: str) -> Facts | None:
        """Those of a workload that was executed, if it is still declared."""
        path = project.workloads / f"{name}.toml"
        try:
            if not path.is_file():
                return None
            return known_facts(project, read_workload(path), path, region)
        except CompilegateError:
            return None

    facts = dict(known)
    found = sorted(_verdicts(project.home))
    return tuple(each for path in found for each in _measured(path.parent, facts, others))


def _verdicts(home: Path) -> list[Path]:
    return [path for place in PLACES for path in home.glob(f"{place}/*/{VERDICT_FILE}")]


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
        began = started(folder)
    except (OSError, ValueError, VerdictError, ObservationsError):
        return ()  # a definition from elsewhere may write another kind of verdict
    if verdict.workload not in facts:
        found = others(verdict.workload)
        if found is None:
            return experiences_of(folder.name, began, verdict, observations, None)
        facts[verdict.workload] = found
    return experiences_of(folder.name, began, verdict, observations, facts[verdict.workload])


def forecast_lines(workload: Workload, path: Path, home: Path) -> Iterator[str]:
    """A line for each guarded metric and the speed, after the key that it is about; and for each
    wish that no evidence of such a size can meet. The newest verdict on the workload in the home is
    the pilot, which knows the spread of seeds, rows and times."""
    from compilegate.gate.forecast import (  # noqa: PLC0415  scipy takes time
        Design,
        forecast,
        in_words,
        never_passing,
    )

    if not workload.candidates:  # nothing is compared
        return
    settings = workload.gate
    design = Design(
        seeds=len(workload.seeds),
        candidates=len(workload.candidates),
        examples=validation_rows(workload.data, path.parent),
    )
    pilot = newest_verdict(home, workload.name)
    measured = [] if pilot is None else [it for it in pilot.candidates if it.metrics]
    measured = [it for it in measured if it.arm in workload.candidates]
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


def newest_verdict(home: Path, name: str) -> Verdict | None:
    """The verdict of the execution of a workload that started last; None where there is none."""
    paths = _verdicts(home)
    if not paths:
        return None
    from compilegate.gate.verdict import Verdict, VerdictError  # noqa: PLC0415  pydantic takes time

    for path in sorted(paths, key=lambda each: started(each.parent), reverse=True):
        try:
            verdict = Verdict.from_json(path.read_bytes())
        except (OSError, VerdictError):  # a definition from elsewhere may write another kind
            continue
        if verdict.workload == name and verdict.candidates:
            return verdict
    return None


def started(folder: Path) -> float:
    """When an execution here started; of one on SageMaker, when its verdict was fetched."""
    try:
        return float(json.loads((folder / "execution.json").read_bytes())["started"])
    except (OSError, ValueError, LookupError, TypeError):
        return (folder / VERDICT_FILE).stat().st_mtime


def profiled(home: Path, workload: str) -> Profiled | None:
    """The shares of a step of the baseline, by its last profile; None where there is none, or it is
    one of another release."""
    folder = home / "profiles" / f"{workload}-{BASELINE_ARM}"
    if not folder.is_dir():
        return None
    from compilegate.profile import ProfileError, analysis_of, read_profile  # noqa: PLC0415  numpy takes time
    from compilegate.profile.breakdown import (  # noqa: PLC0415
        BETWEEN,
        COMMUNICATION,
        COPIES,
        DATA,
        LAUNCHES,
        PARTS,
    )

    try:
        profile = read_profile(folder)
    except ProfileError:
        return None
    found = analysis_of(profile).breakdown
    step = found.step.seconds
    if step <= 0:
        return None

    def together(*parts: str) -> Range:
        shares = [found.parts[part] for part in parts]
        ends = (sum(each.low for each in shares) / step, sum(each.high for each in shares) / step)
        return Range(*(min(max(end, 0.0), 1.0) for end in ends))

    computing = together(*PARTS)
    own = sum(found.of_part(part) for part in PARTS)
    part = min(found.share(found.of_kind(LAUNCHES)) / own, 1.0) if own > 0 else 0.0
    return Profiled(
        parts={
            "compute": computing.times(1.0 - part),
            "launches": computing.times(part),
            "data": together(DATA, COPIES),
            "communication": together(COMMUNICATION),
            "other": together(BETWEEN),
        },
        hardware=profile.hardware,
    )
