"""What a job reads: the beginnings of keys, manifests, pipes."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from compilegate.execution.status import ExecutionStatus, StepStatus
from compilegate.local import ObjectStore

pytestmark = pytest.mark.slow

READ_TWO_EPOCHS = """
    import os
    for epoch in range(2):
        with open(os.path.join(os.environ["SM_INPUT_DIR"], "data", f"data_{epoch}"), "rb") as pipe:
            print(pipe.read())
"""


def channel_of(step: dict[str, Any]) -> dict[str, Any]:
    channel: dict[str, Any] = step["Arguments"]["InputDataConfig"][0]
    return channel


def test_the_uri_of_an_input_is_the_beginning_of_a_key(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path)
    for key in (
        "d/train.csv",
        "d/train/a",
        "d/train/b/c",
        "d/train2/x",
        "d/other",
        "d/.train.part",
    ):
        path = store.path(f"s3://bucket/{key}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(key)

    def names(uri: str) -> list[str]:
        return [name for _, name in store.objects(uri)]

    assert names("s3://bucket/d/train/") == ["a", "b/c"]
    assert names("s3://bucket/d/train") == ["a", "b/c", "train.csv", "train2/x"]
    assert names("s3://bucket/d/tra") == ["train.csv", "train/a", "train/b/c", "train2/x"]
    assert names("s3://bucket/d/train.csv") == ["train.csv"]
    assert store.has_objects("s3://bucket/d/oth")
    assert not store.has_objects("s3://bucket/d/oth/")
    assert not store.has_objects("s3://buck")


def test_what_a_step_before_makes_may_begin_with_an_inputs_uri(bench: Any) -> None:
    first = bench.processing("first", "open('/opt/ml/processing/out/x', 'w')", outputs=["out"])
    second = bench.processing(
        "second",
        "import os; print(os.listdir('/opt/ml/processing/in'))",
        inputs={"in": "s3://bucket/first/o"},
        DependsOn=["first"],
    )
    result = bench.run(first, second)
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    assert result.steps["second"].log.read_text() == "['out']\n"


def test_a_manifest_names_its_objects(bench: Any) -> None:
    bench.put("s3://bucket/data/a/1", "1")
    bench.put("s3://bucket/data/2", "2")
    bench.put("s3://bucket/data/3", "3")
    entries = [{"prefix": "s3://bucket/data/"}, "a/1", "3"]
    step = bench.training(
        "train",
        "import os; print(sorted(os.listdir(os.environ['SM_CHANNEL_DATA'])))",
        channels={"data": bench.put("s3://bucket/manifest", json.dumps(entries))},
    )
    channel_of(step)["DataSource"]["S3DataSource"]["S3DataType"] = "ManifestFile"
    result = bench.run(step)
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    assert result.steps["train"].log.read_text() == "['3', 'a']\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("no JSON", "is no JSON"),
        ("[1]", "is not a list of"),
        ('[{"prefix": "s3://bucket/"}]', "names no objects"),
        ('[{"prefix": "s3://bucket/"}, "gone"]', "s3://bucket/gone, which the manifest"),
    ],
)
def test_a_manifest_that_leads_nowhere_fails_its_job(bench: Any, content: str, reason: str) -> None:
    step = bench.training("train", channels={"data": bench.put("s3://bucket/manifest", content)})
    channel_of(step)["DataSource"]["S3DataSource"]["S3DataType"] = "ManifestFile"
    result = bench.run(step)
    assert result.steps["train"].status is StepStatus.FAILED
    assert reason in result.steps["train"].failure.sentence


@pytest.mark.parametrize("whole_job", [False, True], ids=["channel", "job"])
def test_a_pipe_gives_all_objects_once_an_epoch(bench: Any, whole_job: bool) -> None:
    bench.put("s3://bucket/data/a", "first,")
    bench.put("s3://bucket/data/b", "second")
    step = bench.training("train", READ_TWO_EPOCHS, channels={"data": "s3://bucket/data/"})
    if whole_job:
        step["Arguments"]["AlgorithmSpecification"]["TrainingInputMode"] = "Pipe"
    else:
        channel_of(step)["InputMode"] = "Pipe"
    result = bench.run(step)
    assert result.status is ExecutionStatus.SUCCEEDED, result.steps["train"].failure
    assert result.steps["train"].log.read_text() == "b'first,second'\n" * 2
    folder = result.steps["train"].log.parent / "opt/ml/input/data"
    assert not list(folder.glob("data_*"))


def test_a_pipe_wraps_records_and_unpacks_what_is_compressed(bench: Any) -> None:
    bench.put("s3://bucket/data/a", gzip.compress(b"12345"))
    step = bench.training("train", READ_TWO_EPOCHS, channels={"data": "s3://bucket/data/"})
    wrapped = {"InputMode": "Pipe", "RecordWrapperType": "RecordIO", "CompressionType": "Gzip"}
    channel_of(step).update(wrapped)
    result = bench.run(step)
    record = b"\x0a\x23\xd7\xce" + b"\x05\0\0\0" + b"12345\0\0\0"
    assert result.steps["train"].log.read_text() == f"{record!r}\n" * 2


def augmented(bench: Any, lines: str, **channel: Any) -> dict[str, Any]:
    uri = bench.put("s3://bucket/records.manifest", lines)
    step: dict[str, Any] = bench.training("train", READ_TWO_EPOCHS, channels={"data": uri})
    channel_of(step).update(InputMode="Pipe", **channel)
    channel_of(step)["DataSource"]["S3DataSource"].update(
        S3DataType="AugmentedManifestFile", AttributeNames=["image-ref", "class"]
    )
    return step


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_augmented_manifest_gives_the_attributes_of_each_line_in_turn(
    bench: Any, wrapped: bool
) -> None:
    bench.put("s3://bucket/cat.png", "CAT")
    bench.put("s3://bucket/dog.png", "DOG")
    lines = [
        {"image-ref": "s3://bucket/cat.png", "class": "1", "unused": [3]},
        {"class": {"id": 0}, "image-ref": "s3://bucket/dog.png"},
    ]
    text = "\n".join(json.dumps(line) for line in lines)
    wrapper = {"RecordWrapperType": "RecordIO"} if wrapped else {}
    result = bench.run(augmented(bench, text, **wrapper))
    assert result.status is ExecutionStatus.SUCCEEDED, result.steps["train"].failure
    contents = [b"CAT", b"1", b"DOG", b'{"id": 0}']
    if wrapped:
        contents = [
            struct.pack("<II", 0xCED7230A, len(each)) + each + b"\0" * (-len(each) % 4)
            for each in contents
        ]
    assert result.steps["train"].log.read_text() == f"{b''.join(contents)!r}\n" * 2


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("{", "line 1 of s3://bucket/records.manifest is no JSON"),
        ("\n[1]", "line 2 of s3://bucket/records.manifest is [1], expected an object"),
        ('{"class": 1}', "has no 'image-ref' (AttributeNames), but class"),
        ('{"image-ref": 3, "class": 1}', "image-ref is 3, expected the URI of an object"),
        ('{"image-ref": "s3://bucket/gone", "class": 1}', "s3://bucket/gone, which line 1 of"),
        (" ", "has no lines"),
    ],
)
def test_a_line_that_is_no_record_fails_its_job(bench: Any, lines: str, reason: str) -> None:
    result = bench.run(augmented(bench, lines))
    assert result.steps["train"].status is StepStatus.FAILED
    assert reason in result.steps["train"].failure.sentence


def test_a_job_that_never_reads_its_pipe_ends_all_the_same(bench: Any) -> None:
    step = bench.training("train", channels={"data": bench.put("s3://bucket/data/a", "a")})
    channel_of(step)["InputMode"] = "Pipe"
    assert bench.run(step).status is ExecutionStatus.SUCCEEDED
