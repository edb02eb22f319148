"""Built-in algorithms: their images train here as AWS's do, or are refused by name."""

from __future__ import annotations

import json
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compilegate.local import RefusedDefinitionError
from compilegate.local.algorithms.images import built_in_algorithm
from compilegate.local.transform.built_in import ContentError
from compilegate.local.transform.serving import predictor

pytestmark = pytest.mark.slow

REGISTRY = "246618743249.dkr.ecr.us-west-2.amazonaws.com"
IMAGE = f"{REGISTRY}/sagemaker-xgboost:1.7-1"
MODEL = {"Get": "Steps.train.ModelArtifacts.S3ModelArtifacts"}
FIRST = {"objective": "reg:squarederror", "num_round": "3"}


def table(rows: int, seed: int) -> Any:
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(rows, 3))
    label = features @ np.array([1.0, 2.0, 0.0])
    return np.column_stack([label, features])


def as_csv(data: Any) -> str:
    return "".join(",".join(f"{value:.6f}" for value in row) + "\n" for row in data)


def as_libsvm(data: Any) -> str:
    lines = (
        " ".join([f"{row[0]:.6f}", *(f"{i}:{value:.6f}" for i, value in enumerate(row[1:]))])
        for row in data
    )
    return "\n".join(lines) + "\n"


def xgboost_step(
    bench: Any,
    content: str = "text/csv",
    *,
    image: str = IMAGE,
    hyperparameters: Any = FIRST,
    **others: Any,
) -> Any:
    """A training step of the built-in algorithm on what lies in s3://data."""
    step = bench.training("train")
    arguments = step["Arguments"]
    arguments["AlgorithmSpecification"] = {"TrainingImage": image, "TrainingInputMode": "File"}
    arguments["HyperParameters"] = dict(hyperparameters)
    arguments["InputDataConfig"] = [
        {
            "ChannelName": name,
            "ContentType": content,
            "DataSource": {"S3DataSource": {"S3Uri": f"s3://data/{name}"}},
        }
        for name in ("train", "validation")
        if bench.store.exists(f"s3://data/{name}")
    ]
    arguments.update(others)
    return step


def put_csv(bench: Any) -> None:
    bench.put("s3://data/train/part-0.csv", as_csv(table(60, 0)))
    bench.put("s3://data/train/more/part-1.csv", as_csv(table(40, 1)))
    bench.put("s3://data/validation/all.csv", as_csv(table(30, 2)))


