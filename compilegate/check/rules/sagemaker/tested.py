"""What AWS tested with Training Compiler: models, instances, and the batches that fitted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from compilegate.catalog.tested_models import default_batch_size, is_tested, tested_models
from compilegate.check.rules.rule import TRAINING_COMPILER, Found, View, keyword, rule
from compilegate.check.rules.sagemaker.entry_points import starting
from compilegate.check.rules.sagemaker.estimators import (
    Estimator,
    called_native,
    compiled_estimators,
    estimators,
    hyperparameter,
    settled,
)
from compilegate.check.script.project import Script

_ONLY = (TRAINING_COMPILER,)

_MODEL_NAMES = ("model_name_or_path", "model_name", "model_id", "model_checkpoint",
                "pretrained_model_name_or_path")  # fmt: skip
_MODEL_CLASS = re.compile(r"Model$|For[A-Z]\w*$|WithLMHead$|LMHeadModel$")
_ORGANIZATION_AND_MODEL = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_FAMILIES = re.compile(
    r"(?:albert|bart|bert|camembert|ctrl|deberta|distilbert|distilgpt2|distilroberta|electra|"
    r"gpt2|openai-gpt|roberta|t5|transfo-xl|vit|xlm|xlnet)(?:-[\w.-]+)?"
)
"""Models that lie on the hub under no organization."""
_FOLDERS = frozenset(
    {"artifacts", "checkpoint", "checkpoints", "data", "experiments", "models", "model", "opt",
     "out", "output", "outputs", "pretrained", "results", "runs", "saved", "tmp", "weights"}
)  # fmt: skip


@rule("untested-model")
def untested_model(view: View) -> Iterator[Found]:
    for estimator in compiled_estimators(view):
        given = hyperparameter(estimator, *_MODEL_NAMES)
        name = _text(estimator.script, given)
        if given is not None and _is_untested(name):
            yield Found(estimator.place(given, "hyperparameters"), _untested(name))
    loaded: dict[str, ast.Call] = {}
    for call in view.methods("from_pretrained"):
        loaded.setdefault(_loaded(view, call), call)
    untested = {name: call for name, call in loaded.items() if _is_untested(name)}
    if not untested:
        return
    starters = starting(view)
    if any(hyperparameter(each, *_MODEL_NAMES) for each in starters):
        return  # what an estimator names is told there
    if starters or (view.compilers == _ONLY and _trains(view)):
        for name, call in untested.items():
            yield Found(call, _untested(name))


def _trains(view: View) -> bool:
    """Whether this script trains what it loads, by a step of its own or by a Trainer."""
    return bool(view.steps) or any(
        view.script.called(call).startswith(("transformers.", "trl."))
        and view.script.called(call).endswith("Trainer")
        for call in view.script.calls
    )


def _untested(name: str) -> str:
    return f"AWS's table of tested models does not have `{name}`"


def _is_untested(name: str) -> bool:
    """Whether a text is a model of the hub, not a folder, that no test and no page of AWS has."""
    if _ORGANIZATION_AND_MODEL.fullmatch(name):
        if any(part.lower() in _FOLDERS for part in name.split("/")):
            return False
    elif not _FAMILIES.fullmatch(name):
        return False
    return not is_tested(name)


def _loaded(view: View, call: ast.Call) -> str:
    """The model that a call of `from_pretrained` loads; "" where that is not written."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if owner is None:
        return ""
    library, _, made = view.script.name(owner).rpartition(".")
    if library.split(".")[0] != "transformers" or not _MODEL_CLASS.search(made):
        return ""
    given = call.args[0] if call.args else keyword(call, "pretrained_model_name_or_path")
    return _text(view.script, given) or _default(view.script, given)


def _text(script: Script, node: ast.expr | None) -> str:
    value = None if node is None else settled(script, node)
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def _default(script: Script, node: ast.expr | None) -> str:
    """The default of the option that `args.NAME` reads."""
    if not isinstance(node, ast.Attribute):
        return ""
    for call in script.calls_by_last.get("add_argument", ()):
        first = call.args[0] if call.args else None
        option = first.value if isinstance(first, ast.Constant) else None
        if isinstance(option, str) and option.lstrip("-").replace("-", "_") == node.attr:
            return _text(script, keyword(call, "default"))
    return ""


