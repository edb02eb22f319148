"""The images: one build for each folder of `containers/`."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from constructs import Construct

from infra.foundation import FoundationStack
from infra.images.image_build import ImageBuild, registry_of
from infra.project import Project
from pipelines.settings.names import output_suffix


class ImagesStack(cdk.Stack):
    """Builds every image that the project has, and says under which URI each will be."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        project: Project,
        foundation: FoundationStack,
        base_images: Mapping[str, str],
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, id, env=env, description="Compilegate: the builds of its images")
        self.image_uris: Mapping[str, str] = {
            image: f"{registry_of(self)}/{project.names.repository(image)}:{tag}"
            for image, tag in project.image_tags.items()
        }
        """Under which URI each image is, once it is built."""
        for image in project.image_tags:
            suffix = output_suffix(image)
            build = ImageBuild(
                self,
                suffix,
                project=project,
                foundation=foundation,
                image=image,
                base_image=base_images[image],
            )
            cdk.CfnOutput(self, f"ImageUri{suffix}", value=self.image_uris[image])
            cdk.CfnOutput(self, f"BuildProject{suffix}", value=build.project.ref)
