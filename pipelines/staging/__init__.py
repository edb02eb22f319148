"""Content that a definition names and that has to lie in the object store before it runs."""

from pipelines.staging.containers import ImageFolder, image_folders, image_tags
from pipelines.staging.image_file import ImageFolderError
from pipelines.staging.metric_functions import MetricFunctionsError, check_metric_functions
from pipelines.staging.object_store import ObjectStore
from pipelines.staging.own_code import OwnCodeError, own_code
from pipelines.staging.plan import StagingPlan, plan_staging, raw_data_uri, training_code
from pipelines.staging.source_tree import SourceTree, gate_tree

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
