"""What a network costs that the project makes."""

from __future__ import annotations

import pytest

from compilegate.account.plan.cost import network_cost
from compilegate.account.settings.declaration import Network


@pytest.mark.parametrize(
    ("declared", "region", "sentence"),
    [
        (
            Network(create=True),
            "us-east-1",
            "Network: 73.00 USD a month in us-east-1 for 5 interface endpoints in 2 zones, whether "
            "or not anything trains, and 0.01 USD for each GB that passes them",
        ),
        (
            Network(create=True, zones=["eu-west-1a", "eu-west-1b", "eu-west-1c"]),
            "eu-west-1",
            "Network: 120.45 USD a month in eu-west-1 for 5 interface endpoints in 3 zones, "
            "whether or not anything trains, and 0.01 USD for each GB that passes them",
        ),
        (
            Network(create=True, endpoints=["dynamodb"]),
            "us-east-1",
            "Network: 0.00 USD a month, gateways cost nothing",
        ),
        (
            Network(create=True, isolation=True),
            "us-east-1",
            "Network: 0.00 USD a month, gateways cost nothing",
        ),
        (
            Network(create=True, endpoints=["sts"]),
            "sa-east-1",
            "Network: 1 interface endpoints in 2 zones, by the hour whether or not anything "
            "trains; the price in sa-east-1 is not known here (0.01 USD in us-east-1, 0.01 USD in "
            "us-west-2, 0.011 USD in eu-west-1, each and an hour)",
        ),
    ],
)
def test_a_network_costs_by_interface_zone_and_hour(
    declared: Network, region: str, sentence: str
) -> None:
    cost = network_cost(declared, region)
    assert cost is not None
    assert cost.sentence == sentence


def test_a_network_that_is_there_costs_the_project_nothing() -> None:
    there = Network(subnets=["subnet-1"], security_groups=["sg-1"])
    assert network_cost(there, "us-east-1") is None
    assert network_cost(Network(), "us-east-1") is None
