"""The gate's proof: honest experiments pass, worse candidates do not, accidents are named, and the
forecast holds.

    make gate-proof                                        # all of it, resumed where it stopped
    python benchmarks/gate/proof.py [--draws N] [--processes 2] [--anew] [--write]

It runs `honest.py`, `worse.py`, `accidents.py` and `forecasts.py`, each kind once for the gate's
sources as they are, and exits with 1 where a figure is missed. `--write` puts the tables into
docs/gate-calibration.md. With fewer draws than a program's own, figures are held against what so
few draws can show.
"""

from __future__ import annotations

from pathlib import Path

import accidents
import forecasts
import honest
import worse
from results import main

if __name__ == "__main__":
    programs = (honest.PROGRAM, worse.PROGRAM, accidents.PROGRAM, forecasts.PROGRAM)
    main(*programs, page=Path(__file__).parents[2] / "docs" / "gate-calibration.md")
