"""Content that a definition names and that has to lie in the object store before it runs."""

from compilegate.pipelines.staging.image_tags import (
    ImageFolder,
    ImageFolderError,
    image_folders,
    image_tags,
)
from compilegate.pipelines.staging.metric_functions import (
    MetricFunctionsError,
    check_metric_functions,
)
from compilegate.pipelines.staging.object_store import ObjectStore
from compilegate.pipelines.staging.own_code import OwnCodeError, own_code
from compilegate.pipelines.staging.plan import (
    StagingPlan,
    plan_staging,
    raw_data_uri,
    training_code,
)
from compilegate.pipelines.staging.source_tree import SourceTree, gate_tree

__all__ = [
    "ImageFolder",
    "ImageFolderError",
    "MetricFunctionsError",
    "ObjectStore",
    "OwnCodeError",
    "SourceTree",
    "StagingPlan",
    "check_metric_functions",
    "gate_tree",
    "image_folders",
    "image_tags",
    "own_code",
    "plan_staging",
    "raw_data_uri",
    "training_code",
]
