"""Parts of a captured graph, and scripts that show what one computes, with torch alone."""

from __future__ import annotations

import functools
import importlib
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

import torch
from torch import fx
from torch.fx.node import map_aggregate, map_arg

from compilegate.job.evidence.parity import WEAKEST
from compilegate.job.files import whole_file, write_text
from compilegate.job.names import REPRO_SCRIPT
from compilegate.job.probes import reference
from compilegate.job.probes.capture import ObstacleError
from compilegate.job.probes.reference import How, Row, compared, copied

TENSORS = "tensors.pt"
_SWITCHES = ("_enter_autocast", "_exit_autocast", "_set_grad_enabled")
_GIVEN = frozenset({"torch", "device", "inf", "nan", "NoneType", "fx_pytree", "pytree"})
"""Names in the code of every graph: the script imports those that are of use."""


@dataclass(frozen=True)
class _Name:
    """Stands for a node where a graph is handed over: nodes themselves cannot be pickled."""

    text: str


class Operation(NamedTuple):
    kind: str
    target: str  # a function is its dotted name
    args: Any
    kwargs: Any
    name: str
    place: tuple[str, str]  # path and class of its module


def operations_of(
    graph: fx.GraphModule, names: Mapping[str, str]
) -> tuple[list[Operation], dict[str, torch.Tensor]]:
    """A captured graph in a form that can be pickled, and its constants, which become inputs.
    `names` renames nodes. Raises ObstacleError."""
    found: list[Operation] = []
    constants: dict[str, torch.Tensor] = {}

    def named(node: fx.Node) -> Any:
        return _Name(names.get(node.name, node.name))

    for node in graph.graph.nodes:
        name = names.get(node.name, node.name)
        kind, target = node.op, node.target
        if kind == "call_module":
            raise ObstacleError(
                f"this torch ({torch.__version__}) captures whole modules instead of operations"
            )
        if kind == "get_attr":
            constants[name] = _constant(graph, str(target))
            kind = "placeholder"
        if kind == "placeholder":
            target = name
        elif kind == "call_function":
            target = _path_of(target)
        parts = map_arg(node.args, named), map_arg(node.kwargs, named)
        found.append(Operation(kind, target, *parts, name, _place(node)))
    return found, constants


def graph_of(operations: Sequence[Operation]) -> fx.Graph:
    """The graph that operations were taken from, inputs first."""
    graph = fx.Graph()
    nodes: dict[str, fx.Node] = {}

    def node_of(value: Any) -> Any:
        return nodes[value.text] if isinstance(value, _Name) else value

    for each in sorted(operations, key=lambda each: each.kind != "placeholder"):
        parts = map_aggregate(each.args, node_of), map_aggregate(each.kwargs, node_of)
        target = _function_of(each.target) if each.kind == "call_function" else each.target
        node = graph.create_node(each.kind, target, *parts, name=each.name)
        node.meta["place"] = each.place
        nodes[each.name] = node
    return graph


def _constant(graph: fx.GraphModule, target: str) -> torch.Tensor:
    value = functools.reduce(getattr, target.split("."), graph)
    if not isinstance(value, torch.Tensor):
        raise ObstacleError(
            f"the graph holds another one ({target}, as activation checkpointing and autograd "
            "functions make them)"
        )
    return value


def _path_of(function: Any) -> str:
    """The dotted name that another process finds a function by: some cannot be pickled."""
    path = fx.node._get_qualified_name(function)
    try:
        found = _function_of(path)
    except (ImportError, AttributeError):
        found = None
    if found is not function:
        raise ObstacleError(f"the graph calls {path}, which no module has by that name")
    return path


def _function_of(path: str) -> Any:
    holder, _, name = path.rpartition(".")
    try:
        owner: Any = importlib.import_module(holder or "builtins")
    except ImportError:
        owner = _function_of(holder)
    return getattr(owner, name)


def _place(node: fx.Node) -> tuple[str, str]:
    """Path and class of the innermost module that the node was captured in; empty without one."""
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


def steps_of(graph: fx.Graph) -> list[fx.Node]:
    """The operations of a graph, in order, without those that switch autocast or gradients."""
    return [each for each in graph.nodes if each.op.startswith("call") and not _switches(each)]


def results_of(graph: fx.Graph) -> list[fx.Node]:
    return list(dict.fromkeys(next(iter(reversed(graph.nodes))).all_input_nodes))


