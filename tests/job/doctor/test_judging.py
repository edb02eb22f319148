"""What follows from a machine's facts, for machines that are not here."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.job.compilers import declarations
from compilegate.job.compilers.torch_compile.backends import usable
from compilegate.job.doctor.facts import (
    Driver,
    Facts,
    Gpu,
    Host,
    Timing,
    Toolchain,
    Torch,
    TorchDevice,
    Tried,
    Xla,
)
from compilegate.job.doctor.judging import Examination, examination_of
from compilegate.job.doctor.needs import NEEDS, has_kernels
from compilegate.job.doctor.words import text_of

HOST = Host(
    platform="Linux",
    python="3.11.9",
    cpu="a processor",
    cores=4,
    core_quota=None,
    memory_bytes=16 << 30,
    free_memory_bytes=12 << 30,
    shared_memory_bytes=8 << 30,
    free_disk_bytes=40 << 30,
    load=0.1,
    steal=0.0,
    others=0.0,
)
TOOLS = Toolchain("/usr/bin/g++", "g++ 12", None, None, "/usr/bin/gcc", "/usr/include/python3.11")
A10G = Gpu(index=0, name="NVIDIA A10G", total_bytes=23 << 30, used_bytes=0, capability="8.6")
SEEN = TorchDevice(
    name="NVIDIA A10G",
    capability="8.6",
    total_bytes=23 << 30,
    free_bytes=22 << 30,
    precisions=("fp32", "tf32", "bf16", "fp16"),
    native_bf16=True,
)
CPU = Facts(
    host=HOST,
    toolchain=TOOLS,
    driver=Driver(),
    torch=Torch(version="2.13.0+cpu", threads=4),
    xla=None,
    packages={"torch": "2.13.0+cpu"},
    neuron_devices=0,
    timings=(Timing("cpu", 0.001, 0.01, 1.1, 100),),
    instance_type=None,
    image=None,
)
GPU = replace(
    CPU,
    driver=Driver(version="580.65.06", cuda="13.0", declared=1, gpus=(A10G,)),
    torch=Torch(
        version="2.13.0+cu130",
        cuda="13.0",
        architectures=("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"),
        available=True,
        devices=(SEEN,),
        threads=4,
        triton="3.7.0",
    ),
)


def runs(examination: Examination) -> dict[str, str | None]:
    return {each.label: each.runs_on for each in examination.compilers}


def lacks(facts: Facts, label: str) -> list[str]:
    found = next(each for each in examination_of(facts).compilers if each.label == label)
    return [f"{each.what}. {each.do}" for each in found.lacks]


def remarks(facts: Facts) -> str:
    return "\n".join(f"{each.what}. {each.do}" for each in examination_of(facts).remarks)


def test_every_compiler_of_the_catalog_and_every_backend_is_judged_by_needs_that_exist() -> None:
    labels = set(runs(examination_of(CPU)))
    assert labels == {name for name in declarations() if name != "torch-compile"} | {
        f"torch-compile, {each.name}" for each in usable() if each.name != "inductor"
    }
    for each in declarations().values():
        assert set(each.needs) <= NEEDS.keys()
        assert "torch" in each.needs
    assert {need for each in usable() for need in each.needs} <= NEEDS.keys()


def test_a_machine_without_a_gpu_compiles_for_its_cpu() -> None:
    found = runs(examination_of(CPU))
    assert {name for name, where in found.items() if where is not None} == {
        "eager",
        "inductor",
        "torch-compile, aot_eager",
    }
    assert found["inductor"] == "cpu"
    assert not examination_of(CPU).remarks


def test_a_machine_with_a_gpu_compiles_for_it() -> None:
    found = runs(examination_of(GPU))
    assert found["inductor"] == found["torch-compile, cudagraphs"] == "gpu"
    assert found["training-compiler"] is None
    assert not examination_of(GPU).remarks


@pytest.mark.parametrize(
    ("facts", "label", "expected"),
    [
        (
            replace(CPU, driver=Driver(declared=4)),
            "eager",
            "a torch for 4 GPUs: 2.13.0+cpu is a build without CUDA",
        ),
        (
            replace(
                GPU,
                torch=replace(GPU.torch, available=False, devices=(), cuda_error="too old"),
                driver=replace(GPU.driver, version="535.161.07", cuda="12.2"),
            ),
            "inductor",
            "a driver for CUDA 13.0: 535.161.07 runs CUDA 12.2 at most",
        ),
        (
            replace(
                GPU,
                torch=replace(GPU.torch, available=False, devices=()),
                driver=replace(GPU.driver, visible=""),
            ),
            "eager",
            "CUDA_VISIBLE_DEVICES is ''",
        ),
        (
            replace(
                GPU,
                torch=replace(GPU.torch, available=False, devices=()),
                driver=Driver(declared=1, error="nvidia-smi says: no"),
            ),
            "eager",
            "a driver that answers (nvidia-smi says: no)",
        ),
        (
            replace(
                GPU,
                torch=replace(
                    GPU.torch,
                    devices=(replace(SEEN, name="V100", capability="7.0", error="no kernel"),),
                ),
            ),
            "eager",
            "kernels for V100 (compute capability 7.0)",
        ),
        (replace(GPU, torch=replace(GPU.torch, triton=None)), "inductor", "Triton"),
        (
            replace(GPU, toolchain=replace(TOOLS, cc=None, python_headers=None)),
            "inductor",
            "a C compiler",
        ),
        (replace(CPU, toolchain=replace(TOOLS, cxx=None)), "inductor", "a C++ compiler"),
        (
            replace(CPU, toolchain=replace(TOOLS, openmp_error="cannot find -lgomp")),
            "inductor",
            "OpenMP",
        ),
        (
            replace(CPU, toolchain=replace(TOOLS, python_headers=None)),
            "inductor",
            "Python's headers. Install python3.11-dev",
        ),
        (replace(CPU, torch=Torch()), "training-compiler", "torch. Install"),
        (
            replace(CPU, torch=Torch(error="killed by SIGSEGV")),
            "eager",
            "a torch that can be imported (killed by SIGSEGV)",
        ),
        (
            replace(CPU, variables={"TORCH_COMPILE_DISABLE": "1"}),
            "inductor",
            "Unset TORCH_COMPILE_DISABLE.",
        ),
        (replace(CPU, torch=replace(CPU.torch, version="1.13.1")), "inductor", "torch.compile"),
        (
            replace(CPU, xla=Xla("2.9.0", error="undefined symbol")),
            "xla",
            "Install torch 2.9, the release that torch_xla 2.9.0 is made for.",
        ),
        (replace(GPU, xla=Xla("1.13.1")), "training-compiler", "did not switch it on"),
    ],
)
def test_what_is_lacking_is_named_with_its_remedy(facts: Facts, label: str, expected: str) -> None:
    found = lacks(facts, label)
    assert any(expected in sentence for sentence in found), found


def test_training_compiler_runs_where_its_torch_xla_switched_it_on() -> None:
    facts = replace(GPU, xla=Xla("1.13.1", configured=True, hardware="GPU"))
    assert runs(examination_of(facts))["training-compiler"] == "gpu"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (replace(CPU, host=replace(HOST, steal=0.2)), "the hypervisor gave 20%"),
        (replace(CPU, host=replace(HOST, others=2.0)), "keep 2.0 of 4 cores busy"),
        (replace(CPU, host=replace(HOST, core_quota=1.5)), "OMP_NUM_THREADS=1"),
        (replace(CPU, host=replace(HOST, shared_memory_bytes=64 << 20)), "--shm-size=1g"),
        (replace(CPU, timings=(Timing("cpu", 0.001, 0.4, 3.0, 100),)), "differ by ±40%"),
        (
            replace(GPU, driver=replace(GPU.driver, gpus=(replace(A10G, processes=2),))),
            "GPU 0 (NVIDIA A10G) is in use by others: 2 processes",
        ),
        (
            replace(GPU, driver=replace(GPU.driver, gpus=(replace(A10G, throttled_by=("heat",)),))),
            "is held back by heat",
        ),
        (
            replace(GPU, torch=replace(GPU.torch, devices=(replace(SEEN, native_bf16=False),))),
            "computes bf16 only by way of fp32",
        ),
        (
            replace(GPU, driver=replace(GPU.driver, gpus=(A10G, replace(A10G, index=1)))),
            "torch sees 1 of 2 GPUs",
        ),
        (replace(GPU, variables={"NVIDIA_TF32_OVERRIDE": "1"}), "Unset NVIDIA_TF32_OVERRIDE."),
    ],
)
def test_what_disturbs_a_measurement_is_named_with_its_remedy(facts: Facts, expected: str) -> None:
    assert expected in remarks(facts)


@pytest.mark.parametrize(
    ("architectures", "capability", "expected"),
    [
        (("sm_75", "sm_80"), "7.0", False),
        (("sm_70", "sm_80"), "7.0", True),
        (("sm_80",), "8.6", True),
        (("sm_90",), "8.6", False),
        (("sm_90a", "compute_90"), "12.0", True),
        (("sm_90",), "10.0", False),
    ],
)
def test_kernels_run_on_later_gpus_of_their_major_version(
    architectures: tuple[str, ...], capability: str, expected: bool
) -> None:
    assert has_kernels(architectures, capability) is expected


def test_a_trial_that_failed_is_the_state_of_its_compiler() -> None:
    facts = replace(CPU, tried=(Tried("inductor", "cpu", 3.0, error="CompilerError: no"),))
    assert "inductor                    FAILED on the cpu: CompilerError: no" in text_of(
        examination_of(facts)
    )


GPUS = st.builds(
    Gpu,
    index=st.integers(0, 7),
    name=st.sampled_from(["NVIDIA A10G", "Tesla T4"]),
    total_bytes=st.none() | st.integers(1, 1 << 40),
    used_bytes=st.none() | st.integers(0, 1 << 40),
    utilization=st.none() | st.floats(0, 1),
    capability=st.none() | st.sampled_from(["7.0", "7.5", "8.6", "9.0"]),
    persistence=st.none() | st.booleans(),
    mig=st.none() | st.booleans(),
    throttled_by=st.sampled_from([(), ("its power limit",)]),
    processes=st.integers(0, 3),
)
DEVICES = st.builds(
    TorchDevice,
    name=st.just("NVIDIA A10G"),
    capability=st.sampled_from(["", "6.1", "7.0", "8.6", "10.0"]),
    total_bytes=st.integers(0, 1 << 40),
    free_bytes=st.integers(0, 1 << 40),
    error=st.none() | st.just("RuntimeError: no"),
    native_bf16=st.booleans(),
)
NONE_OR: Any = {
    "host": st.builds(
        Host,
        platform=st.just("Linux"),
        python=st.sampled_from(["3.8.20", "3.11.9"]),
        cpu=st.just("a processor"),
        cores=st.integers(1, 192),
        core_quota=st.none() | st.floats(0.1, 64),
        memory_bytes=st.none() | st.integers(0, 1 << 42),
        free_memory_bytes=st.none() | st.integers(0, 1 << 42),
        shared_memory_bytes=st.none() | st.integers(0, 1 << 42),
        free_disk_bytes=st.none() | st.integers(0, 1 << 42),
        load=st.none() | st.floats(0, 500),
        steal=st.none() | st.floats(0, 1),
        others=st.none() | st.floats(0, 192),
    ),
    "toolchain": st.builds(
        Toolchain,
        cxx=st.none() | st.just("/usr/bin/g++"),
        cxx_version=st.none() | st.just("g++ 12"),
        cxx_error=st.none() | st.just("no"),
        openmp_error=st.none() | st.just("no"),
        cc=st.none() | st.just("/usr/bin/gcc"),
        python_headers=st.none() | st.just("/usr/include"),
    ),
    "driver": st.builds(
        Driver,
        version=st.none() | st.just("550.1"),
        cuda=st.none() | st.sampled_from(["11.4", "13.0"]),
        error=st.none() | st.just("nvidia-smi says: no"),
        visible=st.none() | st.sampled_from(["", "-1", "0"]),
        declared=st.integers(0, 8),
        gpus=st.lists(GPUS, max_size=3).map(tuple),
    ),
    "torch": st.builds(
        Torch,
        version=st.none() | st.sampled_from(["1.13.1", "2.13.0+cpu", "2.13.0a0+git1"]),
        error=st.none() | st.just("ImportError: no"),
        cuda=st.none() | st.sampled_from(["11.7", "13.0"]),
        architectures=st.sampled_from([(), ("sm_80", "compute_90")]),
        available=st.booleans(),
        cuda_error=st.none() | st.just("no"),
        devices=st.lists(DEVICES, max_size=2).map(tuple),
        threads=st.none() | st.integers(1, 64),
        triton=st.none() | st.just("3.7.0"),
        triton_error=st.none() | st.just("ImportError: no"),
    ),
    "xla": st.none()
    | st.builds(
        Xla,
        version=st.sampled_from(["1.13.1", "2.9.0"]),
        error=st.none() | st.just("no"),
        configured=st.booleans(),
    ),
}


@pytest.mark.slow
@given(
    st.builds(
        Facts,
        **NONE_OR,
        packages=st.just({}),
        neuron_devices=st.integers(0, 2),
        timings=st.just(()),
        instance_type=st.none(),
        image=st.none(),
    )
)
def test_whatever_is_found_each_lack_comes_with_an_instruction(facts: Facts) -> None:
    found = examination_of(facts)
    for finding in found.compilers:
        assert (finding.runs_on is None) == bool(finding.lacks)
        assert len(set(finding.lacks)) == len(finding.lacks)
    for what, do in (*(each for one in found.compilers for each in one.lacks), *found.remarks):
        assert what
        assert not what.endswith(".")
        assert do[0].isupper()
        assert do.endswith(".")
    assert max(map(len, text_of(found).splitlines())) <= 100
    json.dumps(found.document, allow_nan=False)
