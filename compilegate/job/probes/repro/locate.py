"""Which part of a model is compiled wrongly, and a script that shows it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from compilegate.job.compilers import Compiler
from compilegate.job.compilers.graphs import watching
from compilegate.job.errors import one_sentence
from compilegate.job.evidence.parity import EPSILON
from compilegate.job.names import (
    COMPILE_THREADS_VARIABLE,
    DEFAULT_PARITY_LIMITS,
    INDUCTOR_CACHE_VARIABLE,
)
from compilegate.job.probes.capture import Compiled, Copies, with_tensors
from compilegate.job.probes.exact import megabytes
from compilegate.job.probes.repro.case import How, beyond
from compilegate.job.probes.repro.program import NotStandaloneError, program_of
from compilegate.job.probes.repro.search import FOUND, HANDED_OVER
from compilegate.job.probes.repro.side_by_side import Arguments, Row, compared, variants
from compilegate.job.probes.variants import GRADIENT, ObstacleError, Replay, unwrapped

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


@dataclass(frozen=True)
class Located:
    """What the search found: `ParityRecord.departs` and `ParityRecord.repro`."""

    departs: Optional[str] = None
    repro: Optional[str] = None


def locate(
    compiled: Compiled,
    compiler: Compiler,
    wrong: Sequence[Wrong],
    *,
    precision: str,
    folder: Path,
    seconds: float,
) -> Located:
    """Find what departs first, and write a script that shows it below `folder`.

    The search uses `seconds` of a processor, and where the machine is busy up to six times that.
    Where it is not possible, or finds nothing, the sentence
    says what the tensors tell by themselves, and why there is nothing else.
    """
    plain = first_departing(compiled, wrong)
    work = folder / REPRO_FOLDER
    try:
        work.mkdir(parents=True, exist_ok=True)
        hand_over(compiled, compiler, precision, work, seconds=seconds)
        ended = _searched(work, _WAITED * seconds)
        found = _found(work)
    except (NotStandaloneError, ObstacleError) as error:
        return Located(f"{plain} There is no repro: {error}.")
    except Exception as error:  # noqa: BLE001 - the finding stands without its place
        traceback.print_exc()
        return Located(f"{plain} There is no repro: the search broke off: {one_sentence(error)}.")
    finally:
        _tidy(work)
    if found is None:
        return Located(f"{plain} There is no repro: {_why_none(ended, seconds)}.")
    ran_out = f" The search for a smaller part ended after {seconds:g} s."
    return Located(
        departs=f"{plain} {found['departs']}{'' if found['finished'] else ran_out}",
        repro=REPRO_FOLDER,
    )


def _why_none(ended: Optional[int], seconds: float) -> str:
    if ended is None:
        return f"the search needed more than {seconds:g} s"
    if ended:
        return f"the search failed, as {REPRO_FOLDER}/{_LOG} shows"
    return "the captured graph, compiled by itself in a fresh process, is right"


def _tidy(work: Path) -> None:
    """Leave the script, its tensors and the log; nothing where the search never began."""
    with contextlib.suppress(OSError):
        for name in (HANDED_OVER, FOUND):
            with contextlib.suppress(FileNotFoundError):
                (work / name).unlink()
        if not any(work.iterdir()):
            work.rmdir()


@dataclass
class _GraphCall:
    """A call of a graph within a replayed call."""

    graph: Any
    run: Any
    """What was compiled of it."""
    values: Dict[str, Any]
    cotangents: Dict[str, torch.Tensor]
    labels: Dict[str, str]
    """The module's names of the inputs that are its parameters or buffers."""


def hand_over(
    compiled: Compiled, compiler: Compiler, precision: str, work: Path, *, seconds: float
) -> None:
    """Leave the graph that is compiled wrongly for the search, which may use `seconds` of a
    processor. Raises ObstacleError and NotStandaloneError."""
    how = getattr(compiler, "again", dict)()
    if not how:
        raise ObstacleError("its compiler is no backend of torch.compile")
    call = compiled.calls[-1]
    calls = _graph_calls(compiled, compiler)
    if not calls:
        raise ObstacleError("no graph was called")
    settings = How(
        compiler=how,
        device=str(compiled.device),
        autocast=str(call.autocast.dtype).rpartition(".")[2] if call.autocast.enabled else None,
        epsilon=EPSILON[precision],
        limit=DEFAULT_PARITY_LIMITS[precision],
    )
    wrong = {place: _wrong_in(each, settings) for place, each in enumerate(calls)}
    place = next((place for place, rows in wrong.items() if rows), 0)
    chosen, rows = calls[place], wrong[place]
    program, constants = program_of(chosen.graph)
    values = {**chosen.values, **constants}
    size = sum(each.numel() * each.element_size() for each in values.values() if _is_tensor(each))
    if size > _MOST_BYTES:
        raise ObstacleError(
            f"the graph's inputs take {megabytes(size)}, and a repro holds at most "
            f"{megabytes(_MOST_BYTES)}"
        )
    labels = chosen.labels
    names = {
        name: "p_" + re.sub(r"\W", "_", labels[name])
        if name in labels
        else re.sub(r"^l_(\w+?)_*$", r"\1", name)
        for name in values
    }
    if len(set(names.values())) < len(names):
        names = {}
    handed = {
        "program": program.renamed(names).to_json(),
        "values": {names.get(name, name): each for name, each in values.items()},
        "cotangents": chosen.cotangents,
        "how": dataclasses.asdict(settings),
        "seconds": seconds,
        "known": {_renamed(name, names): tuple(row) for name, row in rows.items()},
        "labels": {names.get(name, name): label for name, label in labels.items()},
    }
    torch.save(handed, work / HANDED_OVER)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


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
        call = _GraphCall(graph, run, values, {}, labels)
        found.append(call)
        results = graph(*arguments)
        for node, result in zip(_output_nodes(graph), results):
            if _is_tensor(result) and result.requires_grad:
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


def _renamed(tensor: str, names: Dict[str, str]) -> str:
    return " ".join(names.get(word, word) for word in tensor.split(" "))


def _wrong_in(call: _GraphCall, how: How) -> Dict[str, Row]:
    """What departs in the compiled graph, called by itself."""
    outputs = tuple(getattr(node, "name", "") for node in _output_nodes(call.graph))
    arguments = Arguments(
        call.values, outputs, call.cotangents, torch.device(how.device).type, how.autocast
    )
    return beyond(compared(variants(call.graph, call.run, arguments)), how)


def _searched(work: Path, seconds: float) -> Optional[int]:
    """Run the search in a process of its own; its exit status, or None if it was ended."""
    with tempfile.TemporaryDirectory(prefix="repro-") as cache:
        environment = {
            **{name: each for name, each in os.environ.items() if name not in _OF_PROCESSES},
            "PYTHONPATH": os.pathsep.join(each or os.getcwd() for each in sys.path),
            INDUCTOR_CACHE_VARIABLE: cache,
            COMPILE_THREADS_VARIABLE: "1",  # compilers that it starts are waited for, and counted
            "OMP_NUM_THREADS": str(torch.get_num_threads()),
        }
        with (work / _LOG).open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "compilegate.job.probes.repro.search", str(work)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                return process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                return None
            finally:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _found(work: Path) -> Optional[Dict[str, Any]]:
    file = work / FOUND
    if not file.exists():
        return None
    found: Dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


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
