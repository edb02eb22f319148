"""What each image folder extends, in the region that it is deployed to."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk

from infra.project import Project


def base_images(project: Project, environment: cdk.Environment) -> Mapping[str, str]:
    """Base image URI by image folder: the settings', else the catalog's for the region."""
    default = f"763104351884.dkr.ecr.{environment.region}.amazonaws.com/pytorch-training:2.13.0"
    return {image: project.settings.images.base.get(image, default) for image in project.image_tags}
