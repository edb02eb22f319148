"""A training job: CreateTrainingJob's container contract on a sandbox folder."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compilegate.document.expressions import Unresolved
from compilegate.job.contract import (
    DISTRIBUTION,
    MODEL_ARCHIVE,
    MOST_PROCESSES,
    OUTPUT_ARCHIVE,
    PROCESSES,
    PROCESSES_VARIABLE,
    TORCHRUN,
)
from compilegate.local import xgboost
from compilegate.local.errors import StepError, StepRequestError
from compilegate.local.jobs.job import (
    Input,
    Job,
    JobOutcome,
    Output,
    read_input,
    read_instances,
)
from compilegate.local.jobs.launcher import JobEnd
from compilegate.local.jobs.printed import compiled
from compilegate.local.jobs.sandbox import ML, pack_folder, unpack_source
from compilegate.local.jobs.toolkit import script_command, toolkit_environment
from compilegate.local.requests import INSTEAD, RequestReader

_MODE = "File"
_CODE = ML / "code"
_XGBOOST_PROGRAM = "compilegate_xgboost.py"
"""What the program of the built-in algorithm is called in the job's code folder."""
# The toolkit's own rule: nothing that a command line could take for an option or a way out.
_PROGRAM = re.compile(r"(?!-)(?!.*(^|/)\.{0,2}(/|$))[A-Za-z0-9._+/\-]+")


