"""What installing and starting Compilegate takes, beside a Python that does nothing.

    .venv/bin/python benchmarks/command_startup.py [--rounds N]

The last two rows are of `compilegate run digits-cnn` where every job comes from the step cache.

All run in turn, so that a machine that changes its speed changes all. Processor time stands beside
the time that passed, because only it can be trusted on a machine that does other things too.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).parents[1]
COMPILEGATE = str(Path(sys.executable).parent / "compilegate")
WORKLOAD = str(PROJECT / "workloads" / "news-topics.toml")
PROGRAMS = "compilegate.pipelines.programs"
STARTED = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "compilegate --help": [COMPILEGATE, "--help"],
    "compilegate validate": [COMPILEGATE, "validate", WORKLOAD],
    "compilegate pipeline compile": [COMPILEGATE, "pipeline", "compile", WORKLOAD],
    "import compilegate": [sys.executable, "-c", "import compilegate"],
    "import compilegate.job": [sys.executable, "-c", "import compilegate.job"],
    "import compilegate.gate.judge": [sys.executable, "-c", "import compilegate.gate.judge"],
    "import compilegate.local": [sys.executable, "-c", "import compilegate.local"],
    "the gate's job, --help": [sys.executable, "-m", f"{PROGRAMS}.gate", "--help"],
}
CACHED = ("compilegate run, first line", "compilegate run, to its end")


def seconds(command: list[str]) -> tuple[float, float]:
    """How long a command took, and how much of it processors spent on it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(
        command, check=True, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    passed = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return passed, spent


def seconds_of_cached_run(home: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """How long an execution from the cache takes to its first line, and to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    command = [COMPILEGATE, "run", "digits-cnn", "--home", home]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None  # noqa: S101  a pipe was asked for
        running.stdout.readline()
        first = time.perf_counter() - began
        running.stdout.read()
    passed = time.perf_counter() - began
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (first, spent), (passed, spent)


def installed() -> tuple[int, int]:
    """How many files the wheel installs, and their bytes, without what Python compiles of them."""
    sizes = [
        (Path(folder) / name).stat().st_size
        for folder, _, names in os.walk(PROJECT / "compilegate", followlinks=True)
        for name in names
        if "__pycache__" not in folder
    ]
    return len(sizes), sum(sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="runs of each command")
    rounds = parser.parse_args().rounds
    for command in STARTED.values():
        seconds(command)
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in [*STARTED, *CACHED]}
    with tempfile.TemporaryDirectory() as home:
        seconds_of_cached_run(home)
        for _ in range(rounds):
            for name, command in STARTED.items():
                taken[name].append(seconds(command))
            for name, run in zip(CACHED, seconds_of_cached_run(home), strict=True):
                taken[name].append(run)
    files, size = installed()
    print(f"the wheel installs {files} files, {size / 1e6:.1f} MB")
    print(
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, "
        f"Python {platform.python_version()}, {rounds} rounds in turn, seconds"
    )
    print(f"{'':<32}{'fastest':>8}{'median':>8}{'slowest':>8}{'processor':>11}")
    for name, runs in taken.items():
        passed = sorted(each for each, _ in runs)
        spent = statistics.median(each for _, each in runs)
        times = f"{passed[0]:>8.3f}{statistics.median(passed):>8.3f}{passed[-1]:>8.3f}"
        print(f"{name:<32}{times}{spent:>11.3f}")


if __name__ == "__main__":
    main()
