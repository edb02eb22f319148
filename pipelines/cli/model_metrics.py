"""The metrics of a registered model, from the verdict that it carries."""

from __future__ import annotations

from pathlib import Path

from pipelines.gate.verdict import Verdict, VerdictError
from pipelines.local import ModelPackage, ObjectStore


def package_metrics(package: ModelPackage, home: Path) -> dict[str, float]:
    """The guarded metrics of the package's arm, each a mean over the seeds; none without a verdict
    of this program's own kind, as for a package from somebody else's definition."""
    metadata = package.description.get("CustomerMetadataProperties", {})
    uri, arm = metadata.get("verdict"), metadata.get("arm")
    if uri is None:
        return {}
    path = ObjectStore(home / "s3").path(uri)
    if not path.is_file():
        return {}
    try:
        verdict = Verdict.from_json(path.read_bytes())
    except VerdictError:
        return {}
    return arm_metrics(verdict, str(arm))


def arm_metrics(verdict: Verdict, arm: str) -> dict[str, float]:
    """What the verdict says of one arm; a baseline's values stand beside every candidate's."""
    if arm == verdict.baseline.arm:
        floor = {floor.metric: floor.mean for floor in verdict.baseline.noise_floor}
        compared = {
            metric.metric: metric.baseline
            for candidate in verdict.candidates
            for metric in candidate.metrics
        }
        return floor | compared
    return {
        metric.metric: metric.candidate
        for candidate in verdict.candidates
        if candidate.arm == arm
        for metric in candidate.metrics
    }
