"""What an environment of reinforcement learning tells: values of the host, no tensors."""

from __future__ import annotations

import ast

from compilegate.check.script.project import Script

_DEEPEST = 6


def of_an_environment(script: Script, node: ast.expr, depth: int = 0) -> bool:
    """Whether a value is part of what `observation, reward, info = envs.step(action)` gives."""
    name = _root(node)
    if name is None or depth > _DEEPEST:
        return False
    bindings = script.bindings(name.id, name)
    return bool(bindings) and all(
        isinstance(each.node, ast.expr)
        and (
            (each.index is not None and _is_step(each.node))
            or (each.kind in {"element", "value"} and _inside(script, each.node, depth))
        )
        for each in bindings
    )


def _inside(script: Script, node: ast.expr, depth: int) -> bool:
    return _root(node) is not None and of_an_environment(script, node, depth + 1)


def _root(node: ast.expr) -> ast.Name | None:
    """`infos` of `infos["final"]["r"].item`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node if isinstance(node, ast.Name) else None


def _is_step(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"step", "reset", "recv"}
        and "env" in ast.unparse(node.func.value).lower()
    )
