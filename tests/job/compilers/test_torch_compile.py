"""How torch.compile is set: the block that repeats, shapes that change, modes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from compilegate.job.compilers.torch_compile.regions import CompiledRegions, repeated_blocks
from compilegate.job.errors import CompilerError

ROOT = Path(__file__).resolve().parents[3]
TrainJob = Callable[..., Any]

SHAPES = """
import json, torch
from compilegate.job import CompilerError
from compilegate.job.compilers import load_compiler

def graphs(dynamic):
    compiler = load_compiler("inductor", {"dynamic_shapes": dynamic})
    model = torch.nn.Linear(4, 4)
    forward = compiler.compile(model, model)
    try:
        for rows in (2, 3, 5, 7):
            forward(torch.ones(rows, 4))
    except CompilerError as error:
        return str(error)
    return compiler.graphs()

import torch._dynamo.config
torch._dynamo.config.recompile_limit = 2
stopped = graphs(False)
torch._dynamo.reset()
print(json.dumps([stopped, graphs(True)]))
"""


class Block(torch.nn.Module):
    """A layer with a skip connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values + torch.relu(self.linear(values))


class Stack(torch.nn.Module):
    """Equal blocks, and a short list of something else."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = torch.nn.ModuleList([torch.nn.Linear(4, 1)])
        self.blocks = torch.nn.ModuleList([Block(4) for _ in range(3)])

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            values = block(values)
        return self.heads[0](values)


def test_the_largest_list_of_equal_modules_is_the_repeated_block() -> None:
    stack = Stack()
    assert repeated_blocks(stack) == list(stack.blocks)


def test_a_model_that_repeats_nothing_is_refused() -> None:
    with pytest.raises(CompilerError, match="Linear has no list of modules of one class"):
        repeated_blocks(torch.nn.Linear(2, 2))


def test_blocks_are_compiled_during_a_call_and_themselves_again_after_it() -> None:
    stack, called = Stack(), []

    def compile_block(forward: Callable[..., Any]) -> Callable[..., Any]:
        return lambda values: called.append(forward.__self__) or forward(values)

    compiled = CompiledRegions(stack, stack, compile_block)
    values = torch.ones(2, 4)
    torch.testing.assert_close(compiled(values), stack(values))
    assert called == list(stack.blocks)


def test_regions_are_compiled_in_a_model_whose_forward_and_blocks_were_replaced() -> None:
    """As a job replaces the one, and libraries that hook into layers the others."""
    stack, called = Stack(), []
    original, hooked = stack.forward, stack.blocks[1].forward
    stack.blocks[1].forward = lambda values: hooked(values) + 1
    wanted = original(torch.ones(2, 4))

    def compile_block(forward: Callable[..., Any]) -> Callable[..., Any]:
        return lambda values: called.append(1) or forward(values)

    compiled = CompiledRegions(original, stack, compile_block)
    stack.forward = compiled
    own = stack.blocks[1].forward
    torch.testing.assert_close(stack(torch.ones(2, 4)), wanted)
    assert len(called) == 3
    assert stack.blocks[1].forward is own
    assert "forward" not in vars(stack.blocks[0])


def test_a_block_that_is_used_twice_is_itself_again_afterwards() -> None:
    block = Block(4)
    stack = torch.nn.Sequential(block, block)
    CompiledRegions(stack.forward, stack, lambda forward: forward)(torch.ones(2, 4))
    assert "forward" not in vars(block)


@pytest.mark.long
@pytest.mark.slow
def test_a_shape_too_many_stops_the_job_with_the_guard_that_failed() -> None:
    result = subprocess.run(
        [sys.executable, "-c", SHAPES], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    stopped, dynamic = json.loads(result.stdout)
    assert stopped.startswith("inductor would have to compile one function again, and more often")
    assert "size mismatch at index 0. expected 3, actual 5" in stopped
    assert dynamic == 1
