"""What torch.profiler saw, as figures by operator, by device and by phase. Needs no torch: events
are anything that has what `Event` names."""

from __future__ import annotations

import bisect
import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from compilegate.job.profiling.record import PHASES, DeviceTime, Operator

STEP = "step"
"""The mark at the end of a step."""
MOST_OPERATORS = 400
_MEMORY = "[memory]"
_COPIES = ("memcpy",)
_COMMUNICATION = ("nccl", "gloo", "c10d", "record_param_comms", "mpi:", "ucc:")

Marks = Sequence[Tuple[int, str]]
"""When each phase began, in nanoseconds, in order; `STEP` where a step ended."""


@dataclass(frozen=True)
class Event:
    """Something that the profiler saw, on the host or on a device."""

    name: str
    start: int
    end: int
    """In nanoseconds since 1970."""
    thread: int
    on_device: bool
    shapes: str = ""
    number: int = 0
    """An operator's own, on the host."""
    launched_by: int = 0
    """The number of the operator that a kernel belongs to."""
    bytes: int = 0
    """How much an allocation took; below zero for what is freed."""


def events_of(profiler: Any) -> List[Event]:
    """Those of a torch.profiler that has ended."""
    import torch  # noqa: PLC0415 - the rest of this file does without

    host = torch.autograd.DeviceType.CPU
    return [
        Event(
            each.name(),
            each.start_ns(),
            each.start_ns() + each.duration_ns(),
            each.start_thread_id(),
            each.device_type() != host,
            str(each.shapes() or ""),
            each.correlation_id(),
            each.linked_correlation_id(),
            each.nbytes(),
        )
        for each in profiler.profiler.kineto_results.events()
    ]


def operators(events: Iterable[Event], marks: Marks, steps: int) -> Tuple[Operator, ...]:
    """The calls within `steps` steps, by phase, name and shapes; those that take most first."""
    events = list(events)
    phase_at = _phases(marks)
    groups: Dict[Tuple[str, str, str], List[float]] = defaultdict(list)
    group_of: Dict[int, Tuple[str, str, str]] = {}
    for event, own in own_times(events):
        phase = phase_at(event.start)
        if phase is None or "#" in event.name:  # the profiler's own remarks on optimizers
            continue
        group = phase, event.name, event.shapes
        groups[group].append(own / 1e3)
        group_of[event.number] = group
    on_device: Dict[Tuple[str, str, str], float] = defaultdict(float)
    for event in events:
        if event.on_device and event.name != _MEMORY:
            launcher = group_of.get(event.launched_by)
            if launcher is not None:
                on_device[launcher] += (event.end - event.start) / 1e3
    found = [
        Operator(
            phase,
            name,
            shapes,
            calls=len(own) / steps,
            microseconds=round(statistics.median(own), 3),
            device_microseconds=round(on_device[phase, name, shapes] / len(own), 3),
        )
        for (phase, name, shapes), own in groups.items()
    ]
    found.sort(key=lambda each: -each.calls * (each.microseconds + each.device_microseconds))
    return tuple(found[:MOST_OPERATORS]) + _rest(found[MOST_OPERATORS:])


def _rest(operators: Sequence[Operator]) -> Tuple[Operator, ...]:
    """Those that are too many to name, in one line for each phase."""
    found = []
    for phase in PHASES:
        few = [each for each in operators if each.phase == phase]
        calls = sum(each.calls for each in few)
        if calls:
            found.append(
                Operator(
                    phase,
                    "others",
                    "",
                    calls,
                    sum(each.calls * each.microseconds for each in few) / calls,
                    sum(each.calls * each.device_microseconds for each in few) / calls,
                )
            )
    return tuple(found)


def own_times(events: Iterable[Event]) -> Iterable[Tuple[Event, int]]:
    """Each event on the host, with its time without what it calls, in nanoseconds."""
    threads: Dict[int, List[Event]] = defaultdict(list)
    for each in events:
        if not each.on_device and each.name != _MEMORY:
            threads[each.thread].append(each)
    for thread in threads.values():
        thread.sort(key=lambda each: (each.start, -each.end))
        own = [each.end - each.start for each in thread]
        open_ones: List[int] = []
        for index, each in enumerate(thread):
            while open_ones and thread[open_ones[-1]].end <= each.start:
                open_ones.pop()
            if open_ones:
                own[open_ones[-1]] -= each.end - each.start
            open_ones.append(index)
        for each, taken in zip(thread, own):
            yield each, max(taken, 0)


