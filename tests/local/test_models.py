"""Model and Transform steps, and XGBoost's image, which trains and answers without a script."""

from __future__ import annotations

import json
import pickle
import tarfile
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from compilegate.execution.result import ExecutionResult
from compilegate.local import ExecutionError, RefusedDefinitionError, read_model
from compilegate.local.xgboost import algorithm_of
from tests.local.conftest import Json, Workbench, archive, changed, failure_of, log_of

pytestmark = pytest.mark.slow

CODE = """
import json, pathlib

def model_fn(model_dir):
    return float((pathlib.Path(model_dir) / "weight").read_text())

def input_fn(data, content_type):
    assert content_type == "text/csv", content_type
    return [[float(cell) for cell in line.split(",")] for line in data.splitlines()]

def predict_fn(rows, model):
    return [sum(row) * model for row in rows]

def output_fn(predictions, accept):
    return "".join(f"{each}\\n" for each in predictions), accept
"""
OF_JSON_LINES = """
import json
def model_fn(model_dir, context): return 3
def transform_fn(model, data, content_type, accept):
    rows = [json.loads(line) for line in data.decode().splitlines()]
    return "\\n".join(json.dumps(row["x"] * model) for row in rows)
"""
OF_A_WHOLE_FILE = """
import numpy
class Doubling:
    def predict(self, rows): return numpy.asarray(rows).sum(axis=1) * 2
def model_fn(model_dir): return Doubling()
"""
ONE_BY_ONE = CODE.replace("return [sum", "assert len(rows) == 1\n    return [sum")
WITH_MODULES = f"import toolkit, records\n{CODE}\nassert toolkit.OWN and records.OWN\n"
PYTORCH = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.6.0-cpu-py312"
ANSWER = "6.0\n14.0\n"


def scripted(bench: Workbench, name: str, code: str = CODE) -> Json:
    files = {"weight": "2", "code/inference.py": dedent(code)}
    files |= {f"code/{own}.py": "OWN = True\n" for own in ("toolkit", "records")}
    uri = bench.put(f"s3://bucket/models/{name}.tar.gz", archive(files))
    folder = {"SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code"}
    return bench.model(f"make-{name}", uri, SAGEMAKER_PROGRAM="inference.py", **folder)


def transform(bench: Workbench, name: str) -> Json:
    """A transform job for the model of that name."""
    bench.put("s3://bucket/in/part/rows.csv", "1,2\n3,4\n")
    bench.put("s3://bucket/lines/rows.jsonl", '{"x": 1}\n{"x": 2}\n')
    step = bench.transform(name, f"make-{name}", "s3://bucket/in")
    return changed(step, {"TransformOutput.Accept": "text/csv"})


PROGRAM = "PrimaryContainer.Environment.SAGEMAKER_PROGRAM"
URL = "PrimaryContainer.ModelDataUrl"
JSON_LINES = "application/jsonlines"

CASES: dict[str, tuple[str, Json, Json, str]] = {
    "lines": (CODE, {}, {}, ANSWER),
    "one-by-one": (ONE_BY_ONE, {}, {"BatchStrategy": "SingleRecord"}, ANSWER),
    "filtered": (
        CODE,
        {URL: "https://bucket.s3.eu-west-1.amazonaws.com/models/filtered.tar.gz"},
        {"DataProcessing": {"InputFilter": "$[1:]"}},
        "4.0\n8.0\n",
    ),
    "joined": (
        CODE,
        {URL: "https://s3.amazonaws.com/bucket/models/joined.tar.gz"},
        {
            "DataProcessing": {
                "InputFilter": "$[0]",
                "JoinSource": "Input",
                "OutputFilter": "$[0,-1]",
            }
        },
        "1,2.0\n3,6.0\n",
    ),
    "json-lines": (
        OF_JSON_LINES,
        {},
        {
            "TransformInput.DataSource.S3DataSource.S3Uri": "s3://bucket/lines",
            "TransformInput.ContentType": JSON_LINES,
            "TransformOutput.Accept": JSON_LINES,
            "DataProcessing": {"JoinSource": "Input"},
        },
        '{"x": 1, "SageMakerOutput": 3}\n{"x": 2, "SageMakerOutput": 6}\n',
    ),
    "whole-file": (
        OF_A_WHOLE_FILE,
        {},
        {"TransformInput.SplitType": "None", "TransformOutput.AssembleWith": "None"},
        ANSWER,
    ),
    # The images of PyTorch look for inference.py unless one is named.
    "pytorch": (CODE, {PROGRAM: "", "PrimaryContainer.Image": PYTORCH}, {}, ANSWER),
    "own-modules": (WITH_MODULES, {}, {}, ANSWER),
}


