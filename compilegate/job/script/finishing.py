"""What a script's job measured, as evidence."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import List, Mapping, Optional, Protocol, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from compilegate.job.digests import folder_digest, settings_digest
from compilegate.job.doctor.checkup import checkup
from compilegate.job.evidence import (
    CheckpointRecord,
    CompileCacheRecord,
    CompilerRecord,
    Evidence,
    Examples,
    Hindrance,
    PaddingRecord,
    Resumption,
    Scalar,
    SpeedRecord,
    Steps,
    TrainedOn,
    steady_steps,
    write_evidence,
)
from compilegate.job.evidence.hindrances import LOADER, RULES
from compilegate.job.machine.accelerators import Machine
from compilegate.job.machine.environment import describe_machine
from compilegate.job.names import EARLIER_ATTEMPTS_VARIABLE, JOB_STARTED_VARIABLE
from compilegate.job.script.counting.clock import NOTABLE_WAIT, slow_loader
from compilegate.job.script.counting.course import Return
from compilegate.job.script.probing import Probes
from compilegate.job.script.results import example_metrics
from compilegate.job.script.told import Told
from compilegate.job.stepping.speed import (
    compile_seconds,
    late_compilations,
    recompilations,
    samples_per_second,
    steady_starts,
)

_IMPORTED = time.perf_counter()
CHANNEL_PREFIX = "SM_CHANNEL_"
NO_DATA = hashlib.sha256(b"no data channel").hexdigest()


class Framework(Protocol):
    """One that compiles a script's steps by itself."""

    def graphs(self) -> int:
        """How many graphs it compiled so far."""

    def record(self, compile_seconds: float, recompilations: int) -> CompilerRecord:
        """What it did, with what proves it."""

    def obstacle(self) -> Optional[str]:
        """Why the probes cannot replay what it compiled; None where it compiled nothing."""


@dataclass(frozen=True)
class Measured:
    """The steps of a job and what they show."""

    steps: Steps
    graphs: Sequence[Sequence[int]]
    """By process of the job (one, unless it was interrupted): its steps, and how many graphs it had
    compiled by the end of each."""
    waits: Sequence[float]
    """Seconds in which each step waited for its batch."""
    shapes: Sequence[Sequence[int]]
    """By process, the declared shape of each step, by number."""
    returns: Sequence[Return]
    """One for each process but the first."""
    second_graph: bool
    """Whether the second step of a process may compile a graph: where a whole step is one, that in
    which the optimizer makes its state is another."""

    @property
    def steady_from(self) -> int:
        """The first steady step."""
        return steady_starts(self.graphs, self.shapes)[0]

    @property
    def resumptions(self) -> Tuple[Resumption, ...]:
        """Each return, when its steps were steady again, and what it cost: compilation, too."""
        starts = steady_starts(self.graphs, self.shapes)[1:]
        bare = [
            Resumption(each.step, start, each.lost_seconds)
            for each, start in zip(self.returns, starts)
        ]
        steady = steady_steps(len(self.steps.seconds), self.steady_from, bare)
        return tuple(
            replace(each, lost_seconds=each.lost_seconds + self._added(warm_up, steady))
            for each in bare
            for warm_up in [slice(each.step, each.steady_from)]
        )

    @property
    def compile_seconds(self) -> float:
        """What compilation added to the steps of the first process."""
        return self._added(slice(self.steady_from), self._steady)

    @property
    def recompilations(self) -> int:
        """Graphs that came too late."""
        first = 1 if self.second_graph else 0
        return recompilations(
            [each[first:] for each in self.graphs if len(each) > first],
            [each[first:] for each in self.shapes if len(each) > first],
        )

    def samples_per_second(self, batch_size: int) -> float:
        """Over the steady steps; `batch_size` is of all processes."""
        return samples_per_second(self.steps.seconds[self._steady], batch_size)

    def train_seconds(self, checkpoint_seconds: float) -> float:
        """All of it: the steps, writing checkpoints, interruptions."""
        lost = sum(each.lost_seconds for each in self.returns)
        return float(self.steps.seconds.sum()) + checkpoint_seconds + lost

    @property
    def _firsts(self) -> List[int]:
        """The first step of each process."""
        return [0, *(each.step for each in self.returns)]

    @property
    def _steady(self) -> npt.NDArray[np.bool_]:
        return steady_steps(len(self.steps.seconds), self.steady_from, self.resumptions)

    def _added(self, early: slice, steady: npt.NDArray[np.bool_]) -> float:
        seconds, shapes = self.steps.seconds, np.concatenate([*map(np.asarray, self.shapes)])
        return compile_seconds(seconds[early], seconds[steady], (shapes[early], shapes[steady]))

    def slow_loader(self) -> List[Hindrance]:
        """That steady steps wait for their batches, if they do for long."""
        steady = self._steady
        seconds, waits = float(self.steps.seconds[steady].sum()), np.array(self.waits)[steady]
        share = min(float(waits.sum()) / seconds, 1.0) if seconds else 0.0
        if share < NOTABLE_WAIT:
            return []
        return [Hindrance(LOADER, float(steady.sum()), share, rule=RULES[LOADER])]

    def notes(self) -> List[str]:
        """What is worth saying of the steps, with what to do."""
        steady = self._steady
        slow = slow_loader(list(self.steps.seconds[steady]), list(np.array(self.waits)[steady]))
        found = [] if slow is None else [slow]
        since = 1 if self.second_graph else 0
        late = [
            first + since + step
            for first, graphs, shapes in zip(self._firsts, self.graphs, self.shapes)
            for step in late_compilations(graphs[since:], shapes[since:])
        ]
        if late:
            shown = ", ".join(map(str, late[:5])) + (", ..." if len(late) > 5 else "")
            found.append(
                f"The compiler compiled again in step {shown}: a shape, a setting or a branch was "
                "new there; give every step the same (drop_last=True in the DataLoader, padding to "
                "one length)."
            )
        return found


