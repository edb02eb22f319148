"""S3 as jobs find it: boto3 against the local store, over HTTP."""

from __future__ import annotations

import io
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

from compilegate.local import ObjectStore
from compilegate.local.aws.s3 import page_of
from compilegate.local.aws.server import aws_endpoint

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return ObjectStore(tmp_path / "s3")


@pytest.fixture
def variables(store: ObjectStore, tmp_path: Path) -> Iterator[dict[str, str]]:
    with aws_endpoint(store, tmp_path / "uploads", {"AWS_REGION": "eu-west-1"}) as variables:
        yield dict(variables)
    assert not (tmp_path / "uploads").exists()


def client(variables: dict[str, str], service: str = "s3", **options: Any) -> Any:
    config = options.pop("config", None)
    return boto3.client(
        service,
        endpoint_url=variables["AWS_ENDPOINT_URL"],
        region_name=variables["AWS_REGION"],
        aws_access_key_id=options.pop("key", variables["AWS_ACCESS_KEY_ID"]),
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
        config=Config(proxies={}).merge(config) if config else Config(proxies={}),
    )


@pytest.fixture
def s3(variables: dict[str, str]) -> Any:
    made = client(variables)
    made.create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": "x"})
    return made


@pytest.mark.slow
def test_an_object_goes_into_the_store_and_comes_back(s3: Any, store: ObjectStore) -> None:
    key = "a b/ü+%.txt"
    s3.put_object(Bucket="bucket", Key=key, Body=b"hello", Metadata={"not": "kept"})
    assert store.read(f"s3://bucket/{key}") == b"hello"
    found = s3.get_object(Bucket="bucket", Key=key)
    assert found["Body"].read() == b"hello"
    assert s3.head_object(Bucket="bucket", Key=key)["ETag"] == found["ETag"]
    s3.delete_object(Bucket="bucket", Key=key)
    assert not store.exists(f"s3://bucket/{key}")


@pytest.mark.slow
def test_a_large_file_goes_in_parts_and_comes_back_in_ranges(
    s3: Any, store: ObjectStore, tmp_path: Path
) -> None:
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


@pytest.mark.slow
def test_listings_are_paged_and_grouped(s3: Any, store: ObjectStore) -> None:
    keys = sorted([f"many/{number:02d}" for number in range(11)] + ["many/in/x", "top"])
    for key in keys:
        s3.put_object(Bucket="bucket", Key=key, Body=io.BytesIO(b"x"))
    for name in ("list_objects_v2", "list_objects"):
        pages = s3.get_paginator(name).paginate(Bucket="bucket", PaginationConfig={"PageSize": 4})
        assert [item["Key"] for page in pages for item in page["Contents"]] == keys
    grouped = s3.list_objects_v2(Bucket="bucket", Prefix="many/", Delimiter="/")
    assert [item["Prefix"] for item in grouped["CommonPrefixes"]] == ["many/in/"]
    assert grouped["KeyCount"] == 12
    objects = [{"Key": key} for key in keys]
    s3.delete_objects(Bucket="bucket", Delete={"Objects": objects})
    assert s3.list_objects_v2(Bucket="bucket")["KeyCount"] == 0
    assert [each["Name"] for each in s3.list_buckets()["Buckets"]] == ["bucket"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "arguments", "sentence"),
    [
        ("get_object", {"Key": "no"}, "s3://bucket/no is not in the local store; put it at"),
        ("put_object", {"Key": "a", "Body": b""}, "cannot be stored"),
        ("put_object", {"Key": "a/../../out", "Body": b""}, "not of the form s3://bucket/key"),
        ("put_object", {"Key": "a//b", "Body": b""}, "not of the form s3://bucket/key"),
        ("put_object", {"Key": ".x.part", "Body": b""}, "a key may not end in .x.part here"),
        ("put_object", {"Key": "k" * 300, "Body": b""}, "name too long"),
        ("get_object_acl", {"Key": "a/b"}, "is not answered here"),
        ("upload_part", {"Key": "a/c", "UploadId": "../..", "PartNumber": 1}, "NoSuchUpload"),
    ],
)
def test_what_the_store_cannot_do_is_an_error_with_a_sentence(
    s3: Any, store: ObjectStore, operation: str, arguments: Any, sentence: str
) -> None:
    s3.put_object(Bucket="bucket", Key="a/b", Body=b"")
    with pytest.raises(ClientError, match="(?i)" + sentence.replace(".", r"\.")):
        getattr(s3, operation)(Bucket="bucket", **arguments)
    assert [path.name for path in store.root.rglob("*") if path.is_file()] == ["b"]


@pytest.mark.slow
def test_other_services_and_other_keys_are_refused_in_a_sentence(
    variables: dict[str, str],
) -> None:
    assert client(variables, "sts").get_caller_identity()["Account"] == "000000000000"
    calls = {
        "sagemaker ListModelPackages": lambda: client(variables, "sagemaker").list_model_packages(),
        "iam GetRole": lambda: client(variables, "iam").get_role(RoleName="x"),
        "lambda GET": lambda: client(variables, "lambda").list_functions(),
    }
    for named, call in calls.items():
        with pytest.raises(ClientError, match=f"{named}.*not answered on this machine.*--env"):
            call()
    with pytest.raises(ClientError, match=r"InvalidAccessKeyId.*on purpose"):
        client(variables, key="AKIAREAL").list_buckets()


@pytest.mark.slow
def test_who_does_not_sign_may_read_and_not_write(variables: dict[str, str], s3: Any) -> None:
    s3.put_object(Bucket="bucket", Key="k", Body=b"read me")
    nobody = client(variables, config=Config(signature_version=UNSIGNED))
    assert nobody.get_object(Bucket="bucket", Key="k")["Body"].read() == b"read me"
    with pytest.raises(ClientError, match="AccessDenied"):
        nobody.put_object(Bucket="bucket", Key="k", Body=b"")
    signed = s3.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "k"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    assert opener.open(signed).read() == b"read me"


def test_an_endpoint_that_nobody_calls_writes_nothing(store: ObjectStore, tmp_path: Path) -> None:
    with aws_endpoint(store, tmp_path / "uploads", {}) as variables:
        assert variables["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")
        assert variables["AWS_DEFAULT_REGION"] == "us-east-1"
    assert list(tmp_path.iterdir()) == []


@given(
    st.sets(st.text(alphabet="ab/é", min_size=1, max_size=6), max_size=12),
    st.text(alphabet="ab/", max_size=2),
    st.sampled_from(["", "/"]),
    st.integers(1, 4),
)
def test_the_pages_of_a_listing_hold_everything_once(
    keys: set[str], prefix: str, delimiter: str, most: int
) -> None:
    ordered = sorted((key for key in keys if key.startswith(prefix)), key=os.fsencode)
    listed: list[str] = []
    prefixes: list[str] = []
    after: str | None = ""
    while after is not None:
        page = page_of(ordered, prefix=prefix, delimiter=delimiter, after=after, most=most)
        assert len(page.keys) + len(page.prefixes) <= most
        listed += page.keys
        prefixes += page.prefixes
        after = page.next
    rest = {key: key[len(prefix) :].partition("/") for key in ordered}
    grouped = {key for key in ordered if delimiter and rest[key][1]}
    assert listed == [key for key in ordered if key not in grouped]
    assert prefixes == list(
        dict.fromkeys(f"{prefix}{rest[key][0]}/" for key in ordered if key in grouped)
    )
