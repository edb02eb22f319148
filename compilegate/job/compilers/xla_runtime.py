"""torch_xla under one set of names, from release 1.13 to 2.9, and its settings and counts."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from importlib import import_module, metadata
from types import ModuleType
from typing import Any, Callable, ContextManager, Iterable, MutableMapping

import torch

from compilegate.job.contract import XLA_DEVICE_VARIABLE
from compilegate.job.errors import CompilerError, first_line
from compilegate.job.machine.accelerators import name_gpus
from compilegate.job.machine.memory import OF_DEVICE, OF_PROCESS, process_peak
from compilegate.job.machine.world import World

Trace = Callable[..., None]


def start(environment: MutableMapping[str, str], *, without_device: str) -> str:
    """Set torch_xla up, import it, and return its version. Raises CompilerError where it or its
    device is missing; `without_device` says what to do then."""
    try:
        version = metadata.version("torch_xla")
    except metadata.PackageNotFoundError as error:
        raise CompilerError(
            "xla needs the package torch_xla, and this environment has none; run the arm in the "
            "image 'xla'"
        ) from error
    if version.startswith("1."):  # it reads its settings when it is imported
        name_gpus(environment)  # AWS's image sets the rest
    else:
        environment.setdefault(XLA_DEVICE_VARIABLE, "CPU")
    try:
        import_module("torch_xla")
    except (ImportError, OSError) as error:
        raise CompilerError(
            f"torch_xla {version} cannot be loaded beside torch {torch.__version__} "
            f"({first_line(error)}); the two are released in pairs"
        ) from error
    try:
        device()
    except (ImportError, OSError, RuntimeError) as error:  # a device may come as a plugin
        wanted = environment.get(XLA_DEVICE_VARIABLE)
        raise CompilerError(
            f"torch_xla {version} opens no XLA device{f', asked for {wanted}' if wanted else ''} "
            f"({first_line(error)}); {without_device}"
        ) from error
    return version


def device() -> torch.device:
    torch_xla = import_module("torch_xla")
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
    now = import_module("torch_xla.runtime")
    return World(int(now.world_size()), int(now.global_ordinal()), int(now.local_ordinal()))


def seed(number: int) -> None:
    _xm().set_rng_state(number)


def device_batches(batches: Iterable[Any]) -> Iterable[Any]:
    """The batches on the device: a thread of torch_xla's copies them there ahead of their step."""
    loading = import_module("torch_xla.distributed.parallel_loader")
    loaded: Iterable[Any] = loading.MpDeviceLoader(batches, device())
    return loaded


def compiled(trace: Trace, name: str, most_graphs: int) -> Trace:
    """`trace`, run as one graph. torch_xla 2 refuses a graph too many, and what would cut the step
    in two, before it compiles."""
    torch_xla = import_module("torch_xla")
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
    torch_xla = import_module("torch_xla")
    (torch_xla.sync if hasattr(torch_xla, "sync") else _xm().mark_step)()


def averaged(tensors: Any, processes: int) -> Any:
    """The mean of a tensor over all processes, within the graph; of each in a list, in place."""
    xm = _xm()
    return xm.all_reduce(xm.REDUCE_SUM, tensors, scale=1.0 / processes)


def adamw(groups: list[dict[str, Any]], learning_rate: float) -> torch.optim.Optimizer:
    """AdamW that skips an overflowed update without asking the host, and counts its steps on the
    device where it can: a number counted on the host that equals another of the step would be
    another graph."""
    try:
        kind: Any = import_module("torch_xla.amp.syncfree").AdamW
    except (ImportError, AttributeError):
        kind = torch.optim.AdamW
    # torch before 2.x counts on CUDA devices only.
    return kind(groups, lr=learning_rate, capturable=hasattr(import_module("torch_xla"), "sync"))


def autocast(dtype: torch.dtype) -> ContextManager[Any]:
    """The context in which the device computes in 16 bits what bears it."""
    if hasattr(import_module("torch_xla"), "sync"):
        return torch.autocast("xla", dtype=dtype)
    context: ContextManager[Any] = import_module("torch_xla.amp").autocast(dtype=dtype)
    return context


def grad_scaler() -> Any:
    """The loss scaler of fp16. Raises CompilerError from torch_xla 2 on, which has none."""
    scaler = getattr(import_module("torch_xla.amp"), "GradScaler", None)
    if scaler is None:
        raise CompilerError(
            "precision fp16 needs the gradient scaler that torch_xla had for GPUs until 2.x; take "
            "bf16, or fp32"
        )
    return scaler()


def peak_memory() -> tuple[int | None, str | None]:
    """The most bytes that the steps held, by the device's own count, and whose; None where it does
    not count. The host's would pass for a saving."""
    if hardware() == "CPU":
        return process_peak(), OF_PROCESS
    with contextlib.suppress(RuntimeError):  # clients need not count
        # torch_xla before 2.6 tells what is free by now, which says nothing of the most.
        peak = int(_xm().get_memory_info(device()).get("peak_bytes_used") or 0)
        if peak:
            return peak, OF_DEVICE
    return None, None


@dataclass(frozen=True)
class Compilations:
    graphs: int  # compiled because there was none like them
    reused: int  # executions of a graph that had been compiled
    seconds: float  # spent on compiling
    executions: int

    @classmethod
    def now(cls) -> Compilations:
        metrics = import_module("torch_xla.debug.metrics")
        # (samples, their sum, the last ones); None before the first
        compiling, executing = (metrics.metric_data(f"{of}Time") for of in ("Compile", "Execute"))
        return cls(
            graphs=int(metrics.counter_value("UncachedCompile") or 0),
            reused=int(metrics.counter_value("CachedCompile") or 0),
            seconds=round(compiling[1] / 1e9, 3) if compiling else 0.0,
            executions=int(executing[0]) if executing else 0,
        )


def _xm() -> ModuleType:
    return import_module("torch_xla.core.xla_model")
