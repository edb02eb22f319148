"""What people stumble over with torch.compile."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from compilegate.check.names import (
    FUNCTIONS,
    LOOPS,
    calls_in,
    is_constant,
    keyword,
    last_name,
    owner_of,
)
from compilegate.check.rules.base import Match, View, written
from compilegate.check.steps import Compiled
from compilegate.check.values import HANDS_BACK, WRAPPERS, Kind, Provenance, Values, handed_back

_WRAPS = ("torch.nn.parallel.DistributedDataParallel",
          "torch.distributed.fsdp.FullyShardedDataParallel")  # fmt: skip
_MOVES = frozenset({"to", "cuda", "cpu", "half", "bfloat16", "float", "double"})


def compiled_as(view: View, node: ast.expr, *, wrapped: bool = True) -> Compiled | None:
    """The use of torch.compile that gave a module; in a wrapper around it too, if `wrapped`."""

    def inner(origin: Provenance) -> list[Provenance]:
        made, given = origin.node, None
        if isinstance(made, ast.Attribute) and made.attr == "module":
            given = made.value
        elif isinstance(made, ast.Call):
            last = last_name(made.func)
            if last in (*_MOVES, "train", "eval"):
                given = owner_of(made)
            elif last in HANDS_BACK or (wrapped and origin.script.called(made) in WRAPPERS):
                given = handed_back(made, origin.path)
        return [] if given is None else [Provenance(origin.script, given)]

    results, values = view.analysis.regions.results, view.analysis.values
    found = values.through(Provenance(view.script, node), inner) if results else []
    compiled = next((results[each.node] for each in found if each.node in results), None)
    return compiled if compiled is not None and _is_module(compiled, values) else None


def _is_module(compiled: Compiled, values: Values) -> bool:
    """Whether what is compiled is a module, not a function or a bound method."""
    target, script = compiled.target, compiled.script
    if not isinstance(target, ast.expr) or script.function(target) is not None:
        return False
    made = (script.called(each) for _, each in values.source_calls(script, target))
    of_package = any(re.search(r"(?:^|\.)[A-Z]\w*$", each) for each in made)  # a class of a package
    return compiled.sort == "in place" or of_package or values.kind(script, target) is Kind.MODEL


def compiled_discarded(view: View) -> Iterator[Match]:
    """The compiled result is thrown away, or what fails to compile is passed over."""
    for compiled in view.compiled:
        call, target = compiled.result, written(compiled.target)
        outer = view.script.parent(call) if compiled.sort == "call" else None
        match outer:
            case ast.Expr():
                yield Match(call, f"the result is not kept: `{target}` stays as it was")
            case ast.Assign(targets=[ast.Name(id="self" | "cls" as own)]):
                yield Match(call, f"`{own}` is a local name: the object itself stays as it was")
            case ast.Assign(targets=[ast.Name() as name]) if not _runs(view, name, outer):
                yield Match(call, f"`{name.id}` is never used: `{target}` goes on uncompiled")
    for node in ast.walk(view.script.source.tree):
        if isinstance(node, ast.Assign) and is_constant(node.value, True):
            names = [view.script.name(each) for each in node.targets]
            if any(each.endswith("_dynamo.config.suppress_errors") for each in names):
                yield Match(node, "what cannot be compiled runs eagerly without a word")


def _runs(view: View, name: ast.Name, statement: ast.Assign) -> bool:
    """Whether anything may run the value that a statement gives a name; to save it does not."""
    scope = view.script.scope_of(name)
    imported = isinstance(scope.node, ast.Module) and len(view.analysis.project.scripts) > 1
    if imported or name.id in scope.outer_names or isinstance(scope.node, ast.ClassDef):
        return True
    for node in ast.walk(scope.node):
        if isinstance(node, ast.Name) and node.id == name.id and isinstance(node.ctx, ast.Load):
            method = view.script.parent(node)
            attribute = method.attr if isinstance(method, ast.Attribute) else ""
            saves = re.match(r"save|state_dict|push_", attribute)
            if not saves and any(x.place is statement for x in view.script.reaching(node)):
                return True
    return False


def compile_order(view: View) -> Iterator[Match]:
    """The compiled module is moved, cast or wrapped afterwards."""
    if not view.analysis.regions.found:
        return
    for call in view.script.calls:
        name, owner = view.script.called(call), owner_of(call)
        if name in _WRAPS and call.args:
            if compiled_as(view, call.args[0], wrapped=False) is not None:
                helper = view.script.function_around(call)
                callers = view.analysis.project.callers.get(helper, ()) if helper else ()
                hands = [each for place, each in callers if place is view.script
                         and any(compiled_as(view, x) for x in each.args)]  # fmt: skip
                message = f"the model is compiled before it is wrapped in {name.rsplit('.', 1)[-1]}"
                yield Match([call, *hands][-1], message)
        elif last_name(call.func) in _MOVES and _compiled_before(view, owner, call):
            yield Match(call, f"`{written(call, 32)}` comes after the model was compiled")


def _compiled_before(view: View, owner: ast.expr | None, call: ast.Call) -> bool:
    """Whether a value was compiled in the same function; only there the order can be read."""
    used = None if owner is None else compiled_as(view, owner, wrapped=False)
    if owner is None or used is not None:
        before = [] if used is None else [used]
    else:
        in_place = [each for each in view.compiled if each.sort == "in place"]
        same = [each for each in in_place if written(each.target) == written(owner)]
        before = [each for each in same if each.node.lineno < call.lineno]
    script, here = view.script, view.script.function_around(call)
    return any(x.script is script and script.function_around(x.node) is here for x in before)


def orig_mod_keys(view: View) -> Iterator[Match]:
    """The keys of what is saved carry the name of the wrapper."""
    if not view.analysis.regions.found or "_orig_mod" in view.analysis.words:
        return
    for call, owner in view.methods("state_dict"):
        if _is_saved(view, call) and compiled_as(view, owner) is not None:
            yield Match(call, f"the keys of `{written(call)}` begin with `_orig_mod.`")


_SAVES = re.compile(
    r"^_?(?:save|dump|write|store)\w*$|^_?(?:checkpoint|ckpt)_?(?:save|model)$", re.I
)


def _is_saved(view: View, call: ast.Call) -> bool:
    """Whether a state_dict is written to a file, as far as its function shows."""
    function = view.script.function_around(call)
    for outer in view.script.ancestors(call):
        if isinstance(outer, ast.Call) and _SAVES.match(last_name(outer.func)):
            return True
        if isinstance(outer, ast.Return):
            callers = view.analysis.project.callers.get(function, ()) if function else ()
            return any(place is view.script and _is_saved(view, each) for place, each in callers)
        if isinstance(outer, ast.Assign):
            names = _names_in(*outer.targets)
            calls = calls_in(function or view.script.source.tree)
            saves = [each for each in calls if _SAVES.match(last_name(each.func))]
            return any(names & _names_in(each) for each in saves)
    return False


def _names_in(*nodes: ast.AST) -> set[str]:
    return {x.id for node in nodes for x in ast.walk(node) if isinstance(x, ast.Name)}


_HOUSEKEEPING = re.compile(
    r"^(?:to|cuda|cpu|train|eval|half|float|double|bfloat16|apply|state_dict|parameters|modules"
    r"|children|buffers|named_\w+|zero_grad|requires_grad_|share_memory|compile|no_sync|summary"
    r"|gradient_checkpointing_\w+|freeze\w*|unfreeze\w*|tie_weights|push_to_hub|config|module"
    r"|__call__|backward|step)$"
    r"|^(?:get|set|configure|load|save|num|register|enable|disable|estimate|crop|init|reset|count|is"
    r"|has|from|add|log|clip|print|update)_?"
)


def past_the_wrapper(view: View) -> Iterator[Match]:
    """A method of a compiled module runs the original, uncompiled."""
    regions = view.analysis.regions.found
    in_place = {written(each.target) for each in regions if each.sort == "in place"}
    for call in view.script.calls if regions else ():
        owner, last = owner_of(call), last_name(call.func)
        if owner is None or _HOUSEKEEPING.match(last) or not view.each_step(call):
            continue
        original = last == "forward" and written(owner) in in_place
        if original or compiled_as(view, owner) is not None:
            yield Match(call, f"`{written(call.func)}` runs the module without what was compiled")


def recompiles(view: View) -> Iterator[Match]:
    """torch.compile is called again and again, or its update is made for a rate that changes."""
    for compiled in view.compiled:
        if compiled.sort != "in place" and _again(view, compiled):
            yield Match(compiled.node, "torch.compile is called again each time")
    names = {"lambdalr", "onecyclelr", "cosineannealinglr", "steplr"} & view.analysis.words
    if not names and not any("lr_scheduler" in name for name in view.script.calls_by_name):
        return
    for compiled in view.compiled:
        calls = [(x.script, call) for x in compiled.functions for call in calls_in(x.node)]
        updates = [call for place, call in calls if view.analysis.steps.is_update(place, call)]
        owners = [owner_of(call) for call in updates]
        if isinstance(compiled.target, ast.Attribute) and compiled.target.attr == "step":
            owners.append(compiled.target.value)
        for made in (x for owner in owners if owner is not None for x in view.source_calls(owner)):
            rate = keyword(made, "lr")
            fixed = rate is None or isinstance(view.resolved(rate), ast.Constant)
            if fixed and view.kind(made) is Kind.OPTIMIZER:
                yield Match(made, "the compiled update is made for one value of the rate")


def _again(view: View, compiled: Compiled) -> bool:
    script, node, target = view.script, compiled.node, compiled.target
    outer = script.parent(node)
    if isinstance(outer, ast.Call) and outer.func is node and isinstance(node, ast.Call):
        return bool(node.args) and script.function_around(node) is not None  # compile(f)(x)
    statement = target if compiled.sort == "decorator" else node  # a function within the step
    read = [each for each in ast.walk(target) if isinstance(each, ast.Name)]
    for outer in script.ancestors(statement):
        if isinstance(outer, ast.If | ast.IfExp):
            return False  # once, as a rule: `if self.compiled is None:`
        if isinstance(outer, LOOPS):  # not each layer, nor a model that is made there
            inside = (each.place for name in read for each in script.reaching(name))
            made = (each for each in inside if each is not script.statement(node))
            return not any(each is outer or outer in script.ancestors(each) for each in made)
        if isinstance(outer, FUNCTIONS):
            break
    parent = script.parent(node)
    held = isinstance(parent, ast.Assign) and not isinstance(parent.targets[0], ast.Name)
    return not held and view.each_step(statement)
