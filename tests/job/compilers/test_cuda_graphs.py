"""What CUDA graphs do not put up with, and what a GPU's fused attention draws, as far as a machine
without a GPU can show it: devices are described, and nothing computes on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from compilegate.job import CompilerError, Job, Told
from compilegate.job.compilers import load_compiler

GPU = torch.device("cuda", 0)


def on_gpu(name: str, **options: Any) -> Any:
    """A compiler that was given a model on a GPU."""
    compiler: Any = load_compiler(name, options)
    compiler._device = GPU
    return compiler


@pytest.mark.parametrize(
    ("name", "options", "overwrites"),
    [
        ("eager", {}, False),
        ("inductor", {}, False),
        ("inductor", {"compile_mode": "max-autotune-no-cudagraphs"}, False),
        ("inductor", {"compile_mode": "reduce-overhead"}, True),
        ("inductor", {"compile_mode": "max-autotune"}, True),
        ("torch-compile", {"backend": "aot_eager"}, False),
        ("torch-compile", {"backend": "cudagraphs"}, True),
        ("torch-compile", {"backend_options": '{"triton.cudagraphs":true}'}, True),
    ],
)
def test_whatever_records_cuda_graphs_overwrites_gradients_on_a_gpu_alone(
    name: str, options: dict[str, Any], overwrites: bool
) -> None:
    assert on_gpu(name, **options).overwrites_gradients is overwrites
    assert not load_compiler(name, options).overwrites_gradients  # on a CPU


def recording_job(folder: Path) -> tuple[Job, torch.nn.Linear]:
    options = {"compile_mode": "reduce-overhead"}
    told = Told(
        job="a-job",
        arm="candidate",
        model=folder / "model",
        output=folder,
        compiler="inductor",
        options=options,
        batch_size=4,
    )
    job = Job(told)
    model = job.compile(torch.nn.Linear(3, 2))
    job._compiling().compiler._device = GPU  # pyrefly: ignore[missing-attribute]
    return job, model


def loss_of(model: torch.nn.Linear) -> torch.Tensor:
    """Computed beside the compiled forward pass, which this machine cannot record."""
    return torch.nn.functional.linear(torch.ones(4, 3), model.weight, model.bias).square().mean()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("to_none", "backward_passes", "refused"),
    [(True, 1, False), (True, 2, True), (False, 1, True)],
    ids=["fresh", "added up", "set to zero"],
)
def test_gradients_that_stay_in_recorded_memory_are_refused(
    to_none: bool, backward_passes: int, refused: bool, tmp_path: Path
) -> None:
    job, model = recording_job(tmp_path)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(6):
            with job.step():
                optimizer.zero_grad(set_to_none=to_none)
                for _ in range(backward_passes):
                    loss_of(model).backward()
                optimizer.step()

    if refused:
        with pytest.raises(CompilerError, match="weight of Linear holds a gradient when"):
            train()
    else:
        train()
        assert job.steps_taken == 6


def test_a_gpus_fused_attention_shares_no_random_numbers() -> None:
    before = dict(counters["inductor"])
    try:
        counters["inductor"]["fuse_attention"] = 0
        assert on_gpu("inductor").shares_random_numbers
        counters["inductor"]["fuse_attention"] = 2
        assert not on_gpu("inductor").shares_random_numbers
        assert load_compiler("inductor").shares_random_numbers  # on a CPU it drops as eager does
    finally:
        counters["inductor"].clear()
        counters["inductor"].update(before)
