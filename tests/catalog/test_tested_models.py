"""AWS's tables of tested models: what fits, and how near a test is to what was asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.catalog import tested_models as table
from compilegate.catalog.instances import instances


def test_all_316_rows_are_there_and_each_is_an_image_of_the_catalog() -> None:
    rows = table.tested_models()
    assert len(rows) == 316
    assert {row.instance_type for row in rows} <= set(instances())
    assert {row.stack for row in rows} == {
        "pytorch 1.13.1",
        "pytorch 1.12.0",
        "pytorch 1.11.0, Transformers 4.21.1",
        "pytorch 1.10.2, Transformers 4.17.0",
        "pytorch 1.9.0, Transformers 4.11.0",
        "tensorflow 2.11.0",
        "tensorflow 2.10.0",
        "tensorflow 2.9.1",
        "tensorflow 2.6.3, Transformers 4.17.0",
        "tensorflow 2.5.1, Transformers 4.11.0",
    }
    assert sum(row.batch_native is None for row in rows) == 4
    assert sum(row.batch_compiler < (row.batch_native or 0) for row in rows) == 57
    assert sum(row.batch_of == "instance" for row in rows) == 4


def test_an_exact_test_is_found_with_its_source() -> None:
    found = table.default_batch_size(
        "bert-base-uncased", instance_type="ml.g5.4xlarge", precision="fp16", sequence_length=128
    )
    assert isinstance(found, table.TestedBatch)
    assert (found.batch_size, found.differences) == (288, ())
    assert found.sentence == (
        "the largest batch that fitted in AWS's test of bert-base-uncased on ml.g5.4xlarge, "
        "float16, 128 tokens, "
        "pytorch 1.13.1, with Training Compiler (SageMaker Developer Guide, "
        "training-compiler-support, tested models, 2026-11)"
    )


def test_without_the_compiler_the_batch_is_the_native_one() -> None:
    found = table.default_batch_size(
        "bert-base-uncased",
        instance_type="ml.g5.4xlarge",
        precision="fp16",
        sequence_length=128,
        compiled=False,
    )
    assert isinstance(found, table.TestedBatch)
    assert found.batch_size == 160
    assert "pytorch 1.13.1, without a compiler (" in found.sentence


def test_the_test_of_the_version_that_is_asked_for_wins_else_the_newest() -> None:
    versions = [
        found.row.version
        for asked in ("1.11.0", "1.13.1", "2.9.0", None)
        if isinstance(
            found := table.default_batch_size(
                "gpt2",
                instance_type="ml.g5.4xlarge",
                precision="fp16",
                sequence_length=512,
                framework="pytorch",
                version=asked,
            ),
            table.TestedBatch,
        )
    ]
    assert versions == ["1.11.0", "1.13.1", "1.13.1", "1.13.1"]


def test_longer_sequences_and_the_same_gpu_elsewhere_count_and_are_said() -> None:
    found = table.default_batch_size(
        "bert-base-uncased", instance_type="ml.g5.xlarge", precision="bf16", sequence_length=96
    )
    assert isinstance(found, table.TestedBatch)
    assert found.differences == (
        "on another instance than ml.g5.xlarge, with the same accelerator",
        "in float16, which takes as much memory as bf16",
        "with 128 tokens instead of 96",
    )


def test_shorter_sequences_prove_nothing() -> None:
    found = table.default_batch_size(
        "distilgpt2", instance_type="ml.g5.4xlarge", precision="fp16", sequence_length=1024
    )
    assert isinstance(found, table.UntestedBatch)
    assert found.reason.endswith("but not on ml.g5.4xlarge, fp16, 1024 tokens")


def test_a_batch_of_a_whole_instance_is_not_taken_for_one_of_a_gpu() -> None:
    found = table.default_batch_size("ResNet101", instance_type="ml.p3.16xlarge", precision="fp16")
    assert isinstance(found, table.TestedBatch)
    assert (found.row.instance_type, found.batch_size) == ("ml.p3.2xlarge", 128)


def test_an_untested_model_has_a_reason_and_no_number() -> None:
    assert table.default_batch_size(
        "my/model", instance_type="ml.g5.xlarge", precision="fp16"
    ) == table.UntestedBatch(reason="AWS tested no batch size for my/model")


@pytest.mark.parametrize(
    ("asked", "same"),
    [("facebook/bart-base", True), ("BART-base", True), ("other/bart-base", False)],
)
def test_a_model_is_known_by_its_name_with_or_without_its_owner(asked: str, same: bool) -> None:
    found = table.default_batch_size(
        asked, instance_type="ml.g5.4xlarge", precision="fp16", framework="pytorch"
    )
    assert isinstance(found, table.TestedBatch) == same


GPU_BATCHES = [
    (row, compiled)
    for row in table.tested_models()
    for compiled in (True, False)
    if row.batch_of == "GPU" and (compiled or row.batch_native is not None)
]


@given(st.sampled_from(GPU_BATCHES))
def test_what_was_tested_is_found_on_the_instance_and_length_of_the_test(
    tested: tuple[table.TestedModel, bool],
) -> None:
    row, compiled = tested
    found = table.default_batch_size(
        row.model,
        instance_type=row.instance_type,
        precision="fp16" if row.half_precision else "fp32",
        sequence_length=row.sequence_length,
        compiled=compiled,
        framework=row.framework,
    )
    assert isinstance(found, table.TestedBatch)
    assert found.row.instance_type == row.instance_type
    assert found.row.sequence_length == row.sequence_length
