"""The gate's proof: honest experiments pass, worse candidates do not, accidents are named, and the
forecast holds.

    make gate-proof                                        # all of it, resumed where it stopped
    python benchmarks/gate/proof.py [--draws N] [--processes 2] [--anew] [--write]

It runs `honest.py`, `worse.py`, `accidents.py` and `forecasts.py`, each kind once for the sources
of the gate and of the program as they are: counts are kept. It exits with 1 where a figure is
missed. `--write` puts the tables into docs/gate-calibration.md. With fewer draws than a program's
own, figures are held against what so few draws can show.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom
from simulated import Generator, digest

PROGRAMS = ("honest", "worse", "accidents", "forecasts")
HERE = Path(__file__).parent
GATE, KEPT = HERE.parents[1] / "compilegate" / "gate", HERE / ".proof.json"
PAGE = HERE.parents[1] / "docs" / "gate-calibration.md"
USES = {"honest": ("pools",), "forecasts": ("worse",)}
"""What a program is made of beside itself and `simulated`."""
FULL = 1000
"""From so many draws on, a limit holds as it stands."""
AGAIN = 5
SURE = 0.999
"""With fewer draws, a count misses its limit only where the limit would give it less often than one
time in a thousand."""
Counts = Mapping[str, int]


@dataclass(frozen=True)
class Program:
    """What one of the programs counts, kind by kind."""

    draws: int  # of each kind, in a full run
    kinds: Mapping[str, Any]
    judged: Callable[[Any, Generator, int], Iterable[str]]
    """What is counted of one execution of a kind. The last is the number of the draw."""
    page: Callable[[Mapping[str, Counts]], tuple[str, list[str]]]
    """The table of all kinds, and the figures that are missed."""
    doubtful: Callable[[Any, Counts], bool] = lambda kind, counts: False
    """Whether a full number of executions may miss the kind's limit by chance alone: then `AGAIN`
    times as many are judged."""


def most(limit: float, draws: int, kinds: int = 1) -> int:
    """The largest count that does not miss the limit, a share of the draws of so many kinds."""
    if draws >= FULL:
        return math.floor(limit * draws * kinds + 1e-9)
    return int(binom.ppf(SURE, draws * kinds, limit))


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def listed(counts: Counts, prefix: str = "by ") -> str:
    """The counts under this prefix, the largest first: `quality.undecided (3)`."""
    found = {key: it for key, it in counts.items() if key.startswith(prefix)}
    ordered = sorted(found, key=lambda key: (-found[key], key))
    return ", ".join(f"{key.removeprefix(prefix)} ({found[key]})" for key in ordered)


def foretold(counts: Counts) -> list[int]:
    """The chances in per cent that were counted: `{"40%": 2}` is [40, 40]."""
    return [int(key[:-1]) for key, it in counts.items() if key[-1] == "%" for _ in range(it)]


def count_all(
    name: str, draws: int, only: str = "", processes: int = 1, kept: Path | None = KEPT
) -> dict[str, Counts]:
    """The counts of the program's kinds that have `only` in their names: kept ones, others anew."""
    program: Program = import_module(name).PROGRAM
    own = [HERE / f"{each}.py" for each in (name, "simulated", *USES.get(name, ()))]
    sources = sorted(GATE.rglob("*.py")) + own
    code = digest([path.read_bytes() for path in sources])[:16]
    keys = {it: f"{name} / {it} / {draws} / {code}" for it in program.kinds if only in it}
    everything = _read(kept)
    with ProcessPoolExecutor(processes) as pool:
        asked = {
            pool.submit(_count, name, kind, draws): kind
            for kind, key in keys.items()
            if key not in everything
        }
        for done in as_completed(asked):
            kind, found = asked[done], done.result()
            everything |= {**_read(kept), keys[kind]: found}
            if kept is not None:
                part = kept.with_name(f"{kept.name}.part")
                part.write_text(json.dumps(everything, indent=1), encoding="utf-8")
                part.replace(kept)
            print(f"{name}: {kind}: {found['seconds']} s", file=sys.stderr, flush=True)
    return {kind: everything[key] for kind, key in keys.items()}


def _count(name: str, kind: str, draws: int) -> Counts:
    program: Program = import_module(name).PROGRAM
    began, found, number = time.process_time(), Counter[str](), 0
    while number < draws:
        random = np.random.default_rng([int(digest(kind)[:8], 16), number])
        found.update(program.judged(program.kinds[kind], random, number))
        number += 1
        if number == draws == FULL and program.doubtful(program.kinds[kind], found):
            draws *= AGAIN
    return {**found, "draws": draws, "seconds": round(time.process_time() - began)}


def _read(kept: Path | None) -> dict[str, Counts]:
    return json.loads(kept.read_text(encoding="utf-8")) if kept and kept.exists() else {}


def main(*names: str) -> None:
    """Run programs, all of them together or one by itself; exit with 1 where a figure is missed."""
    parser = argparse.ArgumentParser(description="Judge simulated executions.")
    parser.add_argument("--draws", type=int, help="executions of each kind, where fewer than usual")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--anew", action="store_true", help="neither take nor keep counts")
    if names == PROGRAMS:
        parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    else:
        parser.add_argument("only", nargs="?", default="", help="part of a kind's name")
    asked = parser.parse_args(namespace=argparse.Namespace(only="", write=False))
    parts, missed, seconds = [], [], 0
    for name in names:
        program: Program = import_module(name).PROGRAM
        draws, kept = min(asked.draws or program.draws, program.draws), None if asked.anew else KEPT
        counts = count_all(name, draws, asked.only, asked.processes, kept)
        seconds += sum(found["seconds"] for found in counts.values())
        text, figures = program.page(counts)
        parts.append(f"## {name.capitalize()}\n\n{text}\n")
        missed += [f"{name}: {each}" for each in figures]
    print("\n".join(parts))
    if asked.write:
        fewer = "" if asked.draws is None else f" --draws {asked.draws}"
        head = (
            "# How often the gate is wrong\n\n"
            f"Made by `python benchmarks/gate/proof.py{fewer} --write` on "
            f"{datetime.now(UTC).date()} in {seconds / 3600:.1f} hours of one processor. "
            "`make gate-proof` makes it with all draws.\n"
        )
        PAGE.write_text("\n".join([head, *parts]), encoding="utf-8")
    for each in missed:
        print(f"missed: {each}", file=sys.stderr)
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    main(*PROGRAMS)
