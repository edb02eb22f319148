"""Workloads of each beginning: a table, a script, a model of the hub, or nothing yet.

What is chosen here is a beginning and stands in the file with a comment: a model, an epoch and a
margin that fit data of this size, so that the first run ends with a verdict in minutes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compilegate.init.columns import Documents, Table, column_of, roles
from compilegate.init.errors import InitError
from compilegate.init.project import NewFile, Started, files_of, rendered
from compilegate.init.rows import Rows, all_rows, split_of
from compilegate.init.script import read_script

STEPS = 1200
"""Training steps of a job at the start: enough to learn something, and to repay a compilation."""
LARGEST_BATCH, SMALLEST_BATCH = 32, 4
TABLE_BATCH = 256
LONGEST_NAME = 40


def from_table(
    path: Path,
    *,
    name: str | None = None,
    text: str | None = None,
    label: str | None = None,
    model: str | None = None,
) -> Started:
    """A workload that learns what a csv, jsonl or parquet file holds.

    With a column of texts the built-in program classifies them, starting from `model` of the hub
    where one is named. Without one, a script that is the user's learns a column from the others.
    Raises InitError.
    """
    name = name or name_of(path.stem)
    read = all_rows(path)
    found = roles(
        [column_of(column, [row[column] for row in read.rows]) for column in read.columns],
        text=text,
        label=label,
    )
    if isinstance(found, Documents):
        return _documents(name, path, read, found, model)
    if model is not None:
        raise InitError(
            f"--model: found no column of texts in {path}, which a model of the hub reads, "
            "allowed: a table with one (--text COLUMN names it)"
        )
    return _table(name, path, read, found)


def from_hub(model: str, *, name: str | None = None) -> Started:
    """A workload that fine-tunes a model of the hub, on the built-in data for a beginning."""
    name = name or name_of(model.rstrip("/").rpartition("/")[2])
    return Started(
        name=name,
        files=(
            _declared(name, _document_values(name, f"Topic of a news story, by {model}", model)),
        ),
        told=(
            "the data are Reuters R8 for now; `compilegate init FILE --model MODEL` takes yours",
        ),
    )


def with_built_in_data(*, name: str | None = None) -> Started:
    """A workload that runs as it stands."""
    name = name or "news-topics"
    values = _document_values(name, "Topic of a news story", None)
    return Started(
        name=name,
        files=(_declared(name, values),),
        told=("the data are Reuters R8; `compilegate init FILE` begins with your table or script",),
    )


def from_script(path: Path, *, name: str | None = None, data: Path | None = None) -> Started:
    """A workload that trains with a copy of a script, and of what it imports from beside itself.

    Raises InitError.
    """
    if not path.is_file():
        raise InitError(f"SOURCE: {path} is not a file, allowed: a Python script")
    if not re.fullmatch(r"[A-Za-z_]\w*\.py", path.name):
        raise InitError(f"SOURCE: found {path.name!r}, allowed: a name that Python can import")
    script = read_script(path)
    default = path.resolve().parent.name if path.stem in ("train", "main", "run") else path.stem
    name = name or name_of(default)
    values = {
        "what": f"by {path.name}",
        "name": name,
        "description": f"Trained by {path.name}",
        "train": None,
        "data_folder": f"../data/{name}",
        "entry": path.name,
        "arguments": script.arguments,
        "epochs": None,
        "batch_size": script.batch_size or LARGEST_BATCH,
        "learning_rate": f"{script.learning_rate or 1e-3:g}",
        "precision": script.precision,
        "metric": "accuracy",
        "direction": "higher",
        "margin": 0.02,
        "relative": False,
    }
    copies = files_of(path.parent, f"workloads/{name}", [path, *script.beside])
    given = [] if data is None else _copied_data(data, name)
    placeholder = NewFile(f"data/{name}/README.txt", NO_DATA.encode())
    return Started(
        name=name,
        files=(
            NewFile(f"workloads/{name}.toml", rendered("program.toml", **values)),
            *copies,
            *(given or [placeholder]),
        ),
        told=(
            f"workloads/{name}/{path.name} is a copy, and what jobs run; {path} stays as it is",
            *_told_of_numbers(script.batch_size, script.learning_rate, script.precision),
        ),
        first=tuple(f"workloads/{name}/{path.name}, {line}" for line in script.advice),
    )


NO_DATA = """\
Put the files here that the training script reads: every job finds them in the folder that the
variable SM_CHANNEL_DATA names. A script that brings its own data can leave this file alone here.
"""


def name_of(text: str) -> str:
    """A workload's name made from any."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    name = name if name[:1].isalpha() else f"workload-{name}".strip("-")
    return name[:LONGEST_NAME].strip("-")


