"""What `compilegate init TABLE.csv` makes of twelve tables that packages carry.

    pip install scikit-learn statsmodels palmerpenguins vega_datasets
    OMP_NUM_THREADS=1 python benchmarks/tables.py [TABLE ...]

Each table is written as a csv file, `init` makes a workload of it, and its script trains once by
itself. On the same rows and the same inputs, scikit-learn's logistic regression (of classes) or
ridge regression (of numbers) is trained, with its defaults and with the penalty that its
cross-validation finds. Prints a table in Markdown: the label that was found, the mean losses of the
rows held back (log loss, or squared error as a share of the label's variance), and by how many
standard errors of the paired row losses the written model is worse (negative: better).

The last four tables were not looked at before the rest was finished.
"""

from __future__ import annotations

import importlib
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from compilegate.init import UnclearLabelError, from_table, write_files

Array = np.ndarray[Any, np.dtype[Any]]
PROJECT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Source:
    """A table of a package, and its label where only a person can tell it."""

    package: str
    frame: Callable[[], Any]
    label: str | None = None


def _sklearn(name: str) -> Source:
    datasets = importlib.import_module("sklearn.datasets")
    return Source("scikit-learn", lambda: getattr(datasets, f"load_{name}")(as_frame=True).frame)


def _statsmodels(name: str, label: str | None = None) -> Source:
    def frame() -> Any:
        return importlib.import_module(f"statsmodels.datasets.{name}").load_pandas().data

    return Source("statsmodels", frame, label)


def _vega(name: str, label: str | None = None) -> Source:
    data = importlib.import_module("vega_datasets").local_data
    return Source("vega_datasets", getattr(data, name), label)


def sources() -> dict[str, Source]:
    """By the names of the files, which the label may share."""
    penguins = importlib.import_module("palmerpenguins")
    return {
        "breast-cancer": _sklearn("breast_cancer"),
        "wine": _sklearn("wine"),
        "diabetes": _sklearn("diabetes"),
        "affairs": _statsmodels("fair"),
        "election": _statsmodels("anes96", "vote"),
        "travel-choice": _statsmodels("modechoice"),
        "penguins": Source("palmerpenguins", penguins.load_penguins),
        "cars": _vega("cars", "Miles_per_Gallon"),
        # Not looked at before the last run.
        "digits": _sklearn("digits"),
        "doctor-visits": _statsmodels("randhie", "mdvis"),
        "weather": _vega("seattle_weather"),
        "barley": _vega("barley", "yield"),
    }


@dataclass(frozen=True)
class Trained:
    """The examples of a written script, and the inputs that it made of both files."""

    classes: bool
    wanted: Array
    losses: Array
    train: tuple[Array, Array]
    validation: Array


def train(folder: Path, name: str) -> Trained:
    """Run the written script by itself, and read what it leaves."""
    script = f"workloads/{name}/train.py"
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, script], cwd=folder, env=environment, capture_output=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{name}: the written script failed:\n{done.stderr.decode()}")
    program = runpy.run_path(str(folder / script), run_name="written")
    rows = [program["rows"](f"{part}.csv") for part in ("train", "validation")]
    inputs = program["Inputs"](rows[0])
    labels = [row[program["TARGET"]] for row in rows[0]]
    with np.load(folder / "compilegate-job/evidence/examples.npz") as examples:
        classes = examples["scores"].size > 0
        wanted = examples["labels" if classes else "targets"]
        losses = examples["losses"]
    known = sorted(set(labels))
    numbers = [known.index(each) if classes else float(each) for each in labels]
    train_rows, validation_rows = (inputs(each).numpy() for each in rows)
    return Trained(classes, wanted, losses, (train_rows, np.array(numbers)), validation_rows)


def row_losses(trained: Trained, answers: Array) -> Array:
    """The loss of each row, by the logarithms of its classes' probabilities, or its number."""
    if trained.classes:
        return -answers[np.arange(len(answers)), trained.wanted]
    return (answers - trained.wanted) ** 2


def regressions(trained: Trained) -> tuple[Array, Array]:
    """What regressions answer: the default one, and the one with a cross-validated penalty."""
    linear = importlib.import_module("sklearn.linear_model")
    if trained.classes:
        tuned = linear.LogisticRegressionCV(Cs=8, scoring="neg_log_loss", max_iter=2000)
        models = (linear.LogisticRegression(max_iter=2000), tuned)
        return tuple(
            model.fit(*trained.train).predict_log_proba(trained.validation) for model in models
        )
    models = (linear.Ridge(), linear.RidgeCV(np.logspace(-2, 4, 13)))
    return tuple(model.fit(*trained.train).predict(trained.validation) for model in models)


def constant(trained: Trained) -> Array:
    """What the training rows' mean, or their shares of classes, answer to every row."""
    values = trained.train[1]
    answer = np.log(np.bincount(values) / len(values)) if trained.classes else values.mean()
    return np.broadcast_to(answer, (len(trained.wanted), *np.shape(answer)))


def row(name: str, source: Source) -> str:
    """A row of the table in Markdown."""
    with tempfile.TemporaryDirectory() as work:
        path = Path(work, f"{name}.csv")
        source.frame().to_csv(path, index=False)
        try:
            started, found = from_table(path), "found"
        except UnclearLabelError:
            started, found = from_table(path, label=source.label), "asked for"
        project = Path(work, "project")
        write_files(started, project)
        trained = train(project, name)
        target = runpy.run_path(f"{project}/workloads/{name}/train.py")["TARGET"]
    unit = 1.0 if trained.classes else trained.train[1].var()
    ours = trained.losses / unit
    cells = [f"{row_losses(trained, constant(trained)).mean() / unit:.3f}", f"{ours.mean():.4f}"]
    for answers in regressions(trained):
        theirs = row_losses(trained, answers) / unit
        worse = ours - theirs
        error = worse.std(ddof=1) / len(worse) ** 0.5
        cells.append(f"{theirs.mean():.4f} ({worse.mean() / error:+.1f})")
    rows = len(trained.train[1]) + len(ours)
    return " | ".join(["", name, source.package, f"{rows:,}", f"`{target}`, {found}", *cells, ""])


def main() -> None:
    print("| table | package | rows | label | constant | written model | regression | tuned |")
    print("|---|---|---|---|---|---|---|---|")
    for name, source in sources().items():
        if not sys.argv[1:] or name in sys.argv[1:]:
            print(row(name, source).strip(), flush=True)


if __name__ == "__main__":
    main()
