"""Compiled results that nothing ever runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilegate.check.regions.compiled import Compiled
from compilegate.check.rules.rule import Found, View, rule, written
from compilegate.check.rules.torch_compile.flow import call_of, same_place, shared_loop
from compilegate.check.script.project import Script

_COMPILE = "https://docs.pytorch.org/docs/stable/generated/torch.compile.html"


@rule("compiled-discarded")
def compiled_discarded(view: View) -> Iterator[Found]:
    for compiled in view.compiled:
        if compiled.in_place or compiled.decorates:
            continue
        call = call_of(compiled)
        outer = view.script.parent(call)
        if isinstance(outer, ast.Expr):
            yield Found(call, f"the result of `{written(call)}` is thrown away")
        elif isinstance(outer, ast.Assign) and len(outer.targets) == 1:
            target = outer.targets[0]
            if _is_self(view.script, target):
                continue
            if _is_unread(view, compiled, outer, target):
                yield Found(call, f"nothing reads `{written(target)}` after it was compiled")
            elif isinstance(target, ast.Name) and _after_its_trainer(view, outer, target):
                yield Found(
                    call,
                    f"the Trainer was given `{target.id}` before it was compiled, and trains the "
                    "original",
                )
    yield from _results_dropped(view)


def _is_unread(view: View, compiled: Compiled, since: ast.Assign, target: ast.expr) -> bool:
    script = view.script
    if isinstance(target, ast.Attribute):
        return _is_unread_attribute(view, compiled, target)
    if not isinstance(target, ast.Name):
        return False
    scope = script.tree.scope_of(since)
    if target.id in scope.elsewhere:
        return False
    if _is_loop_variable(script, since, target.id):
        pass  # the next turn gives it a new value
    elif isinstance(scope.node, ast.Module):
        if not _read_below(script, compiled, since) or _imported_by_others(view, target.id):
            return False
    elif isinstance(scope.node, ast.ClassDef):
        return False
    for node in script.loads.get(target.id, []):
        if not isinstance(node, ast.Name) or since in script.ancestors(node):
            continue
        if not same_place(script, node, target):
            continue
        if script.tree.scope_of(node) is not scope or shared_loop(script, node, since):
            return False
        if (node.lineno, node.col_offset) > (since.lineno, since.col_offset):
            return False
    return True


def _after_its_trainer(view: View, since: ast.Assign, target: ast.Name) -> bool:
    """`Trainer(model=model)`, then `model = torch.compile(model)`, which only methods that save or
    set something are read of."""
    script = view.script
    scope = script.tree.scope_of(since)
    given_before = False
    for node in script.loads.get(target.id, []):
        if not isinstance(node, ast.Name) or since in script.ancestors(node):
            continue
        if script.tree.scope_of(node) is not scope or shared_loop(script, node, since):
            return False
        outer = script.parent(node)
        if (node.lineno, node.col_offset) < (since.lineno, since.col_offset):
            given_before = given_before or _is_given_to_a_trainer(script, node)
        elif not isinstance(outer, ast.Attribute) or outer.attr in _RUNS:
            return False
    return given_before


_RUNS = frozenset({"forward", "generate", "__call__", "fit", "compile"})


def _is_given_to_a_trainer(script: Script, node: ast.Name) -> bool:
    word = script.parent(node)
    call = script.parent(word) if isinstance(word, ast.keyword) else word
    if not isinstance(call, ast.Call) or call.func is node:
        return False
    if isinstance(word, ast.keyword) and word.arg != "model":
        return False
    names = {script.called(call)}
    made = script.definition(call.func)
    if made is not None and made.class_ is not None:
        names |= made.script.bases(made.class_)
    return any(
        name.startswith(("transformers.", "trl.")) and name.endswith("Trainer") for name in names
    )


def _is_loop_variable(script: Script, since: ast.Assign, name: str) -> bool:
    """`for layer in layers: layer = torch.compile(layer)`."""
    for outer in script.ancestors(since):
        if isinstance(outer, ast.For | ast.AsyncFor):
            return any(
                isinstance(part, ast.Name) and part.id == name for part in ast.walk(outer.target)
            )
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
    return False


def _is_unread_attribute(view: View, compiled: Compiled, target: ast.Attribute) -> bool:
    """`self.fast = torch.compile(self.model)`, and no script ever reads `.fast`."""
    named = compiled.target
    if not isinstance(named, ast.expr) or same_place(view.script, named, target):
        return False
    if target.attr == "forward" or not isinstance(target.value, ast.Name):
        return False
    for script in view.analysis.project.scripts:
        if any(isinstance(node, ast.Attribute) for node in script.loads.get(target.attr, [])):
            return False
        if any(
            f'"{target.attr}"' in line or f"'{target.attr}'" in line for line in script.source.lines
        ):
            return False
    return _read_below(view.script, compiled, target, anywhere=True)


def _read_below(
    script: Script, compiled: Compiled, since: ast.stmt | ast.expr, *, anywhere: bool = False
) -> bool:
    """Whether the original is used further on: then it is what runs."""
    target = compiled.target
    if not isinstance(target, ast.Name | ast.Attribute):
        return False
    last = target.id if isinstance(target, ast.Name) else target.attr
    return any(
        node is not target
        and same_place(script, node, target)
        and (anywhere or node.lineno > since.lineno)
        for node in script.loads.get(last, [])
    )


def _imported_by_others(view: View, name: str) -> bool:
    return any(
        binding.kind == "import" and binding.target.rsplit(".", 1)[-1] == name
        for script in view.analysis.project.scripts
        if script is not view.script
        for bindings in script.tree.module.names.values()
        for binding in bindings
    )


def _results_dropped(view: View) -> Iterator[Found]:
    """Calls of a helper of the folder that only gives back what it compiled."""
    if not view.analysis.regions.found:
        return
    script = view.script
    for call in script.calls:
        if not isinstance(script.parent(call), ast.Expr):
            continue
        defined = script.definition(call.func)
        if defined is None or defined.function is None or not call.args:
            continue
        inside = [
            each
            for each in view.analysis.regions.found
            if each.script is defined.script
            and not each.in_place
            and not each.decorates
            and defined.script.function_around(each.node) is defined.function
        ]
        if inside and all(_only_returned(defined.script, each) for each in inside):
            yield Found(call, f"the compiled model that `{written(call.func)}` gives back is lost")


def _only_returned(script: Script, compiled: Compiled) -> bool:
    call = call_of(compiled)
    outer = script.parent(call)
    if isinstance(outer, ast.Return):
        return True
    if not isinstance(outer, ast.Assign) or len(outer.targets) != 1:
        return False
    target = outer.targets[0]
    function = script.function_around(call)
    if function is None or not isinstance(target, ast.Name):
        return False
    reads = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Name)
        and node.id == target.id
        and isinstance(node.ctx, ast.Load)
        and node.lineno > outer.lineno
    ]
    return bool(reads) and all(isinstance(script.parent(node), ast.Return) for node in reads)


@rule("compiled-to-self")
def compiled_to_self(view: View) -> Iterator[Found]:
    for compiled in view.compiled:
        if compiled.in_place or compiled.decorates:
            continue
        call = call_of(compiled)
        outer = view.script.parent(call)
        if isinstance(outer, ast.Assign) and any(
            _is_self(view.script, each) for each in outer.targets
        ):
            yield Found(outer, f"`{written(outer)}` only changes the local name `self`")


def _is_self(script: Script, target: ast.expr) -> bool:
    """Whether a target is the first parameter of the method it stands in."""
    function = script.function_around(target)
    if not isinstance(target, ast.Name) or function is None or not function.args.args:
        return False
    first = function.args.args[0].arg
    return (
        target.id == first
        and isinstance(script.parent(function), ast.ClassDef)
        and not any(
            script.name(each) == "builtins.staticmethod" for each in function.decorator_list
        )
    )


RULES = (compiled_discarded, compiled_to_self)
