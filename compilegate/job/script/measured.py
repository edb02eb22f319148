"""What a job's steps show: which are steady, what compiling cost, what slowed them."""

from __future__ import annotations

import hashlib
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, List, Mapping, Optional, Protocol, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from compilegate.job.evidence import (
    CompilerRecord,
    Evidence,
    Hindrance,
    Resumption,
    Steps,
    steady_steps,
)
from compilegate.job.evidence.record import LOADER, RULES
from compilegate.job.files import folder_digest, settings_digest
from compilegate.job.names import JOB_STARTED_VARIABLE

if TYPE_CHECKING:
    from compilegate.job.script.steps import Course

_IMPORTED = time.perf_counter()
CHANNEL_PREFIX = "SM_CHANNEL_"
NO_DATA = hashlib.sha256(b"no data channel").hexdigest()
WARM_UP_STEPS = 5
"""Steps after the last early compilation that still fill caches and allocator pools."""
NOTABLE_WAIT = 0.25
"""Share of the steady steps' time from which on the wait for batches is worth a remark."""

Seconds = npt.NDArray[np.float64]
"""(steps,) wall-clock seconds of each."""
ByProcess = Sequence[Sequence[int]]
"""By process of the job (one, unless it was interrupted), a number for each of its steps: how many
graphs it had compiled by the end of it, or which declared shape it has. For steps of several
declared shapes, each of which is compiled once; a shape that nobody declared is none of these."""


def steady_starts(graphs: ByProcess, shapes: ByProcess) -> List[int]:
    """For each process of a run, the index of its first steady step among all steps of the run.

    A steady step lies `WARM_UP_STEPS` after the last step of the process's first half that compiled
    anything, and after every step that compiled a declared shape as it first occurred. A first step
    is never steady, eager or not: the optimizer allocates its state in it. Another compilation in
    the second half does not move the start: it is a recompilation, to be seen as such. A process
    that was interrupted early may have no steady step at all; its start is then its end. The last
    one is always left one.
    """
    starts, taken = [], 0
    for each, of_steps in zip(graphs, shapes):
        new = _first_occurrences(of_steps)
        compiling = np.flatnonzero(np.diff(each, prepend=0)).tolist()
        last = max([0, *(step for step in compiling if step < len(each) / 2 or step in new)])
        starts.append(taken + min(last + 1 + WARM_UP_STEPS, len(each)))
        taken += len(each)
    starts[-1] = min(starts[-1], taken - 1)
    return starts


def late_graphs(graphs: ByProcess, shapes: ByProcess) -> List[List[int]]:
    """By process, for each step, the graphs compiled in it that came too late.
    A declared shape that occurs for the first time may take as many as the first step."""
    found = []
    for each, of_steps in zip(graphs, shapes):
        new = _first_occurrences(of_steps)
        compiled = np.diff(each, prepend=0).tolist()
        expected = [max(each[0], 1) if step in new else 0 for step in range(len(each))]
        late = [max(count - usual, 0) for count, usual in zip(compiled, expected)]
        found.append([0, *late[1:]])
    return found


def _first_occurrences(shapes: Sequence[int]) -> List[int]:
    return [list(shapes).index(each) for each in set(shapes)]


def compile_seconds(
    early: Seconds, steady: Seconds, shapes: Tuple[npt.ArrayLike, npt.ArrayLike]
) -> float:
    """Wall-clock seconds that compilation added: the early steps' excess over the median of steady
    ones of their shape, or of all where none has it. `shapes` are those of early and steady steps.

    This includes what loading the compiler costs, and leaves out what a step would take anyway.
    """
    usual = np.full(len(early), np.median(steady))
    before, after = map(np.asarray, shapes)
    for shape in np.intersect1d(before, after):
        usual[before == shape] = np.median(steady[after == shape])
    return float(max(early.sum() - usual.sum(), 0.0))


class Framework(Protocol):
    """One that compiles a script's steps by itself."""

    def graphs(self) -> int:
        """How many graphs it compiled so far."""

    def record(self, compile_seconds: float, recompilations: int) -> CompilerRecord:
        """What it did, with what proves it."""

    def obstacle(self) -> Optional[str]:
        """Why the probes cannot replay what it compiled; None where it compiled nothing."""


