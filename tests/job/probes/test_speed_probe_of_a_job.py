"""Which jobs time their step against the baseline's, and what of it stands in their evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from compilegate.gate.evidence import read_evidence
from compilegate.job.evidence import EvidenceRecord
from compilegate.job.names import EVIDENCE_FOLDER
from compilegate.job.script.job import Job
from compilegate.job.script.told import Baseline, Told

pytestmark = pytest.mark.slow

BATCH = 8


def taken(folder: Path, **told: Any) -> tuple[int, EvidenceRecord]:
    """How many calls a job of a few steps kept for its probes, and its evidence."""
    defaults = {"arm": "larger", "batch_size": BATCH, "speed_probe_seconds": 0.5}
    job = Job(
        Told(job="job", model=folder / "model", output=folder / "output", **{**defaults, **told})
    )
    torch.manual_seed(0)
    model = job.compile(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)))
    optimizer = torch.optim.AdamW(model.parameters())
    rows, labels = torch.randn(BATCH * 12, 4), torch.randint(3, (BATCH * 12,))
    for batch in job.steps(torch.arange(len(rows)).split(BATCH)):
        nn.functional.cross_entropy(model(rows[batch]), labels[batch]).backward()
        optimizer.step()
        optimizer.zero_grad()
    job.examples(ids=job.positions(4), labels=labels[:4], logits=model(rows[:4]).detach())
    job.save(model)
    job.finish()
    assert job._compilation is not None
    kept = sum(len(each.calls) for each in job._compilation.parts)
    return kept, read_evidence(folder / "output" / EVIDENCE_FOLDER)


def test_a_candidate_times_its_step_against_the_baseline_s(tmp_path: Path) -> None:
    """Also one without a compiler: its batches may be larger. Calls are kept of the first steps
    alone."""
    baseline = Baseline("eager", BATCH // 2, "fp32")
    kept, record = taken(tmp_path, baseline=baseline, speed_probe_seconds=4.0)
    speed, paired = record.evidence.paired_speed, record.paired
    assert kept == 4
    assert speed is not None
    assert speed.obstacle is None
    assert (speed.baseline_batch_size, speed.candidate_batch_size) == (BATCH // 2, BATCH)
    assert paired is not None
    assert len(paired.baseline_first) >= 6
    assert np.count_nonzero(paired.baseline_first) * 2 == len(paired.baseline_first)


@pytest.mark.parametrize(
    "told", [{}, {"baseline": Baseline("eager", BATCH, "fp32"), "speed_probe_seconds": 0}]
)
def test_a_job_without_a_speed_probe_keeps_no_calls(tmp_path: Path, told: dict[str, Any]) -> None:
    """They would take memory, and time in each step."""
    kept, record = taken(tmp_path, **told)
    assert (kept, record.evidence.paired_speed) == (0, None)
