"""What kind of workload a file declares: one object per kind says what it needs.

| kind | tables | what is trained |
|---|---|---|
| TextClassification | `[model]`, `[recipe]`, `[arms]` | arms of the built-in training program |
| OwnProgram | `[program]`, `[arms]` | arms of a program of your own |
"""

from compilegate.workload.declared.file import WorkloadFile
from compilegate.workload.kinds.kind import (
    DocumentShapes,
    Kind,
    Preparation,
    TrainingProgram,
)
from compilegate.workload.kinds.own_program import OwnProgram
from compilegate.workload.kinds.text_classification import TextClassification

KINDS = (TextClassification, OwnProgram)

__all__ = [
    "KINDS",
    "DocumentShapes",
    "Kind",
    "OwnProgram",
    "Preparation",
    "TextClassification",
    "TrainingProgram",
    "kind_of",
]


def kind_of(file: WorkloadFile) -> TextClassification | OwnProgram:
    """The kind that the file's tables make it. Raises WorkloadError where they fit no kind."""
    if file.program is None:
        return TextClassification.of(file)
    return OwnProgram.of(file, file.program)
