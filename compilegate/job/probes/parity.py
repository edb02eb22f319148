"""The parity probe: does compiled code compute what eager code computes?

Right after a job's first steps it replays the calls that were captured in them, at the weights that
the model has by then. Each call is a forward pass and a vector-Jacobian product with the gradients
that the script's own backward pass brought to its output, so no loss is needed. Four variants start
from equal weights, buffers and random numbers: eager, eager in float64 (the reference), the compiled
function that trains, and eager again. Recorded is how far each lies from the reference, for each
tensor of the output, the gradient of every parameter, and the changes of the buffers. The gate
judges what is recorded. With the default limits this module judges at once, and where compiled code
departs it starts the search for a repro, which runs beside the training.

    parity = probe_parity(compiled, compiler=compiler, folder=evidence_folder)
    ...
    record = parity.collected()  # at the end of the job
"""

from __future__ import annotations

import dataclasses
import hashlib
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np
import torch

from compilegate.job.compilers import Compiler
from compilegate.job.evidence import ParityErrors, ParityRecord
from compilegate.job.evidence.parity import (
    CANNOT_TELL_SINCE,
    ParityAnswer,
    ParityVerdict,
    departing,
    error_ratios,
    lasting,
    not_compared,
    parity_verdict,
)
from compilegate.job.evidence.precision import coarsest
from compilegate.job.machine.generators import preserved_generators
from compilegate.job.names import DEFAULT_PARITY_LIMITS
from compilegate.job.probes.capture import Call, Compiled
from compilegate.job.probes.obstacles import ObstacleError, attempted, no_new_graphs
from compilegate.job.probes.reference import GRADIENT, Tensors, error, is_lost, scales
from compilegate.job.probes.repro.locate import Search, Wrong, first_departing, start_search
from compilegate.job.probes.variants import BUFFER, Replay
from compilegate.job.script.saving import unwrapped
from compilegate.job.stepping.precision import own_precision

SEARCH_SECONDS = 60.0
"""How much of a processor the search for what departs first may use."""
_SHOWN = 5
"""How many departing tensors are printed."""
_COARSE = 0.02
"""Where eager errs by more than this share of a buffer's change, its value is the scale."""
SAMPLED = 1024
"""Numbers of a tensor that its digest is of, evenly over it: to fetch a large model from a device
several times would take longer than the comparison."""


@dataclasses.dataclass
class Parity:
    """What the probe found."""

    record: ParityRecord
    errors: Optional[ParityErrors]
    """None where there was nothing to compare: the record says why."""
    search: Optional[Search] = None
    """Where tensors depart, the search for a repro, which may still run."""

    def collected(self) -> ParityRecord:
        """The record with what the search has found: it is waited for, in the time that it has."""
        search, self.search = self.search, None
        if search is None or self.errors is None:
            return self.record
        found = search.collected()
        self.record = dataclasses.replace(
            self.record, departs=found.departs, repro=found.repro, reproduced=found.reproduced
        )
        _say(_outcome(self.record, self.errors))
        return self.record


@preserved_generators()
def probe_parity(
    compiled: Sequence[Compiled],
    *,
    compiler: Compiler,
    folder: Path,
    declared: str = "fp32",
    search_seconds: float = SEARCH_SECONDS,
) -> Parity:
    """Compare the captured calls of compiled functions with eager ones, and print what was found.

    Judged is in the precision that the calls had; where that does not show, it is the arm's,
    `declared`. Where they depart, a search for a repro below `folder`, the job's evidence, is
    started, which uses `search_seconds` of a processor. Weights, buffers, gradients, random numbers
    and the compiler's counts are afterwards what they were. Nothing is raised.
    """
    began = time.perf_counter()
    table = _Table(compiler, [each for each in compiled if each.calls], declared)
    errors, obstacle = attempted(table.measured)
    record = ParityRecord(
        precision=table.precision,
        steps=0 if errors is None else len(errors.compiled),
        seconds=time.perf_counter() - began,
        obstacle=obstacle,
        trained_parameters=None if errors is None else _trained_parameters(compiled),
        compared_parameters=None if errors is None else sum(table.compared.values()),
        compared={}
        if errors is None
        else {name: each.hexdigest() for name, each in table.digests.items()},
    )
    search = None
    if errors is not None and _verdict(record, errors).answer is ParityAnswer.FAIL:
        function, wrong = table.departures(errors)
        record = dataclasses.replace(record, departs=first_departing(function, wrong))
        search, _ = attempted(
            lambda: start_search(
                function,
                compiler,
                wrong,
                precision=record.precision,
                folder=folder,
                seconds=search_seconds,
            )
        )
    record = dataclasses.replace(record, seconds=time.perf_counter() - began)
    _say(_outcome(record, errors))
    if search is not None and search.runs:
        _say(
            "parity: a search for the smallest part that is wrong runs beside the training; it "
            f"uses at most {search_seconds:g} s of a processor"
        )
    if record.precision != declared:
        _say(
            f"parity: judged in {record.precision}, as the steps compute; the arm declares "
            f"{declared}"
        )
    return Parity(record, errors, search)


