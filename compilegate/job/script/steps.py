"""A script's training loop as steps: each batch of a loader, or each block that says so."""

from __future__ import annotations

import sys
from typing import Any, Callable, Iterable, Iterator, Optional, Tuple

from compilegate.job.errors import InputError
from compilegate.job.script.counting.course import Course


class Step:
    """``with job.step():`` one step. A block that raises was none."""

    def __init__(self, course: Course) -> None:
        self._course = course

    def __enter__(self) -> None:
        self._course.begin()

    def __exit__(self, kind: Any, _error: Any, _traceback: Any) -> None:
        if kind is None:
            self._course.end()
        elif self._course.in_step:
            self._course.abandon()


class Loop:
    """Steps of a loop that is not the script's own, as callbacks see it."""

    def __init__(self, course: Course) -> None:
        self._course = course

    @property
    def step(self) -> int:
        """The number of the step that is under way or comes next, from 0."""
        return self._course.step

    @property
    def sees_shapes(self) -> bool:
        """Whether the steps were declared to have several shapes."""
        return self._course.sees_shapes

    def awaits(self) -> None:
        """From here on the loop waits for the batch of its next step; what it did since the last
        one, such as an evaluation, is part of none."""
        self.stops()
        self._course.begin(assumed=True)
        self._course.begin_wait()

    def begins(self, *, waited: bool = True) -> None:
        """A step has its batch, and begins to compute. It has waited since `awaits`, unless it
        fetches its batch only now."""
        self._course.begin()
        if waited:
            self._course.end_wait()

    def ends(self) -> bool:
        """The step is over; returns whether the compiler compiled in it. The wait for the next
        batch begins. Raises InputError where it had no loss, and NonFiniteLossError."""
        self._course.end()
        graphs = self._course.graphs
        self.awaits()
        return graphs[-1] > (graphs[-2] if len(graphs) > 1 else 0)

    def stops(self) -> None:
        """What is under way is no step."""
        if self._course.in_step:
            self._course.abandon()


class LoaderSteps:
    """``for batch in job.steps(loader):`` each iteration is a step, or part of one.

    It has the loader's length and attributes. Where the loop says itself what a step is
    (`job.step()` inside), that is what counts, together with the wait for its batch.
    """

    def __init__(
        self,
        loader: Iterable[Any],
        course: Course,
        note: Callable[[str], None],
        see: Callable[[Optional[int]], None],
        *,
        accumulate: int,
        drops: bool,
        bring: Callable[[Iterable[Any]], Iterable[Any]] = iter,
    ) -> None:
        """`see` is told how many examples each batch has, where it shows. `accumulate` iterations
        are one step. `drops`: a smaller last batch is left out. `bring` brings batches to where
        steps compute, ahead of them."""
        if accumulate < 1:
            raise InputError(f"job.steps(accumulate={accumulate}), expected 1 or more")
        self._loader = loader
        self._course = course
        self._note = note
        self._see = see
        self._accumulate = accumulate
        self._drops = drops
        self._bring = bring
        self._sizes = BatchSizes(getattr(loader, "batch_size", None))

    def __len__(self) -> int:
        return len(self._loader)  # pyrefly: ignore[bad-argument-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def __iter__(self) -> Iterator[Any]:
        course, batches, taken = self._course, self._whole_batches(), 0
        while True:
            if not course.in_step:
                course.begin(assumed=True)
                taken = 0
            course.begin_wait()
            batch = next(batches, _END)
            course.end_wait()
            if batch is _END:
                self._leave(whole=taken > 0)
                return
            try:
                yield batch
            except GeneratorExit:
                if not sys.is_finalizing():  # nothing is left to count with
                    self._leave(whole=True)  # `break`: mostly after the last step's work
                raise
            taken += 1
            if course.in_step and taken >= self._accumulate:
                if course.has_loss:
                    course.end()
                else:
                    self._end_without_loss(course)

    def _end_without_loss(self, course: Course) -> None:
        """An iteration is over that was no step, as where the script skips a batch. In the first
        step it is a mistake in the script, which ending it names."""
        if course.own_step:
            course.abandon()
            self._note(
                f"An iteration of the loop over job.steps(loader) had no loss, after {course.step} "
                "steps for the first time: such iterations, whose batch the script skips, count as "
                "no steps."
            )
        else:
            course.end()

    def _leave(self, *, whole: bool) -> None:
        """The loop is over. A step is under way if it had a loss by then."""
        if not self._course.in_step:
            return
        if whole and self._course.has_loss:
            self._course.end()
        else:
            self._course.abandon()

    def _whole_batches(self) -> Iterator[Any]:
        """The loader's batches, without a last one that is smaller than the first."""
        size: Optional[int] = None
        batches = iter(self._bring(self._loader))
        for batch in batches:
            now = self._sizes.of(batch) if size is None or self._drops else None
            if size is None and now is not None:
                size = now
                self._see(size)
            if now is None or size is None or now >= size:
                yield batch
                continue
            following = next(batches, _END)
            if following is _END:
                self._note(
                    f"The last batch of the loader has {now} examples and the others have {size}: "
                    "it was left out, in every arm, since it would be a graph of its own; set "
                    "drop_last=True in the DataLoader, or say job.steps(loader, ragged='keep')."
                )
                return
            yield batch
            yield following


