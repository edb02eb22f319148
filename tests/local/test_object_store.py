"""s3:// URIs are files of the home; nothing reaches outside it and nothing is half written."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.job.files import write_json
from compilegate.local import ObjectStore
from compilegate.local.errors import ObjectStoreError, StepRequestError
from compilegate.local.jobs.sandbox import Sandbox


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return ObjectStore(tmp_path / "s3")


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


@pytest.mark.slow
@given(st.text(min_size=1, max_size=30))
def test_no_uri_leads_outside_the_store(key: str) -> None:
    store = ObjectStore(Path("/home/s3"))
    try:
        path = store.path(f"s3://bucket/{key}")
    except ObjectStoreError:
        return
    assert os.path.normpath(path) == str(path)
    assert path.is_relative_to("/home/s3/bucket")


@pytest.mark.parametrize(
    "uri", ["bucket/key", "http://b/k", "s3://", "s3:///k", "s3://b//k", "s3://b/../k", "s3://b/."]
)
def test_a_malformed_uri_is_refused(store: ObjectStore, uri: str) -> None:
    with pytest.raises(ObjectStoreError, match="is not of the form s3://bucket/key"):
        store.path(uri)


def test_a_prefix_is_a_folder_or_one_object(store: ObjectStore, tmp_path: Path) -> None:
    write(store.path("s3://b/data/x/one"), "1")
    write(store.path("s3://b/data/two"), "2")
    folder = tmp_path / "folder"
    store.download("s3://b/data/", folder)
    assert (folder / "x" / "one").read_text() == "1"
    assert (folder / "two").read_text() == "2"
    store.download("s3://b/data/two", tmp_path / "single")
    assert (tmp_path / "single" / "two").read_text() == "2"


def test_an_absent_object_says_where_its_file_belongs(store: ObjectStore, tmp_path: Path) -> None:
    assert not store.exists("s3://b/none")
    for action in (
        lambda: store.read("s3://b/none"),
        lambda: store.download("s3://b/none", tmp_path / "x"),
    ):
        with pytest.raises(ObjectStoreError, match=f"put its files at {store.root}/b/none"):
            action()


def test_what_people_put_into_the_store_is_copied_for_a_job(
    store: ObjectStore, tmp_path: Path
) -> None:
    original = write(store.path("s3://b/big"), "x" * 2_000_000)
    (copy,) = store.download("s3://b/big", tmp_path / "job")
    copy.write_text("changed")
    assert original.read_text() == "x" * 2_000_000


def test_a_large_result_is_linked_not_copied_and_read_only(
    store: ObjectStore, tmp_path: Path
) -> None:
    result = write(tmp_path / "result", "x" * 2_000_000)
    store.upload(result, "s3://b/result")
    (used,) = store.download("s3://b/result", tmp_path / "job")
    stored = store.path("s3://b/result")
    assert result.stat().st_ino == stored.stat().st_ino == used.stat().st_ino
    assert stored.stat().st_mode & 0o222 == 0


def test_a_small_input_is_the_jobs_own(store: ObjectStore, tmp_path: Path) -> None:
    store.upload(write(tmp_path / "result", "small"), "s3://b/result")
    (used,) = store.download("s3://b/result", tmp_path / "job")
    used.write_text("changed")
    assert store.read("s3://b/result") == b"small"


def test_a_write_that_fails_leaves_the_old_content_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_json(path, {"a": 1})
    for unwritable in (object(), float("nan")):
        with pytest.raises((TypeError, ValueError)):
            write_json(path, {"a": unwritable})
    assert json.loads(path.read_bytes()) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("/opt/ml/model", "ROOT/opt/ml/model"),
        ("--out=/opt/ml/x", "--out=ROOT/opt/ml/x"),
        ("/opt/ml/a:/opt/ml/b", "ROOT/opt/ml/a:ROOT/opt/ml/b"),
        ('{"dir": "/opt/ml/x"}', '{"dir": "ROOT/opt/ml/x"}'),
        ("/data,/data/in", "ROOT/data,ROOT/data/in"),
        ("/opt/mlflow", "/opt/mlflow"),
        ("/opt/ml-data", "/opt/ml-data"),
        ("/database", "/database"),
        ("s3://bucket/opt/ml", "s3://bucket/opt/ml"),
        ("/mnt/opt/ml", "/mnt/opt/ml"),
        ("opt/ml", "opt/ml"),
        ("", ""),
    ],
)
def test_only_container_paths_are_rewritten(text: str, rewritten: str) -> None:
    sandbox = Sandbox(Path("/job"), ["/data"])
    assert sandbox.rewrite(text) == rewritten.replace("ROOT", str(sandbox.alias.name))
    assert Sandbox(Path("/job"), ["/data"], own_root=True).rewrite(text) == text


@pytest.mark.parametrize("path", ["relative", "/opt/ml/../../etc", "/"])
def test_a_container_path_must_be_absolute_and_plain(path: str) -> None:
    with pytest.raises(StepRequestError, match="must be absolute and without"):
        Sandbox(Path("/job")).path(path)


def test_a_large_object_that_is_stored_again_unchanged_leaves_nothing_behind(
    store: ObjectStore, tmp_path: Path
) -> None:
    store.upload(write(tmp_path / "made" / "big", "x" * 2_000_000), "s3://b/big")
    store.download("s3://b/big", tmp_path / "job")
    store.upload(tmp_path / "job" / "big", "s3://b/big")
    assert [path.name for path in store.path("s3://b").iterdir()] == ["big"]
    assert store.read("s3://b/big") == b"x" * 2_000_000


def test_what_killed_writers_left_is_removed_and_what_is_written_now_is_not(
    tmp_path: Path,
) -> None:
    store = ObjectStore(tmp_path)
    folder = tmp_path / "bucket" / "folder"
    folder.mkdir(parents=True)
    left, whole = folder / ".model.0123456789ab.part", folder / "model.part"
    left.touch()
    whole.touch()
    store.drop_abandoned(left.lstat().st_ctime)
    assert left.exists()
    store.drop_abandoned(left.lstat().st_ctime + 1.0)
    assert not left.exists()
    assert whole.exists()
