"""The evidence record as types: what one training job measured, and what proves it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Any, Mapping, Union

import numpy as np
import numpy.typing as npt

from compilegate.job.endings import WRONG_ARITHMETIC
from compilegate.job.errors import CompilegateError

RULES = {
    "loader": "loader-workers",  # steps wait for their batches
    "synchronisation": "sync-in-step",  # each reads the value of a tensor
    "shapes": "varying-shapes",  # new ones keep coming
    "breaks": "data-dependent",  # the compiler leaves its graph
    "recompilations": "varying-shapes",  # it compiles one again
}
"""What slows steps, each with the rule of `compilegate check` that finds it in the source."""
LOADER, SYNCHRONISATION, SHAPES, BREAKS, RECOMPILATIONS = SLOWDOWN_KINDS = tuple(RULES)
MOST_PLACES = 5


@dataclass(frozen=True)
class Slowdown:
    """One of SLOWDOWN_KINDS, as it was counted."""

    kind: str
    count: float
    """How often: reads of a step; shapes, breaks, recompilations in all; of a loader, steps."""
    share: float | None = None  # of the steady steps' time, where somebody measured that
    where: tuple[str, ...] = ()  # lines of the program, `train.py:42`, most frequent first
    reason: str | None = None  # in the compiler's words, of the first place
    rule: str | None = None  # of RULES


SCHEMA_VERSION = 1
CACHE_STATES = ("warm", "cold", "ignored")
MEMORY_OF = ("device", "process")  # the process's, where there is no device
SLICE = "slice:"  # prefix of the columns that hold categories

Scalar = Union[str, int, float, bool, None]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class EvidenceOrigin:
    """How an evidence record came about, which is what it can hold."""

    MEASURED = "measured"  # by the training program: steps, examples, speed, what proves them
    PRINTED = "printed"  # metrics that a script printed; nothing else is known of the job


class EvidenceError(CompilegateError):
    """The evidence cannot be used. The message names the file, the key and what was found."""


@dataclass(frozen=True)
class CompilerRecord:
    """Which compiler the job was configured with, and what shows that it ran (or did not)."""

    name: str
    ran: bool  # whether graphs were compiled in this process; False is right for eager only
    proof: Mapping[str, Scalar] = field(default_factory=dict)  # counters, versions
    compile_seconds: float = 0.0  # wall-clock seconds that compilation added to the job
    options: Mapping[str, Scalar] = field(default_factory=dict)  # no part of the recipe
    graphs: int = 0
    graph_breaks: int = 0
    recompilations: int = 0


@dataclass(frozen=True)
class SpeedRecord:
    """How fast the job trained. Times are wall-clock seconds of this job's own clock."""

    samples_per_second: float  # over the steady steps
    steady_from: int  # the first step that counts as steady, after compilation and warm-up
    train_seconds: float  # from the first step to the last, with compilation, without evaluation
    total_seconds: float  # from the process's start to the evaluation's end, without the probes'


@dataclass(frozen=True)
class ParityRecord:
    """Whether compiled and eager steps were compared at equal weights, and under what terms."""

    precision: str  # the precision of the compiled and the eager steps; the reference is in float64
    steps: int  # compared; the rows of parity.npz. Zero where there is an obstacle.
    seconds: float  # wall-clock, no part of the job's other times
    obstacle: str | None = None  # why there is nothing to compare, in one sentence
    repro: str | None = None  # the folder of a script that shows it, in the evidence folder
    departs: str | None = None  # which output or gradient departs first, in one sentence
    reproduced: bool | None = None  # by the captured graph in a fresh process; None: open
    trained_parameters: int | None = None  # numbers in those of the modules that train
    compared_parameters: int | None = None  # with a gradient compared that was not all zero
    compared: Mapping[str, str] = field(default_factory=dict)
    """By variant (exact, compiled, eager), the sha256 of the compared tensors, or of samples."""


@dataclass(frozen=True)
class PairedSpeedRecord:
    """How steps of the baseline and of this arm were timed in alternating blocks: forward, backward
    and update, without loader. A pair is a block of each, one after the other."""

    seconds: float  # as in `ParityRecord`, and so is `obstacle`
    baseline_compiler: str
    baseline_batch_size: int  # examples of one of its steps in this process
    candidate_batch_size: int
    steps_per_block: int  # zero where there is an obstacle
    obstacle: str | None = None


