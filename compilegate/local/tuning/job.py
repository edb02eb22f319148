"""A tuning job: training jobs one after another, on the cores of one, and the best of them.

A CreateHyperParameterTuningJob request, as far as a local run needs it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compilegate.execution.failure import StepFailure
from compilegate.local.errors import StepRequestError
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.jobs.attempt import ALGORITHM_ERROR, AttemptResult, JobSlot, run_attempt
from compilegate.local.jobs.sandbox import Sandboxes
from compilegate.local.jobs.training import TrainingRequest, read_training_request
from compilegate.local.requests import ACCOUNT, RequestReader, iso_time
from compilegate.local.tuning.search import Search, read_search, searcher_for

_BASE_CHARACTERS = 58
"""What a trial's name takes of the tuning job's: a job's name has at most 63."""
_OBJECTIVE = "_tuning_objective_metric"


@dataclass(frozen=True)
class TuningRequest:
    """What a tuning job is asked to be."""

    search: Search
    metric: str
    definition: Mapping[str, Any]
    """What its training jobs share: a CreateTrainingJob request but for the hyperparameters."""
    target: float | None
    """The score that is good enough."""
    max_seconds: int
    raw: Mapping[str, Any]

    @property
    def example(self) -> TrainingRequest:
        """A training job of it. Raises StepRequestError."""
        return self.trial({each.name: each.at(0.0) for each in self.search.ranges})

    def trial(self, values: Mapping[str, str]) -> TrainingRequest:
        """The training job with these hyperparameters. Raises StepRequestError."""
        static = RequestReader(self.definition).text_map("StaticHyperParameters")
        # The newer name of the resources, which the SDK writes, beside the older one.
        raw = {
            "ResourceConfig" if name == "HyperParameterTuningResourceConfig" else name: value
            for name, value in self.definition.items()
            if name not in {"StaticHyperParameters", "DefinitionName", "TuningObjective"}
            and name != "HyperParameterRanges"
        }
        hyperparameters = {**static, **values, _OBJECTIVE: self.metric}
        return read_training_request({**raw, "HyperParameters": hyperparameters})

    @property
    def image(self) -> str:
        """What its training jobs run in."""
        return self.example.image

    @property
    def gpus(self) -> int:
        """How many one of its training jobs computes with."""
        return self.example.gpus

    @property
    def input_uris(self) -> tuple[str, ...]:
        """Every object or prefix that must exist when a training job starts."""
        return self.example.input_uris

    @property
    def output_prefixes(self) -> tuple[str, ...]:
        """Below which the results will lie."""
        return self.example.output_prefixes

    def job(self, name: str, sandboxes: Sandboxes, store: ObjectStore) -> TuningJob:
        """The job that is asked for."""
        return TuningJob(name, self, sandboxes, store)


def read_tuning_request(raw: Mapping[str, Any]) -> TuningRequest:
    """Read a resolved request.

    Raises StepRequestError for what is missing, mistyped or unsupported.
    """
    reader = RequestReader(raw)
    if reader.has("WarmStartConfig"):
        raise StepRequestError("WarmStartConfig is not supported here: no earlier job is at hand")
    config = reader.section("HyperParameterTuningJobConfig")
    several = reader.sections("TrainingJobDefinitions")
    if len(several) > 1:
        raise StepRequestError(
            f"there are {len(several)} TrainingJobDefinitions, allowed here: 1; give each a "
            "Tuning step of its own"
        )
    definition: Mapping[str, Any] = (
        raw["TrainingJobDefinitions"][0] if several else _section(raw, "TrainingJobDefinition")
    )
    own = RequestReader(definition, "TrainingJobDefinition")
    at = own if own.has("TuningObjective") else config
    named = "TuningObjective" if at is own else "HyperParameterTuningJobObjective"
    objective = at.section(named)
    ranges = own if own.has("HyperParameterRanges") else config
    where = "HyperParameterRanges" if ranges is own else "ParameterRanges"
    criteria = config.section_or_empty("TuningJobCompletionCriteria")
    target = raw.get("HyperParameterTuningJobConfig", {}).get("TuningJobCompletionCriteria") or {}
    found = target.get("TargetObjectiveMetricValue") if criteria.has(_TARGET) else None
    request = TuningRequest(
        search=read_search(config, ranges.section_or_empty(where), objective.text("Type")),
        metric=objective.text("MetricName"),
        definition=definition,
        target=float(found) if isinstance(found, int | float) else None,
        max_seconds=config.section_or_empty("ResourceLimits").integer_or(
            "MaxRuntimeInSeconds", _MOST_SECONDS
        ),
        raw=raw,
    )
    _ = request.example
    return request


_TARGET = "TargetObjectiveMetricValue"
_MOST_SECONDS = 2_592_000
"""Thirty days, the service's own limit of a tuning job."""


