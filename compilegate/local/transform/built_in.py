"""Serves the model of a built-in algorithm as AWS's image does: a prediction for each record.

`xgboost-model` is the XGBoost algorithm's. `model_algo-1` is that of Linear Learner or K-Means, as
trained here; AWS's own holds arrays of MXNet, which are not read.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
import pickle
from pathlib import Path
from typing import Any

records: Any = importlib.import_module(f"{__package__}.records" if __package__ else "records")
"""A neighbour of this file, which runs by itself where the package is not installed."""

_LIBSVM = ("text/libsvm", "text/x-libsvm")
_JSON = "application/json"
_LINES = ("application/jsonlines", "application/x-jsonlines")
_BOOSTER, _ARRAYS = "xgboost-model", "model_algo-1"
MODELS = f"{_BOOSTER}, {_ARRAYS}"
"""The files by which a model is known."""

Predictor = Any
"""A function from a request's body to the response and its type."""


class ContentError(Exception):
    """What is sent, asked for or stored is none of the algorithm's; the job fails with this."""


def predictor(model_folder: Path, kind: str, accept: str) -> Predictor | None:
    """What answers requests of this type; None for a model of something else."""
    booster, arrays = model_folder / _BOOSTER, model_folder / _ARRAYS
    if booster.is_file():
        return _boosted(booster, kind)
    if arrays.is_file():
        return _of_arrays(arrays, kind.split(";", maxsplit=1)[0].strip().lower(), accept)
    return None


def _boosted(path: Path, kind: str) -> Predictor:
    """One prediction a line."""
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
                    said = str(error).splitlines()[0]  # without the library's stack
                    raise ContentError(
                        f"XGBoost {xgboost.__version__} does not read the pickled model: {said}; "
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


def _of_arrays(path: Path, kind: str, accept: str) -> Predictor:
    """JSON, or a line of it for each record, which is what batches are answered with."""
    import numpy  # noqa: PLC0415

    try:
        with numpy.load(path, allow_pickle=False) as archive:
            model = {name: archive[name] for name in archive.files}
        answers = {"k-means": _clusters, "linear-learner": _scores}[str(model["kind"])]
        weights = model["centroids" if answers is _clusters else "weights"]
    except (ValueError, KeyError, OSError):
        raise ContentError(
            f"{path.name} was not trained here: the arrays of MXNet in it are not read"
        ) from None
    answer_type = accept.split(";", maxsplit=1)[0].strip().lower() or _LINES[0]
    if answer_type not in (_JSON, *_LINES):
        raise ContentError(
            f"Accept is {accept}, allowed for this algorithm here: {_JSON}, {_LINES[0]}"
        )

    def predict(body: bytes) -> tuple[bytes, str]:
        rows = numpy.array(_features(body.decode("utf-8"), kind), dtype=float)
        if rows.ndim != 2 or rows.shape[1] != weights.shape[1]:
            found = rows.shape[1] if rows.ndim == 2 else "rows of different"
            raise ContentError(f"a record has {found} features, the model {weights.shape[1]}")
        found = answers(model, rows)
        if answer_type == _JSON:
            return json.dumps({"predictions": found}).encode("utf-8"), answer_type
        lines = "".join(json.dumps(each) + "\n" for each in found)
        return lines.encode("utf-8"), answer_type

    return predict


def _features(text: str, kind: str) -> list[list[float]]:
    try:
        if kind == records.CSV:
            rows = [row for row in csv.reader(io.StringIO(text)) if row]
            return [[float(cell) for cell in row] for row in rows]
        if kind in _LINES:
            return [_of_json(json.loads(line)) for line in text.splitlines() if line.strip()]
        if kind == _JSON:
            told = json.loads(text)
            # Split by line, a record is an object of its own.
            told = told["instances"] if isinstance(told, dict) and "instances" in told else [told]
            return [_of_json(each) for each in told]
    except (ValueError, KeyError, TypeError) as error:
        raise ContentError(f"a record is not as {kind} has it ({error}): {text[:60]!r}") from None
    raise ContentError(
        f"ContentType is {kind}, allowed for this algorithm here: {records.CSV}, {_JSON}, "
        f"{_LINES[0]}"
    )


def _of_json(record: Any) -> list[float]:
    """`{"features": [...]}`, or as the longer form has it, with `data` in it."""
    found = record["features"] if "features" in record else record["data"]["features"]
    found = found["values"] if isinstance(found, dict) else found
    return [float(each) for each in found]


def _scores(model: dict[str, Any], rows: Any) -> list[dict[str, Any]]:
    import numpy  # noqa: PLC0415

    scores = rows @ model["weights"].T + model["bias"]
    kind = str(model["predictor"])
    if kind == "regressor":
        return [{"score": float(each)} for each in scores[:, 0]]
    if kind == "binary_classifier":
        labels = scores[:, 0] > float(model["threshold"])
        shown = 0.5 * (1 + numpy.tanh(scores / 2)) if bool(model["is_logistic"]) else scores
        pairs = zip(shown[:, 0], labels)  # noqa: B905  Python 3.8; they are as many
        return [{"score": float(each), "predicted_label": int(label)} for each, label in pairs]
    odds = numpy.exp(scores - scores.max(axis=1, keepdims=True))
    odds /= odds.sum(axis=1, keepdims=True)
    return [
        {"score": [float(x) for x in each], "predicted_label": int(each.argmax())} for each in odds
    ]


def _clusters(model: dict[str, Any], rows: Any) -> list[dict[str, Any]]:
    import numpy  # noqa: PLC0415

    found = []
    for row in rows:
        distances = numpy.sqrt(((model["centroids"] - row) ** 2).sum(axis=1))
        closest = int(distances.argmin())
        found.append(
            {"closest_cluster": float(closest), "distance_to_cluster": float(distances[closest])}
        )
    return found
