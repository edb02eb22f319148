"""How far a script has come: its steps, their times, their losses, and what was compiled in them.

Needs no torch, where the script does not use it.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Protocol,
    Sequence,
)

from compilegate.job.errors import InputError
from compilegate.job.evidence import CheckpointRecord, Resumption
from compilegate.job.script.counting.clock import Clock, clock_for
from compilegate.job.script.counting.looking import Looking
from compilegate.job.script.counting.losses import LOG_EVERY, Losses, watch_backward

if TYPE_CHECKING:
    import torch


class AroundSteps(Protocol):
    """What a job does around its steps."""

    def before_first_step(self) -> None:
        """The first step of this process begins, in which compilers compile."""

    def step_device(self) -> Optional[torch.device]:
        """Where they compute; None for a program without torch. Asked in the first of them."""

    def graphs_compiled(self) -> int:
        """How many graphs were compiled so far."""

    def end_of_step(self) -> int:
        """The last part of a step; returns how many graphs were compiled so far."""

    def after_step(self) -> bool:
        """What follows a step, and is part of none; whether anything did."""

    @property
    def compiles_anywhere(self) -> bool:
        """Whether graphs come between steps, too, without anything of the job being called."""


@dataclass(frozen=True)
class Return:
    """A process that went on from a checkpoint of the job."""

    step: int
    """Its first step, from 0."""
    lost_seconds: float
    """Wall-clock seconds since the checkpoint was written: steps taken twice, the wait for another
    machine, start-up."""


class Course:
    """The steps of a script, one after the other."""

    def __init__(
        self, around: AroundSteps, log_every: Optional[int] = None, shapes: int = 1
    ) -> None:
        """`shapes`: how many shapes the steps are declared to have, each a graph of its own."""
        self._around = around
        self._clock: Optional[Clock] = None
        self._losses = Losses(log_every or LOG_EVERY)
        self._graphs_in_steps = self._graphs_before = 0
        self._declared_shapes = shapes
        self.sees_shapes = shapes > 1
        """Whether the steps have several."""
        self._known_shapes: Dict[str, int] = {}
        self._shape = 0
        self.in_step = False
        """Whether a training step is under way."""
        self._assumed = self.paused = False
        self._compiled_outside = True
        self.looking = Looking()
        """Looks at a few of the steps, for what slows them."""
        self.probes_wait = True
        """Whether something may follow a step. `AroundSteps` decides."""
        self.graphs: List[int] = []
        """Compiled within steps, by the end of each."""
        self.shapes: List[int] = []
        """The declared shape of each step, by number."""
        self.returns: List[Return] = []
        """One for each process of the job but the first, where it was interrupted."""
        self._earlier_seconds: List[float] = []
        self._earlier_waits: List[float] = []

    @property
    def declared_shapes(self) -> int:
        """How many shapes the steps are declared to have."""
        return self._declared_shapes

    def declare_shapes(self, count: int) -> None:
        """The steps have so many."""
        self._declared_shapes, self.sees_shapes = count, count > 1

    @property
    def step(self) -> int:
        """The number of the step that is under way or comes next, from 0."""
        return len(self.graphs)

    @property
    def own_step(self) -> int:
        """The same, counted from the first step of this process."""
        return self.step - (self.returns[-1].step if self.returns else 0)

    @property
    def has_loss(self) -> bool:
        """Whether the step under way has a loss by now."""
        return self._losses.has_current

    def begin(self, *, assumed: bool = False) -> None:
        """A step begins. `assumed`: unless the script says itself where one begins; then that step
        takes this one's place, its wait for a batch included. Raises InputError within another."""
        if self.in_step and self._assumed and not assumed:
            self._assumed = False
            return
        if self.in_step:
            raise InputError(
                f"step {self.step} begins again before it has ended; one job.step() cannot be "
                "inside of another"
            )
        self.in_step, self._assumed = True, assumed
        if self._compiled_outside:
            self._graphs_before = self._around.graphs_compiled()
            self._compiled_outside = self._around.compiles_anywhere
        if self._clock is None:
            self._around.before_first_step()
        (self._clock or self._running_clock()).begin()

    def begin_wait(self) -> None:
        """The step under way waits for a batch from here on."""
        self._running_clock().begin_wait()

    def end_wait(self) -> None:
        """The batch is there. A wait that does not end was none."""
        self._running_clock().end_wait()

    def called_outside(self) -> None:
        """What is compiled is called between two steps: graphs may come that are of none."""
        self._compiled_outside = True

    def pause(self) -> None:
        """An evaluation begins within the step: it is no part of it."""
        if not self.paused:
            self.paused = True
            # What evaluation and the probes compile is no part of a step.
            self._graphs_in_steps += self._around.graphs_compiled() - self._graphs_before
            self._running_clock().pause()

    def resume(self) -> None:
        """The step goes on, if it was interrupted."""
        if self.paused:
            self.paused = False
            self._graphs_before = self._around.graphs_compiled()
            self._running_clock().resume()

    def see_shape(self, shape: Any) -> None:
        """What is compiled is called with this shape. One more than declared counts as the first:
        what is compiled for it is a recompilation."""
        known, shape = self._known_shapes, str(shape)
        if shape not in known and len(known) < self._declared_shapes:
            known[shape] = len(known)
        self._shape = known.get(shape, 0)

    def end(self) -> None:
        """The step ends. Raises InputError where it had no loss, and NonFiniteLossError."""
        if self.paused:
            self.resume()
        try:
            graphs = self._around.end_of_step()
            (self._clock or self._running_clock()).end()
            self._losses.end_step()
        finally:
            self.in_step = False
        self._graphs_in_steps += graphs - self._graphs_before
        self._graphs_before = graphs
        self.graphs.append(self._graphs_in_steps)
        self.shapes.append(self._shape)
        if len(self.graphs) == self.looking.at:
            self.looking.go_on()
        if self.probes_wait and self._around.after_step():
            self._compiled_outside = True

    def abandon(self) -> None:
        """What began was no step: nothing of it counts."""
        self.resume()
        self.in_step = False
        self._running_clock().abandon()
        self._losses.abandon_step()

    def watch_losses(self, before_backward: Callable[[], None]) -> None:
        """From here on, what `backward` is called on in a step is its loss; `before_backward` is
        called, too."""

        def saw(loss: torch.Tensor) -> None:
            before_backward()
            self._losses.saw(loss)

        watch_backward(self, saw)

    def say_loss(self, loss: Any) -> None:
        """The script says the loss of the step. Raises InputError outside of one."""
        if not self.in_step:
            raise InputError("job.loss() was called outside of a step; say it within job.step()")
        self._losses.say(loss)

    def seconds(self) -> List[float]:
        """Those of each step; waits for steps that still run."""
        return self._earlier_seconds + self._running_clock().seconds()

    def waits(self) -> List[float]:
        """In how many of them each step waited for its batch; waits for steps that still run."""
        return self._earlier_waits + self._running_clock().waits()

    def losses(self) -> List[float]:
        """Those of each step; waits for them. Raises NonFiniteLossError."""
        return self._losses.values()

    def latest_loss(self) -> Optional[float]:
        """The last one that is known without waiting; None before. Raises NonFiniteLossError."""
        return self._losses.latest

    def take_mean_losses(self, mean: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """From here on, the loss of a step is the mean over all processes."""
        self._losses.mean = mean

    def by_process(self, column: Sequence[int]) -> List[Sequence[int]]:
        """A column of all steps, cut where another process went on."""
        bounds = [0, *(each.step for each in self.returns), len(column)]
        return [column[start:end] for start, end in zip(bounds, bounds[1:])]

    def state(self) -> Dict[str, Any]:
        """The steps so far, as lists of numbers and texts. Waits for them. Raises
        NonFiniteLossError."""
        return {
            "losses": list(self.losses()),
            "seconds": list(self.seconds()),
            "waits": list(self.waits()),
            "graphs": list(self.graphs),
            "shapes": list(self.shapes),
            "known_shapes": list(self._known_shapes),
            "resumed_at": [each.step for each in self.returns],
            "lost_seconds": [each.lost_seconds for each in self.returns],
        }

    def go_on_from(self, state: Mapping[str, Any], lost_seconds: float) -> None:
        """An earlier process of the job took the steps of that `state`. What follows is another's,
        which compiles anew. Raises InputError after a step."""
        if self.graphs or self.in_step:
            raise InputError(
                f"job.resume() was called in or after step {self.step}; call it before the first"
            )
        self._losses.go_on_from(state["losses"])
        self._earlier_seconds = list(state["seconds"])
        self._earlier_waits, self.graphs, self.shapes = (
            list(state[name]) for name in ("waits", "graphs", "shapes")
        )
        self.looking.begin_at(len(self.graphs))
        self._known_shapes = {each: number for number, each in enumerate(state["known_shapes"])}
        self.returns = [
            *map(Return, state["resumed_at"], state["lost_seconds"]),
            Return(len(self.graphs), lost_seconds),
        ]

    def _running_clock(self) -> Clock:
        if self._clock is None:
            self._clock = clock_for(self._around.step_device())
        return self._clock


class Checkpoints:
    """What a job keeps to go on from where its machine is taken away, and whether it had to."""

    def __init__(self, job_started: float) -> None:
        """`job_started` is when the job's first process started, as `time.time` counts."""
        self.used = False
        """Whether the job keeps any."""
        self.job_started = job_started
        self._written = 0
        self._seconds = 0.0
        self._ignored: Optional[str] = None

    @contextlib.contextmanager
    def writing(self, course: Course) -> Iterator[Dict[str, Any]]:
        """What belongs into a checkpoint that is written within. One that raises was none."""
        self.used = True
        began = time.monotonic()
        try:
            yield {
                **course.state(),
                "written": time.time(),
                "job_started": self.job_started,
            }
            self._written += 1
        finally:
            self._seconds += time.monotonic() - began

    def resume(
        self, course: Course, state: Optional[Mapping[str, Any]], ignored: Optional[str]
    ) -> None:
        """See `Job.resume`. Raises InputError for what is no such state."""
        self.used, self._ignored = True, ignored
        if state is None:
            return
        try:
            lost = max(time.time() - float(state["written"]), 0.0)
            course.go_on_from(state, lost)
            self.job_started = float(state["job_started"])
        except (KeyError, TypeError) as error:
            raise InputError(
                f"job.resume() was given no state of a job ({type(error).__name__}: {error}); "
                "give it what job.checkpoint() gave"
            ) from error

    def record(self, resumed: Sequence[Resumption]) -> Optional[CheckpointRecord]:
        """For the evidence; None where the job keeps none."""
        if not self.used:
            return None
        return CheckpointRecord(self._written, self._seconds, self._ignored, tuple(resumed))
