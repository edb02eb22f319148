"""Training Compiler's requests, field by field against those of the SDK that AWS wrote for it.

Version 2 of the SageMaker Python SDK is the last that knows the compiler. What it answers is kept
in sdk_v2/answers.json; `make test-all` asks it again, in an environment of its own.
"""

from __future__ import annotations

import datetime
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from compilegate.catalog import ArmSettings, check
from compilegate.execution.status import Target
from compilegate.pipelines.compilation import compile_definition
from compilegate.pipelines.deployment import Sources, local_deployment
from compilegate.workload import Arm, read_workload
from compilegate.workload.file import ArmTable
from tests.environments import BuildError, folder, make, pip_install
from tests.workload.settled import settled_arm

HERE = Path(__file__).parent
SDK = "sagemaker==2.257.7"
ANSWERS = json.loads((HERE / "sdk_v2" / "answers.json").read_text(encoding="utf-8"))
DIFFERENCES = tomllib.loads((HERE / "sdk_v2" / "differences.toml").read_text(encoding="utf-8"))[
    "differences"
]
PROGRAM_S_OWN = frozenset(
    {
        "arm",
        "averaging",
        "baseline_batch_size",
        "baseline_compiler",
        "baseline_precision",
        "batch_size",
        "compiler",
        "dropout",
        "epochs",
        "evaluate_on",
        "gradient_clip",
        "hidden_size",
        "intermediate_size",
        "attention_heads",
        "layers",
        "learning_rate",
        "on_failure",
        "parity_steps",
        "precision",
        "warmup_fraction",
        "weight_decay",
    }
)
"""Hyperparameters of the training program: whatever it is told, the estimator was told a seed."""

TODAY = datetime.date(2026, 11, 20)


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
    workload = read_workload(HERE / "topics.toml")
    arms = {f"arm-{number}": arm(label) for number, label in enumerate(ANSWERS["requests"])}
    deployment = local_deployment({"training": "1111", "gate": "2222"})
    sources = Sources(
        training_archive=deployment.uri("source", "aaaa.tgz"),
        training_code=deployment.uri("source", "aaaa.zip"),
        gate_code=deployment.uri("source", "bbbb.zip"),
        experiment=deployment.uri("source", "dddd.json"),
        data=deployment.uri("data", "topics", "cccc"),
    )
    definition = compile_definition(
        replace(workload, seeds=(7,), arms={"baseline": workload.arms["baseline"], **arms}),
        deployment,
        sources,
    )
    steps = {step["Name"]: step for step in json.loads(definition)["Steps"]}
    return {
        label: steps[f"Train-arm-{number}-7"]["Arguments"]
        for number, label in enumerate(ANSWERS["requests"])
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
        if field.removeprefix("HyperParameters.") in PROGRAM_S_OWN:
            continue
        if field not in theirs:
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


@pytest.mark.slow
@pytest.mark.parametrize("label", ANSWERS["requests"])
def test_a_request_differs_from_the_sdk_s_only_where_that_is_meant(label: str) -> None:
    unexplained = [
        (field, who)
        for field, who in differences(label)
        if not any(meant(difference, label, field, who) for difference in DIFFERENCES)
    ]
    assert unexplained == []


@pytest.mark.slow
def test_every_difference_that_is_meant_has_a_reason_and_occurs() -> None:
    found = [(label, *each) for label in ANSWERS["requests"] for each in differences(label)]
    for difference in DIFFERENCES:
        assert difference["reason"]
        assert any(meant(difference, *each) for each in found), difference["field"]


@pytest.mark.slow
def test_the_switches_are_the_sdk_s_to_the_letter() -> None:
    """Hyperparameters are compared as decoded; these must be quoted alike as well."""
    for label, theirs in ANSWERS["requests"].items():
        ours = requests()[label]["HyperParameters"]
        for name, value in theirs["HyperParameters"].items():
            if name in ("model_dir", "sagemaker_submit_directory"):
                continue
            assert ours[name] == value, f"{label}: {name}"


NATIVE = ArmSettings(
    compiler="training-compiler", version="1.13.1", instance_type="ml.p3.2xlarge", precision="fp16"
)
REFUSED = {
    **{
        name: replace(NATIVE, instance_type=f"ml.{name.removeprefix('instance ')}")
        for name in ANSWERS["refusals"]
        if name.startswith("instance ") and name != "instance groups"
    },
    "local": replace(NATIVE, target=Target.HERE),
    "local_gpu": replace(NATIVE, target=Target.HERE),
    "smdistributed": replace(
        NATIVE, instance_type="ml.p3dn.24xlarge", distribution="smdistributed"
    ),
    "torchrun": replace(NATIVE, distribution="torchrun"),
    "pytorchxla on PyTorch 1.10.2": replace(
        NATIVE, version="1.10.2", transformers="4.17.0", distribution="pytorchxla"
    ),
    "TensorFlow's several workers": replace(
        NATIVE, framework="tensorflow", version="2.11.0", distribution="multi_worker_mirrored"
    ),
    "PyTorch 2.0.1": replace(NATIVE, version="2.0.1"),
    "TensorFlow 2.8.0": replace(NATIVE, framework="tensorflow", version="2.8.0"),
}
UNSAYABLE = {"instance groups": "instance_groups"}
"""What the SDK refuses and no key of an arm could declare, by that key."""
MORE_STRICT = {
    "TensorFlow 2.12.0": "the SDK means to refuse it, and its check of the newest version is void",
}
LESS_STRICT = {
    "an image of one's own": "an image that extends AWS's works; the SDK has no way to say so",
}


def refused(asked: ArmSettings) -> bool:
    return any(finding.severity == "refusal" for finding in check(asked, TODAY))


@pytest.mark.parametrize("name", ANSWERS["refusals"])
def test_what_the_sdk_refuses_is_refused_here_and_what_it_takes_is_taken(name: str) -> None:
    if name in UNSAYABLE:
        assert UNSAYABLE[name] not in ArmTable.model_fields
    elif name in MORE_STRICT:
        assert ANSWERS["refusals"][name] is None
        assert refused(replace(NATIVE, framework="tensorflow", version="2.12.0"))
    elif name in LESS_STRICT:
        assert "Overriding the image URI" in ANSWERS["refusals"][name]
        assert not refused(replace(NATIVE, extends_image=True))
    else:
        assert refused(REFUSED[name]) == (ANSWERS["refusals"][name] is not None)


@pytest.mark.slow
@pytest.mark.long
def test_the_sdk_still_answers_what_is_kept(tmp_path: Path) -> None:
    """UPDATE_GOLDEN=1 keeps what it answers now."""
    answers = tmp_path / "answers.json"
    asked = subprocess.run(
        [sdk_v2(), str(HERE / "sdk_v2" / "answers.py"), str(answers)],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "SAGEMAKER_SUPPRESS_V2_WARNING": "1",
            # Any call would have to go through here, and nobody listens.
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "HTTP_PROXY": "http://127.0.0.1:9",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stdout[-2000:] + asked.stderr[-2000:]
    kept = HERE / "sdk_v2" / "answers.json"
    if os.environ.get("UPDATE_GOLDEN"):
        shutil.copyfile(answers, kept)
    assert json.loads(answers.read_text()) == json.loads(kept.read_text())


def sdk_v2() -> Path:
    """The interpreter of an environment with the SDK: made once, about half a minute, 211 MB."""
    try:
        return make(
            folder(SDK.replace("==", "-")), sys.executable, lambda place: pip_install(place, [SDK])
        )
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)
