"""XGBoost's image trains and answers here as AWS's does; other built-in algorithms are refused."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compilegate.local import RefusedDefinitionError
from compilegate.local.xgboost import algorithm_of

pytestmark = pytest.mark.slow

REGISTRY = "246618743249.dkr.ecr.us-west-2.amazonaws.com"
IMAGE = f"{REGISTRY}/sagemaker-xgboost:1.7-1"
MODEL = {"Get": "Steps.train.ModelArtifacts.S3ModelArtifacts"}
FIRST = {"objective": "reg:squarederror", "num_round": "3"}
RECORDS = "application/x-recordio-protobuf"


def table(rows: int, seed: int) -> Any:
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(rows, 3))
    label = features @ np.array([1.0, 2.0, 0.0])
    return np.column_stack([label, features])


def as_csv(data: Any) -> str:
    return "".join(",".join(f"{value:.6f}" for value in row) + "\n" for row in data)


def xgboost_step(
    bench: Any,
    content: str | None = "text/csv",
    *,
    image: str = IMAGE,
    hyperparameters: Any = FIRST,
) -> Any:
    """A training step of the built-in algorithm on what lies in s3://data."""
    step = bench.training("train")
    arguments = step["Arguments"]
    arguments["AlgorithmSpecification"] = {"TrainingImage": image, "TrainingInputMode": "File"}
    arguments["HyperParameters"] = dict(hyperparameters)
    arguments["InputDataConfig"] = [
        {
            "ChannelName": name,
            "DataSource": {"S3DataSource": {"S3Uri": f"s3://data/{name}"}},
            **({} if content is None else {"ContentType": content}),
        }
        for name in ("train", "validation")
        if bench.store.exists(f"s3://data/{name}")
    ]
    return step


def answer_steps(image: str, content: str, model: Any = MODEL) -> list[Any]:
    """A Model step, and a Transform step that answers s3://batch/rows with it."""
    container = {"Image": image, "ModelDataUrl": model}
    arguments = {
        "ModelName": {"Get": "Steps.make.ModelName"},
        "TransformInput": {
            "DataSource": {"S3DataSource": {"S3Uri": "s3://batch/rows"}},
            "ContentType": content,
            "SplitType": "Line",
        },
        "TransformOutput": {"S3OutputPath": "s3://batch/out", "AssembleWith": "Line"},
        "TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
    }
    return [
        {"Name": "make", "Type": "Model", "Arguments": {"PrimaryContainer": container}},
        {"Name": "answer", "Type": "Transform", "Arguments": arguments},
    ]


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


def test_csv_is_trained_on_and_the_model_answers_a_batch(bench: Any, tmp_path: Path) -> None:
    xgboost = pytest.importorskip("xgboost")
    put_csv(bench)
    rows = np.round(table(4, 3), 6)
    bench.put("s3://batch/rows", as_csv(rows[:, 1:]))
    result = bench.run(xgboost_step(bench), *answer_steps(IMAGE, "text/csv"))
    assert result.status == "Succeeded", result.failure
    log = result.steps["train"].log.read_text()
    assert "Train matrix has 100 rows and 3 columns" in log
    assert "[2]#011train-rmse:" in log
    found = metrics_of(result)
    assert set(found) == {"train:rmse", "validation:rmse"}
    booster = xgboost.Booster(model_file=str(model_of(bench, result, tmp_path)))
    validation = table(30, 2)
    predicted = booster.predict(xgboost.DMatrix(np.round(validation[:, 1:], 6)))
    rmse = float(np.sqrt(np.mean((predicted - validation[:, 0]) ** 2)))
    assert found["validation:rmse"] == pytest.approx(rmse, abs=1e-4)
    answers = [float(line) for line in bench.store.read("s3://batch/out/rows.out").split()]
    assert answers == pytest.approx(booster.predict(xgboost.DMatrix(rows[:, 1:])), rel=1e-5)


def test_an_image_before_1_3_leaves_a_pickle_and_takes_the_hyperparameters_of_its_time(
    bench: Any, tmp_path: Path
) -> None:
    pytest.importorskip("xgboost")
    put_csv(bench)
    rows = table(4, 3)
    lines = as_csv(rows[:, 1:]).splitlines(keepends=True)
    bench.put("s3://batch/rows", "".join([*lines, ",1,\n"]))
    image = f"{REGISTRY}/sagemaker-xgboost:1.0-1-cpu-py3"
    old = {"objective": "reg:linear", "num_round": "3", "silent": "0", "eval_metric": "mae,rmse"}
    step = xgboost_step(bench, image=image, hyperparameters=old)
    step["Arguments"]["AlgorithmSpecification"]["MetricDefinitions"] = [
        {"Name": "mine", "Regex": r".*\[[0-9]+\].*#011validation-rmse:(\S+)"}
    ]
    result = bench.run(step, *answer_steps(image, "text/csv"))
    assert result.status == "Succeeded", result.failure
    booster = pickle.loads(model_of(bench, result, tmp_path).read_bytes())  # noqa: S301 - ours
    assert booster.num_boosted_rounds() == 3
    found = metrics_of(result)
    assert set(found) == {
        *("mine", "train:mae", "train:rmse", "validation:mae", "validation:rmse"),
    }
    assert found["mine"] == found["validation:rmse"]
    answers = [float(line) for line in bench.store.read("s3://batch/out/rows.out").split()]
    assert np.corrcoef(answers[:4], rows[:, 0])[0, 1] > 0.5
    assert len(answers) == 5


