"""The evidence of an arm that could not be trained. Needs no torch: torch may be why."""

from __future__ import annotations

from typing import Dict, Mapping, Optional

from compilegate.job.digests import file_digest, settings_digest
from compilegate.job.evidence import CompilerRecord, Evidence, Scalar, write_evidence
from training.arguments import Job
from training.data.prepared import MANIFEST


def record_failure(
    job: Job,
    reason: str,
    *,
    compiler: Optional[CompilerRecord] = None,
    environment: Optional[Mapping[str, Scalar]] = None,
) -> None:
    """Write evidence that says why the arm could not be trained, and print the reason."""
    print(f"recorded: arm {job.arm} could not be trained: {reason}", flush=True)
    evidence = Evidence(
        job=job.name,
        arm=job.arm,
        seed=job.seed,
        recipe=job.declared_recipe(),
        compiler=compiler
        or CompilerRecord(name=job.compiler, ran=False, options=job.declared_options()),
        speed=None,
        environment=environment or {},
        digests=_digests(job),
        failure=reason,
    )
    write_evidence(job.folders.output_data, evidence)


def _digests(job: Job) -> Dict[str, str]:
    digests = {"config": settings_digest(job.declared())}
    manifest = job.folders.prepared / MANIFEST
    if manifest.is_file():
        digests["data"] = file_digest(manifest)
    return digests
