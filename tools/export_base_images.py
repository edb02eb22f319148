"""Write `compilegate/catalog/facts/images.json` from the installed SageMaker SDK's table.

    .venv/bin/python tools/export_base_images.py

The SDK takes seconds to import, and its table changes with every release. The catalog therefore
keeps what it needs as data, and a test compares that data with the SDK. Run this after updating the
SDK, and read the difference.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parents[1] / "compilegate" / "catalog" / "facts" / "images.json"
REGISTRIES = {"763104351884": "deep-learning-containers", "683313688378": "algorithms"}
"""The registries, by their account in us-east-1."""


@dataclass(frozen=True, kw_only=True)
class Lookup:
    """One image of the catalog, and how the SDK finds it."""

    framework: str
    version: str
    """The framework's version, even where the SDK goes by the version of Transformers."""
    transformers: str | None = None
    py_version: str | None = None
    """`py312`; None if the SDK does not say."""
    processor: str
    table: str
    """Which of the SDK's tables has the image."""
    instance: str | None = None
    base: str | None = None
    """The framework in a Hugging Face image."""
    scope: str = "training"
    """What the image is for: `training`, or `inference`."""

    @property
    def sdk(self) -> dict[str, Any]:
        """Arguments of `image_uris.retrieve`."""
        arguments = {
            "framework": self.table if self.base is None else "huggingface",
            "version": self.transformers or self.version,
            "base_framework_version": self.base and f"{self.base}{self.version}",
            "py_version": self.py_version if self.instance else None,
            "instance_type": self.instance,
        }
        return {name: value for name, value in arguments.items() if value is not None}


INSTANCES = {"gpu": "ml.g5.xlarge", "cpu": "ml.m5.xlarge"}
V100 = "ml.p3.2xlarge"
"""For the old images of Training Compiler."""
PYTORCH = {
    "2.6.0": "py312",
    "2.7.1": "py312",
    "2.8.0": "py312",
    "2.9.0": "py312",
    "2.10.0": "py313",
}
AMAZON_LINUX_2023 = ("2.11", "2.12", "2.13", "2.14")
TRAINING_COMPILER = {"1.12.0": "py38", "1.13.1": "py39"}
HUGGING_FACE_COMPILER = (
    ("pytorch", "1.11.0", "4.21.1", "py38"),
    ("pytorch", "1.10.2", "4.17.0", "py38"),
    ("pytorch", "1.9.0", "4.11.0", "py38"),
    ("tensorflow", "2.6.3", "4.17.0", "py38"),
    ("tensorflow", "2.5.1", "4.11.0", "py37"),
)
INFERENCE = {"2.5.1": "py311", "2.6.0": "py312"}
HUGGING_FACE_INFERENCE = ("4.51.3", "5.5.3")


def lookups() -> Iterator[Lookup]:
    """Every image that the catalog takes from the SDK."""
    machines = [{"processor": name, "instance": each} for name, each in INSTANCES.items()]
    old = {"processor": "gpu", "instance": V100}
    for machine in machines:
        pytorch = {"framework": "pytorch", **machine}
        for number in AMAZON_LINUX_2023:
            yield Lookup(version=number, table="pytorch-amzn2023", **pytorch)
        for number, python in PYTORCH.items():
            yield Lookup(version=number, py_version=python, table="pytorch", **pytorch)
    for number, python in TRAINING_COMPILER.items():
        table = "pytorch-training-compiler"
        yield Lookup(framework=table, version=number, py_version=python, table=table, **old)
    # 2.9.1 and 2.10.0, which AWS documents, are no longer in the SDK: documented_images.csv.
    table = "tensorflow"
    yield Lookup(framework=table, version="2.11.0", py_version="py39", table=table, **old)
    for base, number, transformers, python in HUGGING_FACE_COMPILER:
        yield Lookup(
            framework=f"huggingface-{base}-training-compiler",
            version=number,
            transformers=transformers,
            py_version=python,
            table="huggingface-training-compiler",
            base=base,
            **old,
        )
    yield Lookup(
        framework="pytorch-neuronx",
        version="2.1.2",
        py_version="py310",
        processor="neuron",
        table="hyperpod-recipes-neuron",
    )
    yield Lookup(framework="xgboost", version="3.2-0", table="xgboost", **machines[1])
    for machine in machines:
        inference = {"scope": "inference", **machine}
        for number, python in INFERENCE.items():
            yield Lookup(
                framework="pytorch-inference",
                version=number,
                py_version=python,
                table="pytorch",
                **inference,
            )
        for transformers in HUGGING_FACE_INFERENCE:
            yield Lookup(
                framework="huggingface-pytorch-inference",
                version="2.6.0",
                transformers=transformers,
                py_version="py312",
                table="huggingface",
                base="pytorch",
                **inference,
            )


