"""Prove the gate: honest experiments pass and worse candidates do not.

    make gate-proof                            # all of it, resumed where it stopped
    python -m benchmarks.gate [PROGRAM ...] [--only PART] [--draws N] [--processes 2] [--anew]
        [--write]

A program is `honest` or `worse`. Each of its kinds is counted once for
the sources of the gate and of the program as they are. The peer is what each execution was drawn to
be. Exits with 1 where a limit is missed; fewer draws than usual get limits that so few can show.
"""

from __future__ import annotations

import sys

from benchmarks import results
from benchmarks.gate.proof import CACHE, PROGRAMS, count_all, program_of


def main() -> int:
    """Count, print and write; 1 where a limit is missed."""
    parser = results.parser(__doc__)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    parser.add_argument("--only", default="", help="part of a kind's name")
    parser.add_argument("--draws", type=int, help="executions of each kind, where fewer than usual")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--anew", action="store_true", help="neither read nor write the cache")
    options = parser.parse_args()
    if options.only and options.write:
        parser.error("--write needs all kinds: leave --only out")
    missed = []
    for name in options.programs or PROGRAMS:
        program = program_of(name)
        draws = min(options.draws or program.draws, program.draws)
        cache = None if options.anew else CACHE
        counts = count_all(name, draws, options.only, options.processes, cache)
        rows, misses = program.table(counts)
        hours = sum(found["seconds"] for found in counts.values()) / 3600
        notes = [f"{hours:.2f} hours of one processor."]
        file = f"gate-{name}"
        results.publish(file, program.columns, rows, to_file=options.write, notes=notes)
        missed += [f"{name}: {each}" for each in misses]
    for each in missed:
        print(f"missed: {each}", file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
