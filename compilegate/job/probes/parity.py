"""The parity probe: does compiled code compute what eager code computes?

Right after a job's first steps it replays the calls that were captured in them, at the weights that
the model has by then. Each call is a forward pass and a vector-Jacobian product with the gradients
that the script's own backward pass brought to its output, so no loss is needed. Four variants start
from equal weights, buffers and random numbers: eager in float64 (the reference), the compiled
function that trains, eager, and eager again. Recorded is how far each lies from the reference, for
each tensor of the output, the gradient of every parameter, and the buffers that a call changes.
The gate judges what is recorded. With the default limits this module judges at once, and where
compiled code departs it writes a repro.

    record, errors = probe_parity(compiled, compiler=compiler, folder=evidence_folder)
"""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np
import torch

from compilegate.job.compilers import Compiler
from compilegate.job.errors import one_sentence
from compilegate.job.evidence import ParityErrors, ParityRecord
from compilegate.job.evidence.parity import departing, error_ratios, lasting, repeats
from compilegate.job.evidence.precision import coarsest
from compilegate.job.machine.generators import preserved_generators
from compilegate.job.names import DEFAULT_PARITY_LIMITS
from compilegate.job.probes.capture import Compiled
from compilegate.job.probes.coverage import Compared, trained_parameters
from compilegate.job.probes.exact import NoRoomError
from compilegate.job.probes.repro.locate import Located, Wrong, locate
from compilegate.job.probes.variants import GRADIENT, ObstacleError, Replay, Tensors, relative_to
from compilegate.job.stepping.precision import own_precision

SEARCH_SECONDS = 60.0
"""How much of a processor the search for what departs first may use."""
_SHOWN = 5
"""How many departing tensors are printed."""


@preserved_generators()
def probe_parity(
    compiled: Sequence[Compiled],
    *,
    compiler: Compiler,
    folder: Path,
    declared: str = "fp32",
    search_seconds: float = SEARCH_SECONDS,
) -> Tuple[ParityRecord, Optional[ParityErrors]]:
    """Compare the captured calls of compiled functions with eager ones, and print what was found.

    Judged is in the precision that the calls had; where that does not show, it is the arm's,
    `declared`.

    Where they depart, a repro is written below `folder`, the job's evidence; the search for it uses
    `search_seconds` of a processor. Weights, buffers, gradients, random numbers and the compiler's
    counts are afterwards what they were. Where there is nothing to compare, the record says why and
    there are no errors. Nothing is raised: a trained model must not be lost to a measurement.
    """
    began = time.perf_counter()
    called = [each for each in compiled if each.calls]
    precision = _precision(called, [], declared)
    obstacle: Optional[str] = None
    errors: Optional[ParityErrors] = None
    located = Located()
    seen = Compared()
    try:
        if not called:
            raise ObstacleError("no compiled function was called in the first steps")
        with _no_new_graphs(compiler):
            measured = [_measure(each, compiler, seen) for each in called]
            errors = _joined(measured, called)
        precision = _precision(called, seen.precisions, declared)
        if departing(errors, precision, DEFAULT_PARITY_LIMITS[precision]).any():
            lost = _lost_names(measured, called)
            _say(_departures(errors, precision, lost))
            located = _search(
                errors,
                called,
                lost,
                precision=precision,
                compiler=compiler,
                folder=folder,
                seconds=search_seconds,
            )
    except (ObstacleError, NoRoomError) as error:
        errors, obstacle = None, str(error)
    except Exception as error:  # noqa: BLE001 - from any kernel of any library; see the docstring
        traceback.print_exc()
        errors, obstacle = None, f"the probe broke off: {one_sentence(error)}"
    record = ParityRecord(
        precision=precision,
        steps=0 if errors is None else len(errors.compiled),
        seconds=time.perf_counter() - began,
        obstacle=obstacle,
        repro=located.repro,
        departs=located.departs,
        trained_parameters=None if errors is None else trained_parameters(compiled),
        compared_parameters=None if errors is None else seen.parameters,
        compared={} if errors is None else seen.digests(),
    )
    _say(_outcome(record, errors))
    if precision != declared:
        _say(f"parity: judged in {precision}, as the steps compute; the arm declares {declared}")
    return record, errors


