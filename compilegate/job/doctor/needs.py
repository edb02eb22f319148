"""Facts to findings: what each compiler needs of a machine and lacks, and what disturbs there.

A compiler's declaration, and a backend's entry, name their needs; NEEDS is the one table of them.
A lack is a reason why a compiler cannot run; a remark is not, but a user should know it. Pure.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from compilegate.job.compilers import declarations
from compilegate.job.compilers.declaration import BACKEND, INDUCTOR, usable
from compilegate.job.doctor.facts import SHARED_MEMORY, Facts, Gpu, Host

SCHEMA_VERSION = 2


class Lack(NamedTuple):
    """Something that is missing or in the way."""

    what: str
    """A clause that ends "it lacks" or "beware"."""
    do: str
    """One sentence, as an instruction."""


Lacks = Iterator[Lack]


def torch_imported(facts: Facts) -> Lacks:
    """torch can be imported."""
    torch = facts.torch
    if torch.error is not None:
        yield Lack(
            f"a torch that can be imported ({torch.error})",
            "Install torch again, in the build for this machine's processor, Python and CUDA.",
        )
    elif torch.version is None:
        yield Lack("torch", "Install the torch that the image's requirements.txt names.")


def computes(facts: Facts) -> Lacks:
    """Where GPUs are declared or a driver shows them, torch computes on each."""
    if facts.torch.version is None:
        return
    yield from _no_cuda(facts)
    for device in facts.torch.devices:
        if device.error is not None:
            yield Lack(
                f"a {device.name} that computes ({device.error})",
                "End other programs that use it, install a torch with kernels for its compute "
                "capability, or restart its driver.",
            )


def _no_cuda(facts: Facts) -> Lacks:
    """Why torch computes on a CPU though the machine has a GPU."""
    torch, driver = facts.torch, facts.driver
    declared = max(driver.declared, len(driver.gpus))
    if torch.available or not (declared or driver.error):
        return
    gpus = "a GPU" if declared <= 1 else f"{declared} GPUs"
    if driver.visible is not None and driver.visible.strip() in ("", "-1"):
        yield Lack(
            f"the use of {gpus} (CUDA_VISIBLE_DEVICES is {driver.visible!r})",
            "Unset CUDA_VISIBLE_DEVICES, or name the GPUs that the job may use.",
        )
    elif torch.cuda is None:
        yield Lack(
            f"a torch for {gpus}: {torch.version} is a build without CUDA",
            "Install torch from the index of its CUDA builds (https://pytorch.org/get-started).",
        )
    elif driver.error is not None or not driver.gpus:
        yield Lack(
            f"a driver that answers ({driver.error or torch.cuda_error or 'it shows no GPU'})",
            "Run nvidia-smi on the machine itself; in a container, start it with --gpus all and "
            "NVIDIA's container toolkit.",
        )
    else:
        yield Lack(
            f"CUDA {torch.cuda} with driver {driver.version} ({torch.cuda_error})",
            "Update NVIDIA's driver (nvidia-smi shows the newest CUDA that it runs), or install a "
            "torch for its CUDA; restart the machine if its driver was updated since it started.",
        )


def dynamo(facts: Facts) -> Lacks:
    """torch.compile is there and no variable switches it off."""
    if (0,) < _version(facts.torch.version) < (2,):
        yield Lack(
            f"torch.compile: this is torch {facts.torch.version}",
            "Take an image with torch 2.0 or later, or compiler = 'eager'.",
        )
    for name in ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"):
        if facts.variables.get(name, "") not in ("", "0"):
            yield Lack(
                f"permission: {name} is {facts.variables[name]!r}, which switches it off",
                f"Unset {name}.",
            )


def kernels(facts: Facts) -> Lacks:
    """Kernels can be compiled for what a job would compute on."""
    tools, torch = facts.toolchain, facts.torch
    if not facts.on_gpu:
        if tools.cxx is None:
            yield Lack(
                "a C++ compiler for a CPU's kernels",
                "Install g++ (Debian, Ubuntu: apt-get install g++), or name one in CXX.",
            )
        elif tools.cxx_error is not None:
            yield Lack(
                f"a C++ compiler that works with OpenMP: {tools.cxx} failed ({tools.cxx_error})",
                "Install it with its standard library and OpenMP (Debian, Ubuntu: apt-get install "
                "g++; clang: libomp-dev; macOS: brew install libomp).",
            )
    else:
        if torch.triton is None:
            why = f" that can be imported ({torch.triton_error})" if torch.triton_error else ""
            yield Lack(
                f"a Triton{why}, which makes a GPU's kernels",
                f"Install the Triton that torch {torch.version} declares; pip brings it along.",
            )
        if tools.cc is None:
            yield Lack(
                "a C compiler, with which Triton makes what starts its kernels",
                "Install gcc (Debian, Ubuntu: apt-get install gcc), or name one in CC.",
            )
    if tools.python_headers is None:
        version = ".".join(facts.host.python.split(".")[:2])
        yield Lack(
            "Python's headers",
            f"Install python{version}-dev (Debian, Ubuntu), or a Python that brings Python.h.",
        )
    for device in torch.devices:
        # The oldest that torch.compile makes Triton kernels for (torch/_inductor/scheduler.py).
        if facts.on_gpu and (0,) < _version(device.capability) < (7, 0):
            yield Lack(
                f"a GPU that Triton compiles for: {device.name} has compute capability "
                f"{device.capability}, needed is 7.0",
                "Take a GPU from Volta on (V100, T4, A10G, ...), or backend = 'cudagraphs'.",
            )


def gpu(facts: Facts) -> Lacks:
    """There is a GPU that torch computes on."""
    if not facts.on_gpu and not list(_no_cuda(facts)):
        yield Lack("a GPU", "Run the arm on an instance with one (class g4dn, g5, g6, p4d, p5).")


def gpu_of_xla(facts: Facts) -> Lacks:
    """There is a GPU, whoever computes on it."""
    if not facts.driver.gpus:
        yield Lack("a GPU", "Run the arm on an instance of class p3, p3dn, g4dn, p4d or g5.")


def torch_xla(facts: Facts) -> Lacks:
    """torch_xla is there, fits torch and has a device."""
    if facts.xla is None:
        yield Lack(
            "torch_xla",
            "Install it beside the torch of the same version, as containers/xla/requirements.txt "
            "does.",
        )
    elif facts.xla.error is not None:
        release = ".".join(map(str, _version(facts.xla.version)[:2]))
        yield Lack(
            f"a torch_xla that works ({facts.xla.error})",
            f"Install torch {release}, the release that torch_xla {facts.xla.version} is made for, "
            "and that torch_xla again.",
        )


_ON_SAGEMAKER = "it is in AWS's images for it alone, started by SageMaker's training toolkit"


def training_compiler(facts: Facts) -> Lacks:
    """torch_xla is AWS's, and switched on."""
    if facts.xla is None:
        yield Lack("AWS's torch_xla", f"Run the arm on SageMaker: {_ON_SAGEMAKER}.")
    elif not facts.xla.configured:
        yield Lack(
            f"the compiler: torch_xla {facts.xla.version} did not switch it on",
            f"Run the arm on SageMaker: {_ON_SAGEMAKER}.",
        )


