"""What a call is given by keyword, `**options` included where they can be read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilegate.check.script.project import Script
from compilegate.check.script.values import origins

_DEEPEST = 6


def spliced(script: Script, call: ast.Call) -> dict[str, ast.expr] | None:
    """Every keyword that a call may be given, with its value; None where `**` hides some.

    What a dictionary only gets under a condition counts as given.
    """
    return _keywords(script, call, 0)


def _keywords(script: Script, call: ast.Call, depth: int) -> dict[str, ast.expr] | None:
    found: dict[str, ast.expr] = {}
    for word in call.keywords:
        if word.arg is not None:
            found[word.arg] = word.value
            continue
        inner = _of_dictionary(script, word.value, depth)
        if inner is None:
            return None
        found.update(inner)
    return found


def _of_dictionary(script: Script, node: ast.expr, depth: int) -> dict[str, ast.expr] | None:
    """What a dictionary may hold, from where it is made and where it is changed."""
    if depth > _DEEPEST:
        return None
    found: dict[str, ast.expr] = {}
    made = origins(script, node)
    if not made:
        return None
    for origin in made:
        held = _made(origin.script, origin.node, depth)
        if held is None:
            return None
        found.update(held)
    if isinstance(node, ast.Name):
        for held in _changes(script, node, depth):
            if held is None:
                return None
            found.update(held)
    return found


def _made(script: Script, node: ast.AST, depth: int) -> dict[str, ast.expr] | None:
    if isinstance(node, ast.Dict):
        found: dict[str, ast.expr] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            inner: dict[str, ast.expr] | None = None
            match key:
                case None:
                    inner = _of_dictionary(script, value, depth + 1)
                case ast.Constant(value=str(name)):
                    inner = {name: value}
            if inner is None:
                return None
            found.update(inner)
        return found
    if isinstance(node, ast.Call) and script.called(node) == "builtins.dict" and not node.args:
        return _keywords(script, node, depth + 1)
    return None


def _changes(script: Script, name: ast.Name, depth: int) -> Iterator[dict[str, ast.expr] | None]:
    """What `options.update(...)` and `options["key"] = value` add."""
    scope = script.tree.scope_of(name)
    for read in script.loads.get(name.id, ()):
        outer = script.parent(read)
        if not isinstance(read, ast.Name) or script.tree.scope_of(read) is not scope:
            continue
        if isinstance(outer, ast.Attribute) and outer.attr in {"update", "setdefault"}:
            call = script.parent(outer)
            if not isinstance(call, ast.Call):
                yield None
            elif outer.attr == "update" and len(call.args) == 1:
                yield _of_dictionary(script, call.args[0], depth + 1)
            elif outer.attr == "update" and not call.args:
                yield _keywords(script, call, depth + 1)
            else:
                yield None
        elif isinstance(outer, ast.Subscript) and isinstance(outer.ctx, ast.Store):
            match outer.slice:
                case ast.Constant(value=str(key)):
                    yield {key: outer}
                case _:
                    yield None
