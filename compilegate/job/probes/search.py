"""The search for the smallest part of a model that is compiled wrongly, in a process of lowest
priority beside the training:

    python -m compilegate.job.probes.search FOLDER

The job hands over the graph, its inputs and the gradients that came back. The process leaves each
find in the folder at once, so it may be stopped at any time; the job collects at its end.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

import torch
from torch import fx

from compilegate.job.compilers import Compiler
from compilegate.job.compilers.compiler import watching
from compilegate.job.evidence import ParityRecord
from compilegate.job.evidence.parity import EPSILON
from compilegate.job.files import write_text
from compilegate.job.machine.world import unwrapped
from compilegate.job.names import (
    COMPILE_THREADS_VARIABLE,
    DEFAULT_PARITY_LIMITS,
    INDUCTOR_CACHE_VARIABLE,
)
from compilegate.job.probes.capture import Compiled, Copies, ObstacleError, megabytes, with_tensors
from compilegate.job.probes.reference import AFTERWARDS, GRADIENT, How, Row, copied
from compilegate.job.probes.replay import Replay
from compilegate.job.probes.repro import (
    Case,
    graph_of,
    operation_of,
    operations_of,
    part_of,
    results_of,
    steps_of,
    title_of,
)

REPRO_FOLDER = "parity_repro"  # where the script lies, below the evidence folder
HANDED_OVER, FOUND, LOG = "handed_over.pt", "found.json", "search.log"
_MOST_BYTES = 512_000_000
_WAITED = 6.0
"""How much longer than its processor time the search may take: on a busy machine it waits."""
_OF_PROCESSES = frozenset(
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
)
"""Variables by which processes that train together find each other; the search trains nothing."""
_LEAST_SHARE = 0.01
"""A part shows the defect if it errs by at least this share of the whole graph's error."""
_MOST_TITLES = 5


@dataclass(frozen=True)
class Wrong:
    name: str
    error: float
    """How far the compiled one is from float64, as a share of its size; of the middle call."""
    eager: float  # the same of eager's
    lost: bool = False  # whether the compiled one is exactly zero, and should not be

    def __str__(self) -> str:
        if self.lost:
            return f"{self.name} (exactly zero, while float64's is not; eager {self.eager:.1g})"
        return f"{self.name} (error {self.error:.2g} of its size, eager {self.eager:.1g})"


def first_departing(compiled: Compiled, wrong: Sequence[Wrong]) -> str:
    """What the departing tensors show by themselves, in one sentence: outputs come before
    gradients, and of gradients the last parameter's is computed first."""
    forward = [each for each in wrong if not each.name.startswith(GRADIENT)]
    if forward:
        return f"The compiled {forward[0]} departs: the forward pass is wrong."
    named = [GRADIENT + name for name, _ in unwrapped(compiled.module).named_parameters()]
    places = {name: place for place, name in enumerate(named)}
    first = max(wrong, key=lambda each: places.get(each.name, -1))
    following = named[places[first.name] + 1 :] if first.name in places else []
    agrees = f", and the {following[0]}, computed before it, agrees" if following else ""
    return (
        f"All outputs agree, and the compiled {first} is the first gradient that departs in the "
        f"backward pass{agrees}."
    )


