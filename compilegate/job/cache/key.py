"""What must be equal for a compile cache to fit: graph, libraries and hardware. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping

from compilegate.job.digests import settings_digest
from compilegate.job.evidence import Scalar

Part = Mapping[str, Scalar]

_SHOWN = 60
"""Characters of a value that an archive names; they come from outside."""
_TOLD = 3
"""How many differences to name; one that matters usually comes alone."""
_ABSENT = object()


@dataclass(frozen=True)
class CacheKey:
    """Equal keys compile to the same code. Names within a part are free, in any order.

    A compiler checks graph and inputs again, by itself. It does not check all of the hardware: code
    that was made for one processor may end the process on another.
    """

    graph: Part
    """The model, its shapes, its precision, and how the compiler is set."""
    libraries: Part
    """Everything that is involved in compiling the graph."""
    hardware: Part
    """The hardware that the code was made for."""

    @property
    def digest(self) -> str:
        """sha256 of the whole key, in hexadecimal."""
        return settings_digest(self.parts())

    @property
    def archive_name(self) -> str:
        """One archive for each kind of machine.

        What changes with a release replaces its predecessor; machines of several kinds that take
        turns do not replace each other's.
        """
        return f"{settings_digest(self.hardware)[:16]}.tar"

    def differences(self, found: Any) -> List[str]:
        """How an archive's key differs from this one; empty if it does not.

        `found` is JSON of any kind.
        """
        told: List[str] = []
        for part, ours in self.parts().items():
            theirs = found.get(part) if isinstance(found, dict) else None
            if not isinstance(theirs, dict):
                return [f"its key has no {part}"]
            names = [*ours, *sorted(set(theirs) - set(ours), key=str)]
            told += [
                f"{_text(name)} was {_text(theirs.get(name, _ABSENT))} and is "
                f"{_text(ours.get(name, _ABSENT))}"
                for name in names
                if not _same(theirs.get(name, _ABSENT), ours.get(name, _ABSENT))
            ]
        if len(told) > _TOLD:
            return [*told[:_TOLD], f"{len(told) - _TOLD} more"]
        return told

    def parts(self) -> Dict[str, Part]:
        """The key as JSON."""
        return {
            "graph": dict(self.graph),
            "libraries": dict(self.libraries),
            "hardware": dict(self.hardware),
        }


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)  # 1 is not true, and not 1.0


def _text(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    if value is None:
        return "none"
    flat = "".join(each if each.isprintable() else "?" for each in str(value))
    return flat if len(flat) <= _SHOWN else f"{flat[: _SHOWN - 3]}..."
