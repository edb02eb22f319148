"""The jobs of doctor and profile: from a workload's definition to theirs, and what they leave."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from compilegate.diagnose.jobs import (
    MOST_BYTES,
    PROGRAM,
    NoSuchArmError,
    OutputError,
    doctor_definition,
    profile_definition,
    read_answer,
)
from compilegate.document.model import Definition, Step
from compilegate.document.reading import read_definition
from compilegate.job.contract import PROFILE_VARIABLE
from compilegate.pipelines.compilation import check_requests, compile_definition
from compilegate.pipelines.deployment import Sources, local_deployment
from compilegate.workload import read_workload
from compilegate.workload.feasibility import findings

PROJECT = Path(__file__).parents[2]
GOLDEN = PROJECT / "tests" / "pipelines" / "golden"
GPU_PROOF = PROJECT / "workloads" / "gpu-proof.toml"


def definition(name: str) -> Definition:
    return read_definition((GOLDEN / f"{name}.json").read_bytes())[0]


def training(steps: Iterable[Step]) -> list[Step]:
    return [each for each in steps if each.name.startswith("Train-")]


def places(steps: Iterable[Step]) -> set[tuple[str, str]]:
    return {
        (
            str(each.arguments["AlgorithmSpecification"]["TrainingImage"]),
            str(each.arguments["ResourceConfig"]["InstanceType"]),
        )
        for each in steps
    }


@pytest.mark.parametrize("name", ["diffusion", "topics", "trees", "gpu-proof"])
def test_each_image_and_instance_is_examined_once_on_demand_without_data(name: str) -> None:
    trained = training(definition(name).steps)
    found = doctor_definition(definition(name))
    check_requests(found)
    assert places(found.steps) == places(trained)
    assert 0 < len(found.steps) < max(len(trained), 2)
    for step in found.steps:
        request, told = step.arguments, step.arguments["HyperParameters"]
        assert json.loads(told["sagemaker_program"]) == PROGRAM
        assert "sagemaker_submit_directory" in told
        assert all(name.startswith("sagemaker_") for name in told)
        assert not step.depends_on
        assert "COMPILEGATE_JOB" not in request["Environment"]
        assert "EnableManagedSpotTraining" not in request
        assert request["StoppingCondition"].keys() == {"MaxRuntimeInSeconds"}
        assert request["RoleArn"].endswith("training")


def test_arms_that_are_left_out_are_not_examined() -> None:
    found = doctor_definition(definition("topics"), frozenset({"baseline"}))
    assert [each.name for each in found.steps] == ["Doctor-baseline"]


def test_a_profile_takes_the_arms_first_job_and_what_it_waits_for() -> None:
    found = profile_definition(definition("topics"), "baseline", 36)
    check_requests(found)
    prepare, job = found.steps
    assert (prepare.name, job.name) == ("Prepare", training(definition("topics").steps)[0].name)
    assert job.arguments["Environment"][PROFILE_VARIABLE] == "36"
    assert job.cache is None
    with pytest.raises(NoSuchArmError, match="--arm is 'fastest', expected baseline, "):
        profile_definition(definition("topics"), "fastest", 36)


def archive(folder: Path, files: Mapping[str, bytes]) -> Path:
    path = folder / "output.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as packed:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return path


def test_an_answer_is_read_without_unpacking_the_archive(tmp_path: Path) -> None:
    files = {"../elsewhere": b"x", "doctor.json": b'{"facts": {}}', "doctor.txt": b"all well"}
    assert read_answer(archive(tmp_path, files)) == ({"facts": {}}, "all well")
    assert [each.name for each in tmp_path.iterdir()] == ["output.tar.gz"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"evidence/evidence.json": b"{}"}, "has no doctor.txt"),
        ({"doctor.json": b"{", "doctor.txt": b""}, "doctor.json cannot be read"),
        ({"doctor.json": b" " * (MOST_BYTES + 1), "doctor.txt": b""}, "expected 4194304 or fewer"),
    ],
)
def test_what_is_no_answer_is_refused(
    tmp_path: Path, files: dict[str, bytes], expected: str
) -> None:
    with pytest.raises(OutputError, match=expected):
        read_answer(archive(tmp_path, files))


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "output.tar.gz").write_bytes(b"no archive")
    for path in (tmp_path / "output.tar.gz", tmp_path / "nothing.tar.gz"):
        with pytest.raises(OutputError, match="cannot be read"):
            read_answer(path)


def test_the_workload_that_proves_gpus_is_golden_and_covers_what_only_they_can_prove() -> None:
    workload, deployment = (
        read_workload(GPU_PROOF),
        local_deployment({"training": "1111", "gate": "2222"}),
    )
    uri = deployment.uri
    sources = Sources(
        training_archive=uri("source", "aaaa.tgz"),
        training_code=uri("source", "aaaa.zip"),
        gate_code=uri("source", "bbbb.zip"),
        experiment=uri("source", "dddd.json"),
        data=uri("data", "gpu-proof", "cccc"),
    )
    compiled, golden = compile_definition(workload, deployment, sources), GOLDEN / "gpu-proof.json"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(compiled, encoding="utf-8")
    assert compiled == golden.read_text(encoding="utf-8")
    arms = workload.arms
    assert {each.precision for each in arms.values()} == {"fp32", "bf16", "fp16"}
    assert arms["graphs"].compiler_options["backend"] == "cudagraphs"
    assert arms["graphs-and-kernels"].compiler_options["compile_mode"] == "reduce-overhead"
    assert arms["all-gpus"].processes == 4
    # The same steps on one GPU and on all.
    assert len({arms[each].global_batch_size for each in ("baseline", "all-gpus")}) == 1
    assert [each.sentence for each in findings(workload)] == []
    types = [
        each.arguments["ResourceConfig"]["InstanceType"]
        for each in doctor_definition(definition("gpu-proof")).steps
    ]
    assert types == [{"Get": "Parameters.TrainingInstanceType"}, "ml.g5.12xlarge"]
