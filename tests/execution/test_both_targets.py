"""What the command needs from a target, of both: this machine for real, SageMaker scripted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compilegate.account.executions import SageMakerExecutor
from compilegate.account.session import open_session
from compilegate.cli.outcome import show_outcome
from compilegate.errors import CompilegateError
from compilegate.execution import exit_codes
from compilegate.execution.events import Event, ExecutionEnded, ExecutionStarted, StepEnded
from compilegate.execution.executor import Executor
from compilegate.execution.status import ExecutionStatus, StepStatus
from compilegate.gate.findings import Outcome
from compilegate.job.contract import VERDICT_FILE
from compilegate.local import ImageSources, LocalExecutor
from tests.account import scripted
from tests.account.deployed import PIPELINE, deploy
from tests.account.scripted import REPRO, fail, frame, job
from tests.aws_server.client import AwsServer

pytestmark = pytest.mark.slow


@dataclass
class Scene:
    """A target, a pipeline that ends in one of two ways there, and its events."""

    executor: Executor
    pipeline: str
    events: list[Event]


def gate(verdict: Path) -> dict[str, Any]:
    """A processing step that leaves a verdict and a repro as the gate does."""
    code = (
        "import pathlib, shutil; there = pathlib.Path('/opt/ml/processing/verdict');"
        f"shutil.copy({str(verdict)!r}, there / 'verdict.json');"
        f"repro = there / {REPRO!r}; repro.parent.mkdir(parents=True);"
        "repro.write_text('the gradient is zero')"
    )
    output = {"S3Uri": "s3://bucket/verdict", "LocalPath": "/opt/ml/processing/verdict"}
    machine = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30}
    return {
        "Name": "Gate",
        "Type": "Processing",
        "Arguments": {
            "AppSpecification": {
                "ImageUri": "registry.example/gate:1",
                "ContainerEntrypoint": ["python3", "-c", code],
            },
            "ProcessingOutputConfig": {"Outputs": [{"OutputName": "verdict", "S3Output": output}]},
            "ProcessingResources": {"ClusterConfig": machine},
        },
    }


NO_SOUND_ARM = "Neither a candidate nor the baseline is sound"
STOP = {
    "Name": "No-sound-arm",
    "Type": "Fail",
    "Arguments": {"ErrorMessage": NO_SOUND_ARM},
    "DependsOn": ["Gate"],
}


def here(folder: Path, *, fails: bool) -> Scene:
    verdict = folder / "verdict.json"
    verdict.write_text(scripted.verdict("baseline", Outcome.FAIL).to_json())
    steps = [gate(verdict), *([STOP] if fails else [])]
    executor = LocalExecutor(
        home=folder / "home",
        images=ImageSources(patterns=(("*", "here"),)),
        definition=json.dumps({"Version": "2020-12-01", "Steps": steps}),
        shared=[folder],
    )
    return Scene(executor, "topics", [])


def on_sagemaker(aws: AwsServer, folder: Path, *, fails: bool) -> Scene:
    account = deploy(aws)
    scripted.gate_has_run(account, scripted.verdict("baseline", Outcome.FAIL))
    judged = job("Gate", "Processing", 0, 30)
    account.script(
        frame("Executing", job("Gate", "Processing", 0)),
        frame("Failed", judged, fail("No-sound-arm", 31, NO_SOUND_ARM))
        if fails
        else frame("Succeeded", judged),
    )
    executor = SageMakerExecutor(session=open_session(None), home=folder, poll_seconds=0)
    return Scene(executor, PIPELINE, [])


@pytest.fixture(params=["here", "SageMaker"])
def scene(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Scene]:
    if request.param == "here":
        return lambda fails=False: here(tmp_path, fails=fails)
    server: AwsServer = request.getfixturevalue("aws")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return lambda fails=False: on_sagemaker(server, tmp_path, fails=fails)


def test_an_execution_is_started_and_followed_to_its_verdict(
    scene: Callable[..., Scene], capsys: pytest.CaptureFixture[str]
) -> None:
    at = scene()
    reference = at.executor.start(at.pipeline, {})
    result = at.executor.follow(reference, at.events.append)
    assert result.status is ExecutionStatus.SUCCEEDED
    assert result.reference == reference
    assert isinstance(at.events[0], ExecutionStarted)
    assert isinstance(at.events[-1], ExecutionEnded)
    ended = [event for event in at.events if isinstance(event, StepEnded)]
    assert [(event.step, event.status) for event in ended] == [("Gate", StepStatus.SUCCEEDED)]
    assert at.executor.read(reference).steps["Gate"].type == "Processing"
    assert show_outcome(at.executor, result) == exit_codes.DECIDED == 0
    assert (result.folder / VERDICT_FILE).is_file()
    assert (result.folder / REPRO).read_text() == "the gradient is zero"
    assert "The model of baseline is registered." in capsys.readouterr().out


def test_a_fail_step_has_the_exit_status_of_the_gate(
    scene: Callable[..., Scene], capsys: pytest.CaptureFixture[str]
) -> None:
    at = scene(fails=True)
    result = at.executor.follow(at.executor.start(at.pipeline, {}), at.events.append)
    assert show_outcome(at.executor, result) == exit_codes.GATE_FAILED == 4
    assert f"error: execution {result.execution_id}: {NO_SOUND_ARM}" in capsys.readouterr().err


def test_what_is_not_there_is_an_error_of_this_project(scene: Callable[..., Scene]) -> None:
    at = scene()
    reference = at.executor.start(at.pipeline, {})
    other = reference[:-1] + ("0" if reference[-1] != "0" else "1")
    for call in (at.executor.read, at.executor.stop):
        with pytest.raises(CompilegateError):
            call(other)


def test_one_that_is_stopped_says_how_to_go_on(scene: Callable[..., Scene]) -> None:
    at = scene()
    reference = at.executor.start(at.pipeline, {})
    stopping: list[str] = []

    def listen(event: Event) -> None:
        at.events.append(event)
        if not stopping:
            stopping.append(reference)
            at.executor.stop(reference)

    result = at.executor.follow(reference, listen)
    assert result.status is ExecutionStatus.STOPPED
    assert at.executor.when_stopped(result).startswith("stopped")
    assert show_outcome(at.executor, result) == exit_codes.INTERRUPTED == 130
