"""Where a process computes, in words that hold for every compiler. Pure.

torch's device does not say it: XLA's is called `xla` on a GPU, on Trainium and on a CPU. And it is
not what the machine has: a process may compute on the host beside an idle GPU, which is what
`require_gpus` is for.
"""

from __future__ import annotations

from typing import Mapping, Optional, Sequence

from compilegate.job.errors import ArmError
from compilegate.job.machine.accelerators import CUDA, NEURON, Machine
from compilegate.job.machine.gpus import TOOLKIT_GPUS_VARIABLE
from compilegate.job.names import VISIBLE_GPUS_VARIABLE

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
