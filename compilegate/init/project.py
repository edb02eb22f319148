"""The files of a project that begins with a table, a script, a model of the hub, or nothing yet.

What is chosen here stands in the workload's file with a comment: a model, epochs and a margin that
fit data of this size, so that the first run ends with a verdict in minutes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import jinja2

from compilegate.built_in import IMAGE_FOLDERS
from compilegate.init.script import read_script
from compilegate.init.table import InitError, Roles, read_table, roles
from compilegate.job.files import write_bytes
from compilegate.workload.schema import schema_text

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
FEWEST_TABLE_EPOCHS = 10
LARGEST_BATCH, SMALLEST_BATCH, TABLE_BATCH = 32, 4, 256
LONGEST_NAME = 40
NO_DATA = """\
Put the files here that the training script reads: every job finds them in the folder that the
variable SM_CHANNEL_DATA names. A script that brings its own data can leave this file alone here.
"""


@dataclass(frozen=True, kw_only=True)
class Started:
    """A workload that is about to be written."""

    name: str
    files: dict[str, bytes]
    """By their paths in the project's folder."""
    told: tuple[str, ...] = ()
    """What was decided for whoever asked, a sentence each."""
    first: tuple[str, ...] = ()
    """What has to be done by hand before it can run."""


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
    Raises InitError, UnclearLabelError where several columns could be the label.
    """
    name = name or name_of(path.stem)
    table = read_table(path)
    found = roles(table.described(), path.stem, text=text, label=label)
    if found.text is None and model is not None:
        raise InitError(
            f"--model: found no column of texts in {path}, which a model of the hub reads, "
            "allowed: a table with one (--text COLUMN names it)"
        )
    spread = found.label if found.task == "classes" else None
    needed, same_by = [found.label], list(table.columns)
    if found.text is not None:
        needed, same_by = [found.text, found.label], [found.text]
    train, validation, left_out = table.split(needed=needed, same_by=same_by, spread_by=spread)
    classes = {row[found.label] for row in train}
    if len(classes) < 2:
        raise InitError(
            f"{path}: column {found.label!r}: found {classes.pop()!r} in every row, allowed: two "
            "classes or more; --label COLUMN names another"
        )
    values = {
        "description": f"The {found.label} of {path.name}",
        "train": f"../data/{name}/train.csv",
        "validation": f"../data/{name}/validation.csv",
        "train_rows": f"{len(train):,}",
        "validation_rows": f"{len(validation):,}",
        **_margin(len(validation)),
    }
    if found.text is not None:
        values |= {"text": found.text, "label": found.label, "identifier": found.identifier}
        values |= {"sequence_length": _length([row[found.text] for row in train])}
        files = {f"workloads/{name}.toml": _documents(name, values, model, rows=len(train))}
        counted = f"{len(classes)} classes" if len(classes) > 2 else "two classes"
        learns = f"learns {found.label!r} ({counted}) from the texts in {found.text!r}"
        told = (f"{learns}; --text and --label say otherwise",)
    else:
        files, told = _program_of_table(name, found, values, len(train))
    split = f"{len(train):,} rows train, {len(validation):,} are held back to compare models"
    parts = {"train": train, "validation": validation}
    files |= {f"data/{name}/{part}.csv": table.csv(rows) for part, rows in parts.items()}
    sentences = (*table.told, left_out, *told, split)
    return Started(name=name, files=files, told=tuple(each for each in sentences if each))


def with_built_in_data(model: str | None = None, *, name: str | None = None) -> Started:
    """A workload that runs as it stands; it fine-tunes `model` of the hub where one is named."""
    name = name or ("news-topics" if model is None else name_of(model.rstrip("/").split("/")[-1]))
    by_model = "" if model is None else f", by {model}"
    values = {"description": f"Topic of a news story{by_model}"}
    other = "`compilegate init FILE` begins with your table or script"
    if model is not None:
        other = "`compilegate init FILE --model MODEL` takes yours"
    return Started(
        name=name,
        files={f"workloads/{name}.toml": _documents(name, values, model)},
        told=(f"the data are Reuters R8 for now; {other}",),
    )


def from_script(path: Path, *, name: str | None = None, data: Path | None = None) -> Started:
    """A workload that trains with a copy of a script, and of what it imports from beside itself.

    Raises InitError.
    """
    if not path.is_file():
        raise InitError(f"SOURCE: {path} is not a file, allowed: a Python script")
    if not re.fullmatch(r"[A-Za-z_]\w*\.py", path.name):
        raise InitError(f"SOURCE: found {path.name!r}, allowed: a name that Python can import")
    if data is not None and not data.exists():
        raise InitError(f"--data: {data} does not exist, allowed: a file or a folder")
    script = read_script(path)
    default = path.resolve().parent.name if path.stem in ("train", "main", "run") else path.stem
    name = name or name_of(default)
    values = {
        "name": name,
        "what": f"by {path.name}",
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
    given = {f"data/{name}/README.txt": NO_DATA.encode()}
    if data is not None and data.is_file():
        given = _copies(data.parent, f"data/{name}", [data])
    elif data is not None:
        given = _copies(data, f"data/{name}", sorted(data.iterdir())) or given
    return Started(
        name=name,
        files={
            f"workloads/{name}.toml": _rendered("program.toml", **values),
            **_copies(path.parent, f"workloads/{name}", [path, *script.beside]),
            **given,
        },
        told=(
            f"workloads/{name}/{path.name} is a copy, and what jobs run; {path} stays as it is",
            *script.told,
        ),
        first=tuple(f"workloads/{name}/{path.name}, {line}" for line in script.advice),
    )


def write_files(started: Started, folder: Path) -> tuple[list[str], list[str]]:
    """Write the workload's files, and those around it that are missing.

    Returns the paths that were written, and those that the folder had. Raises InitError, having
    written nothing, where a file of the workload exists.
    """
    there = [path for path in started.files if (folder / path).exists()]
    if there:
        raise InitError(
            *(
                f"{folder / path}: exists, allowed: a new name (--name), since nothing is "
                "overwritten"
                for path in there
            )
        )
    values = {"name": started.name, "version": metadata.version("compilegate")}
    around = {"workloads/workload.schema.json": schema_text().encode()}
    around |= {path: _rendered(template, **values) for path, template in ONCE.items()}
    for image in IMAGES:
        around |= _copies(IMAGE_FOLDERS, "containers", [IMAGE_FOLDERS / image])
    kept = [path for path in around if (folder / path).exists()]
    written = [path for path in (*started.files, *around) if path not in kept]
    for path in written:
        write_bytes(folder / path, (started.files | around)[path])
    return written, kept


def name_of(text: str) -> str:
    """A workload's name made from any."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    name = name if name[:1].isalpha() else f"workload-{name}".strip("-")
    return name[:LONGEST_NAME].strip("-")


