"""How SageMaker's training toolkit starts a script in several processes, where this machine can."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compilegate.local.jobs.cluster.hosts import INTERFACE

_BY_TORCHRUN = ("sagemaker_torch_distributed_enabled", "sagemaker_pytorch_ddp_enabled")
_ELSEWHERE = {
    "sagemaker_mpi_enabled": "starts the script by MPI",
    "sagemaker_parameter_server_enabled": "starts TensorFlow's parameter servers",
    "sagemaker_distributed_dataparallel_enabled": "needs a library that is in AWS's images only",
    "sagemaker_pytorch_xla_multi_worker_enabled": "starts the script by XLA's own launcher",
    "sagemaker_multi_worker_mirrored_strategy_enabled": "starts TensorFlow's workers",
}


@dataclass(frozen=True)
class Launch:
    """How the hosts of a job meet."""

    hosts: Sequence[str]
    rank: int
    port: int
    """Where the first host listens."""
    processes: int
    """How many each host starts."""

    @property
    def variables(self) -> dict[str, str]:
        """What PyTorch's and NCCL's own way to other hosts hangs on."""
        return {
            "MASTER_ADDR": self.hosts[0],
            "MASTER_PORT": str(self.port),
            "NCCL_SOCKET_IFNAME": INTERFACE,
            "GLOO_SOCKET_IFNAME": INTERFACE,
        }

    def torchrun(self, python: str, command: Sequence[str]) -> list[str]:
        """The command by which a host starts its share of the processes."""
        told = {
            "nnodes": len(self.hosts),
            "nproc_per_node": self.processes,
            "node_rank": self.rank,
            "master_addr": self.hosts[0],
            "master_port": self.port,
        }
        options = [f"--{name}={value}" for name, value in told.items()]
        return [python, "-m", "torch.distributed.run", *options, *command]


def by_torchrun(hyperparameters: Mapping[str, str]) -> bool:
    """Whether the toolkit starts the script by torchrun, or by what stands for it here."""
    return any(is_on(hyperparameters, name) for name in _BY_TORCHRUN)


def launcher_fault(hyperparameters: Mapping[str, str]) -> str | None:
    """Why the script cannot be started here as it asks, if it cannot."""
    for name, why in _ELSEWHERE.items():
        if is_on(hyperparameters, name):
            return (
                f"{name} {why}, which is not done here; start it by torchrun (distribution "
                "torch_distributed), or turn it off for a run on this machine"
            )
    return None


def is_on(hyperparameters: Mapping[str, str], name: str) -> bool:
    """Whether a flag among the hyperparameters is set."""
    return hyperparameters.get(name, "false").strip('"').lower() == "true"


def free_port() -> int:
    """A port that nothing listens on: jobs here share one network."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        port: int = listener.getsockname()[1]
    return port
