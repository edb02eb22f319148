"""Definitions that the tests compile, and their steps by name."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from compilegate.pipelines.compilation import compile_definition
from compilegate.pipelines.deployment import Deployment, Sources, local_deployment
from compilegate.workload import Workload
from tests.workload.settled import workload_with

HERE = Path(__file__).parent
TOPICS = HERE / "topics.toml"
FOLDERS = {"training": "1111", "gate": "2222", "xgboost": "3333", "neuron": "3333"}
LOCAL = local_deployment(FOLDERS)
Steps = dict[str, dict[str, Any]]


def sources(deployment: Deployment = LOCAL, data: str = "topics") -> Sources:
    return Sources(
        training_archive=deployment.uri("source", "aaaa.tgz"),
        training_code=deployment.uri("source", "aaaa.zip"),
        gate_code=deployment.uri("source", "bbbb.zip"),
        experiment=deployment.uri("source", "dddd.json"),
        data=deployment.uri("data", data, "cccc"),
    )


SOURCES = sources()


def workload(name: str = "topics", **changes: Any) -> Workload:
    """The workload of a file beside this one, with tables changed."""
    return workload_with(HERE / f"{name}.toml", **changes)


def compiled(declared: Workload, deployment: Deployment = LOCAL) -> str:
    return compile_definition(declared, deployment, sources(deployment))


def steps_of(declared: Workload | str = "topics", deployment: Deployment = LOCAL) -> Steps:
    """The steps of a definition, those on branches too."""
    if isinstance(declared, str):
        return _as_declared(declared)
    return _flat(json.loads(compiled(declared, deployment))["Steps"])


def requests_of(declared: Workload | str = "topics", deployment: Deployment = LOCAL) -> Steps:
    """The request of each step."""
    return {name: each["Arguments"] for name, each in steps_of(declared, deployment).items()}


@cache
def _as_declared(name: str) -> Steps:
    return steps_of(workload(name))


def _flat(steps: list[dict[str, Any]]) -> Steps:
    found: Steps = {}
    for step in steps:
        found[step["Name"]] = step
        found |= _flat(step["Arguments"].get("IfSteps", []))
        found |= _flat(step["Arguments"].get("ElseSteps", []))
    return found
