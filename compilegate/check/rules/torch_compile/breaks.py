"""What breaks the graph inside a compiled region. Each was seen to break it on torch 2.13."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilegate.check.findings import Severity
from compilegate.check.rules.rule import Found, View, rule, written
from compilegate.check.script.project import Script
from compilegate.check.script.tensors import is_tensor

_BREAKS = (
    "https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/compile/"
    "programming_model.graph_breaks_index.html"
)
_LOGGING = frozenset({"debug", "info", "warning", "error", "critical", "exception", "log"})


@rule("sync-in-region")
def sync_in_region(view: View) -> Iterator[Found]:
    for call in view.script.calls:
        said = _breaks(view, call)
        if _copies(view, call) and not _is_guarded(view.script, call):
            yield Found(call, f"`{written(call)}` copies to the host inside a compiled region")
        elif said:
            found = _in_region(view, call, said)
            if found is not None:
                yield found


def _copies(view: View, call: ast.Call) -> bool:
    """`.cpu()` and `.numpy()` break no graph, but make it wait, and rule out CUDA graphs."""
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in {"cpu", "numpy"}
        and not call.args
        and view.region(call) is not None
        and is_tensor(view.script, call.func.value)
    )


def _breaks(view: View, call: ast.Call) -> str:
    name = view.script.called(call)
    if isinstance(call.func, ast.Attribute):
        attribute, value = call.func.attr, call.func.value
        if attribute in {"item", "tolist"} and not call.args and _tensor_like(view, value):
            return f"`{written(call)}` reads a value"
        if attribute in _LOGGING and _is_logger(view, value):
            return f"`{written(call)}` logs"
    if name == "builtins.print":
        return f"`{written(call)}` prints"
    if name in {"builtins.float", "builtins.int", "builtins.bool"} and len(call.args) == 1:
        if is_tensor(view.script, call.args[0]):
            return f"`{written(call)}` reads a value"
    elif name in {"time.time", "time.perf_counter", "time.monotonic", "torch.save",
                  "torch.cuda.synchronize", "wandb.log", "builtins.breakpoint",
                  "pdb.set_trace", "builtins.open", "warnings.warn"}:  # fmt: skip
        return f"`{written(call)}` is no part of a graph"
    return ""


def _tensor_like(view: View, node: ast.expr) -> bool:
    name = view.script.name(node)
    return not name.startswith(("numpy.", "math.", "random.")) and not isinstance(
        node, ast.Constant
    )


def _is_logger(view: View, node: ast.expr) -> bool:
    if view.script.name(node) == "logging":
        return True
    if not isinstance(node, ast.Name):
        return False
    return any(
        isinstance(each.node, ast.Call)
        and view.script.called(each.node) in {"logging.getLogger", "logging.get_logger"}
        for each in view.script.bindings(node.id, node)
    )


def _in_region(view: View, node: ast.AST, said: str) -> Found | None:
    """A finding where a node is compiled, or would be: a warning, an error with `fullgraph`."""
    if _is_guarded(view.script, node):
        return None
    compiled = view.region(node)
    if compiled is not None:
        whole = compiled.options.get("fullgraph")
        function = view.script.function_around(node)
        surely = bool(compiled.functions) and compiled.functions[0].node is function
        if (
            isinstance(whole, ast.Constant)
            and whole.value is True
            and surely  # what is only reached from there may lie on a way that is not taken
            and not _is_seldom(view.script, node)
        ):
            return Found(node, f"{said} in a region compiled with `fullgraph`", Severity.ERROR)
        return Found(node, f"{said} inside a compiled region")
    if view.in_forward(node) and not _is_seldom(view.script, node):
        return Found(node, f"{said} in a `forward`, where it would break the graph", Severity.NOTE)
    return None


def _is_guarded(script: Script, node: ast.AST) -> bool:
    """Whether a node runs only while nothing is compiled, or on the way to an exception."""
    inner: ast.AST = node
    for outer in script.ancestors(node):
        if isinstance(outer, ast.Raise | ast.Assert | ast.Lambda):
            return True
        if isinstance(outer, ast.ExceptHandler):
            return True
        if isinstance(outer, ast.If):
            asked = {
                script.called(part) for part in ast.walk(outer.test) if isinstance(part, ast.Call)
            }
            if asked & {
                "torch.compiler.is_compiling", "torch.compiler.is_dynamo_compiling",
                "torch._dynamo.is_compiling", "torch._utils.is_compiling",
                "torch.jit.is_scripting", "torch.jit.is_tracing",
                "torch.onnx.is_in_onnx_export",
            }:  # fmt: skip
                return True
            if inner in outer.body and isinstance(outer.body[-1], ast.Raise):
                return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
        inner = outer
    return False


def _is_seldom(script: Script, node: ast.AST) -> bool:
    """Whether a node stands behind a flag such as `if self.debug`: not what runs as a rule."""
    for outer in script.ancestors(node):
        if isinstance(outer, ast.If):
            return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
    return False


@rule("branch-on-data")
def branch_on_data(view: View) -> Iterator[Found]:
    for node in _decisions(view):
        test = node.test
        if not _depends_on_data(view, test):
            continue
        if isinstance(node, ast.If) and node.body and isinstance(node.body[-1], ast.Raise):
            said = f"the check `{written(test)}` reads a tensor"
        else:
            said = f"`{written(test)}` decides by a tensor's value"
        found = _in_region(view, test, said)
        if found is not None:
            yield found
    for call in view.script.calls:
        if _gives_data_dependent_shape(view, call):
            found = _in_region(view, call, f"the shape of `{written(call)}` depends on values")
            if found is not None:
                yield found
    for selected in _selects_by_mask(view):
        found = _in_region(view, selected, f"the shape of `{written(selected)}` depends on values")
        if found is not None:
            yield found


def _decisions(view: View) -> Iterator[ast.If | ast.While | ast.IfExp]:
    """What chooses by a test, in the functions that are compiled or may be."""
    seen: set[ast.AST] = set()
    for function in view.script.tree.functions:
        inside = function.body[0]
        if view.region(inside) is None and not view.in_forward(inside):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.If | ast.While | ast.IfExp) and node not in seen:
                seen.add(node)
                yield node


def _depends_on_data(view: View, test: ast.expr) -> bool:
    match test:
        case ast.BoolOp():
            return any(_depends_on_data(view, part) for part in test.values)
        case ast.UnaryOp(op=ast.Not()):
            return _depends_on_data(view, test.operand)
        case ast.Compare():
            if any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in test.ops):
                return False
            if any(
                isinstance(side, ast.Constant)
                and (side.value is None or isinstance(side.value, str))
                for side in (test.left, *test.comparators)
            ):
                return False
            sides = (test.left, *test.comparators)
            return any(_is_value(view, side) for side in sides)
    return _is_value(view, test)


# What of a tensor is one value, or is a tensor of truth values.
_REDUCES = frozenset(
    {"sum", "mean", "max", "min", "any", "all", "norm", "item", "isnan", "isinf", "prod", "std",
     "amax", "amin", "abs", "equal", "argmax", "argmin", "count_nonzero", "var", "median"}
)  # fmt: skip


def _is_value(view: View, node: ast.expr) -> bool:
    """Whether a test reads a tensor: one that is computed, not a parameter that may be None."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "item" and not node.args:
            return False  # sync-in-region says it
        if node.func.attr in _REDUCES:
            return is_tensor(view.script, node)
    if isinstance(node, ast.Name | ast.Attribute):
        return False if _may_be_flag(view, node) else is_tensor(view.script, node)
    return is_tensor(view.script, node)


