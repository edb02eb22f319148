"""What a job reads: the beginnings of keys, and manifests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compilegate.execution.status import ExecutionStatus, StepStatus
from compilegate.local import ObjectStore

pytestmark = pytest.mark.slow


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
        ("no JSON", "is not a JSON list of"),
        ("[1]", "is not a JSON list of"),
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
