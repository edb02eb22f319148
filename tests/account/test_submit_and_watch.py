"""The real command against a scripted service: what is printed, and the exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from itertools import count
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from compilegate.access.console import job_pages
from compilegate.account.executions import SageMakerExecutor
from compilegate.account.object_store import ANNOUNCE_SECONDS, UploadProgress
from compilegate.account.session import open_session
from compilegate.cli.progress import ProgressLines
from compilegate.execution.events import Event, StillRunning
from compilegate.gate.findings import Outcome
from tests.account import scripted
from tests.account.command import compilegate, environment
from tests.account.deployed import BUCKET, DEFINITION, PIPELINE, Deployed, deploy
from tests.account.scripted import cached, condition, fail, frame, job, register, verdict
from tests.aws_server.client import AwsServer
from tests.command import COMMAND

pytestmark = pytest.mark.slow

PREPARE = job("Prepare", "Processing", 0, 60)
BASELINE = job("Train-baseline-7", "Training", 61, 200)
COMPILED = job("Train-compiled-7", "Training", 61, 160)
GATE = job("Gate", "Processing", 201, 230)
TRAINED = (PREPARE, BASELINE, COMPILED, GATE)


def times_left_out(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_candidate_that_passes_is_followed_to_its_model(
    deployed: Deployed, project: Path
) -> None:
    scripted.gate_has_run(deployed, verdict("compiled", Outcome.PASS))
    scripted.model_registered(deployed)
    deployed.script(
        frame("Executing", job("Prepare", "Processing", 0)),
        frame("Executing", PREPARE, job("Train-baseline-7", "Training", 61), COMPILED, at=160),
        frame(
            "Succeeded",
            *TRAINED,
            condition("Decide-compiled", 230, 231, outcome=True),
            register("Register-compiled", 231, 233, version=1),
            at=233,
        ),
    )
    done = compilegate(deployed.server, project, "aws", "submit", "topics", "--wait")
    assert done.returncode == 0, done.stderr
    lines = times_left_out(done.stdout)
    assert f"{PIPELINE}: execution execution001 started" in lines
    page = "https://us-east-1.console.aws.amazon.com/sagemaker/home?region=us-east-1#"
    assert f"1:01 Train-baseline-7 started {page}/jobs/pipelines-train-baseline-7" in lines
    assert f"0:00 Prepare started {page}/processing-jobs/pipelines-prepare" in lines
    assert "1:00 Prepare succeeded in 60.0 s" in lines
    assert "2:40 Train-compiled-7 succeeded in 99.0 s" in lines
    assert "3:53 execution succeeded" in lines
    assert "compiled: pass" in lines
    assert (
        "decided: The model of compiled is registered. "
        "Registered: compilegate-news/1, PendingManualApproval."
    ) in lines
    kept = project / ".compilegate" / "aws" / "execution001"
    assert f"report: {kept.relative_to(project) / 'report.html'}" in lines
    assert (kept / "report.html").read_text() == "<p>the gate's page</p>"
    assert '"compilegate aws submit topics --wait"' in (kept / "origin.json").read_text()
    assert sorted(path.name for path in kept.iterdir()) == [
        "origin.json",
        "report.html",
        "report.md",
        "repros",
        "verdict.json",
    ]


def test_a_standing_baseline_is_a_success_and_the_cache_is_named(
    deployed: Deployed, project: Path
) -> None:
    scripted.gate_has_run(deployed, verdict("baseline", Outcome.FAIL))
    earlier = f"{scripted.ARN}:pipeline/{PIPELINE}/execution/earlier00001"
    deployed.script(
        frame("Succeeded", cached(PREPARE, earlier), cached(BASELINE, earlier), COMPILED, GATE)
    )
    arn = deployed.start()
    done = compilegate(deployed.server, project, "aws", "watch", arn)
    assert done.returncode == 0, done.stderr
    lines = times_left_out(done.stdout)
    assert "3:20 Train-baseline-7 taken from the cache (execution earlier00001)" in lines
    assert not any("Train-baseline-7 started" in line for line in lines)
    assert "compiled: fail" in lines


def test_a_failed_step_is_explained_with_its_log(deployed: Deployed, project: Path) -> None:
    logs, group = deployed.server.client("logs"), "/aws/sagemaker/TrainingJobs"
    stream = "pipelines-train-baseline-7/algo-1-1"
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName=stream)
    now = int(time.time() * 1000)  # CloudWatch Logs takes no events of long ago
    events = [{"timestamp": now + n, "message": f"line {n}"} for n in range(25)]
    logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=events)
    broken = {
        **BASELINE,
        "StepStatus": "Failed",
        "FailureReason": "AlgorithmError: ExecuteUserScriptError: ExitCode 1",
    }
    deployed.script(frame("Failed", PREPARE, broken))
    done = compilegate(deployed.server, project, "aws", "watch", deployed.start())
    assert done.returncode == 3
    assert (
        "error: execution execution001: Train-baseline-7: "
        "AlgorithmError: ExecuteUserScriptError: ExitCode 1\n"
        "log: https://us-east-1.console.aws.amazon.com/cloudwatch/home" in done.stderr
    )
    assert "  line 24" in done.stderr
    assert "line 4\n" not in done.stderr
    page = project / ".compilegate" / "aws" / "execution001" / "report.html"
    assert "ExecuteUserScriptError" in page.read_text()


def test_a_gate_that_finds_no_sound_arm_has_a_status_of_its_own(
    deployed: Deployed, project: Path
) -> None:
    scripted.gate_has_run(deployed, verdict("none", Outcome.FAIL))
    reached = fail("Fail-no-sound-arm", 231, "Neither a candidate nor the baseline is sound")
    deployed.script(frame("Failed", *TRAINED, reached))
    deployed.start()
    done = compilegate(deployed.server, project, "aws", "watch", "topics")
    assert done.returncode == 4
    assert "execution001: Neither a candidate nor the baseline is sound" in done.stderr
    assert "compiled: fail" in done.stdout


def test_hours_without_news_are_not_silent(
    deployed: Deployed, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = frame("Executing", PREPARE, job("Train-baseline-7", "Training", 61))
    deployed.script(running, running, frame("Executing"), frame("Succeeded", PREPARE, BASELINE))
    arn = deployed.start()
    for name, value in deployed.server.environment.items():
        monkeypatch.setenv(name, value)
    events: list[Event] = []
    executor = SageMakerExecutor(
        session=open_session(None), home=project, poll_seconds=0, quiet_seconds=0
    )
    executor.follow(arn, events.append)
    quiet = [event for event in events if isinstance(event, StillRunning)]
    assert [event.steps for event in quiet] == [("Train-baseline-7",), ()]
    print_lines = click.Command("print", callback=lambda: [*map(ProgressLines(), quiet)] and None)
    printed = CliRunner().invoke(print_lines).output
    assert [line.split("  ")[-1] for line in printed.splitlines()] == [
        "still running: Train-baseline-7",
        "still executing, between steps",
    ]


def test_ctrl_c_leaves_the_execution_to_itself(deployed: Deployed, project: Path) -> None:
    deployed.script(frame("Executing", job("Prepare", "Processing", 0)))
    arn = deployed.start()
    process = subprocess.Popen(
        [*COMMAND, "aws", "watch", arn],
        cwd=project,
        env=environment(deployed.server, PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while "Prepare" not in process.stdout.readline():
        assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert f"compilegate aws watch {arn}" in errors
    assert f"compilegate aws stop {arn}" in errors
    assert deployed.server.calls("StopPipelineExecution") == []


def test_watch_reports_a_stop(deployed: Deployed, project: Path) -> None:
    deployed.script(frame("Executing", job("Prepare", "Processing", 0)))
    arn = deployed.start()
    assert compilegate(deployed.server, project, "aws", "stop", "topics").returncode == 0
    done = compilegate(deployed.server, project, "aws", "watch", arn)
    assert done.returncode == 130
    assert "execution execution001: stopped by someone, or because an older one" in done.stderr


def test_a_start_that_would_overlap_is_refused_before_the_data_is_staged(
    deployed: Deployed, project: Path
) -> None:
    deployed.script(frame("Executing", job("Prepare", "Processing", 0)))
    arn = deployed.start()
    done = compilegate(deployed.server, project, "aws", "submit", "topics")
    assert done.returncode == 2
    assert done.stderr == (
        f"error: {PIPELINE} is already executing, and executions do not overlap; follow it with: "
        f"compilegate aws watch {arn}\n"
    )
    assert deployed.objects("compilegate/data/") == []


def test_raw_data_is_staged_once_and_changed_data_is_passed_on(
    deployed: Deployed, project: Path
) -> None:
    first = compilegate(deployed.server, project, "aws", "submit", "topics")
    assert first.returncode == 0, first.stderr
    (started,) = deployed.server.calls("StartPipelineExecution")
    ((name, uri),) = [(each["Name"], each["Value"]) for each in started["PipelineParameters"]]
    assert name == "Data"
    keys = deployed.objects(uri.removeprefix(f"s3://{BUCKET}/"))
    assert [key.rpartition("/")[2] for key in keys] == ["train.csv", "validation.csv"]
    writes = len(deployed.server.calls("S3:PUT"))
    again = compilegate(deployed.server, project, "aws", "upload", "topics")
    assert again.stdout == f"{uri}\n"
    assert len(deployed.server.calls("S3:PUT")) == writes


def test_a_folder_of_many_files_is_staged_as_it_is_and_only_what_is_missing_is_written(
    deployed: Deployed, project: Path
) -> None:
    program = (Path(__file__).parents[1] / "pipelines" / "diffusion.toml").read_text()
    files = 'source = "files"\ntrain = "train.npz.csv"\nvalidation = "validation.npz.csv"\n'
    assert files in program
    (project / "workloads" / "diffusion.toml").write_text(
        program.replace(files, 'source = "folder"\nfolder = "photos"\n')
    )
    names = [f"cats/{number} old.png" for number in range(25)]
    (project / "workloads" / "photos" / "cats").mkdir(parents=True)
    for name in names:
        (project / "workloads" / "photos" / name).write_text(name)
    staged = compilegate(deployed.server, project, "aws", "upload", "diffusion")
    assert staged.returncode == 0, staged.stderr
    assert staged.stderr.startswith("writing 25 files (")
    prefix = staged.stdout.strip().removeprefix(f"s3://{BUCKET}/")
    assert sorted(deployed.objects(prefix)) == sorted(f"{prefix}/{name}" for name in names)
    deployed.server.client("s3").delete_object(Bucket=BUCKET, Key=f"{prefix}/{names[3]}")
    again = compilegate(deployed.server, project, "aws", "upload", "diffusion")
    assert (again.stdout, again.stderr.count("\n")) == (staged.stdout, 1)
    assert len(deployed.objects(prefix)) == 25
    assert compilegate(deployed.server, project, "aws", "upload", "diffusion").stderr == ""


def test_one_token_starts_one_execution(deployed: Deployed, project: Path) -> None:
    given = ("aws", "submit", "topics", "-p", "Data=s3://elsewhere/data", "--token", "run 17")
    arns = {compilegate(deployed.server, project, *given).stdout for _ in range(2)}
    assert len(arns) == 1
    assert len(deployed.server.calls("StartPipelineExecution")) == 2


@pytest.mark.parametrize(
    ("parameter", "named"),
    [
        ("Dat=x", "parameter Dat is not declared, expected Data, ModelApprovalStatus"),
        ("ModelApprovalStatus=Approved", "people approve models of topics, whose file declares"),
    ],
)
def test_a_parameter_that_cannot_be_is_refused_before_anything_starts(
    deployed: Deployed, project: Path, parameter: str, named: str
) -> None:
    done = compilegate(deployed.server, project, "aws", "submit", "topics", "-p", parameter)
    assert done.returncode == 2
    assert named in done.stderr
    assert deployed.server.calls("StartPipelineExecution") == []


def test_what_the_last_execution_lost_trains_again_under_another_key(
    aws: AwsServer, project: Path
) -> None:
    """For the service the steps of lost jobs ended well and lie in its cache: the parameter that
    is in their requests is another one from then on."""
    definition = json.loads(DEFINITION)
    definition["Parameters"].append({"Name": "Attempt", "Type": "String", "DefaultValue": "1"})
    deployed = deploy(aws, json.dumps(definition))
    prefix = "compilegate/workloads/topics/verdicts"
    for lost in (True, False, True):
        execution = submitted(deployed, project).rpartition("/")[2]
        deployed.put_object(f"{prefix}/{execution}/notice.json", json.dumps({"lost": lost}))
    submitted(deployed, project)
    given = [
        {each["Name"]: each["Value"] for each in call.get("PipelineParameters", [])}.get("Attempt")
        for call in aws.calls("StartPipelineExecution")
    ]
    assert given == [None, "2", "2", "3"]


def submitted(deployed: Deployed, project: Path) -> str:
    """The ARN of an execution of data that are there."""
    deployed.script(frame("Succeeded"))
    given = ("aws", "submit", "topics", "-p", "Data=s3://elsewhere/data")
    done = compilegate(deployed.server, project, *given)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("seconds", "lines"),
    [(ANNOUNCE_SECONDS / 4, ["train.csv: 40% written", "train.csv: 80% written"]), (0.0, [])],
)
def test_a_long_upload_reports_its_progress(seconds: float, lines: list[str]) -> None:
    printed: list[str] = []
    clock = count(step=seconds)
    progress = UploadProgress("train.csv", 1000, printed.append, clock=lambda: next(clock))
    for _ in range(10):
        progress(100)
    assert printed == lines


@pytest.mark.parametrize(
    ("arn", "page"),
    [
        (
            "arn:aws:sagemaker:eu-west-1:123456789012:training-job/x",
            "https://eu-west-1.console.aws.amazon.com/sagemaker/home?region=eu-west-1#/jobs/x",
        ),
        (
            "arn:aws-cn:sagemaker:cn-north-1:123456789012:processing-job/x",
            "https://cn-north-1.console.amazonaws.cn/sagemaker/home?region=cn-north-1"
            "#/processing-jobs/x",
        ),
        ("arn:aws:sagemaker:eu-west-1:123456789012:pipeline/x", None),
    ],
)
def test_a_job_has_its_page_in_the_console_of_its_partition(arn: str, page: str | None) -> None:
    assert job_pages(arn).get("job") == page
