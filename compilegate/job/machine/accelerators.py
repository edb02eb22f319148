"""What a machine has to compute with beside its processor: GPUs, or Trainium.

That is one fact; where a process computes is another (`compilegate.job.machine.place`). A compiler
that keeps the accelerator to itself leaves torch's own device on the host, and still the machine is
the one that the baseline had. So the driver is asked here, and no framework: its answer is the same
in every image and for every compiler.

A machine may be described instead, in `MACHINE_VARIABLE`: then this one's processor stands in for
its accelerator, and whatever asks for the machine gets the described one::

    {"accelerator": "V100", "kind": "cuda", "count": 1, "memory_gib": 16, "capability": "7.0"}

Needs no torch.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from compilegate.job.errors import InputError
from compilegate.job.names import MACHINE_VARIABLE, VISIBLE_GPUS_VARIABLE

CUDA, NEURON = "cuda", "neuron"
KINDS = (CUDA, NEURON)
"""What an accelerator computes with: NVIDIA's GPUs or AWS's Trainium."""
MOST_ACCELERATORS = 64
MOST_MEMORY_GIB = 4096

_SECONDS = 30
"""A driver that has to wake eight GPUs takes some; one that is broken may never answer."""
_NEURON = Path("/sys/devices/virtual/neuron_device")
_NVIDIA = Path("/proc/driver/nvidia/gpus")
_CAPABILITY = re.compile(r"[1-9][0-9]?\.[0-9]")


@dataclass(frozen=True)
class Accelerators:
    """All that the job may use, which are alike."""

    kind: str
    """One of KINDS."""
    name: str
    count: int
    memory_bytes: Optional[int] = None
    """What each has; None where nothing says."""
    capability: Optional[str] = None
    """NVIDIA's compute capability, such as 7.0; None where nothing says, or there is none."""


@dataclass(frozen=True)
class Machine:
    """What a job was told or found out of its machine's accelerators."""

    accelerators: Optional[Accelerators]
    described: Optional[str] = None
    """The description in one line, where the machine is not this one."""


def this_machine() -> Machine:
    """The described machine, or this one. Raises InputError for a description that is none."""
    return machine_of(os.environ)


def machine_of(environment: Mapping[str, str]) -> Machine:
    """The machine of a job with these variables. Raises InputError."""
    text = environment.get(MACHINE_VARIABLE)
    if text:
        return read_description(text)
    return Machine(_found(environment.get(VISIBLE_GPUS_VARIABLE)))


def read_description(text: str) -> Machine:
    """A description as `MACHINE_VARIABLE` holds it. Raises InputError."""
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise _wrong(f"is {_shown(text)}", "a JSON object")
    unknown = sorted(set(told) - {"accelerator", "kind", "count", "memory_gib", "capability"})
    if unknown:
        raise _wrong(
            f"has the key {unknown[0]!r}", "accelerator, kind, count, memory_gib and capability"
        )
    described = json.dumps(told, sort_keys=True)
    name = told.get("accelerator")
    if name is None:
        return Machine(None, described)
    _require(isinstance(name, str) and 0 < len(name) <= 100, "accelerator", name, "a name or null")
    kind = told.get("kind", CUDA)
    _require(kind in KINDS, "kind", kind, " or ".join(KINDS))
    count, memory = told.get("count", 1), told.get("memory_gib")
    most = f"a whole number from 1 to {MOST_ACCELERATORS}"
    _require(_is_number(count, MOST_ACCELERATORS) and int(count) == count, "count", count, most)
    most = f"a number up to {MOST_MEMORY_GIB}, or null"
    _require(memory is None or _is_number(memory, MOST_MEMORY_GIB), "memory_gib", memory, most)
    capability = told.get("capability")
    _require(
        capability is None
        or (isinstance(capability, str) and _CAPABILITY.fullmatch(capability) is not None),
        "capability",
        capability,
        "a text such as '7.0', or null",
    )
    in_bytes = None if memory is None else int(memory * 2**30)
    return Machine(Accelerators(kind, name, int(count), in_bytes, capability), described)


