"""Compare what `compilegate init TABLE.csv` makes with scikit-learn, on twelve packaged tables.

    pip install scikit-learn statsmodels palmerpenguins vega_datasets
    OMP_NUM_THREADS=1 python -m benchmarks.tables [--write] [TABLE ...]

Each table is written as a csv file, `init` makes a workload of it, and its script trains once by
itself. The peers are trained on the same rows and inputs: scikit-learn's logistic regression (of
classes) or ridge regression (of numbers), with its defaults and with the penalty that its
cross-validation finds. Losses are means over the rows held back: log loss, or squared error as a
share of the label's variance. In brackets: by how many standard errors of the paired row losses the
written model is worse (negative: better).
"""

from __future__ import annotations

import importlib
import runpy
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks import results
from benchmarks.timing import ONE_THREAD, run
from compilegate.init.project import from_table, write_files
from compilegate.init.table import UnclearLabelError

Array = npt.NDArray[Any]


class Source(NamedTuple):
    """A table of a package, and its label where only a person can choose it."""

    package: str
    name: str
    label: str | None = None


SOURCES = {
    "breast-cancer": Source("scikit-learn", "breast_cancer"),
    "wine": Source("scikit-learn", "wine"),
    "diabetes": Source("scikit-learn", "diabetes"),
    "affairs": Source("statsmodels", "fair"),
    "election": Source("statsmodels", "anes96", "vote"),
    "travel-choice": Source("statsmodels", "modechoice"),
    "penguins": Source("palmerpenguins", "penguins"),
    "cars": Source("vega_datasets", "cars", "Miles_per_Gallon"),
    # Not looked at before the last run.
    "digits": Source("scikit-learn", "digits"),
    "doctor-visits": Source("statsmodels", "randhie", "mdvis"),
    "weather": Source("vega_datasets", "seattle_weather"),
    "barley": Source("vega_datasets", "barley", "yield"),
}
"""By the names of the files, which the label may share."""
FRAMES: dict[str, Callable[[str], Any]] = {
    "scikit-learn": lambda name: (
        getattr(_module("sklearn.datasets"), f"load_{name}")(as_frame=True).frame
    ),
    "statsmodels": lambda name: _module(f"statsmodels.datasets.{name}").load_pandas().data,
    "palmerpenguins": lambda name: _module("palmerpenguins").load_penguins(),
    "vega_datasets": lambda name: getattr(_module("vega_datasets").local_data, name)(),
}


def _module(name: str) -> Any:
    return importlib.import_module(name)


@dataclass(frozen=True)
class TrainedScript:
    """The examples of a written script, and the inputs that it made of both files."""

    target: str
    classes: bool
    wanted: Array
    losses: Array
    train: tuple[Array, Array]
    validation: Array

    def losses_of(self, answers: Array) -> Array:
        """The loss of each row, by the logarithms of its classes' probabilities, or its number."""
        if self.classes:
            return -answers[np.arange(len(answers)), self.wanted]
        return (answers - self.wanted) ** 2

    def peers(self) -> list[Array]:
        """The answers of both regressions: by default, and with a cross-validated penalty."""
        linear = _module("sklearn.linear_model")
        if self.classes:
            tuned = linear.LogisticRegressionCV(Cs=8, scoring="neg_log_loss", max_iter=2000)
            models = linear.LogisticRegression(max_iter=2000), tuned
            return [each.fit(*self.train).predict_log_proba(self.validation) for each in models]
        models = linear.Ridge(), linear.RidgeCV(np.logspace(-2, 4, 13))
        return [each.fit(*self.train).predict(self.validation) for each in models]

    def constant(self) -> Array:
        """The training rows' mean, or their shares of classes, for every row."""
        values = self.train[1]
        answer = np.log(np.bincount(values) / len(values)) if self.classes else values.mean()
        return np.broadcast_to(answer, (len(self.wanted), *np.shape(answer)))


def train(folder: Path, name: str) -> TrainedScript:
    """Run the written script by itself, and read its evidence."""
    script = str(folder / "workloads" / name / "train.py")
    run([sys.executable, script], ONE_THREAD, folder=folder)
    program = runpy.run_path(script, run_name="written")
    rows = [program["rows"](f"{part}.csv") for part in ("train", "validation")]
    inputs = program["Inputs"](rows[0])
    labels = [row[program["TARGET"]] for row in rows[0]]
    with np.load(folder / "compilegate-job/evidence/examples.npz") as examples:
        classes = examples["scores"].size > 0
        wanted = examples["labels" if classes else "targets"]
        losses = examples["losses"]
    known = sorted(set(labels))
    numbers = np.array([known.index(each) if classes else float(each) for each in labels])
    trained, validation = (inputs(each).numpy() for each in rows)
    return TrainedScript(program["TARGET"], classes, wanted, losses, (trained, numbers), validation)


def row(name: str, source: Source) -> list[str]:
    """A table's cells."""
    with tempfile.TemporaryDirectory() as work:
        path, project = Path(work, f"{name}.csv"), Path(work, "project")
        FRAMES[source.package](source.name).to_csv(path, index=False)
        try:
            started, chosen = from_table(path), "found"
        except UnclearLabelError:
            started, chosen = from_table(path, label=source.label), "given"
        write_files(started, project)
        trained = train(project, name)
    unit = 1.0 if trained.classes else trained.train[1].var()
    ours = trained.losses / unit
    constant = trained.losses_of(trained.constant()).mean() / unit
    cells = [f"{constant:.3f}", f"{ours.mean():.4f}"]
    for answers in trained.peers():
        theirs = trained.losses_of(answers) / unit
        worse = ours - theirs
        error = worse.std(ddof=1) / len(worse) ** 0.5
        cells.append(f"{theirs.mean():.4f} ({worse.mean() / error:+.1f})")
    count = len(trained.train[1]) + len(ours)
    return [name, source.package, f"{count:,}", f"`{trained.target}`, {chosen}", *cells]


def main() -> None:
    """Measure and print."""
    parser = results.parser(__doc__)
    parser.add_argument("tables", nargs="*", default=list(SOURCES), metavar="TABLE")
    options = parser.parse_args()
    rows = [row(name, SOURCES[name]) for name in options.tables]
    columns = ["table", "package", "rows", "label", "constant", "written model", "regression"]
    results.publish("tables", [*columns, "tuned"], rows, to_file=options.write)


if __name__ == "__main__":
    main()
