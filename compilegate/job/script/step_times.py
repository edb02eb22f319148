"""What a job's steps show: which are steady, what compiling cost, what slowed them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Sequence

import numpy as np
import numpy.typing as npt

from compilegate.job.evidence import Resumption, Slowdown, Steps
from compilegate.job.evidence.record import LOADER
from compilegate.job.evidence.steady import WARM_UP
from compilegate.job.slowdowns import NOTABLE_WAIT

if TYPE_CHECKING:
    from compilegate.job.script.steps import TrainingLoop

Seconds = npt.NDArray[np.float64]  # (steps,) wall-clock seconds of each
ByProcess = Sequence[Sequence[int]]
"""For each process of the job (one, unless interrupted), a number for each of its steps: graphs
compiled by its end, or its declared shape."""


def steady_starts(graphs: ByProcess, shapes: ByProcess) -> list[int]:
    """For each process of a run, the index of its first steady step among all steps.

    It lies `WARM_UP` steps after the last step of the process's first half that compiled anything,
    and after every step that compiled a declared shape as it first occurred. The first step is
    never steady: the optimizer allocates its state in it. A process that was interrupted early may
    have none; the last one always has one.
    """
    starts, taken = [], 0
    for each, of_steps in zip(graphs, shapes):
        new = _first_occurrences(of_steps)
        compiling = np.flatnonzero(np.diff(each, prepend=0)).tolist()
        last = max([0, *(step for step in compiling if step < len(each) / 2 or step in new)])
        starts.append(taken + min(last + WARM_UP, len(each)))
        taken += len(each)
    starts[-1] = min(starts[-1], taken - 1)
    return starts


def late_graphs(graphs: ByProcess, shapes: ByProcess) -> list[list[int]]:
    """By process and step, the graphs compiled too late. A declared shape may take as many as the
    first step when it first occurs."""
    found = []
    for each, of_steps in zip(graphs, shapes):
        expected = np.zeros(len(each), dtype=int)
        expected[_first_occurrences(of_steps)] = max(each[0], 1) if each else 0
        late = np.maximum(np.diff(each, prepend=0) - expected, 0)
        found.append([0, *late[1:].tolist()])
    return found


def _first_occurrences(shapes: Sequence[int]) -> list[int]:
    return [list(shapes).index(each) for each in set(shapes)]


def compile_seconds(
    early: Seconds, steady: Seconds, shapes: tuple[npt.ArrayLike, npt.ArrayLike]
) -> float:
    """Wall-clock seconds that compilation added, loading the compiler included: the early steps'
    excess over the median of steady ones of their shape, or of all."""
    usual = np.full(len(early), np.median(steady))
    before, after = map(np.asarray, shapes)
    for shape in np.intersect1d(before, after):
        usual[before == shape] = np.median(steady[after == shape])
    return float(max(early.sum() - usual.sum(), 0.0))


class Measured:
    """The steps of a job and what they show."""

    def __init__(self, loop: TrainingLoop, *, second_graph: bool) -> None:
        """`second_graph`: the second step may compile one, as where a whole step is a graph and the
        optimizer makes its state. Raises NonFiniteLossError."""
        self.steps = Steps(np.array(loop.losses.values()), np.array(loop.seconds()))
        self._shapes = np.array(loop.shapes)
        graphs, shapes = loop.by_process(loop.graphs), loop.by_process(loop.shapes)
        firsts = [0, *(step for step, _ in loop.returns)]
        starts = steady_starts(graphs, shapes)
        self.steady_from = starts[0]
        self._steady: npt.NDArray[np.bool_] = np.zeros(len(self._shapes), dtype=np.bool_)
        for start, end in zip(starts, [*firsts[1:], len(self._shapes)]):
            self._steady[start:end] = True
        self.resumptions = tuple(
            Resumption(step, start, lost + self._added(step, start))
            for (step, lost), start in zip(loop.returns, starts[1:])
        )
        self.compile_seconds = self._added(0, self.steady_from)  # in the first process alone
        self.train_seconds = float(self.steps.seconds.sum()) + sum(it[1] for it in loop.returns)
        skipped = int(second_graph)
        late = late_graphs(*([it[skipped:] or it for it in each] for each in (graphs, shapes)))
        self.recompilations = sum(map(sum, late))  # graphs that came too late
        self._late = [
            first + skipped + step
            for first, counts in zip(firsts, late)
            for step, count in enumerate(counts)
            if count
        ]
        seconds = float(self.steps.seconds[self._steady].sum())
        waited = float(np.array(loop.waits())[self._steady].sum())
        self._waits = min(waited / seconds, 1.0) if seconds else 0.0

    def samples_per_second(self, batch_size: int) -> float:
        """Over all the steady steps' time: stalls and slow steps are paid for too. `batch_size` is
        of all processes."""
        steady = self.steps.seconds[self._steady]
        return float(batch_size * len(steady) / steady.sum())

    def slow_loader(self) -> list[Slowdown]:
        if self._waits < NOTABLE_WAIT:
            return []
        return [Slowdown(LOADER, float(self._steady.sum()), share=self._waits)]

    def notes(self) -> list[str]:
        if not self._late:
            return []
        shown = ", ".join(map(str, self._late[:5])) + (", ..." if len(self._late) > 5 else "")
        return [
            f"The compiler compiled again in step {shown}: a shape, a setting or a branch was new "
            "there; give every step the same (drop_last=True in the DataLoader, padding to one "
            "length)."
        ]

    def _added(self, first: int, end: int) -> float:
        seconds, shapes, steady = self.steps.seconds, self._shapes, self._steady
        at = shapes[first:end], shapes[steady]
        return compile_seconds(seconds[first:end], seconds[steady], at)
