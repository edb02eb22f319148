"""Stand-ins for tokens can be told from everything else, and replaced one by one."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from compilegate.pipelines.compilation import compile_definition
from compilegate.pipelines.deployment import Deployment, Sources
from compilegate.pipelines.standin import stand_ins, standin_deployment, standin_sources
from compilegate.workload import read_workload
from compilegate.workload.file import Posture

WORKLOAD = Path(__file__).parent / "topics.toml"
IMAGES = ("training", "training-compiler", "gate")


def sources(deployment: Deployment) -> Sources:
    return Sources(
        training_archive=deployment.uri("source", "aaaa.tgz"),
        training_code=deployment.uri("source", "aaaa.zip"),
        gate_code=deployment.uri("source", "bbbb.zip"),
        experiment=deployment.uri("source", "dddd.json"),
        data=deployment.uri("data", "topics", "cccc"),
    )


def test_no_stand_in_is_part_of_another() -> None:
    values = list(stand_ins(IMAGES).values())
    assert not [(a, b) for a in values for b in values if a != b and a in b]


@pytest.mark.parametrize("posture", [None, Posture()])
def test_with_its_stand_ins_replaced_a_definition_is_that_of_the_account(
    posture: Posture | None,
) -> None:
    """Whatever stood in somewhere else too would differ here."""
    stand_in = standin_deployment(images=IMAGES, name_prefix="ours-")
    real = Deployment(
        region="eu-west-3",
        bucket="ours",
        training_role_arn="arn:aws:iam::123456789012:role/training",
        processing_role_arn="arn:aws:iam::123456789012:role/processing",
        images={folder: f"registry/{folder}:1" for folder in IMAGES},
        kms_key="arn:aws:kms:eu-west-3:123456789012:key/1",
        posture_function="arn:aws:lambda:eu-west-3:123456789012:function:posture",
        name_prefix="ours-",
    )
    values = {
        "region": real.region,
        "bucket": real.bucket,
        "assets_bucket": "assets",
        "kms_key": str(real.kms_key),
        "training_role_arn": real.training_role_arn,
        "processing_role_arn": real.processing_role_arn,
        "posture_function": str(real.posture_function),
        **{f"images.{folder}": uri for folder, uri in real.images.items()},
    }
    workload = dataclasses.replace(read_workload(WORKLOAD), posture=posture)
    text = compile_definition(workload, stand_in, standin_sources(sources(stand_in)))
    for name, value in stand_ins(IMAGES).items():
        text = text.replace(value, values[name])
    in_assets = Sources(
        **{
            **{
                name: re.sub(r"^.*/", "s3://assets/", uri)
                for name, uri in vars(sources(real)).items()
                if uri is not None
            },
            "data": sources(real).data,
        }
    )
    assert json.loads(text) == json.loads(compile_definition(workload, real, in_assets))
    assert "standin" not in text
