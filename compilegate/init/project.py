"""The files of a project that begins with a table, a script, a model of the hub, or nothing yet.

What is chosen here stands in the workload's file with a comment: a model, epochs and a margin that
fit data of this size, so that the first run ends with a verdict in minutes.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import jinja2

from compilegate.built_in import IMAGE_FOLDERS
from compilegate.init.script import read_script
from compilegate.init.table import InitError, listed, read_table, roles_of
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
LONGEST_NAME = 40
NO_DATA = b"""\
Put the files here that the training script reads: every job finds them in the folder that the
variable SM_CHANNEL_DATA names. A script that brings its own data can leave this file alone here.
"""


@dataclass(frozen=True, kw_only=True)
class Started:
    """A workload that is about to be written."""

    name: str
    files: dict[str, bytes]
    """By their paths in the project's folder."""
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
    name = name or name_of(path.stem)
    table = read_table(path)
    roles = roles_of(table.columns, path.stem, text=text, label=label)
    if roles.text is None and model is not None:
        raise InitError(
            f"--model is given and {path} has no column of texts for it, expected one (--text "
            "COLUMN names it)"
        )
    train, validation = table.split(roles)
    cells = table.columns[roles.label].cells
    answers, held_back = ([cells[row] for row in part] for part in (train, validation))
    reached = f"a constant prediction reaches {_constant(roles.task, answers, held_back)}"
    values = {
        "description": f"The {roles.label} of {path.name}",
        "train": f"../data/{name}/train.csv",
        "validation": f"../data/{name}/validation.csv",
        "train_rows": f"{len(train):,}",
        "validation_rows": f"{len(validation):,}",
        "reached": reached,
        **_margin(len(validation)),
    }
    files = {
        f"data/{name}/train.csv": table.csv(train),
        f"data/{name}/validation.csv": table.csv(validation),
    }
    if roles.text is not None:
        texts = [table.columns[roles.text].cells[row] for row in train]
        values |= {"text": roles.text, "label": roles.label, "identifier": roles.identifier}
        values |= {"sequence_length": _length(texts)}
        files[f"workloads/{name}.toml"] = _documents(name, model, rows=len(train), **values)
        classes = f"{len(set(answers))} classes"
        learns = f"({classes}) from the texts in {roles.text!r}; --text and --label override this"
    else:
        batch = min(256, _power_of_two(len(train) // 4))
        values |= {
            "name": name, "what": "small networks on a table", "entry": "train.py",
            "epochs": max(10, round(TABLE_STEPS / (len(train) // batch))), "batch_size": batch,
            "learning_rate": "1e-2", "roles": roles, "task": roles.task,
        }  # fmt: skip
        files[f"workloads/{name}.toml"] = _rendered("program.toml", **values)
        files[f"workloads/{name}/train.py"] = _rendered("table_train.py", **values)
        inputs = len(roles.numbers) + len(roles.categories) + len(roles.dates)
        columns = f"{inputs} column{'s' * (inputs != 1)}"
        without = f", without {listed(roles.left_out)}" if roles.left_out else ""
        learns = f"({roles.task}) from {columns}{without}; --label overrides this"
    lacking = len(cells) - len(train) - len(validation)
    needed = " or ".join(repr(each) for each in (roles.text, roles.label) if each)
    notes = [
        *table.notes,
        *[f"{lacking:,} rows without {needed} are left out"] * bool(lacking),
        f"learns {roles.label!r} {learns}",
        f"{len(train):,} rows train, {len(validation):,} are held back to compare models",
        f"{reached} on those",
    ]
    return Started(name=name, files=files, notes=tuple(notes))


def with_built_in_data(model: str | None = None, *, name: str | None = None) -> Started:
    """A workload that runs as it stands; it fine-tunes `model` of the hub where one is named."""
    name = name or ("news-topics" if model is None else name_of(model.rstrip("/").split("/")[-1]))
    by_model = "" if model is None else f", by {model}"
    other = "`compilegate init FILE` begins with your table or script"
    if model is not None:
        other = "`compilegate init FILE --model MODEL` takes yours"
    written = _documents(name, model, description=f"Topic of a news story{by_model}")
    return Started(
        name=name,
        files={f"workloads/{name}.toml": written},
        notes=(f"the data are Reuters R8 for now; {other}",),
    )


def from_script(path: Path, *, name: str | None = None, data: Path | None = None) -> Started:
    """A workload that trains with a copy of a script, and of what it imports from beside itself.

    Raises InitError.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*\.py", path.name):
        raise InitError(f"SOURCE is {path.name!r}, expected a name that Python can import")
    script = read_script(path)
    default = path.resolve().parent.name if path.stem in ("train", "main", "run") else path.stem
    name = name or name_of(default)
    values = {
        "name": name, "what": f"by {path.name}", "description": f"Trained by {path.name}",
        "data_folder": f"../data/{name}", "entry": path.name, "arguments": script.arguments,
        "batch_size": script.batch_size or 32,
        "learning_rate": f"{script.learning_rate or 1e-3:g}", "precision": script.precision,
        **_margin(rows=1000),
    }  # fmt: skip
    given: dict[str, bytes] = {}
    if data is not None:
        base, taken = (data.parent, [data]) if data.is_file() else (data, data.iterdir())
        given = _copies(base, f"data/{name}", taken)
    folder = f"workloads/{name}"
    return Started(
        name=name,
        files={
            f"{folder}.toml": _rendered("program.toml", **values),
            **_copies(path.parent, folder, [path, *script.beside]),
            **(given or {f"data/{name}/README.txt": NO_DATA}),
        },
        notes=(
            f"{folder}/{path.name} is a copy of {path}; jobs run the copy",
            *script.notes,
        ),
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


def _documents(name: str, model: str | None, rows: int = 5485, **values: Any) -> bytes:
    """The workload's file of a small encoder, or of the beginning of a fine-tuning."""
    batch = min(16 if model else 32, max(4, _power_of_two(rows // 8)))
    epochs = 3 if model else max(1, min(40, round(DOCUMENT_STEPS / (rows // batch))))
    defaults = {"name": name, "model": model, "batch_size": batch, "epochs": epochs}
    defaults |= {"sequence_length": 48, **_margin(rows=2189)}
    return _rendered("documents.toml", **(defaults | values))


def _constant(task: str, train: Sequence[str], validation: Sequence[str]) -> str:
    """The metric of the one answer that is best for the training rows."""
    if task == "classes":
        commonest = Counter(train).most_common(1)[0][0]
        share = sum(each == commonest for each in validation) / len(validation)
        return f"an accuracy of {share:.3f}"
    mean = sum(map(float, train)) / len(train)
    error = sum((float(each) - mean) ** 2 for each in validation) / len(validation)
    return f"a mean squared error of {error:.4g}"


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
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    marks.filters |= {"toml": _toml, "python": repr}
    return marks.get_template(f"{template}.jinja").render(values).encode()


def _toml(value: str) -> str:
    """A string as TOML writes it: JSON's escapes are TOML's too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _copies(folder: Path, target: str, taken: Iterable[Path]) -> dict[str, bytes]:
    """Files and folders that lie in `folder`, by their paths below `target`."""
    paths = [path for place in taken for path in ([place] if place.is_file() else place.rglob("*"))]
    return {
        f"{target}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(paths)
        if path.is_file() and "__pycache__" not in path.parts
    }
