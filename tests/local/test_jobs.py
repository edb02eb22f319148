"""A job sees what it would see in its container, and its results are stored as SageMaker does."""

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from compilegate.execution.status import ExecutionStatus
from compilegate.local.jobs.process import children_of
from compilegate.local.jobs.toolkit import command_line, toolkit_environment

pytestmark = pytest.mark.slow

SHOW = """
    import json, os, sys
    with open(os.path.join(os.environ["SM_OUTPUT_DATA_DIR"], "seen.json"), "w") as file:
        json.dump({"argv": sys.argv, "environ": dict(os.environ), "cwd": os.getcwd()}, file)
"""


def result_file(bench: Any, result: Any, step: str, archive: str, member: str) -> bytes:
    job = result.steps[step].job_name
    content = bench.store.read(f"s3://bucket/training/{job}/output/{archive}")
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        file = tar.extractfile(member)
        assert file is not None
        return file.read()


def seen(bench: Any, result: Any, step: str = "train") -> Any:
    return json.loads(result_file(bench, result, step, "output.tar.gz", "seen.json"))


def test_the_environment_is_the_one_that_the_real_toolkit_sets() -> None:
    golden = json.loads(Path(__file__).with_name("toolkit_environment.json").read_text())
    resources = json.loads(golden["environment"]["SM_RESOURCE_CONFIG"])
    made = toolkit_environment(
        job_name="job-1",
        base="/opt/ml",
        hyperparameters=golden["hyperparameters"],
        input_data_config=json.loads(golden["environment"]["SM_INPUT_DATA_CONFIG"]),
        resources=resources,
        cpus=2,
        gpus=0,
    )
    assert {k: v for k, v in made.items() if k.startswith("SM_")} == golden["environment"]
    assert {k: v for k, v in made.items() if not k.startswith("SM_")} == golden["process"]
    assert command_line(golden["hyperparameters"]) == golden["arguments"]


def test_a_script_gets_hyperparameters_channels_and_framework_parameters(bench: Any) -> None:
    bench.put("s3://bucket/data/train/part.csv", "1,2\n")
    step = bench.training(
        "train",
        SHOW,
        program="training/train.py",
        hyperparameters={
            "epochs": "3",
            "tag": '"compiled"',
            "cache": "/opt/ml/input/data/train",
            "sagemaker_training_compiler_enabled": "false",
        },
        channels={"train": "s3://bucket/data/train"},
    )
    view = seen(bench, bench.run(step))
    environ = view["environ"]
    root = environ["SM_MODEL_DIR"].removesuffix("/opt/ml/model")
    assert view["cwd"].endswith("/opt/ml/code")
    channel = f"{root}/opt/ml/input/data/train"
    assert view["argv"] == [
        "training/train.py",
        *("--cache", channel),
        *("--epochs", "3"),
        *("--tag", "compiled"),
    ]
    assert environ["SM_CHANNEL_TRAIN"] == channel
    assert json.loads(environ["SM_FRAMEWORK_PARAMS"]) == {
        "sagemaker_training_compiler_enabled": False
    }
    assert environ["PYTHONPATH"] == f"{root}/opt/ml/code"


def test_a_job_does_not_inherit_the_runners_environment(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "do not pass on")
    monkeypatch.setenv("SOME_TOKEN", "do not pass on")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    environ = seen(bench, bench.run(bench.training("train", SHOW)))["environ"]
    assert "do not pass on" not in environ.values()
    assert environ["HTTPS_PROXY"] == "http://proxy.example:3128"
    assert environ["HOME"] != os.environ["HOME"]


def test_a_job_has_fresh_temporary_files_and_compile_caches_that_end_with_it(bench: Any) -> None:
    code = """
        import os, tempfile
        for name in ("HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
            os.makedirs(os.environ[name], exist_ok=True)
            assert os.listdir(os.environ[name]) == [], name
        assert len(tempfile.gettempdir()) < 40
        print(tempfile.mkstemp()[1])
    """
    for own_root in (None, False):
        result = bench.run(bench.processing("job", code), own_root=own_root)
        assert result.status is ExecutionStatus.SUCCEEDED, result.failure
        file = Path(result.steps["job"].log.read_text().strip())
        assert not file.exists()
        assert not list(result.folder.rglob(file.name))
        assert file.parent == Path("/tmp") or not file.parent.parent.parent.is_symlink()


def test_a_job_gets_as_many_threads_as_cores(bench: Any) -> None:
    result = bench.run(bench.training("train", SHOW), cores_per_job=1)
    environ = seen(bench, result)["environ"]
    assert (environ["OMP_NUM_THREADS"], environ["SM_NUM_CPUS"]) == ("1", "1")


