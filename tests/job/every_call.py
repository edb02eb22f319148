"""Calls every public function of `compilegate.job` in one training, with probes, and says which
moved a random generator.

    python -m tests.job.every_call COMPILER [BACKEND]
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from compilegate import job

FOLDER = Path("out")
called: set[str] = set()
moved: list[str] = []


def states() -> list[bytes]:
    kind, keys, place, *rest = np.random.get_state(legacy=True)
    of_numpy = repr((kind, keys.tolist(), place, rest)).encode()
    of_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    of_torch = [bytes(each.tolist()) for each in [torch.get_rng_state(), *of_gpus]]
    return [repr(random.getstate()).encode(), of_numpy, *of_torch]


def unmoved(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call it, and note if generators are others then. Returns its error of ours."""
    name = function.__name__
    called.add(name)
    before = states()
    try:
        return function(*arguments, **named)
    except job.CompilegateError as error:
        return error
    finally:
        if states() != before:
            moved.append(f"{name}{arguments or ''}"[:80])


def refused(function: Callable[..., Any], *arguments: Any, **named: Any) -> None:
    found = unmoved(function, *arguments, **named)
    assert isinstance(found, job.CompilegateError), function.__name__


def main(compiler: str, options: dict[str, str]) -> None:
    torch.set_num_threads(1)
    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    of_compiler = {"compiler": compiler, "options": options, "baseline": job.Baseline()}
    told = {"job": "job", "arm": "tried", "model": FOLDER / "model", "output": FOLDER}
    started = unmoved(
        job.start,
        config=job.JobConfig(**told, **of_compiler, speed_probe_seconds=1.0, alone=True),
        batch_size=8,
    )
    refused(job.start)
    assert unmoved(job.current) is started
    around_steps()
    train()
    unmoved(job.finish)
    unmoved(job.begin_step)
    refused(job.end_step)  # without a loss
    evidence = json.loads((FOLDER / "evidence" / "evidence.json").read_text())
    beside(job.JobConfig(**told).failure("a reason"))
    print(json.dumps({"called": sorted(called), "moved": moved, "evidence": evidence}))


def around_steps() -> None:
    refused(job.compile, 7)
    refused(job.steps, [], ragged="keeps")
    refused(job.loss, 1.0)
    refused(job.resume, {"losses": []})
    refused(job.save, nn.Linear(1, 1))
    refused(job.examples, ids=["a"])
    refused(job.trained_on)
    unmoved(job.resume)
    unmoved(job.settings, warmup=3)
    unmoved(job.note, "A remark.")
    unmoved(job.trained_on, ids=["x", "y"])


def train() -> None:
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
    unmoved(job.compile, model)
    assert unmoved(job.distributed, model) is model
    parameters = [{"params": list(model.parameters())}]
    optimizer = unmoved(job.adamw, parameters, 1e-3, torch.device("cpu"))
    rows, labels = torch.randn(96, 4), torch.randint(3, (96,))

    def take(batch: torch.Tensor) -> None:
        nn.functional.cross_entropy(model(rows[batch]), labels[batch]).backward()
        optimizer.step()
        optimizer.zero_grad()

    batches = torch.arange(96).split(8)
    for batch in batches[:6]:  # the parity probe follows the fourth
        unmoved(job.begin_step)
        refused(job.begin_step)
        take(batch)
        unmoved(job.end_step)
    loop = iter(unmoved(job.steps, batches[6:9]))
    while (batch := unmoved(next, loop, None)) is not None:
        take(batch)
    unmoved(job.step, lambda: torch.tensor(1.0))
    with unmoved(job.step):
        take(batches[9])
        unmoved(job.loss, 0.5)
    with unmoved(job.checkpoint) as state:
        assert "losses" in state
    ids = unmoved(job.positions, 16)
    model.eval()
    with torch.no_grad():
        logits = model(rows[:16])
    unmoved(job.examples, ids=ids, labels=labels[:16], logits=logits)
    unmoved(job.metrics, extra=0.5)
    unmoved(job.save, model)


def beside(failure: job.Evidence) -> None:
    """What a program calls that writes its evidence itself, as `training/` does."""
    cpu, world = torch.device("cpu"), unmoved(job.world_of, {})
    unmoved(job.examples_of, ids=["a"], labels=[0], scores=[[0.5, 0.5]])
    unmoved(job.record_failure, FOLDER / "failed", failure)
    unmoved(job.write_evidence, FOLDER / "written", failure)
    unmoved(job.file_digest, __file__)
    unmoved(job.settings_digest, {"a": 1})
    unmoved(job.this_machine)
    unmoved(job.keep_freed_memory)
    unmoved(job.changing_number, 0.1, cpu)
    unmoved(job.check_precision, "bf16", "cpu")
    unmoved(job.loss_scaler, "fp32", cpu)
    with unmoved(job.joined, world, cpu):
        pass
    called.discard("next")


if __name__ == "__main__":
    main(sys.argv[1], {"backend": sys.argv[2]} if len(sys.argv) > 2 else {})
