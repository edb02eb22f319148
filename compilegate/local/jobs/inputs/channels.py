"""The channels of a training job: what InputDataConfig says, and the files that come of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from compilegate.local.errors import StepRequestError
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.jobs.cluster.hosts import Host, members
from compilegate.local.jobs.inputs.manifest import AUGMENTED, MANIFEST, manifest_entries
from compilegate.local.requests import RequestReader

FILE, PIPE = "File", "Pipe"
_PREFIX = "S3Prefix"
_SHARDED, _REPLICATED = "ShardedByS3Key", "FullyReplicated"


@dataclass(frozen=True)
class Channel:
    """One input: the objects at `uri` appear in /opt/ml/input/data/NAME, or come through pipes."""

    name: str
    uri: str
    content_type: str | None
    is_manifest: bool = False
    attributes: tuple[str, ...] = ()
    """What a pipe gives of each line, where the URI is that of an augmented manifest."""
    sharded: bool = False
    """Whether each host gets its share of the objects."""
    groups: tuple[str, ...] = ()
    """The groups of hosts that get it; all where none is named."""
    piped: bool = False
    record_io: bool = False
    gzipped: bool = False
    shuffle_seed: int | None = None

    def config(self) -> dict[str, str]:
        """Its part of inputdataconfig.json."""
        config = {
            "TrainingInputMode": PIPE if self.piped else FILE,
            "S3DistributionType": _SHARDED if self.sharded else _REPLICATED,
            "RecordWrapperType": "RecordIO" if self.record_io else "None",
        }
        if self.content_type is not None:
            config["ContentType"] = self.content_type
        return config


def read_channel(reader: RequestReader, mode: str) -> Channel:
    """One member of InputDataConfig; `mode` is the job's own. Raises StepRequestError."""
    name = reader.text("ChannelName")
    if not re.fullmatch(r"[A-Za-z0-9.\-_]+", name) or name in {".", ".."}:
        raise StepRequestError(f"ChannelName {name!r} may hold letters, digits, '.', '-' and '_'")
    source = reader.section("DataSource")
    if not source.has("S3DataSource"):
        raise StepRequestError(
            f"channel {name} has no S3DataSource; FSx and EFS are not mounted here"
        )
    s3 = source.section("S3DataSource")
    where = f"channel {name}"
    piped = _one_of(reader, "InputMode", (FILE, PIPE, "FastFile"), mode, where) == PIPE
    wrapper = _one_of(reader, "RecordWrapperType", ("None", "RecordIO"), "None", where)
    compression = _one_of(reader, "CompressionType", ("None", "Gzip"), "None", where)
    if not piped and wrapper != "None":
        raise StepRequestError(f"{where}: RecordWrapperType must be None unless InputMode is Pipe")
    if not piped and compression != "None":
        raise StepRequestError(f"{where}: CompressionType must be None unless InputMode is Pipe")
    kind = _one_of(s3, "S3DataType", (_PREFIX, MANIFEST, AUGMENTED), _PREFIX, where)
    if kind == AUGMENTED and not piped:
        raise StepRequestError(f"{where}: S3DataType {AUGMENTED} needs InputMode Pipe")
    attributes = tuple(s3.texts("AttributeNames")) if kind == AUGMENTED else ()
    if kind == AUGMENTED and not attributes:
        raise StepRequestError(f"{where}: S3DataType {AUGMENTED} needs AttributeNames")
    shuffle = reader.has("ShuffleConfig")
    seed = reader.section_or_empty("ShuffleConfig").integer_or("Seed", 0)
    return Channel(
        name=name,
        uri=s3.uri("S3Uri"),
        content_type=reader.text("ContentType") if reader.has("ContentType") else None,
        is_manifest=kind == MANIFEST,
        attributes=attributes,
        sharded=is_sharded(s3, where),
        groups=tuple(s3.texts("InstanceGroupNames")),
        piped=piped,
        record_io=wrapper == "RecordIO",
        gzipped=compression == "Gzip",
        shuffle_seed=seed if shuffle else None,
    )


def is_manifest(s3: RequestReader, where: str) -> bool:
    """Whether the URI of a processing job's source is that of a manifest.

    Raises StepRequestError.
    """
    return _one_of(s3, "S3DataType", (_PREFIX, MANIFEST), _PREFIX, where) == MANIFEST


def is_sharded(s3: RequestReader, where: str) -> bool:
    """Whether each host gets its share of a source. Raises StepRequestError."""
    allowed = (_REPLICATED, _SHARDED)
    return _one_of(s3, "S3DataDistributionType", allowed, _REPLICATED, where) == _SHARDED


def _one_of(
    reader: RequestReader, key: str, allowed: Sequence[str], default: str, where: str
) -> str:
    value = reader.text_or(key, default)
    if value not in allowed:
        raise StepRequestError(
            f"{where}: {key} is {value!r:.80}, allowed here: {', '.join(allowed)}"
        )
    return value


def objects_of(
    store: ObjectStore, uri: str, share: tuple[int, int], *, manifest: bool
) -> list[tuple[Path, str]]:
    """The files of a source, and what a job calls them.

    `share` is which part of how many: the objects are dealt out by key, one after another. Raises
    ObjectStoreError when there are none at all.
    """
    found = manifest_entries(store, uri) if manifest else store.objects(uri)
    which, of = share
    return found[which::of]


def share_of(hosts: Sequence[Host], current: Host, channel: Channel) -> tuple[int, int] | None:
    """Which part of a channel a host gets; None if it gets nothing of it."""
    names = members(hosts, channel.groups)
    if current.name not in names:
        return None
    return (names.index(current.name), len(names)) if channel.sharded else (0, 1)


def unknown_groups(channels: Iterable[Channel], hosts: Sequence[Host]) -> str | None:
    """The first group that a channel names and the job does not have."""
    known = {host.group for host in hosts}
    for channel in channels:
        for group in channel.groups:
            if group not in known:
                return (
                    f"channel {channel.name} names the instance group {group!r:.80}; there are "
                    f"{', '.join(sorted(known))}"
                )
    return None
