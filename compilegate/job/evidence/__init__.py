"""The evidence record: what one training job measured and can prove, in a folder of
``SM_OUTPUT_DATA_DIR``::

    evidence/
      evidence.json   the scalars: who ran, what was measured, what proves it   (Evidence)
      steps.npz       one row per optimizer step                                (Steps)
      examples.npz    one row per validation example                            (Examples)
      parity.npz      how far a compiled step is from an eager one; optional    (ParityErrors)
      paired.npz      step times of baseline and arm in alternating blocks; optional  (PairedBlocks)
      trained_on.npz  hashes of the training data; optional                     (TrainedOn)

Needs numpy alone. `compilegate.gate.evidence` reads it back.
"""

# ruff: noqa: F401 - the names that others import from here
from compilegate.job.evidence.record import (
    CACHE_STATES,
    MEMORY_OF,
    SCHEMA_VERSION,
    CheckpointRecord,
    CompileCacheRecord,
    CompilerRecord,
    Evidence,
    EvidenceError,
    EvidenceOrigin,
    EvidenceRecord,
    Examples,
    FloatArray,
    IntArray,
    PaddedPositions,
    PaddingRecord,
    PairedBlocks,
    PairedSpeedRecord,
    ParityErrors,
    ParityRecord,
    Resumption,
    Scalar,
    Slowdown,
    SpeedRecord,
    Steps,
    TrainedOn,
    above_one,
)
from compilegate.job.evidence.writing import (
    column_digests,
    examples_digest,
    outputs_digest,
    record_failure,
    write_evidence,
)
