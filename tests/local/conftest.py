"""A workbench for tests of the local runner: a home, steps made of tiny programs, real runs."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from compilegate.execution.events import Event
from compilegate.execution.result import ExecutionResult
from compilegate.local import ImageSources, LocalExecutor, ObjectStore

Json = dict[str, Any]

HERE = ImageSources(patterns=(("*", "here"),))
PIPELINE = "tests"


@dataclass
class Workbench:
    """Makes definitions out of Python programs and runs them in a home of its own."""

    home: Path
    events: list[Event] = field(default_factory=list)

    @property
    def store(self) -> ObjectStore:
        return ObjectStore(self.home / "s3")

    def put(self, uri: str, content: bytes | str) -> str:
        path = self.store.path(uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return uri

    def source(self, code: str, program: str = "train.py", **others: str) -> str:
        """Store a source archive; its key is its content's hash."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            for name, text in {program: dedent(code), **others}.items():
                content = text.encode()
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        digest = hashlib.sha256(dedent(code).encode()).hexdigest()[:16]
        return self.put(f"s3://bucket/code/{digest}/source.tar.gz", buffer.getvalue())

    def training(
        self,
        name: str,
        code: str = "",
        *,
        program: str = "train.py",
        hyperparameters: Mapping[str, Any] | None = None,
        channels: Mapping[str, Any] | None = None,
        metrics: Mapping[str, str] | None = None,
        request: Mapping[str, Any] | None = None,
        **step: Any,
    ) -> Json:
        """A Training step that runs `code` as its script; `request` replaces members."""
        own = {
            "sagemaker_program": json.dumps(program),
            "sagemaker_submit_directory": json.dumps(self.source(code, program)),
        }
        arguments = {
            "AlgorithmSpecification": {
                "TrainingImage": "registry.example/training:1",
                "TrainingInputMode": "File",
                "MetricDefinitions": [
                    {"Name": key, "Regex": regex} for key, regex in (metrics or {}).items()
                ],
            },
            "HyperParameters": {**own, **(hyperparameters or {})},
            "InputDataConfig": [
                {
                    "ChannelName": channel,
                    "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri}},
                }
                for channel, uri in (channels or {}).items()
            ],
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/training"},
            "ResourceConfig": {
                "InstanceType": "ml.m5.xlarge",
                "InstanceCount": 1,
                "VolumeSizeInGB": 30,
            },
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
                {
                    "InputName": key,
                    "S3Input": {"S3Uri": uri, "LocalPath": f"/opt/ml/processing/{key}"},
                }
                for key, uri in (inputs or {}).items()
            ],
            "ProcessingOutputConfig": {
                "Outputs": [
                    {
                        "OutputName": key,
                        "S3Output": {
                            "S3Uri": f"s3://bucket/{name}/{key}",
                            "LocalPath": f"/opt/ml/processing/{key}",
                        },
                    }
                    for key in outputs
                ]
            },
            "ProcessingResources": {
                "ClusterConfig": {
                    "InstanceType": "ml.m5.xlarge",
                    "InstanceCount": 1,
                    "VolumeSizeInGB": 30,
                }
            },
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
        arguments = {
            "Conditions": list(conditions),
            "IfSteps": list(then),
            "ElseSteps": list(otherwise),
        }
        return {"Name": name, "Type": "Condition", "Arguments": arguments, **step}

    @staticmethod
    def equals(left: Any, right: Any) -> Json:
        return {"Type": "Equals", "LeftValue": left, "RightValue": right}

    @staticmethod
    def fail(name: str, message: Any = "stopped here", **step: Any) -> Json:
        return {"Name": name, "Type": "Fail", "Arguments": {"ErrorMessage": message}, **step}

    @staticmethod
    def register(name: str, group: str, model_data: Any, **step: Any) -> Json:
        arguments = {
            "ModelPackageGroupName": group,
            "InferenceSpecification": {
                "Containers": [{"Image": "registry.example/serve:1", "ModelDataUrl": model_data}]
            },
        }
        return {"Name": name, "Type": "RegisterModel", "Arguments": arguments, **step}

    @staticmethod
    def definition(*steps: Json, parameters: Sequence[Json] = ()) -> str:
        return json.dumps(
            {"Version": "2020-12-01", "Parameters": list(parameters), "Steps": list(steps)}
        )

    def run(
        self, *steps: Json, parameters: Sequence[Json] = (), given: Any = None, **options: Any
    ) -> ExecutionResult:
        """Run a definition of these steps to its end."""
        listener = options.pop("listener", self.events.append)
        name, resume = options.pop("pipeline_name", PIPELINE), options.pop("resume", None)
        executor = LocalExecutor(
            definition=self.definition(*steps, parameters=parameters),
            home=self.home,
            images=options.pop("images", HERE),
            shared=options.pop("shared", (self.home.parent,)),
            **options,
        )
        reference = (
            executor.start(name, given or {})
            if resume is None
            else executor.resume(resume, given or {})
        )
        return executor.follow(reference, listener)


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path / "home")
