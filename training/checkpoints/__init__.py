"""Checkpoints: a job that loses its machine resumes where it was, with the very same result.

Managed spot capacity may be taken back at any time. The job then starts again elsewhere, under the
same name, with the checkpoint folder as it was::

    checkpoints = Checkpoints(folder, identity, seconds_between=300)
    checkpoints.resume(job, state)          # does nothing where the job has no checkpoint yet
    ...                                     # a step
    checkpoints.save_if_due(job, state)
    ...
    checkpoints.finish()                    # once the evidence is written

* `file`: one checkpoint as one checked file, safetensors and JSON without a line of pickle.
* `run_state`: what must be restored for a run to continue as if nothing had happened. What was
  measured so far is in it, too: the job's own state, as `job.checkpoint()` gives it.
* `keeper`: when to write a checkpoint, and whose may be used.
"""

from training.checkpoints.file import Checkpoint, CheckpointError
from training.checkpoints.keeper import Checkpoints, Identity
from training.checkpoints.run_state import RunState

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "Checkpoints",
    "Identity",
    "RunState",
]
