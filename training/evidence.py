"""The evidence record: what one training job measured, and can prove.

A training job writes one evidence folder into ``SM_OUTPUT_DATA_DIR``::

    evidence/
      evidence.json   the scalars: who ran, what was measured, what proves it   (Evidence)
      steps.npz       one row per optimizer step                                (Steps)
      examples.npz    one row per validation example                            (Examples)
      parity.npz      how far a compiled step is from an eager one; optional    (ParityErrors)

The gate reads it back. Only the standard library and numpy are needed on either side, so a
training script of a user's own can write the same record::

    from training.evidence import Evidence, Examples, Steps, write_evidence

    write_evidence(os.environ["SM_OUTPUT_DATA_DIR"], evidence, steps, examples)
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Dict, Mapping, Optional, Tuple, Union

import numpy as np
import numpy.typing as npt

SCHEMA_VERSION = 1
FOLDER = "evidence"
_SLICE = "slice:"
"""Prefix of the columns of examples.npz that hold categories."""
_ROWS_PER_DIGEST_UPDATE = 65_536

Scalar = Union[str, int, float, bool, None]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class EvidenceError(Exception):
    """The evidence cannot be used. The message names the file, the key and what was found."""


@dataclass(frozen=True)
class CompilerRecord:
    """Which compiler the job was told to use, and what shows that it ran (or did not)."""

    name: str
    """The compiler's name in the design's words: eager, inductor, xla, ..."""
    ran: bool
    """Whether graphs were compiled in this process; False is right for eager only."""
    proof: Mapping[str, Scalar] = field(default_factory=dict)
    """The observations behind `ran`, by name (counters, versions, log lines)."""
    compile_seconds: float = 0.0
    """Wall-clock seconds that compilation added to the job."""
    graphs: int = 0
    graph_breaks: int = 0
    recompilations: int = 0


@dataclass(frozen=True)
class SpeedRecord:
    """How fast the job trained. Times are wall-clock seconds of this job's own clock."""

    samples_per_second: float
    """Training samples per second over the steady steps."""
    steady_from: int
    """Index of the first step that counts as steady: compilation and warm-up lie before it."""
    train_seconds: float
    """From before the first step to after the last, compilation included, evaluation not."""
    total_seconds: float
    """From the start of the process to the evaluation's end; the parity probe comes later."""


@dataclass(frozen=True)
class ParityRecord:
    """Whether compiled and eager steps were compared at equal weights, and under what terms."""

    precision: str
    """Of the compiled and the eager steps; the reference is in float64."""
    steps: int
    """How many steps were compared; the rows of parity.npz. Zero where there is an obstacle."""
    seconds: float
    """Wall-clock seconds that the comparison took; no part of the job's other times."""
    obstacle: Optional[str] = None
    """Why there is nothing to compare, in one sentence; None when there is."""


@dataclass(frozen=True)
class Evidence:
    """The scalars of one training job: one arm, one seed."""

    job: str
    """The training job's name. With `arm` and `seed` it says whose evidence this is."""
    arm: str
    seed: int
    recipe: Mapping[str, Scalar]
    """What the job was told and did: batch_size, learning_rate, precision, epochs, steps, ..."""
    compiler: CompilerRecord
    speed: Optional[SpeedRecord]
    """None only when the job failed before it could be measured."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Validation metrics by name, as fractions, not per cent."""
    peak_memory_bytes: int = 0
    environment: Mapping[str, Scalar] = field(default_factory=dict)
    """Library versions and hardware, by name."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """sha256 of `data`, `config`, `model` and `examples`, in hexadecimal."""
    failure: Optional[str] = None
    """Why the arm could not be trained, in one sentence; None when it was."""
    parity: Optional[ParityRecord] = None
    """None when parity was not asked for, as with the eager compiler."""
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True)
class Steps:
    """One row per optimizer step, in the order the steps were taken."""

    loss: FloatArray
    """(steps,) training loss of the step's batch, before the update."""
    seconds: FloatArray
    """(steps,) wall-clock seconds of the step, batch loading included."""


@dataclass(frozen=True)
class Examples:
    """One row per validation example. Rows of two jobs are matched by `ids`, not by position."""

    ids: npt.NDArray[np.str_]
    """(examples,) stable identifiers, unique."""
    labels: IntArray
    """(examples,) index of the true class."""
    scores: FloatArray
    """(examples, classes) predicted probabilities; each row sums to one."""
    losses: FloatArray
    """(examples,) loss of each example, in nats."""
    targets: Optional[FloatArray] = None
    """(examples,) true values, when the model predicts a number; `scores` then has no columns and
    every label is 0."""
    predictions: Optional[FloatArray] = None
    """(examples,) predicted values; there exactly when `targets` is."""
    slices: Mapping[str, npt.NDArray[np.str_]] = field(default_factory=dict)
    """By column name, (examples,) the category of each example: language, region, ..."""


