"""The gate's proof: honest experiments pass, worse candidates do not, accidents are named, and the
forecast holds.

    make gate-proof                                        # all of it, resumed where it stopped
    python benchmarks/gate/proof.py [--draws N] [--processes 2] [--write]

It runs `honest.py`, `worse.py`, `accidents.py` and `forecasts.py`, each kind once for the gate's
sources as they are, and exits with 1 where a figure is missed. `--write` puts the tables into
docs/gate-calibration.md. With fewer draws than a program's own, figures are held against what so
few draws can show.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from results import count_all

PROGRAMS = ("honest", "worse", "accidents", "forecasts")
PAGE = Path(__file__).parents[2] / "docs" / "gate-calibration.md"


def main() -> None:
    """Run the programs; exit with 1 where a figure is missed."""
    parser = argparse.ArgumentParser(description="Prove the gate.")
    parser.add_argument("--draws", type=int, help="executions of each kind")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    asked = parser.parse_args()
    parts, missed, seconds = [], [], 0
    for name in PROGRAMS:
        program = import_module(name).PROGRAM
        draws = program.draws if asked.draws is None else min(asked.draws, program.draws)
        counts = count_all(program, draws, processes=asked.processes)
        seconds += sum(found["seconds"] for found in counts.values())
        page = program.page(counts)
        parts.append(f"## {name.capitalize()}\n\n{page.text}\n")
        missed += [f"{name}: {each}" for each in page.missed]
    day, fewer = datetime.now(UTC).date(), "" if asked.draws is None else f" --draws {asked.draws}"
    head = (
        "# How often the gate is wrong\n\n"
        f"Made by `python benchmarks/gate/proof.py{fewer} --write` on {day} in "
        f"{seconds / 3600:.1f} hours of one processor. `make gate-proof` makes it with all draws.\n"
    )
    text = "\n".join([head, *parts])
    print(text)
    if asked.write:
        PAGE.write_text(text, encoding="utf-8")
    for each in missed:
        print(f"missed: {each}", file=sys.stderr)
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    main()
