"""What an execution costs, from dated prices and from how long its jobs took before; and what
stands there between executions: storage and the network.

An amount says what it counts: a job whose price or duration is unknown is left out and named,
never counted as nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compilegate.access.endpoints import GATEWAYS, reached_services
from compilegate.access.layout import (
    checkpoints_prefix,
    data_prefix,
    executions_prefix,
    models_prefix,
    registered_prefix,
    training_prefix,
    verdicts_prefix,
)
from compilegate.account.errors import asking
from compilegate.account.plan.jobs import PlannedJob
from compilegate.account.plan.prediction import PastExecution, Prediction
from compilegate.account.session import AwsSession
from compilegate.account.settings.declaration import Network
from compilegate.catalog import Price, UnknownPrice, price_of

GIGABYTE = 2**30
USD_PER_GIGABYTE_MONTH = 0.023
"""S3 Standard, the first 50 TB, in us-east-1; between 0.021 and 0.041 elsewhere. Without requests,
and without older versions of objects."""
PLACES = {
    "models": models_prefix,
    "verdicts": verdicts_prefix,
    "registered": registered_prefix,
    "training": training_prefix,
    "executions": executions_prefix,
    "checkpoints": checkpoints_prefix,
    "data": data_prefix,
}
PERMANENT = ("models", "verdicts", "registered", "data")
_HOURS_A_MONTH = 730
USD_PER_ENDPOINT_HOUR = {"us-east-1": 0.010, "us-west-2": 0.010, "eu-west-1": 0.011}
"""What one interface endpoint costs in one zone (`VpcEndpoint-Hours`), November 2026; a region that
is not here has a price that nobody looked up."""
USD_PER_ENDPOINT_GIGABYTE = 0.010
"""What passes an interface costs this in these regions; what passes a gateway costs nothing."""


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


@dataclass(frozen=True)
class Storage:
    """What lies in the bucket for one workload."""

    bytes_of: Mapping[str, int]
    """By what it is: models, verdicts, training, and so on."""
    newest_model: int
    """Bytes of the model that was registered last; 0 before the first."""
    starts_a_year: int
    """By the schedule; 0 without one that is on."""

    @property
    def total(self) -> int:
        return sum(self.bytes_of.values())

    @property
    def permanent(self) -> int:
        return sum(self.bytes_of.get(kind, 0) for kind in PERMANENT)

    @property
    def growth(self) -> int:
        """Bytes that a year of the schedule adds for good, if each start registers a model."""
        return self.newest_model * self.starts_a_year


def usd_a_month(stored: int) -> float:
    return stored / GIGABYTE * USD_PER_GIGABYTE_MONTH


def read_storage(session: AwsSession, bucket: str, workload: str, starts_a_year: int) -> Storage:
    """Raises AwsError."""
    sizes: dict[str, int] = {}
    newest_model, newest = 0, None
    with asking(f"list what {workload} keeps in {bucket}"):
        for kind, prefix in PLACES.items():
            sizes[kind] = 0
            where = {"Bucket": bucket, "Prefix": prefix(workload)}
            for item in session.listed("s3", "list_objects_v2", "Contents", **where):
                sizes[kind] += item["Size"]
                if kind == "models" and (newest is None or item["LastModified"] >= newest):
                    newest, newest_model = item["LastModified"], item["Size"]
    return Storage(sizes, newest_model, starts_a_year)


@dataclass(frozen=True)
class NetworkCost:
    """What stands there by the hour."""

    endpoints: int
    """Interfaces; gateways cost nothing."""
    zones: int
    region: str

    @property
    def usd_a_month(self) -> float | None:
        """None where the region's price is not known."""
        hourly = USD_PER_ENDPOINT_HOUR.get(self.region)
        return None if hourly is None else self.endpoints * self.zones * hourly * _HOURS_A_MONTH

    @property
    def sentence(self) -> str:
        counted = f"{self.endpoints} interface endpoints in {self.zones} zones"
        if self.endpoints == 0:
            return "Network: 0.00 USD a month, gateways cost nothing"
        if self.usd_a_month is None:
            prices = USD_PER_ENDPOINT_HOUR.items()
            known = ", ".join(f"{usd} USD in {region}" for region, usd in prices)
            return (
                f"Network: {counted}, by the hour whether or not anything trains; the price in "
                f"{self.region} is not known here ({known}, each and an hour)"
            )
        return (
            f"Network: {self.usd_a_month:,.2f} USD a month in {self.region} for {counted}, whether "
            f"or not anything trains, and {USD_PER_ENDPOINT_GIGABYTE} USD for each GB that passes "
            "them"
        )


def network_cost(declared: Network, region: str) -> NetworkCost | None:
    """None where the project makes no network."""
    if not declared.create:
        return None
    services = reached_services(declared.endpoints, isolated=declared.isolation)
    return NetworkCost(
        endpoints=sum(service not in GATEWAYS for service in services),
        zones=declared.zone_count,
        region=region,
    )
