"""What the network that a project makes costs, whether or not anything trains in it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from compilegate.access.endpoints import GATEWAYS, reached_services
from compilegate.account.settings.declaration import Network

HOURS_A_MONTH = 730
USD_PER_HOUR = {"us-east-1": 0.010, "us-west-2": 0.010, "eu-west-1": 0.011}
"""What one interface endpoint costs in one zone (`VpcEndpoint-Hours`), November 2026; a region that
is not here has a price that nobody looked up."""
USD_PER_GIGABYTE = 0.010
"""What passes an interface costs this in these regions; what passes a gateway costs nothing."""


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
        hourly = USD_PER_HOUR.get(self.region)
        return None if hourly is None else self.endpoints * self.zones * hourly * HOURS_A_MONTH

    @property
    def sentence(self) -> str:
        counted = f"{self.endpoints} interface endpoints in {self.zones} zones"
        if self.endpoints == 0:
            return "Network: 0.00 USD a month, gateways cost nothing"
        if self.usd_a_month is None:
            known = ", ".join(f"{usd} USD in {region}" for region, usd in USD_PER_HOUR.items())
            return (
                f"Network: {counted}, by the hour whether or not anything trains; the price in "
                f"{self.region} is not known here ({known}, each and an hour)"
            )
        return (
            f"Network: {self.usd_a_month:,.2f} USD a month in {self.region} for {counted}, whether "
            f"or not anything trains, and {USD_PER_GIGABYTE} USD for each GB that passes them"
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