@dataclass(frozen=True)
class ParityErrors:
    """How far steps are from float64, at equal weights: one row per step, one column per tensor.

    An error is the norm of the difference over the norm of the float64 tensor; training.parity says
    what holds for gradients that are next to zero. None is negative; one may be NaN or infinite.
    """

    tensors: npt.NDArray[np.str_]
    """(tensors,) names: loss, logits, "gradient of PARAMETER"; unique."""
    eager: FloatArray
    """(steps, tensors) eager against float64."""
    repeated: FloatArray
    """(steps, tensors) eager once more against eager, on the scale of the other two."""
    compiled: FloatArray
    """(steps, tensors) the compiled step against float64."""


@dataclass(frozen=True)
class EvidenceRecord:
    """All of one evidence folder. `steps` and `examples` are None only for a failed job."""

    evidence: Evidence
    steps: Optional[Steps]
    examples: Optional[Examples]
    parity: Optional[ParityErrors] = None
    """There exactly when `evidence.parity` is and names no obstacle."""


def examples_digest(examples: Examples) -> str:
    """sha256 of the example ids and labels in order: two jobs that agree saw the same examples.

    Where there are targets, each follows its label.
    """
    digest = hashlib.sha256()
    columns = [examples.ids, examples.labels]
    if examples.targets is not None:
        columns.append(examples.targets)
    row = "\t".join(["%s"] * len(columns)) + "\n"
    for start in range(0, len(examples.ids), _ROWS_PER_DIGEST_UPDATE):
        rows = [column[start : start + _ROWS_PER_DIGEST_UPDATE].tolist() for column in columns]
        digest.update("".join(map(row.__mod__, zip(*rows))).encode())
    return digest.hexdigest()