def test_a_model_answers_as_its_request_says(bench: Workbench) -> None:
    steps = [changed(scripted(bench, "none"), {PROGRAM: ""}), transform(bench, "none")]
    for name, (code, made, members, _) in CASES.items():
        steps += [
            changed(scripted(bench, name, code), made),
            changed(transform(bench, name), members),
        ]
    result = bench.run_each(*steps)
    for name, (_, _, _, answer) in CASES.items():
        ((path, file),) = bench.store.objects(f"s3://bucket/out/{name}/")
        assert path.read_text() == answer
        assert file in {"part/rows.csv.out", "rows.jsonl.out"}
    assert "exit code 1" in failure_of(result, "none")
    assert "no inference code" in failure_of(result, "none")


def test_a_file_describes_a_model_that_no_step_makes(bench: Workbench, tmp_path: Path) -> None:
    container = scripted(bench, "churn")["Arguments"]["PrimaryContainer"]
    described = {"ModelName": "whatever", "ModelArn": "arn", "PrimaryContainer": container}
    path = tmp_path / "model.json"
    step = changed(transform(bench, "answer"), {"ModelName": {"Get": "Parameters.Model"}})
    declared = {"Name": "Model", "Type": "String", "DefaultValue": "churn-7"}

    def run() -> None:
        path.write_text(json.dumps(described))
        given = {"churn-7": read_model("churn-7", path)}
        bench.succeed(step, parameters=[declared], given_models=given)

    run()
    assert bench.store.read("s3://bucket/out/answer/part/rows.csv.out").decode() == ANSWER
    container["ModelDataUrl"] = "s3://bucket/models/none.tar.gz"
    with pytest.raises(RefusedDefinitionError, match=r"none\.tar\.gz is not in the local store"):
        run()


def test_a_file_that_describes_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    for text, reason in {
        "": "cannot be read as JSON",
        "[]": r"holds \[\], expected an object such as",
        "{}": "a model needs PrimaryContainer or Containers",
    }.items():
        path.write_text(text)
        with pytest.raises(ExecutionError, match=f"--model m: .*{reason}"):
            read_model("m", path)


REGISTRY = "246618743249.dkr.ecr.us-west-2.amazonaws.com"
IMAGE = f"{REGISTRY}/sagemaker-xgboost:1.7-1"
FIRST = {"objective": "reg:squarederror", "num_round": "3"}
OLD = {"objective": "reg:linear", "num_round": "3", "silent": "0", "eval_metric": "mae,rmse"}
RECORDS = "application/x-recordio-protobuf"


@pytest.fixture
def xgboost() -> Any:
    return pytest.importorskip("xgboost")


def table(rows: int, seed: int) -> Any:
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(rows, 3))
    label = features @ np.array([1.0, 2.0, 0.0])
    return np.round(np.column_stack([label, features]), 6)


def as_csv(data: Any) -> str:
    return "".join(",".join(f"{value:.6f}" for value in row) + "\n" for row in data)


def train(
    bench: Workbench,
    name: str = "train",
    *,
    image: str = IMAGE,
    hyperparameters: Any = FIRST,
    data: str = "s3://data",
    content: str = "text/csv",
) -> Json:
    """A training step of the built-in algorithm."""
    names = [it for it in ("train", "validation") if bench.store.has_objects(f"{data}/{it}")]
    step = bench.training(name, channels={it: f"{data}/{it}" for it in names})
    members: Json = {f"InputDataConfig.{i}.ContentType": content for i in range(len(names))}
    members["AlgorithmSpecification"] = {"TrainingImage": image, "TrainingInputMode": "File"}
    members["HyperParameters"] = dict(hyperparameters)
    return changed(step, members)


