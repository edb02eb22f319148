"""A script's training as steps: what counts as one, its time and its loss. A hook that fails is
recorded, and the training goes on. Needs no torch where the script does not use it."""

from __future__ import annotations

import functools
import itertools
import math
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Iterator,
    List,
    Mapping,
    Sequence,
    Tuple,
    TypeVar,
    cast,
)

from compilegate.job.contract import DEFAULT_PARITY_STEPS
from compilegate.job.errors import CompilegateError, InputError, NonFiniteLossError, one_sentence
from compilegate.job.evidence import CheckpointRecord
from compilegate.job.slowdowns import SlowdownWatch

if TYPE_CHECKING:
    import torch

    from compilegate.job.script.job import Job

LOG_EVERY = 50  # steps whose losses are fetched together from a device

_Hook = TypeVar("_Hook", bound=Callable[..., Any])
_Marks = List[Any]


class Failures:
    """Where exceptions of ours end: recorded, printed in one line, and the training goes on."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note
        self.broken: str | None = None  # why nothing more is observed of this job

    @contextmanager
    def tolerated(self, doing: str) -> Iterator[None]:
        """What is done within may fail by itself, and the job is measured all the same."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, the training goes on
            self.note(f"{doing} failed: {one_sentence(error)}. The training goes on without it.")


def harmless(hook: _Hook) -> _Hook:
    """A method called by the training, of a class with `failures`: it returns None where it fails,
    and does nothing after that. A refusal (CompilegateError) passes: it says what to change in the
    script."""

    @functools.wraps(hook)
    def guarded(self: Any, *arguments: Any, **named: Any) -> Any:
        if self.failures.broken is None:
            try:
                return hook(self, *arguments, **named)
            except CompilegateError:
                raise
            except Exception as error:  # noqa: BLE001 - as above
                failed = f"{hook.__name__.strip('_')} failed: {one_sentence(error)}"
                self.failures.broken = failed
                self.failures.note(
                    f"{failed}. The training goes on as the script has it, and is no longer "
                    "measured: this job leaves no evidence that can be judged. Please report it."
                )
        return None

    return cast(_Hook, guarded)


class Clock:
    """Times steps without disturbing them.

    A GPU runs behind the program, and waiting for it in each step would hide overlap. So it notes
    the time itself (events), read when long passed. A wait for a batch counts as far as the GPU is
    idle.
    """

    READ_TOGETHER = 256  # events that wait to be read. Each holds a little memory of the driver.

    def __init__(self, device: torch.device | None = None, cuda: Any = None) -> None:
        """`device` is where the steps compute, None without torch; `cuda` replaces torch.cuda."""
        self._device = device
        self._cuda: Any = None
        if device is not None and device.type == "cuda":
            self._cuda = cuda or sys.modules["torch"].cuda
        self._now: Callable[[], Any] = time.perf_counter if self._cuda is None else self._event
        self._began: Any = None
        self._pauses: _Marks = []  # when each began and ended, in turn
        self._own_waits: _Marks = []
        self._unread: list[tuple[Any, Any, _Marks, _Marks]] = []
        self._seconds: list[float] = []
        self._waits: list[float] = []

    def begin(self) -> None:
        """A step begins. One that has not ended was none."""
        self._pauses, self._own_waits = [], []
        self._began = self._now()

    def begin_wait(self) -> None:
        self._own_waits.append(self._now())

    def end_wait(self) -> None:
        self._own_waits.append(self._now())

    def pause(self) -> None:
        self._pauses.append(self._now())

    def resume(self) -> None:
        self._pauses.append(self._now())

    def end(self) -> None:
        self._unread.append((self._began, self._now(), self._pauses, self._own_waits))
        count, unread = self.READ_TOGETHER, self._unread
        if len(unread) >= 2 * count and (self._cuda is None or unread[count][1].query()):
            self._read(count)

    def seconds(self) -> list[float]:
        """Those of each step so far. Waits for steps that still run."""
        if self._cuda is not None:
            self._cuda.synchronize(self._device)
        self._read(len(self._unread))
        return self._seconds

    def waits(self) -> list[float]:
        """In how many of them each step waited for its batch, and nothing was computed."""
        self.seconds()
        return self._waits

    def _event(self) -> Any:
        event: Any = self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        return event

    def _read(self, count: int) -> None:
        for began, end, pauses, waits in self._unread[:count]:
            self._seconds.append(self._between([began, end]) - self._between(pauses))
            self._waits.append(self._between(waits))
        del self._unread[:count]

    def _between(self, marks: _Marks) -> float:
        """Seconds between the first and the second, the third and the fourth, ..."""
        pairs = zip(marks[::2], marks[1::2])
        if self._cuda is None:
            return float(sum(end - begin for begin, end in pairs))
        for each in marks:
            each.synchronize()  # that a later one is there says nothing of other streams' notes
        return float(sum(begin.elapsed_time(end) for begin, end in pairs) / 1e3)