def describing(accelerators: Optional[Accelerators]) -> str:
    """The description of a machine with these, to be set in `MACHINE_VARIABLE`."""
    if accelerators is None:
        return json.dumps({"accelerator": None})
    told: Dict[str, Any] = asdict(accelerators)
    memory = told.pop("memory_bytes")
    told["accelerator"] = told.pop("name")
    return json.dumps({**told, "memory_gib": None if memory is None else memory / 2**30})


def _is_number(value: Any, most: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= most


def _require(fits: bool, key: str, found: Any, allowed: str) -> None:
    if not fits:
        raise _wrong(f"has {key} = {_shown(found)}", allowed)


def _wrong(found: str, allowed: str) -> InputError:
    return InputError(f"the environment variable {MACHINE_VARIABLE} {found}, allowed: {allowed}")


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


@functools.lru_cache(maxsize=None)
def _found(visible: Optional[str]) -> Optional[Accelerators]:
    """Those of this machine that CUDA_VISIBLE_DEVICES leaves; a GPU before anything else."""
    return _gpus(visible) or _neuron_devices(_NEURON)


def _gpus(visible: Optional[str]) -> Optional[Accelerators]:
    rows = [each for each in _nvidia_smi("index,uuid,name,memory.total") if len(each) == 4]
    chosen = visible_gpus([(index, uuid) for index, uuid, _, _ in rows], visible)
    if not rows:
        models = _models(_NVIDIA)
        chosen = visible_gpus([(str(place), "") for place in range(len(models))], visible)
        return _alike(CUDA, [models[place] for place in chosen], [], [])
    capabilities = _nvidia_smi("compute_cap")  # drivers before 510 do not know the question
    return _alike(
        CUDA,
        [rows[place][2] for place in chosen],
        [int(rows[place][3]) << 20 for place in chosen if rows[place][3].isdigit()],
        [capabilities[place][0] for place in chosen if len(capabilities) == len(rows)],
    )


def visible_gpus(gpus: Sequence[Tuple[str, str]], visible: Optional[str]) -> List[int]:
    """Which of the GPUs (index, uuid) CUDA_VISIBLE_DEVICES leaves, by their place; all where it is
    not set. As in CUDA, the first one that there is not hides those after it."""
    if visible is None:
        return list(range(len(gpus)))
    chosen = []
    for asked in (each.strip() for each in visible.split(",")):
        place = next(
            (
                place
                for place, (index, uuid) in enumerate(gpus)
                if asked == index or (asked.startswith("GPU-") and uuid.startswith(asked))
            ),
            None,
        )
        if place is None:
            break
        chosen.append(place)
    return chosen


def _alike(
    kind: str, names: Sequence[str], memories: Sequence[int], capabilities: Sequence[str]
) -> Optional[Accelerators]:
    """Those of several kinds are told by all their names, the least memory and capability."""
    if not names:
        return None
    numbers = [each for each in capabilities if _CAPABILITY.fullmatch(each)]
    return Accelerators(
        kind,
        ", ".join(sorted(set(names))),
        len(names),
        min(memories, default=None),
        min(numbers, key=float, default=None),
    )


def _nvidia_smi(columns: str) -> List[List[str]]:
    """The driver's answer, a row for each GPU; none where there is no driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        said = subprocess.run(
            [program, f"--query-gpu={columns}", "--format=csv,noheader,nounits"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=True,
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.SubprocessError):
        return []
    return [[cell.strip() for cell in line.split(",")] for line in said.splitlines() if line]


def _models(folder: Path) -> List[str]:
    """The GPUs' names as the kernel's driver has them, where its own program is not at hand."""
    found = []
    for path in sorted(folder.glob("*/information")):
        for line in _read(path).splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "Model":
                found.append(value.strip())
    return found


def _neuron_devices(folder: Path) -> Optional[Accelerators]:
    devices = [each for each in folder.glob("neuron*") if each.name[len("neuron") :].isdigit()]
    names = [
        _read(each / "info" / "architecture" / "device_name").strip() or "Trainium"
        for each in devices
    ]
    return _alike(NEURON, names, [], [])


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