_END = object()

_Place = Tuple[Any, ...]
"""Where something is in a batch: a key or an index for each level."""


class BatchSizes:
    """How many examples the batches of a loader have.

    Most are tensors with a row for each example, or hold such. Others are lists with an item for
    each, whose tensors have lengths of their own. A loader that says its batch size shows which.
    """

    def __init__(self, declared: Any = None) -> None:
        """`declared` is what the loader says; anything but a whole number says nothing."""
        self._declared = declared if type(declared) is int else None
        self._place: Optional[_Place] = None

    def of(self, batch: Any) -> Optional[int]:
        """The size of this one; None where nothing shows it."""
        if self._place is not None:  # known: this is part of every step
            return self._length(batch)
        lengths = list(_lengths(batch))
        tensors = [each for each in lengths if each[2]]
        lists = sorted((each for each in lengths if not each[2]), key=lambda each: -len(each[0]))
        fitting = (each for each in [*tensors, *lists] if each[1] == self._declared)
        found = next(fitting, None) or next(iter(tensors), None)
        if found is None:
            return None
        self._place = found[0]
        return found[1]

    def _length(self, batch: Any) -> Optional[int]:
        value = batch
        try:
            for name in self._place or ():
                indexed = isinstance(value, (list, tuple)) or hasattr(value, "keys")
                value = value[name] if indexed else vars(value)[name]
            shape = getattr(value, "shape", None)
            return len(value) if shape is None else int(shape[0])
        except (LookupError, TypeError):
            return None


def batch_size_of(batch: Any) -> Optional[int]:
    """The length of the first tensor or array in a batch; None where there is none."""
    return BatchSizes().of(batch)


def _lengths(value: Any, place: _Place = ()) -> Iterator[Tuple[_Place, int, bool]]:
    """Where each tensor, array and list of a batch is, its length, and whether it is no list."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        if len(shape):
            yield place, int(shape[0]), True
        return
    parts: Iterable[Tuple[Any, Any]] = ()
    if isinstance(value, (list, tuple)):
        yield place, len(value), False
        parts = enumerate(value)
    elif hasattr(value, "keys") and hasattr(value, "values"):
        parts = value.items()
    elif hasattr(value, "__dict__") and not callable(value):
        parts = vars(value).items()
    for name, each in parts:
        if not isinstance(each, (str, bytes)) and len(place) < _DEEPEST:
            yield from _lengths(each, (*place, name))


_DEEPEST = 4
"""Levels of a batch that are looked at: objects may refer to each other in circles."""