def _documents(name: str, path: Path, read: Rows, found: Documents, model: str | None) -> Started:
    needed = (found.text, found.label)
    split = split_of(path, read, needed=needed, same_by=(found.text,), spread_by=found.label)
    classes = {row[found.label] for row in split.train}
    if len(classes) < 2:
        raise InitError(
            f"{path}: column {found.label!r}: found {classes.pop()!r} in every row, allowed: two "
            "classes or more; --label COLUMN names another"
        )
    description = f"The {found.label} of {path.name}"
    values = {
        **_document_values(name, description, model, rows=len(split.train)),
        **split.values(name),
        "text": found.text,
        "label": found.label,
        "identifier": found.identifier,
        "sequence_length": _length([row[found.text] for row in split.train]),
        **_margin(len(split.validation)),
    }
    counted = f"{len(classes)} classes" if len(classes) > 2 else "two classes"
    told = f"learns {found.label!r} ({counted}) from the texts in {found.text!r}"
    return Started(
        name=name,
        files=(_declared(name, values), *split.files(name)),
        told=(*split.told, f"{told}; --text and --label say otherwise", split.sentence),
    )


def _table(name: str, path: Path, read: Rows, found: Table) -> Started:
    classes = found.task == "classes"
    split = split_of(
        path,
        read,
        needed=(found.target,),
        same_by=read.columns,
        spread_by=found.target if classes else None,
    )
    batch = min(TABLE_BATCH, _power_of_two(len(split.train) // 4))
    per_epoch = max(1, len(split.train) // batch)
    epochs = max(1, min(200, round(STEPS / per_epoch)))
    values = {
        "what": "a small network on a table",
        "name": name,
        "description": f"The {found.target} of {path.name}",
        **split.values(name),
        "entry": "train.py",
        "arguments": None,
        "epochs": epochs,
        "batch_size": batch,
        "learning_rate": "2e-3",
        "precision": None,
        "metric": "accuracy" if classes else "mse",
        "direction": "higher" if classes else "lower",
        "relative": not classes,
        **(_margin(len(split.validation)) if classes else {"margin": 0.05}),
        "target": found.target,
        "task": found.task,
        "numbers": found.numbers,
        "categories": found.categories,
    }
    inputs = len(found.numbers) + len(found.categories)
    left_out = f", without {', '.join(map(repr, found.left_out))}" if found.left_out else ""
    learns = f"learns {found.target!r} ({found.task}) from {inputs} columns{left_out}"
    return Started(
        name=name,
        files=(
            NewFile(f"workloads/{name}.toml", rendered("program.toml", **values)),
            NewFile(f"workloads/{name}/train.py", rendered("table_train.py", **values)),
            *split.files(name),
        ),
        told=(
            *split.told,
            f"{learns}; --label says otherwise",
            split.sentence,
            f"workloads/{name}/train.py trains a small network; it is yours to change",
        ),
    )


def _document_values(
    name: str, description: str, model: str | None, rows: int = 5485
) -> dict[str, Any]:
    """A small encoder, or the beginning of a fine-tuning."""
    batch = min(LARGEST_BATCH, max(SMALLEST_BATCH, _power_of_two(rows // 8)))
    epochs = max(1, min(40, round(STEPS / max(1, rows // batch))))
    return {
        "name": name,
        "description": description,
        "train": None,
        "sequence_length": 48,
        "model": model,
        "layers": 2,
        "hidden_size": 64,
        "batch_size": min(16, batch) if model else batch,
        "epochs": 3 if model else epochs,
        "learning_rate": "5e-5" if model else "1e-3",
        "averaging": "0.0 " if model else "0.99",
        **_margin(2189),
    }


def _declared(name: str, values: Mapping[str, Any]) -> NewFile:
    return NewFile(f"workloads/{name}.toml", rendered("documents.toml", **values))


def _margin(rows: int) -> dict[str, Any]:
    """What so many validation rows can show: a third of the accuracy's width by chance, or more."""
    margin = 0.02 if rows >= 1000 else 0.03 if rows >= 300 else 0.05
    return {"margin": margin, "margin_points": f"{100 * margin:g}"}


def _length(texts: Sequence[str]) -> int:
    """Tokens that hold 95% of the texts, as a multiple of eight from 16 to 128."""
    words = sorted(len(text.split()) for text in texts)
    tokens = 1.3 * words[int(0.95 * (len(words) - 1))] + 2
    return max(16, min(128, 8 * math.ceil(tokens / 8)))


def _power_of_two(number: int) -> int:
    return 1 << max(0, number.bit_length() - 1)


def _told_of_numbers(
    batch_size: int | None, learning_rate: float | None, precision: str | None
) -> list[str]:
    found = [
        f"batch size {batch_size}" if batch_size else "",
        f"rate {learning_rate:g}" if learning_rate else "",
        f"precision {precision}" if precision else "",
    ]
    missing = [
        what
        for what, value in (("batch_size", batch_size), ("learning_rate", learning_rate))
        if not value
    ]
    read = [each for each in found if each]
    told = [f"read from the script: {', '.join(read)}"] if read else []
    if missing:
        told.append(f"not found in the script: {' and '.join(missing)}; correct them in the arms")
    return told


def _copied_data(data: Path, name: str) -> list[NewFile]:
    if not data.exists():
        raise InitError(f"--data: {data} does not exist, allowed: a file or a folder")
    folder = data.parent if data.is_file() else data
    return files_of(folder, f"data/{name}", [data] if data.is_file() else sorted(data.iterdir()))