def on_device(events: Iterable[Event], marks: Marks, steps: int) -> Optional[DeviceTime]:
    """How busy the device was; None where nothing ran on one."""
    ends = [at for at, phase in marks if phase == STEP]
    if not ends or not steps:
        return None
    began, ended = marks[0][0], ends[-1]
    spans = [
        each
        for each in events
        if each.on_device and each.name != _MEMORY and began <= each.start < ended
    ]
    if not spans:
        return None
    copies = [each for each in spans if each.name.lower().startswith(_COPIES)]
    talking = [each for each in spans if each.name.lower().startswith(_COMMUNICATION)]
    apart = {id(each) for each in (*copies, *talking)}
    kernels = _united([each for each in spans if id(each) not in apart])
    with_copies = _united([*(each for each in spans if id(each) not in apart), *copies])
    everything = _united(spans)
    return DeviceTime(
        step=(ended - began) / 1e9 / steps,
        busy=_length(kernels) / steps,
        # Only what nothing was computed beside.
        copies=(_length(with_copies) - _length(kernels)) / steps,
        communication=(_length(everything) - _length(with_copies)) / steps,
        idle_in={
            phase: seconds / steps for phase, seconds in _idle(everything, marks, ended).items()
        },
    )


def highest_memory(events: Iterable[Event], marks: Marks) -> Mapping[str, int]:
    """By phase, the most bytes beyond what the step began with."""
    phase_at = _phases(marks)
    ends = [at for at, phase in marks if phase == STEP]
    found: Dict[str, int] = {}
    held = began_with = 0
    for each in sorted((each for each in events if each.name == _MEMORY), key=lambda it: it.start):
        while ends and each.start >= ends[0]:
            ends.pop(0)
            began_with = held
        held += each.bytes
        phase = phase_at(each.start)
        if phase is not None:
            found[phase] = max(found.get(phase, 0), held - began_with)
    return found


def communication_seconds(found: Iterable[Operator]) -> float:
    """A step, on the host."""
    return (
        sum(
            each.calls * each.microseconds
            for each in found
            if each.name.lower().startswith(_COMMUNICATION)
        )
        / 1e6
    )


def _phases(marks: Marks) -> Any:
    """A function of a moment: the phase that was under way; None before the first."""
    begins = [(at, phase) for at, phase in marks if phase != STEP]
    times = [at for at, _ in begins]

    def at(moment: int) -> Optional[str]:
        index = bisect.bisect_right(times, moment) - 1
        return begins[index][1] if index >= 0 else None

    return at


_Span = Tuple[int, int]


def _united(events: Sequence[Event]) -> List[_Span]:
    """The time that any of them takes, as spans that do not touch."""
    found: List[_Span] = []
    for each in sorted(events, key=lambda it: it.start):
        if found and each.start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], each.end)
        else:
            found.append((each.start, each.end))
    return found


def _length(spans: Sequence[_Span]) -> float:
    return sum(end - start for start, end in spans) / 1e9


def _idle(busy: Sequence[_Span], marks: Marks, ended: int) -> Mapping[str, float]:
    """Seconds between the spans, by the phase that the host was in."""
    begins = [(at, phase) for at, phase in marks if phase != STEP]
    gaps: List[_Span] = []
    cursor = marks[0][0]
    for start, end in busy:
        if start > cursor:
            gaps.append((cursor, min(start, ended)))
        cursor = max(cursor, end)
    if cursor < ended:
        gaps.append((cursor, ended))
    found: Dict[str, float] = defaultdict(float)
    bounds = [*(at for at, _ in begins[1:]), ended]
    for (start, phase), end in zip(begins, bounds):
        for gap_start, gap_end in gaps:
            overlap = min(end, gap_end) - max(start, gap_start)
            if overlap > 0:
                found[phase] += overlap / 1e9
    return found