def model_of(bench: Any, result: Any, folder: Path) -> Path:
    uri = result.steps["train"].properties["ModelArtifacts"]["S3ModelArtifacts"]
    with tarfile.open(bench.store.path(uri)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "xgboost-model"


def metrics_of(result: Any) -> dict[str, float]:
    found = result.steps["train"].properties["FinalMetricDataList"]
    return {metric["MetricName"]: metric["Value"] for metric in found}


@pytest.mark.slow
def test_csv_is_trained_on_and_leaves_model_metrics_and_the_lines_of_the_real_log(
    bench: Any, tmp_path: Path
) -> None:
    xgboost = pytest.importorskip("xgboost")
    put_csv(bench)
    result = bench.run(xgboost_step(bench))
    log = result.steps["train"].log.read_text()
    assert "Train matrix has 100 rows and 3 columns" in log
    assert "[2]#011train-rmse:" in log
    found = metrics_of(result)
    assert set(found) == {"train:rmse", "validation:rmse"}
    booster = xgboost.Booster()
    booster.load_model(str(model_of(bench, result, tmp_path)))
    validation = table(30, 2)
    predicted = booster.predict(xgboost.DMatrix(np.round(validation[:, 1:], 6)))
    rmse = float(np.sqrt(np.mean((predicted - validation[:, 0]) ** 2)))
    assert found["validation:rmse"] == pytest.approx(rmse, abs=1e-4)


@pytest.mark.slow
def test_an_image_before_1_3_leaves_a_pickle_and_takes_the_hyperparameters_of_its_time(
    bench: Any, tmp_path: Path
) -> None:
    pytest.importorskip("xgboost")
    put_csv(bench)
    old = {"objective": "reg:linear", "num_round": "3", "silent": "0", "eval_metric": "mae,mse"}
    step = xgboost_step(
        bench, image=f"{REGISTRY}/sagemaker-xgboost:1.0-1-cpu-py3", hyperparameters=old
    )
    step["Arguments"]["AlgorithmSpecification"]["MetricDefinitions"] = [
        {"Name": "mine", "Regex": r".*\[[0-9]+\].*#011validation-mse:(\S+)"}
    ]
    result = bench.run(step)
    booster = pickle.loads(model_of(bench, result, tmp_path).read_bytes())  # noqa: S301 - ours
    assert booster.num_boosted_rounds() == 3
    found = metrics_of(result)
    assert set(found) == {
        *("mine", "train:mae", "train:mse", "validation:mae", "validation:mse"),
    }
    assert found["mine"] == found["validation:mse"]


class OldPickle:
    """Pickles as a Booster of before 1.0 did, whose state was its saved model."""

    def __init__(self, kind: type, saved: bytes) -> None:
        self.kind, self.saved = kind, saved

    def __reduce__(self) -> Any:
        state = {"handle": bytearray(self.saved), "feature_names": None, "best_iteration": 2}
        return object.__new__, (self.kind,), state


def test_a_pickle_from_before_1_0_answers_and_one_that_holds_no_model_is_refused(
    tmp_path: Path,
) -> None:
    xgboost = pytest.importorskip("xgboost")
    rows = np.round(table(30, 0), 6)
    data = xgboost.DMatrix(rows[:, 1:], label=rows[:, 0])
    booster = xgboost.train({"nthread": 1}, data, num_boost_round=3)
    plan = {"accept": "", "content_type": "text/csv", "program": "", "model": str(tmp_path)}
    plan["defaults"] = "arrays"
    model = tmp_path / "xgboost-model"
    model.write_bytes(pickle.dumps(OldPickle(xgboost.Booster, bytes(booster.save_raw()))))
    body, kind = predictor(plan)(as_csv(rows[:, 1:]).encode())
    assert kind == "text/csv"
    answers = [float(line) for line in body.split()]
    assert answers == pytest.approx(booster.predict(data), rel=1e-4)
    model.write_bytes(pickle.dumps(OldPickle(xgboost.Booster, b"no model")))
    with pytest.raises(ContentError, match="does not read the pickled model"):
        predictor(plan)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.0-1-cpu-py3", "1.7-1"])
@pytest.mark.parametrize("content", ["text/csv", "text/libsvm"])
def test_the_model_of_either_kind_of_image_answers_a_batch(
    bench: Any, version: str, content: str
) -> None:
    """One pickles it, the other saves it."""
    pytest.importorskip("xgboost")
    put_csv(bench)
    image = f"{REGISTRY}/sagemaker-xgboost:{version}"
    rows = table(4, 3)
    lines = as_csv(rows[:, 1:])
    if content == "text/libsvm":
        lines = as_libsvm(rows)
    bench.put("s3://batch/rows", lines)
    container = {"Image": image, "ModelDataUrl": MODEL}
    steps = [
        xgboost_step(bench, image=image),
        {"Name": "make", "Type": "Model", "Arguments": {"PrimaryContainer": container}},
        {
            "Name": "answer",
            "Type": "Transform",
            "Arguments": {
                "ModelName": {"Get": "Steps.make.ModelName"},
                "TransformInput": {
                    "DataSource": {"S3DataSource": {"S3Uri": "s3://batch/rows"}},
                    "ContentType": content,
                    "SplitType": "Line",
                },
                "TransformOutput": {"S3OutputPath": "s3://batch/out", "AssembleWith": "Line"},
                "TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
            },
        },
    ]
    result = bench.run(*steps)
    assert result.status == "Succeeded", result.failure
    answers = [float(line) for line in bench.store.read("s3://batch/out/rows.out").split()]
    assert len(answers) == 4
    assert np.corrcoef(answers, rows[:, 0])[0, 1] > 0.5


@pytest.mark.slow
def test_libsvm_is_what_a_channel_without_a_content_type_holds(bench: Any) -> None:
    pytest.importorskip("xgboost")
    bench.put("s3://data/train/a", as_libsvm(table(50, 0)))
    bench.put("s3://data/validation/a", as_libsvm(table(50, 1)))
    step = xgboost_step(
        bench,
        hyperparameters={**FIRST, "eval_metric": "rmse", "early_stopping_rounds": "5"},
    )
    for channel in step["Arguments"]["InputDataConfig"]:
        del channel["ContentType"]
    result = bench.run(step)
    assert "Validation matrix has 50 rows" in result.steps["train"].log.read_text()


@pytest.mark.slow
def test_parquet_is_read_with_the_label_first(bench: Any, tmp_path: Path) -> None:
    pytest.importorskip("xgboost")
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    data = table(50, 0)
    columns = {name: data[:, number] for number, name in enumerate("yabc")}
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    bench.put("s3://data/train/t.parquet", (tmp_path / "t.parquet").read_bytes())
    result = bench.run(xgboost_step(bench, "application/x-parquet"))
    assert "Train matrix has 50 rows and 3 columns" in result.steps["train"].log.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hyperparameters", "data", "sentence"),
    [
        ({"objective": "reg:gamma"}, "1,2\n", "num_round is missing"),
        ({**FIRST, "depth": "3"}, "1,2\n", "depth is not one of the XGBoost algorithm"),
        ({**FIRST, "eta": "fast"}, "1,2\n", "eta is 'fast', expected a number"),
        ({**FIRST, "max_depth": "-1"}, "1,2\n", "max_depth is -1, allowed: 0 to inf"),
        (FIRST, "sex,length\n1,2\n", "takes CSV without a header"),
    ],
    ids=["no rounds", "unknown", "no number", "out of range", "header"],
)
def test_what_the_algorithm_does_not_take_fails_the_job_with_a_sentence(
    bench: Any, hyperparameters: Any, data: str, sentence: str
) -> None:
    pytest.importorskip("xgboost")
    bench.put("s3://data/train/a.csv", data)
    result = bench.run(xgboost_step(bench, hyperparameters=hyperparameters))
    assert sentence in result.steps["train"].properties["FailureReason"]


