"""Where torch breaks a graph, and why it compiles one again: dynamo says so in its log."""

from __future__ import annotations

import logging
import re
from collections import Counter
from typing import Any, List, Tuple

from compilegate.job.profiling.record import Break
from compilegate.job.profiling.syncs import short_path

_BREAKS = "torch._dynamo.symbolic_convert.__graph_breaks"
_RECOMPILES = "torch._dynamo.guards.__recompiles"
_BREAK_AT = re.compile(r"in user code at (.+?):(\d+)\n")
_CODE_AT = re.compile(r"^Recompiling function (\S+) in (.+?):(\d+)")
_GUARD = re.compile(r"^\s*-\s*(?:\d+/\d+:\s*)?(.+)$", re.MULTILINE)
_REASON = re.compile(r"Graph Break Reason: (.*)", re.DOTALL)
_WHY = "Explanation: "
_DOING = "Encountered graph break when attempting to trace"
MOST_PLACES = 20


class GraphLog(logging.Handler):
    """What dynamo said while this listened. It costs something only when dynamo compiles."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._said: Counter[Tuple[str, str, str]] = Counter()
        self._loggers: List[Tuple[Any, int, bool]] = []

    def listen(self) -> None:
        """From here on."""
        for name in (_BREAKS, _RECOMPILES):
            logger = logging.getLogger(name)
            self._loggers.append((logger, logger.level, logger.propagate))
            # Nobody asked for these lines on the terminal, unless by TORCH_LOGS.
            logger.propagate = logger.propagate and logger.isEnabledFor(logging.DEBUG)
            logger.setLevel(logging.DEBUG)
            logger.addHandler(self)
        try:  # dynamo asks its own state, and not the logger, whether to say why it compiles again
            from torch._logging._internal import log_state  # noqa: PLC0415

            log_state.enable_artifact("recompiles")
        except (ImportError, AttributeError):
            return  # another torch: they are counted, without reasons

    def stop(self) -> None:
        """Stop it."""
        for logger, level, propagates in self._loggers:
            logger.removeHandler(self)
            logger.setLevel(level)
            logger.propagate = propagates
        self._loggers = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take a message of dynamo's apart."""
        text = record.getMessage()
        if record.name == _BREAKS:
            at = _BREAK_AT.search(text)
            where = f"{short_path(at[1])}:{at[2]}" if at else "unknown"
            reason = break_reason(text)
        else:
            code, guard = _CODE_AT.search(text), _GUARD.search(text)
            where = f"{short_path(code[2])}:{code[3]} ({code[1]})" if code else "unknown"
            reason = guard[1].split("  # ")[0].strip()[:300] if guard else "another guard"
        self._said[record.name, where, reason] += 1

    @property
    def breaks(self) -> Tuple[Break, ...]:
        """Most frequent first."""
        return self._listed(_BREAKS)

    @property
    def recompilations(self) -> Tuple[Break, ...]:
        """Most frequent first."""
        return self._listed(_RECOMPILES)

    def _listed(self, logger: str) -> Tuple[Break, ...]:
        found = [
            Break(where, reason, count)
            for (name, where, reason), count in self._said.most_common()
            if name == logger
        ]
        return tuple(found[:MOST_PLACES])


def break_reason(text: str) -> str:
    """Dynamo's reason in one line: what it met and its explanation, and not what it was doing."""
    found = _REASON.search(text)
    lines = [each.strip() for each in (found[1] if found else text).splitlines() if each.strip()]
    if len(lines) > 1 and lines[0].startswith(_DOING):
        del lines[0]
    why = next((each for each in lines if each.startswith(_WHY)), "")
    return f"{lines[0]} {why[len(_WHY) :]}".strip()[:300] if lines else "no reason given"
