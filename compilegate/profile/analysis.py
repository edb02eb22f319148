"""All that follows from a profile, in one place."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from compilegate.job.profiling.record import Profile
from compilegate.profile.breakdown import Breakdown, breakdown_of
from compilegate.profile.ceiling import Ceiling, ceilings_of
from compilegate.profile.findings import Finding, SeenShapes, findings_of, seen_shapes
from compilegate.profile.lengths import LengthsView, lengths_view


@dataclass(frozen=True)
class Analysis:
    """What a profile means."""

    profile: Profile
    parts: Breakdown
    findings: tuple[Finding, ...]
    """The first is the bottleneck."""
    ceilings: tuple[Ceiling, ...]
    shapes: SeenShapes
    lengths: LengthsView | None

    @property
    def bottleneck(self) -> Finding:
        """What holds the steps up most."""
        return self.findings[0]

    @property
    def document(self) -> dict[str, Any]:
        """For programs: what was concluded, beside what was seen."""
        parts = self.parts
        return {
            "program": self.profile.program,
            "arm": self.profile.arm,
            "compiler": self.profile.compiler,
            "device": self.profile.device,
            "bottleneck": self.bottleneck.kind,
            "step_seconds": asdict(parts.step),
            "parts": {
                "data": asdict(parts.loader),
                "copies": asdict(parts.copies),
                **{phase: asdict(each) for phase, each in parts.computing.items()},
                "communication": asdict(parts.communication),
                "between": asdict(parts.between),
                "idle": asdict(parts.idle),
            },
            "inside": {
                f"{phase}: {kind}": seconds for (phase, kind), seconds in parts.inside.items()
            },
            "findings": [asdict(each) for each in self.findings],
            "ceilings": [
                {
                    **asdict(each),
                    "speedup_at_most": each.speedup,
                    "speedup_at_most_high": each.speedup_high,
                }
                for each in self.ceilings
            ],
            "shapes": asdict(self.shapes),
            "lengths": None if self.lengths is None else asdict(self.lengths),
            "captured": None if self.profile.captured is None else asdict(self.profile.captured),
            "memory": None if self.profile.memory is None else asdict(self.profile.memory),
            "trace": self.profile.trace,
        }


def analysis_of(profile: Profile) -> Analysis:
    """Everything that follows from the profile."""
    parts = breakdown_of(profile)
    seen = seen_shapes(profile)
    return Analysis(
        profile=profile,
        parts=parts,
        findings=findings_of(profile, parts),
        ceilings=tuple(
            ceilings_of(parts, device=profile.device, shapes=seen.count, varies=seen.varies)
        ),
        shapes=seen,
        lengths=lengths_view(profile.lengths),
    )