class _Measured(NamedTuple):
    """The errors of a function's calls that returned the same tensors: rows of numbers."""

    names: Tuple[str, ...]
    eager: List[List[float]]
    repeated: List[List[float]]
    compiled: List[List[float]]
    lost: Set[str]
    """The tensors that were exactly zero in each compiled call, and not in float64."""


def _measure(compiled: Compiled, compiler: Compiler, seen: Compared) -> List[_Measured]:
    """Replay the calls of a function. Calls that return different tensors are kept apart."""
    found: Dict[Tuple[str, ...], _Measured] = {}
    with Replay(compiled, compiler) as replay:
        for call in compiled.calls:
            exact = replay.exact(call)
            seen.add("exact", exact)
            seen.add_parameters(compiled.module, exact)
            scales = relative_to(exact)
            rows = found.setdefault(tuple(exact), _Measured(tuple(exact), [], [], [], {*exact}))
            compiled_tensors = replay.compiled(call)
            seen.add("compiled", compiled_tensors)
            rows.compiled.append(_distances(compiled_tensors, exact, scales))
            rows.lost.intersection_update(_lost(compiled_tensors, exact))
            eager = replay.eager(call)
            seen.add("eager", eager)
            seen.precisions.append(replay.precision)
            rows.eager.append(_distances(eager, exact, scales))
            rows.repeated.append(_distances(replay.eager(call), eager, scales))
    return list(found.values())


def _lost(found: Tensors, wanted: Tensors) -> Set[str]:
    """The tensors that are zero, and should not be."""
    zero = {name for name, each in found.items() if name in wanted and not each.any()}
    return {name for name in zero if wanted[name].any()}


def _distances(found: Tensors, wanted: Tensors, scales: Dict[str, float]) -> List[float]:
    """The norm of each difference, computed in float64, on the tensor's scale."""
    return [_relative(_distance(found.get(name), wanted[name]), scales[name]) for name in wanted]


def _distance(found: Optional[torch.Tensor], wanted: torch.Tensor) -> float:
    if found is None or found.shape != wanted.shape:
        return float("inf")
    kind = torch.complex128 if wanted.is_complex() or found.is_complex() else torch.float64
    return float((found.to(wanted.device, kind) - wanted.to(kind)).norm())


def _relative(distance: float, scale: float) -> float:
    if distance == 0:
        return 0.0
    return distance / scale if scale > 0 else float("inf")


def _joined(measured: Sequence[List[_Measured]], called: Sequence[Compiled]) -> ParityErrors:
    """One table for all functions. One that was called less often than others repeats its rows."""
    length = max(len(each.eager) for groups in measured for each in groups)
    names: List[str] = []
    columns: Dict[str, List[Any]] = {"eager": [], "repeated": [], "compiled": []}
    for function, groups in zip(called, measured):
        for number, each in enumerate(groups, start=1):
            names += [_title(called, function, number) + name for name in each.names]
            for variant, parts in columns.items():
                rows = getattr(each, variant)
                parts.append(np.array([rows[row % len(rows)] for row in range(length)]))
    return ParityErrors(
        tensors=np.array(names),
        **{variant: np.concatenate(parts, axis=1) for variant, parts in columns.items()},
    )


def _lost_names(measured: Sequence[List[_Measured]], called: Sequence[Compiled]) -> Set[str]:
    """The names, as in the table, of the tensors that are lost."""
    return {
        _title(called, function, number) + name
        for function, groups in zip(called, measured)
        for number, each in enumerate(groups, start=1)
        for name in each.lost
    }


