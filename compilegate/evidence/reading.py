"""Reads an evidence folder back: types, shapes and finiteness are checked, values not judged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from compilegate.evidence.columns import check_plain_file, read_columns
from compilegate.evidence.json_object import JsonObject
from compilegate.job.evidence.digests import OWN_DIGEST, document_digest
from compilegate.job.evidence.record import (
    CACHE_STATES,
    EVIDENCE,
    EXAMPLES,
    PARITY,
    SCHEMA_VERSION,
    SLICE,
    STEPS,
    CheckpointRecord,
    CompileCacheRecord,
    CompilerRecord,
    Evidence,
    EvidenceError,
    EvidenceRecord,
    Examples,
    ParityErrors,
    ParityRecord,
    Resumption,
    SpeedRecord,
    Steps,
    has_parity,
)

MOST_JSON_BYTES = 64 * 1024**2


def read_evidence(folder: str | Path) -> EvidenceRecord:
    """Read one evidence folder back, checking types, shapes and finiteness of the scalars.

    Raises EvidenceError for anything missing, truncated, of a wrong type or of another schema
    version. It does not judge the values: that the losses are finite is the gate's question.
    """
    folder = Path(folder)
    raw, as_written = _read_json(folder / EVIDENCE)
    evidence = _evidence_from_json(EVIDENCE, raw)
    if evidence.failure is not None:
        return EvidenceRecord(evidence, None, None, as_written=as_written)
    steps = _read_steps(folder / STEPS)
    _check_resumptions(evidence, len(steps.loss))
    return EvidenceRecord(
        evidence,
        steps,
        _read_examples(folder / EXAMPLES),
        _read_parity(folder / PARITY, evidence.parity.steps)
        if evidence.parity is not None and has_parity(evidence)
        else None,
        as_written,
    )


def _read_json(path: Path) -> tuple[dict[str, Any], bool]:
    """The document, and whether it holds its own digest."""
    check_plain_file(path, MOST_JSON_BYTES)
    try:
        raw = json.loads(path.read_bytes().decode("utf-8"))
        if not isinstance(raw, dict):
            raise EvidenceError(f"{path.name} holds {type(raw).__name__}, expected an object")
        return raw, raw.get(OWN_DIGEST) == document_digest(raw)
    except (OSError, ValueError, RecursionError) as error:
        raise EvidenceError(f"{path.name} is not readable JSON: {error}") from error


def _evidence_from_json(name: str, raw: Mapping[str, Any]) -> Evidence:
    version = raw.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise EvidenceError(
            f"{name}: schema_version is {version!r}, this gate reads {SCHEMA_VERSION}"
        )
    reader = JsonObject(name, raw)
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
            options=compiler.scalars("options"),
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
        compile_cache=None
        if raw.get("compile_cache") is None
        else _compile_cache_record(reader.section("compile_cache")),
        checkpoints=None
        if raw.get("checkpoints") is None
        else _checkpoint_record(reader.section("checkpoints")),
    )
    if evidence.failure is None and evidence.speed is None:
        raise EvidenceError(f"{name}: speed is missing")
    return evidence


def _parity_record(section: JsonObject) -> ParityRecord:
    return ParityRecord(
        precision=section.text("precision"),
        steps=section.integer("steps"),
        seconds=section.number("seconds"),
        obstacle=section.optional_text("obstacle"),
    )


def _compile_cache_record(section: JsonObject) -> CompileCacheRecord:
    return CompileCacheRecord(
        state=section.one_of("state", CACHE_STATES),
        reason=section.text("reason"),
        key=section.text("key"),
        hits=section.integer("hits"),
        misses=section.integer("misses"),
        loaded_bytes=section.integer("loaded_bytes"),
        saved_bytes=section.integer("saved_bytes"),
        load_seconds=section.number("load_seconds"),
        cold_compile_seconds=section.optional_number("cold_compile_seconds"),
        cold_first_step_seconds=section.optional_number("cold_first_step_seconds"),
    )


def _checkpoint_record(section: JsonObject) -> CheckpointRecord:
    return CheckpointRecord(
        written=section.integer("written"),
        seconds=section.number("seconds"),
        ignored=section.optional_text("ignored"),
        resumed=tuple(
            Resumption(
                step=each.integer("step"),
                steady_from=each.integer("steady_from"),
                lost_seconds=each.number("lost_seconds"),
            )
            for each in section.sections("resumed")
        ),
    )


def _check_resumptions(evidence: Evidence, steps: int) -> None:
    # They say which steps do not count for the speed, so they must name steps that there are.
    for each in evidence.resumed:
        if not 0 < each.step <= each.steady_from <= steps:
            raise EvidenceError(
                f"{EVIDENCE}: checkpoints: resumed names step {each.step}, steady from "
                f"{each.steady_from}, expected a step after the first and no more than {steps}"
            )


def _read_steps(path: Path) -> Steps:
    arrays = read_columns(path, {"loss": ("f", 1), "seconds": ("f", 1)})
    if len(arrays["loss"]) != len(arrays["seconds"]):
        raise EvidenceError(
            f"{path.name}: {len(arrays['loss'])} losses but {len(arrays['seconds'])} step times"
        )
    return Steps(loss=arrays["loss"], seconds=arrays["seconds"])


def read_examples(folder: str | Path) -> Examples:
    """Read the examples that `write_examples` left in a folder. Raises EvidenceError."""
    return _read_examples(Path(folder) / EXAMPLES)


def _read_examples(path: Path) -> Examples:
    arrays = read_columns(
        path,
        {"ids": ("U", 1), "labels": ("i", 1), "scores": ("f", 2), "losses": ("f", 1)},
        optional={"targets": ("f", 1), "predictions": ("f", 1), SLICE: ("U", 1)},
    )
    if ("targets" in arrays) != ("predictions" in arrays):
        raise EvidenceError(f"{path.name}: of targets and predictions only one column is there")
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) != 1:
        raise EvidenceError(f"{path.name}: columns of different lengths: {lengths}")
    return Examples(
        ids=arrays["ids"],
        labels=arrays["labels"],
        scores=arrays["scores"],
        losses=arrays["losses"],
        targets=arrays.get("targets"),
        predictions=arrays.get("predictions"),
        slices={
            name[len(SLICE) :]: column for name, column in arrays.items() if name.startswith(SLICE)
        },
    )


def _read_parity(path: Path, steps: int) -> ParityErrors:
    kinds = dict.fromkeys(("eager", "repeated", "compiled"), ("f", 2))
    arrays = read_columns(path, {"tensors": ("U", 1), **kinds})
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
    return ParityErrors(tensors=tensors, **{name: arrays[name] for name in kinds})
