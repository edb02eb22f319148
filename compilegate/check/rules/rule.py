"""What a rule is, and what it is given to look at.

A rule is one function, listed in `RULES` of its file; what it says of what it finds, and the page
that says so, is in `compilegate/rules/rules.toml`:

    @rule("item-in-step")
    def item_in_step(view: View) -> Iterator[Found]:
        for call in view.script.calls:
            if view.each_step(call) and view.calls_method(call, "item"):
                yield Found(call, "the loss is read in each step by `.item()`")

It looks at one script at a time. The project behind it answers for imports within the folder.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from compilegate.check.findings import Severity
from compilegate.check.regions.compiled import Compiled, Regions
from compilegate.check.regions.feeding import training_loaders
from compilegate.check.regions.steps import Often, Step, Steps
from compilegate.check.script.project import Project, Script
from compilegate.rules import table

TORCH_COMPILE = "torch-compile"
XLA = "xla"
TRAINING_COMPILER = "training-compiler"
NEURON = "neuron"

_WORD = re.compile(r"[a-z_][a-z0-9_]*")

LAZY = (XLA, TRAINING_COMPILER, NEURON)
"""Those that trace the whole step by PyTorch/XLA."""


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
        return Rule(
            name,
            Severity[known.severity.upper()],
            known.compilers,
            known.why,
            known.fix,
            known.page,
            find,
        )

    return made


_Ways = dict[Script, set[Script]]


@dataclass(frozen=True)
class Analysis:
    """What is known of all scripts together."""

    project: Project
    steps: Steps
    regions: Regions

    @cached_property
    def training_loaders(self) -> frozenset[ast.AST]:
        """The calls that make what the loops that train go over."""
        return training_loaders(self.project, self.steps.found)

    @cached_property
    def xla(self) -> bool:
        """Whether any script is written for PyTorch/XLA."""
        return any(
            each.uses("torch_xla") or each.uses("torch_neuronx") for each in self.project.scripts
        )

    @cached_property
    def launchers(self) -> tuple[Script, ...]:
        """The scripts that may start jobs on SageMaker."""
        return tuple(each for each in self.project.scripts if each.uses("sagemaker"))

    def code_words(self, script: Script) -> frozenset[str]:
        """Every word of a script, and the names, attributes, arguments and short texts of all that
        it is joined with by imports, in lower case."""
        own = (word for line in script.source.lines for word in _WORD.findall(line.lower()))
        return frozenset(own).union(*(self._words_of(each) for each in self._joined(script)))

    def _words_of(self, script: Script) -> frozenset[str]:
        if script not in self._words:
            self._words[script] = frozenset(_code_words(script))
        return self._words[script]

    @cached_property
    def _words(self) -> dict[Script, frozenset[str]]:
        return {}

    def _joined(self, script: Script) -> frozenset[Script]:
        """What a script imports, and what imports it; not what imports the same as it does."""
        imports, imported_by = self._imports
        return frozenset({script, *_reached(imports, script), *_reached(imported_by, script)})

    @cached_property
    def _imports(self) -> tuple[_Ways, _Ways]:
        """Which scripts import which, and which are imported by which."""
        imports: _Ways = {}
        imported_by: _Ways = {}
        for script in self.project.scripts:
            for name in _imported(script):
                there = self.project.lookup(script, name)
                if there is not None and there[0] is not script:
                    imports.setdefault(script, set()).add(there[0])
                    imported_by.setdefault(there[0], set()).add(script)
        return imports, imported_by

    @cached_property
    def words(self) -> frozenset[str]:
        """Every name, attribute, argument and short text of the scripts, in lower case."""
        found: set[str] = set()
        for script in self.project.scripts:
            for line in script.source.lines:
                found.update(_WORD.findall(line.lower()))
        return frozenset(found)


def _reached(ways: _Ways, start: Script) -> set[Script]:
    found: set[Script] = set()
    pending = [start]
    while pending:
        for other in ways.get(pending.pop(), ()):
            if other not in found:
                found.add(other)
                pending.append(other)
    return found


def _imported(script: Script) -> Iterator[str]:
    """The dotted names that a script imports."""
    for node in ast.walk(script.source.tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield module
            yield from (f"{module}.{each.name}" for each in node.names if node.module is None)


def _code_words(script: Script) -> Iterator[str]:
    for node in ast.walk(script.source.tree):
        match node:
            case ast.Name():
                yield node.id.lower()
            case ast.Attribute():
                yield from (node.attr.lower(), f".{node.attr.lower()}")
            case ast.keyword(arg=str(name)):
                yield from (name.lower(), f"{name.lower()}=")
            case ast.arg(arg=name):
                yield name.lower()
            case ast.Constant(value=str(text)) if _is_option(text):
                yield from _WORD.findall(text.lower().replace("-", "_"))
            case ast.alias():
                yield from node.name.lower().split(".")


def _is_option(text: str) -> bool:
    """Whether a text may be an option or a type. Of several words, or longer, it is prose."""
    return len(text) < MOST_OF_A_TEXT and len(text.split()) == 1


MOST_OF_A_TEXT = 60


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

    def in_step(self, node: ast.AST) -> bool:
        """Whether a node runs in a step, if only now and then."""
        return self.analysis.steps.often(self.script, node) is not None

    def region(self, node: ast.AST) -> Compiled | None:
        """The use of torch.compile whose region a node is in; None outside."""
        return self.analysis.regions.around(self.script, node)

    def in_told_region(self, node: ast.AST) -> bool:
        """Whether rules on torch.compile's regions speak of a node, so that others need not."""
        return TORCH_COMPILE in self.compilers and self.region(node) is not None

    def in_forward(self, node: ast.AST) -> bool:
        """Whether a node is in a model's forward, compiled or not."""
        return self.analysis.regions.in_forward(self.script, node)

    @property
    def steps(self) -> list[Step]:
        """The steps whose loop or method is in this script."""
        return [step for step in self.analysis.steps.found if step.script is self.script]

    @property
    def compiled(self) -> list[Compiled]:
        """The uses of torch.compile in this script."""
        return [each for each in self.analysis.regions.found if each.script is self.script]

    # What the scripts are.

    @property
    def xla(self) -> bool:
        """Whether this script is written for PyTorch/XLA."""
        return self.script.uses("torch_xla") or self.script.uses("torch_neuronx")

    @property
    def xla_anywhere(self) -> bool:
        """Whether any script of the check is."""
        return self.analysis.xla

    @property
    def xla_device(self) -> bool:
        """Whether this script itself puts tensors on an XLA device."""
        names = ("torch_xla.core.xla_model.xla_device", "torch_xla.device")
        if self.script.calls_of(*names):
            return True
        return self.xla and any(
            isinstance(argument, ast.Constant) and argument.value == "xla"
            for call in self.script.calls_of("torch.device")
            for argument in call.args
        )

    @property
    def asked_lazy(self) -> bool:
        """Whether a compiler was asked for by name that traces by PyTorch/XLA; not `all`."""
        return bool(self.compilers) and all(each in LAZY for each in self.compilers)

    # What a call is.

    def named(self, *names: str) -> Iterator[ast.Call]:
        """The calls of functions with one of these canonical names."""
        yield from self.script.calls_of(*names)

    def methods(self, *names: str) -> Iterator[ast.Call]:
        """The calls of methods with one of these names, whatever they are called on."""
        for name in names:
            for call in self.script.calls_by_last.get(name, ()):
                if isinstance(call.func, ast.Attribute):
                    yield call


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """What a call is given for a keyword."""
    return next((word.value for word in call.keywords if word.arg == name), None)


def written(node: ast.AST, most: int = 48) -> str:
    """A node as a message shows it."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= most else f"{text[: most - 3]}..."
