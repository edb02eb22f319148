"""`[serving]`: how a registered model answers requests."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from compilegate.workload.declared.arm import AWS_IMAGE, ImageFolder
from compilegate.workload.declared.stacks import Version
from compilegate.workload.declared.starts import prefix_of_others
from compilegate.workload.declared.table import Table
from compilegate.workload.parameters import InstanceType

Handler = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\.py$", max_length=80)]
MimeType = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.+-]*/[a-zA-Z0-9][a-zA-Z0-9.+-]*$")
]
BatchPrefix = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9!_.'()-][A-Za-z0-9!_.'()/-]*/$", max_length=500),
    AfterValidator(prefix_of_others),
]
MEMORY = (1024, 2048, 3072, 4096, 5120, 6144)
"""What a serverless endpoint may have, in MB."""


class Serving(Table):
    """`[serving]`: how the registered model answers requests. Without it, the model is registered
    with the image that trained it and without content types."""

    handler: Handler | None = None
    """The script with `model_fn`, `input_fn`, `predict_fn` and `output_fn`, or `transform_fn`, as
    AWS's inference toolkits call them. The built-in program has one of its own; a Hugging Face
    image does without."""
    folder: Annotated[str, StringConstraints(min_length=1, max_length=250)] | None = None
    """A folder beside the workload's file, all of which goes into `code/` of the archive. Left
    out, the handler is a script of the program's folder. A change in a folder of its own trains
    nothing again."""
    image: ImageFolder = AWS_IMAGE
    """Folder in `containers/` whose image holds the server; or `aws`, AWS's inference image."""
    framework: Literal["pytorch", "huggingface"] | None = None
    """AWS's inference images are of these; by default `huggingface` for the built-in program,
    `pytorch` for your own."""
    version: Version = "2.6.0"
    """The version of PyTorch in AWS's inference image."""
    transformers: Version = "5.5.3"
    """The version of Transformers in the image of Hugging Face."""
    processor: Literal["cpu", "gpu"] = "cpu"
    """Which of AWS's inference images."""
    content_types: list[MimeType] = Field(default=[], max_length=20)
    """What the handler reads; by default what the built-in one does, or `application/json`."""
    response_types: list[MimeType] = Field(default=[], max_length=20)
    """What the handler answers with; by default as above."""
    deploy: Literal["none", "serverless", "real-time", "batch"] = "none"
    """What approving a model starts: nothing, an endpoint of either sort, or a batch transform."""
    memory_mb: int = Field(default=2048, ge=1024, le=6144, multiple_of=1024)
    """Memory of a serverless endpoint."""
    max_concurrency: int = Field(default=5, ge=1, le=200)
    """Requests that a serverless endpoint answers at once."""
    instance_type: InstanceType = "ml.m5.large"
    """Machine of a real-time endpoint, or of a batch transform."""
    instance_count: int = Field(default=1, ge=1, le=100)
    """How many of them."""
    max_latency_ms: int = Field(default=5000, ge=1, le=60_000)
    """An endpoint whose model takes longer on average, two minutes in a row, sets off an alarm; a
    model that was just deployed is then taken back."""
    batch_input: BatchPrefix | None = None
    """What the keys of a batch transform's requests begin with, in the project's bucket; by default
    `requests/NAME/`. The answers lie in `answers/NAME/`."""

    @field_validator("folder")
    @classmethod
    def _lies_beside_the_file(cls, folder: str | None) -> str | None:
        if folder is not None and (
            folder.startswith("/") or not PurePosixPath(folder).parts or ".." in folder.split("/")
        ):
            raise ValueError(f"found {folder!r}, allowed: a folder beside the workload's file")
        return folder

    @model_validator(mode="after")
    def _serverless_has_no_gpu(self) -> Self:
        if self.deploy == "serverless" and self.processor == "gpu":
            raise ValueError(
                "deploy is 'serverless' and processor is 'gpu', allowed: 'cpu', since serverless "
                "endpoints have no GPU"
            )
        return self

    @model_validator(mode="after")
    def _a_folder_holds_the_handler(self) -> Self:
        if self.folder is not None and self.handler is None:
            raise ValueError(
                "folder is given and handler is not, allowed: handler, the script in that folder"
            )
        return self
