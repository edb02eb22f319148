"""What a rule is, and what it is given to look at.

A rule is one function, listed in `RULES` of its file; what it says of what it finds, and the page
that says so, is in `compilegate/rules/rules.toml`:

    @rule("sync-in-step")
    def sync_in_step(view: View) -> Iterator[Found]:
        for call in view.methods("item"):
            if view.each_step(call):
                yield Found(call, f"`{written(call)}` reads a value from the device")

It looks at one script at a time. The project behind it answers for imports among the files.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from compilegate.check.names import Project, Script, last_name
from compilegate.check.steps import Compiled, Often, Regions, Step, Steps, feeding
from compilegate.check.values import Kind, Values
from compilegate.rules import table

TORCH_COMPILE, XLA, TRAINING_COMPILER, NEURON = (
    "torch-compile",
    "xla",
    "training-compiler",
    "neuron",
)
LAZY = (XLA, TRAINING_COMPILER, NEURON)
"""Those that trace the whole step by PyTorch/XLA."""


class Severity(IntEnum):
    """How grave a finding is. `ERROR` is kept for what is wrong whatever else the script does."""

    NOTE = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        """The word people read and write."""
        return self.name.lower()


@dataclass(frozen=True)
class Found:
    """A place where a rule does not hold."""

    node: ast.AST
    message: str
    severity: Severity | None = None
    """Where this place is graver, or less grave, than the rule."""


Find = Callable[["View"], Iterator[Found]]


@dataclass(frozen=True)
class Rule:
    """What is looked for, why, and what to do about it."""

    name: str
    severity: Severity
    compilers: tuple[str, ...]
    why: str
    fix: str
    page: str
    """The page that says so."""

    find: Find


def rule(name: str) -> Callable[[Find], Rule]:
    """Make a rule of the function that finds its places. What it says is in the table of rules."""
    known = table().rules[name]

    def made(find: Find) -> Rule:
        severity = Severity[known.severity.upper()]
        return Rule(name, severity, known.compilers, known.why, known.fix, known.page, find)

    return made


class Analysis:
    """What is known of all scripts together."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.values = Values()
        self.steps = Steps(project, self.values)
        self.regions = Regions(project, self.values, self.steps)
        self.feeding = feeding(project, self.values, self.steps.found)
        """The calls that make what the loops that train go over."""

    @cached_property
    def launchers(self) -> tuple[Script, ...]:
        """The scripts that may start jobs on SageMaker."""
        return tuple(each for each in self.project.scripts if each.uses("sagemaker"))

    @cached_property
    def words(self) -> frozenset[str]:
        """Every name, attribute, argument and short text of the scripts' code, in lower case."""
        return frozenset().union(*(self._words_of(each) for each in self.project.scripts))

    def words_of(self, script: Script) -> frozenset[str]:
        """The words of a script and of all that it imports, or that imports it."""
        return frozenset().union(*(self._words_of(each) for each in self.joined(script)))

    def joined(self, script: Script) -> set[Script]:
        """A script, all that it imports, and all that imports it."""
        return {script, *_reached(self._imports, script), *_reached(self._importers, script)}

    def _words_of(self, script: Script) -> frozenset[str]:
        if script not in self._words:
            self._words[script] = frozenset(_code_words(script))
        return self._words[script]

    @cached_property
    def _words(self) -> dict[Script, frozenset[str]]:
        return {}

    @cached_property
    def _imports(self) -> dict[Script, set[Script]]:
        found: dict[Script, set[Script]] = {}
        for script in self.project.scripts:
            bound = [each for names in script.module.names.values() for each in names]
            targets = [each.target for each in bound if each.target] + script.module.stars
            there = (self.project.lookup(script, each) for each in targets)
            found[script] = {each[0] for each in there if each is not None}
        return found

    @cached_property
    def _importers(self) -> dict[Script, set[Script]]:
        found: dict[Script, set[Script]] = {}
        for script, others in self._imports.items():
            for other in others:
                found.setdefault(other, set()).add(script)
        return found


def _reached(ways: dict[Script, set[Script]], start: Script) -> set[Script]:
    found: set[Script] = set()
    pending = [start]
    while pending:
        new = ways.get(pending.pop(), set()) - found
        found |= new
        pending += new
    return found


_WORD = re.compile(r"[a-z_][a-z0-9_]*")


def _code_words(script: Script) -> Iterator[str]:
    for node in ast.walk(script.source.tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name):
                yield name.lower()
            case ast.keyword(arg=str(name)):
                yield from (name.lower(), f"{name.lower()}=")
            case ast.Attribute():
                yield from (node.attr.lower(), f".{node.attr.lower()}")
            case ast.Constant(value=str(text)) if len(text) < 60 and len(text.split()) == 1:
                option = script.parent(node)  # one that nobody reads gives nothing
                if not (isinstance(option, ast.Call) and last_name(option.func) == "add_argument"):
                    yield from _WORD.findall(text.lower().replace("-", "_"))


