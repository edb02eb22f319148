"""What the training script measured, as evidence for the gate."""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import resource
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch._dynamo.utils import counters

from compilegate.job import (
    CompilerRecord,
    Evidence,
    Examples,
    SpeedRecord,
    Steps,
    write_evidence,
)

WARM_UP = 10
"""How many first steps do not count for the speed: the first one compiles."""


@dataclass
class Measured:
    """The loss and seconds of each step."""

    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    graphs_of_first_step: int = 0
    train_seconds: float = 0.0
    total_seconds: float = 0.0

    def step(self, loss: float, seconds: float) -> None:
        self.losses.append(loss)
        self.seconds.append(seconds)
        if len(self.losses) == 1:
            self.graphs_of_first_step = graphs()


def graphs() -> int:
    """How many graphs torch.compile has made so far."""
    return int(counters["stats"]["unique_graphs"])


def write(
    args: argparse.Namespace,
    measured: Measured,
    *,
    ids: np.ndarray,
    losses: np.ndarray,
    targets: np.ndarray,
    predictions: np.ndarray,
    data: Path,
    weights: Path,
    device: torch.device,
) -> None:
    """Print the metrics, and write the evidence into SM_OUTPUT_DATA_DIR."""
    steady = measured.seconds[WARM_UP:]
    speed = args.batch_size * len(steady) / sum(steady)
    print(f"{speed:.1f} images/s")
    print(f"noise_loss={losses.mean():.6f}", flush=True)
    evidence = Evidence(
        job=os.environ["TRAINING_JOB_NAME"],
        arm=os.environ["COMPILEGATE_ARM"],
        seed=args.seed,
        recipe={**vars(args), "device": device.type},
        compiler=compiler(args.compiler, measured),
        speed=SpeedRecord(
            samples_per_second=speed,
            steady_from=WARM_UP,
            train_seconds=measured.train_seconds,
            total_seconds=measured.total_seconds,
        ),
        metrics={"noise_loss": float(losses.mean())},
        peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        environment={
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "platform": platform.platform(),
            "threads": torch.get_num_threads(),
            "image": os.environ.get("COMPILEGATE_IMAGE"),
            "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        },
        digests={
            "data": sha256(*sorted(data.glob("*.npz"))),
            "model": sha256(weights),
        },
    )
    examples = Examples(
        ids=ids,
        labels=np.zeros(len(ids), dtype=np.int64),
        scores=np.empty((len(ids), 0)),  # no classes: this model predicts numbers
        losses=losses,
        targets=targets,
        predictions=predictions,
    )
    steps = Steps(np.array(measured.losses), np.array(measured.seconds))
    write_evidence(os.environ["SM_OUTPUT_DATA_DIR"], evidence, steps, examples)


def compiler(name: str, measured: Measured) -> CompilerRecord:
    """What torch.compile did, with the counters that prove it."""
    steady = float(np.median(measured.seconds[WARM_UP:]))
    early = sum(measured.seconds[:WARM_UP]) - WARM_UP * steady
    return CompilerRecord(
        name=name,
        ran=graphs() > 0,
        proof={"torch": str(torch.__version__), "unique_graphs": graphs()},
        compile_seconds=max(early, 0.0),
        graphs=graphs(),
        graph_breaks=sum(counters["graph_break"].values()),
        recompilations=graphs() - measured.graphs_of_first_step,
    )


def sha256(*paths: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()
