"""Memory that a step frees stays with the process, and the peak is of this process alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]

STEPS = """
import resource, sys
from compilegate.job.machine.memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        step = [bytearray(40 << 20)]  # zeroed: each of its 10,240 pages is touched
        del step
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

given_back = faults()
assert keep_freed_memory() == sys.platform.startswith("linux")
faults()
print(given_back, faults())
"""


def test_what_was_freed_is_not_faulted_in_again() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STEPS], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    given_back, kept = map(int, done.stdout.split())
    assert kept < 100
    assert kept < given_back / 10


PEAK = """
import subprocess, sys
from compilegate.job.machine.memory import process_peak

held = bytearray(b"1") * (600 << 20)
ask = "from compilegate.job.machine.memory import process_peak; print(process_peak())"
child = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
print(process_peak(), child.stdout)
"""


def test_a_job_reports_its_own_peak_and_not_its_launchers() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PEAK], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    launcher, job = map(int, done.stdout.split())
    assert launcher > 600 << 20
    assert job < 300 << 20