class _Rows(NamedTuple):
    """The errors of a function's calls that returned the same tensors."""

    names: Tuple[str, ...]
    eager: List[List[float]]
    repeated: List[List[float]]
    compiled: List[List[float]]
    lost: Set[str]
    """The tensors that were exactly zero in each compiled call, and not in eager ones."""


class _Table:
    """What is compared of several functions, call by call."""

    def __init__(self, compiler: Compiler, called: Sequence[Compiled], declared: str) -> None:
        self._compiler, self._called, self._declared = compiler, called, declared
        self._rows: List[List[_Rows]] = []
        self.precision = declared
        self.digests: Dict[str, hashlib._Hash] = {}
        """By variant, of what it computed."""
        self.compared: Dict[int, int] = {}
        """By parameter, how many numbers it has that had a gradient. One of zero shows nothing: nor
        does it train."""

    def measured(self) -> ParityErrors:
        """Raises ObstacleError where there is nothing to compare."""
        self.precision = coarsest(
            precision
            for each in self._called
            for precision in (
                own_precision(each.module),
                *(call.autocast.precision for call in each.calls),
            )
        )
        if not self._called:
            self.precision = self._declared
            raise ObstacleError("no compiled function was called in the first steps")
        if not self._compiler.compiles_whole_steps:  # those have their modules at home by now
            self._called = [each.with_calls_back() for each in self._called]
        products: List[Optional[str]] = []
        with no_new_graphs(self._compiler):
            self._rows = [self._measured(each, products) for each in self._called]
        if self.precision == "fp32":
            self.precision = coarsest(each or self._declared for each in products)
        errors = self._joined()
        limit = DEFAULT_PARITY_LIMITS[self.precision]
        if departing(errors, self.precision, limit).any():
            for function, groups in zip(self._called, self._rows):
                _add_formats(function, self._compiler, groups)
            errors = self._joined()
        return errors

    def _measured(self, compiled: Compiled, products: List[Optional[str]]) -> List[_Rows]:
        """Replay the calls of a function. Calls that return different tensors are kept apart."""
        found: Dict[Tuple[str, ...], _Rows] = {}
        with Replay(compiled, self._compiler) as replay:
            for call in compiled.calls:
                if call.obstacle is not None:
                    raise ObstacleError(call.obstacle)
                eager = replay.eager(call)
                products.append(replay.precision)
                others = replay.others_drawn
                exact = replay.exact(call)
                self._note_parameters(compiled, exact)
                own = replay.compiled(call)
                if replay.others_drawn != others:
                    raise ObstacleError(
                        "the model draws random numbers that are not torch's (NumPy's or "
                        "Python's), and the compiled code draws others"
                    )
                again = replay.eager(call)
                for name, tensors in (("exact", exact), ("compiled", own), ("eager", eager)):
                    self._digest(name, tensors)
                line = _Line(exact, eager, own, replay.sizes)
                rows = found.setdefault(line.names, _Rows(line.names, [], [], [], {*line.names}))
                rows.eager.append(line.errors(eager))
                rows.compiled.append(line.errors_of_compiled())
                rows.repeated.append(line.errors(again, eager))
                rows.lost.intersection_update(line.lost)
        return list(found.values())

    def _note_parameters(self, compiled: Compiled, exact: Tensors) -> None:
        for name, parameter in unwrapped(compiled.module).named_parameters():
            gradient = exact.get(GRADIENT + name)
            if gradient is not None and id(parameter) not in self.compared and gradient.any():
                self.compared[id(parameter)] = parameter.numel()

    def _digest(self, variant: str, tensors: Tensors) -> None:
        digest = self.digests.setdefault(variant, hashlib.sha256())
        for name in sorted(tensors):
            digest.update(f"{name}:{tuple(tensors[name].shape)};".encode())
            digest.update(_sample(tensors[name]).tobytes())

    def _joined(self) -> ParityErrors:
        """One table for all functions. One that was called less often repeats its rows."""
        length = max(len(each.eager) for groups in self._rows for each in groups)
        columns: Dict[str, List[Any]] = {"eager": [], "repeated": [], "compiled": []}
        for groups in self._rows:
            for each in groups:
                for variant, parts in columns.items():
                    rows = getattr(each, variant)
                    parts.append(np.array([rows[row % len(rows)] for row in range(length)]))
        return ParityErrors(
            tensors=np.array(
                [title + name for title, each in self._titled() for name in each.names]
            ),
            **{variant: np.concatenate(parts, axis=1) for variant, parts in columns.items()},
        )

    def _titled(self) -> Iterable[Tuple[str, _Rows]]:
        """With what stands before its tensors' names: the function where there are several, and
        which kind of call where its calls return different tensors."""
        for function, groups in zip(self._called, self._rows):
            for number, each in enumerate(groups, start=1):
                parts = [function.name] if len(self._called) > 1 else []
                parts += [f"call {number}"] if number > 1 else []
                yield f"{' '.join(parts)}: " if parts else "", each

    def departures(self, errors: ParityErrors) -> Tuple[Compiled, List[Wrong]]:
        """Print what departs; the first function that does, and its tensors."""
        limit = DEFAULT_PARITY_LIMITS[self.precision]
        found = departing(errors, self.precision, limit)
        ratios = lasting(error_ratios(errors, self.precision))
        lost = [name in each.lost for _, each in self._titled() for name in each.names]
        function_of = [
            place for place, groups in enumerate(self._rows) for each in groups for _ in each.names
        ]
        plain = [name for groups in self._rows for each in groups for name in each.names]

        def wrong(place: int, name: str) -> Wrong:
            compiled, eager = errors.compiled[:, place], errors.eager[:, place]
            return Wrong(name, float(np.median(compiled)), float(np.median(eager)), lost[place])

        # Outputs first: where one departs, gradients only follow.
        order = sorted(np.flatnonzero(found), key=lambda it: (GRADIENT in plain[it], -ratios[it]))
        lines = [
            f"parity: WRONG: {len(order)} of {len(found)} compiled tensors err more than "
            f"{limit:g} times what eager's rounding explains in {self.precision}:",
            *(f"  {wrong(place, str(errors.tensors[place]))}" for place in order[:_SHOWN]),
        ]
        if len(order) > _SHOWN:
            lines.append(f"  and {len(order) - _SHOWN} more")
        _say("\n".join(lines))
        first = function_of[int(np.flatnonzero(found)[0])]
        return self._called[first], [
            wrong(place, plain[place])
            for place in np.flatnonzero(found)
            if function_of[place] == first
        ]


