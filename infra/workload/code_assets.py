"""The code and the experiment of a workload as assets: objects named by their digest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import cast

import aws_cdk as cdk

from compilegate.job.files import write_bytes
from compilegate.pipelines.deployment import object_name
from compilegate.pipelines.staging import Placement


@dataclass(frozen=True, kw_only=True)
class CodeAssets:
    """Where the assets will be, as URIs in CloudFormation."""

    training_archive: str
    training_code: str
    gate_code: str
    experiment: str
    serving_code: str | None


def add_code_assets(stack: cdk.Stack, placement: Placement, prefix: str) -> CodeAssets:
    """Write the files into the cloud assembly; the CDK CLI uploads those that are missing, under
    keys that begin with the prefix."""
    sources = placement.sources
    return CodeAssets(
        training_archive=_add(stack, prefix, sources.training_archive, placement.training.archive),
        training_code=_add(stack, prefix, sources.training_code, placement.training.module_zip),
        gate_code=_add(stack, prefix, sources.gate_code, placement.gate.module_zip),
        experiment=_add(stack, prefix, sources.experiment, lambda: placement.experiment),
        serving_code=None
        if placement.serving is None or sources.serving_code is None
        else _add(stack, prefix, sources.serving_code, placement.serving.archive),
    )


def _add(stack: cdk.Stack, prefix: str, uri: str, content: Callable[[], bytes]) -> str:
    name = PurePosixPath(object_name(uri))
    app = cast(cdk.Stage, cdk.Stage.of(stack))
    file = Path(app.outdir) / f"asset.{name}"
    if not file.exists():
        write_bytes(file, content())
    location = stack.synthesizer.add_file_asset(
        # The object is named by its hash and extension, as the definition names it. The manifest
        # uses the hash alone, so no two assets may share one. A prefix of keys is an argument of
        # the CDK's synthesizer, which would hold for all assets alike.
        source_hash=f"{prefix}{name.stem}",
        file_name=file.name,
        packaging=cdk.FileAssetPackaging.FILE,
        display_name=f"{stack.stack_name} {name}",
    )
    return f"s3://{location.bucket_name}/{location.object_key}"