@dataclass(frozen=True)
class CompileCacheRecord:
    """Whether the compiler started from what an earlier job had compiled."""

    state: str
    """One of CACHE_STATES. ``warm``: every graph came from the cache. ``cold``: none was there, or
    it lacked some. ``ignored``: it was not used."""
    reason: str  # why the state is what it is, and what was kept for the next job, in sentences
    key: str  # sha256 of all that decides whether a cache fits: graph, libraries and hardware
    hits: int  # compiled graphs, forward and backward counted apart, that were found in the cache
    misses: int
    loaded_bytes: int  # of the archive that was loaded; zero where none was
    saved_bytes: int  # of the one that was kept for the next job
    load_seconds: float = 0.0  # wall-clock, to check and unpack; part of `compile_seconds`
    cold_compile_seconds: float | None = None  # of the job that filled the cache
    cold_first_step_seconds: float | None = None


@dataclass(frozen=True)
class Resumption:
    """A return of the job to its last checkpoint, after its machine was taken from it."""

    step: int  # the first step after it, from 0
    steady_from: int  # the first step after it that counts as steady
    lost_seconds: float
    """Wall-clock seconds that it cost (repeated steps, waiting, start-up, compilation); part of
    train_seconds and total_seconds."""


@dataclass(frozen=True)
class CheckpointRecord:
    """What the job kept to go on from, and whether it had to."""

    written: int  # checkpoints that the last process wrote
    seconds: float  # wall-clock, for writing them: part of train_seconds, and of no step's time
    ignored: str | None  # why an existing checkpoint was not used
    resumed: tuple[Resumption, ...] = ()


@dataclass(frozen=True)
class PaddedPositions:
    """Positions that one epoch computes, by the way its documents are padded (`PADDINGS`)."""

    max: int
    buckets: int
    longest: int


@dataclass(frozen=True)
class PaddingRecord:
    """How documents of different lengths were padded, and what that costs in the first epoch. A
    position is one document's place for a token, padding included."""

    padding: str  # one of `compilegate.job.contract.PADDINGS`
    lengths: tuple[int, ...]  # that steps may have, ascending; empty with ``longest``
    bucket_lengths: tuple[int, ...]  # the lengths that `buckets` has, or would have
    tokens: int  # positions of the epoch that are no padding
    positions: PaddedPositions
    histogram_upto: tuple[int, ...]  # each bin's greatest length; the last is the sequence length
    histogram_documents: tuple[int, ...]

    @property
    def computed(self) -> int:
        return int(getattr(self.positions, self.padding))

    @property
    def share(self) -> float:
        """How many of the computed positions are padding."""
        return 1 - self.tokens / self.computed

    @property
    def saved_by_buckets(self) -> float:
        """The share of computed positions that ``buckets`` would not compute; may be negative."""
        return 1 - self.positions.buckets / self.computed


@dataclass(frozen=True)
class Evidence:
    """The scalars of one training job: one arm, one seed. What is None was not measured."""

    job: str  # the training job's name. With `arm` and `seed` it says whose evidence this is.
    arm: str
    seed: int
    recipe: Mapping[str, Scalar]  # batch_size, learning_rate, precision, epochs, steps, ...
    compiler: CompilerRecord | None
    speed: SpeedRecord | None
    metrics: Mapping[str, float] = field(default_factory=dict)  # as fractions, not per cent
    peak_memory_bytes: int | None = None  # of the training, probes left out
    environment: Mapping[str, Scalar] = field(default_factory=dict)  # versions and hardware
    digests: Mapping[str, str] = field(default_factory=dict)
    """sha256 by name. `data` and `model` are the job's to give; the columns' are filled in on
    writing."""
    failure: str | None = None  # why the arm could not be trained, in one sentence
    ending: str | None = None  # how such a job ended: a name of `compilegate.job.endings`
    attempts: tuple[str, ...] = ()  # how earlier starts of the training within it did
    parity: ParityRecord | None = None
    compile_cache: CompileCacheRecord | None = None
    checkpoints: CheckpointRecord | None = None
    memory_of: str | None = None  # whose memory `peak_memory_bytes` is: one of MEMORY_OF
    paired_speed: PairedSpeedRecord | None = None
    padding: PaddingRecord | None = None
    notes: tuple[str, ...] = ()  # what its user should know, each in one sentence with its remedy
    hindrances: tuple[Slowdown, ...] = ()  # what slowed its steps, gravest first
    printed: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """By metric, the values that a job printed, in order; of many only some."""
    checkup: Mapping[str, Scalar] = field(default_factory=dict)
    """Driver, toolchain, load. Arms are not compared by it: a load is never the same twice."""
    origin: str = EvidenceOrigin.MEASURED  # one of `EvidenceOrigin`
    schema_version: int = SCHEMA_VERSION

    @property
    def resumed(self) -> tuple[Resumption, ...]:
        return () if self.checkpoints is None else self.checkpoints.resumed


