"""What follows from a machine's facts, for machines that are not here."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.job.compilers import declarations
from compilegate.job.compilers.declaration import usable
from compilegate.job.doctor.facts import (
    Driver,
    Facts,
    Gpu,
    Host,
    Toolchain,
    Torch,
    TorchDevice,
    Tried,
    Xla,
)
from compilegate.job.doctor.needs import NEEDS, examination_of
from compilegate.job.doctor.words import text_of

HOST = Host(
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
TOOLS = Toolchain("/usr/bin/g++", "g++ 12", None, "/usr/bin/gcc", "/usr/include/python3.11")
A10G = Gpu(index=0, name="NVIDIA A10G", total_bytes=23 << 30, used_bytes=0, capability="8.6")
SEEN = TorchDevice("NVIDIA A10G", "8.6", total_bytes=23 << 30, free_bytes=22 << 30)
CPU = Facts(
    host=HOST,
    toolchain=TOOLS,
    driver=Driver(),
    torch=Torch(version="2.13.0+cpu", threads=4),
    xla=None,
    packages={"torch": "2.13.0+cpu"},
    neuron_devices=0,
    instance_type=None,
    image=None,
)
GPU = replace(
    CPU,
    driver=Driver(version="580.65.06", declared=1, gpus=(A10G,)),
    torch=Torch(
        version="2.13.0+cu130",
        cuda="13.0",
        available=True,
        devices=(SEEN,),
        threads=4,
        triton="3.7.0",
    ),
)


def changed(facts: Facts, part: str, **changes: Any) -> Facts:
    return replace(facts, **{part: replace(getattr(facts, part), **changes)})


NO_CUDA = changed(GPU, "torch", available=False, devices=(), cuda_error="too old")


def runs(facts: Facts) -> dict[str, str | None]:
    return {each.label: each.runs_on for each in examination_of(facts).compilers}


def test_every_compiler_of_the_catalog_and_every_backend_is_judged_by_needs_that_exist() -> None:
    assert set(runs(CPU)) == {name for name in declarations() if name != "torch-compile"} | {
        f"torch-compile, {each.name}" for each in usable() if each.name != "inductor"
    }
    for each in declarations().values():
        assert set(each.needs) <= NEEDS.keys()
        assert "torch" in each.needs
    assert {need for each in usable() for need in each.needs} <= NEEDS.keys()


def test_a_machine_compiles_for_what_it_has() -> None:
    on_cpu, on_gpu = runs(CPU), runs(GPU)
    here = {"eager", "inductor", "torch-compile, aot_eager"}
    assert {name: where for name, where in on_cpu.items() if where} == dict.fromkeys(here, "cpu")
    assert {name: where for name, where in on_gpu.items() if where} == dict.fromkeys(
        {*here, "torch-compile, cudagraphs"}, "gpu"
    )
    for facts in (CPU, GPU):
        assert not examination_of(facts).remarks
    configured = replace(GPU, xla=Xla("1.13.1", configured=True))
    assert runs(configured)["training-compiler"] == "gpu"


@pytest.mark.parametrize(
    ("facts", "label", "lacking"),
    [
        (changed(CPU, "driver", declared=4), "eager", "2.13.0+cpu is a build without CUDA"),
        (NO_CUDA, "inductor", "CUDA 13.0 with driver 580.65.06 (too old)"),
        (changed(NO_CUDA, "driver", visible=""), "eager", "CUDA_VISIBLE_DEVICES is ''"),
        (changed(NO_CUDA, "driver", error="no answer"), "eager", "that answers (no answer)"),
        (
            changed(GPU, "torch", devices=(replace(SEEN, error="no kernel image"),)),
            "eager",
            "A10G that computes (no kernel image)",
        ),
        (
            changed(GPU, "torch", devices=(replace(SEEN, capability="6.1"),)),
            "inductor",
            "compute capability 6.1, needed is 7.0",
        ),
        (changed(GPU, "torch", triton=None), "inductor", "Triton"),
        (changed(GPU, "toolchain", cc=None, python_headers=None), "inductor", "a C compiler"),
        (changed(CPU, "toolchain", cxx=None), "inductor", "a C++ compiler"),
        (changed(CPU, "toolchain", cxx_error="no -lgomp"), "inductor", "g++ failed (no -lgomp)"),
        (changed(CPU, "toolchain", python_headers=None), "inductor", "python3.11-dev"),
        (replace(CPU, torch=Torch()), "training-compiler", "torch. Install"),
        (replace(CPU, torch=Torch(error="killed by SIGSEGV")), "eager", "(killed by SIGSEGV)"),
        (replace(CPU, variables={"TORCH_COMPILE_DISABLE": "1"}), "inductor", "Unset TORCH_COMP"),
        (changed(CPU, "torch", version="1.13.1"), "inductor", "torch.compile: this is torch 1"),
        (replace(CPU, xla=Xla("2.9.0", error="undefined symbol")), "xla", "Install torch 2.9,"),
        (replace(GPU, xla=Xla("1.13.1")), "training-compiler", "did not switch it on"),
        (CPU, "torch-compile, onnxrt", "onnxruntime-training"),
        (CPU, "neuron", "Trainium"),
    ],
)
def test_what_is_lacking_is_named_with_its_remedy(facts: Facts, label: str, lacking: str) -> None:
    found = next(each for each in examination_of(facts).compilers if each.label == label)
    assert found.runs_on is None
    assert any(lacking in f"{what}. {do}" for what, do in found.lacks), found.lacks


@pytest.mark.parametrize(
    ("facts", "remark"),
    [
        (changed(CPU, "host", steal=0.2), "the hypervisor gave 20%"),
        (changed(CPU, "host", others=2.0), "keep 2.0 of 4 cores busy"),
        (changed(CPU, "host", core_quota=1.5), "OMP_NUM_THREADS=1"),
        (changed(CPU, "host", shared_memory_bytes=64 << 20), "--shm-size=1g"),
        (changed(CPU, "host", free_memory_bytes=1 << 30), "1.0 GiB of memory"),
        (changed(CPU, "host", free_disk_bytes=1 << 30), "1.0 GiB of disk"),
        (changed(CPU, "torch", threads=8), "8 threads on 4 cores"),
        (changed(GPU, "driver", gpus=(replace(A10G, utilization=0.5),)), "busy 50%"),
        (changed(GPU, "driver", gpus=(replace(A10G, throttled_by=("heat",)),)), "back by heat"),
        (changed(GPU, "torch", devices=(replace(SEEN, capability="7.5"),)), "bf16"),
        (changed(GPU, "driver", gpus=(A10G, A10G)), "torch sees 1 of 2 GPUs"),
        (replace(GPU, variables={"NVIDIA_TF32_OVERRIDE": "1"}), "Unset NVIDIA_TF32_OVERRIDE."),
    ],
)
def test_what_disturbs_a_measurement_is_named_with_its_remedy(facts: Facts, remark: str) -> None:
    assert [remark in f"{what}. {do}" for what, do in examination_of(facts).remarks] == [True]


def test_a_trial_is_the_state_of_its_compiler() -> None:
    facts = replace(CPU, tried=(Tried("inductor", "cpu", 3.0, error="CompilerError: no"),))
    assert "inductor                    FAILED on the cpu: CompilerError: no" in text_of(
        examination_of(facts)
    )


SIZES = st.none() | st.integers(0, 1 << 42)
TEXTS = st.none() | st.just("RuntimeError: no")
GPUS = st.builds(
    Gpu,
    index=st.integers(0, 7),
    name=st.sampled_from(["NVIDIA A10G", "Tesla T4"]),
    total_bytes=SIZES,
    used_bytes=SIZES,
    utilization=st.none() | st.floats(0, 1),
    capability=st.none() | st.sampled_from(["7.0", "9.0"]),
    throttled_by=st.sampled_from([(), ("its power limit",)]),
)
DEVICES = st.builds(
    TorchDevice,
    name=st.just("NVIDIA A10G"),
    capability=st.sampled_from(["", "6.1", "8.6"]),
    error=TEXTS,
)
FACTS = st.builds(
    Facts,
    host=st.builds(
        Host,
        python=st.sampled_from(["3.8.20", "3.11.9"]),
        cpu=st.just("a processor"),
        cores=st.integers(1, 192),
        core_quota=st.none() | st.floats(0.1, 64),
        memory_bytes=SIZES,
        free_memory_bytes=SIZES,
        shared_memory_bytes=SIZES,
        free_disk_bytes=SIZES,
        load=st.none() | st.floats(0, 500),
        steal=st.none() | st.floats(0, 1),
        others=st.none() | st.floats(0, 192),
    ),
    toolchain=st.builds(Toolchain, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS),
    driver=st.builds(
        Driver,
        version=st.none() | st.just("550.1"),
        error=TEXTS,
        visible=st.none() | st.sampled_from(["", "-1", "0"]),
        declared=st.integers(0, 8),
        gpus=st.lists(GPUS, max_size=3).map(tuple),
    ),
    torch=st.builds(
        Torch,
        version=st.none() | st.sampled_from(["1.13.1", "2.13.0+cpu", "2.13.0a0+git1"]),
        error=TEXTS,
        cuda=st.none() | st.just("13.0"),
        available=st.booleans(),
        cuda_error=TEXTS,
        devices=st.lists(DEVICES, max_size=2).map(tuple),
        threads=st.none() | st.integers(1, 64),
        triton=st.none() | st.just("3.7.0"),
        triton_error=TEXTS,
    ),
    xla=st.none() | st.builds(Xla, st.sampled_from(["1.13.1", "2.9.0"]), TEXTS, st.booleans()),
    packages=st.just({}),
    neuron_devices=st.integers(0, 2),
    instance_type=st.none(),
    image=st.none(),
)


@pytest.mark.slow
@given(FACTS)
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
