"""A captured graph as straight-line Python that needs nothing but torch, and parts of it."""

from __future__ import annotations

import ast
import builtins
import importlib
import json
import re
from dataclasses import asdict, dataclass, replace
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

import torch

from compilegate.job.errors import CompilegateError

PRELUDE = (
    "import operator",
    "from math import inf, nan",
    "import torch",
    "from torch import device",
)
_GIVEN = ("operator", "inf", "nan", "torch", "device", "NoneType")


class NotStandaloneError(CompilegateError):
    """Why a graph cannot be written down as a script, in one sentence."""


@dataclass(frozen=True)
class Statement:
    """One operation, as a line of Python."""

    text: str
    sets: Tuple[str, ...]
    uses: Tuple[str, ...]
    module: str
    """Path of the module that the operation belongs to; empty for the outermost."""
    kind: str
    """That module's class."""
    within: Tuple[str, ...] = ()
    """What stands behind `with` around it, outermost first."""

    @property
    def operation(self) -> str:
        """What it calls: conv2d, flatten, +."""
        found = re.search(r"=\s*(?:[\w.]*?\.)?(\w+)\(", self.text)
        return found.group(1) if found else self.text.partition("=")[2].strip()

    @property
    def title(self) -> str:
        """Where it is, for a reader: `layers.0.norm (LayerNorm)`, or its operation."""
        if not self.module:
            return f"the model's own {self.operation}"
        return f"{self.module} ({self.kind})"


