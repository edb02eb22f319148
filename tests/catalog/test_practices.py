"""What runs and hardly pays is warned of, with the page that says so."""

from __future__ import annotations

import dataclasses
import datetime

import pytest

from compilegate.catalog import Asked, Finding, check
from compilegate.catalog.compilers import compilers
from compilegate.catalog.instances import instances
from compilegate.catalog.tested_models import (
    NAMED_IN_FAQ,
    UntestedBatch,
    default_batch_size,
    rows_of,
)

TODAY = datetime.date(2026, 11, 20)
GUIDE = "https://docs.aws.amazon.com/sagemaker/latest/dg/training-compiler"
GOOD = Asked(
    compiler="training-compiler",
    version="1.13.1",
    instance_type="ml.g5.4xlarge",
    precision="fp16",
    model="bert-base-uncased",
    limit_seconds=86400,
    examples=32,
    learning_rate=1e-3,
    baseline_examples=32,
    baseline_learning_rate=1e-3,
)


def advised(**changes: object) -> list[Finding]:
    """The findings that name a page, of what is asked with these changes."""
    found = check(dataclasses.replace(GOOD, **changes), TODAY)
    assert not [finding for finding in found if finding.page and finding.severity == "refusal"]
    return [finding for finding in found if finding.page]


def test_what_the_pages_ask_for_is_not_warned_of() -> None:
    assert advised() == []


@pytest.mark.parametrize(
    ("changes", "about", "words", "page"),
    [
        ({"model": "somebody/their-own"}, "model", "never tested", "faq"),
        ({"model": None}, "model", "names none", "faq"),
        ({"model": "t5-base"}, "model", "among the models that", "faq"),
        ({"precision": "fp32"}, "precision", "in 16 bits, but for three", "support"),
        ({"limit_seconds": 120}, "limit_seconds", "ended after 120 s", "faq"),
        ({"limit_seconds": 900}, "limit_seconds", "hardly repay", "faq"),
        ({"examples": 64}, "learning_rate", "2 times the baseline's 32", "tips-pitfalls"),
        (
            {"instance_type": "ml.p3.16xlarge", "instance_count": 2, "distribution": "pytorchxla"},
            "instance_type",
            "without EFA",
            "tips-pitfalls",
        ),
        (
            {"instance_type": "ml.g4dn.8xlarge", "instance_count": 8, "distribution": "pytorchxla"},
            "instance_count",
            "8 x ml.g4dn.8xlarge have one T4 each",
            "tips-pitfalls",
        ),
    ],
    ids=str,
)
def test_each_warning_names_its_page(
    changes: dict[str, object], about: str, words: str, page: str
) -> None:
    (finding,) = advised(**changes)
    assert finding.about == about
    assert words in finding.reason
    assert finding.sentence.endswith(f" ({GUIDE}-{page}.html)")


def test_an_untested_model_is_to_be_adapted_and_tuned_again() -> None:
    (finding,) = advised(model="somebody/their-own")
    assert finding.remedy == (
        "adapt the script first, expect that it may be slower, and tune batch_size and "
        "learning_rate again"
    )


@pytest.mark.parametrize("model", sorted(NAMED_IN_FAQ))
def test_a_model_of_the_faq_has_a_tested_batch_or_is_said_to_have_none(model: str) -> None:
    tested = [row for row in rows_of(model) if row.framework == "pytorch"]
    found = [finding.about for finding in advised(model=model)]
    assert found == ([] if tested else ["model"])


def test_the_batch_of_a_model_that_was_tested_with_another_framework_is_not_taken() -> None:
    found = default_batch_size(
        "t5-base", instance_type="ml.p3.2xlarge", precision="fp16", framework="pytorch"
    )
    assert isinstance(found, UntestedBatch)
    assert found.reason == (
        "AWS tested t5-base on ml.p3.2xlarge (tensorflow 2.5.1, Transformers 4.11.0), but not on "
        "ml.p3.2xlarge, fp16, pytorch"
    )


def test_a_larger_batch_is_told_both_rates_whatever_compiles() -> None:
    (finding,) = advised(compiler="inductor", version=None, examples=128)
    assert finding.remedy == (
        'take 0.004 (scale_learning_rate = "linear") or 0.002 ("square-root")'
    )
    assert advised(examples=128, learning_rate=2e-3) == []
    assert advised(examples=128, baseline_examples=None, baseline_learning_rate=None) == []


def test_other_compilers_are_judged_by_what_is_known_of_them() -> None:
    """No page says that torch.compile needs 16 bits, half an hour or a model of a list."""
    quiet = {"model": None, "precision": "fp32", "limit_seconds": 120, "version": None}
    assert advised(compiler="inductor", **quiet) == []
    assert advised(compiler="eager", **quiet) == []


def test_a_small_instance_has_no_efa_and_of_a_large_one_nothing_is_claimed() -> None:
    for name, instance in instances().items():
        size = name.rpartition(".")[2]
        small = size in {"xlarge", "2xlarge", "4xlarge"} or name.startswith("ml.p3.")
        assert instance.no_efa == small, name


@pytest.mark.parametrize("compiler", ["eager", "inductor"])
def test_several_small_instances_are_slow_for_any_compiler(compiler: str) -> None:
    changes = {"instance_type": "ml.g5.xlarge", "instance_count": 4, "distribution": "torchrun"}
    found = advised(compiler=compiler, version=None, **changes)
    assert [finding.about for finding in found] == ["instance_count", "instance_type"]


@pytest.mark.parametrize(
    ("libraries", "warned"),
    [
        ({"xgboost", "numpy"}, True),
        ({"lightgbm"}, True),
        ({"sklearn"}, True),
        ({"catboost", "pandas"}, True),
        ({"sklearn", "torch"}, False),
        ({"numpy"}, False),
        (set(), False),
    ],
    ids=lambda each: "+".join(sorted(each)) if isinstance(each, set) else str(each),
)
def test_trees_in_front_of_a_compiler_are_recognised_by_what_the_script_imports(
    libraries: set[str], warned: bool
) -> None:
    for name in compilers():
        asked = Asked(compiler=name, instance_type="ml.m5.xlarge", libraries=frozenset(libraries))
        about = [finding.about for finding in check(asked, TODAY) if finding.page]
        assert ("framework" in about) == (warned and name != "eager")
