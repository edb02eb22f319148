"""What is seen of a machine. None stands for what could not be found out; bytes are bytes."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sysconfig
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, Mapping, NamedTuple, Optional, Tuple

from compilegate.job.machine.accelerators import TOOLKIT_GPUS_VARIABLE, nvidia_smi
from compilegate.job.machine.environment import cores_available, cpu_model, version_of
from compilegate.job.machine.memory import core_quota, memory_here
from compilegate.job.machine.programs import c_compiler, cxx_compiler, run, version_line
from compilegate.job.names import VISIBLE_GPUS_VARIABLE, XLA_DEVICE_VARIABLE

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the kernel's name for it
PACKAGES = (
    *("torch", "torchvision", "transformers", "accelerate", "lightning", "tensorflow", "keras"),
    *("triton", "pytorch-triton", "torch_xla", "torch-neuronx", "neuronx-cc", "torch-tensorrt"),
    *("onnx", "onnxscript", "onnxruntime-training", "onnxruntime", "safetensors", "numpy"),
)
VARIABLES = (
    *("SM_TRAINING_COMPILER_CONFIGURED", XLA_DEVICE_VARIABLE, "OMP_NUM_THREADS"),
    *("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_SUPPRESS_ERRORS"),
    *("NVIDIA_TF32_OVERRIDE", "CUDA_LAUNCH_BLOCKING"),
)
"""Variables that switch something on or off."""


@dataclass(frozen=True)
class Host:
    """Cores, memory and disk, as far as this process may use them, and who else does."""

    python: str
    cpu: str
    cores: int
    """Cores that this process may run on."""
    core_quota: Optional[float]
    """Cores' worth of time that the container may take; None without a limit."""
    memory_bytes: Optional[int]
    free_memory_bytes: Optional[int]
    shared_memory_bytes: Optional[int]
    """Size of /dev/shm, through which a loader's workers hand over their batches."""
    free_disk_bytes: Optional[int]
    """Where temporary files go: compilers keep their kernels there."""
    load: Optional[float]
    """Processes that wanted to run over the last minute."""
    steal: Optional[float]
    """Share of processor time that the hypervisor gave to others, while this was measured."""
    others: Optional[float]
    """Cores that other processes kept busy meanwhile."""


class ProcessorTime(NamedTuple):
    """Seconds of processor time since the machine started, all cores together."""

    busy: float
    stolen: float
    total: float
    own: float
    """This process's, with that of its children that have ended."""
    at: float
    """When it was read, by a clock that only goes forward."""

    def since(self, start: ProcessorTime) -> Tuple[Optional[float], Optional[float]]:
        """Since then: the share that was stolen, and the cores that others kept busy on average."""
        total, seconds = self.total - start.total, self.at - start.at
        if total <= 0 or seconds <= 0:
            return None, None
        others = (self.busy - start.busy) - (self.own - start.own)
        return max(0.0, (self.stolen - start.stolen) / total), max(0.0, others / seconds)


def processor_time() -> Optional[ProcessorTime]:
    """The kernel's count until now; None where there is no /proc/stat."""
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
        ticks = [int(each) / os.sysconf("SC_CLK_TCK") for each in first[1:9]]
        user, nice, system, idle, waiting, interrupts, soft, stolen = ticks
    except (OSError, ValueError):
        return None
    busy = user + nice + system + interrupts + soft
    own = sum(os.times()[:4])
    return ProcessorTime(busy, stolen, busy + idle + waiting + stolen, own, time.monotonic())


def host_here(since: Optional[ProcessorTime]) -> Host:
    """The host now; steal and others' use since that time."""
    now = processor_time()
    steal, others = now.since(since) if now is not None and since is not None else (None, None)
    memory, free = memory_here()
    shared = disk = load = None
    with contextlib.suppress(OSError):
        shared = shutil.disk_usage(SHARED_MEMORY).total
    with contextlib.suppress(OSError):
        disk = shutil.disk_usage(tempfile.gettempdir()).free
    with contextlib.suppress(AttributeError, OSError):
        load = os.getloadavg()[0]
    return Host(
        python=platform.python_version(),
        cpu=cpu_model(),
        cores=cores_available(),
        core_quota=core_quota(),
        memory_bytes=memory,
        free_memory_bytes=free,
        shared_memory_bytes=shared,
        free_disk_bytes=disk,
        load=load,
        steal=steal,
        others=others,
    )


