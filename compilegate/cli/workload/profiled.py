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
    from compilegate.profile.breakdown import LAUNCHES, Share  # noqa: PLC0415

    try:
        profile = read_profile(folder)
    except ProfileError:
        return None
    parts = analysis_of(profile).parts
    step = parts.step.seconds
    if step <= 0:
        return None

    def together(*shares: Share) -> Range:
        ends = (sum(each.low for each in shares) / step, sum(each.high for each in shares) / step)
        return Range(*(min(max(end, 0.0), 1.0) for end in ends))

    computing = together(*parts.computing.values())
    own = sum(each.seconds for each in parts.computing.values()) / step
    launches = min(parts.of_kind(LAUNCHES) / step, own)
    part = launches / own if own > 0 else 0.0
    return Profiled(
        parts={
            "compute": computing.times(1.0 - part),
            "launches": computing.times(part),
            "data": together(parts.loader, parts.copies),
            "communication": together(parts.communication),
            "other": together(parts.between, parts.idle),
        },
        hardware=profile.hardware,
    )
