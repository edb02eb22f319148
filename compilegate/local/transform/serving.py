"""Transforms files with a model, in its image's environment:

    python serving.py PLAN.json

The handler of the model's code answers (`compilegate/serving/toolkit.py`, which lies beside this
file when it runs). Without one an `xgboost-model` is served as the built-in algorithm does. Python
3.8; what it imports beyond the standard library is the image's own.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import json
import os
import pickle
import sys
from pathlib import Path
from typing import Any

records: Any
toolkit: Any
if __name__ == "__main__":  # the neighbours of a file that runs by itself
    records, toolkit = (importlib.import_module(name) for name in ("records", "toolkit"))
    del sys.modules["records"], sys.modules["toolkit"]  # a handler may have modules of these names
else:
    records = importlib.import_module(f"{__package__}.records")
    toolkit = importlib.import_module("compilegate.serving.toolkit")

_LIBSVM = ("text/libsvm", "text/x-libsvm")

Predictor = Any
"""A function from a request's body to the response and its type."""


class ServingError(Exception):
    """Why there is no prediction; the job fails with this sentence."""


def main() -> None:
    """Load the model once, and transform every file."""
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        predict = predictor(plan)
        for name in plan["files"]:
            target = Path(plan["output"]) / (name + ".out")
            target.parent.mkdir(parents=True, exist_ok=True)
            content = (Path(plan["input"]) / name).read_bytes()
            if plan["gzipped"]:
                content = gzip.decompress(content)
            target.write_bytes(transformed(content, plan, predict))
            print(f"transformed {name}", flush=True)
    except (
        ServingError,
        records.FilterError,
        toolkit.HandlerError,
        toolkit.UnsupportedTypeError,
    ) as error:
        raise SystemExit(f"error: {error}") from None


def transformed(content: bytes, plan: dict[str, Any], predict: Predictor) -> bytes:
    """The predictions for one file, put together as the request asks."""
    if not plan["split_lines"]:
        answer: bytes = predict(content)[0]
        return answer + (b"\n" if plan["assemble_lines"] and not answer.endswith(b"\n") else b"")
    lines = [line for line in content.decode("utf-8").splitlines() if line.strip()]
    parts: list[str] = []
    for group in records.batches(lines, plan["single_records"], plan["payload_bytes"]):
        parts += _of_group(group, plan, predict)
    end = "\n" if plan["assemble_lines"] else ""
    return "".join(part + end for part in parts).encode("utf-8")


def _of_group(group: list[str], plan: dict[str, Any], predict: Predictor) -> list[str]:
    kind = plan["content_type"]
    wanted = records.parse_filter(plan["input_filter"])
    sent = group
    if wanted:
        chosen = (records.select(records.parse_record(line, kind), wanted) for line in group)
        sent = [records.write_record(each, kind) for each in chosen]
    body = sent[0] if len(sent) == 1 else "\n".join(sent) + "\n"
    answer, answer_type = predict(body.encode("utf-8"))
    leaves = records.parse_filter(plan["output_filter"])
    text = answer.decode("utf-8")
    if not leaves and not plan["join"]:
        return [text[:-1] if text.endswith("\n") else text]
    found: list[Any] = list(records.predictions(text, answer_type, len(group)))
    written = answer_type
    if plan["join"]:
        pairs = zip(group, found)  # noqa: B905  Python 3.8; they are as many
        found = [records.joined(records.parse_record(line, kind), each) for line, each in pairs]
        written = kind
    return [records.write_record(records.select(each, leaves), written) for each in found]


def predictor(plan: dict[str, Any]) -> Predictor:
    """What answers a request: the handler, or the built-in algorithm."""
    accept = plan["accept"] or os.environ.get("SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT", "")
    kind = plan["content_type"] or records.CSV
    model_folder, defaults = Path(plan["model"]), plan["defaults"]
    booster = model_folder / "xgboost-model"
    if not plan["program"] and booster.is_file():
        return _boosted(booster, kind)
    if plan["program"] or defaults != "arrays":
        handler = toolkit.Handler(str(model_folder), Path(plan["code"]), plan["program"], defaults)
        if not accept:
            as_text = defaults == "arrays" and kind != toolkit.JSON
            accept = toolkit.CSV if as_text else toolkit.JSON
        return lambda body: handler.answer(body, kind, accept)
    there = ", ".join(sorted(path.name for path in model_folder.iterdir())) or "nothing"
    raise ServingError(
        "the model has no inference code (SAGEMAKER_PROGRAM is not set) and no xgboost-model; "
        f"its archive has {there}"
    )


def _boosted(path: Path, kind: str) -> Predictor:
    """As the built-in XGBoost serves: one prediction a line."""
    import numpy  # noqa: PLC0415
    import xgboost  # noqa: PLC0415

    booster = _booster(path, xgboost)

    def predict(body: bytes) -> tuple[bytes, str]:
        text = body.decode("utf-8")
        if kind.split(";", maxsplit=1)[0] in _LIBSVM:
            features = _libsvm(text, booster.num_features())
        else:
            rows = [
                [float(cell) if cell.strip() else numpy.nan for cell in row]
                for row in csv.reader(io.StringIO(text))
            ]
            features = numpy.array(rows, dtype=numpy.float32)
        matrix = xgboost.DMatrix(features, feature_names=booster.feature_names)
        found = [
            records.write_record(each, records.CSV) for each in booster.predict(matrix).tolist()
        ]
        return "".join(f"{line}\n" for line in found).encode("utf-8"), records.CSV

    return predict


def _booster(path: Path, xgboost: Any) -> Any:
    with path.open("rb") as file:  # the job's own model: scripts, and images before 1.3, pickle it
        pickled = file.read(1) == pickle.PROTO
        file.seek(0)
        booster = _unpickler(xgboost)(file).load() if pickled else xgboost.Booster()
    if not pickled:
        booster.load_model(str(path))
    return booster.get_booster() if hasattr(booster, "get_booster") else booster


def _unpickler(xgboost: Any) -> Any:
    """Reads a Booster of any version: before 1.0 a pickle held a saved model, not a state."""

    class Booster(xgboost.Booster):  # type: ignore[misc]
        def __setstate__(self, state: dict[str, Any]) -> None:
            saved, names = state.get("handle"), state.get("feature_names")
            try:
                super().__setstate__(dict(state))
            except xgboost.core.XGBoostError as error:
                try:
                    xgboost.Booster.__init__(self)
                    self.load_model(bytearray(saved or b""))
                except xgboost.core.XGBoostError:
                    raise ServingError(
                        f"XGBoost {xgboost.__version__} does not read the pickled model: {error}; "
                        "name an image whose XGBoost is as old as the model's"
                    ) from None
                if names:
                    self.feature_names = names

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            found = super().find_class(module, name)
            return Booster if found is xgboost.Booster else found

    return Unpickler


def _libsvm(text: str, width: int) -> Any:
    import numpy  # noqa: PLC0415

    rows = []
    for line in text.splitlines():
        row = numpy.full(width, numpy.nan, dtype=numpy.float32)
        for cell in line.split():
            index, colon, value = cell.partition(":")
            if colon and int(index) < width:  # no tree knows a later one
                row[int(index)] = float(value)
        rows.append(row)
    return numpy.array(rows)


if __name__ == "__main__":
    main()