def retrieve(lookup: Lookup, region: str) -> str:
    """The image URI that the SDK gives for a region. Raises ValueError if there is none."""
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")  # the import needs one
    from sagemaker.core import image_uris  # noqa: PLC0415  seconds, and needs the region above
    from sagemaker.core.training_compiler.config import TrainingCompilerConfig  # noqa: PLC0415

    compiler = TrainingCompilerConfig() if lookup.table == "huggingface-training-compiler" else None
    uri: str = image_uris.retrieve(
        region=region, image_scope=lookup.scope, training_compiler_config=compiler, **lookup.sdk
    )
    return uri


def regions_of(lookup: Lookup) -> list[str]:
    """The regions that the SDK's table lists for an image."""
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    from sagemaker.core import image_uris  # noqa: PLC0415

    table = image_uris.config_for_framework(lookup.table)
    entry = table.get(lookup.scope, table)["versions"][lookup.sdk["version"]]
    entry = entry.get(lookup.sdk.get("base_framework_version"), entry)
    return sorted(entry["registries"])


def export(date: str) -> dict[str, Any]:
    """The whole table: hosts by registry and region, and the images with their regions."""
    registries: dict[str, dict[str, str]] = {}
    images = []
    for lookup in lookups():
        hosts, places = {}, set()
        for region in regions_of(lookup):
            host, _, place = retrieve(lookup, region).partition("/")
            hosts[region] = host
            places.add(place)
        (place,) = places
        registry = REGISTRIES[hosts["us-east-1"].partition(".")[0]]
        for region, host in hosts.items():
            known = registries.setdefault(registry, {}).setdefault(region, host)
            if known != host:
                raise SystemExit(f"{lookup.framework} {lookup.version}: {host} is not {known}")
        repository, tag = place.split(":")
        python = lookup.py_version
        images.append(
            {
                "framework": lookup.framework,
                "version": lookup.version,
                "transformers": lookup.transformers,
                "python": python and f"{python[2]}.{python[3:]}",
                "processor": lookup.processor,
                "registry": registry,
                "repository": repository,
                "tag": tag,
                "regions": sorted(hosts),
            }
        )
    return {
        "date": date,
        "source": f"sagemaker {version('sagemaker')}, sagemaker.core.image_uris.retrieve",
        "registries": {name: dict(sorted(hosts.items())) for name, hosts in registries.items()},
        "images": images,
    }


def as_text(table: dict[str, Any]) -> str:
    """JSON with the lists of regions on one line each, so that a difference can be read."""
    text = json.dumps(table, indent=1)
    return re.sub(r"\[[^\[\]{}]*\]", lambda found: " ".join(found[0].split()), text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    parser.add_argument("--date", default=today, help="the day of the export (default: today)")
    text = as_text(export(parser.parse_args().date))
    temporary = TABLE.with_suffix(".json.part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(TABLE)
    print(f"{TABLE.name}: {len(json.loads(text)['images'])} images")


if __name__ == "__main__":
    main()
