"""Where torch.compile stands: in which loop, and before what."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilegate.check.regions.compiled import Compiled
from compilegate.check.rules.rule import Found, View, rule, written
from compilegate.check.rules.torch_compile.flow import (
    DDP,
    FSDP,
    behind,
    call_of,
    comes_after,
    compiles_module,
    same_place,
)
from compilegate.check.script.project import Script

_COMPILE = "https://docs.pytorch.org/docs/stable/generated/torch.compile.html"


@rule("compile-in-loop")
def compile_in_loop(view: View) -> Iterator[Found]:
    for compiled in view.compiled:
        node = compiled.node
        if compiled.decorates:
            continue
        loop = _loop_around(view.script, node)
        if loop is not None:
            if _is_the_same_each_turn(view.script, compiled, loop):
                yield Found(node, f"`{written(call_of(compiled))}` runs in each turn of a loop")
            continue
        if _in_what_runs_each_step(view, compiled):
            yield Found(node, f"`{written(call_of(compiled))}` runs in each step")


def _loop_around(script: Script, node: ast.AST) -> ast.For | ast.AsyncFor | ast.While | None:
    inner: ast.AST = node
    for outer in script.ancestors(node):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            return None
        if isinstance(outer, ast.For | ast.AsyncFor | ast.While) and inner in outer.body:
            return outer
        if isinstance(outer, ast.If) and _once(script, outer, inner):
            return None
        inner = outer
    return None


def _once(script: Script, test: ast.If, inner: ast.AST) -> bool:
    """`if step == 10:` or `if compiled is None:`: behind it something runs once."""
    if inner not in test.body:
        return False
    match test.test:
        case ast.Compare(ops=[ast.Eq() | ast.Is()]):
            return True
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Compare(ops=[ast.NotIn()]):
            return True
    return False


def _is_the_same_each_turn(
    script: Script, compiled: Compiled, loop: ast.For | ast.AsyncFor | ast.While
) -> bool:
    """Whether what is compiled, and how, does not depend on the loop."""
    target = compiled.target
    if not isinstance(target, ast.expr):
        return False
    changing = _set_in(loop, without=call_of(compiled))
    parts: list[ast.AST] = [target]
    if isinstance(compiled.node, ast.Call):
        parts += [word.value for word in compiled.node.keywords]  # `**options` too
    return not any(
        isinstance(part, ast.Call | ast.Lambda)
        or (isinstance(part, ast.Name) and part.id in changing)
        or (isinstance(part, ast.Attribute) and ast.unparse(part) in changing)
        for each in parts
        for part in ast.walk(each)
    )


def _set_in(loop: ast.For | ast.AsyncFor | ast.While, without: ast.AST) -> set[str]:
    """What a loop gives new values: its own variables, and what its body assigns."""
    names: set[str] = set()
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign) and without in ast.walk(node.value):
            continue
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension | ast.AugAssign):
            targets = [node.target]
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            targets = [node.optional_vars]
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        for target in targets:
            for part in ast.walk(target):
                if isinstance(part, ast.Name):
                    names.add(part.id)
                elif isinstance(part, ast.Attribute):
                    names.add(ast.unparse(part))
    return names


def _in_what_runs_each_step(view: View, compiled: Compiled) -> bool:
    """Whether the call stands in a forward, in what a forward calls, or in a step."""
    script, node = view.script, compiled.node
    function = script.function_around(node)
    if function is None or compiled.in_place:
        return False
    if _is_kept(script, compiled):
        return False
    return (
        view.in_forward(node)
        or view.each_step(node)
        or _called_by_a_forward(view, function)
        or any(outer is not compiled and _holds(outer, function) for outer in _regions(view))
    )


def _is_kept(script: Script, compiled: Compiled) -> bool:
    """Whether the result is put away for the next time: an attribute, a table, a global."""
    for outer in script.ancestors(compiled.node):
        if isinstance(outer, ast.Assign):
            return any(not isinstance(each, ast.Name) for each in outer.targets) or any(
                isinstance(each, ast.Name) and each.id in script.tree.scope_of(outer).elsewhere
                for each in outer.targets
            )
        if isinstance(outer, ast.Return):
            return True
        if isinstance(outer, ast.If) and _once(script, outer, compiled.node):
            return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return any(
                script.name(each.func if isinstance(each, ast.Call) else each)
                in {"functools.cache", "functools.lru_cache"}
                for each in outer.decorator_list
            )
        if isinstance(outer, ast.Call) and outer.func is compiled.node:
            return False
    return False


def _regions(view: View) -> list[Compiled]:
    return view.analysis.regions.found


def _holds(compiled: Compiled, function: ast.AST) -> bool:
    return any(each.node is function for each in compiled.functions)


def _called_by_a_forward(view: View, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method of the same class, or a function of the folder, calls it in a forward."""
    owner = view.script.parent(function)
    if isinstance(owner, ast.ClassDef):
        for method in owner.body:
            if (
                isinstance(method, ast.FunctionDef)
                and method.name == "forward"
                and any(
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and isinstance(node.func.value, ast.Name)
                    and node.func.value.id == "self"
                    and node.func.attr == function.name
                    for node in ast.walk(method)
                )
            ):
                return True
    return any(
        view.analysis.regions.in_forward(place, call)
        for place, call in view.analysis.project.callers.get(function, [])
    )


