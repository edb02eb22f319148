"""The examination of the machine that this process runs on; as a program, the doctor's job.

The job writes what it found into its output, and prints the text. It succeeds whatever it finds,
since a machine that lacks something is an answer.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Mapping

from compilegate.job.doctor.apart import ask
from compilegate.job.doctor.facts import (
    VARIABLES,
    Facts,
    Torch,
    TorchDevice,
    Tried,
    Xla,
    driver_here,
    host_here,
    installed_packages,
    processor_time,
    toolchain_here,
)
from compilegate.job.doctor.needs import Examination, Finding, examination_of
from compilegate.job.doctor.words import text_of
from compilegate.job.files import write_json, write_text
from compilegate.job.machine.environment import image, instance_type
from compilegate.job.names import DOCTOR_FILE, DOCTOR_TEXT_FILE, OUTPUT_DATA_VARIABLE


def examine(variables: Mapping[str, str] = os.environ, *, trying: bool = False) -> Examination:
    """Look at everything, in some seconds; nothing is changed.

    `trying` has every compiler that lacks nothing compile a small model as well, each in a process
    of its own, which takes up to a minute each. `variables` are the environment's.
    """
    driver = driver_here(variables)  # before anything here uses a GPU
    since = processor_time()
    packages = installed_packages()
    torch = ask("torch") if "torch" in packages else {}
    devices = tuple(TorchDevice(**each) for each in torch.pop("devices", ()))
    toolchain = toolchain_here(variables)
    facts = Facts(
        host=host_here(since),
        toolchain=toolchain,
        driver=driver,
        torch=Torch(**torch, devices=devices),
        xla=Xla(packages["torch_xla"], **ask("xla")) if "torch_xla" in packages else None,
        packages=packages,
        neuron_devices=len(list(Path("/dev").glob("neuron[0-9]*"))),
        instance_type=instance_type(variables),
        image=image(variables),
        variables={name: variables[name] for name in VARIABLES if name in variables},
    )
    found = examination_of(facts)
    if not trying:
        return found
    # One that traces whole steps on a device of its own has no counterpart in eager mode.
    tried = tuple(
        _tried(each)
        for each in found.compilers
        if each.runs_on in ("cpu", "gpu") and "torch_xla" not in each.needs
    )
    return examination_of(replace(facts, tried=tried))


def _tried(finding: Finding) -> Tried:
    began, device = time.monotonic(), str(finding.runs_on)
    backend = () if finding.backend is None else (finding.backend,)
    error = ask("trial", finding.compiler, device, *backend).get("error")
    return Tried(finding.label, device, time.monotonic() - began, error)


def main() -> int:
    """Examine, write and print."""
    found = examine(trying=True)
    folder, text = Path(os.environ.get(OUTPUT_DATA_VARIABLE, ".")), text_of(found)
    write_json(folder / DOCTOR_FILE, found.document)
    write_text(folder / DOCTOR_TEXT_FILE, text)
    print(text, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
