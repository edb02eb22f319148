"""A preserved state comes back bit for bit and object for object, whatever was done to it."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from compilegate.job.probes.capture import NoRoomError
from compilegate.job.probes.state import PreservedState
from tests.job.probes.scenes import bits

NUMBERS = st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf"), 1e-42])
TENSORS = st.lists(NUMBERS, min_size=1, max_size=3).map(torch.tensor)
STATES = st.recursive(
    st.one_of(TENSORS, st.integers(), st.none(), st.text(max_size=2)),
    lambda inner: st.one_of(
        *(st.lists(inner, max_size=3).map(kind) for kind in (list, tuple, deque)),
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


@pytest.mark.slow
@given(state=STATES)
@settings(max_examples=40)
def test_any_nest_of_containers_comes_back(state: Any) -> None:
    module = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    optimizer.state[module.weight] = {"own": state}
    module.extra = state

    def all_of_it() -> Any:
        return described(vars(optimizer)["state"]), described(module.extra)

    before = all_of_it()
    with PreservedState([module], [optimizer]) as preserved:
        for _ in range(2):
            disturb(optimizer.state)
            disturb(vars(module)["extra"])
            module.extra = None
            preserved.restore()
            assert all_of_it() == before
            disturb(optimizer.state)
    assert all_of_it() == before


def test_an_error_inside_leaves_everything_as_it_was() -> None:
    module = nn.BatchNorm1d(2)
    module.places = torch.zeros(1).expand(4)  # nobody can write into it
    module.drawing = np.random.default_rng(1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    optimizer.register_step_pre_hook(lambda *_: None)
    module.weight.grad = gradient = torch.full((2,), float("nan"))
    hooks = vars(optimizer)["_optimizer_step_pre_hooks"]

    def state() -> Any:
        own = [(name, bits(each)) for name, each in module.state_dict().items()]
        drawn = [str(module.drawing.bit_generator.state), bits(torch.get_rng_state())]
        return own, drawn, dict(hooks), module.training, id(module.weight.grad), module.bias.grad

    before = state()

    def interrupted() -> None:
        with PreservedState([module], [optimizer]):
            assert module.weight.grad is None
            module(torch.ones(3, 2)).sum().backward()
            module.running_mean = torch.ones(2)
            module.drawing.random()
            torch.rand(3)
            module.eval()
            assert not hooks
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert state() == before
    assert gradient.isnan().all()


def test_what_cannot_be_kept_is_refused_and_leaves_the_hooks_where_they_were(
    tmp_path: Path,
) -> None:
    """The system would end the process, and what it trained were lost."""
    large = nn.Module()
    terabyte = torch.from_file(str(tmp_path / "large"), shared=True, size=1 << 38)
    large.register_buffer("large", terabyte)
    optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
    optimizer.register_step_pre_hook(lambda *_: None)
    with pytest.raises(NoRoomError, match=r"1099\.5 GB"), PreservedState([large], [optimizer]):
        raise AssertionError("it was kept")
    with (
        pytest.raises(RuntimeError, match="uninit"),
        PreservedState([nn.LazyLinear(3)], [optimizer]),
    ):
        raise AssertionError("it was kept")
    assert len(vars(optimizer)["_optimizer_step_pre_hooks"]) == 1
