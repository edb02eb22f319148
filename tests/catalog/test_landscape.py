"""Which frameworks have no graph, and what each instance computes with."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest

from compilegate.catalog.compilers import graphless
from compilegate.catalog.instances import (
    accelerator_of,
    instance_class,
    instance_of,
    instances,
    processor_of,
)
from compilegate.catalog.prices import prices


def test_xgboost_has_no_graph_and_pytorch_has() -> None:
    xgboost = graphless("xgboost")
    assert xgboost is not None
    assert "hist" in xgboost.instead
    assert graphless("pytorch") is None


def test_an_upgrade_is_a_listed_instance_of_another_class() -> None:
    facts = files("compilegate.catalog").joinpath("facts", "landscape.toml")
    upgrades = tomllib.loads(facts.read_text(encoding="utf-8"))["upgrades"]
    for present, following in upgrades.items():
        assert set(following) <= set(instances())
        assert present not in map(instance_class, following)


@pytest.mark.parametrize(
    ("instance_type", "processor"),
    [
        ("ml.m5.xlarge", "cpu"),
        ("ml.p5.48xlarge", "gpu"),
        ("ml.g6e.2xlarge", "gpu"),
        ("ml.gr6.4xlarge", "gpu"),
        ("ml.trn1.32xlarge", "neuron"),
        ("ml.inf2.xlarge", "neuron"),
        ("local", "cpu"),
    ],
)
def test_a_class_says_what_an_instance_computes_with(instance_type: str, processor: str) -> None:
    assert processor_of(instance_type) == processor


def test_a_type_that_is_not_listed_has_the_accelerator_of_its_class() -> None:
    assert instance_of("ml.g5.metal") is None
    accelerator = accelerator_of("ml.g5.metal")
    assert accelerator is not None
    assert accelerator.name == "A10G"
    assert accelerator_of("ml.m5.xlarge") is None


def test_every_priced_instance_with_accelerators_is_listed() -> None:
    assert {name for name in prices() if processor_of(name) != "cpu"} <= set(instances())
