"""What follows from a machine's facts, for machines that are not here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compilegate.job.compilers import declarations
from compilegate.job.compilers.declaration import usable_backends
from compilegate.job.doctor.needs import NEEDS, Facts, TorchDevice, examination_of, text_of

A10G = "NVIDIA A10G, compute capability 8.6, 23028 MiB"
SEEN = TorchDevice("NVIDIA A10G", "8.6")
CPU = Facts(
    python="3.11.9",
    cpu="a processor",
    cores=4,
    memory_bytes=16 << 30,
    shared_memory_bytes=8 << 30,
    free_disk_bytes=40 << 30,
    cxx="/usr/bin/g++",
    cc="/usr/bin/gcc",
    python_headers=True,
    packages={"torch": "2.13.0+cpu"},
    torch="2.13.0+cpu",
)
GPU = replace(
    CPU,
    driver="580.65.06",
    gpus_declared=1,
    gpus=(A10G,),
    torch="2.13.0+cu130",
    cuda="13.0",
    devices=(SEEN,),
    triton="3.7.0",
)
NO_CUDA = replace(GPU, devices=(), cuda_error="too old")
XLA_1, XLA_2 = ({"torch_xla": version} for version in ("1.13.1", "2.9.0"))


def runs(facts: Facts) -> dict[str, str | None]:
    return {each.label: each.runs_on for each in examination_of(facts).compilers}


def test_every_compiler_of_the_catalog_and_every_backend_is_judged_by_needs_that_exist() -> None:
    assert set(runs(CPU)) == {name for name in declarations() if name != "torch-compile"} | {
        f"torch-compile, {each.name}" for each in usable_backends() if each.name != "inductor"
    }
    known = {name for name, *_ in NEEDS}
    for each in declarations().values():
        assert set(each.needs) <= known
        assert "torch" in each.needs
    assert {need for each in usable_backends() for need in each.needs} <= known


def test_a_machine_compiles_for_what_it_has() -> None:
    on_cpu, on_gpu = runs(CPU), runs(GPU)
    here = {"eager", "inductor", "torch-compile, aot_eager"}
    assert {name: where for name, where in on_cpu.items() if where} == dict.fromkeys(here, "cpu")
    assert {name: where for name, where in on_gpu.items() if where} == dict.fromkeys(
        {*here, "torch-compile, cudagraphs"}, "gpu"
    )
    for facts in (CPU, GPU):
        assert not examination_of(facts).remarks
    configured = replace(GPU, packages=XLA_1, xla_error=None, xla_configured=True)
    assert runs(configured)["training-compiler"] == "gpu"


LACKING = [
    (replace(CPU, gpus_declared=4), "eager", "2.13.0+cpu is a build without CUDA"),
    (NO_CUDA, "inductor", "driver 580.65.06, too old"),
    (replace(NO_CUDA, variables={"CUDA_VISIBLE_DEVICES": ""}), "eager", "hides them"),
    (replace(NO_CUDA, driver_error="no answer"), "eager", "GPUs (no answer)"),
    (replace(GPU, devices=(replace(SEEN, error="no kernel"),) * 2), "eager", "A10G that computes"),
    (replace(GPU, devices=(replace(SEEN, capability="6.1"),)), "inductor", "needed is 7.0"),
    (replace(GPU, triton=None), "inductor", "Triton"),
    (replace(GPU, cc=None, python_headers=False), "inductor", "a C compiler"),
    (replace(CPU, cxx=None), "inductor", "a C++ compiler"),
    (replace(CPU, python_headers=False), "inductor", "python3.11-dev"),
    (replace(CPU, torch=None), "training-compiler", "(none is installed)"),
    (replace(CPU, torch=None, torch_error="killed by SIGSEGV"), "eager", "(killed by SIGSEGV)"),
    (replace(CPU, variables={"TORCH_COMPILE_DISABLE": "1"}), "inductor", "Unset TORCH_COMP"),
    (replace(CPU, torch="1.13.1"), "inductor", "torch.compile: this is torch 1"),
    (replace(CPU, packages=XLA_2, xla_error="symbol"), "xla", "that works (symbol)"),
    (replace(GPU, packages=XLA_1), "training-compiler", "switched on"),
    (CPU, "torch-compile, onnxrt", "onnxruntime-training"),
    (CPU, "neuron", "Trainium"),
]
"""Facts, a compiler that cannot run there, and words of what it lacks or of what to do."""


@pytest.mark.parametrize(("facts", "label", "lacking"), LACKING)
def test_what_is_lacking_is_named_with_its_remedy(facts: Facts, label: str, lacking: str) -> None:
    found = next(each for each in examination_of(facts).compilers if each.label == label)
    assert found.runs_on is None
    assert any(lacking in f"{what}. {do}" for what, do in found.lacks), found.lacks


@pytest.mark.parametrize(
    ("facts", "remark"),
    [
        (replace(CPU, shared_memory_bytes=64 << 20), "--shm-size=1g"),
        (replace(CPU, free_disk_bytes=1 << 30), "2 GiB of disk"),
        (replace(GPU, variables={"NVIDIA_TF32_OVERRIDE": "1"}), "Unset NVIDIA_TF32_OVERRIDE."),
    ],
)
def test_what_disturbs_a_measurement_is_named_with_its_remedy(facts: Facts, remark: str) -> None:
    assert [remark in f"{what}. {do}" for what, do in examination_of(facts).remarks] == [True]


def test_a_trial_is_the_state_of_its_compiler() -> None:
    facts = replace(CPU, tried={"inductor": "CompilerError: no"})
    assert "inductor                    FAILED on the cpu: CompilerError: no" in text_of(
        examination_of(facts)
    )
