"""Leads a process through its profile, step by step, and ends it."""

from __future__ import annotations

import atexit
import gzip
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

import torch

from compilegate.job.files import whole_file, write_json
from compilegate.job.machine.memory import peak_memory
from compilegate.job.machine.world import world_of
from compilegate.job.names import (
    OUTPUT_DATA_VARIABLE,
    PROFILE_FILE,
    PROFILE_FOLDER,
    PROFILE_VARIABLE,
    TRACE_FILE,
)
from compilegate.job.profiling.capture import capture_calls
from compilegate.job.profiling.events import (
    STEP,
    events_of,
    highest_memory,
    on_device,
    operators,
    own_times,
)
from compilegate.job.profiling.graphs import GraphLog
from compilegate.job.profiling.hooks import Hooks, device_of, weights_of
from compilegate.job.profiling.inputs import Inputs
from compilegate.job.profiling.record import (
    OTHER,
    Captured,
    Line,
    Memory,
    PhaseTime,
    Profile,
    document_of,
)
from compilegate.job.profiling.sampler import Sampler
from compilegate.job.profiling.stopwatch import Stopwatch
from compilegate.job.profiling.syncs import SynchronisationWatch

FEWEST_STEPS = 12


class ProfileWritten(SystemExit):
    """The profile is written; the program ends here, with success."""


