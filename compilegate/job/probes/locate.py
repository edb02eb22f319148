"""Which part of a model is compiled wrongly, and a script that shows it: the job's side of the
search, which runs in a process beside the training."""

from __future__ import annotations

import atexit
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from compilegate.job.compilers import Compiler
from compilegate.job.compilers.compiler import watching
from compilegate.job.evidence.parity import EPSILON
from compilegate.job.machine.world import unwrapped
from compilegate.job.names import (
    COMPILE_THREADS_VARIABLE,
    DEFAULT_PARITY_LIMITS,
    INDUCTOR_CACHE_VARIABLE,
)
from compilegate.job.probes.capture import (
    Compiled,
    Copies,
    ObstacleError,
    attempted,
    megabytes,
    with_tensors,
)
from compilegate.job.probes.reference import GRADIENT
from compilegate.job.probes.replay import Replay
from compilegate.job.probes.repro import Case, How, program_of
from compilegate.job.probes.search import FOUND, HANDED_OVER

REPRO_FOLDER = "parity_repro"
"""Where the script lies, below the evidence folder."""
_MOST_BYTES = 512_000_000
_WAITED = 6.0
"""How much longer than its processor time the search may take: on a busy machine it waits."""
_LOG = "search.log"
_OF_PROCESSES = frozenset(
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
)
"""Variables by which processes that train together find each other; the search trains nothing."""


@dataclass(frozen=True)
class Wrong:
    """A tensor that compiled code computes wrongly."""

    name: str
    error: float
    """How far the compiled one is from float64, as a share of its size; of the middle call."""
    eager: float
    """The same of eager's."""
    lost: bool = False
    """Whether the compiled one is exactly zero, and should not be."""

    def __str__(self) -> str:
        if self.lost:
            return f"{self.name} (exactly zero, while float64's is not; eager {self.eager:.1g})"
        return f"{self.name} (error {self.error:.2g} of its size, eager {self.eager:.1g})"


class Located(NamedTuple):
    """What the search found: the fields of that name of a `ParityRecord`."""

    departs: str
    repro: Optional[str] = None
    reproduced: Optional[bool] = None


class Search:
    """A search that runs beside the training, or why there is none."""

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
        """Start to look for what departs first, and to write a script that shows it below `folder`.
        It uses `seconds` of a processor, and where the machine is busy takes up to six times that.
        """
        self._plain, self._work = first_departing(compiled, wrong), folder / REPRO_FOLDER
        self._seconds, self._ends = seconds, time.monotonic() + _WAITED * seconds
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._cache = tempfile.TemporaryDirectory(prefix="repro-")
        self._work.mkdir(parents=True, exist_ok=True)
        _, self._obstacle = attempted(
            lambda: hand_over(compiled, compiler, wrong, precision, self._work, seconds=seconds)
        )
        if self._obstacle is None:
            self._start()
        else:
            self._tidy()

    @property
    def runs(self) -> bool:
        """Whether it was started."""
        return self._process is not None

    def _start(self) -> None:
        environment = {
            **{name: each for name, each in os.environ.items() if name not in _OF_PROCESSES},
            "PYTHONPATH": os.pathsep.join(each or os.getcwd() for each in sys.path),
            INDUCTOR_CACHE_VARIABLE: self._cache.name,
            COMPILE_THREADS_VARIABLE: "1",  # compilers that it starts are waited for, and counted
            "OMP_NUM_THREADS": str(torch.get_num_threads()),
        }
        atexit.register(self.stop)
        with (self._work / _LOG).open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "compilegate.job.probes.search", str(self._work)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def collected(self) -> Located:
        """What was found; the search is waited for, in the time that it has."""
        if self._process is None:
            return Located(f"{self._plain} There is no repro: {self._obstacle}.")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=max(self._ends - time.monotonic(), 0.0))
        ended = self.stop()
        file = self._work / FOUND
        found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        self._tidy()
        if not found:
            why = f"the search needed more than {self._seconds:g} s"
            if ended:
                why = f"the search failed, as {REPRO_FOLDER}/{_LOG} shows"
            return Located(f"{self._plain} There is no repro: {why}.")
        if found["departs"] is None:
            why = "the captured graph, compiled by itself in a fresh process, is right"
            return Located(f"{self._plain} There is no repro: {why}.", reproduced=False)
        departs = f"{self._plain} {found['departs']}"
        if not found["finished"]:
            departs += f" The search for a smaller part ended after {self._seconds:g} s."
        return Located(departs, REPRO_FOLDER, reproduced=True)

    def stop(self) -> Optional[int]:
        """End its process and all that it started; the exit status, None of one that still ran."""
        atexit.unregister(self.stop)
        process = self._process
        ended = None if process is None else process.poll()
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._cache.cleanup()
        return ended

    def _tidy(self) -> None:
        """Leave the script, its tensors and the log; nothing where the search never began."""
        with contextlib.suppress(OSError):
            for name in (HANDED_OVER, FOUND):
                with contextlib.suppress(FileNotFoundError):
                    (self._work / name).unlink()
            if not any(self._work.iterdir()):
                self._work.rmdir()