def neuron_device(facts: Facts) -> Lacks:
    """There is a Trainium chip, and its driver."""
    if not facts.neuron_devices:
        yield Lack(
            "Trainium (the kernel shows no /dev/neuron0)",
            "Run the arm on an instance of class trn1 or trn2.",
        )


def before_torch_29(facts: Facts) -> Lacks:
    """torch still has the backend of ONNX Runtime."""
    if _version(facts.torch.version) >= (2, 9):
        yield Lack(
            f"the backend: torch {facts.torch.version} has none for ONNX Runtime",
            "Take torch 2.8, the last release with it, or backend = 'inductor'.",
        )


def _package(name: str, do: str) -> Callable[[Facts], Lacks]:
    def installed(facts: Facts) -> Lacks:
        if name not in facts.packages:
            yield Lack(f"the package {name}", do)

    return installed


NEEDS: Mapping[str, Callable[[Facts], Lacks]] = {
    "torch": torch_imported,
    "working device": computes,
    "dynamo": dynamo,
    "kernels": kernels,
    "gpu": gpu,
    "gpu of xla": gpu_of_xla,
    "torch_xla": torch_xla,
    "training compiler": training_compiler,
    "neuron device": neuron_device,
    "torch-neuronx": _package("torch-neuronx", "Take AWS's Neuron image, which brings it."),
    "neuronx-cc": _package("neuronx-cc", "Take AWS's Neuron image, which brings it."),
    "torch-tensorrt": _package("torch-tensorrt", "Add torch-tensorrt to the image."),
    "onnxruntime-training": _package(
        "onnxruntime-training", "Add onnx, onnxscript and onnxruntime-training to the image."
    ),
    "torch before 2.9": before_torch_29,
}
"""Every need, by the name that declarations have for it."""
_DECIDING = ("torch", "neuron device", "gpu", "gpu of xla")
"""Needs without which nothing is to be said of those that follow."""