@dataclass(frozen=True)
class View:
    """One script, as rules see it."""

    script: Script
    analysis: Analysis
    compilers: tuple[str, ...]
    """The compilers that were asked about."""

    # Where a node is.

    def each_step(self, node: ast.AST) -> bool:
        """Whether a node runs in each step of training."""
        return self.analysis.steps.often(self.script, node) is Often.EACH_STEP

    def region(self, node: ast.AST) -> Compiled | None:
        """The use of torch.compile whose region a node is in; None outside."""
        return self.analysis.regions.around(self.script, node)

    @cached_property
    def steps(self) -> list[Step]:
        """The steps whose loop or method is in this script."""
        return [step for step in self.analysis.steps.found if step.script is self.script]

    @cached_property
    def compiled(self) -> list[Compiled]:
        """The uses of torch.compile in this script."""
        return [each for each in self.analysis.regions.found if each.script is self.script]

    @cached_property
    def loaders(self) -> list[ast.Call]:
        """The DataLoaders of this script that feed a loop that trains."""
        made = (call for call in self.script.calls if last_name(call.func).endswith("DataLoader"))
        return [
            each
            for each in made
            if each in self.analysis.feeding and "." in self.script.called(each)
        ]

    # What the script is written for.

    @cached_property
    def xla(self) -> bool:
        """Whether the script is written for PyTorch/XLA."""
        return self.script.uses("torch_xla", "torch_neuronx", "neuronx_distributed")

    @property
    def asked_lazy(self) -> bool:
        """Whether a compiler was asked for by name that traces by PyTorch/XLA; not `all`."""
        return all(each in LAZY for each in self.compilers)

    # What an expression is.

    def kind(self, node: ast.expr) -> Kind:
        """What an expression is."""
        return self.analysis.values.kind(self.script, node)

    def is_tensor(self, node: ast.expr) -> bool:
        """Whether an expression is a tensor of the device."""
        return self.kind(node) is Kind.TENSOR

    def named(self, *names: str) -> list[ast.Call]:
        """The calls of functions with one of these canonical names."""
        return self.script.calls_of(*names)

    def methods(self, *names: str) -> Iterator[ast.Call]:
        """The calls of methods with one of these names, whatever they are called on."""
        for name in names:
            for call in self.script.calls_by_last.get(name, ()):
                if isinstance(call.func, ast.Attribute):
                    yield call

    def tensorflow_data(self, *methods: str) -> Iterator[ast.Call]:
        """The calls of methods of tf.data sets that are trained on."""
        for call in self.methods(*methods) if self.script.uses("tensorflow") else ():
            owner = call.func.value if isinstance(call.func, ast.Attribute) else call
            named = re.search(r"dataset\w*$|(?:^|_)ds$|\bds_", ast.unparse(owner).lower())
            kind = self.kind(owner)
            if kind is not Kind.LOADER and not (named and not self.script.uses("datasets")):
                continue
            around = self.script.function_around(call)
            statement = self.script.statement(call)
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            names = [getattr(around, "name", ""), *(ast.unparse(each) for each in targets)]
            if not re.search(r"val|test|eval|predict", " ".join(names).lower()):
                yield call

    def settled(self, node: ast.expr | None) -> ast.expr | None:
        """The one expression that a value comes from; the value itself where there are several."""
        found = self.analysis.values.origins(self.script, node) if node is not None else []
        only = found[0].node if len(found) == 1 else node
        return only if isinstance(only, ast.expr) else node

    def given(self, call: ast.Call) -> dict[str, ast.expr] | None:
        """Every keyword that a call may be given, `**options` included; None where that is hidden.

        What a dictionary only gets under a condition counts as given.
        """
        found: dict[str, ast.expr] = {}
        for word in call.keywords:
            if word.arg is not None:
                found[word.arg] = word.value
                continue
            inner = self.held(word.value)
            if inner is None:
                return None
            found.update(inner)
        return found

    def held(self, node: ast.expr) -> dict[str, ast.expr] | None:
        """What a dictionary may hold, from where it is made and changed; None where hidden."""
        found: dict[str, ast.expr] = {}
        for origin in self.analysis.values.origins(self.script, node):
            made = origin.node
            if isinstance(made, ast.Dict):
                pairs = list(zip(made.keys, made.values, strict=True))
            elif isinstance(made, ast.Call) and origin.script.called(made) == "builtins.dict":
                pairs = [(ast.Constant(word.arg) if word.arg else None, word.value)
                         for word in made.keywords]  # fmt: skip
            else:
                return None
            for key, value in pairs:
                inner = self.held(value) if key is None else {}
                if inner is None or not isinstance(key, ast.Constant | None):
                    return None
                found.update(inner if key is None else {str(key.value): value})
        if isinstance(node, ast.Name):  # options["drop_last"] = True, options.update(...)
            for other in ast.walk(self.script.source.tree):
                match other:
                    case ast.Subscript(ctx=ast.Store(), value=ast.Name(id=name)) if name == node.id:
                        if isinstance(other.slice, ast.Constant):
                            found[str(other.slice.value)] = other
                    case ast.Call(func=ast.Attribute(attr="update", value=ast.Name(id=name))):
                        if name == node.id:
                            inner = self.held(other.args[0]) if len(other.args) == 1 else None
                            if inner is None:
                                return None
                            found.update(inner)
        return found


def written(node: ast.AST, most: int = 48) -> str:
    """A node as a message shows it."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= most else f"{text[: most - 3]}..."
