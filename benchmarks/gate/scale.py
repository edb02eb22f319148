"""How the gate's time and memory grow with examples, seeds and metrics, up to a million examples.

    .venv/bin/python benchmarks/gate/scale.py [--quick]

Each row is a separate process that reads evidence from disk, judges it and writes the verdict and
its reports, like the gate's job; making the evidence is not counted. Memory is the process's
largest resident set. The target for the last row is 10 s and 1 GB on two cores.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from compilegate.gate.metrics import metric_value
from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import (
    CompilerRecord,
    Evidence,
    Examples,
    SpeedRecord,
    Steps,
    write_evidence,
)

PROJECT = Path(__file__).parents[2]
METRICS = {
    "accuracy": ("higher", 0.01),
    "balanced_accuracy": ("higher", 0.01),
    "macro_f1": ("higher", 0.01),
    "micro_f1": ("higher", 0.01),
    "auroc": ("higher", 0.01),
    "log_loss": ("lower", 0.03),
    "perplexity": ("lower", 0.05),
    "calibration_error": ("lower", 0.02),
    "mse": ("lower", 0.05),
    "mae": ("lower", 0.05),
}
CLASSES = 2
STEPS = 500


@dataclass(frozen=True)
class Size:
    """One row of the table."""

    examples: int
    seeds: int
    metrics: int


@dataclass(frozen=True)
class Cost:
    """What one run of the gate's job took."""

    seconds: float
    cpu_seconds: float
    """CPU time: what `seconds` would be on one idle core."""
    gigabytes: float
    """Largest resident set."""


ROWS = (
    Size(10_000, 5, 10),
    Size(100_000, 5, 10),
    Size(1_000_000, 2, 10),
    Size(1_000_000, 5, 2),
    Size(1_000_000, 5, 10),
)
QUICK = (Size(10_000, 2, 2), Size(10_000, 5, 10))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes only: a smoke test")
    rows = QUICK if parser.parse_args().quick else ROWS
    print(
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, "
        f"Python {platform.python_version()}, numpy {np.__version__}"
    )
    print(
        f"{'examples':>10}{'seeds':>7}{'metrics':>9}{'seconds':>9}{'of CPU':>8}{'memory, GB':>12}"
    )
    for size in rows:
        with tempfile.TemporaryDirectory(prefix="gate-scale-") as folder:
            _write(Path(folder), size)
            cost = _judge(Path(folder))
            _check_everything_was_judged(Path(folder), size)
        print(
            f"{size.examples:>10,}{size.seeds:>7}{size.metrics:>9}"
            f"{cost.seconds:>9.1f}{cost.cpu_seconds:>8.1f}{cost.gigabytes:>12.2f}",
            flush=True,
        )


def _judge(folder: Path) -> Cost:
    command = [
        sys.executable,
        "-m",
        "compilegate.pipelines.programs.gate",
        f"--experiment={folder / 'gate.json'}",
        f"--evidence={folder / 'evidence'}",
        f"--output={folder / 'output'}",
    ]
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status != 0:
        raise SystemExit(f"the gate's job ended with status {status}")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e9)


def _check_everything_was_judged(folder: Path, size: Size) -> None:
    """Fail if the gate refused the evidence, which is faster than judging it."""
    (candidate,) = Verdict.from_json((folder / "output" / "verdict.json").read_bytes()).candidates
    if len(candidate.metrics) != size.metrics:
        raise SystemExit(f"the gate judged nothing: {candidate.reasons[0].sentence}")


def _write(folder: Path, size: Size) -> None:
    """Evidence of a baseline and a candidate, and the experiment."""
    generator = np.random.default_rng(0)
    ids = np.array([f"example-{index:07d}" for index in range(size.examples)])
    labels = generator.integers(0, CLASSES, size.examples)
    shared = generator.normal(1.5, 1.0, size.examples)
    targets = generator.normal(0.0, 1.0, size.examples)
    arms = {
        name: {
            "compiler": compiler,
            "batch_size": 32,
            "learning_rate": 1e-3,
            "precision": "fp32",
        }
        for name, compiler in (("baseline", "eager"), ("compiled", "inductor"))
    }
    experiment = {
        "workload": "scale",
        "baseline": "baseline",
        "arms": arms,
        "seeds": list(range(1, size.seeds + 1)),
        "settings": {
            "metrics": {
                name: {"direction": direction, "margin": margin}
                for name, (direction, margin) in list(METRICS.items())[: size.metrics]
            }
        },
    }
    (folder / "gate.json").write_text(json.dumps(experiment))
    for arm, declared in arms.items():
        for seed in experiment["seeds"]:
            examples = _examples(generator, ids, labels, shared, targets)
            speed = 1.0 if arm == "baseline" else 1.5
            seconds = 0.1 / speed * generator.lognormal(0.0, 0.02, STEPS)
            evidence = _evidence(arm, seed, declared, examples, seconds)
            steps = Steps(loss=np.linspace(2.0, 0.2, STEPS), seconds=seconds)
            write_evidence(folder / "evidence" / f"{arm}--{seed}", evidence, steps, examples)


def _examples(
    generator: np.random.Generator,
    ids: np.ndarray,
    labels: np.ndarray,
    shared: np.ndarray,
    targets: np.ndarray,
) -> Examples:
    odds = shared + generator.normal(0.0, 0.5, len(ids))
    likelihood = 1.0 / (1.0 + np.exp(-odds))
    scores = np.empty((len(ids), CLASSES))
    scores[np.arange(len(ids)), labels] = likelihood
    scores[np.arange(len(ids)), 1 - labels] = 1.0 - likelihood
    return Examples(
        ids=ids,
        labels=labels,
        scores=scores,
        losses=-np.log(likelihood),
        targets=targets,
        predictions=targets + generator.normal(0.0, 0.5, len(ids)),
    )


def _evidence(
    arm: str, seed: int, declared: dict[str, object], examples: Examples, seconds: np.ndarray
) -> Evidence:
    recipe = {key: declared[key] for key in ("batch_size", "learning_rate", "precision")}
    compiler = str(declared["compiler"])
    compiled = compiler != "eager"
    return Evidence(
        job=f"{arm}-{seed}",
        arm=arm,
        seed=seed,
        recipe={**recipe, "steps": STEPS},
        compiler=CompilerRecord(
            name=compiler, ran=compiled, proof={"calls": STEPS * compiled}, graphs=int(compiled)
        ),
        speed=SpeedRecord(
            samples_per_second=32 / float(seconds[6:].mean()),
            steady_from=6,
            train_seconds=float(seconds.sum()),
            total_seconds=float(seconds.sum()) + 9.0,
        ),
        environment={"cpu": "a processor"},
        metrics={name: metric_value(name, examples) for name in ("accuracy", "log_loss")},
        digests={
            "data": hashlib.sha256(b"data").hexdigest(),
            "model": hashlib.sha256(f"{arm} {seed}".encode()).hexdigest(),
        },
    )


if __name__ == "__main__":
    main()
