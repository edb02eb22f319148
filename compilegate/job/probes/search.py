"""Look for the smallest part of a captured graph that is compiled wrongly, in a process of its own.

    python -m compilegate.job.probes.search FOLDER

The folder has what `locate` left: the graph, its inputs, the gradients that came back. Whatever the
search finds is written there at once, so that it may be stopped at any time. A process of its own
keeps the job's counts, caches and memory what they are, runs beside the training at the lowest
priority, and can be ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

import torch

from compilegate.job.files import write_text
from compilegate.job.probes.reference import AFTERWARDS, GRADIENT, Row
from compilegate.job.probes.repro import Case, How, Program

HANDED_OVER, FOUND = "handed_over.pt", "found.json"
_LEAST_SHARE = 0.01
"""A part shows the defect if it errs at least by this share of what the whole graph errs by; less
may be rounding at a kink."""
_MOST_TITLES = 8


class Found(NamedTuple):
    """Statements that are compiled wrongly as they are: from `first` on, before `last`."""

    first: int
    last: int
    wrong: Mapping[str, Row]
    """The tensors that are wrong."""


class _OutOfTimeError(Exception):
    """The search has used the time that it may, or its job is over."""


def processor_seconds() -> float:
    """What this process and those that it waited for have used of processors."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


class Search:
    """Compiles parts of a program, one after the other."""

    def __init__(
        self,
        case: Case,
        how: How,
        labels: Dict[str, str],
        folder: Path,
        *,
        parameters: Set[str],
        worst: float,
        seconds: float,
    ) -> None:
        """`parameters` are the inputs whose gradients were wrong in the job, where its outputs were
        right; `worst` is its largest error. No part is tried any longer once this process has used
        `seconds` of a processor."""
        self._case, self._how, self._labels, self._folder = case, how, labels, folder
        self._seconds = seconds
        self._job = os.getppid()
        self._program = case.program
        self._size = len(self._program.statements)
        self._tried: Dict[Tuple[int, int], Optional[Found]] = {}
        self._parameters = parameters
        self._least = _LEAST_SHARE * min(1.0, worst)
        self._best: Optional[Found] = None
        self._cotangents: Dict[str, torch.Tensor] = {}
        self._wanting: Set[str] = set()

    def run(self) -> None:
        """Find the smallest part that can be found."""
        with contextlib.suppress(_OutOfTimeError):
            self._trace()
            if any(self._shows(*guess) for guess in [*self._guesses(), (0, self._size)]):
                self._shrink()
            self._say(finished=True)

    def _say(self, *, finished: bool) -> None:
        departs = None if self._best is None else self.sentence(self._best)
        write_text(self._folder / FOUND, json.dumps({"departs": departs, "finished": finished}))

    def _trace(self) -> None:
        """Run the whole graph in eager mode, for the gradients that come back to each statement."""
        names = [each.name for each in self._program.statements]
        space = self._run(self._program.part(0, self._size, names))
        given = self._case.cotangents
        tapes = {
            name: each
            for name, each in space.items()
            if isinstance(each, torch.Tensor) and each.requires_grad
        }
        self._wanting = set(tapes)
        starts = [name for name in given if name in tapes]
        gradients: Any = ()
        if starts:
            gradients = torch.autograd.grad(
                [tapes[name] for name in starts],
                list(tapes.values()),
                [given[name].to(tapes[name].dtype) for name in starts],
                allow_unused=True,
            )
        self._cotangents = {
            name: each.detach()
            for name, each in zip(tapes, gradients)
            if each is not None and each.abs().sum() > 0
        }
        self._cotangents.update(given)

    def _run(self, program: Program) -> Dict[str, Any]:
        """What a beginning of the program computes in eager mode, by name."""
        torch.manual_seed(0)
        arguments = []
        for name in program.inputs:
            value = self._case.values[name]
            if isinstance(value, torch.Tensor):
                wants = value.requires_grad
                value = value.detach().clone()
                value = value.requires_grad_() if wants else value
            arguments.append(value)
        surroundings: Any = contextlib.nullcontext()
        if self._how.autocast is not None:
            low = getattr(torch, self._how.autocast)
            surroundings = torch.autocast(self._how.device, dtype=low)
        with surroundings:
            return dict(zip(program.outputs, program.function()(*arguments)))

    def _part(self, first: int, last: int) -> Optional[Case]:
        """A part with its inputs as they are where it begins; None where they are not of the kind
        that a function is given."""
        part = self._program.part(first, last)
        values = {name: each for name, each in self._case.values.items() if name in part.inputs}
        if first:
            # Operations in place: inputs of the whole may have changed by then, too.
            with torch.no_grad():
                now = self._run(self._program.part(0, first, list(part.inputs)))
            for name in [name for name in part.inputs if name not in values]:
                value = now[name]
                if not isinstance(value, (torch.Tensor, int, float, bool)):
                    return None
                if isinstance(value, torch.Tensor):
                    value = value.detach().clone().requires_grad_(name in self._wanting)
                values[name] = value
        known = self._cotangents
        return Case(part, values, {name: known[name] for name in part.outputs if name in known})

    def _shows(self, first: int, last: int) -> bool:
        """Whether these statements are compiled wrongly; if so, they are the best so far."""
        first, last = max(first, 0), min(last, self._size)
        if first >= last:
            return False
        if (first, last) not in self._tried:
            if processor_seconds() > self._seconds or os.getppid() != self._job:
                raise _OutOfTimeError
            self._tried[first, last] = self._try(first, last)
        return self._tried[first, last] is not None

    def _try(self, first: int, last: int) -> Optional[Found]:
        case = self._part(first, last)
        if case is None:
            return None
        torch._dynamo.reset()
        try:
            rows = case.wrong(self._how)
        except Exception as error:  # noqa: BLE001 - a part may be what no compiler takes
            print(f"{first} to {last}: {type(error).__name__}: {error}", file=sys.stderr)
            return None
        wrong = {name: row for name, row in rows.items() if row.compiled_error >= self._least}
        inside = {GRADIENT + name for name in self._parameters if name in case.program.inputs}
        print(f"{first} to {last}: {sorted(wrong)}", file=sys.stderr, flush=True)
        if not wrong or (inside and not inside & set(wrong)):
            return None
        self._best = Found(first, last, wrong)
        case.write(self._how, self._labels, self.sentence(self._best), self._folder)
        self._say(finished=False)
        return self._best

    def _guesses(self) -> List[Tuple[int, int]]:
        """Parts that are likely to show it, small ones first. Where outputs are wrong: beginnings.
        Else those around the statement that uses the last of the parameters whose gradients are
        wrong, and up to the next one with a parameter whose gradient is right: what is lost on the
        way back is lost before that."""
        reaches = [2**power for power in range(self._size.bit_length())]
        if not self._parameters:
            return [(0, reach) for reach in reaches]
        users = [
            place
            for place, each in enumerate(self._program.statements)
            if self._parameters.intersection(each.uses)
        ]
        if not users:
            return []
        centre, values = users[-1], self._case.values
        right = {
            name
            for name in set(values) - self._parameters
            if getattr(values[name], "requires_grad", False)
        }
        later = enumerate(self._program.statements[centre + 1 :], start=centre + 1)
        end = next(
            (place + 1 for place, each in later if right.intersection(each.uses)), self._size
        )
        return [
            (centre, centre + 1),
            (centre, end),
            *((centre - reach, centre + 1 + reach) for reach in reaches),
        ]

    def _shrink(self) -> None:
        """Halve what can be left out at either end, until nothing can be."""
        before = None
        while self._best is not None and self._best[:2] != before:
            before = self._best[:2]
            # What departs first: in the forward pass that is at the end of the part, else at its
            # beginning.
            for at_end in (True, False) if not self._parameters else (False, True):
                self._shrink_at(*self._best[:2], at_end=at_end)

    def _shrink_at(self, first: int, last: int, *, at_end: bool) -> None:
        """Leave out as much as can be at one end."""
        low, high = 0, last - first - 1
        while low < high:
            middle = (low + high + 1) // 2
            shows = (
                self._shows(first, last - middle) if at_end else self._shows(first + middle, last)
            )
            low, high = (middle, high) if shows else (low, middle - 1)

    def sentence(self, best: Found) -> str:
        """What departs first, in words: an output before gradients."""
        program = self._program.part(best.first, best.last)
        titles = program.titles()
        name = next(
            (name for name in best.wrong if not name.startswith(GRADIENT)),
            max(best.wrong, key=lambda each: best.wrong[each].compiled_error),
        )
        what, row = "the output", best.wrong[name]
        if name.endswith(AFTERWARDS):
            changed = name[: -len(AFTERWARDS)]
            what = f"what it leaves in {self._labels.get(changed, changed)}"
        elif name.startswith(GRADIENT):
            what = f"the gradient of {self._labels.get(name[len(GRADIENT) :], 'the input')}"
        what += (
            f" has an error of {row.compiled_error:.2g} of its size, eager of {row.eager_error:.1g}"
        )
        if row.compiled == 0:
            what += " (it is exactly zero)"
        if best.last - best.first == self._size and len(titles) > _MOST_TITLES:
            return f"The captured graph as a whole shows it: {what}."
        if len(titles) == 1:
            single = len(program.statements) == 1 and program.statements[0].module
            where = f", in {program.statements[0].operation}" if single else ""
            return f"{titles[0]} departs first{where}: {what}."
        parts = ", ".join(titles[:-1]) if len(titles) < 5 else f"{titles[0]} to {titles[-2]}"
        return (
            f"{parts} and {titles[-1]} depart first, compiled together, and no smaller part was "
            f"seen to: {what}."
        )


def main(folder: Path) -> None:
    """Search, and leave what was found in the folder."""
    case, how, labels, told = torch.load(folder / HANDED_OVER, weights_only=False)
    Search(case, how, labels, folder, **told).run()


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(19)
    main(Path(sys.argv[1]))
