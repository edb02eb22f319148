"""What a machine has to compute with beside its processor: GPUs, or Trainium.

That is one fact; where a process computes is another (`place_of`). A compiler that keeps the
accelerator to itself leaves torch's own device on the host, and still the machine is
the one that the baseline had. So the driver is asked here, and no framework: its answer is the same
in every image and for every compiler.

A machine may be described instead, in `MACHINE_VARIABLE`: then this one's processor stands in for
its accelerator, and whatever asks for the machine gets the described one::

    {"accelerator": "V100", "kind": "cuda", "count": 1, "memory_gib": 16, "capability": "7.0"}

Needs no torch.
"""

from __future__ import annotations

import csv
import functools
import json
import os
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import (
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    MutableMapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from compilegate.job.errors import ArmError, InputError
from compilegate.job.machine.programs import run
from compilegate.job.names import GPU_COUNT_VARIABLE, MACHINE_VARIABLE, VISIBLE_GPUS_VARIABLE

TOOLKIT_GPUS_VARIABLE = "SM_NUM_GPUS"
"""The machine's, as SageMaker's training toolkit, or the local runner, counted them."""


def name_gpus(environment: MutableMapping[str, str]) -> None:
    """Set GPU_NUM_DEVICES, unless somebody has: where it is missing, torch_xla 1.x ends with
    "Missing XLA configuration"."""
    gpus = environment.get(TOOLKIT_GPUS_VARIABLE) or "0"
    if gpus != "0":
        environment.setdefault(GPU_COUNT_VARIABLE, gpus)


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
    """The described machine, or this one. Raises InputError for an invalid description."""
    text = os.environ.get(MACHINE_VARIABLE)
    if text:
        return read_description(text)
    return Machine(_found(os.environ.get(VISIBLE_GPUS_VARIABLE)))


def read_description(text: str) -> Machine:
    """A description as `MACHINE_VARIABLE` holds it. Raises InputError."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _wrong(f"is {_shown(text)}", "a JSON object")
    unknown = sorted(set(found) - _KEYS.keys())
    if unknown:
        *most, last = _KEYS
        raise _wrong(f"has the key {unknown[0]!r}", f"{', '.join(most)} and {last}")
    for key, (fits, allowed) in _KEYS.items():
        if key in found and not fits(found[key]):
            raise _wrong(f"has {key} = {_shown(found[key])}", allowed)
    described = json.dumps(found, sort_keys=True)
    if found.get("accelerator") is None:
        return Machine(None, described)
    memory = found.get("memory_gib")
    accelerators = Accelerators(
        found.get("kind", CUDA),
        found["accelerator"],
        int(found.get("count", 1)),
        None if memory is None else int(memory * 2**30),
        found.get("capability"),
    )
    return Machine(accelerators, described)


def _is_number(value: Any, most: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= most


_KEYS: Mapping[str, Tuple[Callable[[Any], bool], str]] = {
    "accelerator": (
        lambda value: value is None or (isinstance(value, str) and 0 < len(value) <= 100),
        "a name or null",
    ),
    "kind": (lambda value: value in KINDS, " or ".join(KINDS)),
    "count": (
        lambda value: _is_number(value, MOST_ACCELERATORS) and int(value) == value,
        f"a whole number from 1 to {MOST_ACCELERATORS}",
    ),
    "memory_gib": (
        lambda value: value is None or _is_number(value, MOST_MEMORY_GIB),
        f"a number up to {MOST_MEMORY_GIB}, or null",
    ),
    "capability": (
        lambda value: (
            value is None or (isinstance(value, str) and _CAPABILITY.fullmatch(value) is not None)
        ),
        "a text such as '7.0', or null",
    ),
}
"""The keys of a description: which values each may have, and that in words."""


def _wrong(found: str, allowed: str) -> InputError:
    return InputError(f"the environment variable {MACHINE_VARIABLE} {found}, allowed: {allowed}")


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def describing(accelerators: Optional[Accelerators]) -> str:
    """The description of a machine with these, to be set in `MACHINE_VARIABLE`."""
    if accelerators is None:
        return json.dumps({"accelerator": None})
    found: Dict[str, Any] = asdict(accelerators)
    memory = found.pop("memory_bytes")
    found["accelerator"] = found.pop("name")
    return json.dumps({**found, "memory_gib": None if memory is None else memory / 2**30})


class Answer(NamedTuple):
    """What the driver's program says."""

    rows: List[Dict[str, str]]
    """For each GPU, the fields that this driver knows."""
    error: Optional[str]


def nvidia_smi(fields: Sequence[str], path: Optional[str] = None) -> Answer:
    """Ask nvidia-smi (`--help-query-gpu` lists its fields). `path` is where programs are, by
    default PATH."""
    program = shutil.which("nvidia-smi", path=path)
    if program is None:
        return Answer([], "nvidia-smi is not installed")
    query = [program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    ended = run(query, _SECONDS)
    # A driver refuses the whole query for a field that it does not know, and names it.
    unknown = re.search(r'Field "([^"]+)" is not a valid field', ended.output + (ended.error or ""))
    if unknown is not None and unknown.group(1) in fields:
        return nvidia_smi([each for each in fields if each != unknown.group(1)], path)
    rows = list(csv.reader(ended.output.splitlines(), skipinitialspace=True))
    wrong = next((", ".join(row) for row in rows if len(row) != len(fields)), None)
    if ended.error or wrong:
        return Answer([], f"nvidia-smi says: {ended.error or wrong}")
    return Answer([dict(zip(fields, (cell.strip() for cell in row))) for row in rows], None)


@functools.lru_cache(maxsize=None)
def _found(visible: Optional[str]) -> Optional[Accelerators]:
    """Those of this machine that CUDA_VISIBLE_DEVICES leaves; a GPU before anything else."""
    return _gpus(visible) or _neuron_devices(_NEURON)


def _gpus(visible: Optional[str]) -> Optional[Accelerators]:
    rows = nvidia_smi(("index", "uuid", "name", "memory.total", "compute_cap")).rows
    if not rows:  # the kernel's driver may be there without its program
        rows = [
            {"index": str(place), "uuid": "", "name": name}
            for place, name in enumerate(_models(_NVIDIA))
        ]
    places = visible_gpus([(each["index"], each["uuid"]) for each in rows], visible)
    chosen = [rows[place] for place in places]
    memories = [each.get("memory.total", "") for each in chosen]
    return _alike(
        CUDA,
        [each["name"] for each in chosen],
        [int(each) << 20 for each in memories if each.isdigit()],
        [each.get("compute_cap", "") for each in chosen],
    )


def visible_gpus(gpus: Sequence[Tuple[str, str]], visible: Optional[str]) -> List[int]:
    """Which of the GPUs (index, uuid) CUDA_VISIBLE_DEVICES leaves, by their place; all where it is
    not set. As in CUDA, a name of no GPU hides those after it."""
    if visible is None:
        return list(range(len(gpus)))
    chosen = []
    for name in (each.strip() for each in visible.split(",")):
        matching = (
            place
            for place, (index, uuid) in enumerate(gpus)
            if name == index or (name.startswith("GPU-") and uuid.startswith(name))
        )
        place = next(matching, None)
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


HOST = "cpu"
_XLA_HARDWARE = {"CPU": HOST, "GPU": CUDA, "CUDA": CUDA, "NEURON": NEURON}


def place_of(
    device_type: str,
    machine: Machine,
    *,
    hardware: Optional[str] = None,
    computes_on: Sequence[str] = (CUDA,),
) -> str:
    """`cpu`, one of KINDS, or what torch calls another device.

    `hardware` is what XLA says that its device is. `computes_on`: the kinds of accelerator that the
    compiler can use. Of a described machine, this one's processor stands in for such a one.
    """
    place = device_type
    if hardware is not None:
        place = _XLA_HARDWARE.get(hardware, hardware.lower())
    has = machine.accelerators
    if place == HOST and machine.described is not None and has is not None:
        return has.kind if has.kind in computes_on else HOST
    return place


def require_gpus(
    environment: Mapping[str, str], place: str, torch: str, cuda: Optional[str]
) -> None:
    """Raises ArmError where the machine has GPUs and the process computes on the host all the same:
    every arm would, and a gate that compares them would never know.

    `torch` is its release, and `cuda` the one that it was built for.
    """
    declared = environment.get(TOOLKIT_GPUS_VARIABLE, "")
    if place != HOST or not declared.isdigit() or int(declared) == 0:
        return
    hidden = environment.get(VISIBLE_GPUS_VARIABLE)
    if hidden is not None and hidden.strip() in ("", "-1", "NoDevFiles"):
        check = f"{VISIBLE_GPUS_VARIABLE} is {hidden!r}, which hides them"
    elif cuda is None:
        check = f"torch {torch} was built without CUDA; take an image, or a torch, with it"
    else:
        check = (
            f"torch {torch} was built for CUDA {cuda}: check that the machine's driver is new "
            "enough for that (see nvidia-smi), and that the image was started with its GPUs"
        )
    raise ArmError(
        f"the machine has GPUs ({TOOLKIT_GPUS_VARIABLE} is {declared}), and torch sees none, so "
        f"every step would be computed on the host; {check}"
    )