class OldPickle:
    """Pickles as a Booster does, with a state that is no model."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def __reduce__(self) -> Any:
        return object.__new__, (self.kind,), {"handle": bytearray(b"no model")}


def test_a_pickle_that_this_library_does_not_read_is_refused(bench: Any) -> None:
    xgboost = pytest.importorskip("xgboost")
    bench.put("s3://batch/rows", "1,2\n")
    content = pickle.dumps(OldPickle(xgboost.Booster))
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        member = tarfile.TarInfo("xgboost-model")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    model = bench.put("s3://batch/model.tar.gz", archive.getvalue())
    result = bench.run(*answer_steps(IMAGE, "text/csv", model))
    assert result.status == "Failed"
    last = result.steps["answer"].failure.last_lines
    assert "does not read xgboost-model" in last[-1]
    assert last[-1].startswith("error: ")


@pytest.mark.parametrize(
    ("hyperparameters", "data", "sentence"),
    [
        ({**FIRST, "max_depth": "-1"}, "1,2\n", "max_depth"),
        ({**FIRST, "eval_metric": "f1"}, "1,2\n", "f1"),
        (FIRST, "sex,length\n1,2\n", "without a header"),
        (FIRST, "1,2\n3,4,5\n", "refuses to train"),
    ],
    ids=["out of range", "metric of the image", "header", "ragged"],
)
def test_what_the_library_does_not_take_fails_the_job_with_a_sentence(
    bench: Any, hyperparameters: Any, data: str, sentence: str
) -> None:
    pytest.importorskip("xgboost")
    bench.put("s3://data/train/a.csv", data)
    result = bench.run(xgboost_step(bench, hyperparameters=hyperparameters))
    assert sentence in result.steps["train"].properties["FailureReason"]


def refused(bench: Any, *steps: Any) -> list[str]:
    with pytest.raises(RefusedDefinitionError) as caught:
        bench.run(*steps)
    assert not (bench.home / "executions").exists()
    return list(caught.value.problems)


def test_all_that_the_algorithm_cannot_take_is_refused_before_anything_starts(bench: Any) -> None:
    pytest.importorskip("xgboost")
    put_csv(bench)
    found = refused(
        bench, xgboost_step(bench, RECORDS, hyperparameters={"depth": "3", "eta": "fast"})
    )
    expected = ["depth is not", "eta is 'fast'", "num_round is missing", RECORDS, RECORDS]
    assert len(found) == len(expected)
    assert all(part in fault for part, fault in zip(expected, found, strict=True)), found


@pytest.mark.parametrize("algorithm", ["linear-learner", "kmeans", "blazingtext"])
def test_another_algorithm_is_refused_by_name_where_it_trains_and_where_it_answers(
    bench: Any, algorithm: str
) -> None:
    put_csv(bench)
    bench.put("s3://batch/rows", "1,2\n")
    image = f"{REGISTRY}/{algorithm}:1"
    found = refused(bench, xgboost_step(bench, image=image), *answer_steps(image, "text/csv"))
    assert [fault.partition(":")[0] for fault in found] == ["train", "answer"]
    for fault in found:
        assert f"the built-in algorithm {algorithm}," in fault
        assert "--command" in fault
        assert "--skip" in fault


def test_records_of_protobuf_are_refused_where_the_model_answers(bench: Any) -> None:
    bench.put("s3://batch/rows", "1,2\n")
    model = bench.put("s3://batch/model.tar.gz", b"")
    (fault,) = refused(bench, *answer_steps(IMAGE, RECORDS, model))
    assert fault.startswith(f"answer: TransformInput: ContentType is {RECORDS}")


@pytest.mark.parametrize(
    ("image", "name"),
    [
        (f"{REGISTRY}/sagemaker-xgboost:1.7-1", "XGBoost"),
        (f"{REGISTRY}/xgboost:latest", "XGBoost"),
        ("sagemaker-xgboost:1.5-1", "XGBoost"),
        (f"{REGISTRY}/linear-learner:1", "linear-learner"),
        ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/kmeans:1", "kmeans"),
        ("123456789012.dkr-ecr.us-east-1.on.aws/kmeans:1", "kmeans"),
        ("registry.example/xgboost:1", None),
        (f"{REGISTRY}/my-xgboost:1", None),
        (json.dumps("odd image"), None),
    ],
)
def test_a_built_in_algorithm_is_known_by_its_image(image: str, name: str | None) -> None:
    assert algorithm_of(image) == name


def test_a_script_in_the_image_has_the_metrics_that_the_image_defines(bench: Any) -> None:
    lines = ["[0]\\tvalidation-auc:0.7", "[1]\\tvalidation-auc:0.8", "[0]#011train-logloss:0.3"]
    code = "".join(f"print('{line}')\n" for line in [*lines, "[1] validation-map:0.1"])
    step = bench.training("train", code, metrics={"train:logloss": r"log(loss):"})
    step["Arguments"]["AlgorithmSpecification"]["TrainingImage"] = IMAGE
    assert metrics_of(bench.run(step)) == {"validation:auc": 0.8}
    step["Arguments"]["AlgorithmSpecification"]["TrainingImage"] = "registry.example/training:1"
    assert bench.run(step).steps["train"].properties.get("FinalMetricDataList", []) == []