@dataclass(kw_only=True)
class TrainingJob(Job):
    """One training job. Its output is the folder of checkpoints, which is restored as well."""

    kind = "Training"
    start_folder = "code"
    config_folder = "input/config"
    message_file = "output/failure"

    hyperparameters: Mapping[str, str]
    source_uri: str | None
    """The source archive: an object, or a path in the container, where a channel brings it (as in
    network isolation)."""
    program: str | None
    results: str
    restored: Mapping[Path, str] = field(default_factory=dict)
    """The checkpoints that were there when the job started, with their URIs."""

    @property
    def input_uris(self) -> tuple[str, ...]:
        source = self.source_uri
        own = () if source is None or _in_container(source) else (source,)
        return (*super().input_uris, *own)

    @property
    def output_prefixes(self) -> tuple[str, ...]:
        return (self.results,)

    def stage(self) -> list[Path]:
        sandbox = self.sandbox
        for name in ("model", "output/data", "output/intermediate", "input/data"):
            sandbox.make(ML / name)
        files = super().stage()
        for checkpoints in self.outputs:
            path = sandbox.rewrite(checkpoints.local_path)
            self.write_config("checkpointconfig", {"LocalPath": path})
            self.restored = self._restore(checkpoints)
        if self.source_uri is not None and not self.entrypoint:
            self._unpack(self.source_uri)
        if self.algorithm is not None:
            shutil.copyfile(xgboost.__file__, sandbox.path(_CODE / _XGBOOST_PROGRAM))
        self.write_config("hyperparameters", self.rewritten(self.hyperparameters))
        self.write_config("inputdataconfig", self._input_data_config())
        return files

    def _restore(self, checkpoints: Output) -> dict[Path, str]:
        folder, uri = self.sandbox.path(checkpoints.local_path), checkpoints.uri.rstrip("/")
        files = self.store.download(f"{uri}/", folder) if self.store.exists(uri) else []
        return {file: f"{uri}/{file.relative_to(folder)}" for file in files}

    def _unpack(self, uri: str) -> None:
        code, program = self.sandbox.path(_CODE), str(self.program)
        archive = self.sandbox.path(uri) if _in_container(uri) else self.store.path(uri)
        if not archive.is_file():
            remedy = "let a channel bring it" if _in_container(uri) else f"put it at {archive}"
            raise StepError(f"the source archive {uri} is missing: {remedy}")
        unpack_source(archive, code)
        if not (code / "setup.py").is_file() and not (code / program).is_file():
            raise StepError(f"sagemaker_program {program!r} is not in the source archive {uri}")

    def _input_data_config(self) -> dict[str, dict[str, str]]:
        return {
            each.name: {
                "TrainingInputMode": _MODE,
                "S3DistributionType": each.distribution,
                "RecordWrapperType": "None",
                **({} if each.content_type is None else {"ContentType": each.content_type}),
            }
            for each in self.inputs
        }

    def argv(self, python: str, cores: int, gpus: int) -> list[str]:
        if self.entrypoint:
            return super().argv(python, cores, gpus)
        if self.algorithm is not None:
            return [python, self.sandbox.rewrite(str(_CODE / _XGBOOST_PROGRAM))]
        # The toolkit has as many processes on a host as it has GPUs, or else cores.
        started = gpus or max(cores, self.processes)
        hyperparameters = self.rewritten(self.hyperparameters)
        code = self.sandbox.path(_CODE)
        return script_command(python, str(self.program), hyperparameters, code, started)

    def variables(self, cores: int, gpus: int) -> dict[str, str]:
        own = super().variables(cores, gpus)
        if self.entrypoint:
            return own  # as on SageMaker: with an entry point of its own, the toolkit never runs
        toolkit = toolkit_environment(
            job_name=self.name,
            base=self.sandbox.inside(self.sandbox.path(ML)),
            hyperparameters=self.rewritten(self.hyperparameters),
            input_data_config=self._input_data_config(),
            resources=self.resource_config(),
            cpus=cores,
            gpus=gpus,
        )
        return {**toolkit, "PYTHONPATH": self.working_directory(), **own}

    def source_folder(self) -> Path | None:
        toolkit_runs = self.source_uri is not None and not self.entrypoint
        return self.sandbox.path(_CODE) if toolkit_runs else None

    def collect(self, end: JobEnd) -> None:
        """Store output.tar.gz and the checkpoints always, model.tar.gz unless the job failed."""
        self._store_archive("output/data", OUTPUT_ARCHIVE)
        if end.succeeded or end.reason == "timeout":
            self._store_archive("model", MODEL_ARCHIVE)
        self.store_outputs()
        # As the service does: what the job deleted in its folder is deleted in the store too.
        for path, uri in self.restored.items():
            if not path.exists():
                self.store.remove(uri)

    def _store_archive(self, folder: str, name: str) -> None:
        archive = self.sandbox.folder / name
        pack_folder(self.sandbox.path(ML / folder), archive)
        self.store.upload(archive, self._result_uri(name))
        archive.unlink()

    def _result_uri(self, name: str) -> str:
        return f"{self.results.rstrip('/')}/{self.name}/output/{name}"

    def recorded_failure(self) -> str | None:
        return self.message()  # the service reads that file of a failed job alone

    def output_uris(self) -> tuple[str, ...]:
        return (self._result_uri(MODEL_ARCHIVE), self._result_uri(OUTPUT_ARCHIVE))

    def describe(self, outcome: JobOutcome) -> dict[str, Any]:
        seconds = int(outcome.ended - outcome.started)
        model = {"ModelArtifacts": {"S3ModelArtifacts": self._result_uri(MODEL_ARCHIVE)}}
        return {
            **super().describe(outcome),
            "SecondaryStatus": "MaxRuntimeExceeded" if outcome.timed_out else outcome.status,
            "TrainingTimeInSeconds": seconds,
            "BillableTimeInSeconds": seconds,
            "FinalMetricDataList": list(outcome.metrics),
            **({} if outcome.status == "Failed" else model),
        }


def _plain(value: str | None) -> str | None:
    """Reserved hyperparameters hold JSON strings; plain ones are what people write by hand."""
    if value is None or isinstance(value, Unresolved):
        return value
    return value[1:-1] if re.fullmatch(r'"[^"\\]*"', value) else value


def _in_container(source: str) -> bool:
    return not isinstance(source, Unresolved) and source.startswith("/")


