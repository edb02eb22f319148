"""The doctor as jobs: from a workload's definition to theirs, and what they leave."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from compilegate.doctor import PROGRAM, AnswerError, doctor_definition, read_answer
from compilegate.document.model import Definition, Step
from compilegate.document.reading import read_definition
from compilegate.pipelines.requests.checks import check_requests

PROJECT = Path(__file__).parents[2]
GOLDEN = [
    PROJECT / "tests" / "pipelines" / "golden" / f"{name}.json"
    for name in ("diffusion", "topics", "trees")
]


def definition(name: str) -> Definition:
    text = (PROJECT / "tests" / "pipelines" / "golden" / f"{name}.json").read_bytes()
    return read_definition(text)[0]


def of(steps: tuple[Step, ...], name: str) -> dict[str, Any]:
    return dict(next(each for each in steps if each.name == name).arguments)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_its_jobs_are_requests_that_the_service_takes_and_need_no_data(path: Path) -> None:
    whole = read_definition(path.read_bytes())[0]
    found = doctor_definition(whole)
    check_requests(found)
    assert found.steps
    images = {
        (each.arguments["AlgorithmSpecification"]["TrainingImage"],
         json.dumps(each.arguments["ResourceConfig"]["InstanceType"]))
        for each in whole.steps
        if each.name.startswith("Train-")
    }  # fmt: skip
    assert images == {
        (each.arguments["AlgorithmSpecification"]["TrainingImage"],
         json.dumps(each.arguments["ResourceConfig"]["InstanceType"]))
        for each in found.steps
    }  # fmt: skip
    for step in found.steps:
        told = step.arguments["HyperParameters"]
        assert json.loads(told["sagemaker_program"]) == PROGRAM
        assert "sagemaker_submit_directory" in told
        assert all(name.startswith("sagemaker_") for name in told)
        assert not step.depends_on
        assert "COMPILEGATE_JOB" not in step.arguments["Environment"]
        assert step.arguments["RoleArn"].endswith("training")


def test_arms_that_share_image_and_instance_are_examined_once() -> None:
    whole = definition("topics")
    arms = {each.name.split("-")[1] for each in whole.steps if each.name.startswith("Train-")}
    assert 0 < len(doctor_definition(whole).steps) < len(arms)


def test_arms_that_are_left_out_are_not_examined() -> None:
    found = doctor_definition(definition("topics"), frozenset({"baseline"}))
    assert [each.name for each in found.steps] == ["Doctor-baseline"]


def test_a_spot_arm_is_examined_on_demand() -> None:
    found = doctor_definition(definition("diffusion")).steps
    for step in found:
        assert "EnableManagedSpotTraining" not in step.arguments
        assert step.arguments["StoppingCondition"].keys() == {"MaxRuntimeInSeconds"}


def archive(folder: Path, files: dict[str, bytes]) -> Path:
    path = folder / "output.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return path


def test_an_answer_is_read_without_unpacking_the_archive(tmp_path: Path) -> None:
    path = archive(
        tmp_path, {"../elsewhere": b"x", "doctor.json": b'{"facts": {}}', "doctor.txt": b"all well"}
    )
    answer = read_answer(path)
    assert (answer.document, answer.text) == ({"facts": {}}, "all well")
    assert [each.name for each in tmp_path.iterdir()] == ["output.tar.gz"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"evidence/evidence.json": b"{}"}, "has no doctor.json: its job was not a doctor's"),
        ({"doctor.json": b"[]", "doctor.txt": b""}, "doctor.json is not an object"),
        ({"doctor.json": b"{", "doctor.txt": b""}, "cannot be read"),
        ({"doctor.json": b" " * (5 << 20), "doctor.txt": b""}, "has 5242880 bytes"),
    ],
)
def test_what_is_no_answer_is_refused_in_a_sentence(
    tmp_path: Path, files: dict[str, bytes], expected: str
) -> None:
    with pytest.raises(AnswerError, match=expected):
        read_answer(archive(tmp_path, files))