def part_of(
    graph: fx.Graph, first: int, last: int, results: Sequence[fx.Node] | None = None
) -> fx.Graph:
    """Steps `first` to before `last` as a graph of its own, whose inputs have the names of what
    they use. It returns what the rest uses, or `results`."""
    own = dict.fromkeys(steps_of(graph)[first:last])
    if results is None:
        results = [each for each in own if any(user not in own for user in each.users)]
    used = [*(used for each in own for used in each.all_input_nodes), *results]
    part = fx.Graph()
    made = {each: part.placeholder(each.name) for each in dict.fromkeys(used) if each not in own}
    switched: list[fx.Node] = []  # those that nothing was computed under yet
    for node in graph.nodes:
        if not (_switches(node) or node in own):
            continue
        if node in own:
            made.update((each, part.node_copy(each, made.__getitem__)) for each in switched)
            made[node] = part.node_copy(node, made.__getitem__)
            switched = []
        elif switched and switched[-1] in node.all_input_nodes:
            switched.pop()  # the end of an autocast with nothing in it
        else:
            switched.append(node)
    for each in switched:
        part.node_copy(each, made.__getitem__)
    part.output(tuple(made[each] for each in results))
    return part


def _switches(node: fx.Node) -> bool:
    return getattr(node.target, "__name__", "") in _SWITCHES


def title_of(node: fx.Node) -> str:
    """Where a step is, for a reader: `layers.0.norm (LayerNorm)`, or its operation."""
    module, kind = node.meta["place"]
    return f"{module} ({kind})" if module else f"the model's own {operation_of(node)}"


def operation_of(node: fx.Node) -> str:
    return str(getattr(node.target, "__name__", node.target))


def source_of(part: fx.Graph) -> str:
    """The part as a function of Python, with what it imports, and where each step is."""
    code = part.python_code("self")
    head, *body = code.src.strip().splitlines()
    lines = [
        f"from {each.__module__} import {each.__qualname__} as {name}"
        for name, each in code.globals.items()
        if name not in _GIVEN
    ]
    lines += ["", "", head.replace("forward(self, ", "part(").replace("forward(self", "part(")]
    title = ""
    for node, line in zip((each for each in part.nodes if each.op != "placeholder"), body):
        module, kind = node.meta.get("place", ("", ""))
        if module and title != module:
            lines.append(f"    # {module} ({kind})")
        title = module
        lines.append(re.sub(r";  (\w+ = )+None", "", line))
    return "\n".join(lines)


@dataclass(frozen=True)
class Case:
    """A part of a graph, its inputs by name, and the gradients that come back to its outputs."""

    part: fx.Graph
    values: dict[str, Any]
    cotangents: dict[str, torch.Tensor]

    def wrong(self, how: How) -> dict[str, Row]:
        """Run it in float64, eager and compiled: the tensors beyond the limit where eager is exact
        enough to tell."""
        function = fx.GraphModule({}, self.part)
        names = [each.name for each in results_of(self.part)]
        rows = compared(function, self._inputs(), names, self.cotangents, how)
        return {
            name: row
            for name, row in rows.items()
            if row.is_wrong(how) and row.eager_error * how.limit <= WEAKEST
        }

    def write(self, how: How, labels: Mapping[str, str], title: str, folder: Path) -> None:
        """Write the script and its tensors. `labels` are the model's names of inputs."""
        inputs = self._inputs()
        stored = {"inputs": inputs, "cotangents": self.cotangents}
        stored = {
            kind: {name: copied(each, torch.clone) for name, each in values.items()}
            for kind, values in stored.items()
        }
        with whole_file(folder / TENSORS) as file:
            torch.save(stored, file)
        helpers = Path(reference.__file__).read_text(encoding="utf-8").split('"""', 2)[2].strip()
        imports, _, rest = helpers.partition("\n\nTensors =")
        outputs = [each.name for each in results_of(self.part)]
        script = _SCRIPT.format(
            title=title,
            torch=torch.__version__,
            python=platform.python_version(),
            machine=platform.machine(),
            script=REPRO_SCRIPT,
            tensors=TENSORS,
            imports=imports,
            source=source_of(self.part),
            helpers=f"Tensors ={rest}",
            how=how,
            outputs=outputs,
            labels={name: each for name, each in labels.items() if name in inputs},
        )
        write_text(folder / REPRO_SCRIPT, script)

    def _inputs(self) -> dict[str, Any]:
        places = [each for each in self.part.nodes if each.op == "placeholder"]
        return {each.name: self.values[each.name] for each in places}


_SCRIPT = '''"""{title}

Eager, compiled and float64 side by side, forward and backward. Run it with

    python {script}

With --check its exit status is 1 where something is compiled wrongly.

Made with torch {torch}, Python {python}, on {machine}. It needs torch, and {tensors} beside it.
"""

{imports}
from math import inf, nan
from torch import device
{source}


{helpers}

HOW = {how!r}
OUTPUTS = {outputs!r}
LABELS = {labels!r}

if __name__ == "__main__":
    given = stored({tensors!r}, HOW.device)
    rows = compared(part, given["inputs"], OUTPUTS, given["cotangents"], HOW)
    wrong = show(rows, LABELS, HOW)
    sys.exit(1 if wrong and "--check" in sys.argv else 0)
'''
