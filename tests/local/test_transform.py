"""Model and Transform steps: a model's inference code over files, by line and record."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from compilegate.execution.status import ExecutionStatus
from compilegate.local import ExecutionError, RefusedDefinitionError, read_model

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


def archive(**files: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def model(bench: Any, code: str = CODE, **environment: str) -> dict[str, Any]:
    files = {"weight": "2", "code/inference.py": dedent(code)}
    uri = bench.put("s3://bucket/models/model.tar.gz", archive(**files))
    container = {
        "Image": "registry.example/serve:1",
        "ModelDataUrl": uri,
        "Environment": {
            "SAGEMAKER_PROGRAM": "inference.py",
            "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
            **environment,
        },
    }
    return {
        "Name": "make",
        "Type": "Model",
        "Arguments": {"PrimaryContainer": container, "ExecutionRoleArn": "r"},
    }


def transform(bench: Any, lines: str = "1,2\n3,4\n", **members: Any) -> dict[str, Any]:
    bench.put("s3://bucket/in/part/rows.csv", lines)
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/in"}}
    arguments = {
        "ModelName": {"Get": "Steps.make.ModelName"},
        "TransformInput": {
            "DataSource": source,
            "ContentType": "text/csv",
            "SplitType": "Line",
            **members.pop("TransformInput", {}),
        },
        "TransformOutput": {
            "S3OutputPath": "s3://bucket/out",
            "AssembleWith": "Line",
            "Accept": "text/csv",
            **members.pop("TransformOutput", {}),
        },
        "TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
        **members,
    }
    return {"Name": "transform", "Type": "Transform", "Arguments": arguments}


def answered(bench: Any, *steps: Any) -> str:
    result = bench.run(*steps)
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    return bench.store.read("s3://bucket/out/part/rows.csv.out").decode()


def test_a_model_answers_each_line_of_each_file(bench: Any) -> None:
    assert answered(bench, model(bench), transform(bench)) == "6.0\n14.0\n"


@pytest.mark.parametrize(
    "address",
    [
        "https://bucket.s3-us-east-1.amazonaws.com/models/model.tar.gz",
        "https://bucket.s3.eu-west-1.amazonaws.com/models/model.tar.gz",
        "https://s3.amazonaws.com/bucket/models/model.tar.gz",
    ],
)
def test_a_model_may_be_named_by_its_https_address(bench: Any, address: str) -> None:
    step = model(bench)
    step["Arguments"]["PrimaryContainer"]["ModelDataUrl"] = address
    assert answered(bench, step, transform(bench)) == "6.0\n14.0\n"


def test_records_are_sent_one_by_one_where_the_request_says_so(bench: Any) -> None:
    code = CODE.replace("return [sum", "assert len(rows) == 1\n    return [sum")
    steps = model(bench, code), transform(bench, BatchStrategy="SingleRecord")
    assert answered(bench, *steps) == "6.0\n14.0\n"


@pytest.mark.parametrize(
    ("processing", "expected"),
    [
        ({"JoinSource": "Input"}, "1,2,6.0\n3,4,14.0\n"),
        ({"InputFilter": "$[1:]"}, "4.0\n8.0\n"),
        (
            {"InputFilter": "$[0]", "JoinSource": "Input", "OutputFilter": "$[0,-1]"},
            "1,2.0\n3,6.0\n",
        ),
    ],
)
def test_records_are_filtered_and_joined(bench: Any, processing: Any, expected: str) -> None:
    assert answered(bench, model(bench), transform(bench, DataProcessing=processing)) == expected


def test_json_lines_are_joined_under_the_service_s_own_name(bench: Any) -> None:
    code = """
    import json
    def model_fn(model_dir, context): return 3
    def transform_fn(model, data, content_type, accept):
        rows = [json.loads(line) for line in data.decode().splitlines()]
        return "\\n".join(json.dumps(row["x"] * model) for row in rows)
    """
    kinds = {"TransformInput": {"ContentType": "application/jsonlines"}}
    accept = {"TransformOutput": {"Accept": "application/jsonlines"}}
    step = transform(
        bench, '{"x": 1}\n{"x": 2}\n', **kinds, **accept, DataProcessing={"JoinSource": "Input"}
    )
    found = [json.loads(line) for line in answered(bench, model(bench, code), step).splitlines()]
    assert found == [{"x": 1, "SageMakerOutput": 3}, {"x": 2, "SageMakerOutput": 6}]


def test_a_whole_file_is_one_request_where_nothing_splits_it(bench: Any) -> None:
    code = """
    import numpy
    class Doubling:
        def predict(self, rows): return numpy.asarray(rows).sum(axis=1) * 2
    def model_fn(model_dir): return Doubling()
    """
    step = transform(
        bench, TransformInput={"SplitType": "None"}, TransformOutput={"AssembleWith": "None"}
    )
    assert answered(bench, model(bench, code), step) == "6.0\n14.0\n"


def test_the_images_of_pytorch_look_for_inference_py_without_being_told(bench: Any) -> None:
    step = model(bench, SAGEMAKER_PROGRAM="")
    step["Arguments"]["PrimaryContainer"]["Image"] = (
        "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.6.0-cpu-py312"
    )
    assert answered(bench, step, transform(bench)) == "6.0\n14.0\n"


def test_a_handler_may_have_modules_of_the_programs_names(bench: Any) -> None:
    files = {"weight": "2", "code/inference.py": f"import toolkit, records\n{dedent(CODE)}"}
    files |= {f"code/{name}.py": "OWN = True\n" for name in ("toolkit", "records")}
    files["code/inference.py"] += "\nassert toolkit.OWN and records.OWN\n"
    step = model(bench)
    step["Arguments"]["PrimaryContainer"]["ModelDataUrl"] = bench.put(
        "s3://bucket/models/own.tar.gz", archive(**files)
    )
    assert answered(bench, step, transform(bench)) == "6.0\n14.0\n"


def test_a_model_without_inference_code_is_told_by_what_its_archive_has(bench: Any) -> None:
    result = bench.run(model(bench, SAGEMAKER_PROGRAM=""), transform(bench))
    assert "exit code 1" in result.failure
    assert "no inference code" in "".join(result.steps["transform"].failure.last_lines)


def test_a_model_that_no_step_makes_is_one_that_a_file_describes(
    bench: Any, tmp_path: Path
) -> None:
    container = model(bench)["Arguments"]["PrimaryContainer"]
    described = {"ModelName": "whatever", "ModelArn": "arn", "PrimaryContainer": container}
    path = tmp_path / "model.json"
    path.write_text(json.dumps(described))
    step = transform(bench, ModelName={"Get": "Parameters.Model"})
    declared = {"Name": "Model", "Type": "String", "DefaultValue": "churn-7"}
    result = bench.run(
        step, parameters=[declared], given_models={"churn-7": read_model("churn-7", path)}
    )
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    assert bench.store.read("s3://bucket/out/part/rows.csv.out").decode() == "6.0\n14.0\n"
    container["ModelDataUrl"] = "s3://bucket/models/none.tar.gz"
    path.write_text(json.dumps(described))
    with pytest.raises(RefusedDefinitionError, match=r"none\.tar\.gz is not in the local store"):
        bench.run(
            step, parameters=[declared], given_models={"churn-7": read_model("churn-7", path)}
        )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "cannot be read as JSON"),
        ("[]", r"holds \[\], expected an object such as"),
        ("{}", "a model needs PrimaryContainer or Containers"),
        ('{"PrimaryContainer": {"ModelDataUrl": "s3://b/m"}}', "Image"),
    ],
)
def test_a_file_that_describes_no_model_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(ExecutionError, match=f"--model m: .*{told}"):
        read_model("m", path)


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"TransformInput": {"SplitType": "RecordIO"}}, "SplitType is 'RecordIO', allowed here"),
        ({"DataProcessing": {"OutputFilter": "$..x"}}, "OutputFilter: '\\$..x' is not supported"),
        (
            {"TransformInput": {"SplitType": "None"}, "DataProcessing": {"JoinSource": "Input"}},
            "needs TransformInput.SplitType Line",
        ),
        ({"ModelName": "elsewhere"}, "ModelName is 'elsewhere', which no Model step"),
    ],
)
def test_what_a_transform_cannot_do_here_is_refused(bench: Any, members: Any, told: str) -> None:
    with pytest.raises(RefusedDefinitionError, match=told):
        bench.run(model(bench), transform(bench, **members))
