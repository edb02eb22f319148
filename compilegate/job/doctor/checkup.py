"""The short form in the evidence of every job: what its machine was like while it trained.

It tells a reader why step times scatter. It is no part of the environment that arms are compared
by: a load is never the same twice. Nothing here imports torch or starts anything on a GPU.
"""

from __future__ import annotations

import os
from typing import Dict, Mapping, Optional

from compilegate.job.doctor.facts import ProcessorTime, driver_here, host_here, processor_time
from compilegate.job.evidence import Scalar
from compilegate.job.machine.environment import version_of
from compilegate.job.machine.programs import c_compiler, cxx_compiler

_STARTED = processor_time()


def checkup(
    variables: Mapping[str, str] = os.environ, since: Optional[ProcessorTime] = _STARTED
) -> Dict[str, Scalar]:
    """The facts by name, in a fraction of a second. Shares and cores of others are since the time
    given, by default since this module was imported, as every job does when it starts."""
    host, driver = host_here(since), driver_here(variables)
    clocks = [each.clock_mhz for each in driver.gpus if each.clock_mhz is not None]
    throttled_by = sorted({reason for each in driver.gpus for reason in each.throttled_by})
    found: Dict[str, Optional[Scalar]] = {
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
        "driver_error": driver.error,
        "gpus": len(driver.gpus),
        "gpus_declared": driver.declared,
        "gpu_capability": driver.gpus[0].capability if driver.gpus else None,
        "gpu_clock_mhz": min(clocks, default=None),  # what disturbs on any of them: the worst
        "gpu_most_clock_mhz": driver.gpus[0].most_clock_mhz if driver.gpus else None,
        "gpu_throttled_by": ", ".join(throttled_by) or None,
    }
    return {name: value for name, value in found.items() if value is not None}
