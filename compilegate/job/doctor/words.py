"""An examination as text for people."""

from __future__ import annotations

import textwrap
from typing import Dict, Iterator, List, Tuple

from compilegate.job.doctor.facts import Facts, Gpu, TorchDevice
from compilegate.job.doctor.judging import SHARED_MEMORY, Examination
from compilegate.job.doctor.needs import Lack

_GIBIBYTE = 1 << 30
_WIDTH = 100
_FACTS, _NAMES = 11, 28
"""Where facts and states begin, in characters."""


def text_of(examination: Examination) -> str:
    """What it is, which compilers run, what each other one lacks, and what to beware of."""
    lines = [line for each in _machine(examination.facts) for line in _wrapped(each, _FACTS)]
    lines.append("")
    for lacks, labels in _by_lacks(examination).items():
        for label, state in labels.items():
            lines.append(f"{label:<{_NAMES}}{_state(examination.facts, label) or state}")
        subject = "It lacks" if len(labels) == 1 else "They lack"
        for lack in lacks:
            lines += _wrapped(f"{'':<{_NAMES}}{subject} {lack.what}. {lack.do}", _NAMES + 2)
    if examination.remarks:
        lines += ["", "Beware:"]
        for remark in examination.remarks:
            lines += _wrapped(f"  {_sentence(remark.what)} {remark.do}", 4)
    return "\n".join(lines) + "\n"


def _by_lacks(examination: Examination) -> Dict[Tuple[Lack, ...], Dict[str, str]]:
    """What the compilers lack, with the state of each that lacks it, by its name; what runs comes
    first, since it lacks nothing."""
    found: Dict[Tuple[Lack, ...], Dict[str, str]] = {(): {}}
    for each in examination.compilers:
        state = f"runs on the {each.runs_on}" if each.runs_on else "cannot run here"
        found.setdefault(each.lacks, {})[each.label] = state
    return found


def _wrapped(line: str, indent: int) -> List[str]:
    return textwrap.wrap(
        line, _WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


def _state(facts: Facts, label: str) -> str:
    """How its trial went; empty where it was not tried."""
    for tried in facts.tried:
        if tried.compiler == label:
            if tried.error is not None:
                return f"FAILED on the {tried.device}: {tried.error}"
            return f"runs on the {tried.device}: tried, right, {tried.seconds:.0f} s"
    return ""


def _sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}."


def _machine(facts: Facts) -> Iterator[str]:
    host, torch, driver = facts.host, facts.torch, facts.driver
    if facts.instance_type is not None:
        yield f"instance   {facts.instance_type}"
    if facts.image is not None:
        yield f"image      {facts.image}"
    quota = "" if host.core_quota is None else f" (a quota of {host.core_quota:g})"
    yield f"processor  {host.cores} cores{quota}, {host.cpu}"
    yield f"memory     {_free(host.free_memory_bytes, host.memory_bytes)}"
    shared = [f"{_gib(host.free_disk_bytes)} free for temporary files"]
    if host.shared_memory_bytes is not None:
        shared.append(f"{SHARED_MEMORY} of {_gib(host.shared_memory_bytes)}")
    yield f"disk       {', '.join(shared)}"
    yield f"others     {', '.join(_others(facts))}"
    if driver.version is None and driver.error is None:
        yield "driver     none: this machine has no NVIDIA GPU"
    else:
        newest = f", runs CUDA up to {driver.cuda}" if driver.cuda else ""
        trouble = f" ({driver.error})" if driver.error else ""
        yield f"driver     {driver.version or 'unknown'}{newest}{trouble}"
    for gpu in driver.gpus:
        yield f"GPU {gpu.index}      {_gpu(gpu)}"
    if facts.neuron_devices:
        yield f"Neuron     {facts.neuron_devices} devices"
    yield f"torch      {_torch(facts)}"
    for device in torch.devices:
        yield f"           {_device(device)}"
    yield f"compilers  {_tools(facts)}"
    others = [f"{name} {version}" for name, version in facts.packages.items() if name != "torch"]
    yield f"packages   {', '.join(others) or 'none that matters'}"
    for timing in facts.timings:
        yield (
            f"noise      ±{timing.spread:.1%} in {timing.repeats} times the same work on "
            f"{timing.on} ({timing.median_seconds * 1000:.2g} ms), one in twenty over "
            f"{timing.late:.1f} times the median"
        )


def _others(facts: Facts) -> List[str]:
    host = facts.host
    found = []
    if host.load is not None:
        found.append(f"a load of {host.load:.1f}")
    if host.others is not None:
        found.append(f"{host.others:.1f} cores busy with other programs")
    if host.steal is not None:
        found.append(f"{host.steal:.1%} of the time stolen by the hypervisor")
    return found or ["unknown"]


def _gpu(gpu: Gpu) -> str:
    parts = [gpu.name]
    if gpu.capability:
        parts.append(f"compute capability {gpu.capability}")
    if gpu.total_bytes is not None:
        free = None if gpu.used_bytes is None else gpu.total_bytes - gpu.used_bytes
        parts.append(_free(free, gpu.total_bytes))
    if gpu.clock_mhz is not None and gpu.most_clock_mhz is not None:
        parts.append(f"clock {gpu.clock_mhz:.0f} of {gpu.most_clock_mhz:.0f} MHz")
    parts.append(f"{gpu.processes or 'no'} other processes")
    return ", ".join(parts)


def _torch(facts: Facts) -> str:
    torch = facts.torch
    if torch.version is None:
        return f"cannot be imported: {torch.error}" if torch.error else "not installed"
    build = f"for CUDA {torch.cuda}" if torch.cuda else "a build for CPUs"
    parts = [torch.version, build, f"{torch.threads} threads"]
    parts += [f"cuDNN {torch.cudnn}"] if torch.cudnn else []
    parts += [f"NCCL {torch.nccl}"] if torch.nccl else []
    parts += [f"Triton {torch.triton}"] if torch.triton else []
    if torch.cuda and not torch.available:
        parts.append(f"no CUDA: {torch.cuda_error}")
    return ", ".join(parts)


def _device(device: TorchDevice) -> str:
    state = f"computes in {', '.join(device.precisions)}" if device.precisions else "fails"
    trouble = f": {device.error}" if device.error else ""
    return (
        f"{device.name}, {state}{trouble}; {_free(device.free_bytes or None, device.total_bytes)}"
    )


def _tools(facts: Facts) -> str:
    tools = facts.toolchain
    if tools.cxx is None:
        return "no C++ compiler"
    openmp = "with OpenMP" if tools.openmp_error is None else "without OpenMP"
    works = "" if tools.cxx_error is None else ", which fails"
    headers = "Python's headers" if tools.python_headers else "no Python headers"
    return f"{tools.cxx_version or tools.cxx}{works}, {openmp}, {headers}"


def _free(free: object, whole: object) -> str:
    if not isinstance(whole, int):
        return "unknown"
    return f"{_gib(whole)}" + (f", {_gib(free)} free" if isinstance(free, int) else "")


def _gib(size: object) -> str:
    return f"{size / _GIBIBYTE:.1f} GiB" if isinstance(size, int) else "unknown"