def answer(bench: Workbench, name: str, image: str, model: Any) -> list[Json]:
    """A Model step, and a Transform step that answers s3://batch/NAME with it."""
    uri = f"s3://batch/{name}"
    return [bench.model(f"make-{name}", model, image), bench.transform(name, f"make-{name}", uri)]


def model_of(step: str) -> Json:
    return {"Get": f"Steps.{step}.ModelArtifacts.S3ModelArtifacts"}


def put_csv(bench: Workbench) -> None:
    bench.put("s3://data/train/part-0.csv", as_csv(table(60, 0)))
    bench.put("s3://data/train/more/part-1.csv", as_csv(table(40, 1)))
    bench.put("s3://data/validation/all.csv", as_csv(table(30, 2)))


def metrics_of(result: ExecutionResult, step: str) -> dict[str, float]:
    found = result.steps[step].properties.get("FinalMetricDataList", [])
    return {metric["MetricName"]: metric["Value"] for metric in found}


def answers_of(bench: Workbench, name: str) -> list[float]:
    return [float(line) for line in bench.store.read(f"s3://bucket/out/{name}/{name}.out").split()]


class OtherPickle:
    """Pickles as a Booster does, with a state that is no model."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def __reduce__(self) -> Any:
        return object.__new__, (self.kind,), {"handle": bytearray(b"no model")}


def test_xgboost_trains_on_csv_and_answers(bench: Workbench, tmp_path: Path, xgboost: Any) -> None:
    """Also with hyperparameters of older libraries, and with a model that a script pickled."""
    put_csv(bench)
    rows, validation = table(4, 3), table(30, 2)
    bench.put("s3://batch/new", as_csv(rows[:, 1:]))
    bench.put("s3://batch/old", as_csv(rows[:, 1:]) + ",1,\n")
    bench.put("s3://batch/other", "1,2\n")
    model = archive({"xgboost-model": pickle.dumps(OtherPickle(xgboost.Booster))})
    other = bench.put("s3://models/other", model)
    data = xgboost.DMatrix(rows[:, 1:], label=rows[:, 0])
    script = pickle.dumps(xgboost.train({}, data, num_boost_round=2))
    pickled = bench.put("s3://models/old", archive({"xgboost-model": script}))
    own = [{"Name": "mine", "Regex": r".*\[[0-9]+\].*#011validation-rmse:(\S+)"}]
    result = bench.run_each(
        train(bench),
        *answer(bench, "new", IMAGE, model_of("train")),
        changed(
            train(bench, "train-old", hyperparameters=OLD),
            {"AlgorithmSpecification.MetricDefinitions": own},
        ),
        *answer(bench, "old", IMAGE, pickled),
        *answer(bench, "other", IMAGE, other),
    )
    assert "Train matrix has 100 rows and 3 columns" in log_of(result, "train")
    assert "[2]#011train-rmse:" in log_of(result, "train")
    found = metrics_of(result, "train")
    assert set(found) == {"train:rmse", "validation:rmse"}
    uri = result.steps["train"].properties["ModelArtifacts"]["S3ModelArtifacts"]
    with tarfile.open(bench.store.path(uri)) as tar:
        tar.extractall(tmp_path, filter="data")
    booster = xgboost.Booster(model_file=str(tmp_path / "xgboost-model"))
    predicted = booster.predict(xgboost.DMatrix(validation[:, 1:]))
    rmse = float(np.sqrt(np.mean((predicted - validation[:, 0]) ** 2)))
    assert found["validation:rmse"] == pytest.approx(rmse, abs=1e-4)
    expected = booster.predict(xgboost.DMatrix(rows[:, 1:]))
    assert answers_of(bench, "new") == pytest.approx(expected, rel=1e-5)

    found = metrics_of(result, "train-old")
    assert set(found) == {*("mine", "train:mae", "train:rmse", "validation:mae", "validation:rmse")}
    assert found["mine"] == found["validation:rmse"]
    assert len(answers_of(bench, "old")) == 5
    *_, last = failure_of(result, "other").splitlines()
    assert last.startswith("error: ")
    assert "read xgboost-model" in last


@pytest.mark.usefixtures("xgboost")
def test_what_the_library_does_not_take_fails_the_job_with_a_sentence(bench: Workbench) -> None:
    cases = {
        "out-of-range": ({**FIRST, "max_depth": "-1"}, "1,2\n", "max_depth"),
        "metric-of-the-image": ({**FIRST, "eval_metric": "f1"}, "1,2\n", "f1"),
        "header": (FIRST, "sex,length\n1,2\n", "without a header"),
        "ragged": (FIRST, "1,2\n3,4,5\n", "could not train"),
    }
    steps = []
    for name, (hyperparameters, data, _) in cases.items():
        bench.put(f"s3://{name}/train/a.csv", data)
        steps.append(train(bench, name, hyperparameters=hyperparameters, data=f"s3://{name}"))
    result = bench.run_each(*steps)
    for name, (_, _, sentence) in cases.items():
        assert sentence in result.steps[name].properties["FailureReason"]


@pytest.mark.usefixtures("xgboost")
def test_what_a_built_in_algorithm_cannot_do_is_refused(bench: Workbench) -> None:
    put_csv(bench)
    for name in ("answer", "linear-answer"):
        bench.put(f"s3://batch/{name}", "1,2\n")
    bad, linear = {"depth": "3", "eta": "fast"}, f"{REGISTRY}/linear-learner:1"
    make, answers = answer(bench, "answer", IMAGE, model_of("train"))
    found = bench.refused(
        train(bench, hyperparameters=bad, content=RECORDS),
        make,
        changed(answers, {"TransformInput.ContentType": RECORDS}),
        train(bench, "linear", image=linear),
        *answer(bench, "linear-answer", linear, model_of("linear")),
    )
    faults_by_step = [fault.split(": ", 1) for fault in found]
    by_name = "the built-in algorithm linear-learner,"
    for step, parts in {
        "train": ["depth is not", "eta is 'fast'", "num_round is missing", RECORDS, RECORDS],
        "answer": [f"TransformInput: ContentType is {RECORDS}"],
        "linear": [by_name],
        "linear-answer": [by_name],
    }.items():
        faults = [fault for name, fault in faults_by_step if name == step]
        assert len(faults) == len(parts)
        assert all(part in fault for part, fault in zip(parts, faults, strict=True)), faults
        assert by_name not in parts or "--skip" in faults[0]


def test_a_built_in_algorithm_is_known_by_its_image() -> None:
    for image, name in {
        f"{REGISTRY}/xgboost:latest": "XGBoost",
        "sagemaker-xgboost:1.5-1": "XGBoost",
        "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/kmeans:1": "kmeans",
        "123456789012.dkr-ecr.us-east-1.on.aws/kmeans:1": "kmeans",
        "registry.example/xgboost:1": None,
        f"{REGISTRY}/my-xgboost:1": None,
        '"odd image"': None,
    }.items():
        assert algorithm_of(image) == name


def test_a_script_in_the_image_has_the_metrics_that_the_image_defines(bench: Workbench) -> None:
    lines = ["[0]\\tvalidation-auc:0.7", "[1]\\tvalidation-auc:0.8", "[0]#011train-logloss:0.3"]
    code = "".join(f"print('{line}')\n" for line in [*lines, "[1] validation-map:0.1"])
    step = bench.training("elsewhere", code, metrics={"train:logloss": r"log(loss):"})
    there = changed(step, {"AlgorithmSpecification.TrainingImage": IMAGE}) | {"Name": "there"}
    result = bench.succeed(step, there)
    assert metrics_of(result, "there") == {"validation:auc": 0.8}
    assert metrics_of(result, "elsewhere") == {}
