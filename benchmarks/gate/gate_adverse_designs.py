"""The designs of `gate_adverse`: rows that repeat others, seeds that diverge, areas under curves of
few positives, harm in few rows, tails that have no variance.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit, ndtri

from compilegate.gate.settings import MetricGuard
from compilegate.job import Examples

CONFIDENCE = 0.95
FloatArray = npt.NDArray[np.float64]
Generator = np.random.Generator
Draw = Callable[[Generator, float], tuple[list[Examples], list[Examples]]]
Arms = tuple[list[Examples], list[Examples]]


@dataclass(frozen=True)
class Adverse:
    """One kind of experiment: `draw(generator, harm)` with the harm in margins."""

    name: str
    metric: str
    guard: MetricGuard
    seeds: int
    rows: int
    draw: Draw
    found: str = ""
    """The share of false passes that was found when the gate was first held against such."""
    unharmed: float = 0.0
    """The chance that an experiment at the margin holds none of the harm."""


def adverse_designs() -> Iterator[Adverse]:
    """Every row of the table."""
    yield from _repeated_rows()
    yield from _diverging_seeds()
    yield from _areas()
    yield from _rare_harm()
    yield from _heavy_tails()


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
            drawn(rows, seeds, told=True, shuffled=True), "22 to 32%",
        )  # fmt: skip
    for rows, seeds in itertools.product((500, 2000), (2, 10)):
        yield Adverse(
            "rows in groups of 10, side by side, scores of two values",
            "accuracy", _guard("higher", margin), seeds, rows,
            drawn(rows, seeds, told=False, shuffled=False), "22 to 32%",
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
        ("one of ten seeds diverges", diverge(0.1), 0.1, {3: "72%", 29: ""}),
        ("one of five seeds diverges", diverge(0.2), 0.2, {3: "53%", 14: ""}),
        ("half of the seeds lose two margins", diverge(0.5), 0.5, {2: "23%", 3: "13%", 5: ""}),
        ("log-normal harm of seeds", lognormal, None, {3: "27%", 5: "", 10: "26%"}),
    )
    for name, harm_of, share, counts in kinds:
        for seeds, found in counts.items():
            unharmed = 0.0 if share is None else (1 - share) ** seeds
            yield Adverse(
                name, "log_loss", guard, seeds, rows,
                _with_seed_harm(seeds, rows, 0.1, harm_of), found, unharmed,
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

    for area, positives, rows, margin, found in (
        (0.9, 0.10, 1000, 0.02, "9.9%"),
        (0.99, 0.10, 1000, 0.02, "7.9%"),
        (1.0, 0.10, 1000, 0.02, "11 to 13%"),
        (1.0, 0.10, 1000, 0.015, "11 to 13%"),
        (0.95, 0.05, 1000, 0.04, "10.5%"),
        (0.9, 0.10, 2000, 0.02, ""),
        (0.9, 0.10, 5000, 0.02, ""),
        (0.99, 0.10, 5000, 0.02, ""),
        (0.9, 0.50, 1000, 0.02, ""),
    ):
        yield Adverse(
            f"AUROC {area:g}, {positives:.0%} positives, margin {margin:g}",
            "auroc", _guard("higher", margin), 3, rows, drawn(area, rows, positives, margin),
            found, (1 - positives * margin / area) ** rows,
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

    for rows, of_losses, of_squares in (
        (500, "38%", "12 to 36%"),
        (1000, "14%", "12 to 36%"),
        (2000, "", ""),
        (5000, "", ""),
    ):
        unharmed = (1 - share) ** rows
        yield Adverse(
            "harm of 15 nats in 0.2% of rows", "log_loss", _guard("lower", margin), 3, rows,
            losses(rows), of_losses, unharmed,
        )  # fmt: skip
        yield Adverse(
            "squared error, all harm in 0.2% of rows", "mse", _guard("lower", 0.1), 3, rows,
            squares(rows), of_squares, unharmed,
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
            losses(rows), "19 to 22%",
        )  # fmt: skip
        yield Adverse(
            "absolute error, t(3), Pareto harm", "mae", _guard("lower", 0.1), 3, rows,
            absolute(rows), "12%",
        )  # fmt: skip
        yield Adverse(
            "squared error, t(3), relative margin of 5%", "mse",
            _guard("lower", 0.05, relative=True), 3, rows, relative(rows),
            "passes 0 to 4% of equal ones",
        )  # fmt: skip
