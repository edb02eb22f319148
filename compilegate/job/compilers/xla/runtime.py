"""torch_xla under one set of names, from release 1.13 to 2.9, and its settings."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import tempfile
from typing import Any, Callable, ContextManager, Dict, Iterable, List, Mapping, MutableMapping

import torch

from compilegate.job.errors import CompilerError, first_line
from compilegate.job.files import remove_at_end
from compilegate.job.machine.accelerators import name_gpus
from compilegate.job.machine.world import World
from compilegate.job.names import XLA_DEVICE_VARIABLE

Trace = Callable[..., None]

DEBUG_FILE_VARIABLE = "PT_XLA_DEBUG_FILE"


def start(environment: MutableMapping[str, str], *, without_device: str) -> str:
    """Set torch_xla up, import it, and return its version.

    Raises CompilerError where there is none, none that fits this torch, or no device for it;
    `without_device` says what to do about the last.
    """
    try:
        version = importlib.metadata.version("torch_xla")
    except importlib.metadata.PackageNotFoundError as error:
        raise CompilerError(
            "xla needs the package torch_xla, and this environment has none; run the arm in the "
            "image 'xla'"
        ) from error
    _configure(environment, version)
    try:
        importlib.import_module("torch_xla")
    except (ImportError, OSError) as error:
        raise CompilerError(
            f"torch_xla {version} cannot be loaded beside torch {torch.__version__} "
            f"({first_line(error)}); the two are released in pairs"
        ) from error
    try:
        device()
    except (ImportError, OSError, RuntimeError) as error:  # a device may come as a plugin
        asked = environment.get(XLA_DEVICE_VARIABLE)
        raise CompilerError(
            f"torch_xla {version} opens no XLA device{f', asked for {asked}' if asked else ''} "
            f"({first_line(error)}); {without_device}"
        ) from error
    return version


def _configure(environment: MutableMapping[str, str], version: str) -> None:
    """It reads its settings when it is imported, or at its first use."""
    if version.startswith("1."):
        name_gpus(environment)  # AWS's image sets the rest
        return
    environment.setdefault(XLA_DEVICE_VARIABLE, "CPU")
    if DEBUG_FILE_VARIABLE not in environment and "PT_XLA_DEBUG_LEVEL" not in environment:
        descriptor, path = tempfile.mkstemp(prefix="xla-compilations-")
        os.close(descriptor)
        remove_at_end(path)
        # Level 1 says why a graph is compiled. It costs nothing where none is.
        environment.update({"PT_XLA_DEBUG_LEVEL": "1", DEBUG_FILE_VARIABLE: path})


def device() -> torch.device:
    """This process's XLA device."""
    torch_xla = _module("torch_xla")
    found: torch.device = torch_xla.device() if hasattr(torch_xla, "device") else _xm().xla_device()
    return found


def hardware() -> str:
    """What the device is: CPU, GPU, CUDA, NEURON, TPU."""
    return str(_xm().xla_device_hw(device()))


def world() -> World:
    """The processes that torch_xla itself knows of."""
    xm = _xm()
    if hasattr(xm, "xrt_world_size"):
        return World(int(xm.xrt_world_size()), int(xm.get_ordinal()), int(xm.get_local_ordinal()))
    runtime = _module("torch_xla.runtime")
    return World(
        int(runtime.world_size()), int(runtime.global_ordinal()), int(runtime.local_ordinal())
    )


def seed(number: int) -> None:
    """Seed the device's generator, from which traced dropout draws."""
    _xm().set_rng_state(number)


def device_batches(batches: Iterable[Any]) -> Iterable[Any]:
    """The batches on the device: a thread of torch_xla's copies them there ahead of their step."""
    loaded: Iterable[Any] = _module("torch_xla.distributed.parallel_loader").MpDeviceLoader(
        batches, device()
    )
    return loaded


