"""Checkpoints whose keys carry the name of the wrapper."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from compilegate.check.rules.rule import Found, View, rule, written
from compilegate.check.rules.torch_compile.flow import behind, compiles_module
from compilegate.check.script.project import Script

_PREFIX = "_orig_mod"


@rule("orig-mod-keys")
def orig_mod_keys(view: View) -> Iterator[Found]:
    calls = view.script.calls_by_last.get("state_dict", ())
    if not calls or not view.analysis.regions.found or _knows_of_it(view):
        return
    for call in calls:
        if not isinstance(call.func, ast.Attribute) or not _is_kept(view.script, call):
            continue
        found = behind(view.analysis, view.script, call.func.value)
        if any(compiles_module(each.compiled) for each in found):
            yield Found(
                call, f"the keys of `{written(call)}` begin with `_orig_mod.` once it is compiled"
            )


def _knows_of_it(view: View) -> bool:
    """Whether the script, or one beside it, deals with the prefix itself."""
    folder = view.script.source.path.parent
    return any(
        _PREFIX in line
        for script in view.analysis.project.scripts
        if script.source.path.parent == folder
        for line in script.source.lines
        if not line.lstrip().startswith("#")
    )


def _is_kept(script: Script, call: ast.Call) -> bool:
    """Whether a state_dict is written to a file, as far as its function shows."""
    for outer in script.ancestors(call):
        if isinstance(outer, ast.Call) and outer is not call:
            if _saves(script, outer):
                return True
            name = script.called(outer)
            if name in {"builtins.dict", "collections.OrderedDict"}:
                continue
            return False
        if isinstance(outer, ast.Attribute | ast.For | ast.comprehension):
            return False
        if isinstance(outer, ast.Assign):
            return any(_reaches_save(script, call, target) for target in outer.targets)
        if isinstance(outer, ast.Return):
            return _returned_to_save(script, call)
        if isinstance(outer, ast.stmt):
            return False
    return False


def _saves(script: Script, call: ast.Call) -> bool:
    name = script.called(call)
    if name in {"torch.save", "torch_xla.core.xla_model.save", "safetensors.torch.save_file",
                "pickle.dump", "torch_xla.utils.serialization.save", "joblib.dump",
                "safetensors.torch.save"}:  # fmt: skip
        return True
    last = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    last = call.func.id if isinstance(call.func, ast.Name) else last
    return bool(_SAVES.match(last))


_SAVES = re.compile(
    r"^_?(?:(?:save|dump|write|store)(?:_?(?:checkpoint|ckpt|model|state|weights|snapshot)\w*)?)$"
    r"|^_?(?:checkpoint|ckpt)_?(?:save|model)$",
    re.IGNORECASE,
)


def _reaches_save(script: Script, call: ast.Call, target: ast.expr) -> bool:
    """Whether the variable that holds a state_dict is given to something that saves."""
    base = target
    while isinstance(base, ast.Subscript):
        base = base.value
    if isinstance(base, ast.Name):
        name = base.id
    else:
        return False
    function = script.function_around(call)
    around: ast.AST = function if function is not None else script.source.tree
    return any(
        isinstance(node, ast.Call)
        and _saves(script, node)
        and any(
            isinstance(part, ast.Name) and part.id == name
            for argument in (*node.args, *(word.value for word in node.keywords))
            for part in ast.walk(argument)
        )
        for node in ast.walk(around)
    )


def _returned_to_save(script: Script, call: ast.Call) -> bool:
    function = script.function_around(call)
    callers = script.project.callers.get(function, []) if function is not None else []
    return any(_is_kept(place, each) for place, each in callers)


RULES = (orig_mod_keys,)
