"""How sure is a speed-up: by the step times of separate jobs, and by paired blocks within one?

    .venv/bin/python benchmarks/paired_speed.py [--loads 0 2 6] [--seeds N] [--kept FOLDER]

For each seed a baseline's and a candidate's job run one after the other on one thread: a BERT of 2
layers of 64, batches of 32 x 32, eager and inductor. The candidate's job runs the speed probe at
its end. From the first steady step to that end, so many busy loops run beside each job. Then the
gate's bounds by both stand beside each other. With `--kept`, evidence that is there is used again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from compilegate.gate.evidence import read_evidence
from compilegate.gate.settings import ArmDeclaration
from compilegate.gate.speed import ArmSpeed, judge_pairs, measure_arm, paired_jobs, speedup_interval
from compilegate.gate.verdict import Interval
from compilegate.job.evidence import EvidenceRecord
from compilegate.job.names import ARM_VARIABLE, EVIDENCE_FOLDER, JOB_VARIABLE

PROJECT = Path(__file__).parents[1]
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
"""The step before the first steady one: start-up and compilation are not what is measured."""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1"}


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    """So many processes that compute without end beside what is measured."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(loops)]
    try:
        yield
    finally:
        for each in processes:
            each.kill()
            each.wait()


def train(steps: int, load: int) -> None:
    """The script of a job: it is told the rest by its environment."""
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
        evidence = place / EVIDENCE_FOLDER
        if not evidence.is_dir():
            self._run(load, arm, seed, place)
        return read_evidence(evidence)

    def _run(self, load: int, arm: str, seed: int, place: Path) -> None:
        told = {
            "job": place.name,
            "seed": seed,
            "compiler": COMPILERS[arm],
            "batch_size": BATCH,
            "parity_steps": 0,
            "speed_probe_seconds": self.probe_seconds,
        }
        if arm != "baseline":
            told["baseline"] = {"compiler": "eager", "batch_size": BATCH, "precision": "fp32"}
        places = {
            ARM_VARIABLE: arm,
            JOB_VARIABLE: json.dumps(told),
            "SM_MODEL_DIR": str(place / "model"),
            "SM_OUTPUT_DATA_DIR": str(place),
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "compiled"),
        }
        subprocess.run(
            [sys.executable, __file__, "--train", str(self.steps), str(load)],
            env={**ENVIRONMENT, **places},
            check=True,
            stdout=subprocess.DEVNULL,
        )


def shown(interval: Interval) -> str:
    """Estimate, bounds, and how far apart they are."""
    width = interval.upper / interval.lower - 1
    return f"{interval.estimate:.2f} | {interval.lower:.2f} to {interval.upper:.2f} | {width:.0%}"


def row(bench: Bench, load: int, seeds: int) -> str:
    """Both bounds at one load."""
    records: dict[str, list[EvidenceRecord]] = {arm: [] for arm in COMPILERS}
    for seed in range(seeds):
        for arm, found in records.items():
            found.append(bench.job(load, arm, seed))
    speeds = [measure_arm(BATCH, found) for found in records.values()]
    baseline, candidate = (each for each in speeds if isinstance(each, ArmSpeed))
    separate, _ = speedup_interval(baseline, candidate, CONFIDENCE)
    pairs = paired_jobs(records["compiled"], *(declared(arm) for arm in COMPILERS))
    paired = judge_pairs(pairs.jobs, CONFIDENCE).speedup if pairs.decide else None
    found = shown(separate), "; ".join(pairs.obstacles) if paired is None else shown(paired)
    return f"| {load} | {found[0]} | {found[1]} |"


def declared(arm: str) -> ArmDeclaration:
    """As a workload would declare it."""
    return ArmDeclaration(
        compiler=COMPILERS[arm], batch_size=BATCH, learning_rate=RATE, precision="fp32"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loads", type=int, nargs="+", default=[0, 2, 6], help="busy loops")
    parser.add_argument("--seeds", type=int, default=3, help="jobs of each arm")
    parser.add_argument("--steps", type=int, default=300, help="of each job")
    parser.add_argument("--probe-seconds", type=float, default=15.0, help="of each candidate's job")
    parser.add_argument("--kept", type=Path, help="where the evidence stays")
    parser.add_argument("--train", type=int, nargs=2, help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.train is not None:
        train(*told.train)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = told.kept or Path(temporary)
        bench = Bench(folder.resolve(), told.steps, told.probe_seconds)
        others = os.getloadavg()[0]
        print(f"{os.cpu_count()} cores, {platform.machine()}; load of others {others:.1f}")
        print("| busy loops | separate jobs | bounds | width | paired blocks | bounds | width |")
        print("|---|---|---|---|---|---|---|")
        for load in told.loads:
            print(row(bench, load, told.seeds), flush=True)


if __name__ == "__main__":
    main()