@rule("untested-instance")
def untested_instance(view: View) -> Iterator[Found]:
    for estimator in compiled_estimators(view):
        instance = estimator.text("instance_type")
        if not instance or not estimator.supported:
            continue  # which another rule says
        if instance not in {row.instance_type for row in tested_models()}:
            said = f"AWS's table of tested models has nothing on `{instance}`"
            yield Found(estimator.where("instance_type"), said)


_PER_GPU = ("per_device_train_batch_size", "per_gpu_train_batch_size")
_BATCHES = (*_PER_GPU, "train_batch_size", "batch_size")


@rule("batch-not-raised")
def batch_not_raised(view: View) -> Iterator[Found]:
    every = [each for each in estimators(view) if _on_pytorch(each)]
    compiled = [each for each in compiled_estimators(view) if _on_pytorch(each)]
    for estimator in compiled:
        batch = _number(estimator, *_BATCHES)
        if batch is None or _is_control(estimator, batch, compiled):
            continue
        native = [each for each in every if each.compiler is None]
        said = (
            _like_the_name(estimator, batch)
            or _like_the_other(estimator, batch, native)
            or _like_the_test(estimator, batch)
        )
        if said:
            given = hyperparameter(estimator, *_BATCHES)
            yield Found(estimator.place(given, "hyperparameters"), said)


def _on_pytorch(estimator: Estimator) -> bool:
    """Whether a larger batch is to be expected: in AWS's tests TensorFlow's is often smaller."""
    return estimator.framework == "PyTorch" or estimator.text("pytorch_version") != ""


def _number(estimator: Estimator, *names: str) -> int | None:
    given = hyperparameter(estimator, *names)
    value = None if given is None else settled(estimator.script, given)
    if not isinstance(value, ast.Constant):
        return None
    if type(value.value) is int:
        return value.value
    if isinstance(value.value, str) and value.value.isdecimal():
        return int(value.value)
    return None


def _is_control(estimator: Estimator, batch: int, compiled: list[Estimator]) -> bool:
    """Whether the same script is compiled with another batch too, or may be."""
    return any(
        each.call is not estimator.call
        and each.text("entry_point") == estimator.text("entry_point")
        and _number(each, *_BATCHES) != batch
        for each in compiled
    )


def _like_the_name(estimator: Estimator, batch: int) -> str:
    """Whether the batch is what the script itself calls the batch without the compiler."""
    for name, value in called_native(estimator.script, "batch"):
        if isinstance(value, ast.Constant) and value.value == batch:
            return f"the batch stays at {batch}, that of `{name}`"
    return ""


def _like_the_other(estimator: Estimator, batch: int, native: list[Estimator]) -> str:
    """Whether the same script runs without the compiler at this batch, on the same instance."""
    for other in native:
        same = all(
            estimator.text(name) and estimator.text(name) == other.text(name)
            for name in ("entry_point", "instance_type")
        )
        if same and _number(other, *_BATCHES) == batch:
            return f"the batch stays at {batch}, as without the compiler"
    return ""


def _like_the_test(estimator: Estimator, batch: int) -> str:
    """Whether AWS's own test of the model fitted more, and no more than this without it."""
    length = _number(estimator, "max_seq_length", "max_length", "block_size", "max_seq_len")
    half = hyperparameter(estimator, "fp16")
    value = None if half is None else settled(estimator.script, half)
    on = isinstance(value, ast.Constant) and str(value.value).lower() in {"true", "1"}
    model = _text(estimator.script, hyperparameter(estimator, *_MODEL_NAMES))
    instance = estimator.text("instance_type")
    if not (length and on and model and _number(estimator, *_PER_GPU) == batch):
        return ""
    fitted, before = (
        default_batch_size(
            model,
            instance_type=instance,
            precision="fp16",
            sequence_length=length,
            compiled=compiled,
            framework="pytorch",
        )
        for compiled in (True, False)
    )
    if isinstance(fitted, str) or isinstance(before, str):
        return ""
    (more, row), (less, other) = fitted, before
    if row != other or not batch <= less < more:
        return ""
    return (
        f"the batch is {batch}; AWS's test of {row.model} on {instance} fitted {more} with "
        f"Training Compiler, {less} without"
    )


RULES = (untested_model, untested_instance, batch_not_raised)
