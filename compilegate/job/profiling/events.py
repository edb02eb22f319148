"""What torch.profiler saw, as the figures of a typical step.

Medians over steps, where `key_averages` has means: one call that loses the processor to another
program would be charged to its operator.
"""

from __future__ import annotations

import bisect
import re
import statistics
from collections import defaultdict
from typing import Any, DefaultDict, Dict, List, Optional, Sequence, Tuple

from compilegate.job.profiling.record import COMPUTING, PARTS, UPDATE, Operator, Part, ProfiledTime

WAIT = "compilegate: wait for data"
"""The profiler's mark of a step's wait for its batch."""
MOST_OPERATORS = 400
OUTSIDE = 1000.0
"""Microseconds without an operator from which the program does something else than to launch the
next one: it reads, writes, or sleeps."""
_DATA = "data"
_MARKS = (WAIT, "ProfilerStep", "Optimizer.", "enumerate(DataLoader)", "DistributedDataParallel")
"""What is no operator, but a name for all that is called within."""
_COMMUNICATION = re.compile(r"nccl|gloo|c10d|record_param_comms|mpi:|ucc:", re.IGNORECASE)
_SHAPED = re.compile(r"::(addmm|mm|bmm|baddbmm|linear|\w*convolution\w*|embedding)$")
"""Operators whose inputs' shapes are a step's: others may be called now and then."""

Spans = List[Tuple[float, float]]
"""Times that do not touch, in order, in microseconds."""


class Events:
    """The events of a torch.profiler that has ended, step by step."""

    def __init__(self, events: Sequence[Any]) -> None:
        """`events` are `profiler.events()`, or look like them."""
        self._parts: Dict[int, Optional[str]] = {}
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

    def operators(self) -> Tuple[Operator, ...]:
        """The calls of a typical step, by part and name; those that take most first."""
        taken: DefaultDict[Tuple[Part, str], List[List[float]]] = defaultdict(
            lambda: [[0.0, 0.0, 0.0] for _ in self._steps]
        )
        for each in self._calls:
            found_in, step = self._part(each), self._step(each)
            part = next((one for one in PARTS if one == found_in), None)
            if part is None or step is None:
                continue
            sums = taken[part, each.name][step]
            sums[0] += 1
            sums[1] += max(each.self_cpu_time_total, 0.0) / 1e6
            sums[2] += sum(kernel.duration for kernel in each.kernels) / 1e6
        found = [
            Operator(part, name, *(statistics.median(each) for each in zip(*by_step)))
            for (part, name), by_step in taken.items()
        ]
        found.sort(key=lambda each: -(each.seconds + each.device_seconds))
        return tuple(found[:MOST_OPERATORS])

    def time(self) -> ProfiledTime:
        """How a typical step's time is divided."""
        steps = [self._divided(begin, end) for begin, end in self._steps]

        def typical(name: str) -> float:
            return statistics.median(each[name] for each in steps) / 1e6

        # Other programs may take the processor in every other step: what the program itself does
        # outside of torch is there in three of four.
        outside = sorted(each["outside"] for each in steps)[(len(steps) - 1) // 4]
        return ProfiledTime(
            typical("seconds"),
            typical("communication"),
            typical("copies"),
            outside / 1e6,
            typical(COMPUTING),
            typical(UPDATE),
        )

    def shapes(self) -> Tuple[int, ...]:
        """The number of each step's shapes."""
        called: List[set[Tuple[str, str]]] = [set() for _ in self._steps]
        for each in self._calls:
            step = self._step(each)
            if step is not None and _SHAPED.search(each.name) and self._part(each) == COMPUTING:
                called[step].add((each.name, str(each.input_shapes)))
        numbers: Dict[frozenset[Tuple[str, str]], int] = {}
        return tuple(numbers.setdefault(frozenset(each), len(numbers)) for each in called)

    def _divided(self, begin: float, end: float) -> Dict[str, float]:
        def spans(events: Sequence[Any], *parts: str) -> Spans:
            return _within(
                [each for each in events if not parts or self._part(each) in parts], begin, end
            )

        data, update = spans(self._host, _DATA), spans(self._host, UPDATE)
        called = _minus(spans(self._calls, *PARTS), data)
        if self._device:
            talking = [each for each in self._device if _COMMUNICATION.search(each.name)]
            copying = [each for each in self._device if each.name.lower().startswith("memcpy")]
            apart = {id(each) for each in (*talking, *copying)}
            busy = spans([each for each in self._device if id(each) not in apart])
            communication, copies = spans(talking), spans(copying)
        else:
            busy, communication, copies = called, spans(self._calls, _COMMUNICATION.pattern), []
        communication = _minus(communication, busy)
        copies = _minus(_minus(copies, busy), communication)
        idle = [(begin, end)]
        for each in (communication, copies, data, *([busy] if self._device else [])):
            idle = _minus(idle, each)
        outside = [each for each in _minus(idle, called) if each[1] - each[0] > OUTSIDE]
        idle = _minus(idle, outside)
        computing = _minus(idle, update)
        return {
            "seconds": end - begin,
            "communication": _length(communication),
            "copies": _length(copies),
            "outside": _length(outside),
            COMPUTING: _length(computing),
            UPDATE: _length(idle) - _length(computing),
        }

    def _step(self, event: Any) -> Optional[int]:
        at = bisect.bisect_right(self._steps, (event.time_range.start, float("inf"))) - 1
        inside = at >= 0 and event.time_range.start <= self._steps[at][1]
        return at if inside else None

    def _part(self, event: Any) -> Optional[str]:
        """What it belongs to, by its own name or that of what called it."""
        key = id(event)
        if key not in self._parts:
            parent = event.cpu_parent
            inherited = COMPUTING if parent is None else self._part(parent)
            self._parts[key] = _part_by_name(event.name) or inherited
        return self._parts[key]


def _part_by_name(name: str) -> Optional[str]:
    if name == WAIT or name.startswith("enumerate(DataLoader)"):
        return _DATA
    if name.startswith("Optimizer."):
        return UPDATE
    return _COMMUNICATION.pattern if _COMMUNICATION.search(name) else None


def _within(events: Sequence[Any], begin: float, end: float) -> Spans:
    """The time between these bounds that any of the events takes."""
    found: Spans = []
    ranges = ((each.time_range.start, each.time_range.end) for each in events)
    for start, stop in sorted((max(each[0], begin), min(each[1], end)) for each in ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], stop)
        elif start < stop:
            found.append((start, stop))
    return found


def _minus(spans: Spans, others: Spans) -> Spans:
    """What is left of the first without the second."""
    found: Spans = []
    at = 0
    for start, stop in spans:
        left = start
        while at < len(others) and others[at][1] <= left:
            at += 1
        cut = at
        while cut < len(others) and others[cut][0] < stop:
            if others[cut][0] > left:
                found.append((left, others[cut][0]))
            left = max(left, others[cut][1])
            cut += 1
        if left < stop:
            found.append((left, stop))
    return found


def _length(spans: Spans) -> float:
    return sum(stop - start for start, stop in spans)