@dataclass(frozen=True)
class Steps:
    """One row per optimizer step, in the order the steps were taken."""

    loss: FloatArray  # (steps,) training loss of the step's batch, before the update
    seconds: FloatArray  # (steps,) wall-clock seconds of the step, batch loading included


@dataclass(frozen=True)
class Examples:
    """One row per validation example. Rows of two jobs are matched by `ids`, not by position."""

    ids: npt.NDArray[np.str_]  # (examples,) stable identifiers, unique
    labels: IntArray  # (examples,) index of the true class; 0 where there are `targets`
    scores: FloatArray
    """(examples, classes) predicted probabilities, whose rows sum to one; no columns where the
    model predicts numbers or only losses are known."""
    losses: FloatArray  # (examples,) loss of each example; in nats where there are scores
    targets: FloatArray | None = None  # (examples,) true values, of a model of numbers
    predictions: FloatArray | None = None  # (examples,) there exactly when `targets` is
    slices: Mapping[str, npt.NDArray[np.str_]] = field(default_factory=dict)
    """By column name, (examples,) the category of each example: language, region, ..."""
    inputs: IntArray | None = None  # (examples,) a hash of what the model is given of each


@dataclass(frozen=True)
class TrainedOn:
    """What the training data were, by hashes in order: the smallest of them where they are many."""

    ids: IntArray
    inputs: IntArray  # what the model was given of them
    slices: Mapping[str, IntArray] = field(default_factory=dict)
    """By column name, the categories that occur among them."""


@dataclass(frozen=True)
class ParityErrors:
    """How far steps are from float64, at equal weights: one row per step, one column per tensor. An
    error is the difference's norm over the float64 tensor's norm (`probes.reference` says what
    holds near zero); it is not negative, and may be NaN or infinite."""

    tensors: npt.NDArray[np.str_]  # (tensors,) names: loss, logits, "gradient of PARAMETER"; unique
    eager: FloatArray  # (steps, tensors) eager against float64
    repeated: FloatArray  # (steps, tensors) eager once more against eager, on the same scale
    compiled: FloatArray  # (steps, tensors) the compiled step against float64


@dataclass(frozen=True)
class PairedBlocks:
    """One row per pair of blocks, in the order they were run; see `PairedSpeedRecord`."""

    baseline_seconds: FloatArray  # (pairs,) mean wall-clock seconds of a step in its block
    candidate_seconds: FloatArray  # (pairs,) the same of the arm's own step
    baseline_first: npt.NDArray[np.bool_]  # (pairs,) whether the baseline's block was the first


@dataclass(frozen=True)
class EvidenceRecord:
    """All of one evidence folder. Steps and examples are those of a job that measured itself and
    did not fail."""

    evidence: Evidence
    steps: Steps | None
    examples: Examples | None
    parity: ParityErrors | None = None  # exactly when `has_parity(evidence)`
    paired: PairedBlocks | None = None  # exactly when `has_paired_speed(evidence)`
    trained_on: TrainedOn | None = None
    as_written: bool = True  # whether evidence.json holds its own digest: nothing was changed


Table = Union[Steps, Examples, ParityErrors, PairedBlocks, TrainedOn]


def columns(table: Table) -> dict[str, npt.NDArray[Any]]:
    """The columns of a table by name, as its file and its digest have them."""
    found: dict[str, npt.NDArray[Any]] = {}
    for each in fields(table):
        value = getattr(table, each.name)
        if each.name == "slices":
            found.update({SLICE + name: value[name] for name in sorted(value)})
        elif value is not None:
            found[each.name] = value
    return found


def has_parity(evidence: Evidence) -> bool:
    """Whether parity errors stand beside this evidence."""
    known = evidence.failure is None or evidence.ending == WRONG_ARITHMETIC.name
    return known and evidence.parity is not None and evidence.parity.obstacle is None


def has_paired_speed(evidence: Evidence) -> bool:
    """Whether there are pairs of blocks beside this evidence."""
    paired = evidence.paired_speed
    return evidence.failure is None and paired is not None and paired.obstacle is None


_FRACTION = re.compile(
    r"(^|_)(acc|accuracy|ap|auc|auroc|calibration_error|dice|error_rate|f1|iou|map|mrr|precision"
    r"|recall|sensitivity|specificity|top1|top5)$"
)


def above_one(metric: str, value: float) -> bool:
    """Whether a metric that is a fraction by its name (`accuracy`, `macro_f1`) exceeds one, as a
    percentage would."""
    fraction = _FRACTION.search(metric.lower().replace("/", "_").replace("-", "_"))
    return fraction is not None and value > 1.0 + 1e-6  # a rounding error is none
