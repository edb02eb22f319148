"""The facts on images, instances and prices have dates and sources; what is unknown says so."""

from __future__ import annotations

import csv
import datetime
import re
import tomllib
from importlib.resources import files

import pytest

from compilegate.catalog import Price, UnknownPrice, price_of
from compilegate.catalog.compilers import graphless
from compilegate.catalog.images import (
    EcrRepository,
    UnknownImageError,
    base_images,
    ecr_repository,
    find_image,
    patches_of,
)
from compilegate.catalog.instances import (
    accelerator_of,
    instance_class,
    instance_of,
    instances,
    prices,
    processor_of,
)
from compilegate.workload.declaration.compute import Compute
from tools import export_base_images

FACTS = files("compilegate.catalog").joinpath("facts")


def test_an_image_has_another_registry_in_each_region_and_none_in_some() -> None:
    image = find_image("pytorch", "2.13")
    host = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
    assert image.uri("us-east-1") == f"{host}/{image.name}"
    assert image.uri("cn-north-1").startswith("727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/")
    assert (image.python, image.processor) == ("3.12", "gpu")
    with pytest.raises(UnknownImageError, match="in cn-north-1, only in af-south-1, "):
        find_image("pytorch-training-compiler", "1.13.1").uri("cn-north-1")
    assert ecr_repository(f"{host}/pytorch:2.13") == EcrRepository(
        account="763104351884", region="us-east-1", host=host, name="pytorch"
    )
    for uri in ("public.ecr.aws/docker/library/python:3.12-slim", "python:3.12"):
        assert ecr_repository(uri) is None, "only a private repository needs a login"


@pytest.mark.parametrize(
    ("framework", "version", "transformers", "has"),
    [
        ("pytorch-training-compiler", "2.0.1", None, "pytorch-training-compiler 1.12.0"),
        ("huggingface-pytorch-training-compiler", "1.11.0", "4.17.0", "Transformers 4.21.1"),
        ("jax", "0.8", None, "huggingface-"),
    ],
)
def test_an_unknown_image_is_refused_with_what_there_is(
    framework: str, version: str, transformers: str | None, has: str
) -> None:
    with pytest.raises(UnknownImageError, match=f"the catalog has no image {framework} .*{has}"):
        find_image(framework, version, transformers=transformers)


def test_images_have_names_valid_uris_and_days_until_which_they_are_patched() -> None:
    names = [image.name for image in base_images()]
    assert len(names) == len(set(names))
    for image in base_images():
        assert "us-east-1" in image.hosts
        assert image.python is not None or image.framework == "xgboost"
        for region in image.hosts:
            repository = ecr_repository(image.uri(region))
            assert repository is not None
            assert (repository.region, repository.name) == (region, image.repository)
    unknown = {image.framework for image in base_images() if patches_of(image) is None}
    inference = {"huggingface-pytorch-inference", "pytorch-inference"}
    assert unknown == inference | {"pytorch-neuronx", "xgboost"}
    old = patches_of(find_image("pytorch-training-compiler", "1.13.1"))
    assert old is not None
    assert (old.until, old.ended(datetime.date(2026, 11, 20))) == (None, True)


@pytest.mark.slow
def test_the_table_is_what_the_sdk_says() -> None:
    """Accounts of all regions from the SDK's tables; the whole URI in two regions of each image,
    because one answer of the SDK takes 50 ms."""
    exported = {
        (image.framework, image.version, image.transformers, image.processor): image
        for image in base_images()
    }
    lookups = list(export_base_images.lookups())
    assert len(lookups) > 20
    for lookup in lookups:
        image = exported[lookup.framework, lookup.version, lookup.transformers, lookup.processor]
        assert sorted(image.hosts) == export_base_images.regions_of(lookup)
        for region in (min(image.hosts), "us-east-1"):
            assert image.uri(region) == export_base_images.retrieve(lookup, region)


def test_a_class_says_what_an_instance_computes_with() -> None:
    for instance_type, processor in {
        "ml.m5.xlarge": "cpu",
        "ml.p5.48xlarge": "gpu",
        "ml.gr6.4xlarge": "gpu",
        "ml.trn1.32xlarge": "neuron",
        "ml.inf2.xlarge": "neuron",
        "local": "cpu",
    }.items():
        assert processor_of(instance_type) == processor
    assert instance_of("ml.g5.metal") is None
    accelerator = accelerator_of("ml.g5.metal")
    assert accelerator is not None
    assert accelerator.name == "A10G"
    assert accelerator_of("ml.m5.xlarge") is None


def test_a_small_instance_has_no_efa_and_an_upgrade_is_a_listed_instance_of_another_class() -> None:
    for name, instance in instances().items():
        small = name.rpartition(".")[2] in {"xlarge", "2xlarge", "4xlarge"}
        assert instance.no_efa == (small or name.startswith("ml.p3.")), name
    landscape = tomllib.loads(FACTS.joinpath("landscape.toml").read_text(encoding="utf-8"))
    for present, following in landscape["upgrades"].items():
        assert set(following) <= set(instances())
        assert present not in map(instance_class, following)
    assert "pytorch" not in graphless()


def test_a_price_has_its_place_date_and_confidence_or_a_reason_why_there_is_none() -> None:
    price = price_of("ml.g5.2xlarge", "us-east-1")
    assert isinstance(price, Price)
    assert price.usd_per_hour == pytest.approx(1.515)
    assert price.note == "on demand in us-east-1 and us-west-2, 2026-08, confidence high"
    assert isinstance(price_of(Compute().instance_type), Price)
    for instance_type, region, reason in (
        ("ml.z9.huge", None, "the catalog has no price for ml.z9.huge"),
        ("ml.g5.8xlarge", "eu-central-1", "for ml.g5.8xlarge in eu-central-1, only in us-west-2"),
    ):
        found = price_of(instance_type, region)
        assert isinstance(found, UnknownPrice)
        assert found.reason.endswith(reason)
    for name, each in prices().items():
        assert re.fullmatch(r"ml\.[a-z0-9]+\.[a-z0-9]+", name)
        assert processor_of(name) == "cpu" or name in instances()
        assert re.fullmatch(r"20\d\d-\d\d( or earlier)?", each.date)
        assert each.usd_per_hour > 0


def test_every_fact_names_its_source_and_most_their_day() -> None:
    for name in ("accelerators", "documented_images", "image_patches"):
        rows = csv.DictReader(FACTS.joinpath(f"{name}.csv").read_text("utf-8").splitlines())
        assert all(row["source"] and row.get("date", "-") for row in rows), name
    for file in files("compilegate.job.compilers").joinpath("facts").iterdir():
        table = tomllib.loads(file.read_text("utf-8"))
        assert (table["date"], bool(table["sources"])) == ("2026-11", True), file.name
