"""Where the time of a training step goes, measured in the training process: a few dozen steps, some
to warm up, most timed by the job's clock, some under torch.profiler; then it ends."""

from __future__ import annotations

import atexit
import functools
import os
import re
import statistics
import sys
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any, Sequence

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from compilegate.job.contract import (
    OUTPUT_DATA_VARIABLE,
    PROFILE_FILE,
    PROFILE_FOLDER,
    PROFILE_VARIABLE,
    TRACE_FILE,
)
from compilegate.job.evidence.record import PaddingRecord
from compilegate.job.evidence.steady import WARM_UP
from compilegate.job.files import write_json
from compilegate.job.machine.world import world_of
from compilegate.job.profiling.record import (
    COMPUTING,
    PARTS,
    UPDATE,
    Graphs,
    Operator,
    Part,
    Place,
    Profile,
    ProfiledTime,
    StepTime,
)
from compilegate.job.slowdowns import GraphLog, SynchronisationWatch

FEWEST_STEPS = 12
MOST_LINES = 20


class ProfiledClock:
    """A job's clock that tells the session of each wait and step."""

    def __init__(self, clock: Any, session: Session) -> None:
        self._clock = clock
        self._session = session
        session.clock, session.own_clock = clock, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def begin_wait(self) -> None:
        self._session.begin_wait()

    def end_wait(self) -> None:
        self._session.end_wait()

    def end(self) -> None:
        """The step ends; after the last one, so does the process."""
        self._clock.end()
        self._session.end_step()


class ProfileWritten(SystemExit):
    """The profile is written; the program ends here, with success."""


