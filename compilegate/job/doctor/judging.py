"""Facts to findings: for each compiler what it lacks here, and what disturbs every measurement.

Pure. A lack is a reason why a compiler cannot run; a remark is not, but a user should know it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, Iterator, List, Optional, Tuple

from compilegate.job.compilers import declarations
from compilegate.job.compilers.torch_compile import BACKEND
from compilegate.job.compilers.torch_compile.backends import INDUCTOR, usable
from compilegate.job.doctor.facts import Facts, Gpu, Timing
from compilegate.job.doctor.needs import NEEDS, Lack

SCHEMA_VERSION = 1
_GIBIBYTE = 1 << 30
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the kernel's name for it
_SMALL_SHARED_MEMORY = 256 << 20
"""Docker's default is 64 MiB, which a few batches of images fill."""
_MOST_STEAL, _MOST_OTHERS, _MOST_SPREAD, _GPU_SPREAD = 0.01, 0.5, 0.10, 0.03
_MOST_GPU_USE = 0.05
_MOST_LATE = 1.5
_DECIDING = ("torch", "neuron device", "gpu", "gpu of xla")
"""Needs without which nothing is to be said of those that follow."""


@dataclass(frozen=True)
class Finding:
    """One compiler, or one backend of torch.compile."""

    compiler: str
    backend: Optional[str]
    """None for a compiler without backends."""
    runs_on: Optional[str]
    """gpu, cpu or neuron; None where it cannot run here."""
    needs: Tuple[str, ...]
    lacks: Tuple[Lack, ...]

    @property
    def label(self) -> str:
        """How a person calls it."""
        return self.compiler if self.backend is None else f"{self.compiler}, {self.backend}"


@dataclass(frozen=True)
class Examination:
    """All that a doctor has to say of a machine."""

    facts: Facts
    compilers: Tuple[Finding, ...]
    remarks: Tuple[Lack, ...]

    @property
    def document(self) -> Dict[str, Any]:
        """As JSON holds it."""
        return {
            "schema_version": SCHEMA_VERSION,
            "facts": asdict(self.facts),
            "compilers": [
                {**asdict(each), "lacks": [lack._asdict() for lack in each.lacks]}
                for each in self.compilers
            ],
            "remarks": [each._asdict() for each in self.remarks],
        }


def examination_of(facts: Facts) -> Examination:
    """What follows from the facts."""
    return Examination(facts, tuple(_findings(facts)), tuple(dict.fromkeys(_remarks(facts))))


def _findings(facts: Facts) -> Iterator[Finding]:
    for name, declaration in declarations().items():
        if BACKEND not in declaration.options:
            yield _finding(facts, name, None, declaration.needs)
            continue
        for backend in usable():
            if backend.name != INDUCTOR:  # a compiler by its own name
                yield _finding(facts, name, backend.name, (*declaration.needs, *backend.needs))


def _finding(
    facts: Facts, compiler: str, backend: Optional[str], needs: Tuple[str, ...]
) -> Finding:
    lacks: List[Lack] = []
    for need in needs:
        lacks = list(dict.fromkeys([*lacks, *NEEDS[need](facts)]))  # GPUs may lack the same
        if lacks and need in _DECIDING:
            break
    where = "neuron" if "neuron device" in needs else "gpu" if facts.on_gpu else "cpu"
    return Finding(compiler, backend, None if lacks else where, needs, tuple(lacks))


def _remarks(facts: Facts) -> Iterator[Lack]:
    """What disturbs measurements, or will stop a job that starts."""
    yield from _host_remarks(facts)
    for gpu in facts.driver.gpus:
        yield from _gpu_remarks(gpu)
    yield from _torch_remarks(facts)
    for timing in facts.timings:
        yield from _timing_remarks(timing)


def _host_remarks(facts: Facts) -> Iterator[Lack]:
    host = facts.host
    if host.core_quota is not None and host.core_quota < host.cores:
        yield Lack(
            f"the container may use {host.core_quota:g} cores' worth of time on {host.cores} cores",
            f"Set OMP_NUM_THREADS={max(1, int(host.core_quota))}, or its threads wait for one "
            "another.",
        )
    if host.free_memory_bytes is not None and host.free_memory_bytes < 2 * _GIBIBYTE:
        yield Lack(
            f"only {_gib(host.free_memory_bytes)} of memory is free",
            "End other programs, or take a larger machine.",
        )
    if host.shared_memory_bytes is not None and host.shared_memory_bytes < _SMALL_SHARED_MEMORY:
        yield Lack(
            f"{SHARED_MEMORY} holds {host.shared_memory_bytes >> 20} MiB, and a DataLoader's "
            "workers end with a bus error when it is full",
            "Start the container with --shm-size=1g, or load data with num_workers=0.",
        )
    if host.free_disk_bytes is not None and host.free_disk_bytes < 2 * _GIBIBYTE:
        yield Lack(
            f"only {_gib(host.free_disk_bytes)} of disk is free where temporary files go",
            "Free some, or name another folder in the variable TMPDIR.",
        )
    if host.steal is not None and host.steal > _MOST_STEAL:
        yield Lack(
            f"the hypervisor gave {host.steal:.0%} of the processor time to others",
            "Compare speeds on a machine that is not shared, or trust the quality alone.",
        )
    if host.others is not None and host.others > _MOST_OTHERS:
        yield Lack(
            f"other programs keep {host.others:.1f} of {host.cores} cores busy",
            "End them before a run whose speed is to be judged.",
        )


