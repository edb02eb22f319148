"""What slows steps and shows without a profiler: reads of a tensor's value, graph breaks and
recompilations, of which dynamo logs where and why."""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Sequence

from compilegate.job.evidence import Slowdown
from compilegate.job.evidence.record import BREAKS, RECOMPILATIONS, SHAPES, SYNCHRONISATION
from compilegate.job.evidence.record import MOST_PLACES as MOST_RECORDED

_READERS = ("item", "tolist", "numpy", "cpu", "__bool__", "__float__", "__int__", "nonzero")
"""Methods of a tensor after which the program knows its value, or its shape."""
_ONLY_FROM_A_DEVICE = ("numpy", "cpu")
_OWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
_TORCH = "/torch/"
_OPTIMIZERS = "/torch/optim/"  # which ask for the number of their step on the host
MOST_PLACES = 20
NOTABLE_WAIT = 0.25  # share of the steps' time from which on the wait for batches is worth a remark
FIRST_WATCHED, STEPS_WATCHED = 12, 3
"""After so many steps everything is compiled and probed; so many show what every step does."""
CALLS_WATCHED = 64  # calls of each compiled function whose shapes are remembered
MOST_STEADY_SHAPES = 4  # graphs that a compiler makes without much ado


@dataclass(frozen=True)
class Place:
    """A line of the program where a value was asked for, or torch left a graph or compiled one
    anew."""

    where: str  # ``train.py:42``
    count: int
    reason: str = ""


