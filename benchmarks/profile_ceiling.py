"""Compare what compiling gains with the ceiling that the profile gives; exit with 1 above it.

    python -m benchmarks.profile_ceiling [--steps N] [--write] [PROGRAM ...]

The programs are those of tests/diagnose/programs. Each is profiled in one process. In another it
takes as many steps in eager mode (the peer) and, with its model compiled by inductor, as many
again. The gain is the ratio of the median step times.
"""

from __future__ import annotations

import argparse
import itertools
import runpy
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.timing import ONE_THREAD, run
from compilegate.diagnose.profile import analysis_of, read_profile
from compilegate.job.names import PROFILE_VARIABLE

PROGRAMS = results.PROJECT / "tests" / "diagnose" / "programs"
DEFAULT = ("many_small", "moves_memory", "one_matmul", "host_bound_update", "slow_loader")
WARM_UP = 5


def print_gain(program: str, steps: int) -> None:
    """Run the program in this process and print how many times as fast its compiled steps are."""
    import torch  # noqa: PLC0415 - the parent does without
    from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: PLC0415

    ends = [time.perf_counter()]
    half = steps + WARM_UP

    def end_step(*_: Any) -> None:
        ends.append(time.perf_counter())
        if len(ends) == half + 1:
            frame: Any = sys._getframe()
            while "model" not in frame.f_globals:
                frame = frame.f_back
            model = frame.f_globals["model"]
            model.forward = torch.compile(model.forward)
        if len(ends) == 2 * half + 1:
            times = [after - before for before, after in itertools.pairwise(ends)]
            eager, compiled = times[WARM_UP:half], times[half + WARM_UP :]
            print(statistics.median(eager) / statistics.median(compiled), flush=True)
            raise SystemExit(0)

    register_optimizer_step_post_hook(end_step)
    runpy.run_path(str(PROGRAMS / f"{program}.py"), run_name="__main__")


def main() -> int:
    """Profile, compile and compare each program."""
    parser = results.parser(__doc__)
    parser.add_argument("--steps", type=int, default=36)
    parser.add_argument("--gain-of", help=argparse.SUPPRESS)
    parser.add_argument("programs", nargs="*", default=DEFAULT)
    options = parser.parse_args()
    if options.gain_of:
        print_gain(options.gain_of, options.steps)
        return 0
    rows, above = [], False
    steps = str(options.steps)
    for program in options.programs:
        with tempfile.TemporaryDirectory() as folder:
            script = [sys.executable, "-m", "compilegate.job.profiling.script"]
            variables = {**ONE_THREAD, PROFILE_VARIABLE: f"{steps}:{folder}"}
            run([*script, str(PROGRAMS / f"{program}.py")], variables)
            found = analysis_of(read_profile(Path(folder)))
        child = [sys.executable, "-m", "benchmarks.profile_ceiling", "--steps", steps]
        gain = float(run([*child, "--gain-of", program], ONE_THREAD).output.split()[-1])
        ceiling = found.ceilings[0]
        above = above or gain > ceiling.speedup_high
        figures = [f"{each:.2f}" for each in (ceiling.speedup, ceiling.speedup_high, gain)]
        rows.append([program, found.bottleneck.kind, *figures])
    columns = ["program", "bottleneck", "ceiling", "ceiling with what is not known", "gain"]
    results.publish("profile-ceiling", columns, rows, to_file=options.write)
    return int(above)


if __name__ == "__main__":
    sys.exit(main())
