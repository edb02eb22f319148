"""Whether a backend's compiled dropout draws eager's random numbers, found out by trying it."""

from __future__ import annotations

import copy
from typing import Any, Callable

import torch

from compilegate.job.machine.generators import preserved_generators

_ELEMENTS = 512
_SEEDS = (7, 8, 9)


def draws_as_eager(backend: Callable[..., Any], device: torch.device) -> bool:
    """Compile two dropouts and compare what they drop with eager's, from one seed. What they make
    of the rest is parity's to judge.

    Three times: CUDA graphs are replayed from the third call on. False also where the backend fails
    at it. Generators and dynamo's counters are as they were afterwards.
    """
    from torch._dynamo.utils import counters  # noqa: PLC0415 - seconds of import

    def dropped(values: torch.Tensor) -> torch.Tensor:
        once = torch.nn.functional.dropout(values, 0.5)
        twice = torch.nn.functional.dropout(once + values, 0.25)
        return torch.stack([once, twice])

    counted = copy.deepcopy(dict(counters))
    values = torch.ones(_ELEMENTS, device=device)
    try:
        compiled = torch.compile(dropped, backend=backend)
        with torch.no_grad(), preserved_generators():
            eager = [_seeded(dropped, values, seed) for seed in _SEEDS]
            return all(
                torch.equal(wanted == 0, _seeded(compiled, values, seed) == 0)
                for wanted, seed in zip(eager, _SEEDS)
            )
    except Exception:  # noqa: BLE001 - a backend may raise anything
        return False
    finally:
        counters.clear()
        counters.update(counted)


def _seeded(function: Callable[..., Any], values: torch.Tensor, seed: int) -> torch.Tensor:
    torch.default_generator.manual_seed(seed)
    if values.is_cuda:
        torch.cuda.manual_seed(seed)
    result: torch.Tensor = function(values)
    return result.clone()  # the next replay of a CUDA graph overwrites it
