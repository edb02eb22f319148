"""A year of weekly executions on this machine: the compiled definition, with trivial programs.

What a job measures is planted week by week, and the days are the test's. All else is real: the
runner, the Lambda steps and their function, the record, the registry.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compilegate.cli.posture import posture_functions, records_in, settle_failed
from compilegate.execution.result import ExecutionResult
from compilegate.execution.status import ExecutionStatus
from compilegate.local import FunctionSources, ImageSources, LocalExecutor, list_packages
from compilegate.pipelines.compilation import compile_definition
from compilegate.pipelines.deployment import Deployment, Sources, local_deployment
from compilegate.posture.contract import DAY_VARIABLE
from compilegate.posture.records import Record, decide, encoded, read_record
from compilegate.posture.state import Observed, Outcome, Posture
from compilegate.workload import Workload, read_workload
from compilegate.workload.file import Posture as Declared
from tests.posture.scenes import benchmark, day, seen

pytestmark = [pytest.mark.slow, pytest.mark.long]

TOPICS = Path(__file__).parents[1] / "pipelines" / "topics.toml"
CANDIDATE = "compiled"
OUTPUT = "/opt/ml/processing/output"


def workload() -> Workload:
    """Two arms, one seed."""
    declared = read_workload(TOPICS)
    arms = {
        "baseline": declared.arms["baseline"],
        CANDIDATE: next(iter(declared.candidates.values())),
    }
    return dataclasses.replace(
        declared, arms=arms, seeds=(1,), posture=Declared(passes=2, audit_every=8)
    )


def deployment(image: str) -> Deployment:
    return local_deployment({"training": image, "gate": "2222", "training-xla": "3333"})


def trivial(definition: str, planted: Path) -> str:
    """The definition with programs that only hand over what is planted."""
    document = json.loads(definition)

    def below(steps: list[dict[str, Any]]) -> None:
        for step in steps:
            request = step["Arguments"]
            if step["Type"] == "Condition":
                below(request["IfSteps"])
            elif step["Type"] == "Training":
                crash = f"test -e {planted}/crash && exit 3;" if CANDIDATE in step["Name"] else ""
                script = f"{crash} echo 1 > /opt/ml/model/m; echo 1 > /opt/ml/output/data/e"
                request["AlgorithmSpecification"]["ContainerEntrypoint"] = ["/bin/sh", "-c", script]
                request["InputDataConfig"], request["HyperParameters"] = [], {}
            elif step["Type"] == "Processing":
                _, _, arm = step["Name"].partition("-")
                source = f"alone-{arm.removesuffix('-alone')}" if arm else "together"
                script = "true"
                if step["Name"].startswith("Gate"):
                    script = f"cp {planted}/{source}.json {OUTPUT}/verdict/posture.json"
                elif step["Name"].startswith("Package"):
                    script = f"echo 1 > {OUTPUT}/model/model.tar.gz"
                request["AppSpecification"]["ContainerEntrypoint"] = ["/bin/sh", "-c", script]
                request["AppSpecification"]["ContainerArguments"] = []
                request["ProcessingInputs"] = [
                    one
                    for one in request["ProcessingInputs"]
                    if one["InputName"].startswith("evidence")
                ]

    below(document["Steps"])
    return json.dumps(document)


def functions(home: Path) -> FunctionSources:
    """The product's, with the modules of this checkout."""
    ((pattern, handler),) = posture_functions(home).patterns
    environment = {**handler.environment, "PYTHONPATH": str(Path(__file__).parents[2])}
    return FunctionSources(((pattern, dataclasses.replace(handler, environment=environment)),))


