"""Trains as AWS's XGBoost image does without a script of the user's (its algorithm mode):

    python xgboost_training.py [--pickle]

It reads the hyperparameters and channels that SageMaker's contract puts into the container, and
leaves `xgboost-model`: with `--pickle` a pickled Booster, as images before 1.3 do. Each round's
metrics are printed as CloudWatch shows them, with `#011` for a tab, because the expressions of
metric definitions are written for that.
"""

from __future__ import annotations

import csv
import json
import math
import os
import pickle
import re
import signal
import sys
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

MODEL = "xgboost-model"
CHECKPOINT = "xgboost-checkpoint"


class JobError(Exception):
    """What the user has to change; the job fails with this sentence."""


# Hyperparameters

_INFINITE = math.inf
_RANGES: Sequence[tuple[type, float, float, str]] = (
    (int, 0, 1, "csv_weights silent refresh_leaf one_drop"),
    (int, 0, 3, "verbosity"),
    (int, 0, _INFINITE, "max_depth max_leaves max_bin"),
    (int, 1, _INFINITE, "num_round early_stopping_rounds nthread num_parallel_tree _num_cv_round"),
    (int, 2, _INFINITE, "num_class _kfold"),
    (int, -(2**31), 2**31 - 1, "seed"),
    (float, 0, 1, "eta subsample colsample_bytree colsample_bylevel colsample_bynode sketch_eps"),
    (float, 0, 1, "rate_drop skip_drop lambda_bias"),
    (float, 0, _INFINITE, "gamma min_child_weight max_delta_step lambda alpha scale_pos_weight"),
    (float, 0, _INFINITE, "base_score aft_loss_distribution_scale"),
    (float, 1, 2, "tweedie_variance_power"),
    (float, 1, _INFINITE, "prob_buffer_row"),
)
KINDS = {
    name: (kind, least, greatest)
    for kind, least, greatest, names in _RANGES
    for name in names.split()
}
"""Numbers: what they are, the least and the greatest."""

CHOICES = {
    "booster": ("gbtree", "gblinear", "dart"),
    "tree_method": ("auto", "exact", "approx", "hist", "gpu_hist"),
    "dsplit": ("row", "col"),
    "process_type": ("default", "update"),
    "grow_policy": ("depthwise", "lossguide"),
    "predictor": ("auto", "cpu_predictor", "gpu_predictor"),
    "sample_type": ("uniform", "weighted"),
    "normalize_type": ("tree", "forest"),
    "save_model_on_termination": ("true", "false"),
    "aft_loss_distribution": ("normal", "logistic", "extreme"),
    "deterministic_histogram": ("true", "false"),
    "sampling_method": ("uniform", "gradient_based"),
    "use_dask_gpu_training": ("true", "false"),
}
LISTS = ("eval_metric", "updater")
TEXTS = ("objective", "monotone_constraints", "interaction_constraints", "_tuning_objective_metric")
ALIASES = {
    "learning_rate": "eta",
    "min_split_loss": "gamma",
    "reg_lambda": "lambda",
    "reg_alpha": "alpha",
}
# What today's XGBoost no longer has; none of them changes what is learned, beyond rounding.
GONE = (
    "deterministic_histogram dsplit predictor prob_buffer_row silent sketch_eps "
    "use_dask_gpu_training"
)

MAXIMIZED = (
    "accuracy auc aucpr balanced_accuracy f1 f1_binary f1_macro map ndcg precision "
    "precision_macro precision_micro r2 recall recall_macro recall_micro"
)


def read_hyperparameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Typed and checked; raises JobError with the name, what was found and what is allowed."""
    read: dict[str, Any] = {}
    for name, text in given.items():
        if name.startswith("sagemaker_"):
            continue
        known = ALIASES.get(name, name)
        read[known] = _value(name, known, str(text).strip())
    if "num_round" not in read:
        raise JobError("the hyperparameter num_round is missing, it must be given")
    if str(read.get("objective", "")).startswith("multi:") and "num_class" not in read:
        raise JobError(f"the objective {read['objective']} needs the hyperparameter num_class")
    return read


def _value(name: str, known: str, text: str) -> Any:
    if known in KINDS:
        kind, least, greatest = KINDS[known]
        try:
            value = kind(text)
        except ValueError:
            expected = "a whole number" if kind is int else "a number"
            raise JobError(f"the hyperparameter {name} is {text!r}, expected {expected}") from None
        if not least <= value <= greatest:
            raise JobError(f"the hyperparameter {name} is {text}, allowed: {least} to {greatest}")
        return value
    if known in CHOICES:
        if text not in CHOICES[known]:
            raise JobError(
                f"the hyperparameter {name} is {text!r}, allowed: {', '.join(CHOICES[known])}"
            )
        return text
    if known in LISTS:
        return [item.strip("'\" ") for item in text.strip("[]").split(",") if item.strip("'\" ")]
    if known in TEXTS:
        return text
    raise JobError(f"the hyperparameter {name} is not one of the XGBoost algorithm")


# Data


def content_type(declared: str | None) -> str:
    """csv, libsvm or parquet, from a channel's ContentType; libsvm where it has none."""
    if declared is None:
        return "libsvm"
    kind, _, options = declared.lower().partition(";")
    size = re.search(r"label_size\s*=\s*(\d+)", options)
    if size is not None and size[1] != "1":
        raise JobError(f"the content type {declared} has a label_size that is not 1")
    short = re.sub(r"^(text|application)/(x-)?", "", kind.strip())
    if short in ("csv", "libsvm", "parquet"):
        return short
    raise JobError(
        f"the content type {declared} cannot be read here, allowed: text/csv, text/libsvm, "
        "application/x-parquet"
    )


