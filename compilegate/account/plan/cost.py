"""What an execution costs, from dated prices and from how long its jobs took before. Pure.

An amount says what it counts: a job whose price or duration is unknown is left out and named,
never counted as nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compilegate.account.plan.history import PastExecution
from compilegate.account.plan.jobs import PlannedJob
from compilegate.account.plan.prediction import Prediction
from compilegate.catalog import Price, UnknownPrice, price_of


@dataclass(frozen=True)
class JobCost:
    """One job of the planned execution; amounts in US dollars, None where not known."""

    step: str
    instance_type: str
    served: bool
    """Predicted to come from the cache, and so to cost nothing."""
    usual_seconds: float | None
    """As long as its latest run took, from its start to its end."""
    max_seconds: int | None
    usual_usd: float | None
    most_usd: float | None
    """At its maximum runtime. A job that the service tries again can cost more."""
    unknown: str | None
    """Why there is no price."""


@dataclass(frozen=True)
class Total:
    """A sum over the jobs whose amount is known."""

    usd: float
    counted: int
    of: int

    @property
    def complete(self) -> bool:
        return self.counted == self.of


@dataclass(frozen=True)
class ExecutionCost:
    """What the planned execution costs."""

    jobs: tuple[JobCost, ...]
    usual: Total
    """The jobs that are predicted to run, each as long as its latest run."""
    most: Total
    """All jobs at their maximum runtimes, nothing taken from the cache."""
    unknown: tuple[str, ...]
    """Why amounts are missing, each reason once."""


def execution_cost(
    jobs: Sequence[PlannedJob],
    predictions: Mapping[str, Prediction],
    history: Sequence[PastExecution],
    region: str,
) -> ExecutionCost:
    """The cost in a region, where `history` has the newest execution first."""
    costs = tuple(
        _job_cost(job, predictions[job.step].served, _latest_seconds(job.step, history), region)
        for job in jobs
    )
    running = [cost for cost in costs if not cost.served]
    return ExecutionCost(
        jobs=costs,
        usual=_total([cost.usual_usd for cost in running]),
        most=_total([cost.most_usd for cost in costs]),
        unknown=tuple(dict.fromkeys(cost.unknown for cost in costs if cost.unknown is not None)),
    )


def _job_cost(job: PlannedJob, served: bool, seconds: float | None, region: str) -> JobCost:
    price = _price(job, region)
    rate = price.usd_per_hour * job.instances / 3600 if isinstance(price, Price) else None
    return JobCost(
        step=job.step,
        instance_type=job.instance_type,
        served=served,
        usual_seconds=seconds,
        max_seconds=job.max_seconds,
        usual_usd=None if rate is None or seconds is None else rate * seconds,
        most_usd=None if rate is None or job.max_seconds is None else rate * job.max_seconds,
        unknown=price.reason if isinstance(price, UnknownPrice) else None,
    )


def _price(job: PlannedJob, region: str) -> Price | UnknownPrice:
    if job.kind == "training":
        return price_of(job.instance_type, region)
    return UnknownPrice(
        job.instance_type,
        f"the catalog has prices of training, none of processing on {job.instance_type}",
    )


def _latest_seconds(step: str, history: Iterable[PastExecution]) -> float | None:
    """How long the latest run of a step took that was not served from the cache."""
    for past in history:
        found = past.step(step)
        if found is not None and found.status == "Succeeded" and found.cached_from is None:
            return found.seconds
    return None


def _total(amounts: Sequence[float | None]) -> Total:
    known = [amount for amount in amounts if amount is not None]
    return Total(sum(known), len(known), len(amounts))