class Session:
    """The profile of this process: some steps warm up, most are plain, the last go under
    torch.profiler. `end_step` is called after each."""

    def __init__(self, folder: Path, steps: int, *, program: str) -> None:
        self._folder, self._program = folder, program
        self._needed, self._taken = max(steps, FEWEST_STEPS), 0
        self._warm_up, profiled = min(WARM_UP, self._needed // 3), max(self._needed // 4, 4)
        self._begins = self._needed - profiled - 1  # the step that warms the profiler up, too
        activities = [ProfilerActivity.CPU]
        activities += [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
        self._profiler: Any = profile(
            activities=activities,
            schedule=schedule(wait=self._begins, warmup=1, active=profiled, repeat=1),
            record_shapes=True,
        )
        self._watch, self._graphs = SynchronisationWatch(), GraphLog()
        self.clock: Any = None
        self.own_clock = True  # a step ends with the update: the program has no clock of a job
        self._waiting: Any = None
        self._optimizer: Any = None
        self.over = False  # the profile is written
        self.quiet = False  # nothing need be said at the program's end
        self.arm: str | None = None
        self.compiler = "eager"
        self.batch_size: int | None = None
        self.padding: PaddingRecord | None = None

    def start(self) -> None:
        """Listen to loaders and to the first optimizer, whose update ends the step of a program
        without a clock."""
        from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: PLC0415
        from torch.utils.data import dataloader  # noqa: PLC0415

        iterator: Any = dataloader._BaseDataLoaderIter
        fetch = iterator.__next__

        @functools.wraps(fetch)
        def fetching(loader: Any) -> Any:
            if not (self.own_clock and self.clock and torch.is_grad_enabled()):
                return fetch(loader)
            self.begin_wait()
            try:
                return fetch(loader)
            finally:
                self.end_wait()

        iterator.__next__ = fetching
        register_optimizer_step_post_hook(self._updated)
        self._graphs.listen()
        self._profiler.start()

    def begin_wait(self) -> None:
        self.clock.begin_wait()
        self._waiting = record_function(WAIT)
        self._waiting.__enter__()

    def end_wait(self) -> None:
        self._waiting.__exit__(None, None, None)
        self.clock.end_wait()

    def _updated(self, optimizer: Any, *_: Any) -> None:
        if self._optimizer is None:
            self._optimizer = optimizer
        if not self.own_clock or optimizer is not self._optimizer:
            return
        if self.clock is None:
            from compilegate.job.script.steps import Clock  # noqa: PLC0415 - imports this

            self.clock = Clock(self._device())
        else:
            self.clock.end()
        self.end_step()
        self.clock.begin()

    def end_step(self) -> None:
        """A step is over. Ends the program after the last one."""
        self._taken += 1
        self._profiler.step()
        if self._taken == self._begins + 2:  # those that `events` counts
            self._watch.start()
        if self._taken == self._needed:
            self._write()
            raise ProfileWritten(0)

    def end(self) -> None:
        """The program ends by itself: say so where its profile is not done."""
        if self.over or self.quiet:
            return
        why = (
            f"the program ended after {self._taken} training steps, expected {self._needed} or "
            "more to profile; take fewer (--steps), or give it more data or epochs"
            if self._taken
            else "the program took no training step, expected some by an optimizer of torch's"
        )
        print(f"compilegate: {why}", file=sys.stderr, flush=True)

    def _write(self) -> None:
        self._profiler.stop()
        self._watch.stop()
        self.over = True
        if not world_of(os.environ).first:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        self._profiler.export_chrome_trace(str(self._folder / TRACE_FILE))
        write_json(self._folder / PROFILE_FILE, asdict(self._profile()))
        print(f"compilegate: the profile is in {self._folder / PROFILE_FILE}", flush=True)

    def _profile(self) -> Profile:
        events, device = Events(self._profiler.events()), self._device()
        timed = list(map(StepTime, self.clock.seconds(), self.clock.waits()))
        untimed = self._taken - len(timed)  # the first step of a program without a clock
        dynamo = sys.modules.get("torch._dynamo.utils")
        count = 0 if dynamo is None else int(dynamo.counters["stats"].get("unique_graphs", 0))
        compiled = self.compiler != "eager" or count > 0
        return Profile(
            program=self._program,
            arm=self.arm,
            compiler="torch.compile" if compiled and self.compiler == "eager" else self.compiler,
            device=device.type,
            hardware=torch.cuda.get_device_name(device)
            if device.type == "cuda"
            else f"{torch.get_num_threads()} threads of a processor",
            torch=str(torch.__version__),
            processes=world_of(os.environ).size,
            batch_size=self.batch_size,
            warm_up=self._warm_up,
            steps=tuple(timed[self._warm_up - untimed : self._begins - untimed]),
            profiled_steps=events.count,
            profiled=events.time(),
            operators=events.operators(),
            least_seconds=_least_seconds(),
            synchronisations=tuple(
                Place(*each) for each in self._watch.counts.most_common(MOST_LINES)
            ),
            shapes=events.shapes(),
            graphs=Graphs(count, self._graphs.breaks, self._graphs.recompilations)
            if compiled
            else None,
            trace=TRACE_FILE,
            padding=self.padding,
        )

    def _device(self) -> torch.device:
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
    added = [each for each in profiler.events() if each.name == "aten::add"]
    return float(statistics.median(each.self_cpu_time_total for each in added)) / 1e6


_session: Session | None = None


def current() -> Session:
    global _session  # noqa: PLW0603 - a process has one
    if _session is None:
        steps, _, folder = os.environ[PROFILE_VARIABLE].partition(":")
        output = Path(folder or os.environ.get(OUTPUT_DATA_VARIABLE, ".")) / PROFILE_FOLDER
        _session = Session(output, int(steps), program=Path(sys.argv[0]).name)
        _session.start()
        atexit.register(_session.end)
    return _session


def is_over() -> bool:
    return _session is not None and _session.over


# What torch.profiler saw, as the figures of a typical step.

WAIT = "compilegate: wait for data"  # the profiler's mark of a step's wait for its batch
MOST_OPERATORS = 400
OUTSIDE = 1000  # microseconds without an operator: the program reads, writes, or sleeps
_DATA, _COMMUNICATION = "data", "communication"
_MARKS = (WAIT, "ProfilerStep", "Optimizer.", "enumerate(DataLoader)", "DistributedDataParallel")
"""Names that stand for everything called inside them, not for one operator."""
_COMMUNICATES = re.compile(r"nccl|gloo|c10d|record_param_comms|mpi:|ucc:", re.IGNORECASE)
_SHAPED = re.compile(r"::(addmm|mm|bmm|baddbmm|linear|\w*convolution\w*|embedding)$")
"""Operators whose inputs' shapes are a step's: others may be called now and then."""


class Events:
    """The events of a torch.profiler that has ended, `profiler.events()`, step by step."""

    def __init__(self, events: Sequence[Any]) -> None:
        self._parts: dict[int, str] = {}
        known = [each for each in events if each.name != "[memory]"]
        self._host = [each for each in known if each.device_type.name == "CPU"]
        names = {each.name for each in self._host}  # which its shadows on a device have, too
        self._device = [
            each for each in known if each.device_type.name != "CPU" and each.name not in names
        ]
        marks = [each for each in self._host if each.name.startswith("ProfilerStep")]
        # Within the first of them the profiler itself gets going.
        self._steps = sorted((each.time_range.start, each.time_range.end) for each in marks)[1:]
        self.count = len(self._steps)
        self._calls = [each for each in self._host if not each.name.startswith(_MARKS)]

    def operators(self) -> tuple[Operator, ...]:
        """The calls of a typical step, by part and name; those that take most first."""
        taken: defaultdict[tuple[Part, str], Any] = defaultdict(lambda: np.zeros((3, self.count)))
        for number, part, each in self._called():
            kernels = sum(kernel.duration for kernel in each.kernels)
            own = max(each.self_cpu_time_total, 0.0)
            taken[part, each.name][:, number] += 1, own / 1e6, kernels / 1e6
        found = [
            Operator(part, name, *np.median(sums, axis=1).tolist())
            for (part, name), sums in taken.items()
        ]
        found.sort(key=lambda each: -(each.seconds + each.device_seconds))
        return tuple(found[:MOST_OPERATORS])

    def shapes(self) -> tuple[int, ...]:
        called: list[set[tuple[str, str]]] = [set() for _ in self._steps]
        for number, part, each in self._called():
            if part == COMPUTING and _SHAPED.search(each.name):
                called[number].add((each.name, str(each.input_shapes)))
        numbers: dict[Any, int] = {}
        return tuple(numbers.setdefault(frozenset(each), len(numbers)) for each in called)

    def time(self) -> ProfiledTime:
        steps = [self._divided(begin, end) for begin, end in self._steps]
        if not self._device:  # where the host computes, its own work is what operators leave
            for number, part, each in self._called():
                steps[number][part] -= each.self_cpu_time_total
            steps = [{name: max(taken, 0.0) for name, taken in each.items()} for each in steps]
        typical = {name: statistics.median(each[name] for each in steps) for name in steps[0]}
        # Other programs may take the processor in every other step: what the program itself does
        # outside of torch is there in three of four.
        typical["outside"] = sorted(each["outside"] for each in steps)[(len(steps) - 1) // 4]
        return ProfiledTime(**{name: taken / 1e6 for name, taken in typical.items()})

    def _divided(self, begin: float, end: float) -> dict[str, float]:
        """Microseconds, by the fields of ProfiledTime."""

        def when(events: Sequence[Any], *parts: str) -> Any:
            """For each microsecond of the step, whether one of the events is going on."""
            going_on = np.zeros(round(end - begin), dtype=bool)
            for each in events:
                first, last = each.time_range.start - begin, each.time_range.end - begin
                if last > 0 and first < len(going_on) and (not parts or self._part(each) in parts):
                    going_on[max(round(first), 0) : round(last)] = True
            return going_on

        data, update = when(self._host, _DATA), when(self._host, UPDATE)
        called = when(self._calls, *PARTS) & ~data
        if self._device:
            talking = [each for each in self._device if _COMMUNICATES.search(each.name)]
            copying = [each for each in self._device if each.name.lower().startswith("memcpy")]
            apart = {id(each) for each in (*talking, *copying)}
            busy = when([each for each in self._device if id(each) not in apart])
            communication, copies = when(talking) & ~busy, when(copying) & ~busy
        else:
            busy, copies = called, np.zeros_like(called)
            communication = when(self._calls, _COMMUNICATION) & ~busy
        copies &= ~communication
        rest = ~(communication | copies | data | (busy if self._device else False))
        outside = _long(rest & ~called)
        rest &= ~outside
        masks = {
            _COMMUNICATION: communication,
            "copies": copies,
            "outside": outside,
            COMPUTING: rest & ~update,
            UPDATE: rest & update,
        }
        return {"seconds": end - begin, **{name: float(it.sum()) for name, it in masks.items()}}

    def _called(self) -> list[tuple[int, Part, Any]]:
        """Each call of an operator that began in a step: that one's number, its part, itself."""
        found: list[tuple[int, Part, Any]] = []
        starts = [begin for begin, _ in self._steps]
        for each in self._calls:
            at, start = self._part(each), each.time_range.start
            part = next((one for one in PARTS if one == at), None)
            number = int(np.searchsorted(starts, start, side="right")) - 1
            if part is not None and number >= 0 and start <= self._steps[number][1]:
                found.append((number, part, each))
        return found

    def _part(self, event: Any) -> str:
        """What it belongs to, by its own name or that of what called it."""
        if id(event) not in self._parts:
            name = event.name
            if name == WAIT or name.startswith("enumerate(DataLoader)"):
                part = _DATA
            elif name.startswith("Optimizer."):
                part = UPDATE
            elif _COMMUNICATES.search(name):
                part = _COMMUNICATION
            else:
                part = COMPUTING if event.cpu_parent is None else self._part(event.cpu_parent)
            self._parts[id(event)] = part
        return self._parts[id(event)]


def _long(mask: Any) -> Any:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    found = np.zeros_like(mask)
    for first, last in edges.reshape(-1, 2):
        found[first:last] = last - first > OUTSIDE
    return found
