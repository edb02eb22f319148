"""Look for the smallest part of a captured graph that is compiled wrongly, in a process of its own.

    python -m compilegate.job.probes.repro.search FOLDER

The folder has what `locate` left: the graph, its inputs, the gradients that came back. Whatever the
search finds is written there at once, so that it may be stopped at any time. A process of its own
keeps the job's counts, caches and memory what they are, and can be ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch

from compilegate.job.files import write_text
from compilegate.job.probes.repro.case import Case, How, beyond, write_case
from compilegate.job.probes.repro.program import Program, Statement
from compilegate.job.probes.repro.side_by_side import AFTERWARDS, Row

HANDED_OVER, FOUND = "handed_over.pt", "found.json"
_LEAST_SHARE = 0.01
"""A part shows the defect if it errs at least by this share of what the whole graph errs by; less
may be rounding at a kink."""
_MOST_CENTRES = 4
_MOST_TITLES = 8
_LARGE = 60
"""Statements from which on compiling the whole graph takes too long to begin with."""
_GRADIENT, _TAP = "gradient of ", "tap_"


class Found(NamedTuple):
    """Statements that are compiled wrongly as they are: from `first` on, before `last`."""

    first: int
    last: int
    wrong: Dict[str, Row]
    """The tensors that are wrong."""


class _OutOfTimeError(Exception):
    """The search has used the time that it may."""


def processor_seconds() -> float:
    """What this process and those that it waited for have used of processors."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


