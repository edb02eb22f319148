"""What torch.profiler saw, as the figures of a typical step. Medians over steps: a mean charges an
operator for one call that lost the processor."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from typing import Any, Sequence

import numpy as np

from compilegate.job.profiling.record import COMPUTING, PARTS, UPDATE, Operator, Part, ProfiledTime

WAIT = "compilegate: wait for data"  # the profiler's mark of a step's wait for its batch
MOST_OPERATORS = 400
OUTSIDE = 1000  # microseconds without an operator: the program reads, writes, or sleeps
_DATA, _COMMUNICATION = "data", "communication"
_MARKS = (WAIT, "ProfilerStep", "Optimizer.", "enumerate(DataLoader)", "DistributedDataParallel")
"""What is no operator, but a name for all that is called within."""
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
        """The number of each step's shapes."""
        called: list[set[tuple[str, str]]] = [set() for _ in self._steps]
        for number, part, each in self._called():
            if part == COMPUTING and _SHAPED.search(each.name):
                called[number].add((each.name, str(each.input_shapes)))
        numbers: dict[Any, int] = {}
        return tuple(numbers.setdefault(frozenset(each), len(numbers)) for each in called)

    def time(self) -> ProfiledTime:
        """How a typical step's time is divided."""
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
    """The stretches of a mask that are longer than OUTSIDE."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    found = np.zeros_like(mask)
    for first, last in edges.reshape(-1, 2):
        found[first:last] = last - first > OUTSIDE
    return found
