"""A workbench for tests of the local runner: a home, steps made of tiny programs, real runs."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from compilegate.execution.events import Event
from compilegate.execution.result import ExecutionResult
from compilegate.execution.status import ExecutionStatus
from compilegate.local import ImageSources, LocalExecutor, ObjectStore, RefusedDefinitionError

Json = dict[str, Any]

HERE = ImageSources(patterns=(("*", "here"),))
PIPELINE = "tests"
PROJECT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from compilegate.cli import main; main()"]
CACHED = {"Enabled": True, "ExpireAfter": "P30D"}
MODEL = {"Get": "Steps.train.ModelArtifacts.S3ModelArtifacts"}
FOLDER = "/opt/ml/processing"
RESOURCES = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30}

RUNNER = """
import json, sys
from pathlib import Path
from compilegate.execution.events import StopRequested
from compilegate.local import ImageSources, LocalExecutor
definition, home, name, options = sys.argv[1:]
executor = LocalExecutor(
    definition=Path(definition).read_bytes(), home=Path(home), shared=[Path(home).parent],
    images=ImageSources(patterns=(("*", "here"),)), **json.loads(options),
)
def show(event):
    if isinstance(event, StopRequested):
        print(event.sentence)
result = executor.follow(executor.start(name, {}), show)
print(result.status, result.failure)
"""


def archive(files: Mapping[str, str | bytes]) -> bytes:
    """A tar.gz with these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def changed(step: Json, members: Mapping[str, Any]) -> Json:
    """The step with members of its request replaced, each named by its path, as in `A.0.B`."""
    step = copy.deepcopy(step)
    for path, value in members.items():
        *way, last = path.split(".")
        place = step["Arguments"]
        for each in way:
            place = place[int(each)] if isinstance(place, list) else place.setdefault(each, {})
        place[last] = value
    return step


def statuses(result: ExecutionResult) -> dict[str, str]:
    return {name: str(step.status) for name, step in result.steps.items()}


def log_of(result: ExecutionResult, step: str) -> str:
    path = result.steps[step].log
    assert path is not None
    return path.read_text()


def failure_of(result: ExecutionResult, step: str) -> str:
    """Its sentence, and below it the last lines of the job."""
    failure = result.steps[step].failure
    assert failure is not None, f"{step} did not fail"
    return "\n".join([failure.sentence, *failure.last_lines])


