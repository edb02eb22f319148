"""The built-in program times a candidate's step against the baseline's that it was told of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long]

TrainJob = Callable[..., Any]


def test_a_candidate_of_the_built_in_program_has_pairs(train_job: TrainJob) -> None:
    record = train_job(
        arm="larger",
        batch_size=16,
        precision="bf16",
        baseline_compiler="eager",
        baseline_batch_size=8,
        baseline_precision="fp32",
        speed_probe_seconds=4,
        max_steps=12,
    ).evidence()
    speed, pairs = record.evidence.paired_speed, record.paired
    assert speed is not None
    assert speed.obstacle is None
    assert (speed.baseline_batch_size, speed.candidate_batch_size) == (8, 16)
    assert pairs is not None
    assert len(pairs.baseline_first) >= 6
