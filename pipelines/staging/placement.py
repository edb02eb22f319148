"""Which content goes where, known before any of it is fetched; and then the putting there."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from compilegate.datasets import Announce, RawData
from compilegate.pipelines.deployment import PREFIX, Deployment, Sources
from compilegate.pipelines.staging.experiment import experiment_file
from compilegate.pipelines.staging.own_code import own_code, training_code
from compilegate.pipelines.staging.serving_code import serving_code
from compilegate.pipelines.staging.source_tree import SourceTree, gate_tree
from compilegate.workload import Workload

DIGEST_LENGTH = 32
"""Hexadecimal digits of a digest in a key: 128 bits, short enough to read."""


class ObjectStore(Protocol):
    """Objects by `s3://` URI."""

    def exists(self, uri: str) -> bool:
        """Whether there is an object at this URI."""

    def upload(self, source: Path, uri: str) -> None:
        """Write one object with a file's content, whole or not at all. May keep the file itself
        instead of a copy, so the file must not be anybody else's."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The sources of a definition, and what has to be put there."""

    sources: Sources
    training: SourceTree
    gate: SourceTree
    experiment: bytes
    """What the gate needs to know about the workload, as JSON."""
    data: RawData
    serving: SourceTree | None = None
    """What goes into the archive of a registered model."""

    def put_training_code(self, store: ObjectStore) -> None:
        """Put the archive of the training code alone, if it is not there yet."""
        with tempfile.TemporaryDirectory(prefix="compilegate-staging-") as work:
            _Placing(store, Path(work)).content(
                self.sources.training_archive, self.training.archive
            )

    def put(self, store: ObjectStore, cache: Path, announce: Announce) -> None:
        """Put what is not there yet. Content is found by its digest, so what is there is right.

        Raises DatasetError when the raw data cannot be had.
        """
        fetched = self.data.fetch(cache, announce)
        with tempfile.TemporaryDirectory(prefix="compilegate-staging-") as work:
            placing = _Placing(store, Path(work))
            placing.content(self.sources.training_archive, self.training.archive)
            placing.content(self.sources.training_code, self.training.module_zip)
            placing.content(self.sources.gate_code, self.gate.module_zip)
            placing.content(self.sources.experiment, partial(bytes, self.experiment))
            if self.sources.serving_code is not None and self.serving is not None:
                placing.content(self.sources.serving_code, self.serving.archive)
            for name, path in fetched.items():
                placing.file(f"{self.sources.data}/{name}", path)


def placement_of(
    workload: Workload, deployment: Deployment, data: RawData, folder: Path
) -> Placement:
    """Where everything will lie. Nothing is fetched or written.

    `folder` is that of the workload's file. Raises OwnCodeError when code that it names there
    cannot be taken.
    """
    training, experiment = training_code(workload.kind, folder), experiment_file(workload)
    gate = gate_tree(own_code(workload.gate.code, folder))
    serving = serving_code(workload, folder)
    digests = {
        "training": training.digest[:DIGEST_LENGTH],
        "gate": gate.digest[:DIGEST_LENGTH],
        "experiment": hashlib.sha256(experiment).hexdigest()[:DIGEST_LENGTH],
    }
    return Placement(
        sources=Sources(
            # Another name than the zip's, and not only another ending: the CDK's asset manifest
            # goes by the name without its ending.
            training_archive=deployment.uri("source", f"{digests['training']}-toolkit.tgz"),
            training_code=deployment.uri("source", f"{digests['training']}.zip"),
            gate_code=deployment.uri("source", f"{digests['gate']}.zip"),
            experiment=deployment.uri("source", f"{digests['experiment']}.json"),
            data=raw_data_uri(workload, data, deployment.bucket, deployment.prefix),
            serving_code=None
            if serving is None
            else deployment.uri("source", f"{serving.digest[:DIGEST_LENGTH]}-serving.tgz"),
        ),
        training=training,
        gate=gate,
        experiment=experiment,
        data=data,
        serving=serving,
    )


def raw_data_uri(workload: Workload, data: RawData, bucket: str, prefix: str = PREFIX) -> str:
    """The prefix of a workload's raw data in a bucket; its last part is the data's digest."""
    return f"s3://{bucket}/{prefix}/data/{workload.name}/{data.identity[:DIGEST_LENGTH]}"


@dataclass(frozen=True)
class _Placing:
    """Puts what is absent, from files that are the store's to keep."""

    store: ObjectStore
    work: Path

    def content(self, uri: str, content: Callable[[], bytes]) -> None:
        """Put these bytes."""
        if not self.store.exists(uri):
            part = self._part()
            part.write_bytes(content())
            self.store.upload(part, uri)

    def file(self, uri: str, source: Path) -> None:
        """Put a copy of this file, which may be large."""
        if not self.store.exists(uri):
            part = self._part()
            shutil.copyfile(source, part)
            self.store.upload(part, uri)
            part.unlink(missing_ok=True)

    def _part(self) -> Path:
        handle, name = tempfile.mkstemp(dir=self.work)
        os.close(handle)
        return Path(name)
