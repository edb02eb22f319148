"""Where the doctor's facts come from. nvidia-smi, compilers and their failures are programs here
that say what the real ones say; what looks at them is the real thing."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from pathlib import Path

import pytest

from compilegate.job.doctor.checkup import checkup
from compilegate.job.doctor.looking.gpus import examine_driver
from compilegate.job.doctor.looking.host import ProcessorTime, examine_host, processor_time
from compilegate.job.doctor.looking.processes import ask, run
from compilegate.job.doctor.looking.timing import timed
from compilegate.job.doctor.looking.toolchain import examine_toolchain

pytestmark = pytest.mark.slow

VALUES = {
    "index": "0",
    "name": "NVIDIA A10G",
    "uuid": "GPU-1",
    "driver_version": "550.127.05",
    "memory.total": "23028",
    "memory.used": "512",
    "utilization.gpu": "37",
    "compute_cap": "8.6",
    "clocks.sm": "1185",
    "clocks.max.sm": "1710",
    "persistence_mode": "Enabled",
    "compute_mode": "Default",
    "mig.mode.current": "[N/A]",
    "ecc.errors.uncorrected.volatile.total": "0",
    "clocks_throttle_reasons.active": "0x0000000000000024",
}
"""What a driver of branch 550 answers; it does not know the newer name of the last field."""


def program(folder: Path, name: str, code: str) -> Path:
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{code}", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def nvidia_smi(folder: Path, values: dict[str, str], processes: str = "") -> dict[str, str]:
    program(
        folder,
        "nvidia-smi",
        f"""
import sys
values, processes = {values!r}, {processes!r}
asked = sys.argv[1] if len(sys.argv) > 1 else ""
if asked.startswith("--query-gpu="):
    for field in asked.partition("=")[2].split(","):
        if field not in values:
            print(f'Field "{{field}}" is not a valid field to query.\\n')
            sys.exit(2)
    print(", ".join(values[field] for field in asked.partition("=")[2].split(",")))
elif asked.startswith("--query-compute-apps="):
    print(processes)
else:
    print("| NVIDIA-SMI 550.127.05   Driver Version: 550.127.05   CUDA Version: 12.4   |")
