"""What a training loop needs of a compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, ContextManager, Iterable, Optional, Protocol, Tuple

if TYPE_CHECKING:
    import torch

    from compilegate.job.cache import CacheFolder, Lookups
    from compilegate.job.evidence import CompilerRecord
    from compilegate.job.machine.world import World


class Compiler(Protocol):
    """What the training loop needs of a compiler."""

    compiles_whole_steps: bool
    """Whether a graph includes the update, so that gradients alone are another graph."""

    @property
    def shares_random_numbers(self) -> bool:
        """Whether a compiled step draws the same random numbers as an eager one with that seed.

        Asked after `compile`: it may have to be tried.
        """

    @property
    def overwrites_gradients(self) -> bool:
        """Whether a step's gradients lie where the next call's will, as those of CUDA graphs do:
        what is added to them, or kept from one step to the next, is wrong without a word. Asked
        after `compile`."""

    def world(self, launched: World) -> World:
        """The processes that train together, given those that a launcher started.

        Raises CompilerError when the compiler's own processes are others.
        """

    def device(self, host: torch.device) -> torch.device:
        """The device on which the steps of a model from `host` compute."""

    def hardware(self) -> Optional[str]:
        """What computes behind that device, in XLA's words; None where it is torch's own."""

    def peak_memory(self, device: torch.device) -> Tuple[Optional[int], Optional[str]]:
        """The most memory that the training held, in bytes, and whose it is: one of MEMORY_OF.
        None: nobody measured it."""

    def forget_peak_memory(self, device: torch.device) -> bool:
        """Have the peak count from here on; whether it does."""

    def seed(self, seed: int, world: World) -> None:
        """Seed the device's own generator, in an arm's job: that of a device which has one beside
        torch's. Without it the generator is as the script left it."""

    def batches(self, batches: Iterable[Any]) -> Iterable[Any]:
        """The batches; where steps are traced, on the device that computes them."""

    def take_step(
        self, step: int, take: Callable[[], Any], update: Optional[Callable[[], Any]]
    ) -> Tuple[Any, Any]:
        """Take the step of that number (from 0): call `take`, which calls `backward` and returns
        the loss, then `update`.

        Returns what `take` did, and the mean of all processes' losses where this averaged them.
        """

    def end_step(self) -> None:
        """End a training step: execute what it has traced, if it traces."""

    def cache_folder(self) -> Optional[CacheFolder]:
        """An empty folder in which this compiler will keep what it compiles, to be filled first.

        None when it keeps nothing that another process could use. Asked before `compile`, and only
        where a compile cache is declared.
        """

    def cache_lookups(self) -> Lookups:
        """What the compiler found in that folder so far."""

    def compile(self, function: Callable[..., Any], model: torch.nn.Module) -> Callable[..., Any]:
        """What to call instead of `function` in a training step, on the model's own weights.

        `function` is what gets compiled: a module's forward pass, or anything else that computes
        with it. `model` holds the parameters; it may call `function` by another name, and nothing
        here calls it. It stays as it was: it is what evaluation calls and what is saved. A job may
        compile several functions. Raises CompilerError when the compiler is not available here.
        """

    def aside(self) -> ContextManager[None]:
        """What is called within is no part of the training, such as a probe: the record's calls
        are without it."""

    def graphs(self) -> int:
        """How many graphs were compiled so far. Called after every step, so it must be cheap."""

    def record(self, compile_seconds: float, recompilations: int) -> CompilerRecord:
        """What the compiler did, with the proof."""