class Measured:
    """The steps of a job and what they show."""

    def __init__(self, course: Course, *, second_graph: bool) -> None:
        """`second_graph`: whether the second step of a process may compile a graph: where a whole
        step is one, that in which the optimizer makes its state is another. Raises
        NonFiniteLossError."""
        self.steps = Steps(np.array(course.losses.values()), np.array(course.seconds()))
        self._shapes = np.array(course.shapes)
        graphs, shapes = course.by_process(course.graphs), course.by_process(course.shapes)
        self.steady_from, *starts = steady_starts(graphs, shapes)
        bare = [
            Resumption(step, start, lost) for (step, lost), start in zip(course.returns, starts)
        ]
        self._steady = steady_steps(len(self.steps.seconds), self.steady_from, bare)
        self.resumptions = tuple(
            replace(each, lost_seconds=each.lost_seconds + self._added(each.step, each.steady_from))
            for each in bare
        )
        """Each return, when its steps were steady again, and what it cost: compilation, too."""
        self.compile_seconds = self._added(0, self.steady_from)
        """What compilation added to the steps of the first process."""
        self.train_seconds = float(self.steps.seconds.sum()) + sum(it[1] for it in course.returns)
        """The steps and the interruptions."""
        skipped = int(second_graph)
        late = late_graphs(*([it[skipped:] or it for it in each] for each in (graphs, shapes)))
        self.recompilations = sum(map(sum, late))
        """Graphs that came too late."""
        firsts = [0, *(step for step, _ in course.returns)]
        self._late = [
            first + skipped + step
            for first, counts in zip(firsts, late)
            for step, count in enumerate(counts)
            if count
        ]
        seconds = float(self.steps.seconds[self._steady].sum())
        waited = float(np.array(course.waits())[self._steady].sum())
        self._waits = min(waited / seconds, 1.0) if seconds else 0.0

    def samples_per_second(self, batch_size: int) -> float:
        """All samples of the steady steps over all their seconds, not the median step: stalls and
        slow steps are paid for too. `batch_size` is of all processes."""
        steady = self.steps.seconds[self._steady]
        return float(batch_size * len(steady) / steady.sum())

    def slow_loader(self) -> List[Hindrance]:
        if self._waits < NOTABLE_WAIT:
            return []
        return [Hindrance(LOADER, float(self._steady.sum()), self._waits, rule=RULES[LOADER])]

    def notes(self) -> List[str]:
        found = []
        if self._waits >= NOTABLE_WAIT:
            found.append(
                f"The loader is what is slow: {self._waits:.0%} of the steady steps' time is the "
                "wait for a batch, which no compiler shortens; give the DataLoader more workers "
                "(num_workers), keep them (persistent_workers), or prepare the data once."
            )
        if self._late:
            shown = ", ".join(map(str, self._late[:5])) + (", ..." if len(self._late) > 5 else "")
            found.append(
                f"The compiler compiled again in step {shown}: a shape, a setting or a branch was "
                "new there; give every step the same (drop_last=True in the DataLoader, padding to "
                "one length)."
            )
        return found

    def _added(self, first: int, end: int) -> float:
        seconds, shapes = self.steps.seconds, self._shapes
        steady = self._steady
        return compile_seconds(
            seconds[first:end], seconds[steady], (shapes[first:end], shapes[steady])
        )


def started(environment: Mapping[str, str]) -> float:
    """When the job's first process started, as `time.time` counts."""
    told = environment.get(JOB_STARTED_VARIABLE)
    ago = time.monotonic() - float(told) if told else time.perf_counter() - _IMPORTED
    return time.time() - ago


def data_digest(environment: Mapping[str, str]) -> str:
    """sha256 of all files in the job's channels."""
    channels = {
        name: folder_digest(Path(folder))
        for name, folder in sorted(environment.items())
        if name.startswith(CHANNEL_PREFIX) and Path(folder).is_dir()
    }
    return settings_digest(channels) if channels else NO_DATA


def print_figures(evidence: Evidence) -> None:
    for name, value in evidence.metrics.items():
        print(f"validation:{name}={value:.6f}")
    if evidence.speed is not None:
        print(f"train:steady_samples_per_second={evidence.speed.samples_per_second:.2f}")
    if evidence.compiler is not None:
        print(f"train:compile_seconds={evidence.compiler.compile_seconds:.3f}")
    sys.stdout.flush()
