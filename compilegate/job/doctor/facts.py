"""What is known of a machine. None stands for what could not be found out; bytes are bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping, Optional, Tuple


@dataclass(frozen=True)
class Host:
    """Cores, memory and disk, as far as this process may use them, and who else does."""

    platform: str
    python: str
    cpu: str
    cores: int
    """Cores that this process may run on."""
    core_quota: Optional[float]
    """Cores' worth of time that the container may take; None without a limit."""
    memory_bytes: Optional[int]
    """The machine's, or the container's limit where that is lower."""
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


@dataclass(frozen=True)
class Toolchain:
    """What compilers of kernels call."""

    cxx: Optional[str]
    """Path of the C++ compiler that inductor would take."""
    cxx_version: Optional[str]
    cxx_error: Optional[str]
    """What a program of three lines failed with; None where it was compiled and ran."""
    openmp_error: Optional[str]
    """The same of one with OpenMP."""
    cc: Optional[str]
    """Path of the C compiler that Triton would take."""
    python_headers: Optional[str]
    """The folder with Python.h."""


@dataclass(frozen=True)
class Gpu:
    """One GPU, as the driver tells; see nvidia-smi --help-query-gpu."""

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
    persistence: Optional[bool] = None
    exclusive: Optional[str] = None
    """Its compute mode, where that is not the default."""
    mig: Optional[bool] = None
    """Whether it is divided into instances."""
    uncorrected_errors: Optional[int] = None
    """Memory errors since the driver was loaded."""
    processes: int = 0
    """Processes that compute on it; a container sees none but its own."""


@dataclass(frozen=True)
class Driver:
    """NVIDIA's driver and its GPUs."""

    version: Optional[str] = None
    cuda: Optional[str] = None
    """The newest CUDA that it runs."""
    error: Optional[str] = None
    """Why nvidia-smi told nothing, where there is a GPU or a driver."""
    visible: Optional[str] = None
    """CUDA_VISIBLE_DEVICES."""
    declared: int = 0
    """GPUs that SageMaker says this instance has (SM_NUM_GPUS)."""
    gpus: Tuple[Gpu, ...] = ()


@dataclass(frozen=True)
class TorchDevice:
    """A GPU as torch sees it."""

    name: str
    capability: str
    total_bytes: int
    free_bytes: int
    error: Optional[str] = None
    """What a small product of matrices failed with; None where it was right."""
    precisions: Tuple[str, ...] = ()
    """Those in which it computed: fp32, tf32, bf16, fp16."""
    native_bf16: bool = False


@dataclass(frozen=True)
class Torch:
    """torch, as its import and its first steps on a device tell."""

    version: Optional[str] = None
    error: Optional[str] = None
    """Why it could not be imported, or how its process ended; None where it can."""
    cuda: Optional[str] = None
    """The CUDA that it was built for; None in a build without."""
    architectures: Tuple[str, ...] = ()
    """GPUs that it has kernels for: sm_80, ..."""
    cudnn: Optional[str] = None
    nccl: Optional[str] = None
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
    settings: Mapping[str, object] = field(default_factory=dict)
    """What decides the arithmetic of products and convolutions, by the name of the setting."""


@dataclass(frozen=True)
class Xla:
    """torch_xla, as its import tells."""

    version: str
    error: Optional[str] = None
    """Why it could not be imported or has no device; None where it does."""
    configured: bool = False
    """Whether it is that of SageMaker Training Compiler, switched on."""
    hardware: Optional[str] = None
    """What its device is: CPU, GPU, CUDA, NEURON, ..."""


@dataclass(frozen=True)
class Timing:
    """How a small piece of work varies that should take the same time each time."""

    on: str
    """cpu, or a GPU's name."""
    median_seconds: float
    spread: float
    """How far the middle half of the times reaches around the median, over it: 0.05 is ±5%."""
    late: float
    """What one in twenty exceeds, over the median."""
    repeats: int


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
    timings: Tuple[Timing, ...]
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
