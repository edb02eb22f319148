"""Takes a repro out of a job's evidence: the script that shows wrong arithmetic, and its inputs."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from compilegate.evidence.columns import MOST_COLUMN_BYTES
from compilegate.evidence.folders import Replicate, open_evidence
from compilegate.evidence.scalars import read_scalars
from compilegate.job.evidence.record import EvidenceError
from compilegate.job.files import whole_file
from compilegate.job.names import EVIDENCE_FILE

MOST_FILES = 20
"""A repro is a script, its inputs, and what the search for it said."""


def copy_repro(folder: Path, replicate: Replicate, target: Path) -> None:
    """Copy the plain files of a job's repro from the execution's evidence to the folder `target`.

    Links are not followed, and no folders within it are copied. Raises EvidenceError.
    """
    with tempfile.TemporaryDirectory(prefix="evidence-") as unpacked:
        evidence = open_evidence(folder, replicate, Path(unpacked)).resolve()
        parity = read_scalars(evidence / EVIDENCE_FILE)[0].parity
        name = "" if parity is None else parity.repro or ""
        source = (evidence / name).resolve()
        if not name or not source.is_relative_to(evidence) or not source.is_dir():
            raise EvidenceError(f"there is no repro at {name}")
        files = sorted(path for path in source.iterdir() if not path.is_symlink())
        files = [path for path in files if path.is_file()][:MOST_FILES]
        if sum(path.stat().st_size for path in files) > MOST_COLUMN_BYTES:
            raise EvidenceError(f"the repro at {name} is larger than {MOST_COLUMN_BYTES} bytes")
        for path in files:
            with whole_file(target / path.name) as part:
                shutil.copyfile(path, part)
