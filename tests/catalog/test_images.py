"""AWS's images: which there are, where, and until when they are patched."""

from __future__ import annotations

import datetime
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from compilegate.catalog.images import (
    BaseImage,
    EcrRepository,
    UnknownImageError,
    base_images,
    ecr_repository,
    find_image,
    patches_of,
)

TOOL = Path(__file__).parents[2] / "tools" / "export_base_images.py"
TODAY = datetime.date(2026, 11, 20)


def test_an_image_has_another_registry_in_each_region() -> None:
    image = find_image("pytorch", "2.13")
    assert image.uri("us-east-1") == (
        "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch:2.13-cu133-amzn2023-sagemaker"
    )
    assert image.uri("cn-north-1") == (
        "727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/pytorch:2.13-cu133-amzn2023-sagemaker"
    )
    assert (image.python, image.processor) == ("3.12", "gpu")


def test_a_region_without_the_image_is_refused_with_the_regions_that_have_it() -> None:
    with pytest.raises(UnknownImageError) as refused:
        find_image("pytorch-training-compiler", "1.13.1").uri("cn-north-1")
    assert str(refused.value).startswith(
        "AWS has no image pytorch-training-compiler 1.13.1 (gpu) in cn-north-1, "
        "only in af-south-1, ap-east-1, "
    )


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (
            ("pytorch-training-compiler", "2.0.1", None),
            "the catalog has no image pytorch-training-compiler 2.0.1 (gpu); "
            "it has pytorch-training-compiler 1.12.0 (gpu), pytorch-training-compiler 1.13.1 (gpu)",
        ),
        (
            ("huggingface-pytorch-training-compiler", "1.11.0", "4.17.0"),
            "the catalog has no image huggingface-pytorch-training-compiler 1.11.0, "
            "Transformers 4.17.0 (gpu); it has ",
        ),
        (("jax", "0.8", None), "the catalog has no image jax 0.8 (gpu); it has huggingface-"),
    ],
)
def test_an_unknown_image_is_refused_with_what_there_is(
    wanted: tuple[str, str, str | None], said: str
) -> None:
    framework, version, transformers = wanted
    with pytest.raises(UnknownImageError) as refused:
        find_image(framework, version, transformers=transformers)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize("image", base_images(), ids=lambda image: f"{image.name}")
def test_every_image_is_dated_and_has_valid_uris(image: BaseImage) -> None:
    assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", image.date)
    assert image.source
    assert "us-east-1" in image.hosts
    for region in image.hosts:
        repository = ecr_repository(image.uri(region))
        assert repository is not None
        assert (repository.region, repository.name) == (region, image.repository)
    assert image.python is not None or image.framework == "xgboost"


def test_the_names_of_images_are_all_different() -> None:
    names = [image.name for image in base_images()]
    assert len(names) == len(set(names))


def test_each_framework_image_says_until_when_it_is_patched() -> None:
    unknown = {image.framework for image in base_images() if patches_of(image) is None}
    assert unknown == {
        "huggingface-pytorch-inference",
        "pytorch-inference",
        "pytorch-neuronx",
        "xgboost",
    }


def test_training_compiler_images_are_patched_no_more_and_current_pytorch_is() -> None:
    old = patches_of(find_image("pytorch-training-compiler", "1.13.1"))
    assert old is not None
    assert old.ended(TODAY)
    new = patches_of(find_image("pytorch", "2.13"))
    assert new is not None
    assert new.until == datetime.date(2027, 7, 20)
    assert not new.ended(datetime.date(2027, 7, 20))
    assert new.ended(datetime.date(2027, 7, 21))


@pytest.mark.parametrize(
    ("uri", "repository"),
    [
        (
            "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch:2.13",
            EcrRepository(
                account="763104351884",
                region="us-east-1",
                host="763104351884.dkr.ecr.us-east-1.amazonaws.com",
                name="pytorch",
            ),
        ),
        ("public.ecr.aws/docker/library/python:3.12-slim", None),
        ("python:3.12", None),
    ],
)
def test_only_a_private_repository_asks_for_a_login(
    uri: str, repository: EcrRepository | None
) -> None:
    assert ecr_repository(uri) == repository


@pytest.mark.slow
def test_the_table_is_what_the_sdk_says() -> None:
    """Accounts of all regions from the SDK's tables; the whole URI in two regions of each image,
    because one answer of the SDK takes 50 ms."""
    exporter = _exporter()
    exported = {
        (image.framework, image.version, image.transformers, image.processor): image
        for image in base_images()
    }
    lookups = list(exporter.lookups())
    assert len(lookups) > 20
    for lookup in lookups:
        image = exported[lookup.framework, lookup.version, lookup.transformers, lookup.processor]
        assert sorted(image.hosts) == exporter.regions_of(lookup)
        for region in (min(image.hosts), "us-east-1"):
            assert image.uri(region) == exporter.retrieve(lookup, region)


def _exporter() -> ModuleType:
    spec = importlib.util.spec_from_file_location("export_base_images", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module
