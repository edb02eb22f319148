"""Prices are dated facts, and what is not known is never a number."""

from __future__ import annotations

import re

import pytest

from compilegate.catalog import Price, UnknownPrice, price_of
from compilegate.catalog.prices import CONFIDENCES, prices
from compilegate.workload.file import Compute


def test_a_price_comes_with_its_date_and_its_confidence():
    price = price_of("ml.g5.2xlarge", "us-east-1")
    assert isinstance(price, Price)
    assert price.usd_per_hour == pytest.approx(1.515)
    assert (price.date, price.confidence) == ("2026-08", "high")
    assert price.note == "on demand in us-east-1 and us-west-2, 2026-08, confidence high"


def test_without_a_region_the_note_says_where_the_price_was_seen():
    price = price_of("ml.g5.8xlarge")
    assert isinstance(price, Price)
    assert price.note == "on demand in us-west-2, 2026-08 or earlier, confidence high"


def test_an_instance_that_the_catalog_lacks_has_a_reason_and_no_price():
    assert price_of("ml.z9.huge") == UnknownPrice(
        "ml.z9.huge", "the catalog has no price for ml.z9.huge"
    )


def test_a_region_where_the_price_was_not_seen_has_no_price():
    assert price_of("ml.g5.8xlarge", "eu-central-1") == UnknownPrice(
        "ml.g5.8xlarge",
        "the catalog has no price for ml.g5.8xlarge in eu-central-1, only in us-west-2",
    )


@pytest.mark.parametrize("price", prices().values(), ids=lambda price: price.instance_type)
def test_every_row_is_a_dated_training_price_and_not_that_of_ec2(price):
    assert re.fullmatch(r"ml\.[a-z0-9]+\.[a-z0-9]+", price.instance_type)
    assert re.fullmatch(r"20\d\d-\d\d( or earlier)?", price.date)
    assert price.confidence in CONFIDENCES
    assert price.usd_per_hour > 0
    if price.ec2_usd_per_hour is not None:
        assert 1.14 < price.usd_per_hour / price.ec2_usd_per_hour < 1.41
    else:
        assert price.confidence != "derived"


def test_the_instance_that_a_workload_gets_by_default_has_a_price():
    assert isinstance(price_of(Compute().instance_type), Price)