class Losses:
    """The loss of each step: the sum of those that `backward` was called on, or what the script
    says. A loss on a device is a promise: values are fetched together every `log_every` steps."""

    def __init__(self, log_every: int) -> None:
        self._log_every = log_every
        self._values: list[float] = []
        self.current: float | torch.Tensor | None = None  # of the step under way
        self._is_set = False
        self._waiting: list[torch.Tensor] = []
        self.mean: Callable[[torch.Tensor], torch.Tensor] | None = None
        """Makes of a loss the mean of all processes'; None where this one's own counts."""

    def add(self, loss: torch.Tensor) -> None:
        """Add a loss that `backward` is called on. Raises NonFiniteLossError on a CPU, before any
        update."""
        if self._is_set or loss.numel() != 1:
            return
        known = self._known(loss if self.mean is None else self.mean(loss.detach()))
        self.current = known if self.current is None else self.current + known

    def set(self, loss: Any) -> None:
        """The script says itself what the step's loss is. Raises NonFiniteLossError as `add`."""
        self.current, self._is_set = self._known(loss), True

    def end_step(self) -> None:
        """Raises InputError where the step had no loss, and NonFiniteLossError for an earlier
        one's."""
        loss = self.current
        self.abandon_step()
        if loss is None:
            raise InputError(
                f"step {len(self)} called backward() on no loss; put the whole step inside of "
                "job.step() or the loop over job.steps(loader), or call job.loss(value) in it"
            )
        if isinstance(loss, float):
            self._fetch()  # losses of several devices: in order all the same
            self._values.append(loss)
            return
        self._waiting.append(loss)
        if len(self._waiting) >= self._log_every:
            self._fetch()

    def abandon_step(self) -> None:
        self.current, self._is_set = None, False

    @property
    def latest(self) -> float | None:
        """The last one that is known without waiting."""
        return self._values[-1] if self._values else None

    def values(self, earlier: Sequence[float] = ()) -> list[float]:
        """Those of each step, after the `earlier` ones of another process; waits for them. Raises
        NonFiniteLossError."""
        self._values[:0] = earlier
        self._fetch()
        return self._values

    def __len__(self) -> int:
        return len(self._values) + len(self._waiting)

    def _known(self, loss: Any) -> float | torch.Tensor:
        """The value where it is at hand; else the promise of one."""
        kind = loss.device.type if hasattr(loss, "detach") else ""
        if kind in ("", "cpu"):
            value: float = loss.item() if kind else float(loss)
            _require_finite(value, len(self))
            return value
        promise: torch.Tensor = loss.detach()
        if kind != "xla":  # there it is computed at the step's end, into its own memory
            # A copy: with CUDA graphs the next step computes into the same memory.
            promise = promise.float().reshape(()).clone()
        return promise

    def _fetch(self) -> None:
        if not self._waiting:
            return
        import torch  # noqa: PLC0415 - programs without torch have losses, too

        device = self._waiting[-1].device
        if device.type == "xla":  # put together there, they would be a graph of their own
            device = torch.device("cpu")
        values = torch.stack([each.to(device).reshape(()) for each in self._waiting]).tolist()
        self._waiting = []
        for value in values:
            _require_finite(value, len(self._values))
            self._values.append(value)


def _require_finite(loss: float, step: int) -> None:
    if not math.isfinite(loss):
        raise NonFiniteLossError(f"the training loss is {loss} in step {step}", step=step)


_watching: list[TrainingLoop] = []
"""The loop of the process's last job, once `torch.Tensor.backward` is watched."""


