"""Which content lies where in the object store, known before any of it is fetched; and putting it
there.

`gate.json` is an object of its own, so that a changed margin moves neither the gate's program nor
anything that is trained.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from compilegate.catalog import Price, price_of
from compilegate.datasets import Announce, RawData
from compilegate.gate.settings import ArmDeclaration, Experiment, GateSettings
from compilegate.job.contract import BASELINE_ARM
from compilegate.pipelines.deployment import PREFIX, Deployment, Sources
from compilegate.pipelines.staging.source_trees import (
    SourceTree,
    gate_tree,
    own_code,
    serving_code,
    training_code,
)
from compilegate.workload import Arm, Workload

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
    """The sources of a definition, and their content."""

    sources: Sources
    training: SourceTree
    gate: SourceTree
    experiment: bytes
    """The content of `gate.json`."""
    data: RawData
    serving: SourceTree | None = None
    """What goes into the archive of a registered model."""

    def put_training_code(self, store: ObjectStore) -> None:
        """Put the archive of the training code alone, if it is not there yet."""
        _put(store, self.sources.training_archive, self.training.archive)

    def put(self, store: ObjectStore, cache: Path, announce: Announce) -> None:
        """Put what is not there yet. Content is found by its digest, so what is there is right.

        Raises DatasetError when the raw data cannot be had.
        """
        fetched = self.data.fetch(cache, announce)
        self.put_training_code(store)
        _put(store, self.sources.training_code, self.training.module_zip)
        _put(store, self.sources.gate_code, self.gate.module_zip)
        _put(store, self.sources.experiment, partial(bytes, self.experiment))
        if self.sources.serving_code is not None and self.serving is not None:
            _put(store, self.sources.serving_code, self.serving.archive)
        for name, path in fetched.items():
            _put(store, f"{self.sources.data}/{name}", path)


def placement_of(
    workload: Workload, deployment: Deployment, data: RawData, folder: Path
) -> Placement:
    """Where everything will lie. Nothing is fetched or written.

    `folder` is that of the workload's file. Raises OwnCodeError when code that it names there
    cannot be taken.
    """
    training = training_code(workload.kind, folder)
    gate = gate_tree(own_code(workload.gate.code, folder))
    serving = serving_code(workload, folder)
    experiment = experiment_file(workload)

    def source(digest: str, ending: str) -> str:
        return deployment.uri("source", f"{digest[:DIGEST_LENGTH]}{ending}")

    return Placement(
        sources=Sources(
            # Another name than the zip's, and not only another ending: the CDK's asset manifest
            # goes by the name without its ending.
            training_archive=source(training.digest, "-toolkit.tgz"),
            training_code=source(training.digest, ".zip"),
            gate_code=source(gate.digest, ".zip"),
            experiment=source(hashlib.sha256(experiment).hexdigest(), ".json"),
            data=raw_data_uri(workload, data, deployment.bucket, deployment.prefix),
            serving_code=None if serving is None else source(serving.digest, "-serving.tgz"),
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


def _put(store: ObjectStore, uri: str, content: Path | Callable[[], bytes]) -> None:
    """Put bytes, or a copy of a file that may be large, unless there is such an object."""
    if store.exists(uri):
        return
    # The store may keep the file itself.
    with tempfile.TemporaryDirectory(prefix="compilegate-staging-") as work:
        part = Path(work, "part")
        if isinstance(content, Path):
            shutil.copyfile(content, part)
        else:
            part.write_bytes(content())
        store.upload(part, uri)


def experiment_file(workload: Workload) -> bytes:
    """The content of `gate.json`."""
    return (experiment_of(workload).model_dump_json(indent=2) + "\n").encode()


def experiment_of(workload: Workload) -> Experiment:
    """The gate's settings for a workload."""
    return Experiment(
        workload=workload.name,
        baseline=BASELINE_ARM,
        evidence=workload.kind.evidence,
        arms={name: _declaration(workload, arm) for name, arm in workload.arms.items()},
        seeds=list(workload.seeds),
        left_out=list(workload.left_out),
        settings=GateSettings.model_validate(workload.gate.model_dump(exclude={"code"})),
    )


def _declaration(workload: Workload, arm: Arm) -> ArmDeclaration:
    arms = workload.arms.values()
    instance_type = arm.instance_type or workload.compute.instance_type
    price = price_of(instance_type, declared=workload.declared_prices)
    note, usd_per_hour = (
        (price.note, price.usd_per_hour * arm.instance_count)
        if isinstance(price, Price)
        else (price.reason, None)
    )
    return ArmDeclaration(
        compiler=arm.compiler,
        batch_size=arm.batch_size,
        learning_rate=arm.learning_rate,
        precision=arm.precision,
        world_size=arm.world_size,
        padding=arm.padding if any(each.padding != "max" for each in arms) else None,
        scale_learning_rate=arm.scale_learning_rate,
        instance_type=instance_type,
        # Only where arms differ in it: then other library versions are intended too.
        image=arm.image_folder if len({each.image_folder for each in arms}) > 1 else None,
        usd_per_hour=usd_per_hour,
        price_note=(
            note if arm.instance_count == 1 else f"{arm.instance_count} instances, each: {note}"
        ),
    )