_MOVES = frozenset({"to", "cuda", "cpu", "half", "bfloat16", "float", "double"})


@rule("compile-order")
def compile_order(view: View) -> Iterator[Found]:
    if not view.analysis.regions.found:
        return
    for call in view.script.calls:
        if view.script.called(call) in {DDP, FSDP} and call.args:
            found = behind(view.analysis, view.script, call.args[0])
            if any(compiles_module(each.compiled) and not each.around for each in found):
                said = view.script.called(call).rsplit(".", 1)[-1]
                yield Found(call, f"the model is compiled before it is wrapped in {said}")
        elif (
            isinstance(call.func, ast.Attribute)
            and call.func.attr in _MOVES
            and _moved_after(view, call, call.func.value)
        ):
            yield Found(call, f"`{written(call)}` comes after the model was compiled")


def _moved_after(view: View, call: ast.Call, moved: ast.expr) -> bool:
    script = view.script
    if isinstance(moved, ast.Call):
        return any(call_of(each) is moved and compiles_module(each) for each in view.compiled)
    for each in view.compiled:
        if each.decorates or not compiles_module(each) or not isinstance(each.target, ast.expr):
            continue
        if script.function_around(each.node) is not script.function_around(call):
            continue
        if comes_after(script, each.node, call) or _other_branch(script, each.node, call):
            continue
        if _is_held(script, each, moved) and (each.node.lineno, each.node.col_offset) < (
            call.lineno,
            call.col_offset,
        ):
            return True
    return False


def _is_held(script: Script, compiled: Compiled, node: ast.expr) -> bool:
    """Whether a place holds what this use compiled, in the same function."""
    if compiled.in_place:
        return isinstance(compiled.target, ast.expr) and same_place(script, node, compiled.target)
    outer = script.parent(call_of(compiled))
    return isinstance(outer, ast.Assign) and any(
        same_place(script, node, target) for target in outer.targets
    )


def _other_branch(script: Script, one: ast.AST, other: ast.AST) -> bool:
    """Whether two nodes stand in different branches of one `if`."""
    chain = {id(each) for each in (one, *script.ancestors(one))}
    inner: ast.AST = other
    for outer in script.ancestors(other):
        if isinstance(outer, ast.If):
            mine = outer.body if inner in outer.body else outer.orelse
            theirs = outer.orelse if inner in outer.body else outer.body
            if inner in mine and any(id(each) in chain for each in theirs):
                return True
        inner = outer
    return False


RULES = (compile_in_loop, compile_order)
