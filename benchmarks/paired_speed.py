"""Compare two intervals of a speed-up: from paired blocks in one process, and from separate jobs.

    python -m benchmarks.paired_speed [--loads 0 2 6] [--seeds N] [--kept FOLDER] [--write]

For each seed a baseline's and a candidate's job run one after the other on one thread: a BERT of 2
layers of 64, batches of 32 x 32, eager and inductor. The candidate's job runs the speed probe at
its end. From the first steady step to that end, so many busy loops run beside each job. Both
intervals are the gate's. With `--kept`, evidence that is there is used again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import results
from benchmarks.timing import ONE_THREAD, run
from compilegate.gate.evidence import read_evidence
from compilegate.gate.settings import ArmDeclaration
from compilegate.gate.speed import ArmSpeed, judge_pairs, measure_arm, paired_jobs, speedup_interval
from compilegate.gate.verdict import Interval
from compilegate.job.evidence import EvidenceRecord
from compilegate.job.names import ARM_VARIABLE, EVIDENCE_FOLDER, JOB_VARIABLE

BATCH, LENGTH, VOCABULARY = 32, 32, 1000
CONFIDENCE, RATE = 0.95, 1e-4
COMPILERS = {"baseline": "eager", "compiled": "inductor"}
BUSY = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(100_000))
"""
"""Ends with the process that started it, however that ends."""
FIRST_DISTURBED = 5
"""The step before the first steady one: start-up and compilation are not measured."""


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    """Run so many processes that compute without end beside what is measured."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(loops)]
    try:
        yield
    finally:
        for each in processes:
            each.kill()
            each.wait()


def train(steps: int, load: int) -> None:
    """Run as the script of a job; its settings are in the environment."""
    import torch  # noqa: PLC0415 - the other processes of this program do without
    from transformers import BertConfig, BertForSequenceClassification  # noqa: PLC0415

    from compilegate.job import start  # noqa: PLC0415

    job = start()
    torch.manual_seed(job.seed)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=256,
        max_position_embeddings=LENGTH,
        problem_type="single_label_classification",
    )
    model = job.compile(BertForSequenceClassification(config))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
    batches = [
        (torch.randint(VOCABULARY, (BATCH, LENGTH)), torch.randint(2, (BATCH,)))
        for _ in range(steps)
    ]
    with contextlib.ExitStack() as neighbours:
        for number, (tokens, labels) in enumerate(job.steps(batches)):
            if number == FIRST_DISTURBED:
                neighbours.enter_context(busy(load))
            model(input_ids=tokens, labels=labels).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        tokens, labels = batches[0]
        with torch.no_grad():
            job.examples(ids=job.positions(BATCH), labels=labels, logits=model(tokens).logits)
        job.save(model)
        job.finish()


@dataclass(frozen=True)
class Bench:
    """Where jobs run, and how long they are."""

    folder: Path
    steps: int
    probe_seconds: float

    def job(self, load: int, arm: str, seed: int) -> EvidenceRecord:
        """One job's evidence."""
        place = self.folder / f"load-{load}" / f"{arm}-{seed}"
        settings = {
            "job": place.name,
            "seed": seed,
            "compiler": COMPILERS[arm],
            "batch_size": BATCH,
            "parity_steps": 0,
            "speed_probe_seconds": self.probe_seconds,
        }
        if arm != "baseline":
            settings["baseline"] = {"compiler": "eager", "batch_size": BATCH, "precision": "fp32"}
        variables = {
            ARM_VARIABLE: arm,
            JOB_VARIABLE: json.dumps(settings),
            "SM_MODEL_DIR": str(place / "model"),
            "SM_OUTPUT_DATA_DIR": str(place),
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "compiled"),
        }
        if not (place / EVIDENCE_FOLDER).is_dir():
            command = [sys.executable, "-m", "benchmarks.paired_speed", "--train"]
            run([*command, str(self.steps), str(load)], {**ONE_THREAD, **variables})
        return read_evidence(place / EVIDENCE_FOLDER)

    def row(self, load: int, seeds: int) -> list[str]:
        """Both intervals at one load."""
        records: dict[str, list[EvidenceRecord]] = {arm: [] for arm in COMPILERS}
        for seed in range(seeds):
            for arm, found in records.items():
                found.append(self.job(load, arm, seed))
        speeds = [measure_arm(BATCH, found) for found in records.values()]
        baseline, candidate = (each for each in speeds if isinstance(each, ArmSpeed))
        separate, _ = speedup_interval(baseline, candidate, CONFIDENCE)
        declared = [
            ArmDeclaration(compiler=each, batch_size=BATCH, learning_rate=RATE, precision="fp32")
            for each in COMPILERS.values()
        ]
        pairs = paired_jobs(records["compiled"], *declared)
        paired = judge_pairs(pairs.jobs, CONFIDENCE).speedup if len(pairs.jobs) > 1 else None
        obstacles = ["; ".join(pairs.obstacles), "", ""]
        return [str(load), *cells(separate), *(cells(paired) if paired else obstacles)]


def cells(interval: Interval) -> list[str]:
    """Estimate, bounds, and how far apart the bounds are."""
    bounds = f"{interval.lower:.2f} to {interval.upper:.2f}"
    return [f"{interval.estimate:.2f}", bounds, f"{interval.upper / interval.lower - 1:.0%}"]


def main() -> None:
    """Measure and print."""
    parser = results.parser(__doc__)
    parser.add_argument("--loads", type=int, nargs="+", default=[0, 2, 6], help="busy loops")
    parser.add_argument("--seeds", type=int, default=3, help="jobs of each arm")
    parser.add_argument("--steps", type=int, default=300, help="of each job")
    parser.add_argument("--probe-seconds", type=float, default=15.0, help="of each candidate's job")
    parser.add_argument("--kept", type=Path, help="where the evidence stays")
    parser.add_argument("--train", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train is not None:
        train(*options.train)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.kept or Path(temporary)).resolve()
        bench = Bench(folder, options.steps, options.probe_seconds)
        rows = [bench.row(load, options.seeds) for load in options.loads]
    columns = ["busy loops", "separate jobs", "bounds", "width", "paired blocks", "bounds", "width"]
    results.publish("paired-speed", columns, rows, to_file=options.write)


if __name__ == "__main__":
    main()