@dataclass(frozen=True)
class Plan:
    """How many steps of each sort are taken, one sort after the other."""

    warm_up: int
    plain: int
    looked_at: int
    """With a thread beside them that looks at the program's lines, and wrappers around torch's
    methods: either may hold the program up, so these are not timed."""
    profiled: int
    captured: int

    @classmethod
    def of(cls, steps: int) -> Plan:
        """So many in all."""
        steps = max(steps, FEWEST_STEPS)
        few = max(steps // 7, 2)
        warm_up = max(few, 4)
        return cls(warm_up, steps - warm_up - 3 * few, few, few, few)


class Session:
    """The profile of this process. `end_step` is called after each step."""

    def __init__(self, folder: Path, steps: int, *, program: str) -> None:
        self._folder = folder
        self._plan = Plan.of(steps)
        self._program = program
        self._watch = Stopwatch()
        self._hooks = Hooks(self._watch, updated=self._updated, called=self._called)
        self._inputs = Inputs()
        self._syncs = SynchronisationWatch(lambda: self._watch.phase)
        self._sampler = Sampler(lambda: self._watch.phase)
        self._graphs = GraphLog()
        self._profiler: Any = None
        self._plain: List[Mapping[str, PhaseTime]] = []
        self._profiled: List[Mapping[str, PhaseTime]] = []
        self._taken = self._warmed_up = self._looked_at = 0
        self._captured_steps = 0
        self._capture_obstacle: Optional[str] = None
        self._written = self._told = False
        self.says_steps = False
        """Whether the program says itself where a step ends; else the first optimizer's update
        does."""
        self.arm: Optional[str] = None
        self.compiler = "eager"
        self.batch_size: Optional[int] = None

    def start(self) -> None:
        """Listen to torch."""
        self._hooks.install()
        self._graphs.listen()

    def fetching(self) -> None:
        """The step waits for its batch."""
        self._hooks.fetching()

    def fetched(self) -> None:
        """It has it."""
        self._hooks.fetched()

    def elsewhere(self) -> None:
        """Something begins that is no part of a step."""
        self._watch.enter(OTHER)

    def end_step(self) -> None:
        """A step is over. Ends the program after the last one."""
        self._inputs.end_step()
        if self._watch.marks is not None:
            self._watch.marks.append((_now(), STEP))
        self._take(self._watch.lap())
        self._watch.restart()  # what this took is of no step

    def _take(self, times: Mapping[str, PhaseTime]) -> None:
        """The step is of the sort that is due; the next sort begins after the last of it."""
        plan = self._plan
        self._taken += 1
        if self._warmed_up < plan.warm_up:
            self._warmed_up += 1
        elif len(self._plain) < plan.plain:
            self._plain.append(times)
            if len(self._plain) == plan.plain:
                self._sampler.start()
                self._syncs.start()
        elif self._looked_at < plan.looked_at:
            self._looked_at += 1
            if self._looked_at == plan.looked_at:
                self._syncs.stop()
                self._sampler.stop()
                self._start_profiler()
        elif len(self._profiled) < plan.profiled:
            self._profiled.append(times)
            if len(self._profiled) == plan.profiled:
                self._end_profiler()
        else:
            self._captured_steps += 1
            if self._captured_steps == plan.captured:
                self._finish()

    def _end_profiler(self) -> None:
        self._profiler.stop()
        if not self._start_capture():
            self._finish()

    def end(self) -> None:
        """The program ends by itself: what was measured is written, if it is enough."""
        if not self._written and len(self._plain) >= 2:
            if self._profiler is not None and len(self._profiled) < self._plan.profiled:
                self._profiler.stop()
            self._syncs.stop()
            self._sampler.stop()
            self._write()
        elif not self._written and not self._told:
            self._told = True
            why = (
                f"the program ended after {self._taken} training steps, expected "
                f"{self._plan.warm_up + 2} or more to profile; give it more data or epochs"
                if self._taken
                else "the program took no training step, expected some by an optimizer of torch's"
            )
            print(
                f"compilegate: {why}",
                file=sys.stderr,
                flush=True,
            )

    def fail(self) -> None:
        """The program fails: what it printed says why."""
        self._told = True

    @property
    def over(self) -> bool:
        """Whether the profile is written."""
        return self._written

    def _updated(self, optimizer: Any) -> None:
        if not self.says_steps and optimizer is self._hooks.optimizers[0]:
            self.end_step()

    def _called(self, _module: Any, arguments: Any, named: Any) -> None:
        self._inputs.see(arguments, named)

    def _start_profiler(self) -> None:
        from torch.profiler import ProfilerActivity, profile  # noqa: PLC0415 - slow to import

        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            torch.cuda.synchronize()
            activities.append(ProfilerActivity.CUDA)
        self._profiler = profile(activities=activities, profile_memory=True, record_shapes=True)
        self._profiler.start()
        self._watch.marks = [(_now(), self._watch.phase)]

    def _start_capture(self) -> bool:
        """For an eager program: have torch capture the next steps, to see what a compiler would
        meet. Whether there is anything to capture."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self._marks = self._watch.marks or []
        self._watch.marks = None
        if self.compiler != "eager" or _dynamo_ran():
            return False
        self._capture_obstacle = capture_calls(self._hooks.roots)
        return self._capture_obstacle is None

    def _finish(self) -> None:
        self._write()
        raise ProfileWritten(0)

    def _write(self) -> None:
        self._written = True
        self._graphs.stop()
        if not world_of(os.environ).first:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        trace = self._write_trace() if self._profiler is not None else None
        profile = self._profile(trace)
        write_json(self._folder / PROFILE_FILE, document_of(profile))
        print(f"compilegate: the profile is in {self._folder / PROFILE_FILE}", flush=True)

    def _profile(self, trace: Optional[str]) -> Profile:
        marks = getattr(self, "_marks", [])
        events = [] if self._profiler is None else events_of(self._profiler)
        steps = max(len(self._profiled), 1)
        device = device_of(self._hooks.optimizers) or torch.device("cpu")
        compiled = self.compiler != "eager" or (_dynamo_ran() and not self._captured_steps)
        return Profile(
            program=self._program,
            arm=self.arm,
            compiler="torch.compile" if compiled and self.compiler == "eager" else self.compiler,
            device=device.type,
            hardware=_hardware(device),
            torch=str(torch.__version__),
            threads=torch.get_num_threads(),
            processes=world_of(os.environ).size,
            batch_size=self.batch_size or self._inputs.batch_size,
            steps=tuple(self._plain),
            profiled=tuple(self._profiled),
            warm_up=self._warmed_up,
            looked_at=max(self._looked_at, 1),
            operators=operators(events, marks, steps),
            least_microseconds=_least_microseconds(),
            on_device=on_device(events, marks, steps),
            synchronisations=tuple(
                Line(where, phase, what, count, round(self._syncs.seconds[where, phase, what], 9))
                for (where, phase, what), count in self._syncs.counts.most_common(20)
            ),
            lines=self._sampler.lines(),
            captured=self._captured(compiled),
            shapes=self._inputs.shapes(),
            lengths=self._inputs.lengths(),
            memory=self._memory(events, marks, device),
            trace=trace,
        )

    def _captured(self, compiled: bool) -> Optional[Captured]:
        if not compiled and not self._captured_steps and self._capture_obstacle is None:
            return None
        return Captured(
            steps=self._taken if compiled else self._captured_steps,
            graphs=_graphs_compiled(),
            breaks=self._graphs.breaks,
            recompilations=self._graphs.recompilations,
            by="compiler" if compiled else "capture",
            obstacle=self._capture_obstacle,
        )

    def _memory(self, events: Any, marks: Any, device: torch.device) -> Memory:
        weights = weights_of(self._hooks.optimizers)
        states = [
            value
            for optimizer in self._hooks.optimizers
            for state in optimizer.state.values()
            for value in state.values()
            if isinstance(value, torch.Tensor)
        ]
        return Memory(
            weights=sum(map(_bytes, weights)),
            # All at once, as before the update.
            gradients=sum(_bytes(each) for each in weights if each.requires_grad),
            optimizer=sum(map(_bytes, states)),
            highest_in=highest_memory(events, marks),
            peak=peak_memory(device)[0],
        )

    def _write_trace(self) -> str:
        """For Perfetto, with the phases in a row of their own."""
        with tempfile.TemporaryDirectory() as folder:
            plain = os.path.join(folder, "trace.json")
            self._profiler.export_chrome_trace(plain)
            with open(plain, encoding="utf-8", errors="replace") as file:
                document = json.load(file)
        document["traceEvents"] += _phase_events(
            getattr(self, "_marks", []), document.get("baseTimeNanoseconds", 0)
        )
        with whole_file(self._folder / TRACE_FILE) as part, gzip.open(part, "wt") as file:
            json.dump(document, file)
        return TRACE_FILE


def _phase_events(marks: Any, base: int) -> List[Dict[str, Any]]:
    events: List[Dict[str, Any]] = []
    begins = [each for each in marks if each[1] != STEP]
    for (start, phase), (end, _) in zip(begins, begins[1:]):
        events.append(
            {
                "ph": "X",
                "cat": "phase",
                "name": phase,
                "pid": "compilegate",
                "tid": "phases",
                "ts": (start - base) / 1e3,
                "dur": (end - start) / 1e3,
            }
        )
    return events


def _now() -> int:
    import time  # noqa: PLC0415

    return time.time_ns()


def _bytes(tensor: Any) -> int:
    size: int = tensor.numel() * tensor.element_size()
    return size


def _hardware(device: torch.device) -> str:
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"{torch.get_num_threads()} threads of a processor"


def _dynamo_ran() -> bool:
    return _graphs_compiled() > 0


def _graphs_compiled() -> int:
    dynamo = sys.modules.get("torch._dynamo.utils")
    return 0 if dynamo is None else int(dynamo.counters["stats"].get("unique_graphs", 0))


def _least_microseconds() -> float:
    """What an operator takes on the host for itself, under the profiler, that adds two numbers."""
    from torch.profiler import ProfilerActivity, profile  # noqa: PLC0415 - slow to import

    number = torch.zeros(1)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        for _ in range(200):
            torch.add(number, number)
    taken = sorted(
        own for event, own in own_times(events_of(profiler)) if event.name == "aten::add"
    )
    return taken[len(taken) // 2] / 1e3 if taken else 0.0


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
