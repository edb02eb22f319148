"""What a run has measured so far, in however many processes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping

import torch


@dataclass(frozen=True)
class Return:
    """A process that resumed from a checkpoint."""

    step: int
    """Its first step, from 0."""
    lost_seconds: float
    """Wall-clock seconds since the checkpoint was written: steps taken twice, the wait for another
    machine, start-up."""


@dataclass
class Course:
    """The steps of a run, one after the other."""

    losses: List[float] = field(default_factory=list)
    seconds: List[float] = field(default_factory=list)
    graphs: List[List[int]] = field(default_factory=lambda: [[]])
    """By process, how many graphs it had compiled by the end of each of its steps."""
    returns: List[Return] = field(default_factory=list)
    """One for each process but the first."""
    began: float = field(default_factory=time.time)
    """When the first process began to train, in seconds since the epoch."""

    @property
    def steps(self) -> int:
        return len(self.losses)

    def add(self, loss: float, seconds: float, graphs: int) -> None:
        """Record one more step."""
        self.losses.append(loss)
        self.seconds.append(seconds)
        self.graphs[-1].append(graphs)

    def resume(self, lost_seconds: float) -> None:
        """From here on, steps are another process's."""
        self.returns.append(Return(self.steps, lost_seconds))
        self.graphs.append([])

    def tensors(self) -> Dict[str, torch.Tensor]:
        """The record's columns."""
        graphs = [count for each in self.graphs for count in each]
        return {
            "losses": torch.tensor(self.losses, dtype=torch.float64),
            "seconds": torch.tensor(self.seconds, dtype=torch.float64),
            "graphs": torch.tensor(graphs, dtype=torch.int64),
        }

    def facts(self) -> Dict[str, Any]:
        """The rest of the record, as JSON."""
        return {
            "began": self.began,
            "returns": [[each.step, each.lost_seconds] for each in self.returns],
        }

    @classmethod
    def restored(cls, tensors: Mapping[str, torch.Tensor], facts: Mapping[str, Any]) -> Course:
        """The record from what `tensors` and `facts` returned."""
        returns = [Return(int(step), float(lost)) for step, lost in facts["returns"]]
        graphs: List[int] = tensors["graphs"].tolist()
        bounds = [0, *(each.step for each in returns), len(graphs)]
        return cls(
            losses=tensors["losses"].tolist(),
            seconds=tensors["seconds"].tolist(),
            graphs=[graphs[start:end] for start, end in zip(bounds, bounds[1:])],
            returns=returns,
            began=float(facts["began"]),
        )
