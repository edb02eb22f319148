"""What a compiler can need of a machine, by name: each gives what is lacking, with the remedy.

A compiler's declaration, and a backend's entry, name their needs; nothing else lists them. Pure.
"""

from __future__ import annotations

import re
from typing import Callable, Iterator, Mapping, NamedTuple, Optional, Tuple

from compilegate.job.doctor.facts import Facts, TorchDevice


class Lack(NamedTuple):
    """Something that is missing or in the way."""

    what: str
    """A clause that ends "it lacks" or "beware"."""
    do: str
    """One sentence, as an instruction."""


TRITON_CAPABILITY = (7, 0)
"""The oldest GPUs that torch.compile makes Triton kernels for (torch/_inductor/scheduler.py)."""
_OFF = ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE")
_ON_SAGEMAKER = "it is in AWS's images for it alone: run the arm on SageMaker"


def torch_imported(facts: Facts) -> Iterator[Lack]:
    """torch can be imported."""
    torch = facts.torch
    if torch.version is None and torch.error is None:
        yield Lack("torch", "Install the torch that the image's requirements.txt names.")
    elif torch.error is not None:
        yield Lack(
            f"a torch that can be imported ({torch.error})",
            "Install torch again, in the build for this machine's processor, Python and CUDA.",
        )


def computes(facts: Facts) -> Iterator[Lack]:
    """Where GPUs are declared or a driver shows them, torch computes on each."""
    if facts.torch.version is None:
        return
    missing = no_cuda_reason(facts)
    if missing is not None:
        yield missing
    for device in facts.torch.devices:
        if device.error is not None:
            yield _broken_device(facts, device)


def no_cuda_reason(facts: Facts) -> Optional[Lack]:
    """Why torch computes on a CPU though the machine has a GPU; None where it has none, or does."""
    torch, driver = facts.torch, facts.driver
    declared = max(driver.declared, len(driver.gpus))
    if torch.available or not (declared or driver.error or (torch.cuda_error and driver.version)):
        return None
    gpus = "a GPU" if declared <= 1 else f"{declared} GPUs"
    if driver.visible is not None and driver.visible.strip() in ("", "-1"):
        return Lack(
            f"the use of {gpus} (CUDA_VISIBLE_DEVICES is {driver.visible!r})",
            "Unset CUDA_VISIBLE_DEVICES, or name the GPUs that the job may use.",
        )
    if torch.cuda is None:
        return Lack(
            f"a torch for {gpus}: {torch.version} is a build without CUDA",
            "Install torch from the index of its CUDA builds (https://pytorch.org/get-started).",
        )
    if driver.error is not None or not driver.gpus:
        reason = driver.error or torch.cuda_error or "no driver answers"
        return Lack(
            f"a driver that answers ({reason})",
            "Run nvidia-smi on the machine itself; in a container, start it with --gpus all and "
            "NVIDIA's container toolkit.",
        )
    if driver.cuda is not None and _major(driver.cuda) < _major(torch.cuda):
        return Lack(
            f"a driver for CUDA {torch.cuda}: {driver.version} runs CUDA {driver.cuda} at most",
            f"Update NVIDIA's driver, or install a torch for CUDA {_major(driver.cuda)}.",
        )
    return Lack(
        f"CUDA ({torch.cuda_error or 'torch sees no GPU'})",
        "Run `python -c 'import torch; torch.cuda.init()'` for the whole error; restart the "
        "machine if its driver was updated since it started.",
    )


def _broken_device(facts: Facts, device: TorchDevice) -> Lack:
    if device.capability and not has_kernels(facts.torch.architectures, device.capability):
        return Lack(
            f"kernels for {device.name} (compute capability {device.capability}): torch "
            f"{facts.torch.version} has them for {', '.join(facts.torch.architectures)}",
            "Install a release of torch that still has them, or take a newer GPU.",
        )
    return Lack(
        f"a {device.name} that computes ({device.error})",
        "End other programs that use it, then restart its driver or the machine.",
    )


def has_kernels(architectures: Tuple[str, ...], capability: str) -> bool:
    """Whether a build of torch runs on a GPU: kernels of its major version and not newer, or code
    that the driver translates (`compute_90`)."""
    wanted = tuple(int(each) for each in capability.split("."))
    for architecture in architectures:
        kind, _, digits = architecture.partition("_")
        number = re.match(r"\d+", digits)
        if number is None:
            continue
        has = (int(number.group()[:-1] or 0), int(number.group()[-1]))
        if kind == "sm" and has[0] == wanted[0] and has[1] <= wanted[1]:
            return True
        if kind == "compute" and has <= wanted:
            return True
    return not architectures


def dynamo(facts: Facts) -> Iterator[Lack]:
    """torch.compile is there and nobody switched it off."""
    version = facts.torch.version
    if version is not None and _major(version) < 2:
        yield Lack(
            f"torch.compile: this is torch {version}",
            "Take an image with torch 2.0 or later, or compiler = 'eager'.",
        )
    for name in _OFF:
        if facts.variables.get(name, "0") not in ("", "0"):
            yield Lack(
                f"permission: {name} is {facts.variables[name]!r}, which switches it off",
                f"Unset {name}.",
            )


def kernels(facts: Facts) -> Iterator[Lack]:
    """Kernels can be compiled for what a job would compute on."""
    yield from _kernels_on_gpus(facts) if facts.on_gpu else _kernels_on_a_cpu(facts)


