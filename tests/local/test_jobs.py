"""A job sees what it would see in its container; results and metrics are kept as SageMaker does."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from compilegate.execution.result import ExecutionResult
from compilegate.execution.status import ExecutionStatus
from compilegate.local.jobs.printed import LineReader, final_metrics
from compilegate.local.jobs.toolkit import command_line, toolkit_environment
from tests.local.conftest import MODEL, Workbench, changed, failure_of, log_of

pytestmark = pytest.mark.slow

SHOW = """
import json, os, sys
with open(os.path.join(os.environ["SM_OUTPUT_DATA_DIR"], "seen.json"), "w") as file:
    json.dump({"argv": sys.argv, "environ": dict(os.environ), "cwd": os.getcwd()}, file)
"""
TRAIN = f"""{SHOW}
with open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "w") as file:
    file.write("w")
print("loss=0.9"); print("loss=0.25 acc=nan"); print("acc=0.5 acc=nan")
"""
READ_MODEL = """
import tarfile
print(tarfile.open("/opt/ml/processing/model/model.tar.gz").extractfile("weights").read())
open("/opt/ml/output/message", "w").write("all good")
"""
FAIL = f"""{SHOW}
with open(os.path.join(os.environ["SM_OUTPUT_DIR"], "failure"), "w") as file:
    file.write("the loss is not finite")
