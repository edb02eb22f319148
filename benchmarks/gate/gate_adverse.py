"""The designs that a bound is fooled by most easily: what passes at the margin, and at no harm.

    .venv/bin/python benchmarks/gate/gate_adverse.py [--experiments 200] [--keep FOLDER]
                                                     [--write FILE.md] [PART OF A NAME]

Rows that repeat others, seeds that diverge, harm in few seeds, in few rows or with a tail that has
no variance, areas under curves of few positives, jobs that stall. Every candidate is worse by
exactly the margin in the population, or exactly as good. Some of these no rule can tell apart with
so few seeds or rows; the table says what stays open. With `--keep` a run that was cut short goes on
where it stopped (`gate_kept`).
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy
from gate_adverse_speed import adverse_speeds
from gate_kept import KEPT
from gate_simulation import rate, table
from scipy.special import expit, ndtri

from compilegate.gate.quality.compared_arms import Replicates, compare_arms
from compilegate.gate.quality.comparison import arm_scores, compare_scores
from compilegate.gate.quality.noninferiority import outcome_of
from compilegate.gate.reasons import Outcome
from compilegate.gate.settings import GateSettings, MetricGuard
from compilegate.gate.statistics.lopsided import HarmTail
from compilegate.job import Examples

FloatArray = npt.NDArray[np.float64]
Generator = np.random.Generator
Draw = Callable[[Generator, float], tuple[list[Examples], list[Examples]]]
Arms = tuple[list[Examples], list[Examples]]

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Adverse:
    """One kind of experiment: `draw(generator, harm)` with the harm in margins."""

    name: str
    metric: str
    guard: MetricGuard
    seeds: int
    rows: int
    draw: Draw
    open: str = ""
    """Why no rule can tell at this size, where none can."""


def adverse_designs() -> Iterator[Adverse]:
    """Every row of the table."""
    yield from _repeated_rows()
    yield from _diverging_seeds()
    yield from _areas()
    yield from _rare_harm()
    yield from _heavy_tails()


def verdicts(design: Adverse, harm: float, count: int, stream: int) -> Counter[str]:
    """Outcomes of `count` experiments, by the gate and by its bound on single rows `without` what
    this page is about; `stream` seeds the random numbers."""
    generator = np.random.default_rng([stream, count])
    settings = GateSettings(metrics={design.metric: design.guard})
    found: Counter[str] = Counter()
    for _ in range(count):
        before, after = design.draw(generator, harm)
        quality = compare_arms(settings, _replicates(before), {"compiled": _replicates(after)}, {})
        compared = quality["compiled"].comparisons[0]
        found[f"gate {outcome_of(compared, CONFIDENCE)}"] += 1
        arms = [replace(arm_scores(design.metric, arm), worst=0.0) for arm in (before, after)]
        plain = compare_scores(design.metric, design.guard, *arms)
        plain = replace(plain, tail=HarmTail(), by_units=None)
        found[f"without {outcome_of(plain, CONFIDENCE)}"] += 1
    return found


def _kept_verdicts(design: Adverse, harm: float, count: int, stream: int) -> Counter[str]:
    name = f"{design.name}, {design.rows} rows, {design.seeds} seeds, {harm}, {count}, {stream}"
    return KEPT.counts(name, lambda: verdicts(design, harm, count, stream))


def adverse_scores(count: int, stream: Iterator[int], only: str = "") -> str:
    """The table of quality, with `count` experiments per design and true harm."""
    rows = []
    for design in adverse_designs():
        number = next(stream)
        if only and only not in design.name:
            continue
        margin, none = (_kept_verdicts(design, harm, count, number) for harm in (1.0, 0.0))
        rows.append(
            (
                design.name,
                f"{design.rows:,}",
                f"{design.seeds}",
                rate(margin[f"gate {Outcome.PASS}"], count),
                rate(margin[f"without {Outcome.PASS}"], count),
                rate(none[f"gate {Outcome.PASS}"], count),
                rate(none[f"without {Outcome.PASS}"], count),
                rate(none[f"gate {Outcome.FAIL}"], count),
                design.open,
            )
        )
    header = (
        "Design",
        "Rows",
        "Seeds",
        "gate: false pass",
        "without: false pass",
        "gate: correct pass at no harm",
        "without: correct pass at no harm",
        "gate: false fail",
        "What stays open",
    )
    return table(header, rows)


def _replicates(arm: list[Examples]) -> Replicates:
    return Replicates(examples=arm, reported=[{} for _ in arm])


def _guard(direction: str, margin: float, *, relative: bool = False) -> MetricGuard:
    return MetricGuard(direction=direction, margin=margin, relative=relative)


def _ids(rows: int) -> npt.NDArray[np.str_]:
    return np.arange(rows).astype(np.str_)


def _classified(correct: npt.NDArray[np.bool_], sure: FloatArray) -> Examples:
    """Two classes; right where `correct` is true, with a probability of `sure`."""
    rows = len(correct)
    labels = np.arange(rows) % 2
    of_label = np.where(correct, sure, 1.0 - sure)
    scores = np.empty((rows, 2))
    scores[np.arange(rows), labels] = of_label
    scores[np.arange(rows), 1 - labels] = 1.0 - of_label
    return Examples(_ids(rows), labels, scores, -np.log(of_label))


def _lossy(losses: FloatArray) -> Examples:
    rows = len(losses)
    return Examples(_ids(rows), np.zeros(rows, np.int64), np.empty((rows, 0)), losses)


def _predicted(targets: FloatArray, predictions: FloatArray) -> Examples:
    rows = len(targets)
    none = np.zeros(rows, np.int64)
    return Examples(
        _ids(rows), none, np.empty((rows, 0)), (targets - predictions) ** 2, targets, predictions
    )


def _repeated_rows() -> Iterator[Adverse]:
    margin, group = 0.02, 10

    def drawn(rows: int, seeds: int, *, told: bool, shuffled: bool) -> Draw:
        def draw(generator: Generator, harm: float) -> Arms:
            units = rows // group
            order = generator.permutation(rows) if shuffled else np.arange(rows)
            easy = generator.random(units) < 0.92
            lost = generator.random(units) < harm * margin / 0.92

            def arm(*, candidate: bool) -> list[Examples]:
                made = []
                for _ in range(seeds):
                    right = easy ^ (generator.random(units) < 0.01)
                    right &= ~(lost & candidate)
                    sure = generator.uniform(0.55, 0.999, units) if told else np.full(units, 0.9)
                    made.append(
                        _classified(np.repeat(right, group)[order], np.repeat(sure, group)[order])
                    )
                return made

            return arm(candidate=False), arm(candidate=True)

        return draw

    for rows, seeds in itertools.product((500, 2000, 20_000), (2, 3, 10)):
        yield Adverse(
            "rows in groups of 10, equal outputs",
            "accuracy", _guard("higher", margin), seeds, rows,
            drawn(rows, seeds, told=True, shuffled=True),
        )  # fmt: skip
    for rows, seeds in itertools.product((500, 2000), (2, 10)):
        yield Adverse(
            "rows in groups of 10, side by side, scores of two values",
            "accuracy", _guard("higher", margin), seeds, rows,
            drawn(rows, seeds, told=False, shuffled=False),
        )  # fmt: skip


def _with_seed_harm(
    seeds: int, rows: int, noise: float, harm_of: Callable[[Generator, float], FloatArray]
) -> Draw:
    """Losses around one, whose arms differ by seed: harm in margins of 0.03."""

    def draw(generator: Generator, harm: float) -> Arms:
        shared = generator.lognormal(0.0, 0.3, rows)

        def arm(shifts: FloatArray) -> list[Examples]:
            moved = shifts + noise * generator.standard_normal(seeds)
            return [
                _lossy(shared * generator.lognormal(0.0, 0.02, rows) + 0.03 * shift)
                for shift in moved
            ]

        return arm(np.zeros(seeds)), arm(harm * harm_of(generator, seeds))

    return draw


def _diverging_seeds() -> Iterator[Adverse]:
    guard, rows = _guard("lower", 0.03), 2000

    def diverge(share: float) -> Callable[[Generator, int], FloatArray]:
        return lambda generator, seeds: (generator.random(seeds) < share) / share

    def lognormal(generator: Generator, seeds: int) -> FloatArray:
        return generator.lognormal(-(1.5**2) / 2, 1.5, seeds)

    kinds = (
        ("one of ten seeds diverges", diverge(0.1), 0.1, (3, 29)),
        ("one of five seeds diverges", diverge(0.2), 0.2, (3, 14)),
        ("half of the seeds lose two margins", diverge(0.5), 0.5, (2, 3, 5)),
        ("log-normal harm of seeds", lognormal, None, (3, 5, 10)),
    )
    for name, harm_of, share, counts in kinds:
        for seeds in counts:
            missed = "" if share is None else f"{(1 - share) ** seeds:.0%} meet no such seed"
            yield Adverse(
                name, "log_loss", guard, seeds, rows,
                _with_seed_harm(seeds, rows, 0.1, harm_of), missed,
            )  # fmt: skip
    for noise, seeds in itertools.product((0.1, 0.4), (3, 5, 10)):
        yield Adverse(
            f"all seeds alike, noise of {noise:g} margins", "log_loss", guard, seeds, rows,
            _with_seed_harm(seeds, rows, noise, lambda _, count: np.ones(count)),
        )  # fmt: skip


def _areas() -> Iterator[Adverse]:
    """A candidate loses positives: they fall below all others."""

    def drawn(area: float, rows: int, positives: float, margin: float) -> Draw:
        lift = 12.0 if area == 1.0 else float(ndtri(area)) * np.sqrt(2.0)

        def draw(generator: Generator, harm: float) -> Arms:
            labels = (generator.random(rows) < positives).astype(np.int64)
            labels[:2] = 0, 1
            latent = generator.standard_normal(rows) + lift * labels
            lost = (labels == 1) & (generator.random(rows) < harm * margin / area)

            def arm(*, candidate: bool) -> list[Examples]:
                made = []
                for _ in range(3):
                    seen = latent + 0.05 * generator.standard_normal(rows)
                    seen = np.where(lost & candidate, -6.0 + seen / 10.0, seen)
                    second = expit(seen - lift / 2.0)
                    scores = np.stack([1.0 - second, second], axis=1)
                    made.append(
                        Examples(
                            _ids(rows), labels, scores, -np.log(scores[np.arange(rows), labels])
                        )
                    )
                return made

            return arm(candidate=False), arm(candidate=True)

        return draw

    for area, positives, rows, margin in (
        (0.9, 0.10, 1000, 0.02),
        (0.99, 0.10, 1000, 0.02),
        (1.0, 0.10, 1000, 0.02),
        (1.0, 0.10, 1000, 0.015),
        (0.95, 0.05, 1000, 0.04),
        (0.9, 0.10, 5000, 0.02),
        (0.99, 0.10, 5000, 0.02),
    ):
        yield Adverse(
            f"AUROC {area:g}, {positives:.0%} positives, margin {margin:g}",
            "auroc", _guard("higher", margin), 3, rows, drawn(area, rows, positives, margin),
            f"{(1 - positives * margin / area) ** rows:.0%} hold no lost positive",
        )  # fmt: skip


def _rare_harm() -> Iterator[Adverse]:
    share, size = 0.002, 15.0
    margin = share * size

    def losses(rows: int) -> Draw:
        def draw(generator: Generator, harm: float) -> Arms:
            shared = generator.lognormal(-2.0, 1.0, rows)
            hit = generator.random(rows) < share * harm
            before = [_lossy(shared * generator.lognormal(0, 0.05, rows)) for _ in range(3)]
            after = [
                _lossy(shared * generator.lognormal(0, 0.05, rows) + size * hit) for _ in range(3)
            ]
            return before, after

        return draw

    def squares(rows: int) -> Draw:
        def draw(generator: Generator, harm: float) -> Arms:
            errors = generator.standard_normal(rows)
            hit = generator.random(rows) < share * harm
            far = np.sqrt(errors**2 + 0.1 / share * hit)
            target = np.zeros(rows)
            noise = lambda: 1.0 + 0.01 * generator.standard_normal(rows)  # noqa: E731
            return (
                [_predicted(target, errors * noise()) for _ in range(3)],
                [_predicted(target, np.where(hit, far, errors) * noise()) for _ in range(3)],
            )

        return draw

    for rows in (500, 1000, 2000, 5000):
        missed = f"{(1 - share) ** rows:.0%} hold no such row"
        yield Adverse(
            "harm of 15 nats in 0.2% of rows", "log_loss", _guard("lower", margin), 3, rows,
            losses(rows), missed,
        )  # fmt: skip
        yield Adverse(
            "squared error, all harm in 0.2% of rows", "mse", _guard("lower", 0.1), 3, rows,
            squares(rows), missed,
        )  # fmt: skip


def _heavy_tails() -> Iterator[Adverse]:
    def pareto(generator: Generator, rows: int) -> FloatArray:
        """With a mean of one, and no variance."""
        return (1.0 + generator.pareto(1.2, rows)) / 6.0

    def losses(rows: int) -> Draw:
        def draw(generator: Generator, harm: float) -> Arms:
            shared = generator.lognormal(-2.0, 1.0, rows)
            more = 0.03 * harm * pareto(generator, rows)
            return (
                [_lossy(shared * generator.lognormal(0, 0.05, rows)) for _ in range(3)],
                [_lossy(shared * generator.lognormal(0, 0.05, rows) + more) for _ in range(3)],
            )

        return draw

    def absolute(rows: int) -> Draw:
        def draw(generator: Generator, harm: float) -> Arms:
            errors = generator.standard_t(3, rows)
            more = 0.1 * harm * pareto(generator, rows)
            target = np.zeros(rows)
            noise = lambda: 1.0 + 0.02 * generator.standard_normal(rows)  # noqa: E731
            return (
                [_predicted(target, errors * noise()) for _ in range(3)],
                [
                    _predicted(target, np.sign(errors) * (abs(errors * noise()) + more))
                    for _ in range(3)
                ],
            )

        return draw

    def relative(rows: int) -> Draw:
        def draw(generator: Generator, harm: float) -> Arms:
            errors = generator.standard_t(3, rows)
            grown = np.sqrt(1.0 + 0.05 * harm)
            target = np.zeros(rows)
            noise = lambda: 1.0 + 0.01 * generator.standard_normal(rows)  # noqa: E731
            return (
                [_predicted(target, errors * noise()) for _ in range(3)],
                [_predicted(target, grown * errors * noise()) for _ in range(3)],
            )

        return draw

    for rows in (200, 1000, 5000):
        yield Adverse(
            "log loss, harm with a Pareto tail (1.2)", "log_loss", _guard("lower", 0.03), 3, rows,
            losses(rows),
        )  # fmt: skip
        yield Adverse(
            "absolute error, t(3), Pareto harm", "mae", _guard("lower", 0.1), 3, rows,
            absolute(rows),
        )  # fmt: skip
        yield Adverse(
            "squared error, t(3), relative margin of 5%", "mse",
            _guard("lower", 0.05, relative=True), 3, rows, relative(rows),
        )  # fmt: skip


def page(count: int, only: str = "") -> Iterator[str]:
    """The page, block by block, without its heading."""
    stream = itertools.count(1000)
    yield "## Quality"
    yield (
        "Every candidate is worse by exactly the margin in the population, or exactly as good. "
        "`without` is the same bound on single rows, without what the gate knows of rows that go "
        "together, of lopsided harm and of lost examples. Where the last column says that many "
        "experiments meet none of the harm, no rule can tell these from a sound candidate without "
        "refusing as many sound ones: the verdict says what stays open, and `max_failure_rate` or "
        f"`worst_example` closes it. {count} experiments per row and true harm."
    )
    yield adverse_scores(count, stream, only)
    yield "## Speed by jobs alone"
    yield (
        "No steps were taken in turns. `without` is the bound over jobs without an imaginary "
        f"stalled one. 1.20 times are required. {count} experiments per row and true speed-up."
    )
    yield adverse_speeds(count, stream, only)


def _heading(count: int) -> str:
    machine = (
        f"{platform.system()} {platform.machine()} with {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}"
    )
    return (
        "# Designs that fool a bound\n\n"
        f"Made by `python benchmarks/gate/gate_adverse.py --experiments {count}` in "
        f"{KEPT.seconds / 60:.0f} minutes of one core of {machine}.\n"
        "A false pass is a candidate declared no worse that is truly worse by the margin.\n"
        "Rates are in per cent with 95% Wilson intervals."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", type=int, default=200)
    parser.add_argument("--keep", type=Path, help="keep counts here, and take those that are")
    parser.add_argument("--write", type=Path, help="write the tables to this Markdown file too")
    parser.add_argument("only", nargs="?", default="", help="part of a design's name")
    options = parser.parse_args()
    KEPT.folder = options.keep
    text = "\n\n".join(page(options.experiments, options.only))
    made = f"{_heading(options.experiments)}\n\n{text}\n"
    print(made)
    if options.write is not None:
        part = options.write.with_name(f".{options.write.name}.part")
        part.write_text(made, encoding="utf-8")
        part.replace(options.write)


if __name__ == "__main__":
    main()