def test_an_algorithm_that_cannot_train_here_is_refused_by_name(bench: Any) -> None:
    bench.put("s3://data/train/a", "x")
    step = xgboost_step(bench, image=f"{REGISTRY}/blazingtext:1")
    with pytest.raises(RefusedDefinitionError) as caught:
        bench.run(step)
    (reason,) = caught.value.problems
    assert "the image is the built-in algorithm BlazingText" in reason
    assert "--skip" in reason
    assert "--command" in reason


@pytest.mark.parametrize(
    ("image", "name"),
    [
        (f"{REGISTRY}/sagemaker-xgboost:1.7-1", "XGBoost"),
        (f"{REGISTRY}/xgboost:latest", "XGBoost"),
        ("sagemaker-xgboost:1.5-1", "XGBoost"),
        (f"{REGISTRY}/linear-learner:1", "Linear Learner"),
        ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/kmeans:1", "K-Means"),
        ("registry.example/xgboost:1", None),
        (f"{REGISTRY}/my-xgboost:1", None),
        (json.dumps("odd image"), None),
    ],
)
def test_a_built_in_algorithm_is_known_by_its_image(image: str, name: str | None) -> None:
    algorithm = built_in_algorithm(image)
    assert (algorithm and algorithm.name) == name


def test_a_script_in_the_image_has_the_metrics_that_the_image_defines(bench: Any) -> None:
    lines = ["[0]\\tvalidation-auc:0.7", "[1]\\tvalidation-auc:0.8", "[0]#011train-logloss:0.3"]
    code = "".join(f"print('{line}')\n" for line in [*lines, "[1] validation-map:0.1"])
    step = bench.training("train", code, metrics={"train:logloss": r"log(loss):"})
    step["Arguments"]["AlgorithmSpecification"]["TrainingImage"] = IMAGE
    assert metrics_of(bench.run(step)) == {"validation:auc": 0.8}
    step["Arguments"]["AlgorithmSpecification"]["TrainingImage"] = "registry.example/training:1"
    assert bench.run(step).steps["train"].properties.get("FinalMetricDataList", []) == []