@dataclass
class Workbench:
    """Makes definitions out of Python programs and runs them in a home of its own."""

    home: Path
    events: list[Event] = field(default_factory=list)

    @property
    def store(self) -> ObjectStore:
        return ObjectStore(self.home / "s3")

    @property
    def folder(self) -> Path:
        """Beside the home: the one folder of this machine that jobs may write to."""
        return self.home.parent

    def put(self, uri: str, content: bytes | str) -> str:
        path = self.store.path(uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return uri

    def source(self, files: Mapping[str, str]) -> str:
        """Store a source archive; its key is its content's hash."""
        digest = hashlib.sha256(json.dumps(files).encode()).hexdigest()[:16]
        return self.put(f"s3://bucket/code/{digest}/source.tar.gz", archive(files))

    def training(
        self,
        name: str,
        code: str = "",
        *,
        program: str = "train.py",
        files: Mapping[str, str] | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        channels: Mapping[str, Any] | None = None,
        metrics: Mapping[str, str] | None = None,
        request: Mapping[str, Any] | None = None,
        **step: Any,
    ) -> Json:
        """A Training step that runs `code` as its script; `request` replaces members."""
        source = self.source({program: dedent(code), **(files or {})})
        own = {
            "sagemaker_program": json.dumps(program),
            "sagemaker_submit_directory": json.dumps(source),
        }
        arguments = {
            "AlgorithmSpecification": {
                "TrainingImage": "registry.example/training:1",
                "TrainingInputMode": "File",
                "MetricDefinitions": [{"Name": k, "Regex": v} for k, v in (metrics or {}).items()],
            },
            "HyperParameters": {**own, **(hyperparameters or {})},
            "InputDataConfig": [
                {"ChannelName": channel, "DataSource": {"S3DataSource": {"S3Uri": uri}}}
                for channel, uri in (channels or {}).items()
            ],
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/training"},
            "ResourceConfig": RESOURCES,
            "StoppingCondition": {"MaxRuntimeInSeconds": 900},
            "RoleArn": "arn:aws:iam::111122223333:role/any",
            **(request or {}),
        }
        return {"Name": name, "Type": "Training", "Arguments": arguments, **step}

    def processing(
        self,
        name: str,
        code: str = "",
        *,
        inputs: Mapping[str, Any] | None = None,
        outputs: Sequence[str] = (),
        arguments: Sequence[Any] = (),
        request: Mapping[str, Any] | None = None,
        **step: Any,
    ) -> Json:
        """A Processing step that runs `python3 -c code`.

        Input NAME is at /opt/ml/processing/NAME; output NAME goes to s3://bucket/STEP/NAME.
        """
        body = {
            "AppSpecification": {
                "ImageUri": "registry.example/processing:1",
                "ContainerEntrypoint": ["python3", "-c", dedent(code)],
                "ContainerArguments": list(arguments),
            },
            "ProcessingInputs": [
                {"InputName": key, "S3Input": {"S3Uri": uri, "LocalPath": f"{FOLDER}/{key}"}}
                for key, uri in (inputs or {}).items()
            ],
            "ProcessingOutputConfig": {
                "Outputs": [
                    {"OutputName": key, "S3Output": {"S3Uri": uri, "LocalPath": f"{FOLDER}/{key}"}}
                    for key, uri in ((key, f"s3://bucket/{name}/{key}") for key in outputs)
                ]
            },
            "ProcessingResources": {"ClusterConfig": RESOURCES},
            "StoppingCondition": {"MaxRuntimeInSeconds": 900},
            **(request or {}),
        }
        return {"Name": name, "Type": "Processing", "Arguments": body, **step}

    @staticmethod
    def condition(
        name: str,
        *conditions: Json,
        then: Sequence[Json] = (),
        otherwise: Sequence[Json] = (),
        **step: Any,
    ) -> Json:
        branches = {"IfSteps": list(then), "ElseSteps": list(otherwise)}
        arguments = {"Conditions": list(conditions), **branches}
        return {"Name": name, "Type": "Condition", "Arguments": arguments, **step}

    @staticmethod
    def equals(left: Any, right: Any) -> Json:
        return {"Type": "Equals", "LeftValue": left, "RightValue": right}

    @staticmethod
    def fail(name: str, message: Any = "stopped here", **step: Any) -> Json:
        return {"Name": name, "Type": "Fail", "Arguments": {"ErrorMessage": message}, **step}

    @staticmethod
    def register(name: str, group: str, model_data: Any, **step: Any) -> Json:
        container = {"Image": "registry.example/serve:1", "ModelDataUrl": model_data}
        arguments = {
            "ModelPackageGroupName": group,
            "InferenceSpecification": {"Containers": [container]},
        }
        return {"Name": name, "Type": "RegisterModel", "Arguments": arguments, **step}

    @staticmethod
    def model(
        name: str, data: Any, image: str = "registry.example/serve:1", **environment: str
    ) -> Json:
        container = {"Image": image, "ModelDataUrl": data, "Environment": environment}
        return {"Name": name, "Type": "Model", "Arguments": {"PrimaryContainer": container}}

    @staticmethod
    def transform(name: str, model: str, uri: str) -> Json:
        """A Transform step that answers the lines at this URI by what a Model step made."""
        source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri}}
        arguments = {
            "ModelName": {"Get": f"Steps.{model}.ModelName"},
            "TransformInput": {
                "DataSource": source,
                "ContentType": "text/csv",
                "SplitType": "Line",
            },
            "TransformOutput": {"S3OutputPath": f"s3://bucket/out/{name}", "AssembleWith": "Line"},
            "TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
        }
        return {"Name": name, "Type": "Transform", "Arguments": arguments}

    @staticmethod
    def definition(*steps: Json, parameters: Sequence[Json] = ()) -> str:
        return json.dumps(
            {"Version": "2020-12-01", "Parameters": list(parameters), "Steps": list(steps)}
        )

    def written(self, *steps: Json, parameters: Sequence[Json] = ()) -> Path:
        """A file with the definition of these steps, beside the home."""
        path = self.folder / f"{steps[0]['Name']}.json"
        path.write_text(self.definition(*steps, parameters=parameters))
        return path

    def run(
        self, *steps: Json, parameters: Sequence[Json] = (), given: Any = None, **options: Any
    ) -> ExecutionResult:
        """Run a definition of these steps to its end."""
        listener = options.pop("listener", self.events.append)
        name, resume = options.pop("pipeline_name", PIPELINE), options.pop("resume", None)
        definition = self.definition(*steps, parameters=parameters) if steps else None
        options = {"images": HERE, "shared": (self.folder,), **options}
        executor = LocalExecutor(definition=definition, home=self.home, **options)
        if resume is None:
            reference = executor.start(name, given or {})
        else:
            reference = executor.resume(resume, given or {})
        return executor.follow(reference, listener)

    def start(self, *steps: Json, name: str = PIPELINE, **options: Any) -> subprocess.Popen[str]:
        """Run these steps in a process of its own, which prints what it says of its end."""
        arguments = [str(self.written(*steps)), str(self.home), name, json.dumps(options)]
        command = [sys.executable, "-c", RUNNER, *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def succeed(self, *steps: Json, **options: Any) -> ExecutionResult:
        result = self.run(*steps, **options)
        failures = [step.failure for step in result.steps.values() if step.failure]
        assert result.status is ExecutionStatus.SUCCEEDED, (result.failure, failures)
        return result

    def run_each(self, *steps: Json, **options: Any) -> ExecutionResult:
        """Run all of these, also when some fail: a step that waits for any end takes a failure."""
        waits = {f"after-{it['Name']}": [{"Step": it["Name"], "Trigger": "Any"}] for it in steps}
        ends = [self.processing(name, DependsOn=any_end) for name, any_end in waits.items()]
        commands = dict.fromkeys(waits, "true") | options.pop("commands", {})
        return self.run(*steps, *ends, commands=commands, **options)

    def refused(self, *steps: Json, **options: Any) -> list[str]:
        """Why these steps cannot run here; nothing has started."""
        with pytest.raises(RefusedDefinitionError) as caught:
            self.run(*steps, **options)
        assert not (self.home / "executions").exists()
        return list(caught.value.problems)


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path / "home")
