"""XGBoost as AWS's image has it: which images are its own, its metrics, how it trains and answers.

The runner reads the first half. A job runs a copy of this file in the environment of its image:
`python compilegate_xgboost.py` trains, and for a Transform step it is the handler. So it
imports nothing of this project, and takes Python 3.8.
"""

from __future__ import annotations

import csv
import io
import json
import os
import pickle
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

XGBOOST = "XGBoost"
MODEL = "xgboost-model"
_IMAGE = re.compile(r"(?:(?P<registry>[^/]+)/)?(?P<name>[a-z0-9\-]+)(?::(?P<tag>[^@/]+))?(?:@.*)?")
_ECR = re.compile(r"\d{12}\.dkr[.\-]ecr[.\-].+")
"""The registries of all partitions, with their endpoints for FIPS and for IPv6."""
_ALGORITHM = re.compile(
    "blazingtext|factorization-machines|forecasting-deepar|image-classification|ipinsights|kmeans|"
    "knn|lda|linear-learner|ntm|object-detection|object2vec|pca|randomcutforest|"
    "semantic-segmentation|seq2seq|(sagemaker-)?xgboost"
)
"""The repositories of AWS's built-in algorithms."""

_METRICS = """
accuracy aft-nloglik auc aucpr balanced_accuracy cox-nloglik error f1 f1_binary f1_macro
gamma-deviance gamma-nloglik logloss mae map mape merror mlogloss mphe mse ndcg poisson-nloglik
precision precision_macro precision_micro r2 recall recall_macro recall_micro rmse rmsle
"""
_NUMBER = re.compile(
    "aft_loss_distribution_scale|alpha|base_score|colsample_by(level|node|tree)|eta|"
    "early_stopping_rounds|gamma|lambda|lambda_bias|learning_rate|max_(bin|delta_step|depth|leaves)|"
    "min_child_weight|min_split_loss|nthread|num_(class|parallel_tree|round)|one_drop|rate_drop|"
    "refresh_leaf|reg_(alpha|lambda)|scale_pos_weight|seed|skip_drop|subsample|verbosity|"
    "tweedie_variance_power"
)
_WORD = re.compile(
    "sagemaker_.*|aft_loss_distribution|booster|eval_metric|grow_policy|interaction_constraints|"
    "monotone_constraints|normalize_type|objective|process_type|sample_type|sampling_method|"
    "tree_method|updater"
)
_WITHOUT_EFFECT = re.compile(
    "_tuning_objective_metric|deterministic_histogram|dsplit|predictor|prob_buffer_row|silent|"
    "save_model_on_termination|sketch_eps|use_dask_gpu_training"
)
"""Hyperparameters that today's library no longer has, or that only the service has a use for."""


REFUSAL = (
    "the image is the built-in algorithm {}, which only AWS's images have "
    "(of these, XGBoost alone is supported here); replace the step by a "
    "command (--command), or leave it out (--skip)"
)
NO_CSV = (
    "ContentType is {}; supported here: text/csv with one label (SageMaker's default is LIBSVM)"
)


class JobError(Exception):
    """What the user has to change; the job fails with this sentence."""


def algorithm_of(image: str) -> str | None:
    """The built-in algorithm that an image of AWS's trains; None for any other image."""
    match = _IMAGE.fullmatch(image)
    if match is None or not _ALGORITHM.fullmatch(match["name"]):
        return None
    if match["registry"] is not None and not _ECR.fullmatch(match["registry"]):
        return None
    return XGBOOST if match["name"].endswith("xgboost") else match["name"]


def metrics(hyperparameters: Mapping[str, str]) -> dict[str, str]:
    """Regular expressions of the image's own metrics, by name. The image prints `#011` for a tab,
    as CloudWatch shows it; scripts print either."""
    power = hyperparameters.get("tweedie_variance_power", "1.5")
    wanted = _listed(hyperparameters.get("eval_metric", ""))
    return {
        f"{channel}:{name}": rf"\[[0-9]+\].*(?:#011|\t){channel}-{re.escape(name)}:([^\s#]+)"
        for channel in ("train", "validation")
        for name in (*_METRICS.split(), f"tweedie-nloglik@{power}", *wanted)
    }


def faults(given: Mapping[str, Any], channels: Mapping[str, str | None]) -> Iterator[str]:
    """What cannot be trained with: of hyperparameters, and of channels with their ContentType."""
    for name, value in given.items():
        if _NUMBER.fullmatch(name):
            if not re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", str(value).strip()):
                yield f"the hyperparameter {name} is {value!r}, expected a number"
        elif not _WORD.fullmatch(name) and not _WITHOUT_EFFECT.fullmatch(name):
            yield f"the hyperparameter {name} is not supported by {XGBOOST} here"
    if "num_round" not in given:
        yield "the hyperparameter num_round is missing"
    if "train" not in channels:
        yield f"the channel train is missing; there are {sorted(channels) or 'none'}"
    for channel, kind in channels.items():
        if channel not in ("train", "validation"):
            yield f"the channel {channel} is not one of {XGBOOST}'s: train, validation"
        elif not is_csv(kind):
            yield f"the channel {channel}: {NO_CSV.format(kind)}"


def is_csv(content_type: str | None) -> bool:
    """Whether data are CSV with one label."""
    return bool(re.fullmatch(r"(text/)?csv\s*(;\s*(label_size=1|charset=.*))?", content_type or ""))


def _listed(text: str) -> list[str]:
    return [each.strip("'\" ") for each in text.strip("[] ").split(",") if each.strip("'\" ")]