def data_files(folder: Path) -> list[Path]:
    """The files of a channel, in order; hidden ones and markers are none."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for path in found if not path.name.startswith((".", "_"))]


def read_matrix(xgboost: Any, folder: Path, kind: str, *, weights: bool) -> Any:
    """The channel's DMatrix: the first column is the label."""
    files = data_files(folder)
    if not files:
        raise JobError(f"the channel {folder.name} holds no data file")
    if kind == "parquet":
        return _parquet_matrix(xgboost, files)
    if kind == "csv":
        return _csv_matrix(xgboost, files, weights=weights)
    return _libsvm_matrix(xgboost, files)


def _csv_matrix(xgboost: Any, files: Sequence[Path], *, weights: bool) -> Any:
    import numpy  # noqa: PLC0415 - comes with xgboost

    delimiter = _delimiter(files[0])
    tables = []
    for path in files:
        try:
            table = numpy.loadtxt(path, delimiter=delimiter, ndmin=2, comments=None)
        except ValueError:  # an empty field, which is a missing value
            table = numpy.genfromtxt(path, delimiter=delimiter)
            table = table.reshape(-1, table.shape[-1] if table.ndim > 1 else table.size)
        tables.append(table)
    widths = sorted({table.shape[1] for table in tables})
    if len(widths) > 1:
        raise JobError(f"the CSV files of {files[0].parent} have {widths} columns, not all alike")
    data = numpy.concatenate(tables)
    if numpy.isnan(data[:, 0]).any():
        raise JobError(
            f"a row of {files[0].parent} has no number in its first column, which is the label: "
            "the XGBoost algorithm takes CSV without a header"
        )
    if weights:
        return xgboost.DMatrix(data[:, 2:], label=data[:, 0], weight=data[:, 1])
    return xgboost.DMatrix(data[:, 1:], label=data[:, 0])


def _libsvm_matrix(xgboost: Any, files: Sequence[Path]) -> Any:
    """LABEL[:WEIGHT] [qid:GROUP] INDEX:VALUE ..."""
    from scipy import sparse  # noqa: PLC0415 - comes with xgboost

    labels: list[float] = []
    weights: list[float] = []
    groups: list[int] = []
    values: list[float] = []
    columns: list[int] = []
    starts = [0]
    for path in files:
        with path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, start=1):
                fields = line.split("#", 1)[0].split()
                if not fields:
                    continue
                try:
                    label, _, weight = fields[0].partition(":")
                    labels.append(float(label))
                    weights.append(float(weight or 1))
                    for field in fields[1:]:
                        name, _, value = field.partition(":")
                        if name == "qid":
                            groups.append(int(value))
                        else:
                            columns.append(int(name))
                            values.append(float(value))
                except ValueError:
                    raise JobError(
                        f"line {number} of {path} is not in LIBSVM format: {line[:50]!r}; a "
                        "channel with CSV has the ContentType text/csv"
                    ) from None
                starts.append(len(columns))
    shape = (len(labels), max(columns, default=-1) + 1)
    matrix = sparse.csr_matrix((values, columns, starts), shape=shape)
    weighted = any(weight != 1 for weight in weights)
    return xgboost.DMatrix(
        matrix, label=labels, weight=weights if weighted else None, qid=groups or None
    )


