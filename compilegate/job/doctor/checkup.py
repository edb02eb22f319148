"""The short form in the evidence of every job: what its machine was like while it trained.

It tells a reader why step times scatter. It is no part of the environment that arms are compared
by: a load is never the same twice. Nothing here imports torch or starts anything on a GPU.
"""

from __future__ import annotations

import os
from typing import Dict, Mapping, Optional, Tuple

from compilegate.job.doctor.facts import Gpu
from compilegate.job.doctor.looking.gpus import examine_driver
from compilegate.job.doctor.looking.host import ProcessorTime, examine_host, processor_time
from compilegate.job.doctor.looking.toolchain import c_compiler, cxx_compiler
from compilegate.job.evidence import Scalar
from compilegate.job.machine.environment import version_of

_STARTED = processor_time()


def checkup(
    variables: Mapping[str, str] = os.environ, since: Optional[ProcessorTime] = _STARTED
) -> Dict[str, Scalar]:
    """The facts by name, in a fraction of a second. Shares and cores of others are since the time
    given, by default since this module was imported, as every job does when it starts."""
    host, driver = examine_host(since), examine_driver(variables)
    found: Dict[str, Scalar] = {
        "load": host.load,
        "processors": os.cpu_count(),  # of the machine, which the load is of; a job may have fewer
        "steal": host.steal,
        "cores_of_other_processes": host.others,
        "core_quota": host.core_quota,
        "free_memory_bytes": host.free_memory_bytes,
        "cxx": cxx_compiler(variables),
        "cc": c_compiler(variables),
        "triton": version_of("triton") or version_of("pytorch-triton"),
        "driver": driver.version,
        "driver_cuda": driver.cuda,
        "driver_error": driver.error,
        "gpus": len(driver.gpus),
        "gpus_declared": driver.declared,
    }
    if driver.gpus:
        found.update(_of_all(driver.gpus))
    return {name: value for name, value in found.items() if value is not None}


def _of_all(gpus: Tuple[Gpu, ...]) -> Dict[str, Scalar]:
    """What disturbs on any of them: the worst of each."""
    clocks = [each.clock_mhz for each in gpus if each.clock_mhz is not None]
    reasons = sorted({reason for each in gpus for reason in each.throttled_by})
    return {
        "gpu_capability": gpus[0].capability,
        "gpu_clock_mhz": min(clocks) if clocks else None,
        "gpu_most_clock_mhz": gpus[0].most_clock_mhz,
        "gpu_throttled_by": ", ".join(reasons) or None,
        "gpu_memory_errors": sum(each.uncorrected_errors or 0 for each in gpus),
    }
