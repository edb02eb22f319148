"""What an earlier `compilegate profile` of a workload found, as advice takes it."""

from __future__ import annotations

from pathlib import Path

from compilegate.advice import Profiled, Range
from compilegate.job.names import BASELINE_ARM


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
