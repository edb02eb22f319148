"""One row of the zoo: an architecture in one precision, the truth about it, the probe's answer.

Both are found in processes of their own, which are forked from a server with the libraries.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.zoo import HUNDRED, planted, truth
from compilegate.job.evidence.parity import DEFAULT_PARITY_LIMITS, parity_verdict
from compilegate.job.evidence.record import ParityErrors

Row = dict[str, Any]
ALIKE, WRONG, CANNOT_TELL, DIED = "alike", "wrong", "cannot tell", "died"
STEPS = 10
LIMIT_SECONDS = 900.0
TOO_LONG = f"more than {LIMIT_SECONDS:g} s"
PLANTED = 3
_ANSWERS = {"pass": ALIKE, "fail": WRONG, "cannot_tell": CANNOT_TELL}
_PRINTED = {
    WRONG: re.compile(rb"^parity: WRONG", re.MULTILINE),
    CANNOT_TELL: re.compile(rb"^parity: cannot tell", re.MULTILINE),
    ALIKE: re.compile(rb"^parity: (?!judged)", re.MULTILINE),
}
"""Lines on the terminal; the first that matches counts."""


def write_row(path: Path, row: Row) -> None:
    """Write the row whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps(row, indent=1) + "\n")
    new.replace(path)


def read_row(path: Path) -> Row:
    """Read the row as far as it exists."""
    with contextlib.suppress(OSError, ValueError):
        found: Row = json.loads(path.read_text())
        return found
    return {}


def complete(path: Path, name: str, precision: str, backend: str, keys: Mapping[str, str]) -> Row:
    """Find what the row lacks, or has from other sources than those of `keys`."""
    row = {**read_row(path), "name": name, "precision": precision, "backend": backend}
    if row.get("truth", {}).get("key") != keys["truth"]:
        row.pop("probe", None)
        row["truth"] = {**_truth(name, precision, backend), "key": keys["truth"]}
        write_row(path, row)
    if row.get("probe", {}).get("key") != keys["probe"]:
        compiler = backend if backend == "inductor" else f"torch-compile:{backend}"
        probe = _probe(name, precision, {"COMPILEGATE_COMPILER": compiler})
        probe["planted"] = [
            {"kind": each["kind"]} | _probe(name, precision, each["environment"], _PRINTED[WRONG])
            for each in row["truth"]["planted"]
        ]
        row["probe"] = {**probe, "key": keys["probe"]}
        write_row(path, row)
    return row


def _truth(name: str, precision: str, backend: str) -> Row:
    with tempfile.TemporaryDirectory(prefix="zoo-") as place:
        folder = Path(place)
        ended, seconds = _in_child(folder, _find_truth, name, precision, backend)
        found = {"answer": "unclear", "planted": [], **read_row(folder / "truth.json")}
        if ended:
            found["why"] = f"{ended}: {_last_line(folder)}"
        if ended == TOO_LONG and "error" not in found:  # torch was compiling until then
            found |= {"answer": truth.REFUSED, "why": ended}
        return {**found, "seconds": round(seconds, 1)}


def _find_truth(name: str, precision: str, backend: str) -> None:
    """In a process of its own: write the truth about the backend, and about errors to plant."""
    import torch._dynamo.config as dynamo  # noqa: PLC0415 - seconds of import
    import torch._inductor.config as inductor  # noqa: PLC0415

    inductor.fallback_random = dynamo.use_numpy_random_stream = True  # draw as eager draws
    number = list(HUNDRED).index(name)
    trained = truth.TrainedArchitecture(HUNDRED[name], precision)
    operations: set[str] = set()
    true = trained.judge(planted.recorder(backend, operations))
    if true.answer == truth.SOUND and not operations:
        true = truth.Truth(truth.LEFT)
    row = {**true._asdict(), "reference": trained.reference, "planted": []}
    shapes = trained.large_gradients() or [""]
    size = "0.01" if precision == "fp32" else "0.5"
    for kinds in planted.candidates(number, operations):
        for tried, kind in enumerate(kinds):
            write_row(Path("truth.json"), row)
            if len(row["planted"]) == PLANTED or kind in [each["kind"] for each in row["planted"]]:
                break
            shape = shapes[(number + tried + len(row["planted"])) % len(shapes)]
            environment = {planted.SHAPE: shape, planted.SIZE: size}
            os.environ.update(environment)
            module, _, function = planted.dotted(kind).rpartition(".")
            true = trained.judge(getattr(importlib.import_module(module), function))
            if true.answer == truth.WRONG:
                environment["COMPILEGATE_COMPILER"] = f"torch-compile:{module}.{function}"
                error = {"kind": kind, "environment": environment, "truth": true._asdict()}
                row["planted"].append(error)
                break
    write_row(Path("truth.json"), row)