class _Line:
    """One call in its variants: what each tensor's error is relative to."""

    def __init__(
        self, exact: Tensors, eager: Tensors, compiled: Tensors, sizes: Dict[str, float]
    ) -> None:
        self._exact, self._eager, self._compiled = exact, eager, compiled
        changed = {
            name: each
            for one in (compiled, eager)
            for name, each in one.items()
            if name.startswith(BUFFER)
        }
        self._scales = scales({**exact, **changed, **exact})
        self.names = tuple(self._scales)
        for name in changed:
            if self._error(eager, exact, name) > _COARSE:
                self._scales[name] = max(self._scales[name], sizes.get(name, 0.0))
        self.lost = {
            name
            for name in exact
            if name in eager and is_lost(self._of(compiled, name), eager[name], exact[name])
        }

    def errors(self, found: Tensors, wanted: Optional[Tensors] = None) -> List[float]:
        """How far each tensor is from the exact one, or from the wanted one."""
        reference = self._exact if wanted is None else wanted
        return [self._error(found, reference, name) for name in self.names]

    def errors_of_compiled(self) -> List[float]:
        """What is exactly zero, and should not be, is off by all of itself, however small."""
        found = zip(self.names, self.errors(self._compiled))
        return [max(each, 1.0) if name in self.lost else each for name, each in found]

    def _error(self, found: Tensors, wanted: Tensors, name: str) -> float:
        exact = self._of(wanted, name)
        if exact is None:
            return float("inf")
        return error(self._of(found, name), exact, self._scales[name])

    def _of(self, tensors: Tensors, name: str) -> Optional[torch.Tensor]:
        """A buffer that a variant does not change has a change of zero."""
        if name in tensors or not name.startswith(BUFFER):
            return tensors.get(name)
        some = next(
            each[name] for each in (self._exact, self._eager, self._compiled) if name in each
        )
        return torch.zeros_like(some)


