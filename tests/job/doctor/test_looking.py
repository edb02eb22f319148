"""Where the doctor's facts come from. nvidia-smi, compilers and their failures are programs here
that print what the real ones print; what looks at them is the real thing."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from pathlib import Path

import pytest

from compilegate.job.doctor.apart import ask
from compilegate.job.doctor.checkup import checkup
from compilegate.job.doctor.facts import (
    ProcessorTime,
    driver_here,
    host_here,
    processor_time,
    toolchain_here,
)
from compilegate.job.machine.programs import run

pytestmark = pytest.mark.slow

VALUES = {
    "index": "0",
    "name": "NVIDIA A10G",
    "driver_version": "550.127.05",
    "memory.total": "23028",
    "memory.used": "512",
    "utilization.gpu": "37",
    "compute_cap": "8.6",
    "clocks.sm": "1185",
    "clocks.max.sm": "[N/A]",
    "clocks_throttle_reasons.active": "0x0000000000000024",
}
"""What a driver of branch 550 answers; it does not know the newer name of the last field."""


def program(folder: Path, name: str, code: str) -> Path:
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{code}", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def nvidia_smi(folder: Path, values: dict[str, str]) -> dict[str, str]:
    code = f"""
import sys
values, fields = {values!r}, sys.argv[1].partition("=")[2].split(",")
for field in fields:
    if field not in values:
        print(f'Field "{{field}}" is not a valid field to query.\\n')
        sys.exit(2)
print(", ".join(values[field] for field in fields))
"""
    program(folder, "nvidia-smi", code)
    return {"PATH": str(folder)}


def test_a_gpu_is_read_though_the_driver_lacks_some_of_the_fields(tmp_path: Path) -> None:
    driver = driver_here(nvidia_smi(tmp_path, VALUES))
    (gpu,) = driver.gpus
    assert (driver.version, driver.error) == ("550.127.05", None)
    assert (gpu.name, gpu.capability, gpu.utilization) == ("NVIDIA A10G", "8.6", 0.37)
    assert (gpu.total_bytes, gpu.used_bytes) == (23028 << 20, 512 << 20)
    assert (gpu.clock_mhz, gpu.most_clock_mhz) == (1185, None)
    assert gpu.throttled_by == ("its power limit", "its temperature")


def test_a_driver_from_long_ago_tells_what_it_can(tmp_path: Path) -> None:
    old = ("index", "name", "driver_version", "memory.total", "memory.used")
    (gpu,) = driver_here(nvidia_smi(tmp_path, {key: VALUES[key] for key in old})).gpus
    assert gpu.total_bytes == 23028 << 20
    assert (gpu.capability, gpu.clock_mhz, gpu.throttled_by) == (None, None, ())


def test_a_driver_that_does_not_answer_is_quoted(tmp_path: Path) -> None:
    said = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    program(tmp_path, "nvidia-smi", f"import sys; print({said!r}); sys.exit(9)")
    driver = driver_here({"PATH": str(tmp_path), "SM_NUM_GPUS": "4"})
    assert driver.error == f"nvidia-smi says: {said}"
    assert (driver.gpus, driver.declared) == ((), 4)


def test_where_there_is_no_driver_nothing_is_wrong(tmp_path: Path) -> None:
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("this machine has NVIDIA's driver")
    driver = driver_here({"PATH": str(tmp_path)})
    assert (driver.version, driver.error, driver.gpus) == (None, None, ())


def test_a_compiler_that_works_is_missing_or_fails_is_told_apart(tmp_path: Path) -> None:
    if shutil.which("g++") is not None:
        tools = toolchain_here(os.environ)
        assert (tools.cxx, tools.cxx_error) == (shutil.which("g++"), None)
        assert tools.cxx_version
    assert toolchain_here({"PATH": str(tmp_path)}).cxx is None
    broken = program(
        tmp_path,
        "my++",
        "import sys; sys.stderr.write('one.cpp:1:10: fatal error: vector: No such file\\n"
        "compilation terminated.\\n'); sys.exit(1)",
    )
    tools = toolchain_here({"CXX": str(broken), "PATH": str(tmp_path)})
    assert tools.cxx == str(broken)
    assert tools.cxx_error == "one.cpp:1:10: fatal error: vector: No such file"


def test_the_host_is_as_the_kernel_says() -> None:
    host = host_here(processor_time())
    assert 1 <= host.cores <= (os.cpu_count() or 1)
    if host.memory_bytes is not None and host.free_memory_bytes is not None:
        assert 0 < host.free_memory_bytes < host.memory_bytes


def test_steal_and_the_use_of_others_are_shares_of_the_time_between() -> None:
    start = ProcessorTime(busy=100, stolen=5, total=200, own=40, at=10)
    end = ProcessorTime(busy=112, stolen=7, total=240, own=44, at=20)
    assert end.since(start) == pytest.approx((2 / 40, (12 - 4) / 10))
    assert start.since(start) == (None, None)


@pytest.mark.parametrize(
    ("command", "seconds", "error"),
    [
        ([sys.executable, "-c", "import time; time.sleep(60)"], 0.2, "it did not end within 0"),
        # Nor is its child waited for, which holds its output open.
        (["/bin/sh", "-c", "sleep 120; true"], 0.2, "it did not end within 0"),
        ([sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"], 60, "killed by SIGSEGV"),
        (["no-such-program-anywhere"], 1, "it could not be started"),
        ([sys.executable, "-c", "1 / 0"], 60, "ZeroDivisionError"),
    ],
)
def test_what_hangs_or_dies_is_a_sentence(command: list[str], seconds: float, error: str) -> None:
    assert (run(command, seconds).error or "").startswith(error)


def test_a_trial_of_what_is_no_compiler_is_an_error() -> None:
    assert "nowhere" in ask("trial", "nowhere", "cpu")["error"]


def test_the_checkup_of_a_job_holds_scalars_alone(tmp_path: Path) -> None:
    found = checkup(nvidia_smi(tmp_path, VALUES), processor_time())
    assert found["gpu_throttled_by"] == "its power limit, its temperature"
    assert found["gpu_clock_mhz"] == 1185
    assert found["driver"] == "550.127.05"
    assert all(isinstance(value, (str, int, float)) for value in found.values())
