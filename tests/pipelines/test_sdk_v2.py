"""Training Compiler's requests, field by field against those of the SDK that AWS wrote for it.

Version 2 of the SageMaker Python SDK is the last that knows the compiler. sdk_v2/answers.json has
its requests, which sdk_v2/answers.py writes in an environment with sagemaker 2.257.7.
tests/catalog/test_rules.py has what that SDK refuses.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import pytest

from compilegate.workload import Arm
from tests.pipelines.definitions import HERE, requests_of, workload
from tests.workload.settled import settled_arm

ANSWERS = json.loads((HERE / "sdk_v2" / "answers.json").read_text(encoding="utf-8"))
DIFFERENCES = tomllib.loads((HERE / "sdk_v2" / "differences.toml").read_text(encoding="utf-8"))[
    "differences"
]

pytestmark = pytest.mark.slow


def arm(label: str) -> Arm:
    """What asks for what the label says, with AWS's own image."""
    stack, _, kind = label.partition(", ")
    several = kind == "several GPUs"
    framework, version, *rest = stack.split(" ")
    old = framework == "pytorch" and version in ("1.10.2", "1.9.0")
    return settled_arm(
        **{
            "compiler": "training-compiler",
            "batch_size": 8,
            "learning_rate": 1e-3,
            "image": "aws",
            "instance_type": "ml.p3.16xlarge" if several else "ml.p3.2xlarge",
            "instance_count": 2 if several else 1,
            "distribution": ("sm_dist" if old else "pytorchxla") if several else "none",
            "training_compiler": {
                "framework": framework,
                "version": version,
                "transformers": rest[-1] if rest else None,
                "debug": kind == "debug mode",
            },
            "profiler": kind == "profiler and debugger",
            "debugger": kind == "profiler and debugger",
        }
    )


@cache
def requests() -> dict[str, dict[str, Any]]:
    """This project's requests by label: of one definition that has an arm for each."""
    arms = {f"arm-{number}": arm(label) for number, label in enumerate(ANSWERS["requests"])}
    declared = workload(seeds=[7])
    found = requests_of(declared.model_copy(update={"arms": {**declared.arms, **arms}}))
    return {
        label: found[f"Train-arm-{number}-7"] for number, label in enumerate(ANSWERS["requests"])
    }


def fields(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf by its dotted place; hyperparameters as the training toolkit decodes them."""
    if isinstance(value, dict) and value.keys() & {"Get", "Std:Join"}:
        yield at, value  # only an execution knows it
    elif isinstance(value, dict) and value:
        for key, item in value.items():
            yield from fields(item, f"{at}.{key}" if at else key)
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from fields(item, f"{at}[{number}]")
    elif at.startswith("HyperParameters."):
        try:
            yield at, json.loads(value)
        except ValueError:
            yield at, value
    else:
        yield at, value


def differences(label: str) -> Iterator[tuple[str, str]]:
    """Each field that differs, and who has it."""
    ours, theirs = dict(fields(requests()[label])), dict(fields(ANSWERS["requests"][label]))
    for field in sorted({*ours, *theirs}):
        if field not in theirs:
            # The estimator was given a seed and no other setting of the training program.
            if not field.startswith("HyperParameters.") or ".sagemaker_" in field:
                yield field, "ours"
        elif field not in ours:
            yield field, "sdk"
        elif ours[field] != theirs[field]:
            yield field, "both"


def meant(difference: dict[str, Any], label: str, field: str, who: str) -> bool:
    stack = label.partition(",")[0]
    return (
        who == difference["who"]
        and fnmatchcase(field, difference["field"].replace("[", "[[]"))
        and stack in difference.get("stacks", [stack])
    )


@pytest.mark.parametrize("label", ANSWERS["requests"])
def test_a_request_differs_from_the_sdk_s_only_where_that_is_meant(label: str) -> None:
    unexplained = [
        (field, who)
        for field, who in differences(label)
        if not any(meant(difference, label, field, who) for difference in DIFFERENCES)
    ]
    assert unexplained == []


def test_every_difference_that_is_meant_has_a_reason_and_occurs() -> None:
    found = [(label, *each) for label in ANSWERS["requests"] for each in differences(label)]
    for difference in DIFFERENCES:
        assert difference["reason"]
        assert any(meant(difference, *each) for each in found), difference["field"]


def test_the_switches_are_the_sdk_s_to_the_letter() -> None:
    """Hyperparameters are compared as decoded; these must be quoted alike as well."""
    placed = {"model_dir", "sagemaker_submit_directory"}
    for label, theirs in ANSWERS["requests"].items():
        ours = requests()[label]["HyperParameters"]
        for name, value in theirs["HyperParameters"].items():
            assert name in placed or ours[name] == value, f"{label}: {name}"
