"""AWS's tables of tested models: what fits, and which test is the nearest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.catalog import tested_models as table
from compilegate.catalog.compilers import compilers
from compilegate.catalog.instances import instances


def test_all_316_rows_are_there_and_each_is_an_image_of_the_catalog() -> None:
    rows = table.tested_models()
    assert len(rows) == 316
    assert {row.instance_type for row in rows} <= set(instances())
    stacks = compilers()["training-compiler"].stacks
    assert {row.stack for row in rows} == {each.label.replace(" with", ",") for each in stacks}
    assert sum(row.batch_native is None for row in rows) == 4
    assert sum(row.batch_compiler < (row.batch_native or 0) for row in rows) == 57
    assert sum(row.batch_of == "instance" for row in rows) == 4


BERT = {"model": "bert-base-uncased", "instance_type": "ml.g5.4xlarge", "precision": "fp16"}
GPT2 = {**BERT, "model": "gpt2", "sequence_length": 512, "framework": "pytorch"}


@pytest.mark.parametrize(
    ("arguments", "batch_size", "version"),
    [
        ({**BERT, "sequence_length": 128}, 288, "1.13.1"),
        ({**BERT, "sequence_length": 128, "compiled": False}, 160, "1.13.1"),
        # The version that is named wins, else the newest.
        ({**GPT2, "version": "1.11.0"}, None, "1.11.0"),
        ({**GPT2, "version": "2.9.0"}, None, "1.13.1"),
        ({**GPT2}, None, "1.13.1"),
        # On another instance with that GPU, in float16, with longer sequences.
        (
            {**BERT, "instance_type": "ml.g5.xlarge", "precision": "bf16", "sequence_length": 96},
            288,
            "1.13.1",
        ),
        # A model is known with or without its owner.
        ({**BERT, "model": "facebook/bart-base", "framework": "pytorch"}, None, "1.13.1"),
        ({**BERT, "model": "BART-base", "framework": "pytorch"}, None, "1.13.1"),
        # A batch of a whole instance is not taken for one of a GPU.
        ({**BERT, "model": "ResNet101", "instance_type": "ml.p3.16xlarge"}, 128, None),
    ],
    ids=str,
)
def test_the_nearest_test_is_found(
    arguments: dict[str, Any], batch_size: int | None, version: str | None
) -> None:
    found = table.default_batch_size(**arguments)
    assert isinstance(found, tuple)
    batch, row = found
    assert batch_size in (None, batch)
    assert version in (None, row.version)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"model": "my/model"}, "AWS tested no batch size for my/model"),
        ({"model": "other/bart-base"}, "but not on ml.g5.4xlarge, fp16"),
        # Shorter sequences prove nothing, and neither does another framework.
        ({"model": "distilgpt2", "sequence_length": 1024}, "on ml.g5.4xlarge, fp16, 1024 tokens"),
        (
            {"model": "t5-base", "instance_type": "ml.p3.2xlarge", "framework": "pytorch"},
            "on ml.p3.2xlarge, fp16, pytorch",
        ),
    ],
    ids=str,
)
def test_where_there_is_no_test_there_is_a_reason_and_no_number(
    arguments: dict[str, Any], reason: str
) -> None:
    found = table.default_batch_size(**{**BERT, **arguments})
    assert isinstance(found, str)
    assert found.endswith(reason)


@given(st.sampled_from([row for row in table.tested_models() if row.batch_of == "GPU"]))
def test_what_was_tested_is_found_on_the_instance_and_length_of_the_test(
    row: table.TestedModel,
) -> None:
    found = table.default_batch_size(
        row.model,
        instance_type=row.instance_type,
        precision="fp16" if row.half_precision else "fp32",
        sequence_length=row.sequence_length,
        framework=row.framework,
    )
    assert isinstance(found, tuple)
    assert found[1].instance_type == row.instance_type
    assert found[1].sequence_length == row.sequence_length
