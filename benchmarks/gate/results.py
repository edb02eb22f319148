"""Counts that are kept, so that a run that was cut short goes on where it stopped; limits; tables.

A count holds for the sources of the gate and of the program; with others it is made anew. Not a
program; see `proof.py`.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
GATE = HERE.parents[1] / "compilegate" / "gate"
KEPT, POOLS = HERE / ".proof.json", HERE / ".pools"
FULL = 1000
"""From so many draws on, a limit holds as it stands."""
SURE = 0.999
"""With fewer draws, a count misses its limit only where the limit would give it less often than one
time in a thousand."""
Counts = Mapping[str, int]


@dataclass(frozen=True)
class Page:
    """One program's table, and the figures that it misses."""

    text: str
    missed: list[str]


@dataclass(frozen=True)
class Program:
    """One of the three: what it counts, kind by kind."""

    name: str  # of its module
    draws: int  # of each kind, in a full run
    kinds: Sequence[str]
    counted: Callable[[str, int], Counts]  # those of a kind in so many draws
    page: Callable[[Mapping[str, Counts]], Page]


def most(limit: float, draws: int) -> int:
    """The largest count that does not miss the limit, a share of the draws."""
    if draws >= FULL:
        return math.floor(limit * draws + 1e-9)
    count, term = 0, (1.0 - limit) ** draws
    total = term
    while total < SURE and count < draws:
        term *= (draws - count) / (count + 1) * limit / (1.0 - limit)
        count += 1
        total += term
    return count


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def listed(counts: Counts, prefix: str) -> str:
    """The counts under this prefix, the largest first: `quality.undecided (3)`."""
    found = {key: it for key, it in counts.items() if key.startswith(prefix)}
    ordered = sorted(found, key=lambda key: (-found[key], key))
    return ", ".join(f"{key.removeprefix(prefix)} ({found[key]})" for key in ordered)


def count_all(
    program: Program, draws: int, only: str = "", processes: int = 1, kept: Path | None = KEPT
) -> dict[str, Counts]:
    """The counts of every kind whose name has `only` in it: kept ones, and the others anew."""
    everything = read(kept)
    code = _code(program.name)
    keys = {it: f"{program.name} / {it} / {draws} / {code}" for it in program.kinds if only in it}
    with ProcessPoolExecutor(processes) as pool:
        asked = {
            pool.submit(_count, program.name, name, draws): name
            for name, key in keys.items()
            if key not in everything
        }
        for done in as_completed(asked):
            name, found = asked[done], done.result()
            everything = {**read(kept), **everything, keys[name]: found}
            if kept is not None:
                part = kept.with_name(f"{kept.name}.part")
                part.write_text(json.dumps(everything, indent=1), encoding="utf-8")
                part.replace(kept)
            print(f"{program.name}: {name}: {found['seconds']} s", file=sys.stderr, flush=True)
    return {name: everything[key] for name, key in keys.items()}


def _count(module: str, name: str, draws: int) -> dict[str, int]:
    began = time.process_time()
    found = dict(importlib.import_module(module).PROGRAM.counted(name, draws))
    return {**found, "draws": draws, "seconds": round(time.process_time() - began)}


def read(kept: Path | None) -> dict[str, dict[str, int]]:
    """All counts that are kept."""
    return json.loads(kept.read_text(encoding="utf-8")) if kept and kept.exists() else {}


@cache
def _code(module: str) -> str:
    own = [HERE / f"{name}.py" for name in (module, "simulated", "pools")]
    sources = [path.read_bytes() for path in (*sorted(GATE.rglob("*.py")), *own)]
    return hashlib.sha256(b"\0".join(sources)).hexdigest()[:16]


def main(program: Program) -> None:
    """Run one program by itself; exit with 1 where a figure is missed."""
    parser = argparse.ArgumentParser(description=f"Judge {program.name} executions.")
    parser.add_argument("--draws", type=int, default=program.draws)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--anew", action="store_true", help="neither take nor keep counts")
    parser.add_argument("only", nargs="?", default="", help="part of a kind's name")
    asked = parser.parse_args()
    kept = None if asked.anew else KEPT
    page = program.page(count_all(program, asked.draws, asked.only, asked.processes, kept))
    print(page.text)
    for each in page.missed:
        print(f"missed: {each}", file=sys.stderr)
    raise SystemExit(bool(page.missed))
