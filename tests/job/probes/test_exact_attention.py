"""Attention that drops, in the parity probe's reference, where it is one kernel: a GPU's.

The meta device stands for it: it takes the same calls, and shows their types.
"""

from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as attention
from torch.overrides import TorchFunctionMode

from compilegate.job.probes.reference import attended, exactly


class Types(TorchFunctionMode):
    """Notes what attention is given in the end: the calls that no other mode has taken."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[torch.dtype] = set()

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        if function is attention:
            self.seen |= {
                each.dtype for each in (*args, *named.values()) if isinstance(each, torch.Tensor)
            }
        return function(*args, **named)


def heads(device: str) -> torch.Tensor:
    return torch.ones(2, 3, 8, 4, device=device, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("by_place", [True, False])
def test_it_is_computed_as_eager_computes_it_and_gradients_flow(by_place: bool) -> None:
    query = heads("meta")
    mask = torch.zeros(8, 8, device="meta", dtype=torch.float64)
    with Types() as types, exactly((), torch.float32, torch.bfloat16):
        found = (
            attention(query, query, query, mask, 0.1)
            if by_place
            else attention(query, query, query, attn_mask=mask, dropout_p=0.1)
        )
        assert found.dtype is torch.float64
        found.sum().backward()
    assert types.seen == {torch.bfloat16}
    assert query.grad is not None
    assert query.grad.dtype is torch.float64


def test_without_autocast_it_is_in_the_models_own_precision() -> None:
    query = heads("meta")
    with Types() as types, exactly():
        assert attention(query, query, query, dropout_p=0.1).dtype is torch.float64
    assert types.seen == {torch.float32}


@pytest.mark.parametrize(("device", "share"), [("meta", 0.0), ("cpu", 0.0), ("cpu", 0.1)])
def test_what_drops_nothing_or_is_on_a_cpu_stays_exact(device: str, share: float) -> None:
    query = heads(device)
    with Types() as types, exactly((), torch.float32, torch.bfloat16):
        assert attention(query, query, query, dropout_p=share).dtype is torch.float64
    assert types.seen == {torch.float64}


def test_a_mask_of_the_least_float64_leaves_no_row_without_a_number() -> None:
    """On the CPU's own kernel, by the very function that lowers the arguments."""
    query = torch.rand(1, 1, 4, 4, dtype=torch.float64)
    least = torch.full((4, 4), torch.finfo(torch.float64).min, dtype=torch.float64)
    found = attended((query, query, query), {"attn_mask": least}, torch.float32)
    assert torch.isfinite(found).all()
    some = least.where(torch.eye(4) == 0, 0.0)
    assert torch.allclose(attended((query, query, query, some), {}, torch.float32), query)
