"""The rules of `checks.py` for what runs and hardly pays: what AWS's pages advise. Pure.

Each is a warning, and names the page that asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from compilegate.catalog.compilers import Compiler
from compilegate.catalog.findings import Asked, Finding, warning
from compilegate.catalog.instances import instance_of
from compilegate.catalog.landscape import graphless
from compilegate.catalog.tested_models import SUPPORT_PAGE, known_to_compile, rows_of

GUIDE = "https://docs.aws.amazon.com/sagemaker/latest/dg"
OVERVIEW = f"{GUIDE}/training-compiler.html"
BEST_PRACTICES = f"{GUIDE}/training-compiler-tips-pitfalls.html"
FAQ = f"{GUIDE}/training-compiler-faq.html"

_MODULES_WITHOUT_A_GRAPH = {
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "catboost": "catboost",
    "sklearn": "scikit-learn",
}
"""Frameworks that have no graph, by the module that a script imports."""
_MODULES_WITH_A_GRAPH = frozenset(
    {"torch", "tensorflow", "keras", "jax", "transformers", "accelerate"}
    | {"lightning", "pytorch_lightning", "torch_xla", "tf_keras"}
)


def practices(asked: Asked, compiler: Compiler) -> Iterator[Finding]:
    """Every warning of what AWS's pages advise against."""
    yield from _tested(asked, compiler)
    yield from _half_precision(asked, compiler)
    yield from _rate(asked)
    yield from _length(asked, compiler)
    yield from _single_gpus(asked)
    yield from _network(asked, compiler)
    yield from _trees(asked, compiler)


def _tested(asked: Asked, compiler: Compiler) -> Iterator[Finding]:
    """The FAQ: what becomes of a model that AWS never tested."""
    if not compiler.tested_models:
        return
    if asked.model is None:
        reason = f"AWS tested {compiler.title} with models of the hub, and this workload names none"
    elif any(row.framework == asked.framework for row in rows_of(asked.model)):
        return
    elif known_to_compile(asked.model):
        yield warning(
            "model",
            f"AWS names {asked.model} among the models that {compiler.title} makes faster, and "
            f"published no test of it with {asked.framework}",
            "declare a batch_size, and find the largest by trying",
            page=FAQ,
        )
        return
    else:
        reason = f"AWS never tested {compiler.title} with {asked.model}"
    yield warning(
        "model",
        reason,
        "adapt the script first, expect that it may be slower, and tune batch_size and "
        "learning_rate again",
        page=FAQ,
    )


def _half_precision(asked: Asked, compiler: Compiler) -> Iterator[Finding]:
    """All but three of AWS's 316 tests are in 16 bits."""
    if compiler.tested_models and asked.precision == "fp32":
        yield warning(
            "precision",
            f"fp32 alone leaves most of what {compiler.title} gains: AWS's tests are in 16 bits, "
            "but for three",
            'take precision = "fp16" in the baseline and here',
            page=SUPPORT_PAGE,
        )


def _rate(asked: Asked) -> Iterator[Finding]:
    """A batch k times as large asks for k times the rate, or its root."""
    examples, before = asked.examples, asked.baseline_examples
    if examples is None or before is None or examples == before:
        return
    if asked.learning_rate is None or asked.learning_rate != asked.baseline_learning_rate:
        return
    factor = examples / before
    linear, root = (asked.learning_rate * by for by in (factor, math.sqrt(factor)))
    yield warning(
        "learning_rate",
        f"a step takes {examples} examples, {factor:.4g} times the baseline's {before}, at the "
        f"baseline's learning_rate {asked.learning_rate:g}",
        f'take {linear:.4g} (scale_learning_rate = "linear") or {root:.4g} ("square-root")',
        page=BEST_PRACTICES,
    )


def _length(asked: Asked, compiler: Compiler) -> Iterator[Finding]:
    """What is compiled first has to be repaid by the rest of the job."""
    compiling, limit = compiler.compiling, asked.limit_seconds
    if compiling is None or limit is None or limit >= compiling.repaid_seconds:
        return
    least, most = (seconds // 60 for seconds in compiling.seconds)
    takes = f"{compiler.title} compiles for {least} to {most} minutes before it trains"
    if limit <= compiling.seconds[1]:
        yield warning(
            "limit_seconds",
            f"jobs are ended after {limit} s (compute.max_runtime_seconds), and {takes}",
            f"allow {compiling.repaid_seconds} s or more",
            page=compiling.source,
        )
    else:
        yield warning(
            "limit_seconds",
            f"jobs take {limit} s at most (compute.max_runtime_seconds), and {takes}, which jobs "
            f"of less than {compiling.repaid_seconds // 60} minutes hardly repay",
            "take a longer training, or none of this compiler",
            page=compiling.source,
        )


def _single_gpus(asked: Asked) -> Iterator[Finding]:
    instance = instance_of(asked.instance_type)
    if asked.instance_count > 1 and instance is not None and instance.accelerators == 1:
        yield warning(
            "instance_count",
            f"{asked.instance_count} x {asked.instance_type} have one {instance.accelerator.name} "
            "each, and send gradients over the network",
            "take one instance with as many, which is faster",
            page=BEST_PRACTICES,
        )


def _network(asked: Asked, compiler: Compiler) -> Iterator[Finding]:
    """The compiler's own list where it has one; elsewhere what is known to lack EFA."""
    instance = instance_of(asked.instance_type)
    fast = compiler.efa_instances
    slow = asked.instance_type not in fast if fast else instance is not None and instance.no_efa
    if asked.instance_count > 1 and slow:
        those = ", ".join(fast) if fast else "an instance with EFA, such as ml.p4d.24xlarge"
        yield warning(
            "instance_type",
            f"{asked.instance_count} x {asked.instance_type} exchange gradients without EFA, "
            "which is slow",
            f"use {those}, or one instance with more GPUs",
            page=BEST_PRACTICES,
        )


def _trees(asked: Asked, compiler: Compiler) -> Iterator[Finding]:
    """What a script imports shows that it grows trees, whatever its image holds."""
    if compiler.name == "eager" or asked.libraries & _MODULES_WITH_A_GRAPH:
        return
    for module in sorted(asked.libraries & _MODULES_WITHOUT_A_GRAPH.keys()):
        why = graphless(_MODULES_WITHOUT_A_GRAPH[module])
        if why is not None:
            yield warning(
                "framework",
                f"the program imports {module} and nothing that has a graph, so {compiler.title} "
                f"does nothing for it: {why.why}",
                f"what makes it faster: {why.instead}",
                page=OVERVIEW,
            )
            return
