"""The images: one build for each folder of `containers/`."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from constructs import Construct

from compilegate.account.settings.names import output_suffix
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.images.image_build import ImageBuild, registry_of
from compilegate.infra.project import Project
from compilegate.infra.stack_options import stack_options


class ImagesStack(cdk.Stack):
    """Builds every image of the project, and names the URI that each will have."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        project: Project,
        foundation: FoundationStack,
        env: cdk.Environment,
    ) -> None:
        super().__init__(
            scope, id, **stack_options(project, env, "Compilegate: the builds of its images")
        )
        self.image_uris: Mapping[str, str] = {
            name: f"{registry_of(self)}/{project.names.repository(name)}:{image.tag}"
            for name, image in project.images.items()
        }
        """The URI of each image once it is built."""
        for name, image in project.images.items():
            suffix = output_suffix(name)
            build = ImageBuild(
                self,
                suffix,
                project=project,
                foundation=foundation,
                image=image,
                base_uri=image.base_uri(self.region),
            )
            cdk.CfnOutput(self, f"ImageUri{suffix}", value=self.image_uris[name])
            cdk.CfnOutput(self, f"BuildProject{suffix}", value=build.project.ref)
