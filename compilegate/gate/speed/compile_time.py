"""Compile time of an arm: from nothing, and from what an earlier job had compiled.

A job that found all its graphs in the compile cache (warm) and one that did not (cold) differ in
their first steps and in nothing else, so each has a figure of its own and no mean is taken of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compilegate.evidence import CompileCacheRecord, EvidenceRecord
from compilegate.gate.judgements import CompileState, CompileTime
from compilegate.gate.speed.steady import added_seconds

_NEARLY = 1.5
"""Jobs know better than their steps show what compiling took, up to this factor."""


@dataclass(frozen=True)
class CompileTimes:
    """Both states of one arm; None where a state was not measured. At least one was."""

    cold: CompileTime | None
    warm: CompileTime | None

    @property
    def state(self) -> CompileState:
        """What a retraining like these starts from: warm as soon as one of them did, since what
        it found is there for the next one too."""
        return CompileState.COLD if self.warm is None else CompileState.WARM

    @property
    def seconds(self) -> float:
        """Compile seconds in that state: what each retraining pays."""
        counted = self.cold if self.warm is None else self.warm
        return 0.0 if counted is None else counted.seconds


def compile_times(records: Sequence[EvidenceRecord]) -> CompileTimes:
    """The compile times of an arm's replicates, which are all measured.

    A job without a cache record started cold. Where all were warm, the cold figures are those
    that came with the cache.
    """
    warm = [record for record in records if _was_warm(record.evidence.compile_cache)]
    cold = [record for record in records if not _was_warm(record.evidence.compile_cache)]
    return CompileTimes(cold=_mean(cold) if cold else _earlier(warm), warm=_mean(warm))


def _was_warm(cache: CompileCacheRecord | None) -> bool:
    return cache is not None and cache.state == CompileState.WARM


def _mean(records: Sequence[EvidenceRecord]) -> CompileTime | None:
    measured = [
        (compile_seconds(record), float(record.steps.seconds[0]))
        for record in records
        if record.evidence.compiler is not None
        and record.steps is not None
        and len(record.steps.seconds)
    ]
    return _time(measured)


def compile_seconds(record: EvidenceRecord) -> float:
    """What compiling took in this job: what it says itself, or what its steps show if that is more.

    A job that left its `compile_seconds` at zero beside a first step of 300 s has compiled for
    300 s. An eager job compiles nothing: its first steps are slow for other reasons.
    """
    evidence, compiler = record.evidence, record.evidence.compiler
    if compiler is None:
        return 0.0
    if record.steps is None or not compiler.ran:
        return compiler.compile_seconds
    shown = added_seconds(evidence, record.steps)
    return shown if shown > _NEARLY * compiler.compile_seconds else compiler.compile_seconds


def _earlier(records: Sequence[EvidenceRecord]) -> CompileTime | None:
    measured = [
        (cache.cold_compile_seconds, cache.cold_first_step_seconds)
        for cache in (record.evidence.compile_cache for record in records)
        if cache is not None
        and cache.cold_compile_seconds is not None
        and cache.cold_first_step_seconds is not None
    ]
    return _time(measured, earlier=True)


def _time(measured: Sequence[tuple[float, float]], *, earlier: bool = False) -> CompileTime | None:
    if not measured:
        return None
    seconds, first_steps = zip(*measured, strict=True)
    return CompileTime(
        float(np.mean(seconds)), float(np.mean(first_steps)), jobs=len(measured), earlier=earlier
    )