def _probe(
    name: str,
    precision: str,
    environment: Mapping[str, str],
    until: re.Pattern[bytes] | None = None,
) -> Row:
    """The probe's answer in a training, which ends as soon as `until` is printed: the run of the
    repro takes a minute."""
    with tempfile.TemporaryDirectory(prefix="zoo-") as place:
        folder = Path(place)
        ended, seconds = _in_child(folder, _train, name, precision, environment, until=until)
        row: Row = {"seconds": round(seconds, 1)}
        if ended == "stopped":
            return {**row, "answer": WRONG, "printed": WRONG}
        if ended:
            return {**row, "answer": DIED, "why": f"{ended}: {_last_line(folder)}"}
        row |= _answer(folder / "compilegate-job" / "evidence")
        log = (folder / "log").read_bytes()
        printed = (answer for answer, each in _PRINTED.items() if each.search(log))
        row["printed"] = next(printed, None)
        if row["answer"] == WRONG:
            row["log"] = log[-4000:].decode(errors="replace")
        return row


def _train(name: str, precision: str, environment: Mapping[str, str]) -> None:
    """In a process of its own: the training script, with its settings in the environment."""
    os.environ.update(environment)
    import torch  # noqa: PLC0415

    from compilegate import job  # noqa: PLC0415

    architecture = HUNDRED[name]
    loader = truth.batches(architecture, STEPS)
    truth.seed(truth.SEED)
    models = tuple(job.compile(each) for each in architecture.models())
    optimizers = [torch.optim.AdamW(each.parameters(), lr=1e-3) for each in models]
    for batch in job.steps(loader):
        truth.step(architecture, models, optimizers, batch, precision)
    for each in models:
        each.eval()
    job.metrics(loss=architecture.losses[0](*models, loader[0]))
    job.save(models[0])
    job.finish()


def _answer(folder: Path) -> Row:
    """The gate's own verdict of parity on the evidence."""
    evidence = read_row(folder / "evidence.json")
    if not evidence or evidence["failure"]:
        return {"answer": DIED, "why": evidence.get("failure", "no evidence")}
    compiler, parity = evidence["compiler"], evidence["parity"] or {}
    row: Row = {key: compiler[key] for key in ("graphs", "graph_breaks", "compile_seconds")}
    row["probe_seconds"] = parity.get("seconds")
    with np.load(folder / "steps.npz") as steps:
        row["step_ms"] = round(1000 * float(np.median(steps["seconds"][5:])), 2)
    if not compiler["ran"] or not (folder / "parity.npz").exists():
        why = parity.get("obstacle") if compiler["ran"] else "did not run compiled"
        return {**row, "answer": CANNOT_TELL, "why": why}
    with np.load(folder / "parity.npz") as arrays:
        errors = ParityErrors(**{name: arrays[name] for name in arrays.files})
    precision = parity["precision"]
    limit, reproduced = DEFAULT_PARITY_LIMITS[precision], parity["reproduced"]
    verdict = parity_verdict(errors, precision, limit, reproduced)
    row |= {"answer": _ANSWERS[str(verdict.answer)], "why": str(verdict.why.value)}
    if verdict.worst is not None:
        row |= {"tensor": verdict.worst.tensor, "ratio": verdict.worst.ratio}
    return row


def _in_child(
    folder: Path,
    target: Callable[..., None],
    *arguments: Any,
    until: re.Pattern[bytes] | None = None,
) -> tuple[str, float]:
    """Run the target in the folder, in a process forked from a server that has imported everything.
    Returns how it ended (empty: well, `stopped`: its log has `until`) and its seconds."""
    began, log, ended = time.monotonic(), folder / "log", ""
    log.touch()
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=_alone, args=(folder, target, arguments))
    process.start()
    alive = True
    while alive and not ended:
        process.join(0.3)
        alive = process.is_alive()
        if until is not None and until.search(log.read_bytes()):
            ended = "stopped"
        elif time.monotonic() - began > LIMIT_SECONDS:
            ended = TOO_LONG
    with contextlib.suppress(ProcessLookupError):
        if process.pid is not None:
            os.killpg(process.pid, signal.SIGKILL)
    process.join()
    if not ended and process.exitcode:
        ended = f"exit status {process.exitcode}"
    return ended, time.monotonic() - began


def _alone(folder: Path, target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    os.setsid()
    os.chdir(folder)
    log = os.open("log", os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    target(*arguments)


def _last_line(folder: Path) -> str:
    """The error at the end of the log."""
    lines = (folder / "log").read_text(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else ""