def compiled(trace: Trace, name: str, most_graphs: int) -> Trace:
    """`trace`, run as one graph.

    From 2.x on torch_xla refuses a graph too many before it compiles it, and whatever would cut the
    step in two; before, there is only the end of the step.
    """
    torch_xla = _module("torch_xla")
    if hasattr(torch_xla, "compile"):
        # It counts traces. The first lists the same operations in another order than the others,
        # and is the same graph when compiled.
        whole: Trace = torch_xla.compile(
            trace, full_graph=True, name=name, max_different_graphs=most_graphs + 1
        )
        return whole

    def traced(*arguments: Any) -> None:
        trace(*arguments)
        sync()

    return traced


def sync() -> None:
    """Execute what was traced, then run the step closures. `mark_step`, before it was renamed."""
    torch_xla = _module("torch_xla")
    if hasattr(torch_xla, "sync"):
        torch_xla.sync()
    else:
        _xm().mark_step()


def reduce_gradients(parameters: Iterable[torch.nn.Parameter], processes: int) -> None:
    """Average the gradients of all processes, within the graph.

    It is the first half of `xm.optimizer_step`. The second is the optimizer's own step, and between
    the two gradients are unscaled and clipped.
    """
    xm = _xm()
    gradients = [each.grad for each in parameters if each.grad is not None]
    xm.all_reduce(xm.REDUCE_SUM, gradients, scale=1.0 / processes)


def mean(value: torch.Tensor, processes: int) -> torch.Tensor:
    """The mean of a value over all processes, within the graph."""
    xm = _xm()
    reduced: torch.Tensor = xm.all_reduce(xm.REDUCE_SUM, value, scale=1.0 / processes)
    return reduced


def adamw(groups: List[Dict[str, Any]], learning_rate: float) -> torch.optim.Optimizer:
    """AdamW that leaves out an update which overflowed without asking the host, and counts its
    steps on the device where it can.

    Of a count on the host each step has other bias corrections, as numbers. Where one of them
    happens to equal another number of the step, the two are one input: another graph.
    """
    try:
        kind: Any = _module("torch_xla.amp.syncfree").AdamW
    except (ImportError, AttributeError):
        kind = torch.optim.AdamW
    # torch before 2.x counts on CUDA devices only.
    capturable = hasattr(_module("torch_xla"), "sync")
    optimizer: torch.optim.Optimizer = kind(groups, lr=learning_rate, capturable=capturable)
    return optimizer


def autocast(dtype: torch.dtype) -> ContextManager[Any]:
    """The context in which the device computes in 16 bits what bears it."""
    if hasattr(_module("torch_xla"), "sync"):
        return torch.autocast("xla", dtype=dtype)
    context: ContextManager[Any] = _module("torch_xla.amp").autocast(dtype=dtype)
    return context


def grad_scaler() -> Any:
    """What scales the loss of fp16 on an XLA device; it is gone from 2.x, with its GPUs.

    Raises CompilerError there.
    """
    scaler = getattr(_module("torch_xla.amp"), "GradScaler", None)
    if scaler is None:
        raise CompilerError(
            "precision fp16 needs the gradient scaler that torch_xla had for GPUs until 2.x; take "
            "bf16, or fp32"
        )
    return scaler()


def memory_info() -> Mapping[str, int]:
    """What the device's client knows of its memory: `bytes_used`, and since 2.6 `peak_bytes_used`
    where it counts it; before 2.x `kb_free` and `kb_total`. Empty where it knows nothing."""
    try:
        info: Mapping[str, int] = _xm().get_memory_info(device())
    except RuntimeError:  # clients need not have it
        return {}
    return info


def metric(name: str) -> Any:
    """(samples, their sum, the last ones) of one of torch_xla's metrics; None before the first."""
    return _module("torch_xla.debug.metrics").metric_data(name)


def counter(name: str) -> int:
    """One of torch_xla's counters."""
    return int(_module("torch_xla.debug.metrics").counter_value(name) or 0)


def _xm() -> Any:
    return _module("torch_xla.core.xla_model")


def _module(name: str) -> Any:
    return importlib.import_module(name)
