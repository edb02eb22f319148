"""Arguments of Hugging Face's Trainer that cost what a compiler saves."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilegate.check.findings import Severity
from compilegate.check.rules.rule import (
    TRAINING_COMPILER,
    Found,
    View,
    keyword,
    rule,
)
from compilegate.check.rules.sagemaker.estimators import compiled_estimators, hyperparameter
from compilegate.check.script.spliced import spliced

_MOST_OFTEN = {"logging_steps": 10, "save_steps": 50, "eval_steps": 50}


def _arguments(view: View) -> Iterator[ast.Call]:
    """The calls of TrainingArguments, and of what is derived from them."""
    for call in view.script.calls:
        if any(_are_arguments(name) for name in (view.script.called(call), *_bases(view, call))):
            yield call


def _are_arguments(name: str) -> bool:
    return (name.startswith("transformers.") and name.endswith("TrainingArguments")) or (
        name.startswith("trl.") and name.endswith("Config")
    )


def _bases(view: View, call: ast.Call) -> frozenset[str]:
    """What a class of the folder is derived from; nothing for other calls."""
    made = view.script.definition(call.func)
    if made is None or made.class_ is None:
        return frozenset()
    return made.script.bases(made.class_)


def _given(view: View, name: str) -> Iterator[ast.expr]:
    """What the Trainer is given for an argument: in its call, or as a job's hyperparameter."""
    for call in _arguments(view):
        given = keyword(call, name)
        if given is not None:
            yield given
    if TRAINING_COMPILER in view.compilers:
        for estimator in compiled_estimators(view):
            given = hyperparameter(estimator, name)
            if given is not None and view.script.parent(given) is not None:
                yield given


def _number(node: ast.expr | None) -> float | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return None if isinstance(node.value, bool) else node.value
    return None


@rule("trainer-too-often")
def trainer_too_often(view: View) -> Iterator[Found]:
    for name, least in _MOST_OFTEN.items():
        for given in _given(view, name):
            steps = _number(given)
            if steps is None or not 1 <= steps < least:
                continue
            each = "each step" if steps == 1 else f"every {steps:g} steps"
            grave = None if steps <= 2 else Severity.NOTE
            yield Found(given, f"`{name}={steps:g}`: the Trainer stops {each}", grave)


@rule("trainer-debugging")
def trainer_debugging(view: View) -> Iterator[Found]:
    for call in _arguments(view):
        given = keyword(call, "debug")
        if isinstance(given, ast.Constant) and given.value:
            yield Found(given, f"the Trainer runs with `debug={given.value!r}`")


@rule("trainer-drop-last")
def trainer_drop_last(view: View) -> Iterator[Found]:
    for call in _arguments(view):
        words = spliced(view.script, call)
        if words is None:
            continue
        given = words.get("dataloader_drop_last")
        if given is None or (isinstance(given, ast.Constant) and given.value is False):
            yield Found(call, "the Trainer keeps a smaller last batch")


@rule("trainer-workers")
def trainer_workers(view: View) -> Iterator[Found]:
    for call in _arguments(view):
        words = spliced(view.script, call)
        if words is None:
            continue
        given = words.get("dataloader_num_workers")
        if given is None or _number(given) == 0:
            yield Found(call, "the Trainer reads its batches in the training process")


@rule("trainer-precision")
def trainer_precision(view: View) -> Iterator[Found]:
    for call in _arguments(view):
        words = spliced(view.script, call)
        if words is None:
            continue
        given = [words.get(name) for name in ("bf16", "fp16", "deepspeed", "tf32")]
        names = (view.script.called(call), *_bases(view, call))
        if given[0] is None and any(name.startswith("trl.") for name in names):
            continue  # its arguments turn bf16 on by themselves
        if all(
            each is None or (isinstance(each, ast.Constant) and each.value is False)
            for each in given
        ):
            yield Found(call, "the Trainer trains with 32-bit floats alone")
    if TRAINING_COMPILER in view.compilers:
        for estimator in compiled_estimators(view):
            off = [hyperparameter(estimator, name) for name in ("bf16", "fp16")]
            told = [each for each in off if each is not None]
            if told and all(isinstance(e, ast.Constant) and e.value is False for e in told):
                place = estimator.place(told[0], "hyperparameters")
                yield Found(place, "the job trains with 32-bit floats alone")


@rule("trainer-optimizer")
def trainer_optimizer(view: View) -> Iterator[Found]:
    if view.compilers != (TRAINING_COMPILER,) and not view.xla_anywhere:
        return
    for given in _given(view, "optim"):
        if isinstance(given, ast.Constant) and given.value != "adamw_torch_xla":
            yield Found(given, f"the Trainer's optimizer is `{given.value}`")


RULES = (
    trainer_too_often,
    trainer_debugging,
    trainer_drop_last,
    trainer_workers,
    trainer_precision,
    trainer_optimizer,
)