def _may_be_flag(view: View, node: ast.expr) -> bool:
    """Whether a bare name may be a parameter or flag rather than a tensor computed here."""
    if not isinstance(node, ast.Name):
        return True
    bound = view.script.bindings(node.id, node)
    return any(each.kind != "value" for each in bound)


def _selects_by_mask(view: View) -> Iterator[ast.Subscript]:
    """`x[x > 0]`: how much is selected depends on the values."""
    for function in view.script.tree.functions:
        if view.region(function.body[0]) is None:
            continue
        for node in ast.walk(function):
            if (
                isinstance(node, ast.Subscript)
                and isinstance(node.ctx, ast.Load)
                and isinstance(node.slice, ast.Compare)
                and is_tensor(view.script, node.slice)
            ):
                yield node


def _gives_data_dependent_shape(view: View, call: ast.Call) -> bool:
    name = view.script.called(call)
    if name in {"torch.nonzero", "torch.unique", "torch.masked_select", "torch.argwhere"}:
        return True
    if name == "torch.where" and len(call.args) == 1 and not call.keywords:
        return True
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in {"nonzero", "masked_select"}
        and is_tensor(view.script, call.func.value)
    )


@rule("seed-in-region")
def seed_in_region(view: View) -> Iterator[Found]:
    seeds = view.named(
        "torch.manual_seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all",
        "random.seed", "numpy.random.seed", "torch.random.fork_rng", "torch.set_rng_state",
        "torch.cuda.set_rng_state", "random.random", "random.randint", "random.uniform",
        "random.choice", "numpy.random.rand", "numpy.random.randn", "numpy.random.randint",
        "numpy.random.uniform", "lightning.seed_everything", "transformers.set_seed",
    )  # fmt: skip
    for call in seeds:
        found = _in_region(view, call, f"`{written(call)}` draws or seeds random numbers in Python")
        if found is not None and found.severity is not Severity.NOTE:
            yield found


RULES = (sync_in_region, branch_on_data, seed_in_region)
