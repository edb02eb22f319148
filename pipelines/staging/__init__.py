"""Content that a definition names and that has to lie in the object store before it runs."""

from pipelines.staging.containers import image_tags
from pipelines.staging.object_store import ObjectStore
from pipelines.staging.plan import StagingPlan, plan_staging, raw_data_uri
from pipelines.staging.source_tree import SourceTree

__all__ = ["ObjectStore", "SourceTree", "StagingPlan", "image_tags", "plan_staging", "raw_data_uri"]
