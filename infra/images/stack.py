"""The images: one build for each folder of `containers/` that a workload uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import aws_cdk as cdk
from constructs import Construct

from compilegate.account.settings.names import output_suffix
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.images.builder import Builder
from compilegate.infra.images.image_build import ImageBuild, registry_of
from compilegate.infra.parts import stack_options
from compilegate.infra.project import Project


class ImagesStack(cdk.Stack):
    """Builds what the workloads use, and names the URI that each image has once it is built."""

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
        """The URI of each image, of those too that nothing uses yet and that are not built."""
        builds = []
        for name, image in project.built_images.items():
            suffix = output_suffix(name)
            build = ImageBuild(
                self,
                suffix,
                project=project,
                foundation=foundation,
                image=image,
                base_uri=image.base_uri(self.region),
                base_name=replace(image, digest=None).base_uri(self.region) if image.digest else "",
            )
            builds.append(build)
            cdk.CfnOutput(self, f"ImageUri{suffix}", value=self.image_uris[name])
            cdk.CfnOutput(self, f"BuildProject{suffix}", value=build.project.ref)
        self.base_repository_arns: Sequence[str] = sorted(
            {build.base_repository_arn for build in builds if build.base_repository_arn}
        )
        """The repositories of base images that ask for a login."""
        # CloudFormation sends its event of this stack when the builds it names are there.
        Builder(
            self,
            "Builder",
            project=project,
            foundation=foundation,
            images=list(project.built_images),
            base_repository_arns=self.base_repository_arns,
        )
