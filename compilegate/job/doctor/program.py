"""The examination of this machine; as a program, the doctor's job.

    python -m compilegate.job.doctor.program [trial COMPILER cpu|cuda [BACKEND]]

It writes what it found, prints the text, and succeeds whatever it finds. What may crash, hang or
hold a GPU's memory runs in a process of its own: this program with a question, which prints JSON.
"""

from __future__ import annotations

import copy
import importlib
import json
import os
import platform
import shutil
import sys
import sysconfig
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Mapping, Sequence

from compilegate.job.compilers import load_compiler
from compilegate.job.compilers.declaration import CONFIGURED
from compilegate.job.contract import (
    DOCTOR_FILE,
    DOCTOR_TEXT_FILE,
    IMAGE_VARIABLE,
    OUTPUT_DATA_VARIABLE,
    VISIBLE_GPUS_VARIABLE,
)
from compilegate.job.doctor.needs import (
    SHARED_MEMORY,
    Examination,
    Facts,
    Finding,
    TorchDevice,
    examination_of,
    text_of,
)
from compilegate.job.errors import one_sentence
from compilegate.job.files import write_json, write_text
from compilegate.job.machine.accelerators import declared_gpus
from compilegate.job.machine.environment import (
    cores_available,
    cpu_model,
    instance_type,
    version_of,
)
from compilegate.job.machine.programs import cxx_compiler, nvidia_smi, run

PACKAGES = (
    *("torch", "transformers", "numpy", "triton", "pytorch-triton", "torch_xla", "torch-neuronx"),
    *("neuronx-cc", "torch-tensorrt", "onnxruntime-training"),
)
VARIABLES = (
    *("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_SUPPRESS_ERRORS"),
    *("NVIDIA_TF32_OVERRIDE", "CUDA_LAUNCH_BLOCKING", VISIBLE_GPUS_VARIABLE),
)
SECONDS = 240.0  # for torch's import from a cold disk, the start of eight GPUs, a compilation


def examine(*, trying: bool = False) -> Examination:
    """Look at everything without changing anything, in seconds. `trying` also has every compiler
    that can run train a small model, up to a minute each."""
    found = {name: version_of(name) for name in PACKAGES}
    packages = {name: version for name, version in found.items() if version is not None}
    torch = ask("torch") if "torch" in packages else {}
    xla: dict[str, Any] = {}
    if "torch_xla" in packages:
        xla = ask("xla")
        xla["xla_error"] = xla.pop("error", None)
    shared = shutil.disk_usage(SHARED_MEMORY) if os.path.isdir(SHARED_MEMORY) else None
    facts = Facts(
        python=platform.python_version(),
        cpu=cpu_model(),
        cores=cores_available(),
        python_headers=Path(sysconfig.get_paths()["include"], "Python.h").is_file(),
        packages=packages,
        neuron_devices=len(list(Path("/dev").glob("neuron[0-9]*"))),
        instance_type=instance_type(os.environ),
        image=os.environ.get(IMAGE_VARIABLE) or None,
        variables={name: os.environ[name] for name in VARIABLES if name in os.environ},
        devices=tuple(TorchDevice(**each) for each in torch.pop("devices", ())),
        torch_error=torch.pop("error", None),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        shared_memory_bytes=shared.total if shared else None,
        free_disk_bytes=shutil.disk_usage(tempfile.gettempdir()).free,
        **driver_here(os.environ),
        **compilers_here(os.environ),
        **torch,
        **xla,
    )
    examination = examination_of(facts)
    if not trying:
        return examination
    # One that traces whole steps on a device of its own has no counterpart in eager mode.
    tried = {
        each.label: _trial_error(each)
        for each in examination.compilers
        if each.runs_on in ("cpu", "gpu") and "torch_xla" not in each.needs
    }
    return examination_of(replace(facts, tried=tried))


def compilers_here(variables: Mapping[str, str]) -> dict[str, Any]:
    """The compilers that torch would take in this environment, by their fields of `Facts`."""
    named = [variables["CC"]] if variables.get("CC") else ["gcc", "clang"]
    found = (shutil.which(each, path=variables.get("PATH")) for each in named)
    return {"cxx": cxx_compiler(variables), "cc": next(filter(None, found), None)}


def driver_here(variables: Mapping[str, str]) -> dict[str, Any]:
    """NVIDIA's driver and its GPUs, by their fields of `Facts`, without torch or use of a GPU."""
    fields, path = ("name", "driver_version", "memory.total", "compute_cap"), variables.get("PATH")
    rows, error = nvidia_smi(fields, path)
    if shutil.which("nvidia-smi", path=path) is None:
        there = next(Path("/dev").glob("nvidia[0-9]*"), None)
        error = None if there is None else f"{error}, though there is {there}"
    return {
        "driver": rows[0].get("driver_version") if rows else None,
        "driver_error": error,
        "gpus": tuple(
            f"{each.get('name')}, compute capability {each.get('compute_cap', 'unknown')}, "
            f"{each.get('memory.total', 'unknown')} MiB"
            for each in rows
        ),
        "gpus_declared": declared_gpus(variables),
    }


