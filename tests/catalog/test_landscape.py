"""What else makes training faster, and which instances come next."""

from __future__ import annotations

import pytest

from compilegate.catalog.instances import (
    accelerator_of,
    instance_class,
    instance_of,
    instances,
    processor_of,
)
from compilegate.catalog.landscape import graphless, options, upgrades_from
from compilegate.catalog.prices import UnknownPrice, price_of, prices


def test_the_options_are_those_of_the_landscape_and_each_has_a_source() -> None:
    assert [option.name for option in options()] == [
        "none",
        "training-compiler",
        "torch.compile",
        "nvidia-libraries",
        "smddp",
        "smp",
        "instance-upgrade",
    ]
    assert all(option.source and option.date == "2026-11" for option in options())


@pytest.mark.parametrize("name", ["smddp", "smp"])
def test_sagemaker_s_distributed_libraries_do_not_go_with_training_compiler(name: str) -> None:
    option = next(option for option in options() if option.name == name)
    assert option.with_training_compiler.startswith("no: SageMaker refuses")


def test_xgboost_has_no_graph_and_pytorch_has() -> None:
    xgboost = graphless("xgboost")
    assert xgboost is not None
    assert "hist" in xgboost.instead
    assert graphless("pytorch") is None


def test_upgrades_come_with_prices_cheapest_first_and_unknown_ones_last() -> None:
    upgrades = upgrades_from("ml.g5.48xlarge", "us-west-2")
    assert [upgrade.instance.instance_type for upgrade in upgrades] == [
        "ml.p4d.24xlarge",
        "ml.g6e.2xlarge",
        "ml.g6e.12xlarge",
        "ml.p5.48xlarge",
    ]
    assert upgrades[0].times_dearer(price_of("ml.g5.48xlarge")) == pytest.approx(1.24, abs=0.01)
    assert isinstance(upgrades[1].price, UnknownPrice)
    assert upgrades[1].times_dearer(price_of("ml.g5.48xlarge")) is None


def test_a_cpu_instance_has_upgrades_and_the_newest_has_none() -> None:
    assert [upgrade.instance.accelerator.name for upgrade in upgrades_from("ml.m6i.12xlarge")] == [
        "T4",
        "L4",
        "A10G",
    ]
    assert upgrades_from("ml.p5.48xlarge") == ()


@pytest.mark.parametrize("instance_type", instances())
def test_an_upgrade_is_never_the_class_it_comes_from(instance_type: str) -> None:
    for upgrade in upgrades_from(instance_type):
        assert instance_class(upgrade.instance.instance_type) != instance_class(instance_type)


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
