"""A captured graph as a script that needs nothing but torch and numpy, and parts of it."""

from __future__ import annotations

import functools
import importlib
import platform
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import torch

from compilegate.job.evidence.parity import WEAKEST
from compilegate.job.files import whole_file, write_text
from compilegate.job.names import REPRO_SCRIPT
from compilegate.job.probes import reference
from compilegate.job.probes.capture import ObstacleError
from compilegate.job.probes.reference import Arguments, Row, compared, compiled_by

TENSORS = "tensors.npz"
_COTANGENT = "cotangent."
_GIVEN = ("torch", "operator", "builtins")


@dataclass(frozen=True)
class Statement:
    """One operation, as a line of Python."""

    name: str
    text: str
    """What the name is set to."""
    uses: Tuple[str, ...]
    operation: str
    """What it calls: conv2d, flatten; or the text of an operator."""
    module: str
    """Path of the module that the operation belongs to; empty for the outermost."""
    kind: str
    """That module's class."""
    within: Tuple[str, ...]
    """What stands behind `with` around it."""

    @property
    def title(self) -> str:
        """Where it is, for a reader: `layers.0.norm (LayerNorm)`, or its operation."""
        return (
            f"{self.module} ({self.kind})" if self.module else f"the model's own {self.operation}"
        )


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
        sets = {each.name for each in own}
        if outputs is None:
            later = {name for each in self.statements[last:] for name in each.uses}
            later.update(self.outputs)
            outputs = [each.name for each in own if each.name in later]
        used = [name for each in own for name in each.uses] + list(outputs)
        inputs = dict.fromkeys(name for name in used if name not in sets)
        return replace(self, inputs=tuple(inputs), statements=own, outputs=tuple(outputs))

    def source(self) -> str:
        """A function of the inputs that returns a tuple of the outputs."""
        lines = [f"def part({', '.join(self.inputs)}):"]
        titled: Optional[str] = None
        within: Tuple[str, ...] = ()
        for each in self.statements:
            if each.within != within and each.within:
                lines.append(f"    with {', '.join(each.within)}:")
            within = each.within
            space = "        " if within else "    "
            if each.title != titled and each.module:
                lines.append(f"{space}# {each.title}")
            titled = each.title
            lines.append(f"{space}{each.name} = {each.text}")
        returned = "".join(f"{output}, " for output in self.outputs).rstrip()
        return "\n".join([*lines, f"    return ({returned})", ""])

    def function(self) -> Any:
        """The function itself, in a source that dynamo can look up."""
        import linecache  # noqa: PLC0415

        source = "\n".join(["import operator", "import torch", *self.imports, "", self.source()])
        file = f"<part {abs(hash(source))}>"
        linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
        space: Dict[str, Any] = {"__name__": "part"}
        exec(compile(source, file, "exec"), space)  # noqa: S102 - the text is a graph's, and ours
        return space["part"]

    def titles(self) -> List[str]:
        """Where its statements are, each place once, in order."""
        return list(dict.fromkeys(each.title for each in self.statements))


def program_of(graph: Any, names: Mapping[str, str]) -> Tuple[Program, Dict[str, torch.Tensor]]:
    """A captured graph as a program, and the tensors that are constants of it, which the program
    takes as inputs. Some nodes have other `names` in it. Raises ObstacleError."""
    inputs: List[str] = []
    outputs: List[str] = []
    statements: List[Statement] = []
    constants: Dict[str, torch.Tensor] = {}
    imports: Dict[str, None] = {}
    within: List[str] = []

    def name_of(node: Any) -> str:
        return names.get(node.name, node.name)

    for node in graph.graph.nodes:
        if node.op == "placeholder":
            inputs.append(name_of(node))
        elif node.op == "get_attr":
            constants[name_of(node)] = _constant(graph, str(node.target))
        elif node.op == "output":
            outputs = [name_of(each) for each in dict.fromkeys(node.all_input_nodes)]
        elif node.op == "call_module":
            raise ObstacleError(
                f"this torch ({torch.__version__}) captures whole modules instead of operations"
            )
        elif not _surrounds(node, within):
            text, operation = _expression(node, name_of, imports)
            uses = tuple(name_of(each) for each in node.all_input_nodes)
            module, kind = _place(node)
            statements.append(
                Statement(name_of(node), text, uses, operation, module, kind, tuple(within))
            )
    program = Program(tuple(imports), (*inputs, *constants), tuple(statements), tuple(outputs))
    return program, constants


