"""A machine's GPUs or Trainium, by its driver, without torch; where a process computes is
`place_of`.

A machine may be described in `MACHINE_VARIABLE` instead; this one's processor then computes in
place of its accelerator::

    {"accelerator": "V100", "kind": "cuda", "count": 1, "memory_gib": 16, "capability": "7.0"}
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, MutableMapping, Sequence

from compilegate.job.contract import GPU_COUNT_VARIABLE, MACHINE_VARIABLE, VISIBLE_GPUS_VARIABLE
from compilegate.job.errors import ArmError, InputError
from compilegate.job.machine.programs import nvidia_smi

HOST, CUDA, NEURON = "cpu", "cuda", "neuron"
KINDS = (CUDA, NEURON)  # of accelerators: NVIDIA's GPUs or AWS's Trainium
_XLA_HARDWARE = {"CPU": HOST, "GPU": CUDA, "CUDA": CUDA, "NEURON": NEURON}
_NEURON_DEVICES = Path("/sys/devices/virtual/neuron_device")
_Gpu = Mapping[str, str]  # what the driver says of one, by its names of the fields


@dataclass(frozen=True)
class Accelerators:
    """All that the job may use, which are alike."""

    kind: str  # one of KINDS
    name: str
    count: int
    memory_bytes: int | None = None  # what each has; None where nothing says
    capability: str | None = None  # NVIDIA's compute capability, such as 7.0, where known


@dataclass(frozen=True)
class Machine:
    accelerators: Accelerators | None
    described: str | None = None  # the description, where the machine is not this one


def this_machine() -> Machine:
    """The described machine, or this one. Raises InputError for an invalid description."""
    text = os.environ.get(MACHINE_VARIABLE)
    if text:
        return read_description(text)
    return Machine(_found(os.environ.get(VISIBLE_GPUS_VARIABLE)))


def read_description(text: str) -> Machine:
    try:
        found = json.loads(text)
        accelerators = _described(**found)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"the environment variable {MACHINE_VARIABLE} is {text[:80]!r}, allowed: what "
            f"`compilegate doctor INSTANCE_TYPE` prints ({error})"
        ) from error
    return Machine(accelerators, json.dumps(found, sort_keys=True))


def _described(
    accelerator: str | None = None,
    kind: str = CUDA,
    count: int = 1,
    memory_gib: float | None = None,
    capability: str | None = None,
) -> Accelerators | None:
    if accelerator is None:
        return None
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}, allowed: {' or '.join(KINDS)}")
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"count is {count!r}, allowed: 1 or more")
    return Accelerators(
        kind,
        str(accelerator),
        count,
        None if memory_gib is None else int(float(memory_gib) * 2**30),
        None if capability is None else str(float(capability)),
    )


def describing(accelerators: Accelerators | None) -> str:
    """The description of a machine with these, to be set in `MACHINE_VARIABLE`."""
    if accelerators is None:
        return json.dumps({"accelerator": None})
    memory = accelerators.memory_bytes
    return json.dumps(
        {
            "accelerator": accelerators.name,
            "kind": accelerators.kind,
            "count": accelerators.count,
            "memory_gib": None if memory is None else memory / 2**30,
            "capability": accelerators.capability,
        }
    )


@functools.lru_cache(maxsize=None)
def _found(visible: str | None) -> Accelerators | None:
    """The accelerators that CUDA_VISIBLE_DEVICES leaves. Several kinds have all their names, and
    the least memory and capability."""
    rows = nvidia_smi(("index", "uuid", "name", "memory.total", "compute_cap")).rows
    chosen = visible_gpus(rows, visible)
    if chosen:
        memories = [each.get("memory.total", "") for each in chosen]
        capabilities = [each.get("compute_cap", "") for each in chosen]
        return Accelerators(
            CUDA,
            ", ".join(sorted({each["name"] for each in chosen})),
            len(chosen),
            min((int(each) << 20 for each in memories if each.isdigit()), default=None),
            min((each for each in capabilities if each[:1].isdigit()), key=float, default=None),
        )
    devices = [each for each in _NEURON_DEVICES.glob("neuron*") if each.name[6:].isdigit()]
    if not devices:
        return None
    file = devices[0] / "info" / "architecture" / "device_name"
    name = file.read_text().strip() if file.is_file() else "Trainium"
    return Accelerators(NEURON, name, len(devices))


def visible_gpus(gpus: Sequence[_Gpu], visible: str | None) -> list[_Gpu]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, by index or uuid. As in CUDA, an unknown name
    hides those after it."""
    if visible is None:
        return list(gpus)
    chosen = []
    for name in (each.strip() for each in visible.split(",")):
        uuid = name if name.startswith("GPU-") else "none"
        found = [it for it in gpus if name == it["index"] or it["uuid"].startswith(uuid)]
        if not found:
            break
        chosen.append(found[0])
    return chosen


def place_of(
    device_type: str,
    machine: Machine,
    *,
    hardware: str | None = None,
    computes_on: Sequence[str] = (CUDA,),
) -> str:
    """HOST, one of KINDS, or torch's name of another device. `hardware` is XLA's name of its
    device; `computes_on` are the compiler's kinds, which this processor stands in for on a
    described machine."""
    place = device_type if hardware is None else _XLA_HARDWARE.get(hardware, hardware.lower())
    has = machine.accelerators
    if place == HOST and machine.described and has and has.kind in computes_on:
        return has.kind
    return place


def declared_gpus(environment: Mapping[str, str]) -> int:
    """How many GPUs the machine has, as SageMaker's toolkit or the local runner counted them."""
    declared = environment.get("SM_NUM_GPUS", "")
    return int(declared) if declared.isdigit() else 0


def name_gpus(environment: MutableMapping[str, str]) -> None:
    """Set GPU_NUM_DEVICES unless it is set: torch_xla 1.x fails without it."""
    if declared_gpus(environment):
        environment.setdefault(GPU_COUNT_VARIABLE, str(declared_gpus(environment)))


def require_gpus(environment: Mapping[str, str], place: str, torch: str, cuda: str | None) -> None:
    """Raise ArmError where the machine has GPUs and the process computes on the host: every arm
    would, and no gate would know. `cuda` is what torch was built for."""
    declared = declared_gpus(environment)
    if place != HOST or not declared:
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
        f"the machine has GPUs (SM_NUM_GPUS is {declared}), and torch sees none, so every "
        f"step would be computed on the host; {check}"
    )
