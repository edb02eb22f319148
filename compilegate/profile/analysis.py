"""All that follows from a profile, in one place."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from compilegate.job.profiling.record import Profile
from compilegate.profile.breakdown import Breakdown, Ceiling, breakdown_of, ceilings_of
from compilegate.profile.findings import Finding, findings_of, shapes_vary


@dataclass(frozen=True)
class Analysis:
    """What a profile means."""

    profile: Profile
    breakdown: Breakdown
    findings: tuple[Finding, ...]
    """The first is the bottleneck."""
    ceilings: tuple[Ceiling, ...]

    @property
    def bottleneck(self) -> Finding:
        """What holds the steps up most."""
        return self.findings[0]

    @property
    def document(self) -> dict[str, Any]:
        """For programs: what was concluded, beside what was seen."""
        profile, found = self.profile, self.breakdown
        return {
            "program": profile.program,
            "arm": profile.arm,
            "compiler": profile.compiler,
            "device": profile.device,
            "bottleneck": self.bottleneck.kind,
            "step_seconds": asdict(found.step),
            "parts": {part: asdict(each) for part, each in found.parts.items()},
            "inside": {f"{part}: {kind}": each for (part, kind), each in found.inside.items()},
            "findings": [asdict(each) for each in self.findings],
            "ceilings": [
                {
                    **asdict(each),
                    "speedup_at_most": each.speedup,
                    "speedup_at_most_high": each.speedup_high,
                }
                for each in self.ceilings
            ],
            "shapes": len(set(profile.shapes)),
            "graphs": None if profile.graphs is None else asdict(profile.graphs),
            "trace": profile.trace,
        }


def analysis_of(profile: Profile) -> Analysis:
    """Everything that follows from the profile."""
    found = breakdown_of(profile)
    ceilings = ceilings_of(
        found,
        device=profile.device,
        shapes=len(set(profile.shapes)),
        varies=shapes_vary(profile.shapes),
    )
    return Analysis(profile, found, findings_of(profile, found), tuple(ceilings))
