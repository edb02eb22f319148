"""Weekly executions on this machine: the compiled definition, with trivial programs.

What a job measures is written week by week, and the days are the test's. All else is real: the
runner, the Lambda steps and their function, the record, the registry.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from compilegate.cli.posture import posture_function, records_in, settle_failed
from compilegate.execution.result import ExecutionResult
from compilegate.execution.status import ExecutionStatus
from compilegate.local import Handler, ImageSources, LocalExecutor, list_packages
from compilegate.pipelines.deployment import local_deployment
from compilegate.posture.contract import DAY_VARIABLE
from compilegate.posture.records import current, decide, encoded
from compilegate.posture.state import Observed
from compilegate.workload.declaration.gate import Posture as Declared
from tests.posture.scenes import benchmark, day, seen
from tests.posture.test_definition import definition, named, topics

pytestmark = [pytest.mark.slow, pytest.mark.long]

CANDIDATE = "compiled"
OUTPUT = "/opt/ml/processing/output"


def trivial(compiled: str, results: Path) -> str:
    """The definition with programs that only hand over what is written there."""
    document = json.loads(compiled)
    for name, step in named(document["Steps"]).items():
        request, script = step["Arguments"], "true"
        if step["Type"] == "Training":
            crash = f"test -e {results}/crash && exit 3;" if CANDIDATE in name else ""
            script = f"{crash} echo 1 > /opt/ml/model/m; echo 1 > /opt/ml/output/data/e"
            request["AlgorithmSpecification"]["ContainerEntrypoint"] = ["/bin/sh", "-c", script]
            request["InputDataConfig"], request["HyperParameters"] = [], {}
        elif step["Type"] == "Processing":
            if name.startswith("Gate"):
                source = name.removeprefix("Gate").strip("-") or "together"
                script = f"cp {results}/{source}.json {OUTPUT}/verdict/posture.json"
            elif name.startswith("Package"):
                script = f"echo 1 > {OUTPUT}/model/model.tar.gz"
            request["AppSpecification"]["ContainerEntrypoint"] = ["/bin/sh", "-c", script]
            request["AppSpecification"]["ContainerArguments"] = []
            inputs = request["ProcessingInputs"]
            request["ProcessingInputs"] = [
                each for each in inputs if each["InputName"].startswith("evidence")
            ]
    return json.dumps(document)


@dataclasses.dataclass
class Weeks:
    """A home, and a workload of two arms and one seed whose weeks are played."""

    home: Path
    results: Path
    monkeypatch: pytest.MonkeyPatch
    cached: bool = False

    def __post_init__(self) -> None:
        arms = {name: topics().arms[name] for name in ("baseline", CANDIDATE)}
        self.declared = topics(arms=arms, seeds=(1,), posture=Declared(passes=2))
        self.results.mkdir()
        together = seen("pass", arm=CANDIDATE)
        alone = dataclasses.replace(together, differences=(), speedup=None)
        for name, observed in {
            "together": Observed(seen=(together,), registered=CANDIDATE),
            "baseline-alone": Observed(registered="baseline"),
            f"{CANDIDATE}-alone": Observed(seen=(alone,), registered=CANDIDATE),
        }.items():
            document = {"arm": observed.registered, "observed": json.dumps(encoded(observed))}
            (self.results / f"{name}.json").write_text(json.dumps(document))

    def functions(self) -> list[tuple[str, Handler]]:
        """The product's, with the modules of this checkout."""
        pattern, handler = posture_function(self.home, fresh=not self.cached)
        environment = {**handler.environment, "PYTHONPATH": str(Path(__file__).parents[2])}
        return [(pattern, dataclasses.replace(handler, environment=environment))]

    def execute(self, week: float, **parameters: str) -> ExecutionResult:
        self.monkeypatch.setenv(DAY_VARIABLE, day(7 * week))
        images = {"training": "1111", "gate": "2222", "training-xla": "3333"}
        compiled = definition(self.declared, local_deployment(images))
        executor = LocalExecutor(
            home=self.home,
            images=ImageSources(patterns=(("*", "here"),)),
            functions=self.functions(),
            shared=[self.results],
            definition=trivial(compiled, self.results),
            use_cache=self.cached,
        )
        result = executor.follow(executor.start(self.declared.name, parameters))
        state = settle_failed(self.declared, self.home, result)
        if state is not None and state.rescue:
            result = executor.follow(executor.start(self.declared.name, {}))
        assert result.status is ExecutionStatus.SUCCEEDED, result.failure
        return result


def test_weekly_executions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark, a week of shadow, the candidate alone; a crash is a refusal, and the baseline
    still ships; a lost record means shadow."""
    weeks = Weeks(tmp_path / "home", tmp_path / "results", monkeypatch)
    records, name, crash = records_in(weeks.home), weeks.declared.name, weeks.results / "crash"
    decide(records, name, benchmark())
    events: dict[int, Callable[[], object]] = {
        3: crash.touch,
        4: crash.unlink,
        5: records.path(name).unlink,
    }
    found = []
    for week in range(7):
        events.get(week, lambda: None)()
        result = weeks.execute(week)
        trained = {
            step.removeprefix("Train-")
            for step, ran in result.steps.items()
            if step.startswith("Train-") and ran.attempts
        }
        newest = list_packages(weeks.home, weeks.declared.model_package_group)[-1]
        arm = newest.description["CustomerMetadataProperties"]["arm"]
        posture = current(records, name, when=day(0), who="test").state.posture
        found.append((str(posture), trained, arm))
    together = {"baseline-1", f"{CANDIDATE}-1"}
    assert found == [
        ("shadow", together, "baseline"),
        ("on", together, CANDIDATE),
        ("on", {f"{CANDIDATE}-alone"}, CANDIDATE),
        ("reverted", {"baseline-alone"}, "baseline"),
        ("reverted", {"baseline-alone"}, "baseline"),
        ("shadow", together, CANDIDATE),
        ("on", together, CANDIDATE),
    ]


def test_what_is_registered_is_not_registered_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While every training would come from the cache."""
    weeks = Weeks(tmp_path / "home", tmp_path / "results", monkeypatch, cached=True)

    def registered(week: float, **parameters: str) -> tuple[bool, int]:
        outputs = weeks.execute(week, **parameters).steps["Posture"].properties["OutputParameters"]
        found = list_packages(weeks.home, weeks.declared.model_package_group)
        return outputs["reason"].startswith("Nothing is new"), len(found)

    assert [registered(week) for week in (0, 0.1, 0.2)] == [(False, 1), (True, 1), (True, 1)]
    assert registered(0.3, Attempt="2") == (False, 2)
    assert registered(6) == (False, 3), "the cache has expired"
