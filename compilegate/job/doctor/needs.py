"""What each compiler needs of a machine and lacks, from `Facts`, and as text. Pure.

A compiler's declaration and a backend's entry name their needs; NEEDS is the table of them. A lack
is why a compiler cannot run; a remark is not, but a user should know it. None is unknown.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Iterator, Mapping, NamedTuple

from compilegate.job.compilers import declarations
from compilegate.job.compilers.declaration import BACKEND, INDUCTOR, usable_backends
from compilegate.job.contract import VISIBLE_GPUS_VARIABLE

SCHEMA_VERSION = 3
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the kernel's name for it


@dataclass(frozen=True)
class TorchDevice:
    name: str
    capability: str = ""
    error: str | None = None  # what a sum on it failed with; None where it computes


@dataclass(frozen=True)
class Facts:
    python: str
    cpu: str
    cores: int  # that this process may run on
    memory_bytes: int
    shared_memory_bytes: int | None  # of /dev/shm, where a loader's workers put their batches
    free_disk_bytes: int  # where temporary files go: compilers keep their kernels there
    cxx: str | None  # the C++ compiler that inductor takes for a CPU's kernels
    cc: str | None  # the C compiler that Triton takes
    python_headers: bool  # there is Python.h
    packages: Mapping[str, str]  # the versions of those that matter to a compiler
    driver: str | None = None  # the version of NVIDIA's
    driver_error: str | None = None  # why nvidia-smi does not answer beside a GPU or a driver
    gpus: tuple[str, ...] = ()  # those that the driver shows, in words
    gpus_declared: int = 0  # how many SageMaker says that this instance has (SM_NUM_GPUS)
    neuron_devices: int = 0  # that the kernel shows
    instance_type: str | None = None  # the SageMaker instance that this is; None elsewhere
    image: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)  # that switch something on or off

    # As torch's import and its first steps on a device show it.
    torch: str | None = None  # its version
    torch_error: str | None = None  # why it could not be imported, or how its process ended
    cuda: str | None = None  # the CUDA that it was built for; None in a build without
    cuda_error: str | None = None  # what CUDA's start failed with
    devices: tuple[TorchDevice, ...] = ()  # not any where CUDA does not start
    triton: str | None = None  # Triton's version, where it can be imported
    triton_error: str | None = None  # why it cannot, where it is installed

    # As the import of torch_xla shows it.
    xla_error: str | None = "it is not installed"  # or why its import or its device fails
    xla_configured: bool = False  # it is that of SageMaker Training Compiler, switched on

    tried: Mapping[str, str | None] = field(default_factory=dict)
    """By label, why a compiler failed to train a small model; None where its gradients are eager's.
    """


class Lack(NamedTuple):
    what: str  # a clause that ends "it lacks" or "beware"
    do: str  # one sentence, as an instruction


def _no_cuda(facts: Facts) -> Lack | None:
    """Why torch does not compute on a GPU that the machine has; None where it does."""
    there = facts.gpus_declared or facts.gpus or facts.driver_error
    if not facts.torch or facts.devices or not there:
        return None
    if facts.cuda is None:
        return Lack(
            f"torch {facts.torch} is a build without CUDA",
            "Install torch from the index of its CUDA builds (https://pytorch.org/get-started).",
        )
    if facts.variables.get(VISIBLE_GPUS_VARIABLE, "all").strip() in ("", "-1"):
        return Lack(f"{VISIBLE_GPUS_VARIABLE} hides them", f"Unset {VISIBLE_GPUS_VARIABLE}.")
    return Lack(
        facts.driver_error or f"driver {facts.driver}, {facts.cuda_error or 'it shows no GPU'}",
        "Run nvidia-smi on the machine itself, and update its driver or take a torch for its CUDA; "
        "in a container, start it with --gpus all and NVIDIA's container toolkit.",
    )


def _version(text: str | None) -> tuple[int, ...]:
    """Its first two numbers; empty for none."""
    return tuple(int(each) for each in re.findall(r"\d+", text or "")[:2])


def _older(text: str | None, than: tuple[int, ...]) -> bool:
    return (0,) < _version(text) < than


def _set(*variables: str) -> Callable[[Facts], list[str]]:
    return lambda facts: [it for it in variables if facts.variables.get(it, "") not in ("", "0")]


INSTANCE_WITH_ONE = (
    "Run the arm on an instance with one; `compilegate validate` says which its compiler supports."
)
REMARK = "remark"  # not a need: what disturbs measurements, or will stop a job that starts

NEEDS: tuple[tuple[str, Callable[[Facts], Any], str, str], ...] = (
    (
        "torch",
        lambda facts: facts.torch is None and (facts.torch_error or "none is installed"),
        "a torch that can be imported ({it})",
        "Install the one that the image's requirements.txt names, in the build for this machine's "
        "processor, Python and CUDA.",
    ),
    ("working device", _no_cuda, "the use of its GPUs ({it.what})", "{it.do}"),
    (
        "working device",
        lambda facts: [it for it in facts.devices if it.error is not None],
        "a {it.name} that computes ({it.error})",
        "End other programs that use it, install a torch with kernels for its compute capability, "
        "or restart its driver.",
    ),
    (
        "dynamo",
        lambda facts: _older(facts.torch, (2,)),
        "torch.compile: this is torch {facts.torch}",
        "Take an image with torch 2.0 or later, or compiler = 'eager'.",
    ),
    (
        "dynamo",
        _set("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"),
        "permission: {it} switches it off",
        "Unset {it}.",
    ),
    (
        "kernels",
        lambda facts: (
            facts.devices and facts.triton is None and (facts.triton_error or "none is installed")
        ),
        "a Triton that can be imported, which makes a GPU's kernels ({it})",
        "Install the Triton that torch {facts.torch} declares; pip brings it along.",
    ),
    (
        "kernels",
        lambda facts: facts.devices and facts.cc is None,
        "a C compiler, with which Triton makes what starts its kernels",
        "Install gcc (Debian, Ubuntu: apt-get install gcc), or name one in CC.",
    ),
    (
        "kernels",
        lambda facts: not facts.devices and facts.cxx is None,
        "a C++ compiler for a CPU's kernels",
        "Install g++ (Debian, Ubuntu: apt-get install g++), or name one in CXX.",
    ),
    (
        "kernels",
        lambda facts: not facts.python_headers and ".".join(facts.python.split(".")[:2]),
        "Python's headers",
        "Install python{it}-dev (Debian, Ubuntu), or a Python that brings Python.h.",
    ),
    (
        "kernels",
        # The oldest that torch.compile makes Triton kernels for (torch/_inductor/scheduler.py).
        lambda facts: [it for it in facts.devices if _older(it.capability, (7, 0))],
        "a GPU that Triton compiles for: {it.name} has compute capability {it.capability}, needed "
        "is 7.0",
        "Take a GPU from Volta on (V100, T4, A10G, ...), or backend = 'cudagraphs'.",
    ),
    (
        "gpu",
        lambda facts: not facts.devices and _no_cuda(facts) is None,
        "a GPU",
        INSTANCE_WITH_ONE,
    ),
    ("gpu of xla", lambda facts: not facts.gpus, "a GPU", INSTANCE_WITH_ONE),
    (
        "torch_xla",
        lambda facts: (
            facts.xla_error or ("torch_xla" not in facts.packages and "it is not installed")
        ),
        "a torch_xla that works ({it})",
        "Install it beside the torch of the same version, as containers/xla/requirements.txt does.",
    ),
    (
        "training compiler",
        lambda facts: not facts.xla_configured,
        "AWS's torch_xla, switched on",
        "Run the arm on SageMaker: it is in AWS's images for it alone, started by SageMaker's "
        "training toolkit.",
    ),
    (
        "neuron device",
        lambda facts: not facts.neuron_devices,
        "Trainium (the kernel shows no /dev/neuron0)",
        INSTANCE_WITH_ONE,
    ),
    (
        "torch before 2.9",
        lambda facts: _version(facts.torch) >= (2, 9),
        "the backend: torch {facts.torch} has none for ONNX Runtime",
        "Take torch 2.8, the last release with it, or backend = 'inductor'.",
    ),
    *(
        (
            name,
            lambda facts, name=name: name not in facts.packages,
            f"the package {name}",
            "Add it to the image, or take one that brings it.",
        )
        for name in ("torch-neuronx", "neuronx-cc", "torch-tensorrt", "onnxruntime-training")
    ),
    (
        REMARK,
        # Docker's default is 64 MiB, which a few batches of images fill.
        lambda facts: (facts.shared_memory_bytes or 1 << 30) < 256 << 20,
        f"{SHARED_MEMORY} is small, and a DataLoader's workers end with a bus error when it is "
        "full",
        "Start the container with --shm-size=1g, or load data with num_workers=0.",
    ),
    (
        REMARK,
        lambda facts: facts.free_disk_bytes < 2 << 30,
        "less than 2 GiB of disk is free where temporary files go",
        "Free some, or name another folder in TMPDIR.",
    ),
    (
        REMARK,
        _set("TORCHDYNAMO_SUPPRESS_ERRORS", "NVIDIA_TF32_OVERRIDE", "CUDA_LAUNCH_BLOCKING"),
        "{it} is set, which changes what compilers do, how TF32 computes or what steps take",
        "Unset {it}.",
    ),
)
"""By the need's name or REMARK: what of it is missing (falsy, `it`, or a list of them), and the two
texts of the Lack."""
_DECIDING = (
    "torch",
    "neuron device",
    "gpu",
    "gpu of xla",
)  # without these nothing is said of others


def _lacks(facts: Facts, need: str) -> Iterator[Lack]:
    for name, missing, what, do in NEEDS:
        found = missing(facts) if name == need else None
        for it in found if isinstance(found, list) else [found] if found else []:
            yield Lack(what.format(facts=facts, it=it), do.format(facts=facts, it=it))


@dataclass(frozen=True)
class Finding:
    """A compiler on this machine, with one of its backends."""

    compiler: str
    backend: str | None  # None for a compiler without backends
    runs_on: str | None  # gpu, cpu or neuron; None where it cannot run here
    needs: tuple[str, ...]
    lacks: tuple[Lack, ...]

    @property
    def label(self) -> str:
        return self.compiler if self.backend is None else f"{self.compiler}, {self.backend}"


@dataclass(frozen=True)
class Examination:
    facts: Facts
    compilers: tuple[Finding, ...]
    remarks: tuple[Lack, ...]

    @property
    def document(self) -> dict[str, Any]:
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
    found: list[Finding] = []
    for name, declaration in declarations().items():
        if BACKEND not in declaration.options:
            found.append(_finding(facts, name, None, declaration.needs))
            continue
        for backend in usable_backends():
            if backend.name != INDUCTOR:  # a compiler by its own name
                needs = (*declaration.needs, *backend.needs)
                found.append(_finding(facts, name, backend.name, needs))
    return Examination(facts, tuple(found), tuple(dict.fromkeys(_lacks(facts, REMARK))))


def _finding(facts: Facts, compiler: str, backend: str | None, needs: tuple[str, ...]) -> Finding:
    lacks: list[Lack] = []
    for need in needs:
        lacks = list(dict.fromkeys([*lacks, *_lacks(facts, need)]))  # GPUs may lack the same
        if lacks and need in _DECIDING:
            break
    where = "neuron" if "neuron device" in needs else "gpu" if facts.devices else "cpu"
    return Finding(compiler, backend, None if lacks else where, needs, tuple(lacks))


# As text.

_FACTS, _NAMES = 11, 28  # where facts and states begin, in characters


def text_of(examination: Examination) -> str:
    """What it is, which compilers run, what each other one lacks, and what to beware of."""
    facts = examination.facts
    lines: list[str] = []
    for name, fact in _machine(facts):
        lines += _wrapped(f"{name:<{_FACTS}}{fact}", _FACTS)
    lines.append("")
    alike: dict[tuple[Lack, ...], list[Finding]] = {(): []}  # what runs comes first
    for each in examination.compilers:
        alike.setdefault(each.lacks, []).append(each)
    for lacks, findings in alike.items():
        lines += [f"{each.label:<{_NAMES}}{_state(facts, each)}" for each in findings]
        subject = "It lacks" if len(findings) == 1 else "They lack"
        for lack in lacks:
            lines += _wrapped(f"{'':<{_NAMES}}{subject} {lack.what}. {lack.do}", _NAMES + 2)
    if examination.remarks:
        lines += ["", "Beware:"]
        for what, do in examination.remarks:
            lines += _wrapped(f"  {what[0].upper()}{what[1:]}. {do}", 4)
    return "\n".join(lines) + "\n"


def _wrapped(line: str, indent: int) -> list[str]:
    return textwrap.wrap(
        line, 100, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


def _state(facts: Facts, finding: Finding) -> str:
    if finding.runs_on is None:
        return "cannot run here"
    error = facts.tried.get(finding.label)
    if error is not None:
        return f"FAILED on the {finding.runs_on}: {error}"
    tried = ": tried, right" if finding.label in facts.tried else ""
    return f"runs on the {finding.runs_on}{tried}"


def _machine(facts: Facts) -> Iterator[tuple[str, str]]:
    if facts.instance_type is not None:
        yield "instance", facts.instance_type
    if facts.image is not None:
        yield "image", facts.image
    yield "processor", f"{facts.cores} cores, {facts.cpu}"
    yield "memory", _gib(facts.memory_bytes)
    shared = f"{SHARED_MEMORY} of {_gib(facts.shared_memory_bytes)}"
    yield "disk", f"{_gib(facts.free_disk_bytes)} free for temporary files, {shared}"
    yield "driver", facts.driver or facts.driver_error or "none: this machine has no NVIDIA GPU"
    for number, gpu in enumerate(facts.gpus):
        yield f"GPU {number}", gpu
    if facts.neuron_devices:
        yield "Neuron", f"{facts.neuron_devices} devices"
    yield "torch", _torch(facts)
    for device in facts.devices:
        yield "", f"{device.name}, {device.error or 'computes'}"
    headers = "Python's headers" if facts.python_headers else "no Python headers"
    yield "compilers", f"{facts.cxx or 'no C++ compiler'}, {facts.cc or 'no C compiler'}, {headers}"
    others = [f"{name} {version}" for name, version in facts.packages.items() if name != "torch"]
    yield "packages", ", ".join(others) or "none that matters"


def _torch(facts: Facts) -> str:
    if facts.torch is None:
        return f"cannot be imported: {facts.torch_error}" if facts.torch_error else "not installed"
    parts = [facts.torch, f"for CUDA {facts.cuda}" if facts.cuda else "a build for CPUs"]
    parts += [f"Triton {facts.triton}"] if facts.triton else []
    parts += [f"no CUDA: {facts.cuda_error}"] if facts.cuda and not facts.devices else []
    return ", ".join(parts)


def _gib(size: int | None) -> str:
    return "unknown" if size is None else f"{size / (1 << 30):.1f} GiB"