""",
    )
    return {"PATH": str(folder)}


def test_a_gpu_is_read_though_the_driver_lacks_some_of_the_fields(tmp_path: Path) -> None:
    driver = examine_driver({**nvidia_smi(tmp_path, VALUES, "GPU-1, 41\nGPU-1, 42\nGPU-2, 43")})
    (gpu,) = driver.gpus
    assert (driver.version, driver.cuda, driver.error) == ("550.127.05", "12.4", None)
    assert (gpu.name, gpu.capability) == ("NVIDIA A10G", "8.6")
    assert (gpu.total_bytes, gpu.used_bytes) == (23028 << 20, 512 << 20)
    assert gpu.utilization == 0.37
    assert (gpu.clock_mhz, gpu.most_clock_mhz) == (1185, 1710)
    assert gpu.throttled_by == ("its power limit", "its temperature")
    assert (gpu.persistence, gpu.exclusive, gpu.mig) == (True, None, None)
    assert (gpu.uncorrected_errors, gpu.processes) == (0, 2)


def test_a_driver_from_long_ago_tells_what_it_can(tmp_path: Path) -> None:
    old = ("index", "name", "driver_version", "memory.total", "memory.used")
    values = {key: VALUES[key] for key in old}
    (gpu,) = examine_driver(nvidia_smi(tmp_path, values)).gpus
    assert gpu.total_bytes == 23028 << 20
    assert (gpu.capability, gpu.clock_mhz, gpu.throttled_by) == (None, None, ())


def test_a_driver_that_does_not_answer_is_quoted(tmp_path: Path) -> None:
    said = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    program(tmp_path, "nvidia-smi", f"import sys; print({said!r}); sys.exit(9)")
    driver = examine_driver({"PATH": str(tmp_path), "SM_NUM_GPUS": "4"})
    assert driver.error == f"nvidia-smi says: {said}"
    assert (driver.gpus, driver.declared) == ((), 4)


def test_where_there_is_no_driver_nothing_is_wrong(tmp_path: Path) -> None:
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("this machine has NVIDIA's driver")
    driver = examine_driver({"PATH": str(tmp_path)})
    assert (driver.version, driver.error, driver.gpus) == (None, None, ())


def test_the_compilers_of_this_machine_make_programs_that_run() -> None:
    if shutil.which("g++") is None:
        pytest.skip("this machine has no g++")
    tools = examine_toolchain(os.environ)
    assert tools.cxx == shutil.which("g++")
    assert (tools.cxx_error, tools.openmp_error) == (None, None)
    assert tools.cxx_version


def test_a_compiler_that_is_missing_or_fails_is_told_apart(tmp_path: Path) -> None:
    assert examine_toolchain({"PATH": str(tmp_path)}).cxx is None
    broken = program(
        tmp_path,
        "my++",
        "import sys; sys.stderr.write('one.cpp:1:10: fatal error: vector: No such file\\n"
        "compilation terminated.\\n'); sys.exit(1)",
    )
    tools = examine_toolchain({"CXX": str(broken), "PATH": str(tmp_path)})
    assert tools.cxx == str(broken)
    assert tools.cxx_error == "one.cpp:1:10: fatal error: vector: No such file"


def test_the_host_is_as_the_kernel_says() -> None:
    host = examine_host(processor_time())
    assert 1 <= host.cores <= (os.cpu_count() or 1)
    assert host.python == ".".join(map(str, sys.version_info[:3]))
    if host.memory_bytes is not None and host.free_memory_bytes is not None:
        assert 0 < host.free_memory_bytes < host.memory_bytes


def test_steal_and_the_use_of_others_are_shares_of_the_time_between() -> None:
    start = ProcessorTime(busy=100, stolen=5, total=200, own=40, at=10)
    end = ProcessorTime(busy=112, stolen=7, total=240, own=44, at=20)
    assert end.steal_since(start) == pytest.approx(2 / 40)
    assert end.others_since(start) == pytest.approx((12 - 4) / 10)
    assert start.steal_since(start) is None
    assert start.others_since(start) is None


def test_what_hangs_or_dies_is_a_sentence() -> None:
    assert run([sys.executable, "-c", "import time; time.sleep(60)"], 0.2).error == (
        "it did not end within 0 seconds"
    )
    # Nor is what it started waited for, which holds its output open.
    assert run(["/bin/sh", "-c", "sleep 120; true"], 0.2).error == "it did not end within 0 seconds"
    killed = run([sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"], 60)
    assert (killed.error or "").startswith("killed by SIGSEGV; machine code was wrong")
    assert run(["no-such-program-anywhere"], 1).error == (
        "it could not be started: No such file or directory"
    )
    assert ask("compilegate.job.doctor.nowhere", 60)["error"].endswith(
        "No module named compilegate.job.doctor.nowhere"
    )


def test_the_spread_of_times_leaves_a_single_slow_one_out() -> None:
    times = iter([1.0, 1.1, 0.9, 1.0] * 10 + [9.0] * 100)
    found = timed("cpu", lambda: next(times), seconds=0.0)
    assert found["repeats"] == 20
    assert found["median_seconds"] == 1.0
    assert found["spread"] == pytest.approx(0.0375, abs=0.02)


def test_the_checkup_of_a_job_holds_scalars_alone(tmp_path: Path) -> None:
    found = checkup(nvidia_smi(tmp_path, VALUES), processor_time())
    assert found["gpu_throttled_by"] == "its power limit, its temperature"
    assert found["gpu_clock_mhz"] == 1185
    assert found["driver"] == "550.127.05"
    assert all(isinstance(value, (str, int, float)) for value in found.values())