def _delimiter(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        line = file.readline()
    try:
        found = csv.Sniffer().sniff(line, delimiters=",;\t| ").delimiter
    except csv.Error:
        raise JobError(
            f"no delimiter was found in the first line of {path}: {line[:50]!r}"
        ) from None
    print(f"Determined delimiter of CSV input is {found!r}")
    label = line.split(found, 1)[0].strip()
    try:
        float(label or "nan")
    except ValueError:
        raise JobError(
            f"the first line of {path} begins with {label!r}, which is no number: the XGBoost "
            "algorithm takes CSV without a header, with the label first"
        ) from None
    return found


def _parquet_matrix(xgboost: Any, files: Sequence[Path]) -> Any:
    try:
        import numpy  # noqa: PLC0415 - only some jobs read parquet
        import pyarrow  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise JobError(f"parquet needs {error.name}: pip install pyarrow") from error
    table = pyarrow.concat_tables([parquet.read_table(path) for path in files])
    columns = [column.to_numpy().astype(numpy.float64) for column in table.columns]
    return xgboost.DMatrix(numpy.column_stack(columns[1:]), label=columns[0])


# Metrics


class PrintedMetrics:
    """One line a round, as the image's log in CloudWatch has it; made into a callback below."""

    def after_iteration(self, _model: Any, epoch: int, evals_log: Mapping[str, Any]) -> bool:
        """Print the last value of each metric."""
        parts = [
            f"{data}-{name}:{_last(values):.5f}"
            for data, metrics in evals_log.items()
            for name, values in metrics.items()
        ]
        print("#011".join([f"[{epoch}]", *parts]), flush=True)
        return False


def _last(values: Sequence[Any]) -> float:
    last = values[-1]
    return float(last[0] if isinstance(last, tuple) else last)


CUSTOM = {
    **{name: (f"{name}_score", "") for name in ("accuracy", "balanced_accuracy")},
    **{name: (f"{name}_score", "binary") for name in ("precision", "recall")},
    **{f"{name}_macro": (f"{name}_score", "macro") for name in ("f1", "precision", "recall")},
    **{f"{name}_micro": (f"{name}_score", "micro") for name in ("precision", "recall")},
    "f1": ("f1_score", "macro"),
    "f1_binary": ("f1_score", "binary"),
    "mse": ("mean_squared_error", ""),
    "r2": ("r2_score", ""),
}
"""Metrics that XGBoost itself has not: scikit-learn's function, and how it averages classes."""


def custom_metrics(names: Sequence[str]) -> tuple[Callable[..., Any] | None, list[str]]:
    """The function that computes those of `names` that XGBoost itself has not, and their names."""
    wanted = [name for name in names if name in CUSTOM]
    if not wanted:
        return None, []
    try:
        import numpy  # noqa: PLC0415 - only some jobs need them
        from sklearn import metrics  # noqa: PLC0415
    except ImportError:
        raise JobError(f"the metric {wanted[0]} needs scikit-learn: pip install it") from None

    def score(name: str, truth: Any, raw: Any) -> float:
        function, average = CUSTOM[name]
        if name not in ("mse", "r2"):  # raw predictions are log odds
            raw = numpy.argmax(raw, axis=-1) if raw.ndim > 1 else (raw > 0).astype(int)
        options = {"average": average} if average else {}
        return float(getattr(metrics, function)(truth, raw, **options))

    def compute(raw: Any, matrix: Any) -> list[tuple[str, float]]:
        return [(name, score(name, matrix.get_label(), raw)) for name in wanted]

    return compute, wanted


# Training


def train(paths: Paths, *, pickled: bool) -> None:
    """Train and leave the model; raises JobError."""
    try:
        import xgboost  # noqa: PLC0415 - so that its absence is a sentence
    except ImportError:
        raise JobError("xgboost is not in this environment: pip install xgboost-cpu") from None
    given = json.loads((paths.config / "hyperparameters.json").read_text(encoding="utf-8"))
    channels = json.loads((paths.config / "inputdataconfig.json").read_text(encoding="utf-8"))
    parameters = read_hyperparameters(given)
    if "_kfold" in parameters:
        raise JobError("cross validation (_kfold) is not done here; train without it")
    if "train" not in channels:
        raise JobError(f"the channel train is missing; there are {sorted(channels) or 'none'}")
    for name in channels:
        if name not in ("train", "validation", "code"):
            raise JobError(f"the channel {name} is none of the algorithm's: train, validation")
    matrices = {}
    for name in ("train", "validation"):
        if name in channels:
            kind = content_type(channels[name].get("ContentType"))
            weights = bool(parameters.get("csv_weights"))
            matrices[name] = read_matrix(xgboost, paths.data / name, kind, weights=weights)
    rows, columns = matrices["train"].num_row(), matrices["train"].num_col()
    print(f"Train matrix has {rows} rows and {columns} columns")
    if "validation" in matrices:
        print(f"Validation matrix has {matrices['validation'].num_row()} rows")
    print("Single node training.", flush=True)
    booster = _boost(xgboost, parameters, matrices, paths)
    target = paths.model / MODEL
    if pickled:
        target.write_bytes(pickle.dumps(booster))
    else:
        booster.save_model(str(target))
    print(f"Stored trained model at {target}")


def _boost(
    xgboost: Any, parameters: dict[str, Any], matrices: Mapping[str, Any], paths: Paths
) -> Any:
    rounds = parameters.pop("num_round")
    patience = parameters.pop("early_stopping_rounds", None)
    keep_latest = parameters.pop("save_model_on_termination", "false") == "true"
    parameters.pop("csv_weights", None)
    parameters.pop("_num_cv_round", None)
    objective_metric = parameters.pop("_tuning_objective_metric", None)
    tuned = [] if objective_metric is None else objective_metric.split(":")[1].split(",")
    asked = list(dict.fromkeys([*parameters.pop("eval_metric", []), *tuned]))
    compute, custom = custom_metrics(asked)
    native = [name for name in asked if name not in custom]
    if native:
        parameters["eval_metric"] = native
    elif custom:
        parameters["disable_default_eval_metric"] = True
    _adapt(parameters)
    callbacks = [_printer(xgboost)]
    start, done = _checkpoint(xgboost, paths)
    if paths.checkpoints is not None:
        callbacks.append(
            xgboost.callback.TrainingCheckPoint(str(paths.checkpoints), name=CHECKPOINT, interval=1)
        )
    if keep_latest:
        callbacks.append(_keeper(xgboost, paths.model / MODEL))
    metric = tuned[-1] if tuned else asked[-1] if asked else None
    if patience and metric and "validation" in matrices:
        callbacks.append(
            xgboost.callback.EarlyStopping(
                rounds=patience,
                data_name="validation",
                metric_name=metric,
                maximize=metric.split("@")[0] in MAXIMIZED.split(),
                save_best=True,
            )
        )
    try:
        return xgboost.train(
            parameters,
            matrices["train"],
            num_boost_round=max(0, rounds - done),
            evals=[(matrix, name) for name, matrix in matrices.items()],
            custom_metric=compute,
            callbacks=callbacks,
            xgb_model=start,
            verbose_eval=False,
        )
    except (xgboost.core.XGBoostError, ValueError) as error:
        first = str(error).strip().splitlines()
        raise JobError(f"XGB train call failed with exception: {' '.join(first[:3])}") from error


def _adapt(parameters: dict[str, Any]) -> None:
    """To the XGBoost that is here, which may be newer than the image's."""
    if parameters.get("silent"):
        parameters.setdefault("verbosity", 0)
    for name in GONE.split():
        if parameters.pop(name, None) is not None:
            print(f"The hyperparameter {name} has no effect in the XGBoost that is here.")
    if parameters.get("tree_method") == "gpu_hist":
        parameters["tree_method"] = "hist"
        if int(os.environ.get("SM_NUM_GPUS") or 0):
            parameters["device"] = "cuda"
    if parameters.get("objective") == "reg:linear":
        parameters["objective"] = "reg:squarederror"
    if "updater" in parameters:
        parameters["updater"] = ",".join(parameters["updater"])


def _printer(xgboost: Any) -> Any:
    return type("Printer", (PrintedMetrics, xgboost.callback.TrainingCallback), {})()


def _keeper(xgboost: Any, target: Path) -> Any:
    def after_iteration(_self: Any, model: Any, _epoch: int, _evals_log: Any) -> bool:
        part = target.with_name(f".{target.name}.json")
        model.save_model(str(part))
        part.replace(target)
        return False

    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    return type(
        "Keeper", (xgboost.callback.TrainingCallback,), {"after_iteration": after_iteration}
    )()


def _checkpoint(xgboost: Any, paths: Paths) -> tuple[str | None, int]:
    """The newest checkpoint and how many rounds it holds."""
    if paths.checkpoints is None:
        return None, 0
    paths.checkpoints.mkdir(parents=True, exist_ok=True)
    saved = []
    for path in paths.checkpoints.iterdir():
        if path.name.startswith(CHECKPOINT) and not path.name.startswith("."):
            booster = xgboost.Booster()
            booster.load_model(str(path))
            saved.append((booster.num_boosted_rounds(), path))
    if not saved:
        return None, 0
    done, path = max(saved)
    print(f"Checkpoint loaded from {path}\nResuming from iteration {done}")
    return str(path), done


class Paths:
    """Where the container's contract has the job's files."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        base = Path(variables["SM_INPUT_DIR"]).parent
        self.config, self.data = base / "input/config", base / "input/data"
        self.model, self.failure = base / "model", base / "output/failure"
        declared = self.config / "checkpointconfig.json"
        self.checkpoints: Path | None = None
        if declared.is_file():
            self.checkpoints = Path(json.loads(declared.read_text(encoding="utf-8"))["LocalPath"])


def main() -> None:
    """Run one job; a failure is a sentence, in the log and in the container's failure file."""
    paths = Paths(os.environ)
    try:
        train(paths, pickled="--pickle" in sys.argv[1:])
    except JobError as error:
        paths.failure.parent.mkdir(parents=True, exist_ok=True)
        paths.failure.write_text(str(error), encoding="utf-8")
        print(f"ClientError: {error}", flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