def test_model_and_output_are_stored_and_read_by_the_next_step(bench: Any) -> None:
    code = """
        import os, pathlib
        pathlib.Path(os.environ["SM_MODEL_DIR"], "weights").write_text("w")
        pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"], "evidence").write_text("e")
    """
    reader = """
        import tarfile
        print(tarfile.open("/opt/ml/processing/model/model.tar.gz").extractfile("weights").read())
    """
    result = bench.run(
        bench.training("train", code),
        bench.processing(
            "gate", reader, inputs={"model": {"Get": "Steps.train.ModelArtifacts.S3ModelArtifacts"}}
        ),
    )
    assert result.steps["gate"].log.read_text() == "b'w'\n"
    assert result_file(bench, result, "train", "output.tar.gz", "evidence") == b"e"


def test_metrics_are_caught_and_the_last_value_counts(bench: Any) -> None:
    code = "print('loss=0.9'); print('loss=0.25 acc=nan'); print('acc=0.5 acc=nan')"
    metrics = {"loss": "loss=([0-9.]+)", "acc": "acc=([0-9.]+|nan)"}
    result = bench.run(
        bench.training("train", code, metrics=metrics),
        bench.condition(
            "low", bench.equals({"Get": "Steps.train.FinalMetricDataList['loss'].Value"}, 0.25)
        ),
        bench.condition(
            "nan", bench.equals({"Get": "Steps.train.FinalMetricDataList['acc'].Value"}, 0.5)
        ),
    )
    assert result.steps["low"].outcome is True
    assert "FinalMetricDataList has no 'acc'" in result.steps["nan"].failure.sentence


def test_container_paths_are_rewritten_wherever_a_processing_request_names_them(bench: Any) -> None:
    bench.put("s3://bucket/in/a.txt", "hello")
    code = """
        import os, pathlib, sys
        source, target = sys.argv[1].removeprefix("--in="), os.environ["TARGET"]
        pathlib.Path(target, "copy.txt").write_text(pathlib.Path(source, "a.txt").read_text())
        print(sys.argv[2:])
    """
    step = bench.processing("copy", code)
    step["Arguments"]["AppSpecification"]["ContainerArguments"] = [
        "--in=/data/in",
        "/data/in:/opt/ml/processing/x",
        "s3://bucket/data/in",
        "/data/inner",
        "/bin/sh",
    ]
    step["Arguments"]["Environment"] = {"TARGET": "/data/out"}
    step["Arguments"]["ProcessingInputs"] = [
        {"InputName": "in", "S3Input": {"S3Uri": "s3://bucket/in", "LocalPath": "/data/in"}}
    ]
    step["Arguments"]["ProcessingOutputConfig"] = {
        "Outputs": [
            {
                "OutputName": "out",
                "S3Output": {"S3Uri": "s3://bucket/out", "LocalPath": "/data/out"},
            }
        ]
    }
    result = bench.run(step, own_root=False)
    assert bench.store.read("s3://bucket/out/copy.txt") == b"hello"
    said = result.steps["copy"].log.read_text().strip()
    root = said.partition("/data/in")[0].removeprefix("['")
    assert len(root) < 40
    assert said == str(
        [
            f"{root}/data/in:{root}/opt/ml/processing/x",
            "s3://bucket/data/in",
            "/data/inner",
            "/bin/sh",
        ]
    )


def test_a_job_that_explains_its_failure_is_quoted(bench: Any) -> None:
    code = """
        import os, pathlib
        pathlib.Path(os.environ["SM_OUTPUT_DIR"], "failure").write_text("the loss is not finite")
        raise SystemExit(1)
    """
    result = bench.run(bench.training("train", code))
    assert result.failure.startswith("train: exit code 1: the loss is not finite; log: ")
    assert result.steps["train"].properties["FailureReason"] == (
        "exit code 1: the loss is not finite"
    )


def test_a_failed_training_job_still_leaves_its_output(bench: Any) -> None:
    result = bench.run(bench.training("train", f"{SHOW}\n    raise SystemExit(1)"))
    assert result.status is ExecutionStatus.FAILED
    assert seen(bench, result)["argv"] == ["train.py"]
    assert "ModelArtifacts" not in result.steps["train"].properties


def test_an_exit_message_of_a_processing_job_is_a_property(bench: Any) -> None:
    code = "open('/opt/ml/output/message', 'w').write('all good')"
    result = bench.run(
        bench.processing("job", code),
        bench.condition("told", bench.equals({"Get": "Steps.job.ExitMessage"}, "all good")),
    )
    assert result.steps["told"].outcome is True


def test_with_an_entry_point_of_its_own_the_toolkit_does_not_run(bench: Any) -> None:
    code = "import os; print(sorted(k for k in os.environ if k.startswith('SM_')))"
    step = bench.training("train")
    step["Arguments"]["AlgorithmSpecification"] |= {
        "ContainerEntrypoint": ["python3", "-c", code],
        "ContainerArguments": [],
    }
    assert bench.run(step).steps["train"].log.read_text() == "[]\n"


def test_checkpoints_are_restored_and_stored(bench: Any) -> None:
    code = """
        import os, pathlib
        path = pathlib.Path(os.environ["SM_MODEL_DIR"]).parent / "checkpoints" / "count"
        path.write_text(path.read_text() + "x" if path.exists() else "x")
    """
    request = {"CheckpointConfig": {"S3Uri": "s3://bucket/checkpoints"}}
    for expected in (b"x", b"xx"):
        assert bench.run(bench.training("train", code, request=request)).failure is None
        assert bench.store.read("s3://bucket/checkpoints/count") == expected