def _section(raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    RequestReader(raw).section(key)
    section: Mapping[str, Any] = raw[key]
    return section


@dataclass(frozen=True)
class _Trial:
    name: str
    values: Mapping[str, str]
    result: AttemptResult
    score: float | None


class TuningJob:
    """Runs its trials; what the engine asks of any job, it answers as one."""

    def __init__(
        self, name: str, request: TuningRequest, sandboxes: Sandboxes, store: ObjectStore
    ) -> None:
        self.name = name
        self.sandbox = sandboxes.make(name)
        self._sandboxes = sandboxes
        self.gpus = request.gpus
        self.processes = request.example.processes
        self._request = request
        self._store = store
        self._best: _Trial | None = None

    @property
    def arn(self) -> str:
        return f"{ACCOUNT}:hyper-parameter-tuning-job/{self.name}"

    def run(self, slot: JobSlot, on_line: Callable[[str], None]) -> AttemptResult:
        """Run the trials to their end. A failure of any kind is a result, not an exception."""
        started = time.time()
        self.sandbox.clear()
        self.sandbox.folder.mkdir(parents=True)
        trials: list[_Trial] = []
        searcher = searcher_for(self._request.search)
        with self.sandbox.log.open("w", encoding="utf-8") as log:

            def tell(line: str) -> None:
                log.write(line + "\n")
                on_line(line)

            while not self._is_over(trials, slot, started):
                values = searcher.ask()
                if values is None:
                    break
                trial = self._trial(len(trials) + 1, values, slot, tell)
                trials.append(trial)
                searcher.tell(trial.score)
                tell(_told(trial, len(trials), self._request))
        return self._result(trials, slot, started)

    def _is_over(self, trials: Sequence[_Trial], slot: JobSlot, started: float) -> bool:
        if slot.running.stopping or time.time() - started > self._request.max_seconds:
            return True
        target, maximize = self._request.target, self._request.search.maximize
        scores = [trial.score for trial in trials if trial.score is not None]
        if target is None or not scores:
            return False
        return max(scores) >= target if maximize else min(scores) <= target

    def _trial(
        self,
        number: int,
        values: Mapping[str, str],
        slot: JobSlot,
        tell: Callable[[str], None],
    ) -> _Trial:
        name = f"{self.name[:_BASE_CHARACTERS]}-{number:03d}"
        job = self._request.trial(values).job(name, self._sandboxes, self._store)
        result = run_attempt(job, slot, lambda line: tell(f"[{number}] {line}"))
        return _Trial(name, values, result, self._score(result))

    def _score(self, result: AttemptResult) -> float | None:
        """The objective's last value of a trial that completed."""
        if result.status != "Completed":
            return None
        for metric in result.properties.get("FinalMetricDataList", []):
            if metric["MetricName"] == self._request.metric:
                return float(metric["Value"])
        return None

    def _result(self, trials: Sequence[_Trial], slot: JobSlot, started: float) -> AttemptResult:
        scored = sorted(
            (trial for trial in trials if trial.score is not None),
            key=lambda trial: trial.score or 0.0,
            reverse=self._request.search.maximize,
        )
        stopped = slot.running.stopping
        status = "Stopped" if stopped else "Completed" if scored else "Failed"
        self._best = scored[0] if scored else None
        failure = None
        if stopped:
            failure = StepFailure("the tuning job was stopped", self.sandbox.log)
        elif not scored:
            failure = self._nothing(trials)
        return AttemptResult(
            status=status,
            exception_type=ALGORITHM_ERROR if status == "Failed" else None,
            failure=failure,
            properties=self._described(trials, scored, status, started),
        )

    def _nothing(self, trials: Sequence[_Trial]) -> StepFailure:
        ended = sum(trial.result.status == "Completed" for trial in trials)
        last = next((t.result.failure for t in reversed(trials) if t.result.failure), None)
        if ended or last is None:
            return StepFailure(
                f"none of {len(trials)} trials gave the metric {self._request.metric!r}: no "
                "line that its job printed matches the metric's Regex",
                self.sandbox.log,
            )
        sentence = f"no trial of {len(trials)} succeeded; the last failed: {last.sentence}"
        return StepFailure(sentence, last.log, last.last_lines)

    def _described(
        self, trials: Sequence[_Trial], scored: Sequence[_Trial], status: str, started: float
    ) -> dict[str, Any]:
        counts = Counter(trial.result.status for trial in trials)
        response: dict[str, Any] = {
            **self._request.raw,
            "HyperParameterTuningJobName": self.name,
            "HyperParameterTuningJobArn": self.arn,
            "HyperParameterTuningJobStatus": status,
            "CreationTime": iso_time(started),
            "HyperParameterTuningEndTime": iso_time(time.time()),
            "LastModifiedTime": iso_time(time.time()),
            "TrainingJobStatusCounters": {
                "Completed": counts["Completed"],
                "InProgress": 0,
                "RetryableError": 0,
                "NonRetryableError": counts["Failed"],
                "Stopped": counts["Stopped"],
            },
            "ObjectiveStatusCounters": {
                "Succeeded": len(scored),
                "Pending": 0,
                "Failed": len(trials) - len(scored),
            },
        }
        summaries = [self._summary(trial) for trial in scored]
        if summaries:
            response["BestTrainingJob"] = summaries[0]
            response["TrainingJobSummaries"] = summaries
        return response

    def _summary(self, trial: _Trial) -> dict[str, Any]:
        described = trial.result.properties
        return {
            "TrainingJobName": trial.name,
            "TrainingJobArn": described.get("TrainingJobArn"),
            "TrainingJobStatus": described.get("TrainingJobStatus"),
            "CreationTime": described.get("CreationTime"),
            "TrainingStartTime": described.get("TrainingStartTime"),
            "TrainingEndTime": described.get("TrainingEndTime"),
            "TunedHyperParameters": dict(trial.values),
            "FinalHyperParameterTuningJobObjectiveMetric": {
                "Type": "Maximize" if self._request.search.maximize else "Minimize",
                "MetricName": self._request.metric,
                "Value": trial.score,
            },
            "ObjectiveStatus": "Succeeded",
        }

    def output_uris(self) -> Sequence[str]:
        """The best model's, which is what later steps take."""
        if self._best is None:
            return []
        model = self._best.result.properties.get("ModelArtifacts", {}).get("S3ModelArtifacts")
        return [model] if model is not None else []


def _told(trial: _Trial, number: int, request: TuningRequest) -> str:
    tried = ", ".join(f"{name}={value}" for name, value in trial.values.items())
    score = "no score" if trial.score is None else f"{request.metric}={trial.score}"
    return f"trial {number} of {request.search.trials}: {tried}: {score}"
