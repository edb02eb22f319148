"""How many processes prepare the data before training begins."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from compilegate.catalog.instances import instance_of
from compilegate.check.rules.rule import TRAINING_COMPILER, Found, View, keyword, rule
from compilegate.check.rules.sagemaker.entry_points import started, starting
from compilegate.check.rules.sagemaker.estimators import (
    Estimator,
    compiled_estimators,
    hyperparameter,
    settled,
)
from compilegate.check.script.project import Script
from compilegate.check.script.values import origins

_ONLY = (TRAINING_COMPILER,)
_OPTION = "preprocessing_num_workers"

_LOADS = re.compile(
    r"datasets\.(?:load_dataset|load_from_disk|DatasetDict|"
    r"(?:Dataset|DatasetDict)\.(?:from_\w+|load_from_disk))"
)
_PASSED_ON = frozenset(
    {"cast_column", "filter", "map", "remove_columns", "rename_column", "select", "shuffle",
     "sort", "train_test_split"}
)  # fmt: skip
_WITH_THE_OPTION = re.compile(
    r"(?:.*/)?run_(?:clm|mlm|plm|qa|ner|swag|summarization|translation)\.py"
)
"""Transformers' example scripts that take the option."""


@rule("preprocessing-workers")
def preprocessing_workers(view: View) -> Iterator[Found]:
    for estimator in compiled_estimators(view):
        yield from _given(view, estimator)
    slow = [call for call in view.methods("map") if _alone(call) and _of_dataset(view, call)]
    if slow and (view.compilers == _ONLY or starting(view) or _trains(view)):
        for call in slow:
            yield Found(call, "`map` prepares the data in one process")


def _trains(view: View) -> bool:
    """Whether the script that prepares the data also trains on it."""
    return bool(view.steps) or any(
        view.script.called(call).startswith(("transformers.", "trl.")) for call in _trainers(view)
    )


def _trainers(view: View) -> list[ast.Call]:
    return [
        call
        for call in view.script.calls
        if view.script.called(call).rsplit(".", 1)[-1].endswith("Trainer")
    ]


def _given(view: View, estimator: Estimator) -> Iterator[Found]:
    """What an estimator gives the option of a script that has it."""
    known = instance_of(estimator.text("instance_type"))
    given = hyperparameter(estimator, _OPTION)
    if given is None:
        _, whole = estimator.hyperparameters
        if whole and estimator.read_whole and _takes_the_option(view, estimator):
            said = f"`{_OPTION}` is left at one process"
            yield Found(estimator.where("hyperparameters"), said)
        return
    value = settled(estimator.script, given)
    count = value.value if isinstance(value, ast.Constant) else None
    if known is not None and type(count) is int and count < known.accelerators:
        said = f"`{_OPTION}` is {count}, for {known.accelerators} GPUs"
        yield Found(estimator.place(given, "hyperparameters"), said)


def _takes_the_option(view: View, estimator: Estimator) -> bool:
    script = started(view, estimator)
    if script is None:
        cloned = estimator.given("git_config") is not None
        return cloned and _WITH_THE_OPTION.fullmatch(estimator.text("entry_point")) is not None
    for call in script.calls_by_last.get("add_argument", ()):
        if any(
            isinstance(each, ast.Constant) and str(each.value).lstrip("-") == _OPTION
            for each in call.args
        ):
            return _is_one(keyword(call, "default"))
    return any(_is_one(each) for each in _fields(script))


def _fields(script: Script) -> Iterator[ast.expr | None]:
    """The default of the option where it is a field of a class of arguments."""
    for node in ast.walk(script.source.tree):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if node.target.id == _OPTION:
            value = node.value
            yield keyword(value, "default") if isinstance(value, ast.Call) else value


def _is_one(node: ast.expr | None) -> bool:
    """Whether a number of processes is left out, or written as none or one."""
    return node is None or (isinstance(node, ast.Constant) and node.value in {None, 0, 1})


def _alone(call: ast.Call) -> bool:
    """Whether `map` is known to work in the process that calls it."""
    if not (call.args or keyword(call, "function")) or len(call.args) > 2:
        return False
    passed_on = any(word.arg is None for word in call.keywords)
    return not passed_on and _is_one(keyword(call, "num_proc"))


def _of_dataset(view: View, call: ast.Call) -> bool:
    if not view.script.uses("datasets") or not isinstance(call.func, ast.Attribute):
        return False
    return _is_dataset(view.script, call.func.value, 0)


def _is_dataset(script: Script, node: ast.expr, depth: int) -> bool:
    """Whether a value is a dataset of Hugging Face's that is read as a whole, not streamed."""
    if depth > 8:
        return False
    if isinstance(node, ast.Subscript):
        return _is_dataset(script, node.value, depth + 1)
    if isinstance(node, ast.Call):
        if _LOADS.fullmatch(script.called(node)):
            streaming = keyword(node, "streaming")
            return streaming is None or (
                isinstance(streaming, ast.Constant) and streaming.value is False
            )
        if isinstance(node.func, ast.Attribute) and node.func.attr in _PASSED_ON:
            return _is_dataset(script, node.func.value, depth + 1)
    return any(
        origin.node is not node and _is_dataset(origin.script, origin.node, depth + 1)
        for origin in origins(script, node)
    )


RULES = (preprocessing_workers,)
