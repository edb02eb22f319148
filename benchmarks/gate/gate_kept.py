"""Counts that a long run keeps, so that one which was cut short goes on where it stopped.

`--keep FOLDER` gives the place. What is kept holds for the gate's code as it is: with other code of
the gate or of these programs everything is counted again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
GATE = "compilegate/gate"
DRAWN_BY = ("gate_adverse_designs.py", "gate_adverse_speed.py", "gate_simulation.py")


class Kept:
    """Counts by name, in a folder; without one everything is counted anew."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.root: Path | None = None
        """The checkout whose gate counts; None for this one."""
        self.seconds = 0.0
        """CPU time of all counts so far, those of earlier runs among them."""

    def counts(self, name: str, count: Callable[[], Mapping[str, int]]) -> Counter[str]:
        """What `count` gives, or what it gave when it was last called under this name."""
        path = (
            None
            if self.folder is None
            else self.folder / f"{_digest(name, _code(self.root or ROOT))}.json"
        )
        if path is not None and path.exists():
            found = json.loads(path.read_text(encoding="utf-8"))
        else:
            begin = time.process_time()
            made = dict(count())
            found = {"name": name, "seconds": time.process_time() - begin, "counts": made}
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                part = path.with_name(f".{path.name}.part")
                part.write_text(json.dumps(found), encoding="utf-8")
                part.replace(path)
        self.seconds += found["seconds"]
        return Counter(found["counts"])


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]


@cache
def _code(root: Path) -> str:
    """A digest of all code that the counts depend on: a gate, and what draws and counts."""
    designs = [Path(__file__).with_name(name) for name in DRAWN_BY]
    files = [*sorted((root / GATE).rglob("*.py")), *designs]
    return _digest(*(file.read_text(encoding="utf-8") for file in files))


KEPT = Kept()
