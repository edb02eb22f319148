"""The script that an estimator with Training Compiler starts, where it is in the folder."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from compilegate.check.reading.discovery import is_file_beside
from compilegate.check.rules.rule import TRAINING_COMPILER, Found, View, rule
from compilegate.check.rules.sagemaker.estimators import (
    Estimator,
    compiled_estimators,
    hyperparameter,
    keys,
    settled,
    version,
)
from compilegate.check.script.project import Script

_ONLY = (TRAINING_COMPILER,)


def started(view: View, estimator: Estimator) -> Script | None:
    """The script of the check that is an estimator's entry point."""
    name, folder = estimator.text("entry_point"), estimator.text("source_dir")
    if not name.endswith(".py"):
        return None
    base = estimator.script.source.path.absolute().parent
    wanted = base.joinpath(folder, name)
    for script in view.analysis.project.scripts:
        if script.source.path.absolute() == wanted:
            return script
    return None


def starting(view: View) -> list[Estimator]:
    """The estimators with Training Compiler, of any script of the check, that start this one."""
    return [
        estimator
        for launcher in view.analysis.launchers
        for estimator in compiled_estimators(replace(view, script=launcher))
        if started(view, estimator) is view.script
    ]


@rule("missing-mp-fn")
def missing_mp_fn(view: View) -> Iterator[Found]:
    for estimator in compiled_estimators(view):
        if "pytorchxla" not in keys(estimator.given("distribution")):
            continue
        script = started(view, estimator)
        if script is not None and "_mp_fn" not in script.tree.module.names:
            said = f"{script.source.path.name} has no `_mp_fn` for the processes to call"
            yield Found(estimator.where("entry_point"), said)


@rule("transformers-not-installed")
def transformers_not_installed(view: View) -> Iterator[Found]:
    for estimator in compiled_estimators(view):
        if estimator.framework != "PyTorch" or version(estimator.text("framework_version")) < (
            1,
            12,
        ):
            continue
        script = started(view, estimator)
        if script is None or not script.uses("transformers"):
            continue
        if not is_file_beside(script.source.path, "requirements.txt"):
            said = f"{script.source.path.name} imports Transformers, which the image does not have"
            yield Found(estimator.where("entry_point"), said)


@rule("rate-for-one-gpu")
def rate_for_one_gpu(view: View) -> Iterator[Found]:
    for estimator in compiled_estimators(view):
        launched = hyperparameter(estimator, "training_script") is not None
        if not launched and "pytorchxla" not in keys(estimator.given("distribution")):
            continue
        given = hyperparameter(estimator, "learning_rate", "lr")
        if given is None or estimator.gpus == 1:
            continue
        script = started(view, estimator)
        if script is not None and _grows(script):
            continue
        if _is_of_one(estimator.script, settled(estimator.script, given)):
            said = "the learning rate does not grow with the processes"
            yield Found(estimator.place(given, "hyperparameters"), said)


_PROCESSES = re.compile(r"gpu|instance|node|world|worker|process|device|replica|rank|scale", re.I)


def _grows(script: Script) -> bool:
    """Whether the script itself multiplies something by the number of processes."""
    return any(
        isinstance(node, ast.BinOp | ast.AugAssign)
        and isinstance(node.op, ast.Mult)
        and re.search(r"world|gpu|device_count|num_proc", ast.unparse(node))
        and re.search(r"lr|rate", ast.unparse(node))
        for node in ast.walk(script.source.tree)
    )


def _is_of_one(script: Script, rate: ast.expr) -> bool:
    """Whether a rate is a number, or reckoned from names none of which counts processes."""
    if isinstance(rate, ast.BinOp):
        return all(_counts_nothing(script, side) for side in (rate.left, rate.right))
    return _is_number(script, rate)


def _counts_nothing(script: Script, node: ast.expr) -> bool:
    """Whether a part of a rate is known, and is not the number of processes.

    A bare number may be just that, so only a name says what it is.
    """
    if isinstance(node, ast.BinOp):
        return all(_counts_nothing(script, side) for side in (node.left, node.right))
    if not isinstance(node, ast.Name) or _PROCESSES.search(node.id):
        return False
    value = settled(script, node)
    return _is_number(script, value) or (
        isinstance(value, ast.BinOp) and _counts_nothing(script, value)
    )


def _is_number(script: Script, node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and script.called(node) == "builtins.float" and node.args:
        return isinstance(node.args[0], ast.Constant)
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


RULES = (missing_mp_fn, transformers_not_installed, rate_for_one_gpu)