def _kernels_on_a_cpu(facts: Facts) -> Iterator[Lack]:
    tools = facts.toolchain
    if tools.cxx is None:
        yield Lack(
            "a C++ compiler for a CPU's kernels",
            "Install g++ (Debian, Ubuntu: apt-get install g++), or name one in the variable CXX.",
        )
    elif tools.cxx_error is not None:
        yield Lack(
            f"a C++ compiler that works: {tools.cxx} failed ({tools.cxx_error})",
            "Install g++ with its standard library (Debian, Ubuntu: apt-get install g++).",
        )
    elif tools.openmp_error is not None:
        yield Lack(
            f"OpenMP: {tools.cxx} failed with it ({tools.openmp_error})",
            "Install the compiler's OpenMP (g++: libgomp; clang: libomp-dev; macOS: brew install "
            "libomp).",
        )
    yield from python_headers(facts)


def _kernels_on_gpus(facts: Facts) -> Iterator[Lack]:
    torch = facts.torch
    if torch.triton_error is not None:
        yield Lack(
            f"a Triton that can be imported ({torch.triton_error})",
            f"Install the Triton that torch {torch.version} declares; pip brings it with torch.",
        )
    elif torch.triton is None:
        yield Lack(
            "Triton, which makes a GPU's kernels",
            f"Install the Triton that torch {torch.version} declares; pip brings it with torch.",
        )
    if facts.toolchain.cc is None:
        yield Lack(
            "a C compiler, with which Triton makes what starts its kernels",
            "Install gcc (Debian, Ubuntu: apt-get install gcc), or name one in the variable CC.",
        )
    yield from python_headers(facts)
    for device in torch.devices:
        if device.capability and _version(device.capability) < TRITON_CAPABILITY:
            yield Lack(
                f"a GPU that Triton compiles for: {device.name} has compute capability "
                f"{device.capability}, needed is 7.0",
                "Take a GPU from Volta on (V100, T4, A10G, ...), or backend = 'cudagraphs'.",
            )


def python_headers(facts: Facts) -> Iterator[Lack]:
    """Python.h is there, which what calls a kernel is compiled with."""
    if facts.toolchain.python_headers is None:
        version = ".".join(facts.host.python.split(".")[:2])
        yield Lack(
            "Python's headers",
            f"Install python{version}-dev (Debian, Ubuntu), or a Python that brings Python.h.",
        )


def gpu(facts: Facts) -> Iterator[Lack]:
    """There is a GPU that torch computes on."""
    if not facts.on_gpu and no_cuda_reason(facts) is None:
        yield Lack("a GPU", "Run the arm on an instance with one (class g4dn, g5, g6, p4d, p5).")


def gpu_of_xla(facts: Facts) -> Iterator[Lack]:
    """There is a GPU, whoever computes on it."""
    if not facts.driver.gpus:
        yield Lack("a GPU", "Run the arm on an instance of class p3, p3dn, g4dn, p4d or g5.")


def torch_xla(facts: Facts) -> Iterator[Lack]:
    """torch_xla is there, fits torch and has a device."""
    xla, torch = facts.xla, facts.torch.version
    if xla is None:
        yield Lack(
            "torch_xla",
            "Install it beside the torch of the same version, as containers/xla/requirements.txt "
            "does.",
        )
    elif xla.error is not None:
        fits = torch is not None and _version(xla.version)[:2] == _version(torch)[:2]
        yield Lack(
            f"a torch_xla that works ({xla.error})",
            f"Install torch_xla {xla.version} again, or read its error."
            if fits
            else f"Install torch {'.'.join(map(str, _version(xla.version)[:2]))}, the release that "
            f"torch_xla {xla.version} is made for.",
        )


def training_compiler(facts: Facts) -> Iterator[Lack]:
    """torch_xla is AWS's, and switched on."""
    if facts.xla is None:
        yield Lack("AWS's torch_xla", f"{_ON_SAGEMAKER[0].upper()}{_ON_SAGEMAKER[1:]}.")
    elif not facts.xla.configured:
        yield Lack(
            f"the compiler: torch_xla {facts.xla.version} did not switch it on",
            f"Beware that {_ON_SAGEMAKER}, started by SageMaker's training toolkit.",
        )


def neuron_device(facts: Facts) -> Iterator[Lack]:
    """There is a Trainium chip, and its driver."""
    if not facts.neuron_devices:
        yield Lack(
            "Trainium (the kernel shows no /dev/neuron0)",
            "Run the arm on an instance of class trn1 or trn2.",
        )


def _package(name: str, do: str) -> Callable[[Facts], Iterator[Lack]]:
    def installed(facts: Facts) -> Iterator[Lack]:
        if name not in facts.packages:
            yield Lack(f"the package {name}", do)

    return installed


def before_torch_29(facts: Facts) -> Iterator[Lack]:
    """torch still has the backend of ONNX Runtime."""
    version = facts.torch.version
    if version is not None and _version(version) >= (2, 9):
        yield Lack(
            f"the backend: torch {version} has none for ONNX Runtime",
            "Take torch 2.8, the last release with it, or backend = 'inductor'.",
        )


NEEDS: Mapping[str, Callable[[Facts], Iterator[Lack]]] = {
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


def _version(text: str) -> Tuple[int, ...]:
    """2.13.0+cpu is (2, 13, 0)."""
    return tuple(int(each) for each in re.findall(r"\d+", text.split("+", maxsplit=1)[0])[:3])


def _major(text: str) -> int:
    return (_version(text) or (0,))[0]