def _constant(graph: Any, target: str) -> torch.Tensor:
    value = functools.reduce(getattr, target.split("."), graph)
    if not isinstance(value, torch.Tensor):
        raise ObstacleError(
            f"the graph holds another one ({target}, as activation checkpointing and autograd "
            "functions make them)"
        )
    return value


def _surrounds(node: Any, within: List[str]) -> bool:
    """Whether the node begins or ends what a `with` is for."""
    name = getattr(node.target, "__name__", "")
    if name == "_enter_autocast":
        kind, dtype, enabled, *_ = (*node.args, None, True)
        within.append(f"torch.autocast({kind!r}, dtype={dtype}, enabled={enabled})")
    elif name == "_exit_autocast":
        within.pop()
    elif name == "_set_grad_enabled":
        switches = [each for each in within if each.startswith("torch.set_grad_enabled")]
        if switches:
            within.remove(switches[-1])
        else:
            within.append(f"torch.set_grad_enabled({node.args[0]})")
    else:
        return False
    return True


def _expression(node: Any, name_of: Any, imports: Dict[str, None]) -> Tuple[str, str]:
    """What a node computes, and how it is called in a sentence."""
    arguments = [_text(each, name_of) for each in node.args]
    named = [f"{name} = {_text(each, name_of)}" for name, each in node.kwargs.items()]
    if node.op == "call_method":
        return f"{arguments[0]}.{node.target}({', '.join([*arguments[1:], *named])})", node.target
    name = getattr(node.target, "__name__", str(node.target))
    of_operators = getattr(node.target, "__module__", "") == "_operator"
    if of_operators and name in torch.fx.graph.magic_methods and not named:
        text = torch.fx.graph.magic_methods[name].format(*arguments)
        return text, text
    if of_operators and name == "getitem":
        return f"{arguments[0]}[{arguments[1]}]", name
    if node.target is getattr and len(arguments) == 2:
        return f"{arguments[0]}.{node.args[1]}", name
    called = _path_of(node.target, imports)
    return f"{called}({', '.join([*arguments, *named])})", called.rpartition(".")[2]


def _text(value: Any, name_of: Any) -> str:
    """An argument as Python. Raises ObstacleError."""
    if isinstance(value, slice):
        return f"slice{_text((value.start, value.stop, value.step), name_of)}"
    if isinstance(value, (tuple, list)):
        parts = [_text(each, name_of) for each in value]
        if isinstance(value, list):
            return f"[{', '.join(parts)}]"
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    for kinds, text in _TEXTS:
        if isinstance(value, kinds):
            return str(name_of(value) if kinds is torch.fx.Node else text(value))
    raise ObstacleError(f"the graph has an argument of type {type(value).__name__}")


_TEXTS: Sequence[Tuple[Any, Any]] = (
    (torch.fx.Node, None),
    ((torch.dtype, torch.memory_format, torch.layout), str),
    (torch.device, lambda value: f"torch.device({str(value)!r})"),
    (float, lambda value: repr(value) if np.isfinite(value) else f"float({str(value)!r})"),
    ((bool, int, complex, str, type(None)), repr),
    (type(...), lambda value: "..."),
)
"""How values of these types are written."""


def _path_of(function: Any, imports: Dict[str, None]) -> str:
    """The dotted name that a script finds a function by. Raises ObstacleError."""
    path = torch.fx.node._get_qualified_name(function).replace("_operator.", "operator.")
    root, *rest = path.split(".")
    if not rest:
        root, rest = "builtins", [path]
    module = getattr(function, "__module__", None) or root
    try:
        importlib.import_module(module)
        found = functools.reduce(getattr, rest, importlib.import_module(root))
    except (ImportError, AttributeError):
        found = None
    if found is not function:
        raise ObstacleError(f"the graph calls {path}, which no module has by that name")
    if root not in _GIVEN:
        imports[f"import {module}"] = None
    return path


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


@dataclass(frozen=True)
class How:
    """How a case is run."""

    compiler: Dict[str, Any]
    """Backend, mode, options, dynamic, fallback_random: see `reference.compiled_by`."""
    device: str
    """Its type: cpu, cuda."""
    autocast: Optional[str]
    """The precision that surrounds it, such as bfloat16; None without autocast."""
    epsilon: float
    """Distance from 1 to the next number of the precision."""
    limit: float
    """How many times eager's error is too far."""

    def wrong(self, rows: Mapping[str, Row]) -> Dict[str, Row]:
        """The tensors that are compiled wrongly: beyond the limit, where eager is exact enough to
        tell."""
        return {
            name: row
            for name, row in rows.items()
            if not row.compiled_error <= self.limit * max(row.eager_error, self.epsilon)
            and row.eager_error * self.limit <= WEAKEST
        }


