"""Why a captured step cannot be taken again or compared, and the checks that find it out."""

from __future__ import annotations

import contextlib
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional, Set, Tuple, TypeVar

import torch

from compilegate.job.errors import CompilegateError, one_sentence

if TYPE_CHECKING:
    from compilegate.job.compilers import Compiler

_Found = TypeVar("_Found")


class ObstacleError(CompilegateError):
    """Why a probe has nothing to compare, in one sentence."""


class NoRoomError(ObstacleError):
    """What a probe needs does not fit the memory that is free; the message has the figures."""


def attempted(measure: Callable[[], _Found]) -> Tuple[Optional[_Found], Optional[str]]:
    """What was measured, or why it could not be.

    This is the one place where exceptions of the probes end: they come from any kernel of any
    library, and no training must be lost to a measurement.
    """
    try:
        return measure(), None
    except ObstacleError as error:
        return None, str(error)
    except Exception as error:  # noqa: BLE001 - see above
        traceback.print_exc()
        return None, f"the probe broke off: {one_sentence(error)}"


@contextlib.contextmanager
def no_new_graphs(compiler: Compiler) -> Iterator[None]:
    """Raise ObstacleError for graphs that are compiled within, so that other code was looked at
    than what trained; of whole steps they have to be."""
    graphs = compiler.graphs()
    yield
    if compiler.graphs() != graphs and not compiler.compiles_whole_steps:
        raise ObstacleError("the probe made the compiler compile anew, so it looked at other code")


def require_whole(module: torch.nn.Module) -> None:
    """Raises ObstacleError for parameters that are sharded, or lie on several devices."""
    for each in [*module.modules(), *module.parameters()]:
        kind = type(each).__name__
        # DeepSpeed's parameters are torch's own, which it empties; the others have their classes.
        if kind == "DTensor" or "FullySharded" in kind or hasattr(each, "ds_id"):
            raise ObstacleError(
                "parameters are sharded: each process has a part of them, and the probe needs them "
                "whole; probe the model in one process, or with DistributedDataParallel"
            )
    places = {str(each.device) for each in module.parameters()}
    if len(places) > 1:
        raise ObstacleError(
            f"the parameters lie on several devices ({', '.join(sorted(places))}), and the probe "
            "needs them on one"
        )


@contextlib.contextmanager
def no_collectives() -> Iterator[None]:
    """Raise ObstacleError for code that waits for other processes: they may not be here."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        yield
        return
    from torch.utils._python_dispatch import TorchDispatchMode  # noqa: PLC0415

    class Alone(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if "c10d" in getattr(func, "namespace", ""):
                raise ObstacleError(
                    "the model waits for other processes within its forward or backward pass "
                    f"({func}), and the probe runs in each one by itself"
                )
            return func(*args, **(kwargs or {}))

    with Alone():
        yield


@contextlib.contextmanager
def bounded(most_bytes: int, what: str) -> Iterator[None]:
    """Raise NoRoomError when a forward pass keeps more for its backward pass than is free."""
    storages: Set[int] = set()
    kept = 0

    def count(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        key = tensor.data_ptr() if tensor.layout is torch.strided else id(tensor)
        if key not in storages:
            storages.add(key)
            kept += tensor.numel() * tensor.element_size()
        if kept > most_bytes:
            raise NoRoomError(
                f"{what} is too small: float64 has to keep more than {megabytes(kept)} between its "
                f"forward and backward pass, and {megabytes(most_bytes)} are left for that"
            )
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        yield


def free_bytes(device: torch.device) -> int:
    """How much memory could be allocated on a device, or in the host; a large number where
    nothing says."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + int(unused)
    found = [_available(), _group_room()]
    return min((each for each in found if each is not None), default=1 << 62)


def _available() -> Optional[int]:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _group_room() -> Optional[int]:
    """What the container's limit leaves; None without a limit. Cached files give way."""
    for folder, limit, used, cached in (
        ("", "memory.max", "memory.current", "file"),
        ("memory/", "memory.limit_in_bytes", "memory.usage_in_bytes", "cache"),
    ):
        with contextlib.suppress(OSError, ValueError):
            most, now, kinds = (
                Path("/sys/fs/cgroup", folder, name).read_text(encoding="ascii")
                for name in (limit, used, "memory.stat")
            )
            files = next(line.split()[1] for line in kinds.splitlines() if line.startswith(cached))
            return max(int(most) - int(now) + int(files), 0)
    return None


def megabytes(count: int) -> str:
    """A size in words: 12 MB, 3.4 GB."""
    if count < 1e6:
        return f"{count / 1e3:.0f} kB"
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def place_name(device: torch.device) -> str:
    """What a device is called in a sentence."""
    return {"cuda": "GPU", "cpu": "host"}.get(device.type, device.type)
