"""What a rule's function is given to look at, and what it gives."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from compilegate.check.names import Project, Script, last_name
from compilegate.check.steps import Compiled, Often, Regions, Step, Steps, feeding
from compilegate.check.values import Kind, Values
from compilegate.rules import Severity

TRAINING_COMPILER = "training-compiler"
LAZY = ("xla", TRAINING_COMPILER, "neuron")
"""Compilers that trace the whole step by PyTorch/XLA."""


@dataclass(frozen=True)
class Match:
    """A place where a rule does not hold."""

    node: ast.AST
    message: str
    severity: Severity | None = None  # where this place is graver, or less grave, than the rule


Find = Callable[["View"], Iterator[Match]]


class Analysis:
    """What is known of all scripts together."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.values = Values()
        self.steps = Steps(project, self.values)
        self.regions = Regions(project, self.values, self.steps)
        self.feeding = feeding(project, self.values, self.steps.found)
        """The calls that make what the loops that train go over."""
        self.launchers = tuple(each for each in project.scripts if each.uses("sagemaker"))
        """The scripts that may start jobs on SageMaker."""

    @cached_property
    def words(self) -> frozenset[str]:
        """Every name, attribute, argument and short text of the scripts' code, in lower case."""
        return frozenset().union(*(each.words for each in self.project.scripts))

    def words_of(self, script: Script) -> frozenset[str]:
        """The words of a script and of all that it imports, or that imports it."""
        return frozenset().union(*(each.words for each in self.joined(script)))

    def joined(self, script: Script) -> set[Script]:
        """A script, all that it imports, and all that imports it."""
        importers = {each for each, imported in self._imported.items() if script in imported}
        return importers | self._imported[script]

    @cached_property
    def _imported(self) -> dict[Script, set[Script]]:
        """Each script with all that it imports, over others too."""
        found: dict[Script, set[Script]] = {}
        for script in self.project.scripts:
            bound = [each for names in script.module.names.values() for each in names]
            targets = [*(each.target for each in bound if each.target), *script.module.stars]
            there = (self.project.lookup(script, target) for target in targets)
            found[script] = {script, *(each[0] for each in there if each is not None)}
        for middle, further in found.items():  # the transitive closure, by Warshall's algorithm
            for imported in found.values():
                if middle in imported:
                    imported.update(further)
        return found


@dataclass(frozen=True)
class View:
    """One script, as rules see it."""

    script: Script
    analysis: Analysis
    compilers: tuple[str, ...]  # those that the check is for

    # Where a node is.

    def each_step(self, node: ast.AST) -> bool:
        """Whether a node runs in each step of training."""
        return self.analysis.steps.often(self.script, node) is Often.EACH_STEP

    def region(self, node: ast.AST) -> Compiled | None:
        """The use of torch.compile whose region a node is in; None outside."""
        return self.analysis.regions.around(self.script, node)

    @cached_property
    def steps(self) -> list[Step]:
        return [step for step in self.analysis.steps.found if step.script is self.script]

    @cached_property
    def compiled(self) -> list[Compiled]:
        return [each for each in self.analysis.regions.found if each.script is self.script]

    @cached_property
    def loaders(self) -> list[ast.Call]:
        """The DataLoaders of this script that feed a loop that trains."""
        fed = (call for call in self.script.calls if call in self.analysis.feeding)
        made = (call for call in fed if last_name(call.func).endswith("DataLoader"))
        return [call for call in made if "." in self.script.called(call)]

    # What the script is written for.

    @cached_property
    def xla(self) -> bool:
        """Whether the script is written for PyTorch/XLA."""
        return self.script.uses("torch_xla", "torch_neuronx", "neuronx_distributed")

    @property
    def only_lazy(self) -> bool:
        """Whether all compilers of the check trace by PyTorch/XLA."""
        return all(each in LAZY for each in self.compilers)

    # What an expression is.

    def kind(self, node: ast.expr) -> Kind:
        return self.analysis.values.kind(self.script, node)

    def is_tensor(self, node: ast.expr) -> bool:
        """Whether an expression is a tensor of the device."""
        return self.kind(node) is Kind.TENSOR

    def methods(self, *names: str) -> Iterator[tuple[ast.Call, ast.expr]]:
        """The calls of methods with one of these names, and what they are called on."""
        for name in names:
            for call in self.script.calls_by_last.get(name, ()):
                if isinstance(call.func, ast.Attribute):
                    yield call, call.func.value

    def tensorflow_data(self, *methods: str) -> Iterator[ast.Call]:
        """The calls of methods of tf.data sets that are trained on."""
        for call, owner in self.methods(*methods) if self.script.uses("tensorflow") else ():
            named = re.search(r"dataset\w*$|(?:^|_)ds$|\bds_", ast.unparse(owner).lower())
            if self.kind(owner) is Kind.LOADER or (named and not self.script.uses("datasets")):
                statement = self.script.statement(call)
                targets = statement.targets if isinstance(statement, ast.Assign) else []
                around = getattr(self.script.function_around(call), "name", "")
                names = " ".join([around, *map(ast.unparse, targets)])
                if not re.search(r"val|test|eval|predict", names.lower()):
                    yield call

    def source_calls(self, node: ast.expr) -> list[ast.Call]:
        """The calls that a value may come from."""
        return [call for _, call in self.analysis.values.source_calls(self.script, node)]

    def resolved(self, node: ast.expr | None) -> ast.expr | None:
        """The one expression that a value comes from; the value itself where there are several."""
        found = self.analysis.values.origins(self.script, node) if node is not None else []
        only = found[0].node if len(found) == 1 else node
        return only if isinstance(only, ast.expr) else node

    def keywords_of(self, call: ast.Call) -> dict[str, ast.expr] | None:
        """Every keyword that a call may be given, `**options` included; None where that is hidden.

        What a dictionary only gets under a condition counts as given.
        """
        found: dict[str, ast.expr] = {}
        for word in call.keywords:
            inner = self.entries_of(word.value) if word.arg is None else {word.arg: word.value}
            if inner is None:
                return None
            found.update(inner)
        return found

    def entries_of(self, node: ast.expr) -> dict[str, ast.expr] | None:
        """What a dictionary may hold, from where it is made and changed; None where hidden."""
        found: dict[str, ast.expr] = {}
        parts: list[dict[str, ast.expr] | None] = []
        for origin in self.analysis.values.origins(self.script, node):
            made = origin.node
            if isinstance(made, ast.Call) and origin.script.called(made) == "builtins.dict":
                parts.append(self.keywords_of(made))
                continue
            if not isinstance(made, ast.Dict):
                return None
            for key, value in zip(made.keys, made.values, strict=True):
                written_out = {str(key.value): value} if isinstance(key, ast.Constant) else None
                parts.append(self.entries_of(value) if key is None else written_out)
        if isinstance(node, ast.Name):  # options["drop_last"] = True, options.update(...)
            for other in ast.walk(self.script.source.tree):
                match other:
                    case ast.Subscript(ctx=ast.Store(), value=ast.Name(id=name)) if name == node.id:
                        if isinstance(other.slice, ast.Constant):
                            parts.append({str(other.slice.value): other})
                    case ast.Call(func=ast.Attribute(attr="update", value=ast.Name(id=name))):
                        if name == node.id:
                            parts.append(self.entries_of(other.args[0]) if other.args else None)
        for part in parts:
            if part is None:
                return None
            found.update(part)
        return found


def written(node: ast.AST, most: int = 48) -> str:
    """A node as a message shows it."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= most else f"{text[: most - 3]}..."
