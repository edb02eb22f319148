"""Code in a model whose shapes or paths depend on its input."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilegate.check.rules.rule import Found, View, rule, written
from compilegate.check.script.tensors import is_tensor

_DYNAMIC_FUNCTIONS = frozenset(
    {"torch.nonzero", "torch.masked_select", "torch.unique", "torch.unique_consecutive",
     "torch.argwhere", "torch.bincount"}
)  # fmt: skip
_DYNAMIC_METHODS = frozenset(
    {"nonzero", "masked_select", "unique", "unique_consecutive", "argwhere"}
)


@rule("dynamic-shape-operation")
def dynamic_shape_operation(view: View) -> Iterator[Found]:
    for call in view.script.calls:
        if not (view.each_step(call) or view.in_forward(call)) or view.in_told_region(call):
            continue
        name = view.script.called(call)
        if (
            name in _DYNAMIC_FUNCTIONS
            or (
                isinstance(call.func, ast.Attribute)
                and call.func.attr in _DYNAMIC_METHODS
                and is_tensor(view.script, call.func.value)
            )
            or (name == "torch.where" and len(call.args) == 1 and not call.keywords)
        ):
            yield Found(call, f"how large `{written(call)}` is depends on the values")


@rule("shape-dependent-forward")
def shape_dependent_forward(view: View) -> Iterator[Found]:
    for loop in view.script.loops:
        if not view.in_forward(loop) or view.in_told_region(loop):
            continue
        if isinstance(loop, ast.While):
            if _reads_shape(view, loop.test) or is_tensor(view.script, loop.test):
                said = f"how often the forward loops depends on its input: `{written(loop.test)}`"
                yield Found(loop.test, said)
        elif (
            isinstance(loop.iter, ast.Call)
            and view.script.called(loop.iter) == "builtins.range"
            and any(_reads_shape(view, argument) for argument in loop.iter.args)
        ):
            said = f"how often the forward loops depends on its input: `{written(loop.iter)}`"
            yield Found(loop.iter, said)


def _reads_shape(view: View, node: ast.expr) -> bool:
    """Whether a length of a tensor is in an expression, by name too."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute | ast.Call) and _reads_directly(view, part):
            return True
        if isinstance(part, ast.Name):
            bindings = view.script.bindings(part.id, part)
            for binding in bindings:
                value = binding.node
                if binding.kind != "value" or not isinstance(
                    value, ast.Attribute | ast.Call | ast.Subscript
                ):
                    continue
                if value is not node and _reads_directly(view, value):
                    return True
    return False


def _reads_directly(view: View, value: ast.expr) -> bool:
    base = value.value if isinstance(value, ast.Subscript) else value
    if isinstance(base, ast.Attribute) and base.attr == "shape":
        return is_tensor(view.script, base.value)
    return (
        isinstance(base, ast.Call)
        and isinstance(base.func, ast.Attribute)
        and base.func.attr == "size"
        and is_tensor(view.script, base.func.value)
    )


RULES = (dynamic_shape_operation, shape_dependent_forward)
