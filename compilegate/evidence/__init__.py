"""Evidence read back: what one training job measured and can prove, whoever wrote it.

`compilegate.job.evidence` holds the types and writes them; who reads evidence finds them here.
Nothing that a job wrote is trusted: what cannot be read, or is not what it says, raises
EvidenceError with the file and the reason.
"""

from compilegate.evidence.folders import (
    MissingEvidenceError,
    Replicate,
    TruncatedEvidenceError,
    UndeclaredEvidenceError,
    folder_name,
    read_records,
    read_replicate,
    replicates_in,
)
from compilegate.evidence.reading import read_evidence
from compilegate.evidence.repros import copy_repro
from compilegate.evidence.shapes import usable
from compilegate.job.evidence import (
    CompileCacheRecord,
    CompilerRecord,
    Evidence,
    EvidenceError,
    EvidenceRecord,
    Examples,
    FloatArray,
    Hindrance,
    IntArray,
    Origin,
    PaddedPositions,
    PaddingRecord,
    PairedBlocks,
    PairedSpeedRecord,
    ParityErrors,
    ParityRecord,
    Scalar,
    SpeedRecord,
    Steps,
    TrainedOn,
    above_one,
    column_digests,
    examples_digest,
    outputs_digest,
    steady_steps_of,
)

__all__ = [
    "CompileCacheRecord",
    "CompilerRecord",
    "Evidence",
    "EvidenceError",
    "EvidenceRecord",
    "Examples",
    "FloatArray",
    "Hindrance",
    "IntArray",
    "MissingEvidenceError",
    "Origin",
    "PaddedPositions",
    "PaddingRecord",
    "PairedBlocks",
    "PairedSpeedRecord",
    "ParityErrors",
    "ParityRecord",
    "Replicate",
    "Scalar",
    "SpeedRecord",
    "Steps",
    "TrainedOn",
    "TruncatedEvidenceError",
    "UndeclaredEvidenceError",
    "above_one",
    "column_digests",
    "copy_repro",
    "examples_digest",
    "folder_name",
    "outputs_digest",
    "read_evidence",
    "read_records",
    "read_replicate",
    "replicates_in",
    "steady_steps_of",
    "usable",
]
