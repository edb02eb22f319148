"""NVIDIA's driver and its GPUs, from nvidia-smi. It needs no torch, and starts nothing on a GPU."""

from __future__ import annotations

import csv
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from compilegate.job.doctor.facts import Driver, Gpu
from compilegate.job.doctor.looking.processes import Ended, run
from compilegate.job.names import VISIBLE_GPUS_VARIABLE

_SECONDS = 30.0
_MEBIBYTE = 1024 * 1024
_ERRORS = "ecc.errors.uncorrected.volatile.total"
_FIELDS = (
    *("index", "name", "uuid", "driver_version", "memory.total", "memory.used"),
    *("utilization.gpu", "compute_cap", "clocks.sm", "clocks.max.sm", "persistence_mode"),
    *("compute_mode", "mig.mode.current", _ERRORS),
    "clocks_event_reasons.active",
    "clocks_throttle_reasons.active",
)
"""A driver that does not know one of them refuses the whole query and names it."""
_REASONS = {
    # nvml.h, nvmlClocksEventReasons; 0x1 is an idle GPU and 0x2 a clock that someone chose.
    0x4: "its power limit",
    0x8: "a slowdown by hardware",
    0x10: "the boost of a group of GPUs",
    0x20: "its temperature",
    0x40: "its temperature, by hardware",
    0x80: "an external power brake",
    0x100: "its display's clocks",
}
_NOTHING = ("", "[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "[GPU requires reset]")


def examine_driver(variables: Mapping[str, str]) -> Driver:
    """The driver and its GPUs. `variables` are the environment's."""
    visible = variables.get(VISIBLE_GPUS_VARIABLE)
    declared = variables.get("SM_NUM_GPUS", "")
    told = Driver(visible=visible, declared=int(declared) if declared.isdigit() else 0)
    program = shutil.which("nvidia-smi", path=variables.get("PATH"))
    if program is None:
        return replace(told, version=_kernel_module(), error=_without_program(_kernel_module()))
    answer = _query(program, _FIELDS)
    if answer.error is not None:
        return replace(told, version=_kernel_module(), error=answer.error)
    processes = _processes(program)
    gpus = tuple(_gpu(row, processes) for row in answer.rows)
    version = answer.rows[0].get("driver_version") if answer.rows else None
    return replace(told, version=version or _kernel_module(), cuda=_newest_cuda(program), gpus=gpus)


def _without_program(kernel_module: Optional[str]) -> Optional[str]:
    """Nothing is wrong on a machine that has neither; a container may lack the program alone."""
    devices = sorted(each.name for each in Path("/dev").glob("nvidia[0-9]*"))
    if kernel_module is None and not devices:
        return None
    seen = f"driver {kernel_module}" if kernel_module else f"/dev/{devices[0]}"
    return f"nvidia-smi is not installed, though the kernel shows {seen}"


def _kernel_module() -> Optional[str]:
    """The version of the driver that the kernel has loaded."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", text)
    return found.group(1) if found else None


class _Answer(NamedTuple):
    rows: List[Dict[str, str]]
    error: Optional[str]


def _query(program: str, fields: Tuple[str, ...]) -> _Answer:
    """A row for each GPU, without the fields that this driver does not know."""
    ended = _ask(program, "--query-gpu", fields)
    unknown = re.search(r'Field "([^"]+)" is not a valid field', ended.output + (ended.error or ""))
    if unknown is not None and unknown.group(1) in fields:
        return _query(program, tuple(each for each in fields if each != unknown.group(1)))
    if ended.error is not None:
        return _Answer([], f"nvidia-smi says: {ended.error}")
    rows = csv.reader(ended.output.splitlines(), skipinitialspace=True)
    found = [dict(zip(fields, (each.strip() for each in row))) for row in rows]
    wrong = next((row for row in found if len(row) != len(fields)), None)
    if wrong is not None:
        return _Answer([], f"nvidia-smi says: {', '.join(wrong.values())}")
    return _Answer(found, None)


def _ask(program: str, query: str, fields: Tuple[str, ...]) -> Ended:
    return run([program, f"{query}={','.join(fields)}", "--format=csv,noheader,nounits"], _SECONDS)


def _processes(program: str) -> Dict[str, int]:
    """How many processes compute on each GPU, by its UUID."""
    found: Dict[str, int] = {}
    for line in _ask(program, "--query-compute-apps", ("gpu_uuid", "pid")).output.splitlines():
        uuid, _, pid = line.partition(",")
        if pid.strip().isdigit() and int(pid) != os.getpid():
            found[uuid.strip()] = found.get(uuid.strip(), 0) + 1
    return found


def _newest_cuda(program: str) -> Optional[str]:
    """Only nvidia-smi's own page says it."""
    found = re.search(r"CUDA Version:\s*([\d.]+)", run([program], _SECONDS).output)
    return found.group(1) if found else None


def _gpu(row: Mapping[str, str], processes: Mapping[str, int]) -> Gpu:
    used, total = _number(row.get("memory.used")), _number(row.get("memory.total"))
    utilization = _number(row.get("utilization.gpu"))
    active = row.get("clocks_event_reasons.active") or row.get("clocks_throttle_reasons.active")
    mode = row.get("compute_mode", "")
    index, errors = _number(row.get("index")), _number(row.get(_ERRORS))
    return Gpu(
        index=int(index or 0),
        name=row.get("name", ""),
        total_bytes=None if total is None else int(total) * _MEBIBYTE,
        used_bytes=None if used is None else int(used) * _MEBIBYTE,
        utilization=None if utilization is None else utilization / 100,
        capability=_text(row.get("compute_cap")),
        clock_mhz=_number(row.get("clocks.sm")),
        most_clock_mhz=_number(row.get("clocks.max.sm")),
        throttled_by=_reasons(active),
        persistence=_flag(row.get("persistence_mode")),
        exclusive=None if mode in (*_NOTHING, "Default") else mode,
        mig=_flag(row.get("mig.mode.current")),
        uncorrected_errors=None if errors is None else int(errors),
        processes=processes.get(row.get("uuid", ""), 0),
    )


def _text(value: Optional[str]) -> Optional[str]:
    return None if value is None or value in _NOTHING else value


def _number(value: Optional[str]) -> Optional[float]:
    try:
        return float(value or "")
    except ValueError:
        return None


def _flag(value: Optional[str]) -> Optional[bool]:
    return {"Enabled": True, "Disabled": False}.get(value or "")


def _reasons(active: Optional[str]) -> Tuple[str, ...]:
    try:
        bits = int(active or "", 16)
    except ValueError:
        return ()
    return tuple(reason for bit, reason in _REASONS.items() if bits & bit)