def _add_formats(function: Compiled, compiler: Compiler, groups: List[_Rows]) -> None:
    """Count as eager's the larger error of two layouts: compilers put channels last, and a
    convolution rounds by its layout. It is looked at on suspicion alone."""
    rows = {each.names: [*each.eager] for each in groups}
    with Replay(function, compiler) as replay:
        if not replay.has_images(function.calls):
            return
        for call in function.calls:
            eager = replay.eager(call)
            exact = replay.exact(call)
            line = _Line(exact, eager, replay.compiled(call), replay.sizes)
            other = line.errors(replay.eager_channels_last(call))
            own = rows[line.names].pop(0)
            own[:] = [max(pair) for pair in zip(own, other)]


def _trained_parameters(compiled: Iterable[Compiled]) -> int:
    """Numbers in the parameters that the functions' modules train; shared ones count once."""
    parameters = {
        id(one): one.numel()
        for each in compiled
        for one in unwrapped(each.module).parameters()
        if one.requires_grad
    }
    return sum(parameters.values())


def _sample(tensor: torch.Tensor) -> np.ndarray:
    flat = tensor.detach().reshape(-1)
    few = flat[:: max(flat.numel() // SAMPLED, 1)][:SAMPLED]
    if few.is_complex():
        few = torch.view_as_real(few)
    found: np.ndarray = few.to("cpu", torch.float64).numpy()
    return found


def _verdict(record: ParityRecord, errors: ParityErrors) -> ParityVerdict:
    limit = DEFAULT_PARITY_LIMITS[record.precision]
    return parity_verdict(errors, record.precision, limit, record.reproduced)


def _outcome(record: ParityRecord, errors: Optional[ParityErrors]) -> str:
    """The gate's verdict on these errors, in one line."""
    if errors is None:
        return f"parity: cannot tell: {record.obstacle}"
    took = f"({record.seconds:.1f} s)"
    verdict = _verdict(record, errors)
    worst = verdict.worst
    if verdict.answer is ParityAnswer.FAIL:
        where = "" if record.repro is None else f" Run it again: {record.repro}/repro.py"
        return f"parity: {record.departs}{where} {took}"
    if verdict.why in CANNOT_TELL_SINCE or worst is None:
        return f"parity: cannot tell: {CANNOT_TELL_SINCE[verdict.why]} {took}"
    if verdict.answer is ParityAnswer.CANNOT_TELL:
        return (
            f"parity: cannot tell: in {verdict.exceeded} of {record.steps} calls {worst.tensor} "
            f"errs {worst.ratio:.2g} times what eager's rounding explains, as near a kink {took}"
        )
    missing = not_compared(record, errors)
    if missing is not None:
        return f"parity: cannot tell: {missing} {took}"
    return (
        f"parity: alike: {verdict.judged} compiled tensors of {record.steps} calls err at most "
        f"{worst.ratio:.2g} times what eager's rounding explains {took}"
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
