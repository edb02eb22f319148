"""The largest batch sizes that fitted in AWS's tests, with and without Training Compiler. Pure.

`tested_models.csv` has the 316 rows of AWS's tables of tested models. They say what fits, never how
fast it is. AWS lists all of them per GPU. Four, for TensorFlow 2.9.1 on ml.p3.16xlarge, are about
eight times their neighbours on the same GPU, so the catalog counts them per instance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from compilegate.catalog.images import version_numbers
from compilegate.catalog.instances import instance_of
from compilegate.catalog.tables import fact_rows, landscape


@dataclass(frozen=True, kw_only=True)
class TestedModel:
    """One row: a model on an instance, and the largest batches that fitted. Its columns `layout`,
    `dataset`, `instances`, `largest_tested` and `edition` are for people."""

    framework: str
    version: str
    transformers: str | None = None
    """The version in a Hugging Face image; None in any other."""
    task: str
    """`language` or `vision`."""
    model: str
    instance_type: str
    precision: str
    """As AWS writes it: `AMP`, `float16` or `float32`."""
    sequence_length: int | None = None
    """Tokens; None for images."""
    batch_native: int | None = None
    """The batch size without the compiler; None where AWS left it blank."""
    batch_compiler: int
    batch_of: str
    """`GPU` or `instance`."""

    @property
    def half_precision(self) -> bool:
        """Whether the forward pass was in 16 bits."""
        return self.precision != "float32"

    @property
    def tokens(self) -> int:
        """The sequence length; 0 for images."""
        return self.sequence_length or 0

    @property
    def stack(self) -> str:
        """The versions in words."""
        transformers = f", Transformers {self.transformers}" if self.transformers else ""
        return f"{self.framework} {self.version}{transformers}"


def default_batch_size(
    model: str,
    *,
    instance_type: str,
    precision: str,
    sequence_length: int | None = None,
    compiled: bool = True,
    framework: str | None = None,
    version: str | None = None,
) -> tuple[int, TestedModel] | str:
    """The batch size for one accelerator that fitted in AWS's test of a model, and that test; or
    why there is none, as a sentence without a full stop.

    `precision` is `fp32`, `fp16` or `bf16`; both 16-bit formats take the same memory. `compiled`
    means with Training Compiler; other compilers plan memory differently, so it says nothing about
    them. A test on another instance with the same accelerator counts, and so does one with longer
    sequences, which needs more memory. The test with the framework's version is preferred, then the
    newest; PyTorch if no framework is named.
    """
    rows = rows_of(model)
    if not rows:
        return f"AWS tested no batch size for {model}"
    fitting = [
        (row, batch)
        for row in rows
        if (batch := row.batch_compiler if compiled else row.batch_native) is not None
        and row.batch_of == "GPU"
        and row.half_precision == (precision != "fp32")
        and framework in (None, row.framework)
        and _same_memory(row.instance_type, instance_type)
        and (None in (row.sequence_length, sequence_length) or row.tokens >= (sequence_length or 0))
    ]
    if not fitting:
        where = ", ".join(dict.fromkeys(f"{row.instance_type} ({row.stack})" for row in rows))
        tokens = None if sequence_length is None else f"{sequence_length} tokens"
        wanted = ", ".join(filter(None, (instance_type, precision, tokens, framework)))
        return f"AWS tested {model} on {where}, but not on {wanted}"

    def distance(found: tuple[TestedModel, int]) -> tuple[object, ...]:
        row, _ = found
        newest_first = tuple(-number for number in version_numbers(row.version))
        other = (row.instance_type != instance_type, row.framework != "pytorch")
        return (row.tokens, *other, row.version != version, newest_first, row.batch_compiler)

    row, batch = min(fitting, key=distance)
    return batch, row


@cache
def rows_of(model: str, framework: str | None = None) -> tuple[TestedModel, ...]:
    """Every test of a model, by its name on the hub; with one framework, or any."""
    return tuple(
        row
        for row in tested_models()
        if _same_model(row.model, model) and framework in (None, row.framework)
    )


def known_to_compile(model: str) -> bool:
    """Whether the Training Compiler FAQ names the model; some of those have no test."""
    return model.rpartition("/")[2].lower() in landscape()["models_of_the_faq"]


def is_tested(model: str) -> bool:
    """Whether a test or a page of AWS names the model."""
    return bool(rows_of(model)) or known_to_compile(model)


def _same_model(one: str, other: str) -> bool:
    """`bart-base` and `facebook/bart-base` are one model; `a/bart-base`, `b/bart-base` are two."""
    one, other = one.lower(), other.lower()
    if "/" in one and "/" in other:
        return one == other
    return one.rpartition("/")[2] == other.rpartition("/")[2]


def _same_memory(one: str, other: str) -> bool:
    """Whether two instance types have the same accelerators."""
    found = [instance_of(each) for each in (one, other)]
    kinds = [None if it is None else (it.accelerator, it.accelerator_memory_gib) for it in found]
    return one == other or (kinds[0] is not None and kinds[0] == kinds[1])


@cache
def tested_models() -> tuple[TestedModel, ...]:
    """Every row, in AWS's order."""
    return fact_rows("tested_models.csv", TestedModel)
