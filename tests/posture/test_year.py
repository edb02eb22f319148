"""Weekly executions on this machine: the compiled definition, with trivial programs.

What a job measures is planted week by week, and the days are the test's. All else is real: the
runner, the Lambda steps and their function, the record, the registry.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from compilegate.cli.posture import posture_functions, records_in, settle_failed
from compilegate.execution.result import ExecutionResult
from compilegate.execution.status import ExecutionStatus
from compilegate.local import FunctionSources, ImageSources, LocalExecutor, list_packages
from compilegate.pipelines.deployment import local_deployment
from compilegate.posture.contract import DAY_VARIABLE
from compilegate.posture.records import current, decide, encoded
from compilegate.posture.state import Observed, Posture
from compilegate.workload.file import Posture as Declared
from tests.posture.scenes import benchmark, day, seen
from tests.posture.test_definition import definition, named, topics

pytestmark = [pytest.mark.slow, pytest.mark.long]

CANDIDATE = "compiled"
OUTPUT = "/opt/ml/processing/output"


def trivial(compiled: str, planted: Path) -> str:
    """The definition with programs that only hand over what is planted."""
    document = json.loads(compiled)
    for name, step in named(document["Steps"]).items():
        request, script = step["Arguments"], "true"
        if step["Type"] == "Training":
            crash = f"test -e {planted}/crash && exit 3;" if CANDIDATE in name else ""
            script = f"{crash} echo 1 > /opt/ml/model/m; echo 1 > /opt/ml/output/data/e"
            request["AlgorithmSpecification"]["ContainerEntrypoint"] = ["/bin/sh", "-c", script]
            request["InputDataConfig"], request["HyperParameters"] = [], {}
        elif step["Type"] == "Processing":
            if name.startswith("Gate"):
                source = name.removeprefix("Gate").strip("-") or "together"
                script = f"cp {planted}/{source}.json {OUTPUT}/verdict/posture.json"
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
class Year:
    """A home, and a workload of two arms and one seed whose weeks are played."""

    home: Path
    planted: Path
    monkeypatch: pytest.MonkeyPatch
    image: str = "1111"
    worse: float = 0.0
    """How much worse the candidate is than the baseline, for as long as it is planted."""

    def __post_init__(self) -> None:
        arms = {name: topics().arms[name] for name in ("baseline", CANDIDATE)}
        posture = Declared(passes=2, audit_every=3)
        self.declared = topics(arms=arms, seeds=(1,), posture=posture)

    def functions(self) -> FunctionSources:
        """The product's, with the modules of this checkout."""
        ((pattern, handler),) = posture_functions(self.home).patterns
        environment = {**handler.environment, "PYTHONPATH": str(Path(__file__).parents[2])}
        return FunctionSources(((pattern, dataclasses.replace(handler, environment=environment)),))

    def plant(self, week: int) -> None:
        change = 0.001 * (week % 3 - 1) - self.worse
        passes = self.worse < 0.02
        what = seen(
            "pass" if passes else "fail", arm=CANDIDATE, difference=change, value=0.9 + change
        )
        alone = dataclasses.replace(what, outcome="pass", differences=(), speedup=None)
        for name, observed in {
            "together": Observed(seen=(what,), registered=CANDIDATE if passes else "baseline"),
            "baseline-alone": Observed(registered="baseline"),
            f"{CANDIDATE}-alone": Observed(seen=(alone,), registered=CANDIDATE),
        }.items():
            document = {"arm": observed.registered, "observed": json.dumps(encoded(observed))}
            (self.planted / f"{name}.json").write_text(json.dumps(document))

    def execute(self, week: int) -> ExecutionResult:
        self.monkeypatch.setenv(DAY_VARIABLE, day(7 * week))
        self.plant(week)
        target = local_deployment({"training": self.image, "gate": "2222", "training-xla": "3333"})
        executor = LocalExecutor(
            home=self.home,
            images=ImageSources(patterns=(("*", "here"),)),
            functions=self.functions(),
            shared=[self.planted],
            definition=trivial(definition(self.declared, target), self.planted),
            use_cache=False,
        )
        result = executor.follow(executor.start(self.declared.name, {}))
        state = settle_failed(self.declared, self.home, result)
        if state is not None and state.rescue:
            return executor.follow(executor.start(self.declared.name, {}))
        return result


def test_a_year_of_weekly_executions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    year = Year(tmp_path / "home", tmp_path / "planted", monkeypatch)
    year.planted.mkdir()
    records, name = records_in(year.home), year.declared.name
    events: dict[int, Callable[[], object]] = {
        0: lambda: decide(records, name, benchmark()),
        5: lambda: setattr(year, "worse", 0.06),
        10: lambda: (setattr(year, "worse", 0.0), setattr(year, "image", "4444")),
        12: (year.planted / "crash").touch,
        13: (year.planted / "crash").unlink,
        14: lambda: decide(records, name, benchmark(7 * 14)),
        17: records.path(name).unlink,
    }
    postures, trained, arms = [], "", []
    for week in range(19):
        events.get(week, lambda: None)()
        result = year.execute(week)
        assert result.status is ExecutionStatus.SUCCEEDED, result.failure
        postures.append(current(records, name, when=day(0), who="test").state.posture)
        ran = {step for step, found in result.steps.items() if found.attempts}
        trained += "".join(
            letter
            for letter, steps in {
                "A": {"Train-baseline-1", f"Train-{CANDIDATE}-1"},
                "B": {"Train-baseline-alone"},
                "C": {f"Train-{CANDIDATE}-alone"},
            }.items()
            if steps == {step for step in ran if step.startswith("Train-")}
        )
        newest = list_packages(year.home, year.declared.model_package_group)[-1]
        arms.append(newest.description["CustomerMetadataProperties"]["arm"])
    # The benchmark, a week of shadow, the candidate alone and an audit. A regression of three
    # margins is suspected in its first week, and three audits revert it. Another image is
    # benchmarked again; a crash is a refusal, and the baseline still ships; a person begins anew;
    # a lost record means shadow.
    assert trained == "AACCACAAABAABBAACAA"
    on, shadow, reverted = Posture.ON, Posture.SHADOW, Posture.REVERTED
    assert postures == [
        *(shadow, *[on] * 7, reverted, reverted),
        *(shadow, on, reverted, reverted),
        *(shadow, on, on, shadow, on),
    ]
    assert "".join(arm[0] for arm in arms) == "bcccccbbbbbcbbbcccc"
