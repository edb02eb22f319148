"""How the models of a workload are served, with every default settled. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compilegate.catalog.images import BaseImage, UnknownImageError, find_image
from compilegate.workload.declared.arm import AWS_IMAGE
from compilegate.workload.declared.file import WorkloadFile
from compilegate.workload.declared.release.serving import Serving

HANDLER = "inference.py"
"""What AWS's toolkits call the handler unless they are told otherwise; the built-in one's name."""
JSON = "application/json"
BUILT_IN_TYPES = (JSON, "application/jsonlines", "text/plain")
"""What the handler of the built-in program reads; it answers with the first two."""
FRAMEWORKS = {"pytorch": "pytorch-inference", "huggingface": "huggingface-pytorch-inference"}
"""AWS's inference images, by what a workload calls them."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """Everything that registration needs to know."""

    declared: Serving
    handler: str | None
    """The script in `code/` of the archive; None where the image does without."""
    built_in: bool
    """Whether the handler is the built-in program's."""
    framework: str
    """`pytorch` or `huggingface`: which toolkit's defaults hold."""
    content_types: tuple[str, ...]
    response_types: tuple[str, ...]

    @property
    def in_image_of_aws(self) -> bool:
        return self.declared.image == AWS_IMAGE

    @property
    def base_image(self) -> BaseImage:
        """AWS's inference image. Raises UnknownImageError, naming those there are."""
        return find_image(
            FRAMEWORKS[self.framework],
            self.declared.version,
            transformers=self.declared.transformers if self.framework == "huggingface" else None,
            processor=self.declared.processor,
        )


def served(file: WorkloadFile) -> Served | None:
    """How the file's models are served; None where it does not say."""
    declared = file.serving
    if declared is None:
        return None
    built_in = file.program is None and declared.handler is None
    framework = declared.framework or ("huggingface" if file.program is None else "pytorch")
    return Served(
        declared=declared,
        handler=HANDLER if built_in else declared.handler,
        built_in=built_in,
        framework=framework,
        content_types=tuple(declared.content_types) or (BUILT_IN_TYPES if built_in else (JSON,)),
        response_types=tuple(declared.response_types)
        or (BUILT_IN_TYPES[:2] if built_in else (JSON,)),
    )


def serving_problems(file: WorkloadFile) -> Iterator[str]:
    """What of `[serving]` does not go with the rest of the file."""
    settled = served(file)
    if settled is None:
        return
    declared = settled.declared
    if file.program is None and declared.handler is not None and declared.folder is None:
        yield (
            "serving.handler is given without serving.folder, allowed: both, or neither for the "
            "built-in handler"
        )
    if (
        file.program is not None
        and declared.handler is None
        and not (settled.in_image_of_aws and settled.framework == "huggingface")
    ):
        yield (
            "serving.handler is missing, and must be given beside [program]: the script that "
            "loads the model (an image of Hugging Face does without, with framework = "
            "'huggingface')"
        )
    if settled.in_image_of_aws:
        try:
            settled.base_image  # noqa: B018 - whether there is one
        except UnknownImageError as error:
            yield f"serving.version: {error}"
