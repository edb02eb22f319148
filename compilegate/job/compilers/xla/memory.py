"""The most memory that the steps held on an XLA device, by the device's own count. The host's would
be no answer for a GPU: beside a baseline's bytes on that GPU it would pass for a saving."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import List, Optional, Tuple

from compilegate.job.compilers.xla import runtime
from compilegate.job.machine.memory import OF_DEVICE, OF_PROCESS, process_peak, reset_process_peak

NEURON_CORES = Path("/sys/devices/virtual/neuron_device")
_PEAK = "neuron*/neuron_core*/stats/memory_usage/device_mem/peak"
"""By AWS Neuron's sysfs guide: in bytes, of a core; writing 0 starts it anew."""


def peak_memory(hardware: str, cores: Path = NEURON_CORES) -> Tuple[Optional[int], Optional[str]]:
    """Bytes and whose they are; None for what nobody counted. `hardware` is XLA's word."""
    if hardware == "CPU":
        return process_peak(), OF_PROCESS
    if hardware == "NEURON":
        # This process has one core. That of another is of the same job, and not above the most.
        peak = max(map(_number, _counters(cores)), default=0)
    else:
        # torch_xla before 2.6 tells what is free by now, which says nothing of the most.
        peak = int(runtime.memory_info().get("peak_bytes_used") or 0)
    return (peak, OF_DEVICE) if peak else (None, None)


def forget_peak_memory(hardware: str, cores: Path = NEURON_CORES) -> bool:
    """Have it count from here on; whether it does."""
    if hardware == "CPU":
        return reset_process_peak()
    written = False
    if hardware == "NEURON":
        with contextlib.suppress(OSError):  # it takes the rights of an administrator
            for each in _counters(cores):
                each.write_text("0", encoding="ascii")
                written = True
            return written
    return False


def _counters(cores: Path) -> List[Path]:
    return sorted(cores.glob(_PEAK))


def _number(path: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return 0
