"""Transforms files with a model, in its image's environment:

    python serving.py PLAN.json

What SageMaker's inference toolkits do: the script of SAGEMAKER_PROGRAM gives model_fn, and either
transform_fn, or input_fn, predict_fn and output_fn, each with a default. Without a script an
`xgboost-model` is served as the built-in algorithm does. Python 3.8; what it imports beyond the
standard library is the image's own.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import inspect
import io
import json
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

records: Any = importlib.import_module(
    "records" if __name__ == "__main__" else f"{__package__}.records"
)
"""A neighbour of this file, which runs by itself where the package is not installed."""

_TEXT = ("application/json", "text/csv")
_NPY = "application/x-npy"
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
    except (ServingError, records.FilterError) as error:
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
    """What answers a request: the script's functions, or the built-in algorithm's."""
    accept = plan["accept"] or os.environ.get("SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT", "")
    kind = plan["content_type"] or "text/csv"
    model_folder = Path(plan["model"])
    if plan["program"]:
        return _scripted(_module(plan), model_folder, kind, accept)
    booster = model_folder / "xgboost-model"
    if booster.is_file():
        return _boosted(booster, kind)
    there = ", ".join(sorted(path.name for path in model_folder.iterdir())) or "nothing"
    raise ServingError(
        "the model has no inference code (SAGEMAKER_PROGRAM is not set) and no xgboost-model; "
        f"its archive has {there}"
    )


def _module(plan: dict[str, Any]) -> Any:
    folder = Path(plan["code"])
    script = folder / plan["program"]
    if not script.is_file():
        there = ", ".join(sorted(path.name for path in folder.glob("*"))) or "nothing"
        raise ServingError(f"SAGEMAKER_PROGRAM {plan['program']} is not in its folder: {there}")
    sys.path.insert(0, str(folder))
    return importlib.import_module(plan["program"][:-3].replace("/", "."))


def _scripted(module: Any, model_folder: Path, kind: str, accept: str) -> Predictor:
    load = getattr(module, "model_fn", None)
    if load is None:
        raise ServingError(f"{module.__name__} has no model_fn, which loads the model")
    model = _called(load, str(model_folder))
    given = {
        name: getattr(module, name, None)
        for name in ("transform_fn", "input_fn", "predict_fn", "output_fn")
    }
    accept = accept or ("application/json" if kind == "application/json" else "text/csv")

    def predict(body: bytes) -> tuple[bytes, str]:
        data = body.decode("utf-8") if kind.split(";", maxsplit=1)[0] in _TEXT else body
        if given["transform_fn"] is not None:
            answer = _called(given["transform_fn"], model, data, kind, accept)
        else:
            value = _called(given["input_fn"] or _default_input, data, kind)
            found = _called(given["predict_fn"] or _default_prediction, value, model)
            answer = _called(given["output_fn"] or _default_output, found, accept)
        return _as_bytes(answer, accept)

    return predict


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call with as many arguments as it takes: some containers add a context at the end."""
    try:
        taken = inspect.signature(function)
        needed = [
            each
            for each in taken.parameters.values()
            if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}
            and each.default is each.empty
        ]
    except (TypeError, ValueError):
        return function(*arguments)
    return function(*arguments, *([None] * (len(needed) - len(arguments))))


def _as_bytes(answer: Any, accept: str) -> tuple[bytes, str]:
    kind = accept
    if isinstance(answer, tuple) and len(answer) == 2:
        answer, kind = answer[0], str(answer[1])
    elif hasattr(answer, "response") and hasattr(answer, "mimetype"):  # worker.Response
        kind, answer = str(answer.mimetype), answer.response
        answer = answer if isinstance(answer, (str, bytes)) else b"".join(answer)
    if isinstance(answer, str):
        return answer.encode("utf-8"), kind
    if isinstance(answer, (bytes, bytearray)):
        return bytes(answer), kind
    return _default_output(answer, kind).encode("utf-8"), kind


def _default_input(data: Any, kind: str) -> Any:
    import numpy  # noqa: PLC0415  the image's own

    kind = kind.split(";", maxsplit=1)[0]
    if kind == "application/json":
        return numpy.array(json.loads(data))
    if kind == "text/csv":
        return numpy.array(list(csv.reader(io.StringIO(data))), dtype=numpy.float32)
    if kind == _NPY:
        return numpy.load(io.BytesIO(data), allow_pickle=False)
    raise ServingError(f"content of type {kind} needs an input_fn in the inference code")


def _default_prediction(value: Any, model: Any) -> Any:
    if hasattr(model, "predict"):
        return model.predict(value)
    torch = sys.modules.get("torch")
    if torch is not None and callable(model):
        with torch.no_grad():
            return model(torch.as_tensor(value))
    raise ServingError(f"{type(model).__name__} has no predict: the code needs a predict_fn")


def _default_output(found: Any, accept: str) -> str:
    rows = found.tolist() if hasattr(found, "tolist") else found
    if accept.split(";", maxsplit=1)[0] != "text/csv":
        return json.dumps(rows)
    rows = rows if isinstance(rows, list) else [rows]
    lines: list[str] = [
        records.write_record(row if isinstance(row, list) else [row], records.CSV) + "\n"
        for row in rows
    ]
    return "".join(lines)


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
        return _default_output(booster.predict(matrix), records.CSV).encode("utf-8"), records.CSV

    return predict


def _booster(path: Path, xgboost: Any) -> Any:
    with path.open("rb") as file:  # the job's own model: scripts, and images before 1.3, pickle it
        pickled = file.read(1) == pickle.PROTO
        file.seek(0)
        booster = pickle.load(file) if pickled else xgboost.Booster()  # noqa: S301
    if not pickled:
        booster.load_model(str(path))
    return booster.get_booster() if hasattr(booster, "get_booster") else booster


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