@dataclasses.dataclass
class Year:
    """A home, and a workload whose weeks are played."""

    home: Path
    planted: Path
    monkeypatch: pytest.MonkeyPatch
    declared: Workload = dataclasses.field(default_factory=workload)
    image: str = "1111"
    worse: float = 0.0
    """How much worse the candidate is than the baseline, for as long as it is planted."""

    def definition(self) -> str:
        target = deployment(self.image)
        sources = Sources(
            training_archive=target.uri("source", "aaaa.tgz"),
            training_code=target.uri("source", "aaaa.zip"),
            gate_code=target.uri("source", "bbbb.zip"),
            experiment=target.uri("source", "dddd.json"),
            data=target.uri("data", "topics", "cccc"),
        )
        return trivial(compile_definition(self.declared, target, sources), self.planted)

    def plant(self, week: int) -> None:
        noise = 0.001 * (week % 3 - 1)
        outcome: Outcome = "fail" if self.worse > 0.02 else "pass"
        what = seen(
            outcome, arm=CANDIDATE, difference=noise - self.worse, value=0.9 + noise - self.worse
        )
        alone = dataclasses.replace(what, outcome="pass", differences=(), speedup=None)
        registered = CANDIDATE if outcome == "pass" else "baseline"
        for name, observed in {
            "together": Observed(seen=(what,), registered=registered),
            "alone-baseline": Observed(registered="baseline"),
            f"alone-{CANDIDATE}": Observed(seen=(alone,), registered=CANDIDATE),
        }.items():
            text = json.dumps(
                {"arm": observed.registered, "observed": json.dumps(encoded(observed))}
            )
            (self.planted / f"{name}.json").write_text(text)

    def execute(self, week: int) -> ExecutionResult:
        self.monkeypatch.setenv(DAY_VARIABLE, day(7 * week))
        self.plant(week)
        executor = LocalExecutor(
            home=self.home,
            images=ImageSources(patterns=(("*", "here"),)),
            functions=functions(self.home),
            shared=[self.planted],
            definition=self.definition(),
            use_cache=False,
        )
        result = executor.follow(executor.start(self.declared.name, {}))
        state = settle_failed(self.declared, self.home, result)
        if state is not None and state.rescue:
            return executor.follow(executor.start(self.declared.name, {}))
        return result

    @property
    def record(self) -> Record:
        text, _ = records_in(self.home).read(self.declared.name)
        assert text is not None
        return read_record(text, self.declared.name)

    def trained(self, result: ExecutionResult) -> set[str]:
        return {
            name
            for name, step in result.steps.items()
            if name.startswith("Train-") and step.attempts
        }

    def registered(self) -> str:
        packages = list_packages(self.home, self.declared.model_package_group)
        return str(packages[-1].description["CustomerMetadataProperties"]["arm"])


TOGETHER = {"Train-baseline-1", f"Train-{CANDIDATE}-1"}
BASELINE = {"Train-baseline-alone"}
ALONE = {f"Train-{CANDIDATE}-alone"}


@pytest.fixture
def year(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Year:
    planted = tmp_path / "planted"
    planted.mkdir()
    return Year(tmp_path / "home", planted, monkeypatch)


def test_a_year_of_weekly_executions(year: Year) -> None:
    events: dict[int, Callable[[], object]] = {
        20: lambda: setattr(year, "worse", 0.06),
        26: lambda: setattr(year, "worse", 0.0),
        27: lambda: setattr(year, "image", "4444"),
        32: (year.planted / "crash").touch,
        33: (year.planted / "crash").unlink,
        35: lambda: decide(records_in(year.home), year.declared.name, benchmark(7 * 35)),
        43: records_in(year.home).path(year.declared.name).unlink,
    }
    decide(records_in(year.home), year.declared.name, benchmark())
    postures, trained, arms = [], [], []
    for week in range(52):
        events.get(week, lambda: None)()
        result = year.execute(week)
        assert result.status is ExecutionStatus.SUCCEEDED, result.failure
        postures.append(year.record.state.posture)
        trained.append(year.trained(result))
        arms.append(year.registered())
    # The benchmark passes, and after a week of shadow the candidate trains alone.
    assert postures[:2] == [Posture.SHADOW, Posture.ON]
    assert trained[:3] == [TOGETHER, TOGETHER, ALONE]
    # One execution in eight is an audit.
    assert [week for week in range(2, 20) if trained[week] == TOGETHER] == [9, 17]
    assert set(arms[1:20]) == {CANDIDATE}
    assert arms[0] == "baseline", "in the benchmark, whatever the gate finds"
    # A regression of three margins is suspected in its first week. The audit fails, the baseline
    # is registered from then on, and two audits more revert it.
    assert trained[20:24] == [ALONE, TOGETHER, TOGETHER, TOGETHER]
    assert postures[20:24] == [Posture.ON, Posture.ON, Posture.ON, Posture.REVERTED]
    assert (trained[24:27], set(arms[21:27])) == ([BASELINE] * 3, {"baseline"})
    # Another image is benchmarked again.
    assert (trained[27], postures[27], postures[28]) == (TOGETHER, Posture.SHADOW, Posture.ON)
    # A candidate that crashes is a refusal, and the baseline still ships.
    assert postures[32] is Posture.REVERTED
    assert (arms[32], trained[32]) == ("baseline", BASELINE)
    # A person begins anew.
    assert postures[34:37] == [Posture.REVERTED, Posture.SHADOW, Posture.ON]
    # A lost record means shadow, and its week is not shortened.
    assert (postures[42], postures[43]) == (Posture.ON, Posture.SHADOW)
    assert trained[43] == TOGETHER
    assert postures[44:46] == [Posture.ON, Posture.ON]
