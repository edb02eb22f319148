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

called: set[str] = set()
moved: list[str] = []


def states() -> list[bytes]:
    kind, keys, place, *rest = np.random.get_state(legacy=True)
    of_numpy = repr((kind, keys.tolist(), place, rest)).encode()
    of_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    of_torch = [bytes(each.tolist()) for each in [torch.get_rng_state(), *of_gpus]]
    return [repr(random.getstate()).encode(), of_numpy, *of_torch]


def unmoved(name: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call it, and note if generators are others then."""
    called.add(name)
    before = states()
    try:
        return function(*arguments, **named)
    except job.CompilegateError as error:
        return error
    finally:
        if states() != before:
            moved.append(f"{name}{arguments or ''}"[:80])


def refused(name: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> None:
    found = unmoved(name, function, *arguments, **named)
    assert isinstance(found, job.CompilegateError), name


def main(compiler: str, options: dict[str, str]) -> None:
    torch.set_num_threads(1)
    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    folder = Path("out")
    told = job.Told(
        job="job",
        arm="tried",
        model=folder / "model",
        output=folder,
        compiler=compiler,
        options=options,
        baseline=job.Baseline(),
        speed_probe_seconds=1.0,
        alone=True,
    )
    started = unmoved("start", job.start, told=told, batch_size=8)
    refused("start", job.start)
    assert unmoved("current", job.current) is started
    around_steps()
    train()
    unmoved("finish", job.finish)
    unmoved("begin_step", job.begin_step)
    refused("end_step", job.end_step)  # without a loss
    evidence = json.loads((folder / "evidence" / "evidence.json").read_text())
    beside(folder)
    print(json.dumps({"called": sorted(called), "moved": moved, "evidence": evidence}))


def around_steps() -> None:
    refused("compile", job.compile, 7)
    refused("steps", job.steps, [], ragged="keeps")
    refused("loss", job.loss, 1.0)
    refused("resume", job.resume, {"losses": []})
    refused("save", job.save, nn.Linear(1, 1))
    refused("examples", job.examples, ids=["a"])
    refused("trained_on", job.trained_on)
    unmoved("resume", job.resume)
    unmoved("settings", job.settings, warmup=3)
    unmoved("note", job.note, "A remark.")
    unmoved("trained_on", job.trained_on, ids=["x", "y"])


def train() -> None:
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
    unmoved("compile", job.compile, model)
    assert unmoved("distributed", job.distributed, model) is model
    optimizer = unmoved(
        "adamw", job.adamw, [{"params": list(model.parameters())}], 1e-3, torch.device("cpu")
    )
    rows, labels = torch.randn(96, 4), torch.randint(3, (96,))

    def take(batch: torch.Tensor) -> None:
        nn.functional.cross_entropy(model(rows[batch]), labels[batch]).backward()
        optimizer.step()
        optimizer.zero_grad()

    batches = torch.arange(96).split(8)
    for batch in batches[:6]:  # the parity probe follows the fourth
        unmoved("begin_step", job.begin_step)
        refused("begin_step", job.begin_step)
        take(batch)
        unmoved("end_step", job.end_step)
    loop = unmoved("steps", lambda: iter(job.steps(batches[6:9])))
    batch = unmoved("steps", next, loop)
    for _ in range(2):
        take(batch)
        batch = unmoved("steps", next, loop)
    take(batch)
    unmoved("steps", next, loop, None)
    unmoved("step", job.step, lambda: torch.tensor(1.0))
    with unmoved("step", job.step):
        take(batches[9])
        unmoved("loss", job.loss, 0.5)
    with unmoved("checkpoint", job.checkpoint) as state:
        assert "losses" in state
    ids = unmoved("positions", job.positions, 16)
    model.eval()
    with torch.no_grad():
        logits = model(rows[:16])
    unmoved("examples", job.examples, ids=ids, labels=labels[:16], logits=logits)
    unmoved("metrics", job.metrics, extra=0.5)
    unmoved("save", job.save, model)


def beside(folder: Path) -> None:
    """What a program calls that writes its evidence itself, as `training/` does."""
    unmoved("examples_of", job.examples_of, ids=["a"], labels=[0], scores=[[0.5, 0.5]])
    failure = job.Told(job="j", arm="a", model=folder, output=folder).failure("a reason")
    unmoved("record_failure", job.record_failure, folder / "failed", failure)
    unmoved("write_evidence", job.write_evidence, folder / "written", failure)
    unmoved("file_digest", job.file_digest, __file__)
    unmoved("settings_digest", job.settings_digest, {"a": 1})
    unmoved("this_machine", job.this_machine)
    unmoved("keep_freed_memory", job.keep_freed_memory)
    unmoved("changing_number", job.changing_number, 0.1, torch.device("cpu"))
    unmoved("check_precision", job.check_precision, "bf16", "cpu")
    unmoved("loss_scaler", job.loss_scaler, "fp32", torch.device("cpu"))
    world = unmoved("world_of", job.world_of, {})
    with unmoved("joined", job.joined, world, torch.device("cpu")):
        pass


if __name__ == "__main__":
    main(sys.argv[1], {"backend": sys.argv[2]} if len(sys.argv) > 2 else {})
