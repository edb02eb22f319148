"""`[registry]` and `[serving]`: where a model is registered, and how it answers."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    Field,
    model_validator,
)

from compilegate.declaration_errors import matching
from compilegate.workload.declaration.arms import (
    AWS_IMAGE,
)
from compilegate.workload.declaration.values import (
    PREFIX_PATTERN,
    Folder,
    ImageFolder,
    Table,
    Version,
    of_others,
    passing,
)
from compilegate.workload.parameters import (
    Approval,
    InstanceType,
)

Handler = Annotated[
    str,
    matching(
        r"^[A-Za-z_][A-Za-z0-9_]*\.py$", "a Python file's name such as serve.py", max_length=80
    ),
]
MimeType = Annotated[
    str,
    matching(
        r"^[a-z0-9][a-z0-9.+-]*/[a-zA-Z0-9][a-zA-Z0-9.+-]*$",
        "a content type such as application/json",
    ),
]


BatchPrefix = Annotated[
    str,
    matching(
        rf"^{PREFIX_PATTERN}/$", "a prefix that ends in a slash, such as requests/", max_length=500
    ),
    passing(of_others),
]


class Serving(Table):
    """`[serving]`: how the registered model answers requests. Without it, the model is registered
    with the image that trained it and without content types."""

    handler: Handler | None = None
    """The script with `model_fn`, `input_fn`, `predict_fn` and `output_fn`, or `transform_fn`, as
    AWS's inference toolkits call them. The built-in program has one of its own; a Hugging Face
    image does without."""
    folder: Folder | None = None
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

    @model_validator(mode="after")
    def _keys_go_together(self) -> Self:
        if self.deploy == "serverless" and self.processor == "gpu":
            raise ValueError(
                "deploy is 'serverless' and processor is 'gpu', expected 'cpu': serverless "
                "endpoints have no GPU"
            )
        return self


Name = Annotated[
    str,
    matching(
        r"^[a-z](?:-?[a-z0-9])*$",
        "lowercase letters, digits and single hyphens, such as news-topics",
        max_length=40,
    ),
]


class Registry(Table):
    """`[registry]`: how the winner is registered."""

    group: (
        Annotated[
            str,
            matching(
                r"^[a-zA-Z0-9](?:-*[a-zA-Z0-9]){0,62}$",
                "letters, digits and hyphens, at most 63, such as news-topics",
            ),
        ]
        | None
    ) = None
    """Model package group; the workload's name when it is not given."""
    approval: Approval = "PendingManualApproval"
    """The status of a new model; one that is `Approved` may be deployed by whoever waits for it."""
