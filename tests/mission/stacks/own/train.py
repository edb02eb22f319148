"""A training script of a team: what the requests of the stacks start."""

from compilegate import job

job.start()


def _mp_fn(_index: int) -> None:
    """What PyTorch/XLA's launcher calls in each process."""
