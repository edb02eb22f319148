"""A workload's definition: compiled with placeholders, and completed by CloudFormation.

It becomes one `Fn::Sub`: each value that only CloudFormation knows is written once, as a variable,
however often the definition names it. That keeps the template small and the definition readable.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import cast

import aws_cdk as cdk

from compilegate.account.plan.quotas import LARGEST_DEFINITION
from compilegate.account.settings.reading import network_of
from compilegate.datasets import raw_data
from compilegate.document.writing import compact
from compilegate.errors import CompilegateError
from compilegate.infra.project import DeclaredWorkload, Project, containers_of
from compilegate.job.files import write_bytes
from compilegate.pipelines.compilation import compile_definition
from compilegate.pipelines.deployment import (
    object_name,
    placeholder_deployment,
    placeholder_network,
    placeholder_sources,
)
from compilegate.pipelines.staging.placement import Placement, placement_of
from compilegate.pipelines.staging.requirements import (
    RequirementsError,
    check_metric_functions,
    unbuilt_requirements,
)
from compilegate.workload import AWS_IMAGE, InfeasibleError, Workload
from compilegate.workload.feasibility import check_feasible


class DefinitionSizeError(CompilegateError):
    """A definition is larger than the service allows. The message says how large."""


@dataclass(frozen=True, kw_only=True)
class IncompleteDefinition:
    """The text, with placeholders, and what must be in the object store before it runs."""

    text: str
    placement: Placement


def incomplete_definition(
    project: Project, declared: DeclaredWorkload, region: str | None = None
) -> IncompleteDefinition:
    """Compile the definition.

    `region` decides which of AWS's images exist; without one this is not checked.
    Raises InfeasibleError when an arm cannot run, RequirementsError when an image lacks what a
    program needs, DatasetError when declared data files are not there, OwnCodeError when declared
    code is not, MetricFunctionsError when the gate could not load a metric's function,
    InvalidRequestError when the service would not take a step's request, and DefinitionSizeError
    when it would not take the whole.
    """
    workload, folder = declared.workload, declared.path.parent
    containers = containers_of(project.folder)
    bases = {name: image.base for name, image in project.images.items()}
    try:
        check_feasible(workload, region=region, bases=bases)
    except InfeasibleError as error:
        raise error.within(declared.path) from error
    for lacking in unbuilt_requirements(workload, folder, containers):
        raise RequirementsError(lacking).within(declared.path)
    images = list(project.images)
    placement = placement_of(
        workload, placeholder_deployment(images=images), raw_data(workload.data, folder), folder
    )
    check_metric_functions(workload, placement.gate, containers / "gate" / "requirements.txt")
    deployment = placeholder_deployment(
        images=images,
        registry_region=region if _runs_in_images_of_aws(workload) else None,
        network=network_of(
            project.settings, placeholder_network(project.settings.network.zone_count)
        ),
        name_prefix=project.names.pipeline(""),
        tags=project.names.tags,
    )
    try:
        text = compile_definition(workload, deployment, placeholder_sources(placement.sources))
    except CompilegateError as error:
        raise error.within(declared.path) from error
    text = compact(text)
    check_size(workload.name, text)
    return IncompleteDefinition(text=text, placement=placement)


def _runs_in_images_of_aws(workload: Workload) -> bool:
    """Whether the text depends on the region; otherwise it is the same in all of them."""
    serving = workload.serving
    return any(setup.image_folder == AWS_IMAGE for setup in workload.arms.values()) or (
        serving is not None and serving.in_image_of_aws
    )


def check_size(workload: str, text: str) -> None:
    """Raises DefinitionSizeError for a definition that is too large for a template."""
    size = size_in_template(text)
    if size > LARGEST_DEFINITION:
        raise DefinitionSizeError(
            f"workloads/{workload}.toml: its definition takes {size:,} bytes of a template, "
            f"allowed: {LARGEST_DEFINITION:,}; declare fewer arms or seeds"
        )


def size_in_template(text: str) -> int:
    """Bytes of a definition as a string of a JSON template, where its quotes are escaped."""
    return len(json.dumps(text).encode())


def completed_by_cloudformation(
    text: str, *, placeholders: Mapping[str, str], values: Mapping[str, str]
) -> str:
    """The definition as a token.

    `placeholders` maps the name of each missing value to its placeholder, `values` maps the
    same names to the real values: text, or CloudFormation tokens.
    """
    # Anything else that CloudFormation would take for a variable is plain text.
    text = text.replace("${", "${!")
    variables: dict[str, str] = {}
    for name, placeholder in placeholders.items():
        value = values[name]
        if cdk.Token.is_unresolved(value):
            variable = _variable(name)
            if placeholder in text:
                variables[variable] = value
            value = f"${{{variable}}}"
        text = text.replace(placeholder, value)
    return cdk.Fn.sub(text, variables)


def _variable(name: str) -> str:
    """`images.training-compiler` as CloudFormation names variables: `ImagesTrainingCompiler`."""
    words = name.replace(".", "_").replace("-", "_").split("_")
    return "".join(word.capitalize() for word in words)


def add_code_assets(stack: cdk.Stack, placement: Placement, prefix: str) -> dict[str, str]:
    """Write code and experiment into the cloud assembly, for the CDK CLI to upload what is missing,
    under keys that begin with the prefix.

    Returns their URIs by the name of the stack's output that says each.
    """
    sources = placement.sources
    contents: dict[str, tuple[str, Callable[[], bytes]]] = {
        "TrainingArchiveUri": (sources.training_archive, placement.training.archive),
        "TrainingCodeUri": (sources.training_code, placement.training.module_zip),
        "GateCodeUri": (sources.gate_code, placement.gate.module_zip),
        "ExperimentUri": (sources.experiment, lambda: placement.experiment),
    }
    added = {
        output: _add(stack, prefix, uri, content) for output, (uri, content) in contents.items()
    }
    if placement.serving is not None and sources.serving_code is not None:
        _add(stack, prefix, sources.serving_code, placement.serving.archive)
    return added


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