def read_training_request(raw: Mapping[str, Any]) -> TrainingJob:
    reader = RequestReader(raw)
    algorithm = reader.section("AlgorithmSpecification")
    mode = algorithm.text_or("TrainingInputMode", _MODE)
    hyperparameters = reader.text_map("HyperParameters")
    environment = reader.variables("Environment")
    instance_type, instances = read_instances(reader.section("ResourceConfig"))
    job = TrainingJob(
        image=algorithm.text("TrainingImage"),
        entrypoint=tuple(algorithm.texts("ContainerEntrypoint")),
        arguments=tuple(algorithm.texts("ContainerArguments")),
        metrics=dict(_metric(item) for item in algorithm.sections("MetricDefinitions")),
        processes=_launched(hyperparameters, environment, instances),
        hyperparameters=hyperparameters,
        source_uri=_plain(hyperparameters.get("sagemaker_submit_directory")),
        program=_plain(hyperparameters.get("sagemaker_program")),
        environment=environment,
        inputs=tuple(_channel(item, mode) for item in reader.sections("InputDataConfig")),
        results=reader.section("OutputDataConfig").uri("S3OutputPath"),
        outputs=_checkpoints(reader),
        instance_type=instance_type,
        max_seconds=reader.max_seconds(),
        raw=raw,
    )
    _use_image(job)
    return job


def _launched(hyperparameters: dict[str, str], environment: dict[str, str], instances: int) -> int:
    """How many processes compute side by side; whoever starts those of one instance is made to
    start those of all."""
    by_torchrun = _plain(hyperparameters.get(DISTRIBUTION)) == TORCHRUN
    settings = hyperparameters if by_torchrun else environment
    name = PROCESSES if by_torchrun else PROCESSES_VARIABLE
    declared = _plain(settings.get(name)) or ""
    processes = instances * (int(declared) if re.fullmatch(r"[1-9]\d{0,3}", declared) else 1)
    if instances > 1 and processes > MOST_PROCESSES:
        raise StepRequestError(
            f"InstanceCount and the processes of each instance make {processes} processes on this "
            f"machine; at most {MOST_PROCESSES} are supported"
        )
    if instances > 1 and name in settings:
        settings[name] = str(processes)
    return processes


def _use_image(job: TrainingJob) -> None:
    """Add what the job's image brings: metrics, and a program where the request names none."""
    built_in, is_unknown = xgboost.algorithm_of(job.image), isinstance(job.program, Unresolved)
    if built_in == xgboost.XGBOOST:
        job.metrics = {**xgboost.metrics(job.hyperparameters), **job.metrics}
    if job.program is not None and not is_unknown and not _PROGRAM.fullmatch(job.program):
        raise StepRequestError(
            f"sagemaker_program is {job.program!r}, expected a path in the source archive"
        )
    if job.entrypoint or (job.program and job.source_uri):
        return
    if built_in is None or job.program is not None:
        raise StepRequestError(
            "nothing says what to run: HyperParameters have no sagemaker_program "
            "and sagemaker_submit_directory, AlgorithmSpecification has no "
            "ContainerEntrypoint, and an image has no entry point of its own here; "
            f"{INSTEAD}"
        )
    if built_in != xgboost.XGBOOST:
        raise StepRequestError(xgboost.REFUSAL.format(built_in))
    job.algorithm = built_in


def _metric(reader: RequestReader) -> tuple[str, str]:
    name, expression = reader.text("Name"), reader.text("Regex")
    compiled(name, expression)
    return name, expression


def _channel(reader: RequestReader, mode: str) -> Input:
    """One member of InputDataConfig; `mode` is the job's own."""
    name = reader.text("ChannelName")
    if not re.fullmatch(r"[A-Za-z0-9.\-_]+", name) or name in {".", ".."}:
        raise StepRequestError(f"ChannelName {name!r} may hold letters, digits, '.', '-' and '_'")
    source = reader.section("DataSource")
    if not source.has("S3DataSource"):
        raise StepRequestError(
            f"channel {name} has no S3DataSource; FSx and EFS are not mounted here"
        )
    reader.one_of("InputMode", _MODE, "FastFile", default=mode)
    reader.one_of("RecordWrapperType", "None")
    reader.one_of("CompressionType", "None")
    content_type = reader.text("ContentType") if reader.has("ContentType") else None
    folder = str(ML / "input/data" / name)
    return read_input(source.section("S3DataSource"), folder, name, content_type)


def _checkpoints(reader: RequestReader) -> tuple[Output, ...]:
    if not reader.has("CheckpointConfig"):
        return ()
    section = reader.section("CheckpointConfig")
    return (Output(section.uri("S3Uri"), section.text_or("LocalPath", "/opt/ml/checkpoints")),)