def _version(text: Optional[str]) -> Tuple[int, ...]:
    """2.13.0+cpu is (2, 13, 0)."""
    return tuple(int(each) for each in re.findall(r"\d+", (text or "").split("+")[0])[:3])


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
    found: List[Finding] = []
    for name, declaration in declarations().items():
        if BACKEND not in declaration.options:
            found.append(_finding(facts, name, None, declaration.needs))
            continue
        for backend in usable():
            if backend.name != INDUCTOR:  # a compiler by its own name
                needs = (*declaration.needs, *backend.needs)
                found.append(_finding(facts, name, backend.name, needs))
    return Examination(facts, tuple(found), tuple(dict.fromkeys(_remarks(facts))))


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


def _remarks(facts: Facts) -> Lacks:
    """What disturbs measurements, or will stop a job that starts."""
    yield from _host_remarks(facts.host)
    for each in facts.driver.gpus:
        yield from _gpu_remarks(each)
    host, torch = facts.host, facts.torch
    for device in torch.devices:
        if device.error is None and (0,) < _version(device.capability) < (8, 0):
            yield Lack(
                f"{device.name} (compute capability {device.capability}) computes bf16 only by way "
                "of fp32, slowly",
                "Take precision = 'fp16' on it.",
            )
    if torch.available and len(torch.devices) < len(facts.driver.gpus):
        yield Lack(
            f"torch sees {len(torch.devices)} of {len(facts.driver.gpus)} GPUs "
            f"(CUDA_VISIBLE_DEVICES is {facts.driver.visible or 'not set'})",
            "Nothing is wrong if a job shall have just these.",
        )
    if torch.threads is not None and torch.threads > host.cores:
        yield Lack(
            f"torch takes {torch.threads} threads on {host.cores} cores",
            f"Set OMP_NUM_THREADS={host.cores}.",
        )
    for name, why in (
        ("TORCHDYNAMO_SUPPRESS_ERRORS", "turns a compiler's errors into eager mode"),
        ("NVIDIA_TF32_OVERRIDE", "overrules a script's settings of TF32"),
        ("CUDA_LAUNCH_BLOCKING", "makes every kernel wait, so that no time is true"),
    ):
        if facts.variables.get(name, "") not in ("", "0"):
            yield Lack(f"{name} is {facts.variables[name]!r}, which {why}", f"Unset {name}.")


def _host_remarks(host: Host) -> Lacks:
    if host.core_quota is not None and host.core_quota < host.cores:
        yield Lack(
            f"the container may use {host.core_quota:g} cores' worth of time on {host.cores} cores",
            f"Set OMP_NUM_THREADS={max(1, int(host.core_quota))}, or its threads wait for one "
            "another.",
        )
    if host.free_memory_bytes is not None and host.free_memory_bytes < 2 << 30:
        yield Lack(
            f"only {gib(host.free_memory_bytes)} of memory is free",
            "End other programs, or take a larger machine.",
        )
    # Docker's default is 64 MiB, which a few batches of images fill.
    if host.shared_memory_bytes is not None and host.shared_memory_bytes < 256 << 20:
        yield Lack(
            f"{SHARED_MEMORY} holds {host.shared_memory_bytes >> 20} MiB, and a DataLoader's "
            "workers end with a bus error when it is full",
            "Start the container with --shm-size=1g, or load data with num_workers=0.",
        )
    if host.free_disk_bytes is not None and host.free_disk_bytes < 2 << 30:
        yield Lack(
            f"only {gib(host.free_disk_bytes)} of disk is free where temporary files go",
            "Free some, or name another folder in TMPDIR.",
        )
    if host.steal is not None and host.steal > 0.01:
        yield Lack(
            f"the hypervisor gave {host.steal:.0%} of the processor time to others",
            "Compare speeds on a machine that is not shared, or trust the quality alone.",
        )
    if host.others is not None and host.others > 0.5:
        yield Lack(
            f"other programs keep {host.others:.1f} of {host.cores} cores busy",
            "End them before a run whose speed is to be judged.",
        )


def _gpu_remarks(gpu: Gpu) -> Lacks:
    used = (gpu.used_bytes or 0) / gpu.total_bytes if gpu.total_bytes else 0.0
    busy = gpu.utilization or 0.0
    if max(used, busy) > 0.05:
        yield Lack(
            f"GPU {gpu.index} ({gpu.name}) is in use by others: {used:.0%} of its memory, busy "
            f"{busy:.0%} of the last second",
            "End them (nvidia-smi lists them on the machine itself), or name another GPU in "
            "CUDA_VISIBLE_DEVICES.",
        )
    if gpu.throttled_by:
        yield Lack(
            f"GPU {gpu.index} ({gpu.name}) is held back by {' and '.join(gpu.throttled_by)}",
            "Cool it, or lock its clocks below that (nvidia-smi --lock-gpu-clocks), before speeds "
            "are compared.",
        )


def gib(size: object) -> str:
    """A number of bytes in words."""
    return f"{size / (1 << 30):.1f} GiB" if isinstance(size, int) else "unknown"
