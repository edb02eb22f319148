"""The files of a project that begins with a table, a script, a model of the hub, or nothing yet.

What is chosen here stands in the workload's file with a comment: a model, epochs and a margin that
fit data of this size, so that the first run ends with a verdict in minutes.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import jinja2

from compilegate.built_in import IMAGE_FOLDERS
from compilegate.init.script import read_script
from compilegate.init.table import InitError, listed, read_table, roles_of
from compilegate.job.files import write_bytes
from compilegate.workload.json_schema import schema_text

IMAGES = ("gate", "training")
"""What jobs with `eager` and `inductor`, and the gate, run in."""
ONCE = {
    "infra/settings.toml": "settings.toml",
    "cdk.json": "cdk.json",
    "package.json": "package.json",
    "requirements.txt": "requirements.txt",
    ".gitignore": "gitignore",
    ".github/workflows/compilegate.yml": "workflow.yml",
}
"""The template of each file that a project has once."""
DOCUMENT_STEPS, TABLE_STEPS = 1200, 600
"""Training steps of a job: enough to learn something, and to repay a compilation."""
LONGEST_NAME = 40


@dataclass(frozen=True, kw_only=True)
class Started:
    """A workload that is about to be written."""

    name: str
    files: dict[str, bytes]
    """File contents by path in the project's folder."""
    notes: tuple[str, ...] = ()
    """What was decided, a sentence each."""
    by_hand: tuple[str, ...] = ()
    """What has to be done before it can run."""


def from_table(
    path: Path,
    *,
    name: str | None = None,
    text: str | None = None,
    label: str | None = None,
    model: str | None = None,
) -> Started:
    """A workload that learns what a csv, tsv, jsonl or parquet file holds.

    With a column of texts the built-in program classifies them, starting from `model` of the hub
    where one is named. Without one, a script that is the user's learns a column from the others.
    Raises InitError, UnclearLabelError where several columns could be the label.
    """
    name = name_of(name or path.stem)
    table = read_table(path)
    roles = roles_of(table.columns, path.stem, text=text, label=label)
    if roles.text is None and model is not None:
        raise InitError(
            f"--model is given and {path} has no column of texts for it, expected one (--text "
            "COLUMN names it)"
        )
    train, validation = table.split(roles)
    cells = table.columns[roles.label].cells
    answers = [cells[row] for row in train]
    best = _constant(roles.task, answers, [cells[row] for row in validation])
    values = {
        "name": name, "description": f"The {roles.label} of {path.name}", "roles": roles,
        "train_rows": len(train), "validation_rows": len(validation),
        "reached": f"a constant prediction reaches {best}",
    }  # fmt: skip
    files = {
        f"data/{name}/train.csv": table.csv(train),
        f"data/{name}/validation.csv": table.csv(validation),
    }
    if roles.text is not None:
        texts = [table.columns[roles.text].cells[row] for row in train]
        values |= _documents(model, len(train), _length(texts))
        classes = f"{len(set(answers))} classes"
        learns = f"({classes}) from the texts in {roles.text!r}; --text and --label override this"
    else:
        batch, epochs = _batches(len(train), parts=4, most=256, steps=TABLE_STEPS)
        values |= {
            "what": "small networks on a table", "entry": "train.py", "learning_rate": "1e-2",
            "batch_size": batch, "epochs": max(10, epochs),
        }  # fmt: skip
        files[f"workloads/{name}/train.py"] = _rendered("table_train.py", values)
        inputs = len(roles.numbers) + len(roles.categories) + len(roles.dates)
        columns = f"{inputs} column{'s' * (inputs != 1)}"
        without = f", without {listed(roles.left_out)}" if roles.left_out else ""
        learns = f"({roles.task}) from {columns}{without}; --label overrides this"
    files[f"workloads/{name}.toml"] = _rendered("workload.toml", values)
    lacking = len(cells) - len(train) - len(validation)
    needed = " or ".join(repr(each) for each in (roles.text, roles.label) if each)
    notes = [
        *table.notes,
        *[f"{lacking:,} rows without {needed} are left out"] * bool(lacking),
        f"learns {roles.label!r} {learns}",
        f"{len(train):,} rows train, {len(validation):,} are held back to compare models",
        f"{values['reached']} on those",
    ]
    return Started(name=name, files=files, notes=tuple(notes))


def with_built_in_data(model: str | None = None, *, name: str | None = None) -> Started:
    """A workload that runs as it stands; it fine-tunes `model` of the hub where one is named."""
    name = name_of(name or (model or "news-topics").rstrip("/").rpartition("/")[2])
    by, of = ("", "") if model is None else (f", by {model}", " --model MODEL")
    values = {"name": name, "description": f"Topic of a news story{by}", **_documents(model)}
    return Started(
        name=name,
        files={f"workloads/{name}.toml": _rendered("workload.toml", values)},
        notes=(f"the data are Reuters R8 for now; `compilegate init FILE{of}` begins with yours",),
    )


