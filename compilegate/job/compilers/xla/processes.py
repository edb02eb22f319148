"""Which processes train together on XLA devices, and where their gradients meet. Pure.

torch_xla averages gradients within a step's graph, over the processes that it knows of. On a CPU it
knows of this one only, whatever was launched: its collective operations do nothing then, and do not
say so. There the gradients of torchrun's processes meet in host memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from compilegate.job.errors import CompilerError
from compilegate.job.machine.world import World


@dataclass(frozen=True)
class Processes:
    """The processes that train together."""

    world: World
    through_host: bool
    """Whether torch_xla itself joins none of them."""

    @property
    def averaging(self) -> str:
        """Where gradients are averaged, in words for the evidence."""
        if self.world.alone:
            return "one process"
        if self.through_host:
            return "in host memory, by gloo, between two graphs of a step"
        return "within the graph of a step, by torch_xla"


def joined_processes(launched: World, known: World, hardware: str, *, machines: int) -> Processes:
    """How the processes that torchrun launched and those that torch_xla knows work together.

    `hardware` is the kind of XLA device. Raises CompilerError where some would train alone.
    """
    through_host = hardware == "CPU" and known.alone and not launched.alone
    world = launched if through_host else known
    if launched.size > world.size:
        raise CompilerError(
            f"torchrun started {launched.size} processes and torch_xla knows of {world.size}: "
            "each would train alone; start them with distribution = 'pytorchxla'"
        )
    if machines > world.size:
        raise CompilerError(
            f"the job has {machines} machines, and of their processes {world.size} would train "
            "together; set distribution = 'pytorchxla', or one instance"
        )
    return Processes(world, through_host)
