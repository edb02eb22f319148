"""The shipped workload that proves on GPUs what no GPU was here for."""

from __future__ import annotations

import json
import os
from pathlib import Path

from compilegate.doctor import doctor_definition
from compilegate.document.reading import read_definition
from compilegate.pipelines.compilation import compile_definition
from compilegate.pipelines.deployment import Sources, local_deployment
from compilegate.workload import read_workload
from compilegate.workload.feasibility import findings

PROJECT = Path(__file__).parents[2]
DECLARED = PROJECT / "workloads" / "gpu-proof.toml"
GOLDEN = PROJECT / "tests" / "pipelines" / "golden" / "gpu-proof.json"
DEPLOYMENT = local_deployment({"training": "1111", "gate": "2222"})
SOURCES = Sources(
    training_archive=DEPLOYMENT.uri("source", "aaaa.tgz"),
    training_code=DEPLOYMENT.uri("source", "aaaa.zip"),
    gate_code=DEPLOYMENT.uri("source", "bbbb.zip"),
    experiment=DEPLOYMENT.uri("source", "dddd.json"),
    data=DEPLOYMENT.uri("data", "gpu-proof", "cccc"),
)


def test_the_definition_is_the_golden_one() -> None:
    compiled = compile_definition(read_workload(DECLARED), DEPLOYMENT, SOURCES)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(compiled, encoding="utf-8")
    assert compiled == GOLDEN.read_text(encoding="utf-8")


def test_it_covers_what_only_a_gpu_can_prove() -> None:
    arms = read_workload(DECLARED).arms
    assert {each.precision for each in arms.values()} == {"fp32", "bf16", "fp16"}
    told = {
        (name, option): value
        for name, arm in arms.items()
        for option, value in arm.compiler_options.items()
    }
    assert told["graphs", "backend"] == "cudagraphs"
    assert told["graphs-and-kernels", "compile_mode"] == "reduce-overhead"
    assert arms["all-gpus"].processes == 4
    together = {arm.global_batch_size for arm in arms.values()}
    assert together == {arms["baseline"].global_batch_size}  # the same steps on one GPU and on all


def test_nothing_is_found_against_it_on_its_instances() -> None:
    assert [each.sentence for each in findings(read_workload(DECLARED))] == []


def test_its_doctor_examines_both_instances() -> None:
    whole = read_definition(GOLDEN.read_bytes())[0]
    types = [
        json.dumps(each.arguments["ResourceConfig"]["InstanceType"])
        for each in doctor_definition(whole).steps
    ]
    assert types == ['{"Get": "Parameters.TrainingInstanceType"}', '"ml.g5.12xlarge"']
