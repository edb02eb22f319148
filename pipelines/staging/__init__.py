"""Content that a definition names and that has to lie in the object store before it runs."""

from pipelines.staging.containers import ImageFolder, image_folders, image_tags
from pipelines.staging.image_file import ImageFolderError
from pipelines.staging.object_store import ObjectStore
from pipelines.staging.plan import StagingPlan, plan_staging, raw_data_uri
from pipelines.staging.source_tree import SourceTree

__all__ = [
    "ImageFolder",
    "ImageFolderError",
    "ObjectStore",
    "SourceTree",
    "StagingPlan",
    "image_folders",
    "image_tags",
    "plan_staging",
    "raw_data_uri",
]
