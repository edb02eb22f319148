"""How long the command and the gate's job take to start, beside a Python that does nothing.

    .venv/bin/python benchmarks/command_startup.py [--rounds N]

They run in turn, so that a machine that changes its speed changes both.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).parents[1]
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "compilegate --help": [str(Path(sys.executable).parent / "compilegate"), "--help"],
    "compilegate validate": [
        str(Path(sys.executable).parent / "compilegate"),
        "validate",
        str(PROJECT / "workloads" / "news-topics.toml"),
    ],
    "the gate's job, --help": [
        sys.executable,
        "-m",
        "compilegate.pipelines.programs.gate",
        "--help",
    ],
}


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=PROJECT)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="runs of each command")
    rounds = parser.parse_args().rounds
    for command in COMMANDS.values():
        seconds(command)
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, command in COMMANDS.items():
            taken[name].append(seconds(command))
    print(
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, "
        f"Python {platform.python_version()}, {rounds} rounds in turn, seconds"
    )
    print(f"{'command':<24}{'min':>8}{'median':>8}{'max':>8}")
    for name, values in taken.items():
        low, middle, high = min(values), statistics.median(values), max(values)
        print(f"{name:<24}{low:>8.3f}{middle:>8.3f}{high:>8.3f}")


if __name__ == "__main__":
    main()