class Search:
    """Compiles parts of a program, one after the other."""

    def __init__(
        self, case: Case, how: How, labels: Dict[str, str], folder: Path, *, seconds: float
    ) -> None:
        """No part is tried any longer once this process has used `seconds` of a processor."""
        self._case, self._how, self._labels, self._folder = case, how, labels, folder
        self._seconds = seconds
        self._program = case.program
        self._size = len(self._program.statements)
        self._tried: Dict[Tuple[int, int], Optional[Found]] = {}
        self._worst = 0.0
        self._parameters: Set[str] = set()
        """The inputs whose gradients are wrong in the whole graph."""
        self.best: Optional[Found] = None
        self._cotangents: Dict[str, torch.Tensor] = {}
        self._wanting: Set[str] = set()

    def run(self, known: Dict[str, Row]) -> None:
        """Find the smallest part that can be found.

        `known` are the tensors that were wrong where the whole graph ran; it is not compiled again
        where there are some.
        """
        if not self._whole(known):
            return
        with contextlib.suppress(_OutOfTimeError):
            self._trace()
            for first, last in self._guesses():
                if self._shows(first, last):
                    break
            best = self._best()
            self._shrink(best.first, best.last)
            self._say(finished=True)

    def _best(self) -> Found:
        if self.best is None:
            raise RuntimeError("the whole graph was found before any part")
        return self.best

    def _whole(self, known: Dict[str, Row]) -> bool:
        wrong = known or beyond(self._case.compared(self._how), self._how)
        if not wrong:
            return False
        self._worst = max(each.compiled_error for each in wrong.values())
        self._parameters = {name[len(_GRADIENT) :] for name in wrong if name.startswith(_GRADIENT)}
        self._take(Found(0, self._size, wrong), self._case)
        return True

    def _take(self, found: Found, case: Case) -> None:
        self.best = found
        self._tried[found.first, found.last] = found
        write_case(case, self._how, self._labels, self.sentence(), self._folder)
        self._say(finished=False)

    def _say(self, *, finished: bool) -> None:
        text = json.dumps({"departs": self.sentence(), "finished": finished})
        write_text(self._folder / FOUND, text)

    def _trace(self) -> None:
        """Run the whole graph in eager mode, for the gradients that come back to each statement."""
        space, tapes = self._tape()
        starts = [
            (space[name], each.to(space[name].dtype))
            for name, each in self._case.cotangents.items()
            if isinstance(space.get(name), torch.Tensor) and space[name].requires_grad
        ]
        wanted = {name: each for name, each in tapes.items() if each.requires_grad}
        self._wanting = set(wanted)
        gradients: Sequence[Any] = ()
        if starts and wanted:
            gradients = torch.autograd.grad(
                [each for each, _ in starts],
                list(wanted.values()),
                [each for _, each in starts],
                allow_unused=True,
            )
        self._cotangents = {
            name: each.detach()
            for name, each in zip(wanted, gradients)
            if each is not None and each.abs().sum() > 0
        }
        self._cotangents.update(self._case.cotangents)

    def _tape(self) -> Tuple[Dict[str, Any], Dict[str, torch.Tensor]]:
        names = [name for each in self._program.statements for name in each.sets]
        everything = self._program.part(0, self._size, list(dict.fromkeys(names)))
        torch.manual_seed(0)
        with self._surroundings():
            results = everything.function()(*(self._fresh(name) for name in everything.inputs))
        space = dict(zip(everything.outputs, results))
        return space, {
            name: each
            for name, each in space.items()
            if isinstance(each, torch.Tensor) and (each.is_floating_point() or each.is_complex())
        }

    def _surroundings(self) -> Any:
        kind = torch.device(self._how.device).type
        if self._how.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(kind, dtype=getattr(torch, self._how.autocast))

    def _fresh(self, name: str) -> Any:
        value = self._case.values[name]
        if not isinstance(value, torch.Tensor):
            return value
        copy = value.detach().clone()
        return copy.requires_grad_() if value.requires_grad else copy

    def _part(self, first: int, last: int) -> Optional[Case]:
        """A part with its inputs as they are where it begins; None where they are not of the kind
        that a function is given."""
        part = self._program.part(first, last)
        inner = [name for name in part.inputs if name not in self._case.values]
        values = {name: each for name, each in self._case.values.items() if name in part.inputs}
        if first:
            # Operations in place: inputs of the whole may have changed by then, too.
            before = self._program.part(0, first, list(part.inputs))
            torch.manual_seed(0)
            with self._surroundings(), torch.no_grad():
                results = before.function()(*(self._fresh(name) for name in before.inputs))
            now = dict(zip(part.inputs, results))
            for name in inner:
                value = now[name]
                if not isinstance(value, (torch.Tensor, int, float, bool)):
                    return None
                values[name] = value
                if isinstance(value, torch.Tensor):
                    copy = value.detach().clone()
                    values[name] = copy.requires_grad_(name in self._wanting)
        known = self._cotangents
        return Case(part, values, {name: known[name] for name in part.outputs if name in known})

    def _shows(self, first: int, last: int) -> bool:
        """Whether these statements are compiled wrongly; if so, they are the best so far."""
        first, last = max(first, 0), min(last, self._size)
        if first >= last:
            return False
        if (first, last) not in self._tried:
            if processor_seconds() > self._seconds:
                raise _OutOfTimeError
            self._tried[first, last] = self._try(first, last)
        return self._tried[first, last] is not None

    def _try(self, first: int, last: int) -> Optional[Found]:
        case = self._part(first, last)
        if case is None:
            return None
        torch._dynamo.reset()
        try:
            wrong = beyond(case.compared(self._how), self._how)
        except Exception as error:  # noqa: BLE001 - a part may be what no compiler takes
            print(f"{first} to {last}: {type(error).__name__}: {error}", file=sys.stderr)
            return None
        wrong = {
            name: row
            for name, row in wrong.items()
            if row.compiled_error >= _LEAST_SHARE * min(self._worst, 1.0)
        }
        inside = {_GRADIENT + name for name in self._parameters if name in case.program.inputs}
        print(f"{first} to {last}: {sorted(wrong)}", file=sys.stderr, flush=True)
        if not wrong or (inside and not inside & set(wrong)):
            return None
        found = Found(first, last, wrong)
        self._take(found, case)
        return found

    def _guesses(self) -> List[Tuple[int, int]]:
        """Parts that are likely to show it, small ones first."""
        large = self._size > _LARGE
        centres = self._by_parameters() if large else []
        centres = centres or self._observed() or self._by_parameters()
        guesses = [(each, each + 1) for each in centres[:_MOST_CENTRES]]
        for centre in centres[:1]:
            module = self._program.statements[centre].module
            first, last = centre, centre + 1
            while module and first > 0 and self._program.statements[first - 1].module == module:
                first -= 1
            while module and last < self._size and self._program.statements[last].module == module:
                last += 1
            guesses += [(first, last), (centre, self._next_right(centre))]
            reach = 2
            while reach < self._size:
                guesses += [(first, last + reach), (first - reach, last + reach)]
                reach *= 2
        return list(dict.fromkeys(guesses))

    def _by_parameters(self) -> List[int]:
        """The statement that uses the last of the parameters whose gradients are wrong."""
        users = [
            place
            for place, each in enumerate(self._program.statements)
            if self._parameters.intersection(each.uses)
        ]
        return users[-1:]

    def _next_right(self, place: int) -> int:
        """Behind the first later statement with a parameter whose gradient is right: what is lost
        on the way back is lost before that."""
        right = {*self._labels, *self._case.values} - self._parameters
        wanting = {name for name in right if getattr(self._case.values[name], "requires_grad", 0)}
        for later, each in enumerate(self._program.statements[place + 1 :], start=place + 1):
            if wanting.intersection(each.uses):
                return later + 1
        return self._size

    def _observed(self) -> List[int]:
        """Compile the whole graph so that every statement's result, and the gradient that comes
        back to it, can be seen; the statements that make wrong ones of right ones.

        Seeing changes what is fused, so the defect may be gone: then there is nothing to tell.
        """
        case = self._tapped()
        torch._dynamo.reset()
        try:
            rows = case.compared(self._how)
        except Exception as error:  # noqa: BLE001 - it is only a look
            print(f"observed: {type(error).__name__}: {error}", file=sys.stderr)
            return []
        wrong = {
            name
            for name, row in beyond(rows, self._how).items()
            if row.compiled_error >= _LEAST_SHARE * min(self._worst, 1.0)
        }
        print(f"observed: {sorted(wrong)}", file=sys.stderr, flush=True)
        forward = [
            place
            for place, each in enumerate(self._program.statements)
            if wrong.intersection([*each.sets, *(name + AFTERWARDS for name in each.uses)])
            and not wrong.intersection(each.uses)
        ]
        back = {name[len(_GRADIENT) :] for name in wrong if name.startswith(_GRADIENT)}
        back |= {name[len(_TAP) :] for name in back if name.startswith(_TAP)}
        backward = [
            place
            for place, each in enumerate(self._program.statements)
            if back.intersection(each.uses) and not back.intersection(each.sets)
        ]
        return forward or backward[::-1]

    def _tapped(self) -> Case:
        """The whole graph with each differentiable result returned, after a zero was added whose
        gradient is the one that comes back to it."""
        statements: List[Statement] = []
        seen: List[str] = []
        values = dict(self._case.values)
        _, tapes = self._tape()
        inputs = list(self._program.inputs)
        for place, each in enumerate(self._program.statements):
            statements.append(each)
            later = self._program.statements[place + 1 :]
            for name in each.sets:
                if name in seen or name not in tapes or any(name in one.sets for one in later):
                    continue
                seen.append(name)
                if name not in self._wanting:
                    continue
                tap = f"{_TAP}{name}"
                values[tap] = torch.zeros_like(tapes[name]).detach().requires_grad_()
                inputs.append(tap)
                text = f"{name} = {name} + {tap}"
                statements.append(replace(each, text=text, uses=(name, tap), sets=(name,)))
        outputs = list(dict.fromkeys([*self._program.outputs, *seen]))
        program = replace(
            self._program,
            inputs=tuple(inputs),
            statements=tuple(statements),
            outputs=tuple(outputs),
        )
        return Case(program, values, self._case.cotangents)

    def _shrink(self, first: int, last: int) -> None:
        """Halve what can be left out at either end, until nothing can be."""
        while True:
            before = first, last
            low, high = first, last - 1
            while low < high:  # the largest beginning that still shows it
                middle = (low + high + 1) // 2
                if self._shows(middle, last):
                    low = middle
                else:
                    high = middle - 1
            first = low
            low, high = first + 1, last
            while low < high:
                middle = (low + high) // 2
                if self._shows(first, middle):
                    high = middle
                else:
                    low = middle + 1
            last = high
            if (first, last) == before:
                return

    def sentence(self) -> str:
        """What departs first, in words."""
        best = self._best()
        program = self._program.part(best.first, best.last)
        titles = program.titles()
        what = self._what(best, program)
        if best.last - best.first == self._size and len(titles) > _MOST_TITLES:
            return f"The captured graph as a whole shows it: {what}."
        if len(program.statements) == 1 and program.statements[0].module:
            return f"{titles[0]} departs first, in {program.statements[0].operation}: {what}."
        if len(titles) == 1:
            return f"{titles[0]} departs first: {what}."
        parts = ", ".join(titles[:-1]) if len(titles) < 5 else f"{titles[0]} to {titles[-2]}"
        return (
            f"{parts} and {titles[-1]} depart first, compiled together, and no smaller part was "
            f"seen to: {what}."
        )

    def _what(self, best: Found, program: Program) -> str:
        """The tensor that errs, with the errors: an output before gradients."""
        name = next(
            (name for name in best.wrong if not name.startswith(_GRADIENT)),
            max(best.wrong, key=lambda each: best.wrong[each].compiled_error),
        )
        row = best.wrong[name]
        tensor = name[len(_GRADIENT) :] if name.startswith(_GRADIENT) else name
        if name.endswith(AFTERWARDS):
            changed = name[: -len(AFTERWARDS)]
            found = f"what it leaves in {self._labels.get(changed, changed)}"
        elif not name.startswith(_GRADIENT):
            found = "the output"
        elif tensor in self._labels:
            found = f"the gradient of {self._labels[tensor]}"
        else:
            found = "the gradient of the input"
        if row.compiled == 0:
            return (
                f"{found} is exactly zero, and eager's is not (its error is {row.eager_error:.1g})"
            )
        return (
            f"{found} has an error of {row.compiled_error:.2g} of its size, eager of "
            f"{row.eager_error:.1g}"
        )


def main(folder: Path) -> None:
    """Search, and leave what was found in the folder."""
    said = torch.load(folder / HANDED_OVER, weights_only=True)
    case = Case(Program.from_json(said["program"]), said["values"], said["cotangents"])
    how, labels = How(**said["how"]), said["labels"]
    known = {name: Row(*numbers) for name, numbers in said["known"].items()}
    Search(case, how, labels, folder, seconds=said["seconds"]).run(known)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
