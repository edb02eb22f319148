"""The parity probe: does compiled code compute what eager code computes?

Right after a job's first steps it replays the calls that were captured in them, at the weights that
the model has by then. Each call is a forward pass and a vector-Jacobian product with the gradients
that the script's own backward pass brought to its output, so no loss is needed. Four variants start
from equal weights, buffers and random numbers: eager, eager in float64 (the reference), the
compiled function that trains, and eager again. Recorded is how far each lies from the reference,
for each tensor of the output, the gradient of every parameter, and the changes of buffers. The gate
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
    coarsest,
    departing,
    error_ratios,
    lasting,
    not_compared,
    parity_verdict,
)
from compilegate.job.machine.numerics import own_precision, preserved_generators
from compilegate.job.machine.world import unwrapped
from compilegate.job.names import DEFAULT_PARITY_LIMITS
from compilegate.job.probes.capture import Call, Compiled, ObstacleError, attempted, no_new_graphs
from compilegate.job.probes.locate import Search, Wrong, first_departing
from compilegate.job.probes.reference import BUFFER, GRADIENT, Tensors, error, is_lost, scales
from compilegate.job.probes.replay import Replay

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

    def stop(self) -> None:
        """End the search: another probe takes the place of this one."""
        if self.search is not None:
            self.search.stop()

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
    limit = DEFAULT_PARITY_LIMITS[record.precision]
    if errors is not None and departing(errors, record.precision, limit).any():
        function, wrong = table.departures(errors)
        record = dataclasses.replace(record, departs=first_departing(function, wrong))
        search, _ = attempted(
            lambda: Search(
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
    """The errors of a function's calls that returned the same tensors: a line for each call."""

    function: Compiled
    title: str
    """What stands before the tensors' names: the function where there are several, and which kind
    of call where its calls return different tensors."""
    names: Tuple[str, ...]
    errors: Dict[str, List[List[float]]]
    """By column of `ParityErrors`."""
    lost: Set[str]
    """The tensors that were exactly zero in each compiled call, and not in eager ones."""