@dataclass(frozen=True)
class Toolchain:
    """What compilers of kernels call: inductor a C++ compiler for a CPU, Triton a C compiler."""

    cxx: Optional[str]
    cxx_version: Optional[str]
    cxx_error: Optional[str]
    """What a program with OpenMP failed with; None where it was compiled and ran."""
    cc: Optional[str]
    python_headers: Optional[str]
    """The folder with Python.h; None where only the interpreter is installed."""


_PROGRAM = """
#include <vector>
#include <omp.h>
int main() { std::vector<int> one(1, omp_get_max_threads()); return one[0] > 0 ? 0 : 1; }
"""


def toolchain_here(variables: Mapping[str, str]) -> Toolchain:
    """The compilers that torch would take, tried out. `variables` are the environment's."""
    cxx = cxx_compiler(variables)
    headers = sysconfig.get_paths()["include"]
    return Toolchain(
        cxx=cxx,
        cxx_version=None if cxx is None else version_line(cxx),
        cxx_error=None if cxx is None else _compiled(cxx),
        cc=c_compiler(variables),
        python_headers=headers if Path(headers, "Python.h").is_file() else None,
    )


def _compiled(cxx: str) -> Optional[str]:
    """Why the program could not be compiled or run; None where it did both."""
    # Apple's clang has no OpenMP of its own; torch brings the library and says so itself.
    flags = ["-Xclang", "-fopenmp"] if platform.system() == "Darwin" else ["-fopenmp"]
    with tempfile.TemporaryDirectory(prefix="compilegate-doctor-") as folder:
        source, program = Path(folder, "one.cpp"), Path(folder, "one")
        source.write_text(_PROGRAM, encoding="ascii")
        compiled = run([cxx, *flags, str(source), "-o", str(program)], 60)
        return compiled.error or run([str(program)], 60).error


@dataclass(frozen=True)
class Gpu:
    """One GPU, as the driver describes it; see nvidia-smi --help-query-gpu."""

    index: int
    name: str
    total_bytes: Optional[int] = None
    used_bytes: Optional[int] = None
    """By all processes, before this one used any."""
    utilization: Optional[float] = None
    """Share of the last second in which something ran on it."""
    capability: Optional[str] = None
    """Compute capability, such as 8.6."""
    clock_mhz: Optional[float] = None
    most_clock_mhz: Optional[float] = None
    throttled_by: Tuple[str, ...] = ()
    """Why its clock is lower than it could be; idleness is no reason."""


@dataclass(frozen=True)
class Driver:
    """NVIDIA's driver and its GPUs."""

    version: Optional[str] = None
    error: Optional[str] = None
    """Why nvidia-smi does not answer, where there is a GPU or a driver."""
    visible: Optional[str] = None
    """CUDA_VISIBLE_DEVICES."""
    declared: int = 0
    """GPUs that SageMaker says this instance has (SM_NUM_GPUS)."""
    gpus: Tuple[Gpu, ...] = ()


_REASONS = "clocks_event_reasons.active", "clocks_throttle_reasons.active"
_FIELDS = (
    *("index", "name", "driver_version", "memory.total", "memory.used", "utilization.gpu"),
    *("compute_cap", "clocks.sm", "clocks.max.sm", *_REASONS),
)
_THROTTLES = {
    # nvml.h, nvmlClocksEventReasons; 0x1 is an idle GPU and 0x2 a clock that someone chose.
    0x4: "its power limit",
    0x8: "a slowdown by hardware",
    0x10: "the boost of a group of GPUs",
    0x20: "its temperature",
    0x40: "its temperature, by hardware",
    0x80: "an external power brake",
    0x100: "its display's clocks",
}