raise SystemExit(1)
"""
CHANNEL = "InputDataConfig.0.DataSource.S3DataSource"


def seen(bench: Workbench, result: ExecutionResult, step: str = "train") -> Any:
    """What SHOW left in the job's output archive."""
    job = result.steps[step].job_name
    content = bench.store.read(f"s3://bucket/training/{job}/output/output.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        file = tar.extractfile("seen.json")
        assert file is not None
        return json.load(file)


def test_the_environment_is_the_one_that_the_real_toolkit_sets() -> None:
    golden = json.loads(Path(__file__).with_name("toolkit_environment.json").read_text())
    made = toolkit_environment(
        job_name="job-1",
        base="/opt/ml",
        hyperparameters=golden["hyperparameters"],
        input_data_config=json.loads(golden["environment"]["SM_INPUT_DATA_CONFIG"]),
        resources=json.loads(golden["environment"]["SM_RESOURCE_CONFIG"]),
        cpus=2,
        gpus=0,
    )
    assert {k: v for k, v in made.items() if k.startswith("SM_")} == golden["environment"]
    assert {k: v for k, v in made.items() if not k.startswith("SM_")} == golden["process"]
    assert command_line(golden["hyperparameters"]) == golden["arguments"]


def test_a_training_job_gets_what_it_asks_and_leaves_what_it_made(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "SOME_TOKEN"):
        monkeypatch.setenv(name, "do not pass on")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    bench.put("s3://bucket/data/train/part.csv", "1,2\n")
    hyperparameters = {
        "epochs": "3",
        "tag": '"compiled"',
        "cache": "/opt/ml/input/data/train",
        "sagemaker_training_compiler_enabled": "false",
    }
    loss = {"Get": "Steps.train.FinalMetricDataList['loss'].Value"}
    read = [
        "TrainingJobName",
        "ResourceConfig.InstanceType",
        "StoppingCondition.MaxRuntimeInSeconds",
    ]
    own_entry_point = "import os; print([k for k in os.environ if k.startswith('SM_')])"
    result = bench.succeed(
        bench.training(
            "train",
            TRAIN,
            program="training/train.py",
            hyperparameters=hyperparameters,
            channels={"train": "s3://bucket/data/train"},
            metrics={"loss": "loss=([0-9.]+)", "acc": "acc=([0-9.]+|nan)"},
        ),
        bench.processing("gate", READ_MODEL, inputs={"model": MODEL}),
        bench.condition("low", bench.equals(loss, 0.25)),
        bench.condition("message", bench.equals({"Get": "Steps.gate.ExitMessage"}, "all good")),
        bench.processing(
            "reads",
            "import sys; print(*sys.argv[1:])",
            arguments=[
                {"Std:Join": {"On": "", "Values": [it]}}
                for it in [*({"Get": f"Steps.train.{member}"} for member in read), loss]
            ],
        ),
        changed(
            bench.training("by-itself"),
            {
                "AlgorithmSpecification.ContainerEntrypoint": ["python3", "-c", own_entry_point],
                "AlgorithmSpecification.ContainerArguments": [],
            },
        ),
        cores_per_job=1,
    )
    view = seen(bench, result)
    environ = view["environ"]
    root = environ["SM_MODEL_DIR"].removesuffix("/opt/ml/model")
    channel = f"{root}/opt/ml/input/data/train"
    assert view["cwd"].endswith("/opt/ml/code")
    assert environ["PYTHONPATH"] == f"{root}/opt/ml/code"
    assert environ["SM_CHANNEL_TRAIN"] == channel
    assert view["argv"] == [
        "training/train.py",
        *("--cache", channel),
        *("--epochs", "3"),
        *("--tag", "compiled"),
    ]
    parameters = json.loads(environ["SM_FRAMEWORK_PARAMS"])
    assert parameters == {"sagemaker_training_compiler_enabled": False}
    assert (environ["OMP_NUM_THREADS"], environ["SM_NUM_CPUS"]) == ("1", "1")
    assert "do not pass on" not in environ.values()
    assert environ["HTTPS_PROXY"] == "http://proxy.example:3128"
    assert environ["HOME"] != os.environ["HOME"]

    assert log_of(result, "gate") == "b'w'\n"
    job = result.steps["train"].job_name
    assert log_of(result, "reads") == f"{job} ml.m5.xlarge 900 0.25\n"
    assert log_of(result, "by-itself") == "[]\n"
    assert [result.steps[name].outcome for name in ("low", "message")] == [True, True]
    metrics = result.steps["train"].properties["FinalMetricDataList"]
    assert [(it["MetricName"], it["Value"]) for it in metrics] == [("loss", 0.25)]


def test_a_failed_training_job_is_quoted_and_leaves_its_output(bench: Workbench) -> None:
    result = bench.run(bench.training("train", FAIL))
    assert result.status is ExecutionStatus.FAILED
    assert "train: exit code 1: the loss is not finite; log: " in str(result.failure)
    properties = result.steps["train"].properties
    assert properties["FailureReason"] == "exit code 1: the loss is not finite"
    assert "ModelArtifacts" not in properties
    assert seen(bench, result)["argv"] == ["train.py"]


def test_checkpoints_are_restored_stored_and_deleted(bench: Workbench) -> None:
    bench.put("s3://bucket/checkpoints/old", b"x")
    bench.put("s3://bucket/checkpoints/kept", b"y")
    code = """
        import os, pathlib
        folder = pathlib.Path(os.environ["SM_MODEL_DIR"]).parent / "checkpoints"
        count, old = folder / "count", folder / "old"
        count.write_text(count.read_text() + "x" if count.exists() else "x")
        old.unlink(missing_ok=True)
    """
    request = {"CheckpointConfig": {"S3Uri": "s3://bucket/checkpoints"}}
    for expected in (b"x", b"xx"):
        bench.succeed(bench.training("train", code, request=request))
        assert bench.store.read("s3://bucket/checkpoints/count") == expected
        assert bench.store.read("s3://bucket/checkpoints/kept") == b"y"
        assert not bench.store.exists("s3://bucket/checkpoints/old")


def test_in_network_isolation_a_channel_brings_the_source_archive(bench: Workbench) -> None:
    step = bench.training("train", "print('ran')", channels={"code": ""})
    uri = json.loads(step["Arguments"]["HyperParameters"]["sagemaker_submit_directory"])
    archive = f"/opt/ml/input/data/code/{uri.rpartition('/')[2]}"
    members = {
        "HyperParameters.sagemaker_submit_directory": json.dumps(archive),
        "EnableNetworkIsolation": True,
    }
    absent = bench.run(changed(step, {**members, "InputDataConfig": []}))
    assert f"source archive {archive} is missing: let a channel bring it" in str(absent.failure)
    result = bench.succeed(changed(step, {**members, f"{CHANNEL}.S3Uri": uri}))
    assert log_of(result, "train") == "ran\n"


def evil(name: str) -> bytes:
    """A source archive whose member would land outside its folder."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "../.."
        for member in (link, tarfile.TarInfo(name)):
            tar.addfile(member)
    return buffer.getvalue()


def test_what_keeps_a_job_from_its_program_or_its_input_is_named(bench: Workbench) -> None:
    train = bench.training("train", channels={"data": "s3://bucket/code"})
    submitted = "HyperParameters.sagemaker_submit_directory"
    steps, reasons = [], {}
    for index, name in enumerate(["../evil.py", "/tmp/evil.py", "link/evil.py"]):
        uri = bench.put(f"s3://bucket/evil/{index}/source.tar.gz", evil(name))
        steps.append(changed(train, {submitted: json.dumps(uri)}))
        reasons[f"evil-{index}"] = "source.tar.gz is refused"
    steps.append(changed(train, {"HyperParameters.sagemaker_program": '"other.py"'}))
    reasons["script"] = "sagemaker_program 'other.py' is not in the source archive"
    absent = changed(
        bench.processing("job"), {"AppSpecification.ContainerEntrypoint": ["/opt/program/none"]}
    )
    reasons["program"] = "/opt/program/none"
    named = [step | {"Name": name} for step, name in zip([*steps, absent], reasons, strict=True)]
    result = bench.run_each(*named)
    for name, sentence in reasons.items():
        assert sentence in failure_of(result, name)
    assert not list(result.folder.rglob("evil.py"))


def test_inputs_are_prefixes_and_what_earlier_steps_made(bench: Workbench) -> None:
    """The store's large files are shared with a job, which may not write into them."""
    make = """
        open("/opt/ml/processing/data/new", "w").write("here")
        open("/opt/ml/processing/data/big", "w").write("x" * 2_000_000)
    """
    spoil = """
        import os
        path = "/opt/ml/processing/data/big"
        os.chmod(path, 0o644)
        open(path, "a").write("y")
    """
    listed = "import os; print(sorted(os.listdir('/opt/ml/processing/in')))"
    result = bench.run_each(
        bench.processing("make", make, outputs=["data"]),
        *(
            bench.processing(name, code, inputs={folder: f"s3://bucket/{uri}"}, DependsOn=["make"])
            for name, code, folder, uri in (
                ("folder", "print(open('/opt/ml/processing/in/data/new').read())", "in", "make"),
                ("beginning", listed, "in", "make/d"),
                ("spoil", spoil, "data", "make/data"),
            )
        ),
    )
    assert log_of(result, "folder") == "here\n"
    assert log_of(result, "beginning") == "['data']\n"
    assert "wrote to its input" in failure_of(result, "spoil")


def read(folder: Path, text: str, **patterns: str) -> tuple[dict[str, float], list[str]]:
    log, sentences = folder / "log.txt", []
    log.write_text(text)
    found = final_metrics(patterns, log, sentences.append)
    return {each["MetricName"]: each["Value"] for each in found}, sentences


def test_the_last_number_of_each_metric_counts_wherever_a_log_is_divided(tmp_path: Path) -> None:
    found, _ = read(
        tmp_path, "loss=3\rloss=2\nloss=nan\nacc: 0.5\nacc: x\n", acc="acc: (.+)", loss="loss=(.+)"
    )
    assert found == {"acc": 0.5}
    line = "x" * 999 + "\n"
    text = f"first=1\n{line * 200}bar=1\r{'.' * 200_000}\rbar=2\rlast=3"
    found, _ = read(tmp_path, text, first="first=(.+)", bar="bar=(.+)", last="last=(.+)")
    assert found == {"first": 1.0, "last": 3.0}
    found, _ = read(tmp_path, f"a=1\n{line * 200}a=2\n{line}", a="^a=(.+)$", none="none=(.+)")
    assert found == {"a": 2.0}


def test_an_expression_that_backtracks_is_given_up_and_told(tmp_path: Path) -> None:
    found, sentences = read(
        tmp_path, "a" * 60 + "b\nloss=2\n", bad="(a|a)*c|(a|aa)+$", loss="loss=(.+)"
    )
    assert found == {"loss": 2.0}
    (sentence,) = sentences
    assert "metric bad has no value" in sentence


def test_lines_are_what_a_terminal_would_show() -> None:
    lines: list[str] = []
    reader = LineReader(lines.append)
    for chunk in (b"one\ntw", b"o\n10%\r20%\r", b"30%\r\n\xff"):
        reader.feed(chunk)
    reader.end()
    assert lines == ["one", "two", "30%", "\ufffd"]
    reader.feed(b"x" * 100_000)
    assert len(lines[-1]) == 2000
