"""Estimators of the SageMaker SDK as a script writes them, with Training Compiler or without."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from compilegate.catalog.instances import instance_of
from compilegate.check.rules.rule import View, keyword
from compilegate.check.script.project import Script
from compilegate.check.script.values import origins

SUPPORTED_CLASSES = frozenset({"p3", "p3dn", "g4dn", "p4d", "g5"})
"""The classes of instances that the SDK takes with Training Compiler; it refuses every other."""

_FRAMEWORKS = {
    "HuggingFace": "sagemaker.huggingface",
    "PyTorch": "sagemaker.pytorch",
    "TensorFlow": "sagemaker.tensorflow",
}


@dataclass(frozen=True)
class Estimator:
    """One estimator, with the values of its arguments as far as they can be read."""

    script: Script
    call: ast.Call
    framework: str
    compiler: ast.Call | None
    """The `TrainingCompilerConfig(...)`; None without the compiler."""

    def given(self, name: str) -> ast.expr | None:
        """The value of an argument, followed over names and `**arguments`."""
        found = keyword(self.call, name)
        if found is None:
            for word in self.call.keywords:
                if word.arg is None:
                    found = found or member(settled(self.script, word.value), name)
        return None if found is None else settled(self.script, found)

    def text(self, name: str) -> str:
        """The text of an argument; "" where it is not written in the script."""
        value = self.given(name)
        return (
            value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
        )

    def number(self, name: str) -> int | None:
        """The number given for an argument."""
        value = self.given(name)
        if isinstance(value, ast.Constant) and type(value.value) is int:
            return value.value
        return None

    @property
    def read_whole(self) -> bool:
        """Whether every argument is written in the script, so that one not found is not given."""
        return all(
            word.arg is not None or isinstance(settled(self.script, word.value), ast.Dict)
            for word in self.call.keywords
        )

    @property
    def gpus(self) -> int | None:
        """The GPUs of all its instances; None where they are not known."""
        known = instance_of(self.text("instance_type"))
        count = self.number("instance_count")
        return None if known is None or count is None else known.accelerators * count

    def where(self, name: str) -> ast.AST:
        """Where an argument is given; the estimator where it is not."""
        found = keyword(self.call, name)
        return found if found is not None else self.call

    def place(self, node: ast.AST | None, name: str) -> ast.AST:
        """A node of this script; where it is another script's, the argument that leads to it."""
        if node is not None and self.script.parent(node) is not None:
            return node
        return self.where(name)


def settled(script: Script, node: ast.expr) -> ast.expr:
    """What a name stands for, where that is one value."""
    found = origins(script, node)
    return found[0].node if len(found) == 1 and found[0].index is None else node


def member(node: ast.expr | None, key: str) -> ast.expr | None:
    """What a dictionary written in the script holds for a key."""
    if isinstance(node, ast.Dict):
        for name, value in zip(node.keys, node.values, strict=True):
            if isinstance(name, ast.Constant) and name.value == key:
                return value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return keyword(node, key)
    return None


def keys(node: ast.expr | None) -> list[str]:
    """The keys of a dictionary written in the script."""
    if isinstance(node, ast.Dict):
        return [
            name.value
            for name in node.keys
            if isinstance(name, ast.Constant) and isinstance(name.value, str)
        ]
    return []


def hyperparameter(estimator: Estimator, *names: str) -> ast.expr | None:
    """What is given for the first of some hyperparameters, with `-` or `_` between the words."""
    given = estimator.given("hyperparameters")
    for name in names:
        found = member(given, name) or member(given, name.replace("_", "-"))
        if found is not None:
            return found
    return None


def estimators(view: View) -> Iterator[Estimator]:
    """Every estimator of a framework."""
    if not view.script.uses("sagemaker"):
        return
    for call in view.script.calls:
        name = view.script.called(call)
        last = name.rsplit(".", 1)[-1]
        if last not in _FRAMEWORKS or not name.startswith(_FRAMEWORKS[last]):
            continue
        made = Estimator(view.script, call, last, None)
        config = made.given("compiler_config")
        if isinstance(config, ast.Call) and view.script.called(config).endswith(
            "TrainingCompilerConfig"
        ):
            made = Estimator(view.script, call, last, config)
        yield made


def compiled_estimators(view: View) -> Iterator[Estimator]:
    """The estimators with Training Compiler switched on."""
    for estimator in estimators(view):
        if estimator.compiler is not None:
            enabled = keyword(estimator.compiler, "enabled")
            if not (isinstance(enabled, ast.Constant) and enabled.value is False):
                yield estimator


def called_native(script: Script, what: str) -> Iterator[tuple[str, ast.expr]]:
    """The names of a script, with their values, that say: this is the job without the compiler."""
    pattern = re.compile(rf"(?:{what}).*native|native.*(?:{what})", re.IGNORECASE)
    for statement in ast.walk(script.source.tree):
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name) and pattern.search(target.id):
                    yield target.id, statement.value


def version(text: str) -> tuple[int, ...]:
    """A version as numbers; empty where it is none."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