@dataclass(frozen=True)
class Case:
    """A program, its inputs by name, and the gradients that come back to its outputs."""

    program: Program
    values: Dict[str, Any]
    cotangents: Dict[str, torch.Tensor]

    def wrong(self, how: How) -> Dict[str, Row]:
        """Run it in float64, eager and compiled: what is compiled wrongly."""
        function = self.program.function()
        inputs = {name: self.values[name] for name in self.program.inputs}
        arguments = Arguments(
            inputs, self.program.outputs, self.cotangents, how.device, how.autocast
        )
        return how.wrong(compared(function, compiled_by(function, how.compiler), arguments))

    def write(self, how: How, labels: Mapping[str, str], title: str, folder: Path) -> None:
        """Write the script that shows it, and its tensors, into a folder. `labels` are the model's
        names of inputs."""
        inputs = self.program.inputs
        cotangents = {_COTANGENT + name: each for name, each in self.cotangents.items()}
        stored = {**{name: self.values[name] for name in inputs}, **cotangents}
        tensors = {name: each for name, each in stored.items() if isinstance(each, torch.Tensor)}
        numbers = {name: each for name, each in stored.items() if name not in tensors}
        with whole_file(folder / TENSORS) as part, open(part, "wb") as file:
            np.savez(file, **{name: _bytes(each) for name, each in tensors.items()})
        helpers = Path(reference.__file__).read_text(encoding="utf-8").split('"""', 2)[2].strip()
        future, _, rest = helpers.partition("\n")
        imports, _, rest = rest.strip().partition("\n\nTensors =")
        own = [*imports.splitlines(), "import operator", *self.program.imports]
        lines = [
            f'"""{title}',
            *_DOCSTRING,
            future,
            "",
            *dict.fromkeys(own),
            "",
            "",
            self.program.source(),
            "",
            f"Tensors ={rest}",
            "",
            "",
            f"HOW = {how.compiler!r}",
            f"DEVICE, AUTOCAST = {how.device!r}, {how.autocast!r}",
            f"LIMIT, EPSILON = {how.limit!r}, {how.epsilon!r}",
            f"INPUTS = {list(inputs)!r}",
            f"OUTPUTS = {list(self.program.outputs)!r}",
            f"NUMBERS = {numbers!r}",
            "LAYOUTS = {",
            *(f"    {name!r}: {_layout(each)!r}," for name, each in tensors.items()),
            "}",
            f"LABELS = { ({name: each for name, each in labels.items() if name in inputs})!r}",
            *_MAIN,
        ]
        write_text(folder / REPRO_SCRIPT, "\n".join(lines))


def _bytes(value: torch.Tensor) -> Any:
    """The elements in order, byte by byte: numpy knows no bfloat16."""
    flat = value.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy() if flat.numel() else np.empty(0, np.uint8)


def _layout(tensor: torch.Tensor) -> Tuple[str, Tuple[int, ...], Tuple[int, ...], bool, bool]:
    """What `reference.saved` makes a tensor of."""
    strides = torch.empty_like(tensor).stride()  # of one without overlaps
    dtype = str(tensor.dtype).rpartition(".")[2]
    parameter = isinstance(tensor, torch.nn.Parameter)
    return dtype, tuple(tensor.shape), tuple(strides), parameter, tensor.requires_grad


_DOCSTRING = (
    "",
    "Eager, compiled and float64 side by side, forward and backward. Run it with",
    "",
    f"    python {REPRO_SCRIPT}",
    "",
    "With --check its exit status is 1 where something is compiled wrongly.",
    "",
    f"Made with torch {torch.__version__}, Python {platform.python_version()}, on "
    f"{platform.machine()}. It needs torch and numpy, and {TENSORS} beside it.",
    '"""',
    "",
)
_MAIN: Iterable[str] = (
    "",
    'if __name__ == "__main__":',
    f"    stored = {{**saved({TENSORS!r}, DEVICE, LAYOUTS), **NUMBERS}}",
    "    inputs = {name: stored[name] for name in INPUTS}",
    f"    start = {_COTANGENT!r}",
    "    cotangents = {n[len(start) :]: v for n, v in stored.items() if n.startswith(start)}",
    "    arguments = Arguments(inputs, OUTPUTS, cotangents, DEVICE, AUTOCAST)",
    "    wrong = show(compared(part, compiled_by(part, HOW), arguments), LABELS, LIMIT, EPSILON)",
    '    sys.exit(1 if wrong and "--check" in sys.argv else 0)',
    "",
)
