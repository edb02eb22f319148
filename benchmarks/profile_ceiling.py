"""Does what compiling gains stay below the ceiling that a profile gives?

    .venv/bin/python benchmarks/profile_ceiling.py [--steps N] [PROGRAM ...]

The programs are those of tests/diagnose/programs. Each is profiled in a process of its own. Then,
in another, it takes as many steps in eager mode and, with its model compiled by inductor, as many
again; medians of a step's time are compared. The table has the gain beside the ceiling of
`torch-compile`, and the exit status is 1 where it is higher.
"""

from __future__ import annotations

import argparse
import itertools
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from compilegate.diagnose.profile import analysis_of, read_profile
from compilegate.job.names import PROFILE_VARIABLE

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "tests" / "diagnose" / "programs"
DEFAULT = ("many_small", "moves_memory", "one_matmul", "host_bound_update", "slow_loader")
WARM_UP = 5


def in_a_process(*command: str, **variables: str) -> str:
    """What a Python with this command prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables}
    return subprocess.run(
        [sys.executable, *command], env=environment, stdout=subprocess.PIPE, check=True, text=True
    ).stdout


def gain_of(program: str, steps: int) -> None:
    """In this process: print how many times as fast the compiled steps are."""
    import torch  # noqa: PLC0415 - the parent does without
    from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: PLC0415

    ends = [time.perf_counter()]
    turn = steps + WARM_UP

    def ended(*_: Any) -> None:
        ends.append(time.perf_counter())
        if len(ends) == turn + 1:
            frame: Any = sys._getframe()
            while "model" not in frame.f_globals:
                frame = frame.f_back
            model = frame.f_globals["model"]
            model.forward = torch.compile(model.forward)
        if len(ends) == 2 * turn + 1:
            taken = [after - before for before, after in itertools.pairwise(ends)]
            eager, compiled = taken[WARM_UP:turn], taken[turn + WARM_UP :]
            print(statistics.median(eager) / statistics.median(compiled), flush=True)
            raise SystemExit(0)

    register_optimizer_step_post_hook(ended)
    runpy.run_path(str(PROGRAMS / f"{program}.py"), run_name="__main__")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=36)
    parser.add_argument("--gain-of", help=argparse.SUPPRESS)
    parser.add_argument("programs", nargs="*", default=DEFAULT)
    options = parser.parse_args()
    if options.gain_of:
        gain_of(options.gain_of, options.steps)
        return 0
    print("| program | bottleneck | ceiling | with what is not known | gain | held |")
    print("|---|---|---|---|---|---|")
    held = True
    for program in options.programs:
        script = str(PROGRAMS / f"{program}.py")
        with tempfile.TemporaryDirectory() as folder:
            told = {PROFILE_VARIABLE: f"{options.steps}:{folder}"}
            in_a_process("-m", "compilegate.job.profiling.script", script, **told)
            found = analysis_of(read_profile(Path(folder)))
        said = in_a_process(__file__, "--steps", str(options.steps), "--gain-of", program)
        gain, ceiling = float(said.split()[-1]), found.ceilings[0]
        held = held and gain <= ceiling.speedup_high
        print(
            f"| {program} | {found.bottleneck.kind} | {ceiling.speedup:.2f} | "
            f"{ceiling.speedup_high:.2f} | {gain:.2f} | "
            f"{'yes' if gain <= ceiling.speedup_high else 'no'} |",
            flush=True,
        )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
