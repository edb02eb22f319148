"""The parity probe: does compiled code compute what eager code computes?

After the first steps it replays the captured calls at the current weights: eager, in float64 (the
reference), compiled, and eager again. Recorded is how far each is from the reference, for each
output tensor, parameter gradient and buffer change. The gate judges the record; the job judges it
at once with the default limits, and writes and runs a repro where compiled code departs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import sys
import time
from pathlib import Path
from typing import Iterable, NamedTuple, Sequence

import numpy as np
import torch

from compilegate.job.compilers import Compiler
from compilegate.job.evidence import ParityErrors, ParityRecord
from compilegate.job.evidence.parity import (
    CANNOT_TELL_SINCE,
    DEFAULT_PARITY_LIMITS,
    ParityAnswer,
    Why,
    coarsest,
    departing,
    error_ratios,
    lasting,
    not_compared,
    parity_verdict,
)
from compilegate.job.machine.numerics import own_precision, preserved_generators
from compilegate.job.machine.world import unwrapped
from compilegate.job.probes.capture import Call, Compiled, ObstacleError, attempted, no_new_graphs
from compilegate.job.probes.reference import GRADIENT, Errors, judge
from compilegate.job.probes.replay import Replay, Replayed
from compilegate.job.probes.repro import REPRO_FOLDER, Repro, Wrong, first_departing

REPRO_SECONDS = 360.0  # that the first run of a repro may take
_SHOWN = 5  # how many departing tensors are printed
SAMPLED = 1024
"""Numbers of a tensor that its digest covers: fetching a large model takes longer than the
comparison."""


@dataclasses.dataclass
class Parity:
    record: ParityRecord
    errors: ParityErrors | None  # None where there was nothing to compare: the record says why
    repro: Repro | None = None  # which may still run

    def stop(self) -> None:
        """End the repro's run: another probe takes the place of this one."""
        if self.repro is not None:
            self.repro.stop()

    def collected(self) -> ParityRecord:
        """The record with what the repro shows. Waits for the repro until its time is up."""
        repro, self.repro = self.repro, None
        if repro is None or self.errors is None:
            return self.record
        self.record = repro.added_to(self.record)
        _say(_outcome(self.record, self.errors))
        return self.record


@preserved_generators()
def probe_parity(
    compiled: Sequence[Compiled],
    *,
    compiler: Compiler,
    folder: Path,
    declared: str = "fp32",
    repro_seconds: float = REPRO_SECONDS,
) -> Parity:
    """Compare the captured calls with eager ones, and print the outcome.

    The precision is that of the calls, or `declared` where it does not show. Where they depart, a
    repro below `folder` starts to run, for at most `repro_seconds`. The training's state is
    afterwards what it was. Raises nothing.
    """
    began = time.perf_counter()
    table = _Table(compiler, [each for each in compiled if each.calls], declared)
    errors, obstacle = attempted(table.measured)
    record = ParityRecord(precision=table.precision, steps=0, seconds=0.0, obstacle=obstacle)
    repro = None
    if errors is not None:
        record = dataclasses.replace(
            record,
            steps=len(errors.compiled),
            trained_parameters=_trained_parameters(compiled),
            compared_parameters=sum(table.compared.values()),
            compared={name: each.hexdigest() for name, each in table.digests.items()},
        )
        wrong = table.wrong(errors)
        if wrong:
            function, own = wrong
            departs = first_departing(function, own)
            repro, why = attempted(
                lambda: Repro(
                    function,
                    compiler,
                    own,
                    precision=table.precision,
                    folder=folder,
                    seconds=repro_seconds,
                )
            )
            if repro is None:
                departs += f" There is no repro: {why}."
            record = dataclasses.replace(record, departs=departs)
    record = dataclasses.replace(record, seconds=time.perf_counter() - began)
    _say(_outcome(record, errors))
    if repro is not None:
        _say(f"parity: {REPRO_FOLDER} has a script that shows it, which runs beside the training")
    if record.precision != declared:
        _say(
            f"parity: judged in {record.precision}, as the steps compute; the arm declares "
            f"{declared}"
        )
    return Parity(record, errors, repro)


