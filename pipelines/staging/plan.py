"""Which content goes where, known before any of it is fetched; and then the putting there."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from compilegate.catalog import Price, UnknownPrice, price_of
from compilegate.datasets import RawData
from compilegate.datasets.raw_data import Announce
from compilegate.gate.settings import ArmDeclaration, Experiment, GateSettings
from compilegate.job.names import BASELINE_ARM, CHAMPION_ARM
from compilegate.pipelines.deployment import PREFIX, Deployment, Sources
from compilegate.pipelines.staging.object_store import ObjectStore
from compilegate.pipelines.staging.own_code import own_code
from compilegate.pipelines.staging.program_tree import program_tree
from compilegate.pipelines.staging.source_tree import SourceTree, gate_tree
from compilegate.workload import Arm, Workload

DIGEST_LENGTH = 32
"""Hexadecimal digits of a digest in a key: 128 bits, short enough to read."""


@dataclass(frozen=True, kw_only=True)
class StagingPlan:
    """The sources of a definition, and what has to be put there."""

    sources: Sources
    training: SourceTree
    gate: SourceTree
    experiment: bytes
    """What the gate is told of the workload, as JSON."""
    data: RawData

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
            for name, path in fetched.items():
                placing.content(f"{self.sources.data}/{name}", path.read_bytes)


def plan_staging(
    workload: Workload, deployment: Deployment, data: RawData, folder: Path
) -> StagingPlan:
    """Where everything will lie. Nothing is fetched or written.

    `folder` is that of the workload's file. Raises OwnCodeError when code that it names there
    cannot be taken.
    """
    training, experiment = training_code(workload, folder), experiment_file(workload)
    gate = gate_tree(own_code(workload.gate.code, folder))
    digests = {
        "training": training.digest[:DIGEST_LENGTH],
        "gate": gate.digest[:DIGEST_LENGTH],
        "experiment": hashlib.sha256(experiment).hexdigest()[:DIGEST_LENGTH],
    }
    return StagingPlan(
        sources=Sources(
            # Another name than the zip's, and not only another ending: the CDK's asset manifest
            # goes by the name without its ending.
            training_archive=deployment.uri("source", f"{digests['training']}-toolkit.tgz"),
            training_code=deployment.uri("source", f"{digests['training']}.zip"),
            gate_code=deployment.uri("source", f"{digests['gate']}.zip"),
            experiment=deployment.uri("source", f"{digests['experiment']}.json"),
            data=raw_data_uri(workload, data, deployment.bucket, deployment.prefix),
        ),
        training=training,
        gate=gate,
        experiment=experiment,
        data=data,
    )


def training_code(workload: Workload, folder: Path) -> SourceTree:
    """What runs in the workload's training container. `folder` is that of the workload's file.

    Raises OwnCodeError when a program of the workload's own cannot be taken.
    """
    return program_tree(workload.kind, folder)


def raw_data_uri(workload: Workload, data: RawData, bucket: str, prefix: str = PREFIX) -> str:
    """The prefix of a workload's raw data in a bucket; its last part is the data's digest."""
    return f"s3://{bucket}/{prefix}/data/{workload.name}/{data.identity[:DIGEST_LENGTH]}"


def experiment_file(workload: Workload) -> bytes:
    """The content of `gate.json`. It is an object of its own, so that a changed margin moves
    neither the gate's program nor anything that is trained."""
    return (experiment_of(workload).model_dump_json(indent=2) + "\n").encode()


def experiment_of(workload: Workload) -> Experiment:
    """What the gate is told."""
    images = {arm.image_folder for arm in workload.arms.values()}
    return Experiment(
        workload=workload.name,
        champion=workload.kind.against_champion,
        baseline=CHAMPION_ARM if workload.kind.against_champion else BASELINE_ARM,
        evidence=workload.kind.evidence,
        arms={
            name: _declaration(
                arm,
                arm.instance_type or workload.compute.instance_type,
                # Only where arms differ in it: then other library versions are intended too.
                image=arm.image_folder if len(images) > 1 else None,
            )
            for name, arm in workload.arms.items()
        },
        seeds=list(workload.seeds),
        left_out=list(workload.left_out),
        settings=_settings(workload),
    )


def _settings(workload: Workload) -> GateSettings:
    return GateSettings.model_validate(workload.gate.model_dump(exclude={"code"}))


def _declaration(arm: Arm, instance_type: str, *, image: str | None) -> ArmDeclaration:
    price = price_of(instance_type)
    return ArmDeclaration(
        compiler=arm.compiler,
        batch_size=arm.batch_size,
        learning_rate=arm.learning_rate,
        precision=arm.precision,
        world_size=arm.world_size,
        scale_learning_rate=arm.scale_learning_rate,
        instance_type=instance_type,
        image=image,
        usd_per_hour=(
            price.usd_per_hour * arm.instance_count if isinstance(price, Price) else None
        ),
        price_note=_price_note(price, arm.instance_count),
    )


def _price_note(price: Price | UnknownPrice, instances: int) -> str:
    note = price.note if isinstance(price, Price) else price.reason
    return note if instances == 1 else f"{instances} instances, each: {note}"


@dataclass(frozen=True)
class _Placing:
    """Puts what is absent, from files that are the store's to keep."""

    store: ObjectStore
    work: Path

    def content(self, uri: str, content: Callable[[], bytes]) -> None:
        if self.store.exists(uri):
            return
        handle, name = tempfile.mkstemp(dir=self.work)
        with os.fdopen(handle, "wb") as file:
            file.write(content())
        self.store.upload(Path(name), uri)
