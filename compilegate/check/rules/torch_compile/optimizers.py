"""Optimizers whose update is compiled."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from compilegate.check.regions.compiled import Regions
from compilegate.check.rules.rule import Found, View, keyword, rule, written
from compilegate.check.script.project import Script
from compilegate.check.script.values import Sort, is_a, origins, sources


@rule("float-rate")
def float_rate(view: View) -> Iterator[Found]:
    script = view.script
    if not view.analysis.regions.found or not _updates(view.analysis.regions):
        return
    for call in script.calls:
        if not _makes(script, call) or not is_a(script, call, Sort.OPTIMIZER):
            continue
        rate = _rate(call)
        if rate is not None and _is_tensor(script, rate):
            continue
        if _is_compiled(view, call) and _changes(view, call):
            said = written(rate) if rate is not None else "the default rate"
            yield Found(
                call,
                f"the rate `{said}` is a float, a schedule changes it, and the update is compiled",
            )


def _makes(script: Script, call: ast.Call) -> bool:
    name = script.called(call)
    return name.startswith(("torch.optim.", "transformers.Ada", "bitsandbytes.optim."))


def _rate(call: ast.Call) -> ast.expr | None:
    given = keyword(call, "lr")
    if given is None and len(call.args) > 1:
        given = call.args[1]
    return given


def _is_tensor(script: Script, rate: ast.expr) -> bool:
    return any(
        isinstance(origin.node, ast.Call)
        and origin.script.called(origin.node)
        in {"torch.tensor", "torch.as_tensor", "torch.scalar_tensor", "torch.full"}
        for origin in origins(script, rate)
    )


def _is_the(script: Script, node: ast.expr, made: ast.Call) -> bool:
    return any(origin.node is made for origin in sources(script, node))


def _is_compiled(view: View, made: ast.Call) -> bool:
    """Whether `optimizer.step` of this optimizer is compiled, or is called in a compiled region."""
    return any(_is_the(script, owner, made) for script, owner in _updates(view.analysis.regions))


_UPDATES: WeakKeyDictionary[Regions, list[tuple[Script, ast.expr]]] = WeakKeyDictionary()


def _updates(regions: Regions) -> list[tuple[Script, ast.expr]]:
    """The optimizers whose update is compiled, each by an expression; found once for a check."""
    if regions not in _UPDATES:
        _UPDATES[regions] = list(_find_updates(regions))
    return _UPDATES[regions]


def _find_updates(regions: Regions) -> Iterator[tuple[Script, ast.expr]]:
    for compiled in regions.found:
        target = compiled.target
        if isinstance(target, ast.Attribute) and target.attr == "step":
            yield compiled.script, target.value
        for defined in compiled.functions:
            for node in ast.walk(defined.node):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr == "step"
                ):
                    yield defined.script, node.func.value


def _changes(view: View, made: ast.Call) -> bool:
    """Whether a schedule, or the script itself, changes the rate of an optimizer."""
    for script in view.analysis.project.scripts:
        for last, calls in script.calls_by_last.items():
            if not (last.endswith("LR") or "schedul" in last.lower()):
                continue
            for call in calls:
                given = (*call.args, *(word.value for word in call.keywords))
                if any(_is_the(script, each, made) for each in given):
                    return True
        if any('["lr"]' in line or "['lr']" in line for line in script.source.lines):
            for node in ast.walk(script.source.tree):
                if isinstance(node, ast.Assign | ast.AugAssign) and _sets_rate(script, node, made):
                    return True
    return False


def _sets_rate(script: Script, node: ast.Assign | ast.AugAssign, made: ast.Call) -> bool:
    """`group["lr"] = ...` in a loop over this optimizer's groups."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        if not (
            isinstance(target, ast.Subscript)
            and isinstance(target.slice, ast.Constant)
            and target.slice.value == "lr"
        ):
            continue
        for owner in _owners(script, target.value):
            if _is_the(script, owner, made):
                return True
    return False


def _owners(script: Script, group: ast.expr) -> Iterator[ast.expr]:
    """`optimizer` of `optimizer.param_groups[0]`, or of a loop over its groups."""
    if isinstance(group, ast.Name):
        for each in script.bindings(group.id, group):
            if each.kind == "element" and isinstance(each.node, ast.expr):
                for part in ast.walk(each.node):
                    if isinstance(part, ast.Attribute) and part.attr == "param_groups":
                        yield part.value
    for part in ast.walk(group):
        if isinstance(part, ast.Attribute) and part.attr == "param_groups":
            yield part.value


RULES = (float_rate,)