def _title(called: Sequence[Compiled], function: Compiled, number: int) -> str:
    """What stands before a tensor's name: the function where there are several, and which kind of
    call where its calls return different tensors."""
    parts = [function.name] if len(called) > 1 else []
    parts += [f"call {number}"] if number > 1 else []
    return f"{' '.join(parts)}: " if parts else ""


@contextlib.contextmanager
def _no_new_graphs(compiler: Compiler) -> Iterator[None]:
    """Raises ObstacleError for graphs that came since; of whole steps they have to."""
    graphs = compiler.graphs()
    yield
    if compiler.graphs() != graphs and not compiler.compiles_whole_steps:
        raise ObstacleError("the probe made the compiler compile anew, so it judged other code")


def _precision(called: Sequence[Compiled], products: Sequence[Optional[str]], declared: str) -> str:
    """The precision of the calls, the coarsest of all: that of autocast around them or of their
    parameters, or else that of their `products`, and `declared` where these do not show it."""
    around = [call.autocast.precision for each in called for call in each.calls]
    own = [own_precision(each.module) for each in called]
    found = coarsest(around + own)
    if found != "fp32":
        return found
    return coarsest(each or declared for each in products or [None])


def _search(
    errors: ParityErrors,
    called: Sequence[Compiled],
    lost: Set[str],
    *,
    precision: str,
    compiler: Compiler,
    folder: Path,
    seconds: float,
) -> Located:
    """What departs first, with a repro. Whatever goes wrong in the search, the errors stand."""
    departs = departing(errors, precision, DEFAULT_PARITY_LIMITS[precision])
    for function in called:
        title = _title(called, function, 1)
        wrong = [
            Wrong(
                str(name)[len(title) :],
                float(np.median(errors.compiled[:, place])),
                float(np.median(errors.eager[:, place])),
                str(name) in lost,
            )
            for place, name in enumerate(errors.tensors)
            if departs[place] and str(name).startswith(title)
        ]
        if wrong:
            return locate(
                function, compiler, wrong, precision=precision, folder=folder, seconds=seconds
            )
    return Located()


def _departures(errors: ParityErrors, precision: str, lost: Set[str]) -> str:
    limit = DEFAULT_PARITY_LIMITS[precision]
    found = np.flatnonzero(departing(errors, precision, limit))
    ratios = lasting(error_ratios(errors, precision))
    lines = [
        f"parity: WRONG: {len(found)} of {len(errors.tensors)} compiled tensors err more than "
        f"{limit:g} times what eager's rounding explains in {precision}:"
    ]
    # Outputs first: where one departs, gradients only follow.
    order = sorted(found, key=lambda each: (GRADIENT in str(errors.tensors[each]), -ratios[each]))
    for place in order[:_SHOWN]:
        error, own = np.median(errors.compiled[:, place]), np.median(errors.eager[:, place])
        name = str(errors.tensors[place])
        lines.append(f"  {Wrong(name, float(error), float(own), name in lost)}")
    if len(found) > _SHOWN:
        lines.append(f"  and {len(found) - _SHOWN} more")
    return "\n".join(lines)


def _outcome(record: ParityRecord, errors: Optional[ParityErrors]) -> str:
    if errors is None:
        return f"parity: cannot tell: {record.obstacle}"
    took = f"{record.seconds:.1f} s"
    if record.departs is not None:
        where = "" if record.repro is None else f" Run it again: {record.repro}/repro.py"
        return f"parity: {record.departs}{where} ({took})"
    worst = float(lasting(error_ratios(errors, record.precision)).max())
    if not repeats(errors, record.precision):
        return f"parity: cannot tell: eager does not repeat itself, or is not finite ({took})"
    return (
        f"parity: {len(errors.tensors)} compiled tensors of {record.steps} calls compared, at most "
        f"{worst:.2g} times eager's own error ({took})"
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
