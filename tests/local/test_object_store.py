"""s3:// URIs are files of the home, for the runner and, by boto3, for the programs of jobs."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from compilegate.local import ExecutionError, ObjectStore, place_data
from compilegate.local.aws.server import aws_endpoint
from compilegate.local.errors import ObjectStoreError
from compilegate.local.jobs.environment import JobVariables
from tests.local.conftest import Workbench, failure_of, log_of

pytestmark = pytest.mark.slow

Served = tuple[ObjectStore, dict[str, str]]
"""A store, and the variables that lead a job to it."""


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return ObjectStore(tmp_path / "s3")


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


@given(st.text(min_size=1, max_size=30))
def test_no_uri_leads_outside_the_store(key: str) -> None:
    store = ObjectStore(Path("/home/s3"))
    try:
        path = store.path(f"s3://bucket/{key}")
    except ObjectStoreError:
        return
    assert os.path.normpath(path) == str(path)
    assert path.is_relative_to("/home/s3/bucket")


def test_the_uri_of_an_input_is_the_beginning_of_a_key(store: ObjectStore, tmp_path: Path) -> None:
    for key in ("train.csv", "train/a", "train/b/c", "train2/x", "other", ".train.part"):
        write(store.path(f"s3://bucket/d/{key}"), key)

    def names(uri: str) -> list[str]:
        return [name for _, name in store.objects(uri)]

    assert names("s3://bucket/d/train/") == ["a", "b/c"]
    assert names("s3://bucket/d/train") == ["a", "b/c", "train.csv", "train2/x"]
    assert names("s3://bucket/d/tra") == ["train.csv", "train/a", "train/b/c", "train2/x"]
    assert names("s3://bucket/d/train.csv") == ["train.csv"]
    assert store.has_objects("s3://bucket/d/oth")
    assert not store.has_objects("s3://bucket/d/oth/")
    assert not store.has_objects("s3://buck")
    with pytest.raises(ObjectStoreError, match=f"put its files at {store.root}/bucket/none"):
        store.download("s3://bucket/none", tmp_path / "folder")
    store.download("s3://bucket/d/train/", tmp_path / "folder")
    assert (tmp_path / "folder" / "b" / "c").read_text() == "train/b/c"


def test_what_a_job_changes_changes_no_object(store: ObjectStore, tmp_path: Path) -> None:
    """Small files and those that people put are copied; a large result is linked, read-only."""
    write(store.path("s3://b/big"), "x" * 2_000_000)
    store.upload(write(tmp_path / "small", "small"), "s3://b/small")
    for name in ("big", "small"):
        before = store.read(f"s3://b/{name}")
        (copy,) = store.download(f"s3://b/{name}", tmp_path / "job")
        copy.write_text("changed")
        assert store.read(f"s3://b/{name}") == before
    result = write(tmp_path / "result", "x" * 2_000_000)
    store.upload(result, "s3://c/result")
    (used,) = store.download("s3://c/result", tmp_path / "job")
    stored = store.path("s3://c/result")
    assert result.stat().st_ino == stored.stat().st_ino == used.stat().st_ino
    assert stored.stat().st_mode & 0o222 == 0
    store.upload(used, "s3://c/result")
    assert [path.name for path in store.path("s3://c").iterdir()] == ["result"]


READ = "print(open('/opt/ml/processing/x/boto3.txt').read())"


def test_a_folder_that_stands_for_a_prefix_is_only_read(bench: Workbench, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    write(folder / "boto3.txt", "by hand")
    write(folder / "sub" / "b", "b")
    assert place_data(bench.store, "s3://data/in", folder) == 2
    result = bench.succeed(bench.processing("read", READ, inputs={"x": "s3://data/in/"}))
    assert log_of(result, "read") == "by hand\n"
    (folder / "sub" / "b").unlink()
    place_data(bench.store, "s3://data/in", folder)
    assert not bench.store.exists("s3://data/in/sub/b")
    assert bench.store.exists("s3://data/in/boto3.txt")
    bench.store.upload(write(tmp_path / "new", "new"), "s3://data/in/boto3.txt")
    assert (folder / "boto3.txt").read_text() == "by hand"
    with pytest.raises(ExecutionError, match="was stored by a job"):
        place_data(bench.store, "s3://data/in", folder)


PUT = """
import boto3, os, sys
s3 = boto3.client("s3")
assert s3.list_objects_v2(Bucket="made")["KeyCount"] == 0
s3.put_object(Bucket=sys.argv[2], Key="by/boto3.txt", Body=b"from a job")
try:
    s3.put_object(Bucket="nobody-" + "named-it", Key="x", Body=b"")
