"""Leads a process through its profile, step by step, and ends it."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Optional

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from compilegate.job.files import write_json
from compilegate.job.machine.world import world_of
from compilegate.job.names import (
    OUTPUT_DATA_VARIABLE,
    PROFILE_FILE,
    PROFILE_FOLDER,
    PROFILE_VARIABLE,
    TRACE_FILE,
)
from compilegate.job.profiling.events import WAIT, Events
from compilegate.job.profiling.record import Graphs, Line, Profile, StepTime
from compilegate.job.profiling.slowdowns import GraphLog, SynchronisationWatch, by_line


class ProfiledClock:
    """Measures as the clock that it stands before, and ends the job when the profile is done."""

    def __init__(self, clock: Any, session: Session) -> None:
        self._clock = clock
        self._session = session
        session.follow(clock)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def begin_wait(self) -> None:
        """The step waits for its batch."""
        self._clock.begin_wait()
        self._session.begin_wait()

    def end_wait(self) -> None:
        """It has it."""
        self._session.end_wait()
        self._clock.end_wait()

    def end(self) -> None:
        """The step ends; after the last one, so does the process."""
        self._clock.end()
        self._session.end_step()


FEWEST_STEPS = 12


class ProfileWritten(SystemExit):
    """The profile is written; the program ends here, with success."""


class Session:
    """The profile of this process: some steps warm up, most are plain, the last go under
    torch.profiler. `end_step` is called after each."""

    def __init__(self, folder: Path, steps: int, *, program: str) -> None:
        steps = max(steps, FEWEST_STEPS)
        self._folder = folder
        self._program = program
        self._warm_up, self._profiled = max(steps // 7, 4), max(steps // 4, 4)
        self._plain = steps - self._warm_up - self._profiled - 1
        # The profiler has one step to warm up, too.
        self._begins = self._warm_up + self._plain
        self._taken = 0
        activities = [ProfilerActivity.CPU]
        activities += [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
        self._profiler: Any = profile(
            activities=activities,
            schedule=schedule(wait=self._begins, warmup=1, active=self._profiled, repeat=1),
            record_shapes=True,
        )
        self._watch = SynchronisationWatch()
        self._graphs = GraphLog()
        self._clock: Any = None
        self._own_clock = True
        self._waiting: Any = None
        self._optimizer: Any = None
        self._quiet = self.over = False
        """`over`: whether the profile is written. `_quiet`: whether anything need be said."""
        self.arm: Optional[str] = None
        self.compiler = "eager"
        self.batch_size: Optional[int] = None

    def start(self) -> None:
        """Listen to torch: to its loaders, and to the first optimizer, whose update ends the step
        of a program that has no clock."""
        from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: PLC0415
        from torch.utils.data import dataloader  # noqa: PLC0415

        iterator: Any = dataloader._BaseDataLoaderIter
        fetch = iterator.__next__

        @functools.wraps(fetch)
        def fetching(loader: Any) -> Any:
            if not (self._own_clock and self._clock and torch.is_grad_enabled()):
                return fetch(loader)
            self._clock.begin_wait()
            self.begin_wait()
            try:
                return fetch(loader)
            finally:
                self.end_wait()
                self._clock.end_wait()

        iterator.__next__ = fetching
        register_optimizer_step_post_hook(self._updated)
        self._graphs.listen()
        self._profiler.start()

    def follow(self, clock: Any) -> None:
        """The program has a clock, and says itself where a step ends."""
        self._clock, self._own_clock = clock, False

    def begin_wait(self) -> None:
        """The step waits for its batch."""
        self._waiting = record_function(WAIT)
        self._waiting.__enter__()

    def end_wait(self) -> None:
        """It has it."""
        self._waiting.__exit__(None, None, None)

    def _updated(self, optimizer: Any, *_: Any) -> None:
        if self._optimizer is None:
            self._optimizer = optimizer
        if not self._own_clock or optimizer is not self._optimizer:
            return
        if self._clock is None:
            from compilegate.job.script.steps import Clock  # noqa: PLC0415 - imports this

            self._clock = Clock(self._device())
        else:
            self._clock.end()
        self.end_step()
        self._clock.begin()

    def end_step(self) -> None:
        """A step is over. Ends the program after the last one."""
        self._taken += 1
        self._profiler.step()
        if self._taken == self._begins + 2:  # those that `events` counts
            self._watch.start()
        if self._taken == self._begins + 1 + self._profiled:
            self._write()
            raise ProfileWritten(0)

    def end(self) -> None:
        """The program ends by itself, before its profile is done."""
        if self.over or self._quiet:
            return
        self._quiet = True
        needed = self._begins + 1 + self._profiled
        why = (
            f"the program ended after {self._taken} training steps, expected {needed} or more to "
            "profile; take fewer (--steps), or give it more data or epochs"
            if self._taken
            else "the program took no training step, expected some by an optimizer of torch's"
        )
        print(f"compilegate: {why}", file=sys.stderr, flush=True)

    def fail(self) -> None:
        """The program fails: what it printed says why."""
        self._quiet = True

    def _write(self) -> None:
        self._profiler.stop()
        self._watch.stop()
        self._graphs.stop()
        self.over = True
        if not world_of(os.environ).first:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        self._profiler.export_chrome_trace(str(self._folder / TRACE_FILE))
        write_json(self._folder / PROFILE_FILE, asdict(self._profile()))
        print(f"compilegate: the profile is in {self._folder / PROFILE_FILE}", flush=True)

    def _profile(self) -> Profile:
        events = Events(self._profiler.events())
        device = self._device()
        timed = list(map(StepTime, self._clock.seconds(), self._clock.waits()))
        untimed = self._taken - len(timed)  # the first step of a program without a clock
        dynamo = sys.modules.get("torch._dynamo.utils")
        graphs = 0 if dynamo is None else int(dynamo.counters["stats"].get("unique_graphs", 0))
        compiled = self.compiler != "eager" or graphs > 0
        threads = torch.get_num_threads()
        return Profile(
            program=self._program,
            arm=self.arm,
            compiler="torch.compile" if compiled and self.compiler == "eager" else self.compiler,
            device=device.type,
            hardware=torch.cuda.get_device_name(device)
            if device.type == "cuda"
            else f"{threads} threads of a processor",
            torch=str(torch.__version__),
            threads=threads,
            processes=world_of(os.environ).size,
            batch_size=self.batch_size,
            warm_up=self._warm_up,
            steps=tuple(timed[self._warm_up - untimed : self._begins - untimed]),
            profiled_steps=events.count,
            profiled=events.time(),
            operators=events.operators(),
            least_seconds=_least_seconds(),
            synchronisations=tuple(Line(*each) for each in by_line(self._watch)[:20]),
            shapes=events.shapes(),
            graphs=Graphs(graphs, self._graphs.breaks, self._graphs.recompilations)
            if compiled
            else None,
            trace=TRACE_FILE,
        )

    def _device(self) -> torch.device:
        """Where the weights are that the first optimizer changes."""
        if self._optimizer is None:
            return torch.device("cpu")
        weight: torch.Tensor = self._optimizer.param_groups[0]["params"][0]
        return weight.device


def _least_seconds() -> float:
    """What an operator takes on the host, under the profiler, that adds two numbers."""
    number = torch.zeros(1)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        for _ in range(200):
            torch.add(number, number)
    taken = sorted(
        each.self_cpu_time_total for each in profiler.events() if each.name == "aten::add"
    )
    return taken[len(taken) // 2] / 1e6 if taken else 0.0


_session: Optional[Session] = None


def current() -> Session:
    """The session of this process, started if it was not."""
    global _session  # noqa: PLW0603 - a process has one
    if _session is None:
        steps, _, folder = os.environ[PROFILE_VARIABLE].partition(":")
        output = Path(folder or os.environ.get(OUTPUT_DATA_VARIABLE, ".")) / PROFILE_FOLDER
        _session = Session(output, int(steps), program=Path(sys.argv[0]).name)
        _session.start()
        atexit.register(_session.end)
    return _session


def is_over() -> bool:
    """Whether the profile of this process is written."""
    return _session is not None and _session.over