def from_script(path: Path, *, name: str | None = None, data: Path | None = None) -> Started:
    """A workload that trains with a copy of a script, and of what it imports from beside itself.

    Raises InitError.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*\.py", path.name):
        raise InitError(f"SOURCE is {path.name!r}, expected a name that Python can import")
    script = read_script(path)
    default = path.resolve().parent.name if path.stem in ("train", "main", "run") else path.stem
    name = name_of(name or default)
    values = {
        "name": name, "what": f"by {path.name}", "description": f"Trained by {path.name}",
        "entry": path.name, "arguments": script.arguments, "batch_size": 32, "learning_rate": 1e-3,
        **script.settings,
    }  # fmt: skip
    places = [] if data is None else [data] if data.is_file() else data.iterdir()
    given = _copies(f"data/{name}", places)
    folder = f"workloads/{name}"
    return Started(
        name=name,
        files={
            f"{folder}.toml": _rendered("workload.toml", values),
            **_copies(folder, [path, *script.beside]),
            **(given or {f"data/{name}/README.txt": _rendered("data.txt", values)}),
        },
        notes=(f"{folder}/{path.name} is a copy of {path}; jobs run the copy", *script.notes),
        by_hand=tuple(f"{folder}/{path.name}, {line}" for line in script.advice),
    )


def write_files(started: Started, folder: Path) -> tuple[list[str], list[str]]:
    """Write the workload's files, and those around it that are missing.

    Returns the paths that were written, and those that the folder had. Raises InitError, having
    written nothing, where a file of the workload exists.
    """
    there = [folder / path for path in started.files if (folder / path).exists()]
    if there:
        raise InitError(*(f"{path} exists; --name NAME begins another workload" for path in there))
    values = {"name": started.name, "version": metadata.version("compilegate")}
    around = {"workloads/workload.schema.json": schema_text().encode()}
    around |= {path: _rendered(template, values) for path, template in ONCE.items()}
    around |= _copies("containers", [IMAGE_FOLDERS / image for image in IMAGES])
    existing = [path for path in around if (folder / path).exists()]
    written = [path for path in (*started.files, *around) if path not in existing]
    for path in written:
        write_bytes(folder / path, (started.files | around)[path])
    return written, existing


def name_of(text: str) -> str:
    """A workload's name made from any."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    name = name if name[:1].isalpha() else f"workload-{name}".strip("-")
    return name[:LONGEST_NAME].strip("-")


def _documents(model: str | None, rows: int = 5485, length: int = 48) -> dict[str, Any]:
    """What a workload's file holds of a small encoder, or of the beginning of a fine-tuning."""
    batch, epochs = _batches(rows, parts=8, most=16 if model else 32, steps=DOCUMENT_STEPS)
    return {
        "what": "a classifier of documents", "model": model, "batch_size": batch,
        "learning_rate": "5e-5" if model else "1e-3", "sequence_length": length,
        "epochs": 3 if model else min(40, epochs),
    }  # fmt: skip


def _batches(rows: int, *, parts: int, most: int, steps: int) -> tuple[int, int]:
    """A power of two that leaves so many batches or more, and epochs that make so many steps."""
    size = min(most, 1 << max(0, (rows // parts).bit_length() - 1))
    return size, max(1, round(steps / (rows // size)))


def _constant(task: str, train: Sequence[str], validation: Sequence[str]) -> str:
    """The metric of the one answer that is best for the training rows."""
    if task == "classes":
        commonest = statistics.mode(train)
        share = statistics.fmean(each == commonest for each in validation)
        return f"an accuracy of {share:.3f}"
    mean = statistics.fmean(map(float, train))
    error = statistics.fmean((float(each) - mean) ** 2 for each in validation)
    return f"a mean squared error of {error:.4g}"


def _length(texts: Sequence[str]) -> int:
    """Tokens that hold 95% of the texts, as a multiple of eight from 16 to 128."""
    words = sorted(len(text.split()) for text in texts)
    tokens = 1.3 * words[int(0.95 * (len(words) - 1))] + 2
    return max(16, min(128, 8 * math.ceil(tokens / 8)))


def _rendered(template: str, values: Mapping[str, Any]) -> bytes:
    # Other marks than jinja's own, which GitHub's workflows use.
    marks = jinja2.Environment(
        loader=jinja2.PackageLoader("compilegate.init"),
        autoescape=jinja2.select_autoescape(),
        undefined=jinja2.StrictUndefined,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    marks.filters |= {"toml": _toml, "python": repr}
    return marks.get_template(f"{template}.jinja").render(values).encode()


def _toml(value: str) -> str:
    """A string as TOML writes it: JSON's escapes are TOML's too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _copies(target: str, places: Iterable[Path]) -> dict[str, bytes]:
    """Files, and folders with all that they hold, by their paths below `target`."""
    return {
        f"{target}/{path.relative_to(place.parent).as_posix()}": path.read_bytes()
        for place in places
        for path in sorted([place, *place.rglob("*")])
        if path.is_file() and "__pycache__" not in path.parts
    }
