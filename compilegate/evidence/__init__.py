"""Evidence read back: what one training job measured and can prove, whoever wrote it.

`compilegate.job.evidence` holds the types and writes them. Nothing of it is trusted here: what
cannot be read, or is not what it says, raises EvidenceError with the file and the reason.
"""

from compilegate.evidence.reading import read_evidence, read_examples

__all__ = ["read_evidence", "read_examples"]