def driver_here(variables: Mapping[str, str]) -> Driver:
    """The driver and its GPUs, without torch and without use of a GPU. `variables` are the
    environment's."""
    declared = variables.get(TOOLKIT_GPUS_VARIABLE, "")
    rows, error = nvidia_smi(_FIELDS, variables.get("PATH"))
    if shutil.which("nvidia-smi", path=variables.get("PATH")) is None:
        shown = [Path("/proc/driver/nvidia/version"), *Path("/dev").glob("nvidia[0-9]*")]
        there = next((each for each in shown if each.exists()), None)
        error = None if there is None else f"{error}, though there is {there}"
    return Driver(
        version=rows[0].get("driver_version") if rows else None,
        error=error,
        visible=variables.get(VISIBLE_GPUS_VARIABLE),
        declared=int(declared) if declared.isdigit() else 0,
        gpus=tuple(map(_gpu, rows)),
    )


def _gpu(row: Mapping[str, str]) -> Gpu:
    def number(name: str, unit: float = 1.0) -> Optional[float]:
        try:
            return float(row.get(name, "")) * unit
        except ValueError:  # [N/A], [Not Supported] and the like
            return None

    def size(name: str) -> Optional[int]:
        found = number(name, 1 << 20)
        return None if found is None else int(found)

    reasons = 0
    with contextlib.suppress(ValueError):
        reasons = int(row.get(_REASONS[0]) or row.get(_REASONS[1]) or "0", 16)
    return Gpu(
        index=int(number("index") or 0),
        name=row.get("name", ""),
        total_bytes=size("memory.total"),
        used_bytes=size("memory.used"),
        utilization=number("utilization.gpu", 0.01),
        capability=None if number("compute_cap") is None else row["compute_cap"],
        clock_mhz=number("clocks.sm"),
        most_clock_mhz=number("clocks.max.sm"),
        throttled_by=tuple(said for bit, said in _THROTTLES.items() if reasons & bit),
    )


@dataclass(frozen=True)
class TorchDevice:
    """A GPU as torch sees it."""

    name: str
    capability: str = ""
    total_bytes: int = 0
    free_bytes: int = 0
    error: Optional[str] = None
    """What a product of matrices failed with; None where it was right."""


@dataclass(frozen=True)
class Torch:
    """torch, as its import and its first steps on a device show it."""

    version: Optional[str] = None
    error: Optional[str] = None
    """Why it could not be imported, or how its process ended; None where it can."""
    cuda: Optional[str] = None
    """The CUDA that it was built for; None in a build without."""
    available: bool = False
    """Whether it computes with CUDA here."""
    cuda_error: Optional[str] = None
    """What CUDA's start failed with."""
    devices: Tuple[TorchDevice, ...] = ()
    threads: Optional[int] = None
    triton: Optional[str] = None
    """Triton's version, where it can be imported."""
    triton_error: Optional[str] = None
    """Why it cannot, where it is installed."""


@dataclass(frozen=True)
class Xla:
    """torch_xla, as its import shows it."""

    version: str
    error: Optional[str] = None
    """Why it could not be imported or has no device; None where it does."""
    configured: bool = False
    """Whether it is that of SageMaker Training Compiler, switched on."""


@dataclass(frozen=True)
class Tried:
    """A compiler that was given a small model to compile and take three steps with."""

    compiler: str
    device: str
    seconds: float
    """From the start of its process to the end."""
    error: Optional[str] = None
    """Why it failed, in one sentence; None where its gradients are eager's."""


@dataclass(frozen=True)
class Facts:
    """All that is known of a machine."""

    host: Host
    toolchain: Toolchain
    driver: Driver
    torch: Torch
    xla: Optional[Xla]
    """None where it is not installed."""
    packages: Mapping[str, str]
    """Installed packages that matter to a compiler, with their versions."""
    neuron_devices: int
    """Neuron devices that the kernel shows."""
    instance_type: Optional[str]
    """The SageMaker instance that this is; None elsewhere."""
    image: Optional[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of the environment that switch a compiler on or off."""
    tried: Tuple[Tried, ...] = ()

    @property
    def on_gpu(self) -> bool:
        """Whether a job here would compute on a GPU."""
        return self.torch.available and bool(self.torch.devices)


def installed_packages() -> Dict[str, str]:
    """Those of PACKAGES that are installed, with their versions. Nothing is imported."""
    found = {name: version_of(name) for name in PACKAGES}
    return {name: version for name, version in found.items() if version is not None}