def changing(shapes: Sequence[Any]) -> int:
    """How many shapes there are, call by call or step by step, if they keep coming; else zero."""
    new = [at for at, each in enumerate(shapes) if each not in shapes[:at]]
    late = sum(at >= len(shapes) // 2 for at in new)
    return len(new) if len(new) > MOST_STEADY_SHAPES or (len(new) > 2 and late > 1) else 0


def reads_each_step(
    counted: Iterable[tuple[str, int]], steps: int
) -> tuple[float, tuple[str, ...]]:
    """How often each step reads a value, and in which lines."""
    each_step = [(line, count) for line, count in counted if count >= steps]
    count = sum(count for _, count in each_step) / max(steps, 1)
    return count, tuple(line for line, _ in each_step)


class SynchronisationWatch:
    """Counts reads of tensor values by line, in wrappers around torch's methods. Needs torch
    imported."""

    def __init__(self) -> None:
        self._originals: dict[str, Any] = {}
        self.counts: Counter[str] = Counter()  # by line
        self._inside = False

    def start(self) -> None:
        tensor: Any = sys.modules["torch"].Tensor
        for name in _READERS:
            self._originals[name] = vars(tensor).get(name)
            setattr(tensor, name, self._watched(name, getattr(tensor, name)))

    def stop(self) -> None:
        tensor: Any = sys.modules["torch"].Tensor
        for name, original in self._originals.items():
            if original is None:
                delattr(tensor, name)
            else:
                setattr(tensor, name, original)
        self._originals = {}

    def _watched(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        torch: Any = sys.modules["torch"]
        compiling = getattr(getattr(torch, "compiler", None), "is_compiling", bool)
        needs_device = name in _ONLY_FROM_A_DEVICE

        @functools.wraps(original)
        def counted(tensor: Any, *arguments: Any, **named: Any) -> Any:
            if compiling() or self._inside or (needs_device and tensor.device.type == "cpu"):
                return original(tensor, *arguments, **named)
            self._inside = True
            try:
                return original(tensor, *arguments, **named)
            finally:
                self._inside = False
                where = _line_of(sys._getframe(1))
                if where is not None:
                    self.counts[where] += 1

        dynamo = sys.modules.get("torch._dynamo")
        # Where a graph has broken, dynamo would take the wrapper for the program's and break in it.
        return counted if dynamo is None else dynamo.disable(counted)


def _line_of(frame: Any) -> str | None:
    """The nearest line of the program itself; None where the job or an optimizer asks."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_OWN) or _OPTIMIZERS in file:
            return None
        if _TORCH not in file and not file.startswith("<"):
            return f"{_short_path(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def _short_path(path: str) -> str:
    """As a reader knows it: within the working folder, or in a library."""
    _, installed, inside = path.rpartition("/site-packages/")
    if installed:
        return inside
    inside = os.path.relpath(path)
    return path if inside.startswith("..") else inside


_BREAKS = "torch._dynamo.symbolic_convert.__graph_breaks"
_RECOMPILES = "torch._dynamo.guards.__recompiles"
_BREAK_AT = re.compile(r"in user code at (.+?):(\d+)\n")
_CODE_AT = re.compile(r"^Recompiling function (\S+) in (.+?):(\d+)")
_GUARD = re.compile(r"^\s*-\s*(?:\d+/\d+:\s*)?(.+)$", re.MULTILINE)
_REASON = re.compile(r"Graph Break Reason: (.*)", re.DOTALL)
_WHY = "Explanation: "
_DOING = "Encountered graph break when attempting to trace"


class GraphLog(logging.Handler):
    """What dynamo logs while this listens. It costs something only when dynamo compiles."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._found: Counter[tuple[str, str, str]] = Counter()

    def listen(self) -> None:
        for name in (_BREAKS, _RECOMPILES):
            logger = logging.getLogger(name)
            # Nobody asked for these lines on the terminal, unless by TORCH_LOGS.
            logger.propagate = logger.propagate and logger.isEnabledFor(logging.DEBUG)
            logger.setLevel(logging.DEBUG)
            logger.addHandler(self)
        try:  # dynamo asks its own state, and not the logger, whether to say why it compiles again
            from torch._logging._internal import log_state  # noqa: PLC0415

            log_state.enable_artifact("recompiles")
        except (ImportError, AttributeError):
            return  # another torch: they are counted, without reasons

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.name == _BREAKS:
            at = _BREAK_AT.search(text)
            where = f"{_short_path(at[1])}:{at[2]}" if at else "unknown"
            reason = break_reason(text)
        else:
            code, guard = _CODE_AT.search(text), _GUARD.search(text)
            where = f"{_short_path(code[2])}:{code[3]} ({code[1]})" if code else "unknown"
            reason = guard[1].split("  # ")[0].strip()[:300] if guard else "another guard"
        self._found[record.name, where, reason] += 1

    @property
    def breaks(self) -> tuple[Place, ...]:
        return self._listed(_BREAKS)

    @property
    def recompilations(self) -> tuple[Place, ...]:
        return self._listed(_RECOMPILES)

    def _listed(self, logger: str) -> tuple[Place, ...]:
        """Most frequent first."""
        found = self._found.most_common()
        places = [Place(where, count, why) for (name, where, why), count in found if name == logger]
        return tuple(places[:MOST_PLACES])


def break_reason(text: str) -> str:
    """Dynamo's reason in one line: what it met and its explanation, and not what it was doing."""
    found = _REASON.search(text)
    lines = [each.strip() for each in (found[1] if found else text).splitlines() if each.strip()]
    if len(lines) > 1 and lines[0].startswith(_DOING):
        del lines[0]
    why = next((each for each in lines if each.startswith(_WHY)), "")
    return f"{lines[0]} {why[len(_WHY) :]}".strip()[:300] if lines else "no reason given"


class SlowdownWatch:
    """What may slow steps, looked at in a few of the first: all others go on undisturbed."""

    def __init__(self) -> None:
        self.at = FIRST_WATCHED  # after which step `look` is to be called
        self._watch: SynchronisationWatch | None = None
        self._reads: list[tuple[str, int]] = []
        self._shapes: dict[str, list[Any]] = {}

    def look(self) -> None:
        """Begin to watch, or stop."""
        if self._watch is not None or "torch" not in sys.modules:
            self._stop()
            return
        self.at += STEPS_WATCHED
        self._watch = SynchronisationWatch()
        self._watch.start()

    def _stop(self) -> None:
        self.at = -1
        if self._watch is not None:
            self._watch.stop()
            self._reads, self._watch = self._watch.counts.most_common(), None

    def see_shapes(self, function: str, shapes: Any) -> None:
        seen = self._shapes.setdefault(function, [])
        if len(seen) < CALLS_WATCHED:
            seen.append(shapes)

    def found(
        self, *, declared_shapes: float, graphs: GraphLog | None, compiled_again: bool
    ) -> list[Slowdown]:
        """What was seen. `declared_shapes` need no remark, and nor do recompilations unless
        `compiled_again`: graphs came too late."""
        self._stop()
        found: list[Slowdown] = []
        count, lines = reads_each_step(self._reads, STEPS_WATCHED)
        if lines:
            found.append(Slowdown(SYNCHRONISATION, count, where=lines[:MOST_RECORDED]))
        shapes = max(map(changing, self._shapes.values()), default=0)
        if shapes > declared_shapes:
            found.append(Slowdown(SHAPES, shapes))
        kinds: dict[str, Any] = {} if graphs is None else {BREAKS: graphs.breaks}
        if graphs is not None and compiled_again:
            kinds[RECOMPILATIONS] = graphs.recompilations
        for kind, places in kinds.items():
            if places:
                where = tuple(dict.fromkeys(each.where for each in places))[:MOST_RECORDED]
                count = sum(each.count for each in places)
                found.append(Slowdown(kind, count, where=where, reason=places[0].reason))
        return found
