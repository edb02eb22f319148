"""A workload's definition, complete except for what only CloudFormation knows."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from compilegate.account.settings.reading import network_of
from compilegate.datasets import raw_data
from compilegate.document.writing import compact
from compilegate.errors import CompilegateError
from compilegate.infra.project import DeclaredWorkload, Project, containers_of
from compilegate.infra.workload.substitution import check_size
from compilegate.pipelines.kept import definition_of
from compilegate.pipelines.staging import (
    Placement,
    RequirementsError,
    check_metric_functions,
    placement_of,
    unbuilt_requirements,
)
from compilegate.pipelines.standin import standin_deployment, standin_network, standin_sources
from compilegate.workload import AWS_IMAGE, InfeasibleError
from compilegate.workload.feasibility import check_feasible


@dataclass(frozen=True, kw_only=True)
class IncompleteDefinition:
    """The text, with stand-ins, and what must be in the object store before it runs."""

    text: str
    placement: Placement


def incomplete_definition(
    project: Project, declared: DeclaredWorkload, region: str | None = None
) -> IncompleteDefinition:
    """Compile the definition, or reuse the one of an earlier synth.

    `region` decides which of AWS's images exist; without one this is not checked.
    Raises InfeasibleError when an arm cannot run, RequirementsError when an image lacks what a
    program needs, DatasetError when declared data files are not there, OwnCodeError when declared
    code is not, MetricFunctionsError when the gate could not load a metric's function,
    InvalidRequestError when the service would not take a step's request, and DefinitionSizeError
    when it would not take the whole.
    """
    _check_arms(project, declared, region)
    for lacking in unbuilt_requirements(
        declared.workload, declared.path.parent, containers_of(project.folder)
    ):
        raise RequirementsError(lacking).within(declared.path)
    images = list(project.images)
    placement = placement_of(
        declared.workload,
        standin_deployment(images=images),
        raw_data(declared.workload.data, declared.path.parent),
        declared.path.parent,
    )
    requirements = containers_of(project.folder) / "gate" / "requirements.txt"
    check_metric_functions(declared.workload, placement.gate, requirements)
    deployment = standin_deployment(
        images=images,
        registry_region=region if _runs_in_images_of_aws(declared) else None,
        network=network_of(project.settings, standin_network(project.settings.network.zone_count)),
        name_prefix=project.names.pipeline(""),
        tags=project.names.tags,
    )
    try:
        text = definition_of(
            declared.workload,
            deployment,
            standin_sources(placement.sources),
            folder=project.definitions,
            told=lambda line: print(line, file=sys.stderr, flush=True),
        )
    except CompilegateError as error:
        raise error.within(declared.path) from error
    text = compact(text)
    check_size(declared.workload.name, text)
    return IncompleteDefinition(text=text, placement=placement)


def _runs_in_images_of_aws(declared: DeclaredWorkload) -> bool:
    """Whether the text depends on the region; otherwise it is the same in all of them."""
    workload = declared.workload
    serving = workload.serving
    return any(setup.image_folder == AWS_IMAGE for setup in workload.arms.values()) or (
        serving is not None and serving.in_image_of_aws
    )


def _check_arms(project: Project, declared: DeclaredWorkload, region: str | None) -> None:
    bases = {name: image.base for name, image in project.images.items()}
    try:
        check_feasible(declared.workload, region=region, bases=bases)
    except InfeasibleError as error:
        raise error.within(declared.path) from error