def watch_backward(loop: TrainingLoop) -> None:
    """Let `loop` see each loss that `backward` is called on within a step, unscaled where a
    GradScaler scaled it."""
    import torch  # noqa: PLC0415 - programs without torch have steps, too

    watched_before, _watching[:] = bool(_watching), [loop]
    if watched_before:
        return
    backward = torch.Tensor.backward
    scaled: list[tuple[torch.Tensor, torch.Tensor]] = []

    @functools.wraps(backward)
    def watched(self: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        if _watching[0].in_step:
            original = next((loss for result, loss in scaled if result is self), self)
            _watching[0].add_loss(original)
        scaled.clear()
        return backward(self, *arguments, **named)

    def remembering(scale: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(scale)
        def scaling(self: Any, outputs: Any) -> Any:
            result = scale(self, outputs)
            if hasattr(outputs, "backward"):
                scaled.append((result, outputs))
                del scaled[:-4]  # a loss that is never used would be held for good
            return result

        return scaling

    torch.Tensor.backward = watched  # pyrefly: ignore[method-assign]
    for module in (getattr(torch, "amp", None), torch.cuda.amp):
        scaler: Any = getattr(module, "GradScaler", None)
        # Since torch 2.3 the second one derives from the first.
        if scaler is not None and "scale" in vars(scaler):
            scaler.scale = remembering(scaler.scale)


class TrainingLoop:
    """The steps of a script: their times, losses and graphs, over all processes of an interrupted
    job."""

    def __init__(self, job: Job, *, log_every: int, shapes: int, started: float) -> None:
        """`shapes`: how many shapes the steps are declared to have. `started`: when the job's first
        process started, as `time.time`."""
        self._job = job
        self.failures = job.failures
        self.losses = Losses(log_every)
        self.slowdowns = SlowdownWatch()
        self.declared_shapes = shapes
        self.job_started = started
        self.batch_size: int | None = None  # that of the first batch, where it shows
        self.in_step = False  # whether a training step is under way
        self.paused = self._assumed = False
        self.graphs: list[int] = []  # compiled within steps, by the end of each
        self.shapes: list[int] = []  # the declared shape of each step, by number
        self.returns: list[tuple[int, float]] = []
        """The first step of each process that took over, and the seconds since the checkpoint."""
        self.checkpoints: CheckpointRecord | None = None  # without what `returns` has
        self._clock: Any = None
        self._graphs_before = self._graphs_in_steps = 0
        self._known_shapes: dict[str, int] = {}
        self._shape = self._first_step = 0
        self._earlier_seconds: list[float] = []
        self._earlier_waits: list[float] = []

    @property
    def step(self) -> int:
        """The number of the step that is under way or comes next, from 0."""
        return len(self.graphs)

    @property
    def process_step(self) -> int:
        """The same, counted from the first step of this process."""
        return len(self.graphs) - self._first_step

    @harmless
    def begin(self, *, assumed: bool = False) -> None:
        """Begin a step. `assumed`: unless the script itself begins one, which then takes its place.
        Raises InputError within another."""
        if self.in_step:
            if assumed or not self._assumed:
                raise InputError(
                    f"step {self.step} begins again before it has ended; one job.step() cannot be "
                    "inside of another"
                )
            self._assumed = False
            return
        if self._clock is None:
            self._clock = self._job.clock()
        self._assumed = assumed
        self._graphs_before = self._job.graphs_compiled()
        self._clock.begin()
        self.in_step = True

    @harmless
    def begin_wait(self) -> None:
        self._clock.begin_wait()

    @harmless
    def end_wait(self) -> None:
        self._clock.end_wait()

    @harmless
    def pause(self) -> None:
        """An evaluation begins within the step: neither it nor what it compiles is part of it."""
        if not self.paused:
            self.paused = True
            self._graphs_in_steps += self._job.graphs_compiled() - self._graphs_before
            self._clock.pause()

    @harmless
    def resume(self) -> None:
        if self.paused:
            self.paused = False
            self._graphs_before = self._job.graphs_compiled()
            self._clock.resume()

    @harmless
    def add_loss(self, loss: torch.Tensor) -> None:
        if self.process_step < DEFAULT_PARITY_STEPS:
            self._job.before_backward()
        self.losses.add(loss)

    @harmless
    def set_loss(self, loss: Any) -> None:
        """The script says the loss of the step. Raises InputError outside of one."""
        if not self.in_step:
            raise InputError("job.loss() was called outside of a step; call it within job.step()")
        self.losses.set(loss)

    @harmless
    def see_shapes(self, function: str, shapes: Any) -> None:
        """What is compiled is called with these. A shape beyond the declared ones counts as the
        first."""
        if self.declared_shapes > 1:
            known, shape = self._known_shapes, str(shapes)
            if shape not in known and len(known) < self.declared_shapes:
                known[shape] = len(known)
            self._shape = known.get(shape, 0)
        self.slowdowns.see_shapes(function, shapes)

    @harmless
    def end(self) -> None:
        """The step ends. Raises InputError where it had no loss, and NonFiniteLossError."""
        self.resume()
        try:
            graphs = self._job.end_of_step()
            self._clock.end()
            self.losses.end_step()
        finally:
            self.in_step = False
        self._graphs_in_steps += graphs - self._graphs_before
        self.graphs.append(self._graphs_in_steps)
        self.shapes.append(self._shape)
        if self.process_step == self.slowdowns.at:
            with self.failures.tolerated("looking at what slows the steps"):
                self.slowdowns.look()
        self._job.after_step()

    @contextmanager
    def one(self) -> Iterator[None]:
        """``with job.step():`` one step. A block that raises was none."""
        self.begin()
        try:
            yield
        except BaseException:
            self.abandon()
            raise
        self.end()

    @harmless
    def abandon(self) -> None:
        """What began, if anything did, was no step: nothing of it counts."""
        if self.in_step:
            self.resume()
            self.in_step = False
            self.losses.abandon_step()

    # For callbacks, whose loop is not the script's own.

    def awaits(self) -> None:
        """Wait for the next step's batch; what was done since the last step is part of none."""
        self.abandon()
        self.begin(assumed=True)
        self.begin_wait()

    def begins(self, *, waited: bool = True) -> None:
        """Begin to compute a step, after the wait since `awaits` unless it fetches its batch only
        now."""
        self.begin()
        if waited:
            self.end_wait()

    def ends(self) -> bool:
        """End a step and wait for the next batch; whether the compiler compiled in it. Raises
        InputError where it had no loss, and NonFiniteLossError."""
        self.end()
        before, now = [0, 0, *self.graphs][-2:]
        self.awaits()
        return now > before

    # What was measured.

    def seconds(self) -> list[float]:
        return self._earlier_seconds + ([] if self._clock is None else self._clock.seconds())

    def waits(self) -> list[float]:
        return self._earlier_waits + ([] if self._clock is None else self._clock.waits())

    def by_process(self, column: Sequence[int]) -> list[Sequence[int]]:
        """A column of all steps, cut where another process went on."""
        bounds = [0, *(step for step, _ in self.returns), len(column)]
        return [column[start:end] for start, end in zip(bounds, bounds[1:])]

    @contextmanager
    def checkpoint(self) -> Iterator[dict[str, Any]]:
        """See `Job.checkpoint`. One that raises was none."""
        began, written = time.monotonic(), 0
        try:
            yield self._state() or {}
            written = 1
        finally:
            before = self.checkpoints or CheckpointRecord(0, 0.0, None)
            seconds = before.seconds + time.monotonic() - began
            self.checkpoints = replace(before, written=before.written + written, seconds=seconds)

    @harmless
    def _state(self) -> dict[str, Any]:
        return {
            "losses": list(self.losses.values()),
            "seconds": list(self.seconds()),
            "waits": list(self.waits()),
            "graphs": list(self.graphs),
            "shapes": list(self.shapes),
            "known_shapes": list(self._known_shapes),
            "resumed_at": [step for step, _ in self.returns],
            "lost_seconds": [lost for _, lost in self.returns],
            "written": time.time(),
            "job_started": self.job_started,
        }

    def go_on_from(self, state: Mapping[str, Any] | None, ignored: str | None) -> None:
        """See `Job.resume`. What follows compiles anew. Raises InputError."""
        self.checkpoints = CheckpointRecord(0, 0.0, ignored)
        if state is None:
            return
        if self.graphs or self.in_step:
            raise InputError(
                f"job.resume() was called in or after step {self.step}; call it before the first"
            )
        try:
            lost = max(time.time() - float(state["written"]), 0.0)
            self.losses.values(earlier=state["losses"])
            self._earlier_seconds, self._earlier_waits, self.graphs, self.shapes = (
                list(state[name]) for name in ("seconds", "waits", "graphs", "shapes")
            )
            self._known_shapes = {each: number for number, each in enumerate(state["known_shapes"])}
            self._first_step = len(self.graphs)
            earlier = zip(state["resumed_at"], state["lost_seconds"])
            self.returns = [*earlier, (self._first_step, lost)]
            self.job_started = float(state["job_started"])
        except (KeyError, TypeError) as error:
            raise InputError(
                f"job.resume() was given no state of a job ({type(error).__name__}: {error}); "
                "give it what job.checkpoint() gave"
            ) from error


class LoaderSteps:
    """``for batch in job.steps(loader):`` each iteration is a step, or part of one. It has the
    loader's length and attributes. Where the loop has `job.step()` inside, that is the step, with
    the wait for its batch."""

    def __init__(
        self, loader: Any, job: Job, loop: TrainingLoop, *, accumulate: int, drops: bool
    ) -> None:
        """`accumulate` iterations are one step. `drops`: a smaller last batch is left out."""
        if accumulate < 1:
            raise InputError(f"job.steps(accumulate={accumulate}), expected 1 or more")
        self._loader = loader
        self._loop = loop
        self.failures = loop.failures
        self._job = job
        self._accumulate = accumulate
        self._drops = drops
        self._sizes = BatchSizes(getattr(loader, "batch_size", None))
        self._size: int | None = None

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def __iter__(self) -> Iterator[Any]:
        loop, batches, taken = self._loop, self._whole_batches(), 0
        while True:
            if not loop.in_step:
                loop.begin(assumed=True)
                taken = 0
            loop.begin_wait()
            batch = next(batches, _END)
            loop.end_wait()
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
            if loop.in_step and taken >= self._accumulate and loop.failures.broken is None:
                # An iteration without a loss was no step, as where the script skips a batch. In the
                # first step it is a mistake in the script, which ending the step names.
                if loop.losses.current is not None or not loop.process_step:
                    loop.end()
                    continue
                loop.abandon()
                self._job.note(
                    "An iteration of the loop over job.steps(loader) had no loss, after "
                    f"{loop.step} steps for the first time: such iterations, whose batch the "
                    "script skips, count as no steps."
                )

    def _leave(self, *, whole: bool) -> None:
        """The loop is over. A step is under way if it had a loss by then."""
        if whole and self._loop.in_step and self._loop.losses.current is not None:
            self._loop.end()
        else:
            self._loop.abandon()

    def _whole_batches(self) -> Iterator[Any]:
        """The loader's batches, without a last one that is smaller than the first."""
        self._size = None
        endless = self._loader is None
        batches = (
            itertools.repeat(None) if endless else iter(self._job.device_batches(self._loader))
        )
        for batch in batches:
            smaller = self._smaller(batch) if self._size is None or self._drops else None
            following = batch if smaller is None else next(batches, _END)
            if following is _END:
                self._job.note(
                    f"The last batch of the loader has {smaller} examples and the others have "
                    f"{self._size}: it was left out, in every arm, since it would be a graph of "
                    "its own; set drop_last=True in the DataLoader, or use "
                    "job.steps(loader, ragged='keep')."
                )
                return
            yield batch
            if following is not batch:
                yield following

    @harmless
    def _smaller(self, batch: Any) -> int | None:
        """The size of a batch that is smaller than the first one."""
        size = self._sizes.of(batch)
        if self._size is None and size is not None:
            self._size = size
            self._loop.batch_size = self._loop.batch_size or size
        return size if size is not None and self._size is not None and size < self._size else None


_END = object()

_Place = Tuple[Any, ...]  # where something is in a batch: a key or an index for each level
_DEEPEST = 4  # levels of a batch that are looked at: objects may refer to each other in circles


class BatchSizes:
    """How many examples a loader's batches have: the rows of a tensor, or a list's items where
    tensors have lengths of their own; the size that the loader `declared` shows which."""

    def __init__(self, declared: Any = None) -> None:
        self._declared = declared if type(declared) is int else None
        self._place: _Place | None = None

    def of(self, batch: Any) -> int | None:
        """None where nothing shows it."""
        if self._place is not None:  # known: this is part of every step
            try:
                return _length(batch, self._place)
            except (LookupError, TypeError):
                return None
        lengths = list(_lengths(batch))
        tensors = [each for each in lengths if each[2]]
        lists = sorted((each for each in lengths if not each[2]), key=lambda each: -len(each[0]))
        fitting = [each for each in (*tensors, *lists) if each[1] == self._declared]
        for place, length, _ in (*fitting, *tensors):
            self._place = place
            return length
        return None


def _length(value: Any, place: _Place) -> int:
    for name in place:
        indexed = isinstance(value, (list, tuple)) or hasattr(value, "keys")
        value = value[name] if indexed else vars(value)[name]
    shape = getattr(value, "shape", None)
    return len(value) if shape is None else int(shape[0])


def batch_size_of(batch: Any) -> int | None:
    """The length of the first tensor or array in a batch; None where there is none."""
    return BatchSizes().of(batch)


def _lengths(value: Any, place: _Place = ()) -> Iterator[tuple[_Place, int, bool]]:
    """Where each tensor, array and list of a batch is, its length, and whether it is no list."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        if len(shape):
            yield place, int(shape[0]), True
        return
    parts: Any = ()
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