class Search:
    """A search for what departs first that runs beside the training."""

    def __init__(
        self,
        compiled: Compiled,
        compiler: Compiler,
        wrong: Sequence[Wrong],
        *,
        precision: str,
        folder: Path,
        seconds: float,
    ) -> None:
        """Start the search and write a script below `folder`. Raises ObstacleError where there is
        nothing to search in."""
        self._work, self._seconds = folder / REPRO_FOLDER, seconds
        hand_over(compiled, compiler, wrong, precision, self._work, seconds=seconds)
        self._ends = time.monotonic() + _WAITED * seconds
        self._cache = tempfile.TemporaryDirectory(prefix="repro-")
        environment = {
            **{name: each for name, each in os.environ.items() if name not in _OF_PROCESSES},
            "PYTHONPATH": os.pathsep.join(each or os.getcwd() for each in sys.path),
            INDUCTOR_CACHE_VARIABLE: self._cache.name,
            COMPILE_THREADS_VARIABLE: "1",  # compilers that it starts are waited for, and counted
            "OMP_NUM_THREADS": str(torch.get_num_threads()),
        }
        with (self._work / LOG).open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "compilegate.job.probes.search", str(self._work)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def added_to(self, record: ParityRecord) -> ParityRecord:
        """The record with what was found; the search is waited for, in the time that it has."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=max(self._ends - time.monotonic(), 0.0))
        failed = bool(self.stop())
        file = self._work / FOUND
        found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
        for name in (HANDED_OVER, FOUND):  # what stays are the script, its tensors and the log
            with contextlib.suppress(FileNotFoundError):
                (self._work / name).unlink()
        if found is not None and found["departs"] is not None:
            departs = f"{record.departs} {found['departs']}"
            if not found["finished"]:
                departs += f" The search for a smaller part ended after {self._seconds:g} s."
            return replace(record, departs=departs, repro=REPRO_FOLDER, reproduced=True)
        why = f"the search needed more than {self._seconds:g} s"
        if found is not None:
            why = "the captured graph, compiled by itself in a fresh process, is right"
        elif failed:
            why = f"the search failed, as {REPRO_FOLDER}/{LOG} shows"
        departs = f"{record.departs} There is no repro: {why}."
        return replace(record, departs=departs, reproduced=None if found is None else False)

    def stop(self) -> int | None:
        """End its process and all that it started; the exit status, None of one that still ran."""
        ended = self._process.poll()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._cache.cleanup()
        return ended


# What the job hands over.


@dataclass
class _GraphCall:
    graph: fx.GraphModule
    values: dict[str, Any]
    cotangents: dict[str, torch.Tensor]
    labels: dict[str, str]  # the module's names of the inputs that are its parameters or buffers


def hand_over(
    compiled: Compiled,
    compiler: Compiler,
    wrong: Sequence[Wrong],
    precision: str,
    work: Path,
    *,
    seconds: float,
) -> None:
    """Leave the wrong graph for the search, which may use `seconds` of a processor. Raises
    ObstacleError."""
    again = getattr(compiler, "again", dict)()
    if not again:
        raise ObstacleError("its compiler is no backend of torch.compile")
    autocast = compiled.calls[-1].autocast
    how = How(
        compiler=again,
        device=compiled.device.type,
        autocast=str(autocast.dtype).rpartition(".")[2] if autocast.enabled else None,
        epsilon=EPSILON[precision],
        limit=DEFAULT_PARITY_LIMITS[precision],
    )
    calls = _graph_calls(compiled, compiler)
    if not calls:
        raise ObstacleError("no graph was called")
    lost = {each.name[len(GRADIENT) :] for each in wrong if each.name.startswith(GRADIENT)}
    # Where the model is several graphs: the last one with a parameter whose gradient is wrong.
    chosen = next((each for each in reversed(calls) if lost & set(each.labels.values())), calls[0])
    names = {name: "p_" + re.sub(r"\W", "_", label) for name, label in chosen.labels.items()}
    operations, constants = operations_of(chosen.graph, names)
    if {each.name for each in graph_of(operations).nodes} != {each.name for each in operations}:
        names = {}  # two nodes had one name
        operations, constants = operations_of(chosen.graph, names)
    values = {**{names.get(name, name): each for name, each in chosen.values.items()}, **constants}
    tensors = [each for each in values.values() if isinstance(each, torch.Tensor)]
    size = sum(each.numel() * each.element_size() for each in tensors)
    if size > _MOST_BYTES:
        raise ObstacleError(
            f"the graph's inputs take {megabytes(size)}, and a repro holds at most "
            f"{megabytes(_MOST_BYTES)}"
        )
    labels = {names.get(name, name): label for name, label in chosen.labels.items()}
    forward = any(not each.name.startswith(GRADIENT) for each in wrong)
    settings = {
        "labels": labels,
        "parameters": {name for name, label in labels.items() if label in lost and not forward},
        "least": _LEAST_SHARE * min(1.0, max(each.error for each in wrong)),
        "seconds": seconds,
    }
    work.mkdir(parents=True, exist_ok=True)
    torch.save((operations, values, chosen.cotangents, how, settings), work / HANDED_OVER)


def _graph_calls(compiled: Compiled, compiler: Compiler) -> list[_GraphCall]:
    """Replay the last captured call with the graphs in eager mode; what went in and came back."""
    found: list[_GraphCall] = []
    module = unwrapped(compiled.module)
    own = {id(each): name for name, each in module.named_buffers()}
    own.update((id(each), name) for name, each in module.named_parameters())

    def watch(graph: Any, run: Any, arguments: tuple[Any, ...]) -> Any:
        names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
        copies = Copies()
        values = {
            name: each if isinstance(each, torch.nn.Parameter) else with_tensors(each, copies)
            for name, each in zip(names, arguments)
        }
        labels = {name: own[id(each)] for name, each in zip(names, arguments) if id(each) in own}
        call = _GraphCall(graph, values, {}, labels)
        found.append(call)
        results = graph(*arguments)
        output = next(node.args[0] for node in graph.graph.nodes if node.op == "output")
        for node, result in zip(output if isinstance(output, (tuple, list)) else [output], results):
            if isinstance(result, torch.Tensor) and result.requires_grad:
                result.register_hook(functools.partial(_keep, call.cotangents, node.name))
        return results

    with Replay(compiled, compiler) as replay, watching(watch):
        replay.compiled(compiled.calls[-1])
    return found


def _keep(cotangents: dict[str, torch.Tensor], name: str, gradient: torch.Tensor | None) -> None:
    if gradient is not None:
        cotangents[name] = gradient.detach().clone()


# The process that searches.


class _OutOfTimeError(Exception):
    pass


class WrongPart(NamedTuple):
    """Steps of the graph that are compiled wrongly as they are: from `first` on, before `last`."""

    first: int
    last: int
    wrong: Mapping[str, Row]  # the tensors that are wrong


@dataclass
class _Finder:
    """Compiles parts of a graph, one after the other."""

    graph: fx.Graph
    values: dict[str, Any]  # its inputs by name
    cotangents: dict[str, torch.Tensor]  # the gradients that come back to what it computes, by name
    how: How
    folder: Path
    labels: dict[str, str]  # the module's names of inputs
    parameters: set[str]
    """The inputs whose gradients were wrong in the job, where its outputs were right."""
    least: float  # a part whose error is smaller does not show the defect
    seconds: float  # no part is tried any longer once this process has used so much of a processor

    def __post_init__(self) -> None:
        self._steps = steps_of(self.graph)
        self._job = os.getppid()
        self._tried: dict[tuple[int, int], bool] = {}
        self._best: WrongPart | None = None
        self._wanting: set[str] = set()  # the values within that gradients come back to

    def run(self) -> None:
        with contextlib.suppress(_OutOfTimeError):
            self._trace()
            if any(self._shows(*guess) for guess in [*self._guesses(), (0, len(self._steps))]):
                self._shrink()
            self._say(finished=True)

    def _say(self, *, finished: bool) -> None:
        departs = None if self._best is None else self.sentence(self._best)
        write_text(self.folder / FOUND, json.dumps({"departs": departs, "finished": finished}))

    def _trace(self) -> None:
        """Run the whole graph in eager mode, for the gradients that come back to each step."""
        space = self._run(len(self._steps), self._steps)
        tapes = {
            name: each
            for name, each in space.items()
            if isinstance(each, torch.Tensor) and each.requires_grad
        }
        self._wanting = set(tapes)
        starts = [name for name in self.cotangents if name in tapes]
        gradients: Any = ()
        if starts:
            gradients = torch.autograd.grad(
                [tapes[name] for name in starts],
                list(tapes.values()),
                [self.cotangents[name].to(tapes[name].dtype) for name in starts],
                allow_unused=True,
            )
        found = {
            name: each.detach()
            for name, each in zip(tapes, gradients)
            if each is not None and each.any()
        }
        self.cotangents = {**found, **self.cotangents}

    def _run(self, last: int, results: Sequence[fx.Node]) -> dict[str, Any]:
        """What the steps before `last` compute in eager mode of these, by name."""
        part = part_of(self.graph, 0, last, results)
        torch.manual_seed(0)
        names = [each.name for each in part.nodes if each.op == "placeholder"]
        arguments = [copied(self.values[name], torch.clone) for name in names]
        with self.how.surroundings():
            found = fx.GraphModule({}, part)(*arguments)
        return dict(zip((each.name for each in results), found))

    def _case(self, first: int, last: int) -> Case | None:
        """A part with its inputs as they are where it begins; None where these are not of a
        function's kind."""
        part = part_of(self.graph, first, last)
        wanted = {each.name for each in part.nodes if each.op == "placeholder"}
        values = {name: each for name, each in self.values.items() if name in wanted}
        before = [each for each in self._steps[:first] if each.name in wanted]
        with torch.no_grad():
            now = self._run(first, before) if before else {}
        for name, value in now.items():
            if not isinstance(value, (torch.Tensor, int, float, bool)):
                return None
            values[name] = value
            if isinstance(value, torch.Tensor):
                values[name] = value.detach().clone().requires_grad_(name in self._wanting)
        known, names = self.cotangents, [each.name for each in results_of(part)]
        return Case(part, values, {name: known[name] for name in names if name in known})

    def _shows(self, first: int, last: int) -> bool:
        """Whether these steps are compiled wrongly; if so, they are the best so far."""
        first, last = max(first, 0), min(last, len(self._steps))
        if first >= last:
            return False
        if (first, last) not in self._tried:
            used = os.times()
            processor = used.user + used.system + used.children_user + used.children_system
            if processor > self.seconds or os.getppid() != self._job:
                raise _OutOfTimeError
            self._tried[first, last] = self._try(first, last)
        return self._tried[first, last]

    def _try(self, first: int, last: int) -> bool:
        case = self._case(first, last)
        if case is None:
            return False
        torch._dynamo.reset()
        try:
            rows = case.wrong(self.how)
        except Exception as error:  # noqa: BLE001 - a part may be what no compiler takes
            print(f"{first} to {last}: {type(error).__name__}: {error}", file=sys.stderr)
            return False
        wrong = {name: row for name, row in rows.items() if row.compiled_error >= self.least}
        inside = {GRADIENT + name for name in self.parameters if name in case.values}
        print(f"{first} to {last}: {sorted(wrong)}", file=sys.stderr, flush=True)
        if not wrong or (inside and not inside & set(wrong)):
            return False
        self._best = WrongPart(first, last, wrong)
        case.write(self.how, self.labels, self.sentence(self._best), self.folder)
        self._say(finished=False)
        return True

    def _guesses(self) -> list[tuple[int, int]]:
        """Likely parts, small ones first: beginnings where outputs are wrong, else those around the
        last step that uses a parameter whose gradient is wrong."""
        reaches = [2**power for power in range(len(self._steps).bit_length())]
        users = [
            place
            for place, each in enumerate(self._steps)
            if self.parameters.intersection(used.name for used in each.all_input_nodes)
        ]
        if self.parameters and users:
            around = [(users[-1] - reach, users[-1] + 1 + reach) for reach in reaches]
            return [(users[-1], users[-1] + 1), *around]
        return [(0, reach) for reach in reaches]

    def _shrink(self) -> None:
        """Halve what can be left out at either end, until nothing can be."""
        before = None
        while self._best is not None and self._best[:2] != before:
            before = self._best[:2]
            # What departs first: in the forward pass that is at the end of the part, else at its
            # beginning.
            for at_end in (True, False) if not self.parameters else (False, True):
                self._shrink_at(*self._best[:2], at_end=at_end)

    def _shrink_at(self, first: int, last: int, *, at_end: bool) -> None:
        low, high = 0, last - first - 1
        while low < high:
            middle = (low + high + 1) // 2
            part = (first, last - middle) if at_end else (first + middle, last)
            low, high = (middle, high) if self._shows(*part) else (low, middle - 1)

    def sentence(self, best: WrongPart) -> str:
        """What departs first, in words: an output before gradients."""
        steps = self._steps[best.first : best.last]
        titles = list(dict.fromkeys(map(title_of, steps)))
        outputs = [name for name in best.wrong if not name.startswith(GRADIENT)]
        worst = max(best.wrong, key=lambda each: best.wrong[each].compiled_error)
        name = outputs[0] if outputs else worst
        what, row = "the output", best.wrong[name]
        if name.endswith(AFTERWARDS):
            changed = name[: -len(AFTERWARDS)]
            what = f"what it leaves in {self.labels.get(changed, changed)}"
        elif name.startswith(GRADIENT):
            what = f"the gradient of {self.labels.get(name[len(GRADIENT) :], 'the input')}"
        what += (
            f" has an error of {row.compiled_error:.2g} of its size, eager of {row.eager_error:.1g}"
        )
        if row.compiled == 0:
            what += " (it is exactly zero)"
        if len(titles) > 1:
            between = " to " if len(titles) > _MOST_TITLES else ", ".join(["", *titles[1:-1], ""])
            return (
                f"{titles[0]}{between}{titles[-1]} depart first, compiled together, and no smaller "
                f"part was seen to: {what}."
            )
        where = f", in {operation_of(steps[0])}" if len(steps) == 1 else ""
        return f"{titles[0]} departs first{where}: {what}."


def main(folder: Path) -> None:
    handed_over = folder / HANDED_OVER
    operations, values, cotangents, how, settings = torch.load(handed_over, weights_only=False)
    handed_over.unlink()  # a job that fails has nobody to tidy up
    _Finder(graph_of(operations), values, cotangents, how, folder, **settings).run()


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(19)
    main(Path(sys.argv[1]))