@dataclass(frozen=True)
class Program:
    """Statements that compute outputs from inputs, all by name."""

    imports: Tuple[str, ...]
    inputs: Tuple[str, ...]
    statements: Tuple[Statement, ...]
    outputs: Tuple[str, ...]

    def part(self, first: int, last: int, outputs: Optional[Sequence[str]] = None) -> Program:
        """The statements from `first` on, before `last`; its outputs are what the rest uses, or
        those that are given."""
        own = self.statements[first:last]
        later = {name for each in self.statements[last:] for name in each.uses}
        later.update(self.outputs)
        sets: List[str] = []
        uses: List[str] = []
        for each in own:
            uses += [name for name in each.uses if name not in sets and name not in uses]
            sets += [name for name in each.sets if name not in sets]
        if outputs is None:
            outputs = [name for name in sets if name in later]
        uses += [name for name in outputs if name not in sets and name not in uses]
        return replace(self, inputs=tuple(uses), statements=own, outputs=tuple(outputs))

    def source(self, name: str = "part") -> str:
        """A function of the inputs that returns a tuple of the outputs."""
        lines = [f"def {name}({', '.join(self.inputs)}):"]
        told, open_ = None, ()
        for each in self.statements:
            if each.within != open_:
                shared = _shared(open_, each.within)
                lines += [
                    f"{'    ' * (depth + 1)}with {each.within[depth]}:"
                    for depth in range(shared, len(each.within))
                ]
                open_ = each.within
            space = "    " * (len(open_) + 1)
            if each.title != told and each.module:
                lines.append(f"{space}# {each.title}")
            told = each.title
            lines.append(space + each.text)
        returned = "".join(f"{output}, " for output in self.outputs).rstrip()
        return "\n".join([*lines, f"    return ({returned})", ""])

    def renamed(self, names: Mapping[str, str]) -> Program:
        """The same with other names of inputs."""
        found = re.compile(r"\b(" + "|".join(map(re.escape, names)) + r")\b")

        def new(text: str) -> str:
            return found.sub(lambda match: names[match.group(1)], text)

        if not names:
            return self
        return replace(
            self,
            inputs=tuple(new(each) for each in self.inputs),
            outputs=tuple(new(each) for each in self.outputs),
            statements=tuple(
                replace(
                    each,
                    text=new(each.text),
                    sets=tuple(new(name) for name in each.sets),
                    uses=tuple(new(name) for name in each.uses),
                )
                for each in self.statements
            ),
        )

    def function(self) -> Any:
        """The function itself."""
        return compiled_function([*PRELUDE, *self.imports, "", self.source()])

    def titles(self) -> List[str]:
        """Where its statements are, each place once, in order."""
        return list(dict.fromkeys(each.title for each in self.statements))

    def to_json(self) -> str:
        """For another process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Program:
        """What `to_json` wrote."""
        said = json.loads(text)
        statements = tuple(
            Statement(**{name: _tuples(value) for name, value in each.items()})
            for each in said.pop("statements")
        )
        return cls(statements=statements, **{name: tuple(value) for name, value in said.items()})


def compiled_function(lines: Iterable[str], name: str = "part") -> Any:
    """The function of that name in a source text, which dynamo can look up."""
    import linecache  # noqa: PLC0415

    source = "\n".join(lines)
    file = f"<part {abs(hash(source))}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    space: Dict[str, Any] = {"NoneType": type(None), "__name__": "part"}
    exec(compile(source, file, "exec"), space)  # noqa: S102 - the text is a graph's, and ours
    return space[name]


def program_of(graph: Any) -> Tuple[Program, Dict[str, torch.Tensor]]:
    """A captured graph as a program, and the tensors that are constants of it, which the program
    takes as inputs. Raises NotStandaloneError."""
    code = graph.graph.python_code("self")
    forward = next(each for each in ast.parse(code.src).body if isinstance(each, ast.FunctionDef))
    reading = _Reading(graph, code)
    for each in forward.body:
        reading.read(each)
    return reading.program(), reading.constants


class _Reading:
    """Goes through the lines that torch.fx writes for a graph."""

    def __init__(self, graph: Any, code: Any) -> None:
        self._graph, self._code = graph, code
        self._nodes = {each.name: each for each in graph.graph.nodes}
        self._inputs = [each.name for each in graph.graph.nodes if each.op == "placeholder"]
        self._statements: List[Statement] = []
        self._outputs: List[str] = []
        self._imports: Dict[str, None] = {}
        self._within: List[str] = []
        self._known = set(self._inputs)
        self.constants: Dict[str, torch.Tensor] = {}

    def program(self) -> Program:
        inputs = (*self._inputs, *self.constants)
        return Program(tuple(self._imports), inputs, tuple(self._statements), tuple(self._outputs))

    def read(self, line: ast.stmt) -> None:
        if isinstance(line, ast.Return):
            found = [each.id for each in ast.walk(line) if isinstance(each, ast.Name)]
            self._outputs = [each for each in dict.fromkeys(found) if each in self._known]
            return
        if isinstance(line, ast.Pass) or _forgets(line):
            return
        sets = tuple(
            each.id
            for each in ast.walk(line)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        )
        if len(sets) == 1 and sets[0] in self._inputs:
            return  # a placeholder under the name of its node
        node = self._nodes.get(sets[0]) if sets else None
        if node is not None and node.op == "get_attr":
            self._take_constant(node)
        elif node is not None and self._surrounds(node):
            return
        else:
            self._take(line, sets, node)
        self._known.update(sets)

    def _take(self, line: ast.stmt, sets: Tuple[str, ...], node: Any) -> None:
        if node is not None and node.op == "call_module":
            raise NotStandaloneError(
                f"this torch ({torch.__version__}) captures whole modules instead of operations"
            )
        text = ast.get_source_segment(self._code.src, line) or ""
        names = [each.id for each in _names(line)]
        if isinstance(line, ast.AugAssign):
            names = [*sets, *names]
        for name in names:
            if name not in self._known and name not in sets:
                self._import(name)
        module, kind = _place(node) if node is not None else ("", "")
        uses = tuple(dict.fromkeys(name for name in names if name in self._known))
        text = re.sub(r"^(\w+) : [\w.\[\], ]+ = ", r"\1 = ", text)
        self._statements.append(Statement(text, sets, uses, module, kind, tuple(self._within)))

    def _take_constant(self, node: Any) -> None:
        value: Any = self._graph
        for name in str(node.target).split("."):
            value = getattr(value, name)
        if not isinstance(value, torch.Tensor):
            raise NotStandaloneError(
                f"the graph holds another one ({node.target}, as activation checkpointing and "
                "autograd functions make them)"
            )
        self.constants[node.name] = value

    def _surrounds(self, node: Any) -> bool:
        """Whether the node begins or ends what a `with` is for."""
        name = getattr(node.target, "__name__", "")
        if name == "_enter_autocast":
            kind, dtype, enabled, *_ = (*node.args, None, True)
            self._within.append(f"torch.autocast({kind!r}, dtype={dtype}, enabled={enabled})")
        elif name == "_exit_autocast":
            self._within.pop()
        elif name == "_set_grad_enabled":
            switch = f"torch.set_grad_enabled({node.args[0]})"
            grads = [each for each in self._within if each.startswith("torch.set_grad_enabled")]
            if grads:
                self._within.remove(grads[-1])
            else:
                self._within.append(switch)
        else:
            return False
        return True

    def _import(self, name: str) -> None:
        if name in _GIVEN or hasattr(builtins, name):
            return
        value = self._code.globals.get(name)
        module, path = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
        found: Any = None
        if module and path.isidentifier():
            found = getattr(importlib.import_module(module), path, None)
        if found is None or found is not value:
            raise NotStandaloneError(f"the graph calls {name}, which no module has by a name")
        self._imports[f"from {module} import {path} as {name}"] = None


def _names(line: ast.stmt) -> Iterator[ast.Name]:
    for each in ast.walk(getattr(line, "value", line)):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
            yield each
    targets = getattr(line, "targets", [])
    for target in targets:  # as in x[1] = y
        for each in ast.walk(target):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
                yield each


def _forgets(line: ast.stmt) -> bool:
    """Whether it is `x = y = None`, with which torch.fx drops what it no longer needs."""
    if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant):
        return line.value.value is None
    return False


def _place(node: Any) -> Tuple[str, str]:
    """Path and class of the innermost module that the node was captured in."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    if not stack:
        return "", ""
    path, kind = stack[-1][0], stack[-1][1]
    return module_path(path), getattr(kind, "__name__", str(kind).rpartition(".")[2])


def module_path(path: str) -> str:
    """Dynamo's path of a module, such as L['self'].layers['0'].norm, as named_modules has it."""
    path = re.sub(r"^[LG]\[['\"](\w+)['\"]\]", "", path)
    path = re.sub(r"\[['\"]?(\w+)['\"]?\]", r".\1", path)
    path = path.replace("._modules.", ".").replace("_modules.", "").strip(".")
    return re.sub(r"^(__self__|_orig_mod|module)(\.|$)", "", path)


def _shared(these: Sequence[str], those: Sequence[str]) -> int:
    """How many of the first ones are equal."""
    count = 0
    for this, that in zip(these, those):
        if this != that:
            break
        count += 1
    return count


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