except s3.exceptions.NoSuchBucket as error:
    print("refused", error)
for name in sorted(os.environ):
    if name.startswith(("AWS_", "MINE")):
        print(name, os.environ[name])
"""


def test_a_job_reaches_the_store_by_boto3_and_no_account(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.setenv(name, "real-account")
    environment = {
        "AWS_SECRET_ACCESS_KEY": "real-account",
        "AWS_ROLE_ARN": "real-account",
        "AWS_DEFAULT_REGION": "ap-south-1",
        "MINE": "the definition's",
    }
    request = {"Environment": environment}
    result = bench.run(
        bench.processing("write", PUT, arguments=["--bucket", "made"], request=request),
        bench.processing("read", READ, inputs={"x": "s3://made/by"}, DependsOn=["write"]),
        # Declared as filled by a program, and filled by none.
        bench.processing("later", inputs={"x": "s3://b/made/not"}, DependsOn=["read"]),
        variables={"MINE": "passed on purpose"},
        later=["s3://b/made"],
    )
    assert log_of(result, "read") == "from a job\n"
    assert bench.store.read("s3://made/by/boto3.txt") == b"from a job"
    assert "has no objects" in failure_of(result, "later")
    shown = dict(line.split(" ", 1) for line in log_of(result, "write").splitlines())
    assert "the bucket nobody-named-it is missing" in shown["refused"]
    assert "real-account" not in shown.values()
    assert shown["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")
    assert shown["AWS_EC2_METADATA_DISABLED"] == "true"
    assert shown["AWS_DEFAULT_REGION"] == "ap-south-1"
    assert shown["MINE"] == "passed on purpose"


def test_what_is_passed_on_purpose_wins_over_everything() -> None:
    variables = JobVariables({"AWS_ENDPOINT_URL": "here"}, {"AWS_ENDPOINT_URL": "mine"})
    assert variables.merged({}, {"AWS_ENDPOINT_URL": "theirs"})["AWS_ENDPOINT_URL"] == "mine"
    assert variables.merged({"NO_PROXY": "a"}, {})["NO_PROXY"] == "a,127.0.0.1"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    store = ObjectStore(folder / "s3")
    with aws_endpoint(store, folder / "uploads", {"AWS_REGION": "eu-west-1"}) as variables:
        yield store, dict(variables)
    assert not (folder / "uploads").exists()


def client(variables: dict[str, str], service: str = "s3", key: str = "", **config: Any) -> Any:
    return boto3.client(
        service,
        endpoint_url=variables["AWS_ENDPOINT_URL"],
        region_name=variables["AWS_REGION"],
        aws_access_key_id=key or variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
        config=Config(proxies={}, **config),
    )


@pytest.fixture(scope="module")
def s3(served: Served) -> Any:
    made = client(served[1])
    made.create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": "x"})
    return made


def test_objects_are_put_read_copied_and_deleted(s3: Any, served: Served, tmp_path: Path) -> None:
    store, key = served[0], "a b/ü+%.txt"
    s3.put_object(Bucket="bucket", Key=key, Body=b"hello", Metadata={"not": "kept"})
    assert store.read(f"s3://bucket/{key}") == b"hello"
    found = s3.get_object(Bucket="bucket", Key=key)
    assert found["Body"].read() == b"hello"
    assert s3.head_object(Bucket="bucket", Key=key)["ETag"] == found["ETag"]
    s3.delete_object(Bucket="bucket", Key=key)
    assert not store.exists(f"s3://bucket/{key}")

    content = os.urandom(17 << 20)
    (tmp_path / "large").write_bytes(content)
    s3.upload_file(str(tmp_path / "large"), "bucket", "one")
    assert store.read("s3://bucket/one") == content
    s3.download_file("bucket", "one", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == content
    s3.copy({"Bucket": "bucket", "Key": "one"}, "bucket", "two")
    assert store.read("s3://bucket/two") == content
    piece = s3.get_object(Bucket="bucket", Key="one", Range="bytes=-5")
    assert piece["Body"].read() == content[-5:]
    with pytest.raises(ClientError, match="InvalidRange"):
        s3.get_object(Bucket="bucket", Key="one", Range=f"bytes={len(content)}-")


def test_listings_are_paged_and_grouped(s3: Any) -> None:
    s3.create_bucket(Bucket="listed", CreateBucketConfiguration={"LocationConstraint": "x"})
    keys = sorted([f"many/{number:02d}" for number in range(5)] + ["many/in/x", "top"])
    for key in keys:
        s3.put_object(Bucket="listed", Key=key, Body=b"x")
    for name in ("list_objects_v2", "list_objects"):
        pages = s3.get_paginator(name).paginate(Bucket="listed", PaginationConfig={"PageSize": 4})
        assert [item["Key"] for page in pages for item in page["Contents"]] == keys
    for most in range(1, 8):
        parts = s3.get_paginator("list_objects_v2").paginate(
            Bucket="listed", Prefix="many/", Delimiter="/", PaginationConfig={"PageSize": most}
        )
        found = [(it.get("Contents", []), it.get("CommonPrefixes", [])) for it in parts]
        assert [item["Key"] for these, _ in found for item in these] == keys[:5]
        assert [item["Prefix"] for _, these in found for item in these] == ["many/in/"]
    s3.delete_objects(Bucket="listed", Delete={"Objects": [{"Key": key} for key in keys]})
    assert s3.list_objects_v2(Bucket="listed")["KeyCount"] == 0
    assert [each["Name"] for each in s3.list_buckets()["Buckets"]] == ["bucket", "listed"]


@pytest.mark.parametrize(
    ("operation", "arguments", "sentence"),
    [
        ("get_object", {"Key": "no"}, "s3://errors/no is not in the local store; put it at"),
        ("put_object", {"Key": "a", "Body": b""}, "cannot be stored"),
        ("put_object", {"Key": "a/../../out", "Body": b""}, "not of the form s3://bucket/key"),
        ("put_object", {"Key": "a//b", "Body": b""}, "not of the form s3://bucket/key"),
        ("put_object", {"Key": ".x.part", "Body": b""}, "a key may not end in .x.part here"),
        ("put_object", {"Key": "k" * 300, "Body": b""}, "name too long"),
        ("get_object_acl", {"Key": "a/b"}, "is not supported here"),
        ("upload_part", {"Key": "a/c", "UploadId": "../..", "PartNumber": 1}, "NoSuchUpload"),
    ],
)
def test_what_the_store_cannot_do_is_an_error_with_a_sentence(
    s3: Any, served: Served, operation: str, arguments: Any, sentence: str
) -> None:
    write(served[0].path("s3://errors/a/b"), "")
    with pytest.raises(ClientError, match="(?i)" + sentence.replace(".", r"\.")):
        getattr(s3, operation)(Bucket="errors", **arguments)
    there = served[0].path("s3://errors")
    assert [path.name for path in there.rglob("*") if path.is_file()] == ["b"]


def test_other_services_keys_and_writers_are_refused(s3: Any, served: Served) -> None:
    _, variables = served
    assert client(variables, "sts").get_caller_identity()["Account"] == "000000000000"
    with pytest.raises(ClientError, match=r"iam GetRole.*not available on this machine.*--env"):
        client(variables, "iam").get_role(RoleName="x")
    with pytest.raises(ClientError, match=r"lambda GET.*not available on this machine.*--env"):
        client(variables, "lambda").list_functions()
    with pytest.raises(ClientError, match=r"InvalidAccessKeyId.*with --env"):
        client(variables, key="AKIAREAL").list_buckets()
    s3.put_object(Bucket="bucket", Key="k", Body=b"read me")
    nobody = client(variables, signature_version=UNSIGNED)
    assert nobody.get_object(Bucket="bucket", Key="k")["Body"].read() == b"read me"
    with pytest.raises(ClientError, match="AccessDenied"):
        nobody.put_object(Bucket="bucket", Key="k", Body=b"")
    signed = s3.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "k"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    assert opener.open(signed).read() == b"read me"