def write_evidence(
    output_data_dir: Union[str, Path],
    evidence: Evidence,
    steps: Optional[Steps] = None,
    examples: Optional[Examples] = None,
    parity: Optional[ParityErrors] = None,
) -> Path:
    """Write the evidence folder; `evidence.json` comes last, so a folder that has it is whole.

    Raises EvidenceError when a job that did not fail lacks steps or examples, or when `parity` and
    `evidence.parity` do not belong together. Returns the folder.
    """
    if evidence.failure is None and (steps is None or examples is None or evidence.speed is None):
        raise EvidenceError(
            "evidence of a job that did not fail needs steps, examples and a speed record"
        )
    if (parity is not None) != _compared(evidence):
        raise EvidenceError(
            "parity errors go with a parity record that names no obstacle, and with no other"
        )
    folder = Path(output_data_dir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    if steps is not None:
        _write_arrays(folder / "steps.npz", {"loss": steps.loss, "seconds": steps.seconds})
    if examples is not None:
        _write_arrays(folder / "examples.npz", _columns(examples))
    if parity is not None:
        _write_arrays(folder / "parity.npz", _parity_columns(parity))
    text = json.dumps(dataclasses.asdict(evidence), indent=2, sort_keys=True)
    _replace(folder / "evidence.json", (text + "\n").encode())
    return folder


def read_evidence(folder: Union[str, Path]) -> EvidenceRecord:
    """Read one evidence folder back, checking types, shapes and finiteness of the scalars.

    Raises EvidenceError for anything missing, truncated, of a wrong type or of another schema
    version. It does not judge the values: that the losses are finite is the gate's question.
    """
    folder = Path(folder)
    evidence = _evidence_from_json(folder / "evidence.json")
    if evidence.failure is not None:
        return EvidenceRecord(evidence, None, None)
    return EvidenceRecord(
        evidence,
        _read_steps(folder / "steps.npz"),
        _read_examples(folder / "examples.npz"),
        _read_parity(folder / "parity.npz", evidence.parity.steps)
        if evidence.parity is not None and _compared(evidence)
        else None,
    )


def _compared(evidence: Evidence) -> bool:
    """Whether there are parity errors beside this evidence."""
    parity = evidence.parity
    return evidence.failure is None and parity is not None and parity.obstacle is None


def _parity_columns(parity: ParityErrors) -> Dict[str, npt.NDArray[Any]]:
    return {
        "tensors": np.asarray(parity.tensors, dtype=np.str_),
        "eager": parity.eager,
        "repeated": parity.repeated,
        "compiled": parity.compiled,
    }


def _columns(examples: Examples) -> Dict[str, npt.NDArray[Any]]:
    columns: Dict[str, npt.NDArray[Any]] = {
        "ids": np.asarray(examples.ids, dtype=np.str_),
        "labels": examples.labels,
        "scores": examples.scores,
        "losses": examples.losses,
    }
    if examples.targets is not None and examples.predictions is not None:
        columns["targets"] = examples.targets
        columns["predictions"] = examples.predictions
    for name, categories in examples.slices.items():
        columns[_SLICE + name] = np.asarray(categories, dtype=np.str_)
    return columns


def _replace(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=str(path.parent), prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def _write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    temporary = path.with_name(path.name + ".part")
    with open(temporary, "wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    os.replace(temporary, path)


def _evidence_from_json(path: Path) -> Evidence:
    try:
        raw = json.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError as error:
        raise EvidenceError(f"{path.name} is missing") from error
    except (OSError, ValueError, RecursionError) as error:
        raise EvidenceError(f"{path.name} is not readable JSON: {error}") from error
    if not isinstance(raw, dict):
        raise EvidenceError(f"{path.name} holds {type(raw).__name__}, expected an object")
    version = raw.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise EvidenceError(
            f"{path.name}: schema_version is {version!r}, this gate reads {SCHEMA_VERSION}"
        )
    reader = _Reader(path.name, raw)
    compiler = reader.section("compiler")
    speed = None if raw.get("speed") is None else reader.section("speed")
    evidence = Evidence(
        job=reader.text("job"),
        arm=reader.text("arm"),
        seed=reader.integer("seed"),
        recipe=reader.scalars("recipe"),
        compiler=CompilerRecord(
            name=compiler.text("name"),
            ran=compiler.boolean("ran"),
            proof=compiler.scalars("proof"),
            compile_seconds=compiler.number("compile_seconds"),
            graphs=compiler.integer("graphs"),
            graph_breaks=compiler.integer("graph_breaks"),
            recompilations=compiler.integer("recompilations"),
        ),
        speed=None
        if speed is None
        else SpeedRecord(
            samples_per_second=speed.number("samples_per_second"),
            steady_from=speed.integer("steady_from"),
            train_seconds=speed.number("train_seconds"),
            total_seconds=speed.number("total_seconds"),
        ),
        metrics=reader.numbers("metrics"),
        peak_memory_bytes=reader.integer("peak_memory_bytes"),
        environment=reader.scalars("environment"),
        digests=reader.texts("digests"),
        failure=None if raw.get("failure") is None else reader.text("failure"),
        parity=None if raw.get("parity") is None else _parity_record(reader.section("parity")),
    )
    if evidence.failure is None and evidence.speed is None:
        raise EvidenceError(f"{path.name}: speed is missing")
    return evidence


def _parity_record(section: _Reader) -> ParityRecord:
    return ParityRecord(
        precision=section.text("precision"),
        steps=section.integer("steps"),
        seconds=section.number("seconds"),
        obstacle=section.optional_text("obstacle"),
    )


class _Reader:
    """Typed access to a JSON object; every error names the file, the key and what was found."""

    def __init__(self, where: str, raw: Mapping[str, Any]) -> None:
        self._where = where
        self._raw = raw

    def text(self, key: str) -> str:
        return self._typed(key, str, "a string")  # type: ignore[no-any-return]

    def optional_text(self, key: str) -> Optional[str]:
        return None if self._value(key) is None else self.text(key)

    def boolean(self, key: str) -> bool:
        return self._typed(key, bool, "true or false")  # type: ignore[no-any-return]

    def integer(self, key: str) -> int:
        value = self._typed(key, int, "a whole number")
        if isinstance(value, bool) or value < 0:
            raise self._wrong(key, value, "a whole number of zero or more")
        return int(value)

    def number(self, key: str) -> float:
        return self._finite(key, self._value(key))

    def section(self, key: str) -> _Reader:
        return _Reader(f"{self._where}: {key}", self._typed(key, dict, "an object"))

    def scalars(self, key: str) -> Dict[str, Scalar]:
        section: Dict[str, Any] = self._typed(key, dict, "an object")
        for name, value in section.items():
            if value is not None and not isinstance(value, (str, int, float, bool)):
                raise self._wrong(f"{key}.{name}", value, "a string, number, true, false or null")
        return section

    def numbers(self, key: str) -> Dict[str, float]:
        section: Dict[str, Any] = self._typed(key, dict, "an object")
        # A non-finite metric is kept: naming it is the gate's business, with its own reason.
        return {name: self._float(f"{key}.{name}", value) for name, value in section.items()}

    def texts(self, key: str) -> Dict[str, str]:
        section: Dict[str, Any] = self._typed(key, dict, "an object")
        for name, value in section.items():
            if not isinstance(value, str):
                raise self._wrong(f"{key}.{name}", value, "a string")
        return section

    def _value(self, key: str) -> Any:
        if key not in self._raw:
            raise EvidenceError(f"{self._where}: {key} is missing")
        return self._raw[key]

    def _typed(self, key: str, expected: type, words: str) -> Any:
        value = self._value(key)
        if not isinstance(value, expected):
            raise self._wrong(key, value, words)
        return value

    def _finite(self, key: str, value: Any) -> float:
        number = self._float(key, value)
        if not math.isfinite(number) or number < 0:
            raise self._wrong(key, value, "a finite number of zero or more")
        return number

    def _float(self, key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(key, value, "a number")
        try:
            return float(value)
        except OverflowError as error:  # JSON has whole numbers of any size
            raise self._wrong(key, value, "a number") from error

    def _wrong(self, key: str, value: Any, expected: str) -> EvidenceError:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return EvidenceError(f"{self._where}: {key} is {shown}, expected {expected}")


def _read_steps(path: Path) -> Steps:
    arrays = _read_arrays(path, {"loss": ("f", 1), "seconds": ("f", 1)})
    if len(arrays["loss"]) != len(arrays["seconds"]):
        raise EvidenceError(
            f"{path.name}: {len(arrays['loss'])} losses but {len(arrays['seconds'])} step times"
        )
    return Steps(
        loss=arrays["loss"].astype(np.float64), seconds=arrays["seconds"].astype(np.float64)
    )


def _read_examples(path: Path) -> Examples:
    arrays = _read_arrays(
        path,
        {"ids": ("U", 1), "labels": ("i", 1), "scores": ("f", 2), "losses": ("f", 1)},
        optional={"targets": ("f", 1), "predictions": ("f", 1), _SLICE: ("U", 1)},
    )
    if ("targets" in arrays) != ("predictions" in arrays):
        raise EvidenceError(f"{path.name}: of targets and predictions only one column is there")
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) != 1:
        raise EvidenceError(f"{path.name}: columns of different lengths: {lengths}")
    return Examples(
        ids=arrays["ids"],
        labels=arrays["labels"].astype(np.int64),
        scores=arrays["scores"].astype(np.float64),
        losses=arrays["losses"].astype(np.float64),
        targets=_floats(arrays, "targets"),
        predictions=_floats(arrays, "predictions"),
        slices={
            name[len(_SLICE) :]: column
            for name, column in arrays.items()
            if name.startswith(_SLICE)
        },
    )


def _read_parity(path: Path, steps: int) -> ParityErrors:
    kinds = dict.fromkeys(("eager", "repeated", "compiled"), ("f", 2))
    arrays = _read_arrays(path, {"tensors": ("U", 1), **kinds})
    tensors = arrays["tensors"]
    if len(np.unique(tensors)) != len(tensors):
        raise EvidenceError(f"{path.name}: column tensors names a tensor twice")
    for name in kinds:
        if arrays[name].shape != (steps, len(tensors)) or not arrays[name].size:
            raise EvidenceError(
                f"{path.name}: column {name} has shape {arrays[name].shape}, expected one row for "
                f"each of the {steps} steps (parity.steps in evidence.json) and one column for "
                f"each of the {len(tensors)} tensors, one or more of either"
            )
        if (arrays[name] < 0).any():
            raise EvidenceError(f"{path.name}: column {name} holds a negative error")
    return ParityErrors(
        tensors=tensors, **{name: arrays[name].astype(np.float64) for name in kinds}
    )


def _floats(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> Optional[FloatArray]:
    return arrays[name].astype(np.float64) if name in arrays else None


def _read_arrays(
    path: Path,
    columns: Mapping[str, Tuple[str, int]],
    optional: Mapping[str, Tuple[str, int]] = MappingProxyType({}),
) -> Dict[str, npt.NDArray[Any]]:
    """Read the named columns; each has a numpy kind ("f", "i", "U") and a number of dimensions.

    `optional` holds columns that need not be there, by how their names begin.
    """
    kinds = dict(columns)
    try:
        # allow_pickle=False: an evidence folder may come from anywhere.
        with np.load(path, allow_pickle=False) as stored:
            for start, expected in optional.items():
                kinds.update({name: expected for name in stored.files if name.startswith(start)})
            arrays = {name: stored[name] for name in kinds if name in stored.files}
    except FileNotFoundError as error:
        raise EvidenceError(f"{path.name} is missing") from error
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, KeyError, MemoryError) as error:
        raise EvidenceError(f"{path.name} cannot be read: {error}") from error
    except Exception as error:  # zlib.error, NotImplementedError, SyntaxError: a damaged archive
        raise EvidenceError(
            f"{path.name} cannot be read: {type(error).__name__}: {error}"
        ) from error
    for name in columns:
        if name not in arrays:
            raise EvidenceError(f"{path.name}: column {name} is missing")
    for name, found in arrays.items():
        kind, dimensions = kinds[name]
        if found.dtype.kind != kind or found.ndim != dimensions:
            raise EvidenceError(
                f"{path.name}: column {name} has type {found.dtype} and {found.ndim} dimensions, "
                f"expected kind {kind!r} and {dimensions}"
            )
    return arrays
