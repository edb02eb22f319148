"""What may slow a job's steps, looked at in a few of the first: all others go on undisturbed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

from compilegate.job.evidence import Hindrance
from compilegate.job.evidence.hindrances import (
    BREAKS,
    MOST_PLACES,
    RECOMPILATIONS,
    RULES,
    SHAPES,
    SYNCHRONISATION,
)
from compilegate.job.profiling.syncs import SynchronisationWatch, by_line

if TYPE_CHECKING:
    from compilegate.job.profiling.graphs import GraphLog

FIRST_LOOK, STEPS_LOOKED_AT = 12, 3
"""After so many steps everything is compiled and probed; so many show what every step does."""
CALLS_LOOKED_AT = 64
"""Calls of each compiled function whose shapes are remembered."""
MOST_STEADY_SHAPES = 4
_NEVER = -1


class Looking:
    """Looks at steps, and says what it saw."""

    def __init__(self) -> None:
        self.at = FIRST_LOOK
        """After which step something is to be done."""
        self._watch: Optional[SynchronisationWatch] = None
        self._asked: List[Tuple[str, int]] = []
        self._shapes: Dict[str, List[Any]] = {}

    def go_on(self) -> None:
        """It is that step: begin to watch, or stop."""
        if self._watch is not None:
            self.stop()
        elif "torch" in sys.modules:
            self._watch = SynchronisationWatch()
            self._watch.start()
            self.at += STEPS_LOOKED_AT
        else:
            self.at = _NEVER

    def stop(self) -> None:
        """Stop watching, if it is."""
        self.at = _NEVER
        if self._watch is not None:
            self._watch.stop()
            self._asked, self._watch = by_line(self._watch), None

    def begin_at(self, step: int) -> None:
        """The process takes its first step after that one."""
        self.at = step + FIRST_LOOK

    def see_shapes(self, function: str, shapes: Any) -> None:
        """A compiled function is called with them."""
        self._shapes.setdefault(function, []).append(shapes)

    def hindrances(
        self,
        *,
        declared_shapes: int,
        dynamic: bool,
        graphs: Optional[GraphLog],
        compiled_again: bool,
    ) -> List[Hindrance]:
        """What was seen. `dynamic`: the compiler was told that shapes change. `compiled_again`:
        steps had graphs that came too late; those of declared shapes do not."""
        self.stop()
        found = [_asking(self._asked), *([] if dynamic else [self._changing(declared_shapes)])]
        if graphs is not None:
            found.append(_of_graphs(BREAKS, graphs.breaks))
            if compiled_again:
                found.append(_of_graphs(RECOMPILATIONS, graphs.recompilations))
        return [each for each in found if each is not None]

    def _changing(self, declared: int) -> Optional[Hindrance]:
        for seen in self._shapes.values():
            new = [at for at, each in enumerate(seen) if each not in seen[:at]]
            late = sum(at >= len(seen) // 2 for at in new)
            if len(new) > max(declared, MOST_STEADY_SHAPES) or (
                len(new) > max(declared, 2) and late > 1
            ):
                return Hindrance(SHAPES, len(new), rule=RULES[SHAPES])
        return None


def _asking(lines: Sequence[Tuple[str, int]]) -> Optional[Hindrance]:
    each_step = [(where, count) for where, count in lines if count >= STEPS_LOOKED_AT]
    if not each_step:
        return None
    return Hindrance(
        SYNCHRONISATION,
        sum(count for _, count in each_step) / STEPS_LOOKED_AT,
        where=tuple(where for where, _ in each_step[:MOST_PLACES]),
        rule=RULES[SYNCHRONISATION],
    )


def _of_graphs(kind: str, places: Sequence[Any]) -> Optional[Hindrance]:
    if not places:
        return None
    return Hindrance(
        kind,
        sum(each.count for each in places),
        where=tuple(dict.fromkeys(each.where for each in places))[:MOST_PLACES],
        reason=places[0].reason,
        rule=RULES[kind],
    )
