"""The evidence record: what one training job measured, and can prove.

A training job writes one evidence folder into ``SM_OUTPUT_DATA_DIR``::

    evidence/
      evidence.json   the scalars: who ran, what was measured, what proves it   (Evidence)
      steps.npz       one row per optimizer step                                (Steps)
      examples.npz    one row per validation example                            (Examples)
      parity.npz      how far a compiled step is from an eager one; optional    (ParityErrors)
      paired.npz      step times of baseline and arm in alternating blocks; optional  (PairedBlocks)

The gate reads it back. Only the standard library and numpy are needed on either side, so a
training script of a user's own can write the same record::

    from compilegate.job import Evidence, Examples, Steps, write_evidence

    write_evidence(os.environ["SM_OUTPUT_DATA_DIR"], evidence, steps, examples)

`record` holds the types, `writing` writes them, and `digests` shows that columns are those that
were written. `compilegate.gate.evidence` reads them back.
"""

from compilegate.job.evidence.digests import (
    column_digests,
    examples_digest,
    outputs_digest,
    trained_on_digest,
)
from compilegate.job.evidence.fractions import above_one
from compilegate.job.evidence.hindrances import Hindrance
from compilegate.job.evidence.padding import PaddedPositions, PaddingRecord
from compilegate.job.evidence.record import (
    CACHE_STATES,
    MEMORY_OF,
    ORIGINS,
    SCHEMA_VERSION,
    CheckpointRecord,
    CompileCacheRecord,
    CompilerRecord,
    Evidence,
    EvidenceError,
    EvidenceRecord,
    Examples,
    FloatArray,
    IntArray,
    Origin,
    PairedBlocks,
    PairedSpeedRecord,
    ParityErrors,
    ParityRecord,
    Resumption,
    Scalar,
    SpeedRecord,
    Steps,
    TrainedOn,
    steady_steps,
    steady_steps_of,
)
from compilegate.job.evidence.writing import record_failure, write_evidence, write_examples

__all__ = [
    "CACHE_STATES",
    "MEMORY_OF",
    "ORIGINS",
    "SCHEMA_VERSION",
    "CheckpointRecord",
    "CompileCacheRecord",
    "CompilerRecord",
    "Evidence",
    "EvidenceError",
    "EvidenceRecord",
    "Examples",
    "FloatArray",
    "Hindrance",
    "IntArray",
    "Origin",
    "PaddedPositions",
    "PaddingRecord",
    "PairedBlocks",
    "PairedSpeedRecord",
    "ParityErrors",
    "ParityRecord",
    "Resumption",
    "Scalar",
    "SpeedRecord",
    "Steps",
    "TrainedOn",
    "above_one",
    "column_digests",
    "examples_digest",
    "outputs_digest",
    "record_failure",
    "steady_steps",
    "steady_steps_of",
    "trained_on_digest",
    "write_evidence",
    "write_examples",
]
