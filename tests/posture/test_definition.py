"""The definition of a workload with a posture: one for all postures."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compilegate.document.step_types import STEP_TYPES
from compilegate.pipelines.compilation import compile_definition
from compilegate.pipelines.deployment import Deployment, Sources, local_deployment
from compilegate.pipelines.requests.checks import InvalidRequestError
from compilegate.workload import Workload, WorkloadError, read_workload
from compilegate.workload.file import Posture
from tests.workload.settled import workload_with

TOPICS = Path(__file__).parents[1] / "pipelines" / "topics.toml"
HERE = local_deployment({"training": "1111", "gate": "2222"})


def compiled(declared: Workload, target: Deployment = HERE, code: str = "aaaa") -> dict[str, Any]:
    sources = Sources(
        training_archive=target.uri("source", "aaaa.tgz"),
        training_code=target.uri("source", f"{code}.zip"),
        gate_code=target.uri("source", "bbbb.zip"),
        experiment=target.uri("source", "dddd.json"),
        data=target.uri("data", "topics", "cccc"),
    )
    document: dict[str, Any] = json.loads(compile_definition(declared, target, sources))
    return document


def topics(**changes: Any) -> Workload:
    return dataclasses.replace(read_workload(TOPICS), **{"posture": Posture(), **changes})


def branches(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {
        step["Name"]: step["Arguments"]["IfSteps"]
        for step in document["Steps"]
        if step["Type"] == "Condition"
    }


def named(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    level = document["Steps"]
    inside = [step for steps in branches(document).values() for step in steps]
    return {step["Name"]: step for step in [*level, *inside]}


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        name = value.get("Get")
        if isinstance(name, str) and name.startswith("Steps."):
            yield name.split(".")[1]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_the_conditions_stand_side_by_side_and_each_branch_ends_by_itself() -> None:
    document = compiled(topics())
    assert list(branches(document)) == ["All-arms", "Alone-baseline", "Alone-compiled"]
    outside = {step["Name"] for step in document["Steps"]}
    for name, steps in branches(document).items():
        inside = {step["Name"] for step in steps}
        assert not any(step["Type"] == "Condition" for step in steps), "no nesting"
        assert set(references(steps)) <= inside | outside, f"{name}: no rejoin"
        assert [step["Name"].partition("-")[0] for step in steps[-2:]] == ["Register", "Keep"]


def test_one_job_trains_where_one_arm_does() -> None:
    steps = branches(compiled(topics()))
    trained = {
        name: [step["Name"] for step in inside if step["Type"] == "Training"]
        for name, inside in steps.items()
    }
    assert trained["Alone-baseline"] == ["Train-baseline-alone"]
    assert trained["Alone-compiled"] == ["Train-compiled-alone"]
    assert len(trained["All-arms"]) == 4


def test_what_the_step_cache_looks_at_does_not_depend_on_the_branch() -> None:
    found = named(compiled(topics()))
    for arm in ("baseline", "compiled"):
        together, alone = found[f"Train-{arm}-7"], found[f"Train-{arm}-alone"]
        for member in STEP_TYPES["Training"].cache_key:
            assert together["Arguments"].get(member) == alone["Arguments"].get(member)
            assert "Posture" not in set(references(together["Arguments"].get(member)))


def test_every_job_and_model_says_its_posture() -> None:
    for step in named(compiled(topics())).values():
        if step["Type"] == "Training":
            tags = {tag["Key"]: tag["Value"] for tag in step["Arguments"]["Tags"]}
            assert "OutputParameters['posture']" in tags["compilegate:posture"]["Get"]
            assert tags["compiler"] in {"true", "false"}
        if step["Type"] == "RegisterModel":
            assert {"posture", "watched"} <= step["Arguments"]["CustomerMetadataProperties"].keys()


def test_a_workload_without_a_posture_is_compiled_as_before() -> None:
    document = compiled(topics(posture=None))
    assert not [step for step in document["Steps"] if step["Type"] == "Lambda"]


def test_what_trains_is_in_the_fingerprint() -> None:
    def fingerprint(*arguments: Any) -> dict[str, str]:
        step = named(compiled(*arguments))["Posture"]
        found: dict[str, str] = json.loads(step["Arguments"]["fingerprint"])
        return found

    larger = topics().compute.model_copy(update={"instance_type": "ml.g5.2xlarge"})
    changes = {
        "image": (topics(), local_deployment({"training": "5555", "gate": "2222"})),
        "code": (topics(), HERE, "other"),
        "instance": (topics(compute=larger),),
    }
    before = fingerprint(topics())
    for what, arguments in changes.items():
        after = fingerprint(*arguments)
        assert [name for name in before if before[name] != after[name]] == [what]


def test_an_account_without_the_function_is_refused() -> None:
    target = dataclasses.replace(HERE, posture_function=None)
    with pytest.raises(InvalidRequestError, match="no function"):
        compiled(topics(), target)


def test_a_posture_goes_with_arms_that_train_in_one_job() -> None:
    with pytest.raises(WorkloadError, match=r"arms\.compiled\.compiler is 'neuron'"):
        workload_with(
            TOPICS,
            posture={"passes": 2},
            arms__compiled={"compiler": "neuron", "instance_type": "ml.trn1.2xlarge"},
        )