def _gpu_remarks(gpu: Gpu) -> Iterator[Lack]:
    name = f"GPU {gpu.index} ({gpu.name})"
    used = (gpu.used_bytes or 0) / gpu.total_bytes if gpu.total_bytes else 0.0
    busy = gpu.utilization or 0.0
    if gpu.processes or used > _MOST_GPU_USE or busy > _MOST_GPU_USE:
        yield Lack(
            f"{name} is in use by others: {gpu.processes or 'unseen'} processes, {used:.0%} of its "
            f"memory, busy {busy:.0%} of the last second",
            "End them (nvidia-smi lists them on the machine itself), or name another GPU in "
            "CUDA_VISIBLE_DEVICES.",
        )
    if gpu.throttled_by:
        yield Lack(
            f"{name} is held back by {' and '.join(gpu.throttled_by)}",
            "Cool it, or lock its clocks below that (nvidia-smi --lock-gpu-clocks), before speeds "
            "are compared.",
        )
    if gpu.persistence is False:
        yield Lack(
            f"{name} loads its driver anew for each job, since its persistence mode is off",
            "Switch it on: sudo nvidia-smi -pm 1.",
        )
    if gpu.exclusive is not None:
        yield Lack(
            f"{name} is in compute mode {gpu.exclusive}",
            "Set the default mode (sudo nvidia-smi -c 0), or a job of several processes fails.",
        )
    if gpu.mig:
        yield Lack(
            f"{name} is divided into instances (MIG)",
            "Name one instance in CUDA_VISIBLE_DEVICES, and compare only arms that have the same.",
        )
    if gpu.uncorrected_errors:
        yield Lack(
            f"{name} has had {gpu.uncorrected_errors} memory errors that it could not correct",
            "Reset it or take another; what it computes cannot be trusted.",
        )


def _torch_remarks(facts: Facts) -> Iterator[Lack]:
    torch = facts.torch
    if not facts.driver.gpus and no_gpu_but_cuda(facts):
        yield Lack(
            f"torch is a build for CUDA {torch.cuda}, and this machine has no GPU",
            "Keep it; a build for CPUs is only smaller.",
        )
    for device in torch.devices:
        if device.error is None and not device.native_bf16:
            yield Lack(
                f"{device.name} (compute capability {device.capability}) computes bf16 only by way "
                "of fp32, slowly",
                "Take precision = 'fp16' on it.",
            )
    lost = len(facts.driver.gpus) - len(torch.devices)
    if torch.available and lost > 0:
        yield Lack(
            f"torch sees {len(torch.devices)} of {len(facts.driver.gpus)} GPUs "
            f"(CUDA_VISIBLE_DEVICES is {facts.driver.visible or 'not set'})",
            "Nothing is wrong if a job shall have just these.",
        )
    if torch.threads is not None and torch.threads > facts.host.cores:
        yield Lack(
            f"torch takes {torch.threads} threads on {facts.host.cores} cores",
            f"Set OMP_NUM_THREADS={facts.host.cores}.",
        )
    for name, why in (
        ("TORCHDYNAMO_SUPPRESS_ERRORS", "turns a compiler's errors into eager mode"),
        ("NVIDIA_TF32_OVERRIDE", "overrules what a script says of TF32"),
        ("CUDA_LAUNCH_BLOCKING", "makes every kernel wait, so that no time is true"),
    ):
        if facts.variables.get(name, "") not in ("", "0"):
            yield Lack(f"{name} is {facts.variables[name]!r}, which {why}", f"Unset {name}.")


def no_gpu_but_cuda(facts: Facts) -> bool:
    """Whether torch was built for CUDA on a machine that neither has nor declares a GPU."""
    torch, driver = facts.torch, facts.driver
    return torch.cuda is not None and not torch.available and not (driver.error or driver.declared)


def _timing_remarks(timing: Timing) -> Iterator[Lack]:
    most = _MOST_SPREAD if timing.on == "cpu" else _GPU_SPREAD
    if timing.spread > most or timing.late > _MOST_LATE:
        yield Lack(
            f"the times of equal work on {timing.on} differ by ±{timing.spread:.0%}, and one in "
            f"twenty is over {timing.late:.1f} times the median",
            "Stop what else runs, and let more steps or seeds decide: a small gain cannot be shown "
            "here.",
        )


def _gib(size: int) -> str:
    return f"{size / _GIBIBYTE:.1f} GiB"