def test_a_checkpoint_that_the_job_deletes_is_deleted_in_the_store(bench: Any) -> None:
    bench.put("s3://bucket/checkpoints/old", b"x")
    bench.put("s3://bucket/checkpoints/kept", b"y")
    code = """
        import os, pathlib
        folder = pathlib.Path(os.environ["SM_MODEL_DIR"]).parent / "checkpoints"
        (folder / "old").unlink()
    """
    request = {"CheckpointConfig": {"S3Uri": "s3://bucket/checkpoints"}}
    assert bench.run(bench.training("train", code, request=request)).failure is None
    assert not bench.store.exists("s3://bucket/checkpoints/old")
    assert bench.store.read("s3://bucket/checkpoints/kept") == b"y"


def test_in_network_isolation_a_channel_brings_the_source_archive(bench: Any) -> None:
    step = bench.training("train", SHOW)
    hyperparameters = step["Arguments"]["HyperParameters"]
    uri = json.loads(hyperparameters["sagemaker_submit_directory"])
    archive = f"/opt/ml/input/data/code/{uri.rpartition('/')[2]}"
    hyperparameters["sagemaker_submit_directory"] = json.dumps(archive)
    step["Arguments"]["EnableNetworkIsolation"] = True
    absent = bench.run(step)
    assert f"source archive {archive} is absent: let a channel bring it" in absent.failure
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri}}
    step["Arguments"]["InputDataConfig"] = [{"ChannelName": "code", "DataSource": source}]
    result = bench.run(step)
    assert result.failure is None
    assert seen(bench, result)["argv"] == ["train.py"]


@pytest.mark.parametrize("name", ["../evil.py", "/tmp/evil.py", "link/evil.py"])
def test_a_source_archive_cannot_write_outside_its_folder(bench: Any, name: str) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "../.."
        for member in (link, tarfile.TarInfo(name)):
            tar.addfile(member)
    step = bench.training("train")
    uri = json.loads(step["Arguments"]["HyperParameters"]["sagemaker_submit_directory"])
    bench.put(uri, buffer.getvalue())
    result = bench.run(step)
    assert result.status is ExecutionStatus.FAILED
    assert "source.tar.gz is refused" in result.failure
    assert not list(result.folder.rglob("evil.py"))


def test_a_script_that_is_not_in_the_archive_is_named(bench: Any) -> None:
    step = bench.training("train")
    step["Arguments"]["HyperParameters"]["sagemaker_program"] = '"other.py"'
    assert "sagemaker_program 'other.py' is not in the source archive" in bench.run(step).failure


def test_a_program_that_does_not_exist_is_named(bench: Any) -> None:
    step = bench.processing("job")
    step["Arguments"]["AppSpecification"]["ContainerEntrypoint"] = ["/opt/program/none"]
    assert "could not be started" in bench.run(step).failure
    assert "/opt/program/none" in bench.run(step).failure


def test_a_job_that_writes_into_a_shared_input_fails(bench: Any) -> None:
    big = "open('/opt/ml/processing/data/big', 'w').write('x' * 2_000_000)"
    spoil = """
        import os
        path = "/opt/ml/processing/data/big"
        os.chmod(path, 0o644)
        with open(path, "a") as file:
            file.write("y")
    """
    result = bench.run(
        bench.processing("make", big, outputs=["data"]),
        bench.processing(
            "spoil", spoil, inputs={"data": "s3://bucket/make/data"}, DependsOn=["make"]
        ),
    )
    assert "wrote into its input" in result.steps["spoil"].failure.sentence


def test_a_folder_is_there_in_time_when_a_step_writes_into_it(bench: Any) -> None:
    """Before anything runs there is nothing of it: only the other step's output lies in it."""
    make = "open('/opt/ml/processing/data/new', 'w').write('here')"
    read = "assert open('/opt/ml/processing/all/data/new').read() == 'here'"
    result = bench.run(
        bench.processing("make", make, outputs=["data"]),
        bench.processing("read", read, inputs={"all": "s3://bucket/make"}, DependsOn=["make"]),
    )
    assert result.status is ExecutionStatus.SUCCEEDED, result.steps["read"].failure


def test_what_a_background_process_leaves_running_is_killed(bench: Any) -> None:
    code = """
        import os, subprocess, sys
        child = "import os, signal; os.setsid(); print(os.getpid(), flush=True); signal.pause()"
        process = subprocess.Popen(
            [sys.executable, "-c", child],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        print(process.stdout.readline().strip())
    """
    result = bench.run(bench.processing("job", code))
    pid = int(result.steps["job"].log.read_text())
    assert not Path(f"/proc/{pid}").exists()


def test_the_children_of_a_process_are_found() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in children_of(os.getpid())
        assert os.getpid() not in children_of(os.getpid())
        child.kill()
