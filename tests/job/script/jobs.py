"""Jobs of small models, as if a launcher had started them, and what they leave."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from compilegate.gate.evidence import read_evidence
from compilegate.job import Job, JobConfig
from compilegate.job.contract import EVIDENCE_FOLDER

ROOT = Path(__file__).parents[3]
AOT_EAGER: dict[str, Any] = {"compiler": "torch-compile", "options": {"backend": "aot_eager"}}
"""Eager's own operators in eager's order: captured, and quick to compile."""
ROWS = torch.linspace(-1, 1, 96).reshape(16, 6)


def job_of(folder: Path, **config: Any) -> Job:
    where = {"model": folder / "model", "output": folder / "output"}
    settings: dict[str, Any] = {"job": "a-job", "arm": "tried", "batch_size": 4, **where, **config}
    return Job(JobConfig(**settings))


def update(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def trained(
    job: Job,
    module: Any,
    batches: Iterable[Any],
    loss_of: Callable[[Any, Any], torch.Tensor] = lambda model, batch: model(batch).pow(2).mean(),
    *,
    holder: nn.Module | None = None,
    **steps: Any,
) -> Any:
    """The compiled model, after a step of each batch."""
    model = job.compile(module, holder)
    optimizer = torch.optim.SGD((holder or module).parameters(), lr=0.01)
    for batch in job.steps(batches, **steps):
        update(optimizer, loss_of(model, batch))
    return model


def written(folder: Path) -> None:
    (folder / "model.txt").write_text("a model")


def recorded(job: Job, model: Any = written) -> Any:
    """What the job leaves, once it has said all that it must."""
    if not job._has_results:
        job.metrics(accuracy=0.5)
    job.save(model)
    job.finish()
    return left(job.config.output)


def left(output: Path) -> Any:
    """The `EvidenceRecord`, of which a test expects some parts to be there."""
    return read_evidence(output / EVIDENCE_FOLDER)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program of Python that ended well, started in the folder."""
    ended = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended
