"""What a Tuning step tries next: grid, random, or Bayesian by Optuna's TPE sampler.

A search is deterministic: the same request tries the same values as long as the trials come to the
same scores.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from compilegate.document.evaluation import Unresolved
from compilegate.local.errors import StepRequestError
from compilegate.local.requests import RequestReader

STRATEGIES = ("Bayesian", "Random", "Grid", "Hyperband")
_MOST_TRIALS = 750
"""The service's own limit."""

Kind = Literal["integer", "continuous", "categorical"]


@dataclass(frozen=True)
class Range:
    """The values that one hyperparameter may have."""

    name: str
    kind: Kind
    low: float = 0.0
    high: float = 0.0
    scaling: str = "Auto"
    values: tuple[str, ...] = ()

    def at(self, part: float) -> str:
        """The value at a part of the range, from 0 to 1, as its scaling divides it."""
        if self.kind == "categorical":
            return self.values[min(len(self.values) - 1, int(part * len(self.values)))]
        if self.scaling == "Logarithmic":
            value = math.exp(_between(math.log(self.low), math.log(self.high), part))
        elif self.scaling == "ReverseLogarithmic":
            value = 1 - math.exp(_between(math.log(1 - self.low), math.log(1 - self.high), part))
        else:
            value = _between(self.low, self.high, part)
        return self.text(value)

    def text(self, value: Any) -> str:
        """A value as a hyperparameter, within the range."""
        if self.kind == "categorical":
            return str(value)
        bounded = min(self.high, max(self.low, float(value)))
        return str(round(bounded)) if self.kind == "integer" else repr(bounded)


def _between(low: float, high: float, part: float) -> float:
    return low + (high - low) * part


@dataclass(frozen=True)
class Search:
    """How a tuning job looks for the best hyperparameters."""

    strategy: str
    ranges: tuple[Range, ...]
    maximize: bool
    trials: int
    seed: int


class Searcher(Protocol):
    """Suggests values, and is told what they came to."""

    def ask(self) -> Mapping[str, str] | None:
        """The next values; None when there are none."""

    def tell(self, score: float | None) -> None:
        """What the values that were asked for last came to; None where they came to nothing."""


def search_faults(search: Search) -> Iterator[str]:
    """What this machine lacks for a search."""
    if search.strategy in {"Bayesian", "Hyperband"} and importlib.util.find_spec("optuna") is None:
        yield (
            f"Strategy {search.strategy} needs Optuna: pip install 'compilegate[tuning]'; Random "
            "and Grid do without"
        )


def searcher_for(search: Search) -> Searcher:
    """What carries a search out."""
    if search.strategy in {"Bayesian", "Hyperband"}:
        return _Bayesian(search)
    return _Listed(_grid(search) if search.strategy == "Grid" else _random(search))


class _Listed:
    """Values that do not depend on scores."""

    def __init__(self, values: Iterator[Mapping[str, str]]) -> None:
        self._values = values

    def ask(self) -> Mapping[str, str] | None:
        return next(self._values, None)

    def tell(self, score: float | None) -> None:
        """Nothing depends on it."""


def _grid(search: Search) -> Iterator[Mapping[str, str]]:
    names = [each.name for each in search.ranges]
    combinations = itertools.product(*(each.values for each in search.ranges))
    for values in itertools.islice(combinations, search.trials):
        yield dict(zip(names, values, strict=True))


def _random(search: Search) -> Iterator[Mapping[str, str]]:
    chance = random.Random(search.seed)  # noqa: S311  a search, no secret
    for _ in range(search.trials):
        yield {each.name: each.at(chance.random()) for each in search.ranges}


class _Bayesian:
    def __init__(self, search: Search) -> None:
        import optuna  # noqa: PLC0415  half a second, and an extra

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._search = search
        self._left = search.trials
        self._study: Any = optuna.create_study(
            direction="maximize" if search.maximize else "minimize",
            sampler=optuna.samplers.TPESampler(seed=search.seed),
        )
        self._failed: Any = optuna.trial.TrialState.FAIL
        self._trial: Any = None

    def ask(self) -> Mapping[str, str] | None:
        if self._left == 0:
            return None
        self._left -= 1
        self._trial = self._study.ask()
        return {each.name: self._suggested(each) for each in self._search.ranges}

    def _suggested(self, each: Range) -> str:
        if each.kind == "categorical":
            return str(self._trial.suggest_categorical(each.name, list(each.values)))
        if each.scaling == "ReverseLogarithmic":
            return each.at(self._trial.suggest_float(each.name, 0.0, 1.0))
        logarithmic = each.scaling == "Logarithmic"
        if each.kind == "integer":
            low, high = int(each.low), int(each.high)
            return each.text(self._trial.suggest_int(each.name, low, high, log=logarithmic))
        return each.text(self._trial.suggest_float(each.name, each.low, each.high, log=logarithmic))

    def tell(self, score: float | None) -> None:
        if score is None:
            self._study.tell(self._trial, state=self._failed)
        else:
            self._study.tell(self._trial, score)


def read_search(config: RequestReader, ranges: RequestReader, kind: str) -> Search:
    """The search of a HyperParameterTuningJobConfig. Raises StepRequestError."""
    strategy = config.text_or("Strategy", "Bayesian")
    _allowed("Strategy", strategy, STRATEGIES)
    _allowed("HyperParameterTuningJobObjective.Type", kind, ("Minimize", "Maximize"))
    limits = config.section_or_empty("ResourceLimits")
    found = tuple(_ranges(ranges))
    if not found:
        raise StepRequestError("ParameterRanges are empty: there is nothing to search")
    if strategy == "Grid" and any(each.kind != "categorical" for each in found):
        raise StepRequestError("Strategy Grid takes CategoricalParameterRanges alone")
    most = math.prod(len(each.values) for each in found) if strategy == "Grid" else 1
    trials = limits.integer_or("MaxNumberOfTrainingJobs", most)
    if not 1 <= trials <= _MOST_TRIALS:
        raise StepRequestError(f"MaxNumberOfTrainingJobs is {trials}, allowed: 1 to {_MOST_TRIALS}")
    return Search(strategy, found, kind == "Maximize", trials, config.integer_or("RandomSeed", 0))


def _allowed(name: str, value: str, allowed: Sequence[str]) -> None:
    if not isinstance(value, Unresolved) and value not in allowed:
        raise StepRequestError(f"{name} is {value!r:.60}, allowed: {', '.join(allowed)}")


def _ranges(reader: RequestReader) -> Iterator[Range]:
    if reader.has("AutoParameters") and reader.sections("AutoParameters"):
        raise StepRequestError("AutoParameters are not supported here: give each one a range")
    kinds: Mapping[str, tuple[Kind, Callable[[str], float]]] = {
        "IntegerParameterRanges": ("integer", lambda text: float(int(text))),
        "ContinuousParameterRanges": ("continuous", float),
    }
    for member, (kind, parse) in kinds.items():
        for item in reader.sections(member):
            yield _numeric(item, kind, parse)
    for item in reader.sections("CategoricalParameterRanges"):
        values = tuple(item.texts("Values"))
        if not values:
            raise StepRequestError(f"the range of {item.text('Name')} has no Values")
        yield Range(item.text("Name"), "categorical", values=values)


def _numeric(item: RequestReader, kind: Kind, parse: Callable[[str], float]) -> Range:
    name, scaling = item.text("Name"), item.text_or("ScalingType", "Auto")
    _allowed(
        f"ScalingType of {name}",
        scaling,
        ("Auto", "Linear", "Logarithmic", "ReverseLogarithmic"),
    )
    bounds = []
    for member in ("MinValue", "MaxValue"):
        text = item.text(member)
        try:
            bounds.append(0.0 if isinstance(text, Unresolved) else parse(text))
        except ValueError:
            raise StepRequestError(f"{member} of {name} is {text!r:.40}, no number") from None
    low, high = bounds
    if not (math.isfinite(low) and math.isfinite(high)) or low > high:
        raise StepRequestError(
            f"the range of {name} is {low} to {high}, the first above the second"
        )
    if scaling == "Logarithmic" and low <= 0:
        raise StepRequestError(f"MinValue of {name} is {low}: Logarithmic needs more than 0")
    if scaling == "ReverseLogarithmic" and not 0 <= low <= high < 1:
        raise StepRequestError(f"the range of {name} must lie within 0 and 1: ReverseLogarithmic")
    return Range(name, kind, low, high, scaling)
