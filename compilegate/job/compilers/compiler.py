"""What a training loop needs of a compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Optional, Protocol

if TYPE_CHECKING:
    import torch

    from compilegate.job.cache import CacheFolder, Lookups
    from compilegate.job.evidence import CompilerRecord
    from compilegate.job.machine.world import World
    from compilegate.job.steps.step import Batch, StepParts, TakeStep


class Compiler(Protocol):
    """What the training loop needs of a compiler."""

    shares_random_numbers: bool
    """Whether a compiled step draws the same random numbers as an eager one with that seed."""
    compiles_whole_steps: bool
    """Whether a graph includes the update, so that gradients alone are another graph."""

    def world(self, launched: World) -> World:
        """The processes that train together, given those that a launcher started.

        Raises CompilerError when the compiler's own processes are others.
        """

    def device(self, host: torch.device) -> torch.device:
        """The device on which the steps of a model from `host` compute."""

    def seed(self, seed: int, world: World) -> None:
        """Seed the generators of a step, beyond what every process was seeded with."""

    def batches(self, batches: Iterator[Batch]) -> Iterable[Batch]:
        """The batches, moved to the device on which the steps compute."""

    def stepping(self, parts: StepParts, world: World) -> TakeStep:
        """The object that takes the steps of a run."""

    def cache_folder(self) -> Optional[CacheFolder]:
        """An empty folder in which this compiler will keep what it compiles, to be filled first.

        None when it keeps nothing that another process could use. Asked before `compile`, and only
        where a compile cache is declared.
        """

    def cache_lookups(self) -> Lookups:
        """What the compiler found in that folder so far."""

    def compile(self, model: Any) -> Callable[..., Any]:
        """The function to call for a training step's forward pass, on the model's own weights.

        The model itself stays as it was: it is what evaluation calls and what is saved. Raises
        CompilerError when the compiler is not available here.
        """

    def graphs(self) -> int:
        """How many graphs were compiled so far. Called after every step, so it must be cheap."""

    def record(self, compile_seconds: float, recompilations: int) -> CompilerRecord:
        """What the compiler did, with the proof."""