@dataclass
class _GraphCall:
    """A call of a graph within a replayed call."""

    graph: Any
    values: Dict[str, Any]
    cotangents: Dict[str, torch.Tensor]
    labels: Dict[str, str]
    """The module's names of the inputs that are its parameters or buffers."""


def hand_over(
    compiled: Compiled,
    compiler: Compiler,
    wrong: Sequence[Wrong],
    precision: str,
    work: Path,
    *,
    seconds: float,
) -> None:
    """Leave the graph that is compiled wrongly for the search, which may use `seconds` of a
    processor. Raises ObstacleError."""
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
    names = _readable_names(chosen)
    program, constants = program_of(chosen.graph, names)
    values = {**{names.get(name, name): each for name, each in chosen.values.items()}, **constants}
    size = sum(
        each.numel() * each.element_size()
        for each in values.values()
        if isinstance(each, torch.Tensor)
    )
    if size > _MOST_BYTES:
        raise ObstacleError(
            f"the graph's inputs take {megabytes(size)}, and a repro holds at most "
            f"{megabytes(_MOST_BYTES)}"
        )
    labels = {names.get(name, name): label for name, label in chosen.labels.items()}
    forward = any(not each.name.startswith(GRADIENT) for each in wrong)
    told = {
        "parameters": {name for name, label in labels.items() if label in lost and not forward},
        "worst": max(each.error for each in wrong),
        "seconds": seconds,
    }
    case = Case(program, values, chosen.cotangents)
    torch.save((case, how, labels, told), work / HANDED_OVER)


def _readable_names(call: _GraphCall) -> Dict[str, str]:
    """Names of inputs that a reader knows; none where they would not be unique."""
    names = {
        name: "p_" + re.sub(r"\W", "_", call.labels[name])
        if name in call.labels
        else re.sub(r"^l_(\w+?)_*$", r"\1", name)
        for name in call.values
    }
    others = {node.name for node in call.graph.graph.nodes} - set(names)
    return names if len({*names.values()} - others) == len(names) else {}


def _graph_calls(compiled: Compiled, compiler: Compiler) -> List[_GraphCall]:
    """Replay the last captured call with the graphs in eager mode; what went in and came back."""
    found: List[_GraphCall] = []
    module = unwrapped(compiled.module)
    own = {id(each): name for name, each in module.named_buffers()}
    own.update((id(each), name) for name, each in module.named_parameters())

    def watch(graph: Any, run: Any, arguments: Tuple[Any, ...]) -> Any:
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
        for node, result in zip(_output_nodes(graph), results):
            if isinstance(result, torch.Tensor) and result.requires_grad:
                result.register_hook(functools.partial(_keep, call.cotangents, node.name))
        return results

    with Replay(compiled, compiler) as replay, watching(watch):
        replay.compiled(compiled.calls[-1])
    return found


def _keep(cotangents: Dict[str, torch.Tensor], name: str, gradient: Optional[torch.Tensor]) -> None:
    if gradient is not None:
        cotangents[name] = gradient.detach().clone()


def _output_nodes(graph: Any) -> Sequence[Any]:
    results = next(node.args[0] for node in graph.graph.nodes if node.op == "output")
    return results if isinstance(results, (tuple, list)) else (results,)


def first_departing(compiled: Compiled, wrong: Sequence[Wrong]) -> str:
    """What the tensors that depart tell by themselves, in one sentence.

    Outputs come before gradients. Gradients are computed from the output back: the first one that
    departs is that of the last parameter, in the order of the modules, whose gradient does.
    """
    by_name = {each.name: each for each in wrong}
    forward = [each for each in wrong if not each.name.startswith(GRADIENT)]
    if forward:
        return f"The compiled {forward[0]} departs: the forward pass is wrong."
    names = [GRADIENT + name for name, _ in unwrapped(compiled.module).named_parameters()]
    places = [place for place, name in enumerate(names) if name in by_name]
    if not places:
        return (
            f"All outputs agree, and the compiled {wrong[0]} departs: the backward pass is wrong."
        )
    first = by_name[names[places[-1]]]
    agreeing = names[places[-1] + 1 : places[-1] + 2]
    after = f", and the {agreeing[0]}, computed before it, agrees" if agreeing else ""
    return (
        f"All outputs agree, and the compiled {first} is the first gradient that departs in the "
        f"backward pass{after}."
    )
