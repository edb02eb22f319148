"""An examination as text for people."""

from __future__ import annotations

import textwrap
from typing import Dict, Iterator, List, Optional, Tuple

from compilegate.job.doctor.facts import SHARED_MEMORY, Facts, Gpu, Torch
from compilegate.job.doctor.needs import Examination, Finding, Lack, gib

_FACTS, _NAMES = 11, 28
"""Where facts and states begin, in characters."""


def text_of(examination: Examination) -> str:
    """What it is, which compilers run, what each other one lacks, and what to beware of."""
    facts = examination.facts
    lines = [
        line
        for name, fact in _machine(facts)
        for line in _wrapped(f"{name:<{_FACTS}}{fact}", _FACTS)
    ]
    lines.append("")
    alike: Dict[Tuple[Lack, ...], List[Finding]] = {(): []}  # what runs comes first
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


def _wrapped(line: str, indent: int) -> List[str]:
    return textwrap.wrap(
        line, 100, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


def _state(facts: Facts, finding: Finding) -> str:
    for tried in facts.tried:
        if tried.compiler == finding.label:
            if tried.error is not None:
                return f"FAILED on the {tried.device}: {tried.error}"
            return f"runs on the {tried.device}: tried, right, {tried.seconds:.0f} s"
    return f"runs on the {finding.runs_on}" if finding.runs_on else "cannot run here"


def _machine(facts: Facts) -> Iterator[Tuple[str, str]]:
    host, tools, driver = facts.host, facts.toolchain, facts.driver
    if facts.instance_type is not None:
        yield "instance", facts.instance_type
    if facts.image is not None:
        yield "image", facts.image
    quota = "" if host.core_quota is None else f" (a quota of {host.core_quota:g})"
    yield "processor", f"{host.cores} cores{quota}, {host.cpu}"
    yield "memory", _free(host.free_memory_bytes, host.memory_bytes)
    shared = f", {SHARED_MEMORY} of {gib(host.shared_memory_bytes)}"
    yield (
        "disk",
        f"{gib(host.free_disk_bytes)} free for temporary files"
        + (shared if host.shared_memory_bytes is not None else ""),
    )
    others = [
        words.format(number)
        for words, number in (
            ("a load of {:.1f}", host.load),
            ("{:.1f} cores busy with other programs", host.others),
            ("{:.1%} of the time stolen by the hypervisor", host.steal),
        )
        if number is not None
    ]
    yield "others", ", ".join(others) or "unknown"
    trouble = f" ({driver.error})" if driver.error else ""
    yield (
        "driver",
        f"{driver.version or 'unknown'}{trouble}"
        if driver.version or driver.error
        else "none: this machine has no NVIDIA GPU",
    )
    for gpu in driver.gpus:
        yield f"GPU {gpu.index}", _gpu(gpu)
    if facts.neuron_devices:
        yield "Neuron", f"{facts.neuron_devices} devices"
    yield "torch", _torch(facts.torch)
    for device in facts.torch.devices:
        state = device.error or "computes"
        yield "", f"{device.name}, {state}, {_free(device.free_bytes, device.total_bytes)}"
    works = "with OpenMP" if tools.cxx_error is None else "which fails"
    headers = "Python's headers" if tools.python_headers else "no Python headers"
    compiler = "no C++ compiler" if tools.cxx is None else f"{tools.cxx_version}, {works}"
    yield "compilers", f"{compiler}, {headers}"
    others = [f"{name} {version}" for name, version in facts.packages.items() if name != "torch"]
    yield "packages", ", ".join(others) or "none that matters"


def _gpu(gpu: Gpu) -> str:
    parts = [gpu.name]
    if gpu.capability:
        parts.append(f"compute capability {gpu.capability}")
    if gpu.total_bytes is not None:
        free = None if gpu.used_bytes is None else gpu.total_bytes - gpu.used_bytes
        parts.append(_free(free, gpu.total_bytes))
    if gpu.clock_mhz is not None and gpu.most_clock_mhz is not None:
        parts.append(f"clock {gpu.clock_mhz:.0f} of {gpu.most_clock_mhz:.0f} MHz")
    return ", ".join(parts)


def _torch(torch: Torch) -> str:
    if torch.version is None:
        return f"cannot be imported: {torch.error}" if torch.error else "not installed"
    build = f"for CUDA {torch.cuda}" if torch.cuda else "a build for CPUs"
    parts = [torch.version, build, f"{torch.threads} threads"]
    parts += [f"Triton {torch.triton}"] if torch.triton else []
    if torch.cuda and not torch.available:
        parts.append(f"no CUDA: {torch.cuda_error}")
    return ", ".join(parts)


def _free(free: Optional[int], whole: Optional[int]) -> str:
    if whole is None:
        return "unknown"
    return gib(whole) + (f", {gib(free)} free" if free is not None else "")
