"""A delivery: two files in a folder of their own, known by what they hold."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PARTS = ("train", "validation")
"""The two files of a delivery, whatever their extension."""
CHECKSUMS = ("SHA256", "SHA1", "CRC64NVME", "CRC32C", "CRC32")
"""What S3 may have computed of an object, the surest first."""


class DeliveryError(Exception):
    """A delivery that cannot be trained on. The message says what is wrong with it."""


@dataclass(frozen=True)
class Delivery:
    """A complete delivery."""

    uri: str
    """Its folder, ending in a slash: SageMaker matches keys by prefix, and `.../batch1` would match
    `.../batch10/train.csv`, too."""
    token: str
    """The same for the same files, whatever folder they are in; 64 characters."""
    arrived: str
    """When its last file was written."""


def delivery_of(s3: Any, bucket: str, key: str, prefix: str) -> Delivery | None:
    """The delivery that an object belongs to; None while it is incomplete, and for other objects.

    Raises DeliveryError if a file is there twice, or is not in a folder of its own.
    """
    folder, _, name = key.rpartition("/")
    if _part(name) is None:
        return None
    if not folder or len(folder) < len(prefix):
        raise DeliveryError(
            f"s3://{bucket}/{key} is not in a folder of its own, allowed: "
            f"s3://{bucket}/{prefix.rstrip('/')}/DELIVERY/{name}"
        )
    objects = _parts(s3, bucket, folder)
    for part in PARTS:
        if len(objects[part]) > 1:
            raise DeliveryError(
                f"s3://{bucket}/{folder}/ holds {len(objects[part])} files {part}.*, allowed: one"
            )
    if not all(objects.values()):
        return None
    both = [objects[part][0] for part in PARTS]
    content = "\0".join(_described(s3, bucket, item) for item in both)
    return Delivery(
        uri=f"s3://{bucket}/{folder}/",
        token=hashlib.sha256(content.encode()).hexdigest(),
        arrived=max(item["LastModified"] for item in both).isoformat(),
    )


def fingerprint(head: Mapping[str, Any]) -> str:
    """What tells an object's content from others: its length, and the checksum that S3 has of it.

    An ETag comes last: where an object is encrypted with a key of KMS it is no digest of the
    content, and the same file that is uploaded twice gets two.
    """
    found = next(
        (f"{name} {head[f'Checksum{name}']}" for name in CHECKSUMS if head.get(f"Checksum{name}")),
        f"ETag {head['ETag']}",
    )
    return f"{head['ContentLength']} {found}"


def _described(s3: Any, bucket: str, item: Mapping[str, Any]) -> str:
    head = s3.head_object(Bucket=bucket, Key=item["Key"], ChecksumMode="ENABLED")
    return f"{item['Key'].rpartition('/')[2]} {fingerprint(head)}"


def _parts(s3: Any, bucket: str, folder: str) -> dict[str, list[Mapping[str, Any]]]:
    """The folder's objects by part."""
    found: dict[str, list[Mapping[str, Any]]] = {part: [] for part in PARTS}
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=f"{folder}/", Delimiter="/"
    )
    for page in pages:
        for item in page.get("Contents", ()):
            part = _part(item["Key"].rpartition("/")[2])
            if part is not None:
                found[part].append(item)
    return found


def _part(name: str) -> str | None:
    stem, dot, _ = name.partition(".")
    return stem if dot and stem in PARTS else None