def _program_of_table(
    name: str, found: Roles, values: dict[str, Any], rows: int
) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """The workload's file and a training script, with sentences on them."""
    classes = found.task == "classes"
    batch = min(TABLE_BATCH, _power_of_two(rows // 4))
    values = {
        "margin": 0.05,
        **(values if classes else {key: values[key] for key in values if "margin" not in key}),
        "name": name,
        "what": "small networks on a table",
        "entry": "train.py",
        "arguments": None,
        "epochs": max(FEWEST_TABLE_EPOCHS, round(TABLE_STEPS / (rows // batch))),
        "batch_size": batch,
        "learning_rate": "1e-2",
        "precision": None,
        "metric": "accuracy" if classes else "mse",
        "direction": "higher" if classes else "lower",
        "relative": not classes,
        "target": found.label,
        "task": found.task,
        "numbers": found.numbers,
        "categories": found.categories,
        "dates": found.dates,
    }
    inputs = len(found.numbers) + len(found.categories) + len(found.dates or ())
    left_out = f", without {', '.join(map(repr, found.left_out))}" if found.left_out else ""
    learns = f"learns {found.label!r} ({found.task}) from {inputs} columns{left_out}"
    files = {
        f"workloads/{name}.toml": _rendered("program.toml", **values),
        f"workloads/{name}/train.py": _rendered("table_train.py", **values),
    }
    script = f"workloads/{name}/train.py trains small networks; it is yours to change"
    return files, (f"{learns}; --label says otherwise", script)


def _documents(name: str, values: dict[str, Any], model: str | None, rows: int = 5485) -> bytes:
    """The workload's file of a small encoder, or of the beginning of a fine-tuning."""
    batch = min(LARGEST_BATCH, max(SMALLEST_BATCH, _power_of_two(rows // 8)))
    epochs = max(1, min(40, round(DOCUMENT_STEPS / max(1, rows // batch))))
    defaults = {
        "name": name,
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
    return _rendered("documents.toml", **(defaults | values))


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


def _rendered(template: str, **values: Any) -> bytes:
    # Other marks than jinja's own, which GitHub's workflows use.
    marks = jinja2.Environment(
        loader=jinja2.PackageLoader("compilegate.init"),
        autoescape=jinja2.select_autoescape(),
        undefined=jinja2.StrictUndefined,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    marks.filters |= {"toml": _toml, "python": repr}
    return marks.get_template(f"{template}.jinja").render(values).encode()


def _toml(value: str) -> str:
    """A string as TOML writes it: JSON's escapes are TOML's too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _copies(folder: Path, target: str, taken: Sequence[Path]) -> dict[str, bytes]:
    """Files and folders that lie in `folder`, by their paths below `target`."""
    paths = [path for place in taken for path in ([place] if place.is_file() else place.rglob("*"))]
    return {
        f"{target}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(paths)
        if path.is_file() and "__pycache__" not in path.parts
    }