class _Rows(NamedTuple):
    """The errors of a function's calls that returned the same tensors: a line for each call."""

    function: Compiled
    title: str
    """What stands before the tensors' names, where there are several functions or kinds of calls.
    """
    calls: list[dict[str, Errors]]


class _Table:
    """What is compared of several functions, call by call."""

    def __init__(self, compiler: Compiler, called: Sequence[Compiled], declared: str) -> None:
        self._compiler, self._called, self._declared = compiler, called, declared
        self._rows: list[_Rows] = []
        self._reordered = False  # whether eager runs in the order of compilers, too
        self.precision = declared
        self.digests: dict[str, hashlib._Hash] = {}  # By variant, of what it computed
        self.compared: dict[int, int] = {}
        """By parameter, how many numbers had a gradient that was not all zero."""

    @property
    def _limit(self) -> float:
        return DEFAULT_PARITY_LIMITS[self.precision]

    def measured(self) -> ParityErrors:
        """Raises ObstacleError where there is nothing to compare."""
        if not self._called:
            raise ObstacleError("no compiled function was called in the first steps")
        around = (call.autocast.precision for each in self._called for call in each.calls)
        self.precision = coarsest([*(own_precision(each.module) for each in self._called), *around])
        if not self._compiler.compiles_whole_steps:  # those have their modules at home by now
            self._called = [each.with_calls_on_device() for each in self._called]
        with no_new_graphs(self._compiler):
            products, errors = self._measured()
            if self.precision == "fp32":
                self.precision = coarsest(each or self._declared for each in products)
            verdict = parity_verdict(errors, self.precision, self._limit)
            if verdict.answer is ParityAnswer.FAIL or verdict.why is Why.AT_TIMES:
                # Compilers put channels last, and add numbers one after another: eager rounds
                # otherwise in that order.
                self._reordered = True
                _, errors = self._measured()
        return errors

    def _measured(self) -> tuple[list[str | None], ParityErrors]:
        """Replay the calls: what each computed its products in, and one table of all. A function
        that was called less often repeats its rows."""
        self._rows, self.digests = [], {}
        products: list[str | None] = []
        for compiled in self._called:
            found: dict[tuple[str, ...], _Rows] = {}
            with Replay(compiled, self._compiler) as replay:
                for call in compiled.calls:
                    products.append(self._compare(compiled, call, replay, found))
            self._rows += found.values()
        length = max(len(rows.calls) for rows in self._rows)
        tables = [
            np.resize([[*call.values()] for call in rows.calls], (length, len(rows.calls[0]), 4))
            for rows in self._rows
        ]
        eager, repeated, compiled, _ = np.moveaxis(np.hstack(tables), -1, 0).copy()
        names = [rows.title + name for rows in self._rows for name in rows.calls[0]]
        return products, ParityErrors(np.array(names), eager, repeated, compiled)

    def _compare(
        self, compiled: Compiled, call: Call, replay: Replay, found: dict[tuple[str, ...], _Rows]
    ) -> str | None:
        """Add the errors of a call to those that were found; what it computed its products in."""
        eager, exact, own = replay.eager(call), replay.exact(call), replay.compiled(call)
        if own.others != eager.others:
            raise ObstacleError(
                "the model draws random numbers that are not torch's (NumPy's or Python's), and "
                "the compiled code draws others"
            )
        again = replay.eager(call)
        eagers = [eager]
        if self._reordered:
            eagers.append(replay.eager_reordered(call))
        self._note(compiled, {"exact": exact, "compiled": own, "eager": eager})
        judged = judge(
            exact.tensors,
            [each.tensors for each in eagers],
            again.tensors,
            own.tensors,
            {**exact.sizes, **own.sizes, **eager.sizes},
        )
        names = tuple(judged)
        if names not in found:
            parts = [compiled.name] if len(self._called) > 1 else []
            parts += [f"call {len(found) + 1}"] if found else []
            found[names] = _Rows(compiled, f"{' '.join(parts)}: " if parts else "", [])
        found[names].calls.append(judged)
        return again.precision

    def _note(self, compiled: Compiled, variants: dict[str, Replayed]) -> None:
        """Keep which parameters had a gradient, and digests of what was computed."""
        for name, parameter in unwrapped(compiled.module).named_parameters():
            gradient = variants["exact"].tensors.get(GRADIENT + name)
            if gradient is not None and id(parameter) not in self.compared and gradient.any():
                self.compared[id(parameter)] = parameter.numel()
        for variant, one in variants.items():
            digest = self.digests.setdefault(variant, hashlib.sha256())
            for name, tensor in sorted(one.tensors.items()):
                digest.update(f"{name}:{tuple(tensor.shape)};".encode())
                digest.update(_sample(tensor).tobytes())

    def wrong(self, errors: ParityErrors) -> tuple[Compiled, list[Wrong]] | None:
        """Print what departs; the first function that does, and its tensors. None if all agree."""
        departs = departing(errors, self.precision, self._limit)
        if not departs.any():
            return None
        ratios = lasting(error_ratios(errors, self.precision))
        middle, eager = np.median(errors.compiled, axis=0), np.median(errors.eager, axis=0)
        tensors = [(rows, name) for rows in self._rows for name in rows.calls[0]]
        found = []
        for place in np.flatnonzero(departs):
            rows, name = tensors[place]
            lost = all(call[name].is_lost for call in rows.calls)
            wrong = Wrong(name, float(middle[place]), float(eager[place]), lost)
            found.append((rows, wrong, ratios[place]))
        # Outputs first: where one departs, gradients only follow.
        shown = sorted(found, key=lambda each: (GRADIENT in each[1].name, -each[2]))
        lines = [
            f"parity: WRONG: {len(found)} of {len(tensors)} compiled tensors err more than "
            f"{self._limit:g} times what eager's rounding explains in {self.precision}:",
            *(f"  {rows.title}{wrong}" for rows, wrong, _ in shown[:_SHOWN]),
        ]
        if len(found) > _SHOWN:
            lines.append(f"  and {len(found) - _SHOWN} more")
        _say("\n".join(lines))
        function = found[0][0].function
        return function, [wrong for rows, wrong, _ in found if rows.function is function]


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


