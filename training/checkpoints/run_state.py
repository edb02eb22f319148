"""What of a run has to come back for it to go on as if nothing had been.

The weights, the optimizer's moments, the average, and every random generator's state. The data
order needs nothing: it follows from the seed and the number of the step.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Dict, Mapping

import torch

from training.averaging import WeightAverage
from training.checkpoints import random_generators
from training.checkpoints.course import Course
from training.checkpoints.file import Checkpoint
from training.update import WeightUpdate


@dataclass(frozen=True)
class RunState:
    """The parts of a run that change from step to step."""

    model: Any
    update: WeightUpdate
    average: WeightAverage

    def capture(self, course: Course) -> Checkpoint:
        """The state after the course's last step. Tensors on the CPU are not copied."""
        parts: Mapping[str, Mapping[str, torch.Tensor]] = {
            "model": self._model_tensors(),
            "optimizer": self.update.tensors(),
            "average": {str(number): each for number, each in enumerate(self.average.tensors())},
            "random": random_generators.tensors(),
            "course": course.tensors(),
        }
        tensors = {
            f"{part}.{name}": each.detach().cpu()
            for part, named in parts.items()
            for name, each in named.items()
        }
        facts = {
            "written": time.time(),
            "course": course.facts(),
            "average_updates": self.average.updates,
            "random": random_generators.facts(),
        }
        return Checkpoint(tensors, facts)

    @torch.no_grad()
    def restore(self, checkpoint: Checkpoint) -> Course:
        """Bring everything back, in place. Returns the course so far, to be gone on with."""
        parts = _by_part(checkpoint.tensors)
        facts = checkpoint.facts
        for name, own in self._model_tensors().items():
            own.copy_(parts["model"][name])
        self.update.restore(parts["optimizer"])
        kept = parts.get("average", {})
        self.average.restore(
            [kept[str(number)] for number in range(len(kept))], int(facts["average_updates"])
        )
        random_generators.restore(parts["random"], facts["random"])
        course = Course.restored(parts["course"], facts["course"])
        course.resume(lost_seconds=max(time.time() - float(facts["written"]), 0.0))
        return course

    def _model_tensors(self) -> Dict[str, torch.Tensor]:
        # Each once, also where two names share one: the file holds no tensor twice.
        saved = self.model.state_dict().keys()
        buffers = {name: each for name, each in self.model.named_buffers() if name in saved}
        return {**dict(self.model.named_parameters()), **buffers}


def _by_part(tensors: Mapping[str, torch.Tensor]) -> Dict[str, Dict[str, torch.Tensor]]:
    parts: Dict[str, Dict[str, torch.Tensor]] = {}
    for name, each in tensors.items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[rest] = each
    return parts
