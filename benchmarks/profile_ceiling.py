"""Does what compiling gains stay below the ceiling that a profile gives?

    .venv/bin/python benchmarks/profile_ceiling.py [--steps N] [--clock wall|cpu] [PROGRAM ...]

The programs are those of tests/profile/programs. Each is profiled in a process of its own. Then,
in another, it takes as many steps in eager mode and, with its model compiled by inductor, as many
again. Compared are medians of a step's time without the time that other programs had the processor;
`--clock cpu` counts the thread's processor time on both sides, for busy machines. The table has the
gain beside the ceiling of `torch-compile`, and the exit status is 1 where it is higher.
"""

from __future__ import annotations

import argparse
import os
import runpy
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch.profiler

from compilegate.job.names import PROFILE_VARIABLE
from compilegate.job.profiling.hooks import Hooks
from compilegate.job.profiling.record import PhaseTime
from compilegate.job.profiling.script import main as profile_script
from compilegate.job.profiling.stopwatch import Stopwatch
from compilegate.profile import Analysis, analysis_of, read_profile

PROGRAMS = Path(__file__).parents[1] / "tests" / "profile" / "programs"
DEFAULT = ("many_small", "moves_memory", "one_matmul", "host_bound_update", "slow_loader")
WARM_UP = 5


class Enough(SystemExit):
    """Both sorts of steps were taken."""


class Gain:
    """Takes steps in eager mode, compiles the model, and takes as many again."""

    def __init__(self, steps: int, clock: str) -> None:
        self._steps = steps
        self._clock = clock
        self._watch = Stopwatch()
        self._hooks = Hooks(self._watch, updated=self._end, called=lambda *_: None)
        self._hooks.install()
        self._taken = 0
        self.eager: list[float] = []
        self.compiled: list[float] = []

    def _end(self, optimizer: Any) -> None:
        if optimizer is not self._hooks.optimizers[0]:
            return
        seconds = sum(each.seconds for each in by_clock(self._watch.lap(), self._clock).values())
        turn = self._steps + WARM_UP
        kept = self.eager if self._taken < turn else self.compiled
        if self._taken % turn >= WARM_UP:
            kept.append(seconds)
        self._taken += 1
        if self._taken == turn:
            for root in self._hooks.roots:
                root.forward = torch.compile(root.forward)
        if self._taken == 2 * turn:
            raise Enough(0)
        self._watch.restart()

    @property
    def speedup(self) -> float:
        """How many times as fast the compiled steps were."""
        return statistics.median(self.eager) / statistics.median(self.compiled)


def by_clock(times: Mapping[str, PhaseTime], clock: str) -> dict[str, PhaseTime]:
    """The phases of a step, by that clock."""
    if clock == "wall":
        return dict(times)
    return {phase: PhaseTime(each.processor, each.processor) for phase, each in times.items()}


def measure(program: str, steps: int, clock: str = "wall") -> tuple[Analysis, float]:
    """The profile, and what compiling gains."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ[PROFILE_VARIABLE] = f"{steps}:{folder}"
        in_a_copy(lambda: profile_script([str(PROGRAMS / f"{program}.py")]))
        del os.environ[PROFILE_VARIABLE]
        profile = read_profile(Path(folder))
        by = tuple(by_clock(each, clock) for each in profile.steps)
        found = analysis_of(replace(profile, steps=by))
        said = Path(folder) / "gain"
        in_a_copy(lambda: said.write_text(str(gain_of(program, steps, clock)), encoding="utf-8"))
        return found, float(said.read_text(encoding="utf-8"))


def gain_of(program: str, steps: int, clock: str) -> float:
    """In this process, which hears of every step from then on."""
    gain = Gain(steps, clock)
    try:
        runpy.run_path(str(PROGRAMS / f"{program}.py"), run_name="__main__")
    except Enough:
        return gain.speedup
    raise SystemExit(f"{program} ended before {2 * (steps + WARM_UP)} steps")


def in_a_copy(do: Any) -> None:
    """Call it in a copy of this process, which has imported torch."""
    child = os.fork()
    if child:
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise SystemExit("a measurement failed; what it printed says why")
        return
    status = 1
    try:
        torch.set_num_threads(1)
        os.dup2(2, 1)
        status = 0 if do() is not None else 1
    finally:
        sys.stderr.flush()
        os._exit(status)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("programs", nargs="*", default=DEFAULT)
    options = parser.parse_args()
    print("| program | bottleneck | ceiling | with what is not known | gain | held |")
    print("|---|---|---|---|---|---|")
    held = True
    for program in options.programs:
        found, gain = measure(program, options.steps, options.clock)
        ceiling = found.ceilings[0]
        holds = gain <= ceiling.speedup_high
        held = held and holds
        print(
            f"| {program} | {found.bottleneck.kind} | {ceiling.speedup:.2f} | "
            f"{ceiling.speedup_high:.2f} | {gain:.2f} | {'yes' if holds else 'no'} |",
            flush=True,
        )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
