"""Precision and random numbers that differ between what is compiled and what is not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from compilegate.check.rules.rule import Analysis, Found, View, rule, written
from compilegate.check.rules.torch_compile.flow import How, Once, behind, found_once, uses_of
from compilegate.check.script.project import Script
from compilegate.check.script.values import origins

_AUTOCAST = frozenset({"torch.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast"})


@rule("autocast-mismatch")
def autocast_mismatch(view: View) -> Iterator[Found]:
    yield from found_once(_MISMATCHES, view, _mismatches)


_MISMATCHES: Once = WeakKeyDictionary()


def _mismatches(analysis: Analysis) -> Iterator[tuple[Script, Found]]:
    for compiled in analysis.regions.found:
        if compiled.decorates:
            continue
        calls = [use for use in uses_of(analysis, compiled) if use.how is How.CALLED]
        if len(calls) < 2:
            continue
        states = [(use, _state(use.script, use.node, 0)) for use in calls]
        if not any(state is True for _, state in states):
            continue
        for use, state in states:
            if state is False:
                yield (
                    use.script,
                    Found(
                        use.node,
                        f"`{written(use.node)}` runs without autocast, and other calls of the "
                        "compiled model run under it",
                    ),
                )


def _state(script: Script, node: ast.AST, depth: int) -> bool | None:
    """Whether a call runs under autocast; None where its callers differ or none is known."""
    for outer in script.ancestors(node):
        if isinstance(outer, ast.With | ast.AsyncWith):
            said = [_is_autocast(script, item.context_expr) for item in outer.items]
            if True in said:
                return True
            if None in said:
                return None
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            if any(_is_autocast(script, each) for each in outer.decorator_list):
                return True
            callers = script.project.callers.get(outer, [])
            if depth > 4:
                return None
            states = {_state(place, call, depth + 1) for place, call in callers}
            if not states:
                return False if _is_entry(script, outer) else None
            return states.pop() if len(states) == 1 else None
        if isinstance(outer, ast.Lambda | ast.ClassDef):
            return None
    return False


def _is_entry(script: Script, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function that nothing in the folder calls is the program itself."""
    return function.name in {"main", "train", "run"} and isinstance(
        script.parent(function), ast.Module
    )


def _is_autocast(script: Script, context: ast.expr) -> bool | None:
    """Whether a context is autocast; None where it may be anything."""
    doubtful = False
    for origin in origins(script, context):
        node = origin.node
        if not isinstance(node, ast.Call):
            doubtful = doubtful or not isinstance(node, ast.Constant)
            continue
        name = origin.script.called(node)
        if name in _AUTOCAST:
            return True
        last = name.rsplit(".", 1)[-1]
        if isinstance(node.func, ast.Attribute):
            last = node.func.attr
        if "autocast" in last or "precision" in last or "amp" in last.split("_"):
            return None
        if not name and not isinstance(node.func, ast.Attribute):
            doubtful = True
    return None if doubtful else False


@rule("eager-random-numbers")
def eager_random_numbers(view: View) -> Iterator[Found]:
    script = view.script
    if not view.compiled or _falls_back(view) or not any(view.named("torch.manual_seed")):
        return
    if any(view.methods("eval")):
        return
    for call in script.calls:
        name = script.called(call)
        if name not in {"torch.allclose", "torch.testing.assert_close", "torch.equal",
                        "torch.testing.assert_allclose", "torch.isclose"}:  # fmt: skip
            continue
        sides = [_is_of_compiled(view, side) for side in call.args[:2]]
        if True in sides and False in sides:
            yield Found(call, f"`{written(call)}` compares eager with compiled under one seed")


def _falls_back(view: View) -> bool:
    return any(
        "fallback_random" in line
        for script in view.analysis.project.scripts
        for line in script.source.lines
    )


def _is_of_compiled(view: View, side: ast.expr) -> bool | None:
    """Whether a value was given by a compiled model or by another one; None where unknown."""
    for origin in origins(view.script, side):
        node = origin.node
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value  # .sum(), .detach()
        if isinstance(node, ast.Call):
            return bool(behind(view.analysis, origin.script, node.func))
    return None


RULES = (autocast_mismatch, eager_random_numbers)