# What follows runs in jobs.


def train(base: Path) -> None:
    """Train on the channels below /opt/ml, which is `base`. Raises JobError."""
    import xgboost  # noqa: PLC0415 - the image's own

    config = base / "input/config"
    given = json.loads((config / "hyperparameters.json").read_text("utf-8"))
    declared = json.loads((config / "inputdataconfig.json").read_text("utf-8"))
    channels = {name: channel.get("ContentType") for name, channel in declared.items()}
    for fault in faults(given, channels):
        raise JobError(fault)
    matrices = {}
    try:
        for name in ("train", "validation"):
            if name in channels:
                data = _table(base / "input/data" / name)
                matrix = xgboost.DMatrix(data[:, 1:], label=data[:, 0])
                rows, columns = matrix.num_row(), matrix.num_col()
                print(f"{name.title()} matrix has {rows} rows and {columns} columns", flush=True)
                matrices[name] = matrix
        booster = _boost(xgboost, _parameters(given), matrices)
    except (xgboost.core.XGBoostError, ValueError) as error:
        first = str(error).strip().splitlines()
        raise JobError(f"{XGBOOST} could not train: {' '.join(first[:2])}") from error
    target = base / "model" / MODEL
    target.write_bytes(booster.save_raw("ubj"))
    print(f"Stored trained model at {target}", flush=True)


def _parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """The hyperparameters for the library that is here, which may be newer than the image's."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if _WITHOUT_EFFECT.fullmatch(name):
            print(f"The hyperparameter {name} has no effect here.")
        elif not name.startswith("sagemaker_"):
            found[name] = str(value).strip()
    if found.get("tree_method") == "gpu_hist":
        device = "cuda" if int(os.environ.get("SM_NUM_GPUS") or 0) else "cpu"
        found.update(tree_method="hist", device=device)
    if found.get("objective") == "reg:linear":
        found["objective"] = "reg:squarederror"
    if "updater" in found:
        found["updater"] = ",".join(_listed(found["updater"]))
    if "eval_metric" in found:
        found["eval_metric"] = _listed(found["eval_metric"])
    return found


def _boost(xgboost: Any, parameters: dict[str, Any], matrices: Mapping[str, Any]) -> Any:
    def log(line: str) -> None:
        print(line.strip().replace("\t", "#011"), flush=True)

    callbacks = [xgboost.callback.EvaluationMonitor(logger=log)]
    rounds = int(float(parameters.pop("num_round")))
    patience = int(float(parameters.pop("early_stopping_rounds", "0")))
    if patience and "eval_metric" in parameters and "validation" in matrices:  # by the last of each
        callbacks.append(xgboost.callback.EarlyStopping(patience, save_best=True))
    return xgboost.train(
        parameters,
        matrices["train"],
        num_boost_round=rounds,
        evals=[(matrix, name) for name, matrix in matrices.items()],
        callbacks=callbacks,
        verbose_eval=False,
    )


def _table(folder: Path) -> Any:
    """The rows of a channel, each with its label first. Raises JobError, ValueError."""
    import numpy  # noqa: PLC0415 - comes with xgboost

    found = sorted(path for path in folder.rglob("*") if path.is_file())
    files = [path for path in found if not path.name.startswith((".", "_"))]
    if not files:
        raise JobError(f"the channel {folder.name} holds no data file")
    tables = []
    for path in files:
        try:
            tables.append(numpy.loadtxt(path, delimiter=",", ndmin=2, comments=None))
        except ValueError:  # an empty field, which is a missing value, or no number
            width = path.open(encoding="utf-8", errors="replace").readline().count(",") + 1
            tables.append(numpy.genfromtxt(path, delimiter=",").reshape(-1, width))
    table = numpy.concatenate(tables)
    if numpy.isnan(table[:, 0]).any():
        raise JobError(
            f"a row in {folder} does not begin with a number: {XGBOOST} takes CSV with commas and "
            "the label first, without a header"
        )
    return table


def model_fn(model_dir: str) -> Any:
    """A saved or pickled model; scripts, and images before 1.3, pickle it. Raises JobError."""
    import xgboost  # noqa: PLC0415

    content = Path(model_dir, MODEL).read_bytes()
    try:
        if content[:1] != pickle.PROTO:
            return xgboost.Booster(model_file=bytearray(content))
        found = pickle.loads(content)  # noqa: S301  the job's own model
    except xgboost.core.XGBoostError as error:
        raise JobError(
            f"XGBoost {xgboost.__version__} cannot read {MODEL}: "
            f"{str(error).splitlines()[0]}; name an image with the XGBoost that "
            "wrote it"
        ) from None
    return found.get_booster() if hasattr(found, "get_booster") else found


def input_fn(body: str, _content_type: str) -> Any:
    """The features of a request's records; an empty one is missing."""
    import numpy  # noqa: PLC0415

    rows = csv.reader(io.StringIO(body))
    cells = [[float(cell.strip() or "nan") for cell in row] for row in rows]
    return numpy.array(cells, dtype=numpy.float32)


def main() -> None:
    """Train one job; a failure is a sentence, in the log and in the container's failure file."""
    base = Path(os.environ["SM_INPUT_DIR"]).parent
    try:
        train(base)
    except JobError as error:
        failure = base / "output/failure"
        failure.parent.mkdir(parents=True, exist_ok=True)
        failure.write_text(str(error), encoding="utf-8")
        raise SystemExit(f"ClientError: {error}") from None


if __name__ == "__main__":
    main()
