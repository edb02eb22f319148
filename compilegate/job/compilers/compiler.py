"""The interface of a compiler, eager training, and a way to watch captured graphs as they run.
Needs neither torch nor NumPy until something runs."""

from __future__ import annotations

import contextlib
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Iterable, Iterator, Tuple

if TYPE_CHECKING:
    import torch

    from compilegate.job.cache import CacheFolder, Lookups
    from compilegate.job.compilers.declaration import Settings
    from compilegate.job.evidence import CompilerRecord
    from compilegate.job.machine.world import World

Forward = Callable[..., Any]


class Compiler:
    """A compiler whose steps run on torch's own devices, operation by operation, unless a subclass
    says otherwise."""

    name = ""  # as declared
    compiles_whole_steps = False  # a graph includes the update: gradients alone are another

    def __init__(self, settings: Settings = MappingProxyType({})) -> None:
        self._settings = settings

    # Known after `compile`.

    @property
    def shares_random_numbers(self) -> bool:
        """Whether a compiled step draws the same random numbers as an eager one from that seed."""
        return True

    @property
    def overwrites_gradients(self) -> bool:
        """Whether a step's gradients lie where the next call's will, as those of CUDA graphs do:
        accumulated or kept there, they are silently wrong."""
        return False

    @property
    def left_to_eager(self) -> str | None:
        """Which compiled functions run in eager mode, and why; None where none does."""
        return None

    def world(self, launched: World) -> World:
        """The processes that train together. Raises CompilerError when they are not those that were
        launched."""
        return launched

    def device(self, host: torch.device) -> torch.device:
        """The device on which the steps of a model from `host` compute."""
        return host

    def hardware(self) -> str | None:
        """What that device is in XLA's words; None where it is torch's own."""
        return None

    def peak_memory(self, device: torch.device) -> tuple[int | None, str | None]:
        """The most bytes that the training held, and whose (one of MEMORY_OF); None: not known."""
        from compilegate.job.machine.memory import peak_memory  # noqa: PLC0415

        return peak_memory(device)

    def forget_peak_memory(self, device: torch.device) -> bool:
        """Have the peak count from here on; whether it does."""
        from compilegate.job.machine.memory import reset_peak_memory  # noqa: PLC0415

        return reset_peak_memory(device)

    def seed(self, seed: int, world: World) -> None:
        """Seed the device's own generator, if it has one beside torch's."""

    def batches(self, batches: Iterable[Any]) -> Iterable[Any]:
        """The batches; where steps are traced, on the device that computes them."""
        return batches

    def take_step(
        self, step: int, take: Callable[[], Any], update: Callable[[], Any] | None
    ) -> tuple[Any, Any]:
        """Take step `step` (from 0): `take` calls `backward` and returns the loss, `update` changes
        the weights. Returns what `take` did, and the mean loss of all processes where this averaged
        it."""
        result = take()
        if update is not None:
            update()
        return result, None

    def end_step(self) -> None:
        """Execute what a step has traced, if it traces."""

    def execute(self) -> None:
        """Execute what was traced so far, if it traces."""

    def cache_folder(self) -> CacheFolder | None:
        """An empty folder in which the compiler will keep its output, to be filled before
        `compile`; None when no other process could use that."""
        return None

    def cache_lookups(self) -> Lookups:
        """What the compiler found in that folder so far; only for one that has it."""
        raise NotImplementedError

    def compile(self, function: Forward, model: torch.nn.Module) -> Forward:
        """What to call instead of `function` in a training step, on the weights of `model`, which
        stays as it was. `function` is a forward pass or anything that computes with it. Raises
        CompilerError when the compiler is not available here."""
        return function

    def uncounted(self) -> ContextManager[None]:
        """What is called within, as by a probe, is not counted as the training's."""
        return contextlib.nullcontext()

    def graphs(self) -> int:
        """How many graphs were compiled so far. Called after every step, so it must be cheap."""
        raise NotImplementedError

    def record(self, compile_seconds: float, recompilations: int) -> CompilerRecord:
        """What the compiler did, with the proof."""
        raise NotImplementedError


class Eager(Compiler):
    """Training without a compiler. Its proof is that no graph was compiled in this process."""

    name = "eager"

    def graphs(self) -> int:
        # Looked up, never imported: beside some old releases torch._dynamo fails to import, and
        # nobody can have compiled with it while it is not loaded.
        dynamo = sys.modules.get("torch._dynamo.utils")
        return 0 if dynamo is None else int(dynamo.counters["stats"].get("unique_graphs", 0))

    def record(self, compile_seconds: float, recompilations: int) -> CompilerRecord:
        """`ran` is False, as it should be, unless graphs were compiled after all."""
        import torch  # noqa: PLC0415

        from compilegate.job.evidence import CompilerRecord  # noqa: PLC0415

        graphs = self.graphs()
        return CompilerRecord(
            name=self.name,
            ran=graphs > 0,
            proof={
                "torch": str(torch.__version__),
                "dynamo_loaded": "torch._dynamo.utils" in sys.modules,
                "graphs_compiled": graphs,
            },
            compile_seconds=compile_seconds if graphs else 0.0,
            graphs=graphs,
            recompilations=recompilations,
        )


Watch = Callable[[Any, Forward, Tuple[Any, ...]], Any]
"""Takes a graph as torch.compile captured it, its compiled form and a call's arguments; returns the
call's result."""

_watches: list[Watch] = []


def watched(graph: Any, run: Forward) -> Forward:
    """What was compiled of the graph, so that its calls can be watched."""

    def call(*arguments: Any) -> Any:
        return _watches[-1](graph, run, arguments) if _watches else run(*arguments)

    return call


@contextlib.contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Send calls of graphs to `watch` instead of to their compiled form."""
    _watches.append(watch)
    try:
        yield
    finally:
        _watches.pop()