def _outcome(record: ParityRecord, errors: ParityErrors | None) -> str:
    """The gate's verdict on these errors, in one line."""
    if errors is None:
        return f"parity: cannot tell: {record.obstacle}"
    limit = DEFAULT_PARITY_LIMITS[record.precision]
    verdict = parity_verdict(errors, record.precision, limit, record.reproduced)
    worst, missing = verdict.worst, not_compared(record, errors)
    if verdict.answer is ParityAnswer.FAIL:
        where = "" if record.repro is None else f" Run it again: {record.repro}/repro.py"
        found = f"{record.departs}{where}"
    elif verdict.why in CANNOT_TELL_SINCE or worst is None:
        found = f"cannot tell: {CANNOT_TELL_SINCE[verdict.why]}"
    elif verdict.answer is ParityAnswer.CANNOT_TELL:
        found = (
            f"cannot tell: in {verdict.exceeded} of {record.steps} calls {worst.tensor} errs "
            f"{worst.ratio:.2g} times what eager's rounding explains, as near a kink"
        )
    elif missing is not None:
        found = f"cannot tell: {missing}"
    else:
        found = (
            f"alike: {verdict.judged} compiled tensors of {record.steps} calls err at most "
            f"{worst.ratio:.2g} times what eager's rounding explains"
        )
    return f"parity: {found} ({record.seconds:.1f} s)"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
