"""Content that a definition names and that has to lie in the object store before it runs."""

from compilegate.pipelines.staging.image_tags import (
    ImageFolder,
    ImageFolderError,
    image_folders,
    image_tags,
)
from compilegate.pipelines.staging.imports import (
    imported_libraries,
    imported_modules,
    source_folder_of,
)
from compilegate.pipelines.staging.metric_functions import (
    MetricFunctionsError,
    check_metric_functions,
)
from compilegate.pipelines.staging.own_code import OwnCodeError, own_code, training_code
from compilegate.pipelines.staging.placement import (
    ObjectStore,
    Placement,
    placement_of,
    raw_data_uri,
)
from compilegate.pipelines.staging.requirements import RequirementsError, unbuilt_requirements
from compilegate.pipelines.staging.source_tree import SourceTree, gate_tree

__all__ = [
    "ImageFolder",
    "ImageFolderError",
    "MetricFunctionsError",
    "ObjectStore",
    "OwnCodeError",
    "Placement",
    "RequirementsError",
    "SourceTree",
    "check_metric_functions",
    "gate_tree",
    "image_folders",
    "image_tags",
    "imported_libraries",
    "imported_modules",
    "own_code",
    "placement_of",
    "raw_data_uri",
    "source_folder_of",
    "training_code",
    "unbuilt_requirements",
]