class _Table:
    """What is compared of several functions, call by call."""

    def __init__(self, compiler: Compiler, called: Sequence[Compiled], declared: str) -> None:
        self._compiler, self._called, self._declared = compiler, called, declared
        self._rows: List[_Rows] = []
        self.precision = declared
        self.digests: Dict[str, hashlib._Hash] = {}
        """By variant, of what it computed."""
        self.compared: Dict[int, int] = {}
        """By parameter, how many numbers it has that had a gradient. One of zero shows nothing: nor
        does it train."""

    def measured(self) -> ParityErrors:
        """Raises ObstacleError where there is nothing to compare."""
        if not self._called:
            raise ObstacleError("no compiled function was called in the first steps")
        calls = [call for each in self._called for call in each.calls]
        own = [own_precision(each.module) for each in self._called]
        self.precision = coarsest([*own, *(call.autocast.precision for call in calls)])
        for call in calls:
            if call.obstacle is not None:
                raise ObstacleError(call.obstacle)
        if not self._compiler.compiles_whole_steps:  # those have their modules at home by now
            self._called = [each.with_calls_back() for each in self._called]
        products: List[Optional[str]] = []
        with no_new_graphs(self._compiler):
            self._measure(products)
            if self.precision == "fp32":
                self.precision = coarsest(each or self._declared for each in products)
            errors = self._joined()
            limit = DEFAULT_PARITY_LIMITS[self.precision]
            if departing(errors, self.precision, limit).any():
                # Compilers put channels last, and a convolution rounds by its layout.
                self._measure(products, formats=True)
                errors = self._joined()
        return errors

    def _measure(self, products: List[Optional[str]], *, formats: bool = False) -> None:
        """Replay the calls. Those that return different tensors are kept apart."""
        self._rows, self.digests = [], {}
        for compiled in self._called:
            found: Dict[Tuple[str, ...], _Rows] = {}
            with Replay(compiled, self._compiler) as replay:
                for call in compiled.calls:
                    self._compare(compiled, call, replay, found, formats=formats)
                    products.append(replay.precision)
            self._rows += found.values()

    def _compare(
        self,
        compiled: Compiled,
        call: Call,
        replay: Replay,
        found: Dict[Tuple[str, ...], _Rows],
        *,
        formats: bool,
    ) -> None:
        eager = replay.eager(call)
        others = replay.others_drawn
        exact = replay.exact(call)
        own = replay.compiled(call)
        if replay.others_drawn != others:
            raise ObstacleError(
                "the model draws random numbers that are not torch's (NumPy's or Python's), and "
                "the compiled code draws others"
            )
        again = replay.eager(call)
        for name, parameter in unwrapped(compiled.module).named_parameters():
            gradient = exact.get(GRADIENT + name)
            if gradient is not None and id(parameter) not in self.compared and gradient.any():
                self.compared[id(parameter)] = parameter.numel()
        for variant, tensors in (("exact", exact), ("compiled", own), ("eager", eager)):
            digest = self.digests.setdefault(variant, hashlib.sha256())
            for name in sorted(tensors):
                digest.update(f"{name}:{tuple(tensors[name].shape)};".encode())
                digest.update(_sample(tensors[name]).tobytes())
        line = _Line(exact, eager, own, replay.sizes)
        if line.names not in found:
            parts = [compiled.name] if len(self._called) > 1 else []
            parts += [f"call {len(found) + 1}"] if found else []
            title = f"{' '.join(parts)}: " if parts else ""
            columns: Dict[str, List[List[float]]] = {"eager": [], "repeated": [], "compiled": []}
            found[line.names] = _Rows(compiled, title, line.names, columns, {*line.names})
        rows = found[line.names]
        errors = line.errors(eager)
        if formats and replay.has_images(call):
            errors = [*map(max, errors, line.errors(replay.eager_channels_last(call)))]
        rows.errors["eager"].append(errors)
        rows.errors["repeated"].append(line.errors(again, eager))
        rows.errors["compiled"].append(line.errors_of_compiled())
        rows.lost.intersection_update(line.lost)

    def _joined(self) -> ParityErrors:
        """One table for all functions. One that was called less often repeats its rows."""
        length = max(len(each.errors["eager"]) for each in self._rows)
        columns: Dict[str, Any] = {
            column: np.concatenate(
                [
                    np.array(
                        [
                            each.errors[column][row % len(each.errors[column])]
                            for row in range(length)
                        ]
                    )
                    for each in self._rows
                ],
                axis=1,
            )
            for column in ("eager", "repeated", "compiled")
        }
        names = [each.title + name for each in self._rows for name in each.names]
        return ParityErrors(tensors=np.array(names), **columns)

    def departures(self, errors: ParityErrors) -> Tuple[Compiled, List[Wrong]]:
        """Print what departs; the first function that does, and its tensors."""
        limit = DEFAULT_PARITY_LIMITS[self.precision]
        ratios = lasting(error_ratios(errors, self.precision))
        middle, eager = np.median(errors.compiled, axis=0), np.median(errors.eager, axis=0)
        tensors = [(each, name) for each in self._rows for name in each.names]
        found = [
            (rows, Wrong(name, float(middle[place]), float(eager[place]), name in rows.lost), place)
            for place, (rows, name) in enumerate(tensors)
            if departing(errors, self.precision, limit)[place]
        ]
        # Outputs first: where one departs, gradients only follow.
        shown = sorted(found, key=lambda each: (GRADIENT in each[1].name, -ratios[each[2]]))
        lines = [
            f"parity: WRONG: {len(found)} of {len(tensors)} compiled tensors err more than "
            f"{limit:g} times what eager's rounding explains in {self.precision}:",
            *(f"  {rows.title}{wrong}" for rows, wrong, _ in shown[:_SHOWN]),
        ]
        if len(found) > _SHOWN:
            lines.append(f"  and {len(found) - _SHOWN} more")
        _say("\n".join(lines))
        function = found[0][0].function
        return function, [wrong for rows, wrong, _ in found if rows.function is function]


class _Line:
    """One call in its variants: what each tensor's error is relative to."""

    def __init__(
        self, exact: Tensors, eager: Tensors, compiled: Tensors, sizes: Dict[str, float]
    ) -> None:
        self._exact, self._compiled = exact, compiled
        changed = {
            name: each
            for tensors in (compiled, eager, exact)
            for name, each in tensors.items()
            if name.startswith(BUFFER)
        }
        # A buffer that a variant does not change has a change of zero.
        self._unchanged = {name: torch.zeros_like(each) for name, each in changed.items()}
        self._scales = scales({**exact, **changed, **exact})
        self.names = tuple(self._scales)
        for name in changed:
            if self._error(eager, exact, name) > _COARSE:
                self._scales[name] = max(self._scales[name], sizes.get(name, 0.0))
        self.lost = {
            name
            for name in set(exact) & set(eager)
            if is_lost(compiled.get(name, self._unchanged.get(name)), eager[name], exact[name])
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
        exact = wanted.get(name, self._unchanged.get(name))
        if exact is None:
            return float("inf")
        return error(found.get(name, self._unchanged.get(name)), exact, self._scales[name])


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


def _outcome(record: ParityRecord, errors: Optional[ParityErrors]) -> str:
    """The gate's verdict on these errors, in one line."""
    if errors is None:
        return f"parity: cannot tell: {record.obstacle}"
    took = f"({record.seconds:.1f} s)"
    limit = DEFAULT_PARITY_LIMITS[record.precision]
    verdict = parity_verdict(errors, record.precision, limit, record.reproduced)
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
