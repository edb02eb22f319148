"""The definition of a workload with a posture: one for all postures."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from compilegate.document.step_types import STEP_TYPES
from compilegate.pipelines.compilation import InvalidRequestError, compile_definition
from compilegate.pipelines.deployment import Deployment, Sources, local_deployment
from compilegate.workload import Workload, read_workload
from compilegate.workload.declaration.compute import Cache
from compilegate.workload.declaration.gate import Posture
from compilegate.workload.declaration.schedule import Schedule

TOPICS = Path(__file__).parents[1] / "pipelines" / "topics.toml"
HERE = local_deployment({"training": "1111", "gate": "2222"})
ALWAYS = Schedule(expression="rate(7 days)", retrain="always")
Steps = list[dict[str, Any]]


def definition(declared: Workload, target: Deployment = HERE, code: str = "aaaa") -> str:
    sources = Sources(
        training_archive=target.uri("source", "aaaa.tgz"),
        training_code=target.uri("source", f"{code}.zip"),
        gate_code=target.uri("source", "bbbb.zip"),
        experiment=target.uri("source", "dddd.json"),
        data=target.uri("data", "topics", "cccc"),
    )
    return compile_definition(declared, target, sources)


def compiled(*arguments: Any) -> Steps:
    found: Steps = json.loads(definition(*arguments))["Steps"]
    return found


def topics(**changes: Any) -> Workload:
    return read_workload(TOPICS).model_copy(update={"posture": Posture(), **changes})


def branches(steps: Steps) -> dict[str, Steps]:
    return {one["Name"]: one["Arguments"]["IfSteps"] for one in steps if one["Type"] == "Condition"}


def named(steps: Steps) -> dict[str, dict[str, Any]]:
    inside = [step for branch in branches(steps).values() for step in branch]
    return {step["Name"]: step for step in [*steps, *inside]}


def references(value: Any) -> set[str]:
    return set(re.findall(r'"Get": "Steps\.([^."]+)', json.dumps(value)))


def test_conditions_stand_side_by_side_and_each_branch_trains_and_registers_by_itself() -> None:
    steps = compiled(topics())
    outside, trained = {step["Name"] for step in steps}, {}
    for name, branch in branches(steps).items():
        assert not any(step["Type"] == "Condition" for step in branch), "no nesting"
        assert references(branch) <= {step["Name"] for step in branch} | outside, "no rejoin"
        ends = [step["Name"].partition("-")[0] for step in branch[-3:]]
        assert ends == ["Register", "Keep", "Note"], "noted only once it is registered"
        trained[name] = sum(step["Type"] == "Training" for step in branch)
    assert trained == {"All-arms": 4, "Alone-baseline": 1, "Alone-compiled": 1}
    assert not [step for step in compiled(topics(posture=None)) if step["Type"] == "Lambda"]


def test_the_branches_share_what_the_step_cache_looks_at_and_jobs_and_models_name_theirs() -> None:
    found = named(compiled(topics()))
    for arm in ("baseline", "compiled"):
        together, alone = found[f"Train-{arm}-7"], found[f"Train-{arm}-alone"]
        for member in STEP_TYPES["Training"].cache_key:
            assert together["Arguments"].get(member) == alone["Arguments"].get(member)
            assert "Posture" not in references(together["Arguments"].get(member))
    for step in found.values():
        if step["Type"] == "Training":
            tags = {tag["Key"]: tag["Value"] for tag in step["Arguments"]["Tags"]}
            assert "OutputParameters['posture']" in tags["compilegate:posture"]["Get"]
            assert tags["compiler"] in {"true", "false"}
        if step["Type"] == "RegisterModel":
            assert {"posture", "watched"} <= step["Arguments"]["CustomerMetadataProperties"].keys()


def test_what_trains_is_in_the_fingerprint() -> None:
    def fingerprint(*arguments: Any) -> dict[str, str]:
        found = named(compiled(*arguments))["Posture"]["Arguments"]["fingerprint"]
        return dict(json.loads(found))

    larger = topics().compute.model_copy(update={"instance_type": "ml.g5.2xlarge"})
    before = fingerprint(topics())
    for what, arguments in {
        "image": (topics(), local_deployment({"training": "5555", "gate": "2222"})),
        "code": (topics(), HERE, "other"),
        "instance": (topics(compute=larger),),
    }.items():
        after = fingerprint(*arguments)
        assert [name for name in before if before[name] != after[name]] == [what]


def test_what_an_execution_depends_on_is_sent_at_its_start_and_noted_at_its_end() -> None:
    def start(**changes: Any) -> dict[str, Any]:
        found = named(compiled(topics(**changes)))
        notes = {
            json.dumps(step["Arguments"]["inputs"])
            for name, step in found.items()
            if name.startswith("Note")
        }
        sent: dict[str, Any] = found["Posture"]["Arguments"]
        assert notes == {json.dumps(sent["inputs"])} if "inputs" in sent else not notes
        return sent

    sent = start()
    assert sent["cache_seconds"] == str(30 * 86400)
    assert "Parameters.Data" in json.dumps(sent["inputs"])
    assert start(registry=topics().registry.model_copy(update={"group": "x"})) != sent
    assert start(registry=topics().registry.model_copy(update={"approval": "Approved"})) == sent
    for without in ({"cache": Cache(enabled=False)}, {"schedule": ALWAYS}):
        assert "inputs" not in start(**without), "each execution trains anew"


def test_an_account_without_the_function_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="no function"):
        definition(topics(), dataclasses.replace(HERE, posture_function=None))
