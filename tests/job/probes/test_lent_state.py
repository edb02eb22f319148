"""A lent training state comes back bit for bit and object for object, whatever was done to it."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from compilegate.job.probes.obstacles import NoRoomError
from compilegate.job.probes.state import PreservedState
from tests.job.probes.scripts import bits

NUMBERS = st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf"), 1e-42])
TENSORS = st.lists(NUMBERS, min_size=1, max_size=3).map(torch.tensor)
STATES = st.recursive(
    st.one_of(TENSORS, st.integers(), st.none(), st.text(max_size=2)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=3).map(deque),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
    ),
    max_leaves=8,
)


def described(value: Any) -> Any:
    """What must be the same afterwards: objects, and what they hold."""
    if isinstance(value, torch.Tensor):
        return id(value), bits(value)
    if isinstance(value, dict):
        return id(value), [(key, described(each)) for key, each in value.items()]
    if isinstance(value, (list, tuple, deque)):
        return id(value), [described(each) for each in value]
    return value


def tensors_of(module: nn.Module) -> list[Any]:
    return [described(each) for each in module.state_dict(keep_vars=True).values()]


def disturb(value: Any) -> None:
    """Change every tensor and container in it, in place and by replacement."""
    if isinstance(value, torch.Tensor):
        value.data.fill_(7.0)
    elif isinstance(value, dict):
        for each in list(value.values()):
            disturb(each)
        for key in list(value)[::2]:
            value[key] = torch.ones(2)
        value["new"] = [1]
        if len(value) > 2:
            value.pop(next(iter(value)))
    elif isinstance(value, (list, tuple, deque)):
        for each in value:
            disturb(each)
        if not isinstance(value, tuple):
            value.append(torch.zeros(1))
            value.rotate(1) if isinstance(value, deque) else value.reverse()


def new_optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)


@pytest.mark.slow
@given(state=STATES)
@settings(max_examples=40)
def test_any_nest_of_containers_in_an_optimizer_comes_back(state: Any) -> None:
    optimizer = new_optimizer()
    first = optimizer.param_groups[0]["params"][0]
    optimizer.state[first] = {"own": state}
    optimizer.param_groups[0]["extra"] = state
    before = described(vars(optimizer)["state"]), described(optimizer.param_groups)
    with PreservedState([], [optimizer]):
        disturb(optimizer.state)
        disturb(optimizer.param_groups)
    assert (described(vars(optimizer)["state"]), described(optimizer.param_groups)) == before


def test_a_restored_state_can_be_disturbed_again() -> None:
    module = nn.BatchNorm1d(2)
    before = tensors_of(module)
    with PreservedState([module], []) as lent:
        for _ in range(3):
            disturb(list(module.buffers()))
            module.running_mean = torch.ones(2)
            lent.restore()
            assert tensors_of(module) == before
    assert tensors_of(module) == before


def test_a_buffer_whose_elements_are_one_place_in_memory_is_left_alone() -> None:
    """As expand makes them: nobody can write into such a tensor."""
    module = nn.Module()
    module.register_buffer("places", torch.zeros(1).expand(4))
    with PreservedState([module], []):
        pass
    assert module.places.stride() == (0,)


def test_gradients_are_set_aside_and_come_back_as_the_same_objects() -> None:
    module = nn.Linear(2, 2)
    module.weight.grad = gradient = torch.full((2, 2), float("nan"))
    with PreservedState([module], []):
        assert module.weight.grad is None
        module(torch.ones(1, 2)).sum().backward()
    assert module.weight.grad is gradient
    assert gradient.isnan().all()
    assert module.bias.grad is None


def test_an_error_inside_leaves_everything_as_it_was() -> None:
    module, optimizer = nn.Linear(2, 2), new_optimizer()
    optimizer.register_step_pre_hook(lambda *_: None)
    generator = torch.get_rng_state()
    before = tensors_of(module)
    hooks = vars(optimizer)["_optimizer_step_pre_hooks"]
    held = dict(hooks)

    def interrupted() -> None:
        with PreservedState([module], [optimizer]):
            disturb(list(module.parameters()).pop().data)
            torch.rand(3)
            module.eval()
            assert not hooks
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert tensors_of(module) == before
    assert dict(hooks) == held
    assert module.training
    assert torch.equal(torch.get_rng_state(), generator)


def test_a_model_that_does_not_fit_beside_itself_is_not_lent(tmp_path: Path) -> None:
    """The system would end the process, and what it trained were lost."""
    module = nn.Module()
    terabyte = torch.from_file(str(tmp_path / "large"), shared=True, size=1 << 38)
    module.register_buffer("large", terabyte)
    with pytest.raises(NoRoomError, match=r"takes 1099\.5 GB, and .* are free"), PreservedState([module], []):
        raise AssertionError("it was lent")


def test_what_cannot_be_copied_leaves_the_hooks_where_they_were() -> None:
    optimizer = new_optimizer()
    optimizer.register_step_pre_hook(lambda *_: None)
    lazy = nn.LazyLinear(3)
    with pytest.raises(RuntimeError, match="uninitialized"), PreservedState([lazy], [optimizer]):
        raise AssertionError("it was lent")
    assert len(vars(optimizer)["_optimizer_step_pre_hooks"]) == 1
