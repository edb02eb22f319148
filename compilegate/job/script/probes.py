"""A job's probes: parity after the first steps, paired speed after the training. Neither is part of
what the job measures; the peak of its memory is taken before and after them."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Iterator, Sequence

from compilegate.job import contract
from compilegate.job.errors import one_sentence
from compilegate.job.evidence import PairedBlocks, PairedSpeedRecord, ParityErrors, ParityRecord
from compilegate.job.evidence.parity import DEFAULT_PARITY_LIMITS, ParityAnswer, parity_verdict
from compilegate.job.machine.memory import peak_memory
from compilegate.job.script.config import JobConfig

if TYPE_CHECKING:
    from compilegate.job.probes.parity import Parity
    from compilegate.job.script.compiled import Compilation, Dispatch

SHARDED = (
    "parameters are sharded: one process alone cannot repeat a step of a model that FSDP or "
    "DeepSpeed divides among several"
)


class Probes:
    """What the probes found, and what they took. None of their exceptions reaches the training."""

    def __init__(self, config: JobConfig) -> None:
        self._config = config
        self._wants_parity = config.compiler != "eager" and config.parity_steps > 0
        self._wants_speed = config.baseline is not None and config.speed_probe_seconds != 0
        for_speed = contract.DEFAULT_PARITY_STEPS if self._wants_speed else 0
        self.steps_to_keep = config.parity_steps if self._wants_parity else for_speed
        """How many first steps the probes look at; zero where none will run."""
        self.parity: ParityRecord | None = None
        self.errors: ParityErrors | None = None
        self.speed: PairedSpeedRecord | None = None
        self.blocks: PairedBlocks | None = None
        self._found: Parity | None = None
        self._ran: list[tuple[float, float]] = []
        self._peak: int | None = 0  # before them; None where it cannot be told from theirs

    @property
    def is_wrong(self) -> bool:
        """Whether the compiled arithmetic is, by the gate's rule with its default limits."""
        if self.parity is None or self.errors is None:
            return False
        precision = self.parity.precision
        limit = DEFAULT_PARITY_LIMITS[precision]
        verdict = parity_verdict(self.errors, precision, limit, self.parity.reproduced)
        return verdict.answer is ParityAnswer.FAIL

    def set_obstacle(self, obstacle: str, precision: str) -> None:
        if self._config.parity_steps:
            self.errors = None
            self.parity = ParityRecord(precision=precision, steps=0, seconds=0.0, obstacle=obstacle)

    def compare_arithmetic(
        self, compilation: Compilation, ready: Sequence[Dispatch], precision: str
    ) -> None:
        """Run the parity probe on the kept calls of these functions and, again, of those that were
        ready before. No more calls are kept. `precision` is the arm's."""
        left = compilation.compiler.left_to_eager
        if compilation.is_sharded:
            self.set_obstacle(SHARDED, precision)
        elif self._wants_parity and left:
            self.set_obstacle(f"it did not run compiled: {left}", precision)
        elif self._wants_parity and compilation.parts:
            looked_at = [each for each in compilation.dispatches if each in ready or not each.keeps]
            try:
                self._probe_parity(compilation, looked_at, precision)
            except Exception as error:  # noqa: BLE001 - whatever it is, the training goes on
                reason = f"the parity probe failed: {one_sentence(error)}"
                print(f"compilegate: {reason}. The training goes on.", flush=True)
                self.set_obstacle(reason, precision)
        for dispatch in ready:
            dispatch.end_capture()

    def _probe_parity(
        self, compilation: Compilation, looked_at: Sequence[Dispatch], precision: str
    ) -> None:
        from compilegate.job.probes.parity import probe_parity  # noqa: PLC0415 - torch

        with self._uncounted(compilation):
            if self._found is not None:
                self._found.stop()
            self._found = probe_parity(
                [each.part for each in looked_at],
                compiler=compilation.compiler,
                folder=Path(self._config.output) / contract.EVIDENCE_FOLDER,
                declared=precision,
            )
        self.parity, self.errors = self._found.record, self._found.errors

    def collect(self) -> None:
        """Wait for the run of the repro, and record what it showed: a graph that is right by
        itself is not wrong."""
        found, self._found = self._found, None
        if found is None:
            return
        try:
            self.parity = found.collected()
        except Exception as error:  # noqa: BLE001 - what the probe found stands without a repro
            print(f"compilegate: the run of the repro failed: {one_sentence(error)}", flush=True)

    def compare_speed(
        self, compilation: Compilation, train_seconds: float, precision: str, batch_size: int
    ) -> None:
        """Run the paired speed probe, unless it is off, was run, or has nothing to compare."""
        config, baseline = self._config, self._config.baseline
        wanted = self._wants_speed and self.speed is None and not compilation.is_sharded
        if baseline is None or not wanted or not compilation.parts:
            return
        from compilegate.job.probes import speed  # noqa: PLC0415 - torch

        padding = str(config.recipe.get(contract.PADDING, contract.PADDINGS[0]))
        theirs = baseline.batch_size or batch_size, baseline.precision or precision
        self.collect()
        with self._uncounted(compilation):
            self.speed, self.blocks = speed.probe_speed(
                compilation.parts,
                compilation.optimizers,
                compiler=compilation.compiler,
                candidate=speed.Side(config.compiler, batch_size, precision, padding),
                baseline=speed.Side(baseline.compiler, *theirs, baseline.padding),
                seconds=speed.seconds_allowed(config.speed_probe_seconds, train_seconds),
                seed=config.seed,
                world=compilation.world,
            )

    def peak_memory(self, compilation: Compilation | None) -> tuple[int | None, str | None]:
        """The most memory that the training held, and whose; None where nobody counts or probes
        cannot be left out."""
        now, of = _peak_memory(compilation)
        if self._peak is None or now is None:
            return None, None
        return max(self._peak, now), of

    def seconds_before(self, moment: float) -> float:
        """Wall-clock seconds of the probes that ran before that time."""
        return sum(ended - began for began, ended in self._ran if ended <= moment)

    @contextlib.contextmanager
    def _uncounted(self, compilation: Compilation) -> Iterator[None]:
        began = time.time()
        before, _ = _peak_memory(compilation)
        try:
            with compilation.compiler.uncounted():
                yield
        finally:
            if not compilation.compiler.forget_peak_memory(compilation.steps_on):
                self._peak = None
            elif self._peak is not None and before is not None:
                self._peak = max(self._peak, before)
            self._ran.append((began, time.time()))


def _peak_memory(compilation: Compilation | None) -> tuple[int | None, str | None]:
    """So far, by who can tell: the compiler, of the device that its steps compute on."""
    if compilation is None:
        return peak_memory(None)
    return compilation.compiler.peak_memory(compilation.steps_on)