def _trial_error(finding: Finding) -> str | None:
    backend = () if finding.backend is None else (finding.backend,)
    device = "cuda" if finding.runs_on == "gpu" else "cpu"
    return ask("trial", finding.compiler, device, *backend).get("error")


def ask(*question: str) -> dict[str, Any]:
    """The answer of a process of its own; `error` in it says how it ended where it has none."""
    root = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "compilegate.job.doctor.program", *question]
    ended = run(command, SECONDS, {**os.environ, "PYTHONPATH": path})
    if ended.error is not None:
        return {"error": ended.error}
    try:
        return dict(json.loads(ended.output.strip().splitlines()[-1]))
    except (IndexError, TypeError, ValueError):
        return {"error": "its process printed no answer"}


def torch_here() -> dict[str, Any]:
    """The fields of `Facts` that torch shows."""
    import torch  # noqa: PLC0415 - its failure is an answer

    found: dict[str, Any] = {
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "devices": [_device(torch, each) for each in range(torch.cuda.device_count())],
    }
    if torch.version.cuda is not None and not found["devices"]:
        try:
            torch.cuda.init()
        except Exception as error:  # noqa: BLE001 - the driver's own words
            found["cuda_error"] = one_sentence(error)
    try:
        found["triton"] = str(importlib.import_module("triton").__version__)
    except Exception as error:  # noqa: BLE001 - of a library that does not load, whatever it raises
        absent = isinstance(error, ModuleNotFoundError) and error.name == "triton"
        found["triton_error"] = None if absent else one_sentence(error)
    return found


def _device(torch: Any, number: int) -> dict[str, Any]:
    found: dict[str, Any] = {"name": f"GPU {number}"}
    try:
        properties = torch.cuda.get_device_properties(number)
        found["name"] = properties.name
        found["capability"] = f"{properties.major}.{properties.minor}"
        torch.ones(2, device=number).sum().item()
    except Exception as error:  # noqa: BLE001 - of a driver, a kernel or a lack of memory
        found["error"] = one_sentence(error)
    return found


def xla_here() -> dict[str, Any]:
    """The field of `Facts` that torch_xla shows. Its import changes how a process computes."""
    importlib.import_module("torch_xla.core.xla_model").xla_device()
    return {"xla_configured": os.environ.get(CONFIGURED) == "1"}


def trial(name: str, device: str, backend: str | None = None) -> dict[str, Any]:
    """Compile a small model and compare its gradients with eager's: an `error`, or nothing."""
    import torch  # noqa: PLC0415 - its failure is an answer

    torch.manual_seed(0)
    eager = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)
    ).to(device)
    model, inputs = copy.deepcopy(eager), torch.randn(8, 16).to(device)
    compiler = load_compiler(name, {} if backend is None else {"backend": backend})
    compiled = compiler.compile(model.forward, model)
    for step in range(3):  # CUDA graphs are recorded in the second and replayed in the third
        model.zero_grad()
        compiler.take_step(step, lambda: compiled(inputs).square().mean().backward(), None)
        compiler.end_step()
    eager(inputs).square().mean().backward()
    record = compiler.record(0.0, 0)
    if name != "eager" and not record.ran:
        return {"error": f"nothing shows that it compiled: {dict(record.proof)}"}
    for (parameter, one), other in zip(eager.named_parameters(), model.parameters()):
        expected: Any = one.grad
        wrong = float((expected - other.grad).abs().max() / expected.abs().max())
        if not wrong <= 1e-4:
            return {"error": f"the gradient of {parameter} differs from eager's by {wrong:.1e}"}
    return {}


def _answer(question: str, *details: str) -> dict[str, Any]:
    try:
        return {"torch": torch_here, "xla": xla_here, "trial": trial}[question](*details)
    except Exception as error:  # noqa: BLE001 - whatever a library or a compiler raises is the answer
        return {"error": one_sentence(error)[:400]}


def main(question: Sequence[str]) -> int:
    """Examine, write and print; or answer the one question."""
    if question:
        print(json.dumps(_answer(*question)), flush=True)
        return 0
    found = examine(trying=True)
    folder, text = Path(os.environ.get(OUTPUT_DATA_VARIABLE, ".")), text_of(found)
    write_json(folder / DOCTOR_FILE, found.document)
    write_text(folder / DOCTOR_TEXT_FILE, text)
    print(text, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