def started(environment: Mapping[str, str]) -> float:
    """When the job's first process started, as `time.time` counts."""
    told = environment.get(JOB_STARTED_VARIABLE)
    ago = time.monotonic() - float(told) if told else time.perf_counter() - _IMPORTED
    return time.time() - ago


def data_digest(environment: Mapping[str, str]) -> str:
    """sha256 of all files in the job's channels."""
    channels = {
        name: Path(folder)
        for name, folder in sorted(environment.items())
        if name.startswith(CHANNEL_PREFIX) and Path(folder).is_dir()
    }
    if not channels:
        return NO_DATA
    found = {name: folder_digest(folder) for name, folder in channels.items()}
    return settings_digest(found)


@dataclass(frozen=True)
class Gathered:
    """All that a job has at its end."""

    told: Told
    measured: Measured
    batch_size: int
    """Examples in a step of all processes together."""
    compiler: CompilerRecord
    compile_cache: Optional[CompileCacheRecord]
    examples: Optional[Examples]
    trained_on: Optional[TrainedOn]
    metrics: Mapping[str, float]
    model_digest: str
    recipe: Mapping[str, Scalar]
    machine: Machine
    place: Optional[str]
    """Where it computed; None for a program without torch."""
    peak_memory_bytes: Optional[int]
    memory_of: Optional[str]
    probes: Probes
    checkpoints: Optional[CheckpointRecord]
    padding: Optional[PaddingRecord]
    notes: Sequence[str]
    hindrances: Sequence[Hindrance]
    loading_seconds: float
    """What came before the first step: the compiler and its cache. Part of both its compile and its
    train seconds."""
    total_seconds: float


def write_finished(job: Gathered) -> Evidence:
    """Write the evidence, and print its figures in the form that metric expressions read."""
    told, measured, probes = job.told, job.measured, job.probes
    found = {} if job.examples is None else example_metrics(job.examples)
    evidence = Evidence(
        job=told.job,
        arm=told.arm,
        seed=told.seed,
        attempts=tuple(filter(None, os.environ.get(EARLIER_ATTEMPTS_VARIABLE, "").split(","))),
        recipe=job.recipe,
        compiler=job.compiler,
        speed=SpeedRecord(
            samples_per_second=measured.samples_per_second(job.batch_size),
            steady_from=measured.steady_from,
            train_seconds=job.loading_seconds
            + measured.train_seconds(0.0 if job.checkpoints is None else job.checkpoints.seconds),
            total_seconds=job.total_seconds,
        ),
        metrics={**found, **job.metrics},
        peak_memory_bytes=job.peak_memory_bytes,
        memory_of=job.memory_of,
        environment=describe_machine(job.machine, job.place, os.environ),
        digests={
            "data": told.data_digest or data_digest(os.environ),
            "config": told.config_digest,
            "model": job.model_digest,
        },
        parity=probes.parity,
        paired_speed=probes.speed,
        compile_cache=job.compile_cache,
        checkpoints=job.checkpoints,
        padding=job.padding,
        notes=tuple(job.notes),
        hindrances=tuple(job.hindrances),
        checkup=checkup(),
    )
    write_evidence(
        told.output,
        evidence,
        measured.steps,
        job.examples,
        probes.errors,
        paired=probes.blocks,
        trained_on=job.trained_on,
    )
    _print_figures(evidence, told)
    return evidence


def _print_figures(evidence: Evidence, told: Told) -> None:
    for name, value in evidence.metrics.items():
        print(f"validation:{name}={value:.6f}")
    if evidence.speed is not None:
        print(f"train:steady_samples_per_second={evidence.speed.samples_per_second:.2f}")
    if evidence.compiler is not None:
        print(f"train:compile_seconds={evidence.compiler.compile_seconds:.3f}")
    if told.alone:
        print(f"compilegate: the model is in {told.model}, the evidence in {told.output}")
    sys.stdout.flush()
