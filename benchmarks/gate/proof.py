"""What the programs of the gate's proof share: kinds of executions, their counts, and limits."""

from __future__ import annotations

import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from benchmarks.gate.simulated import Generator, digest

PROGRAMS = ("honest", "worse")
HERE = Path(__file__).parent
GATE, CACHE = HERE.parents[1] / "compilegate" / "gate", HERE / ".proof.json"
USES = {"honest": ("pools",), "worse": ()}
"""The modules of a program beside itself and `simulated`."""
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
    outcomes: Callable[[Any, Generator, int], Iterable[str]]
    """What is counted of one execution of a kind. The last argument is the number of the draw."""
    columns: Sequence[str]
    table: Callable[[Mapping[str, Counts]], tuple[list[list[object]], list[str]]]
    """The rows of all kinds, and the limits that are missed."""
    doubtful: Callable[[Any, Counts], bool] = lambda kind, counts: False
    """Whether a full number of executions may miss the kind's limit by chance alone: then `AGAIN`
    times as many are judged."""


def program_of(name: str) -> Program:
    """The program of this name."""
    found: Program = import_module(f"benchmarks.gate.{name}").PROGRAM
    return found


def most(limit: float, draws: int, kinds: int = 1) -> int:
    """The largest count that does not miss the limit, a share of the draws of so many kinds."""
    if draws >= FULL:
        return math.floor(limit * draws * kinds + 1e-9)
    return int(binom.ppf(SURE, draws * kinds, limit))


def list_counts(counts: Counts, prefix: str = "by ") -> str:
    """The counts under this prefix, the largest first: `quality.undecided (3)`."""
    found = {key: it for key, it in counts.items() if key.startswith(prefix)}
    ordered = sorted(found, key=lambda key: (-found[key], key))
    return ", ".join(f"{key.removeprefix(prefix)} ({found[key]})" for key in ordered)


def count_all(
    name: str, draws: int, only: str = "", processes: int = 1, cache: Path | None = CACHE
) -> dict[str, Counts]:
    """The counts of the program's kinds with `only` in their names, from the cache where it has
    them."""
    own = [HERE / f"{each}.py" for each in (name, "simulated", *USES[name])]
    sources = sorted(GATE.rglob("*.py")) + own
    code = digest([path.read_bytes() for path in sources])[:16]
    kinds = [kind for kind in program_of(name).kinds if only in kind]
    keys = {kind: f"{name} / {kind} / {draws} / {code}" for kind in kinds}
    everything = _read(cache)
    with ProcessPoolExecutor(processes) as pool:
        running = {
            pool.submit(_count, name, kind, draws): kind
            for kind, key in keys.items()
            if key not in everything
        }
        for done in as_completed(running):
            kind, found = running[done], done.result()
            everything |= {**_read(cache), keys[kind]: found}
            if cache is not None:
                part = cache.with_name(f"{cache.name}.part")
                part.write_text(json.dumps(everything, indent=1), encoding="utf-8")
                part.replace(cache)
            print(f"{name}: {kind}: {found['seconds']} s", file=sys.stderr, flush=True)
    return {kind: everything[key] for kind, key in keys.items()}


def _count(name: str, kind: str, draws: int) -> Counts:
    program = program_of(name)
    began, found, number = time.process_time(), Counter[str](), 0
    while number < draws:
        random = np.random.default_rng([int(digest(kind)[:8], 16), number])
        found.update(program.outcomes(program.kinds[kind], random, number))
        number += 1
        if number == draws == FULL and program.doubtful(program.kinds[kind], found):
            draws *= AGAIN
    return {**found, "draws": draws, "seconds": round(time.process_time() - began)}


def _read(cache: Path | None) -> dict[str, Counts]:
    return json.loads(cache.read_text(encoding="utf-8")) if cache and cache.exists() else {}
