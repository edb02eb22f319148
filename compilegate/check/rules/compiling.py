"""What people stumble over with torch.compile."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from compilegate.check.names import LOOPS, Script, is_constant, keyword, last_name
from compilegate.check.rules.base import Found, View, rule, written
from compilegate.check.steps import Compiled
from compilegate.check.values import HANDS_BACK, WRAPPERS, Kind, Values

_WRAPS = ("torch.nn.parallel.DistributedDataParallel",
          "torch.distributed.fsdp.FullyShardedDataParallel")  # fmt: skip
_MOVES = frozenset({"to", "cuda", "cpu", "half", "bfloat16", "float", "double"})


def result_of(compiled: Compiled) -> ast.expr:
    """The call that gives back what is compiled: of `torch.compile(mode=...)(model)` the outer."""
    outer = compiled.script.parent(compiled.node)
    given = isinstance(compiled.node, ast.Call) and not compiled.node.args
    if given and isinstance(outer, ast.Call) and outer.func is compiled.node and outer.args:
        return outer
    return compiled.node


def compiled_as(view: View, node: ast.expr, *, wrapped: bool = True) -> Compiled | None:
    """The use of torch.compile that gave a value; within a wrapper around it too, if `wrapped`."""
    results = {result_of(each): each for each in view.analysis.regions.found if each.sort == "call"}
    return (
        _find(view.analysis.values, results, view.script, node, wrapped=wrapped)
        if results
        else None
    )


def _find(
    values: Values,
    results: dict[ast.expr, Compiled],
    script: Script,
    node: ast.expr,
    *,
    wrapped: bool,
    depth: int = 0,
) -> Compiled | None:
    for origin in values.origins(script, node) if depth < 8 else ():
        made, inner = origin.node, None
        if made in results:
            return results[made]  # type: ignore[index]
        if isinstance(made, ast.Attribute) and made.attr == "module":
            inner = made.value
        elif isinstance(made, ast.Call):
            name, last = origin.script.called(made), last_name(made.func)
            index = origin.path[0] if origin.path else 0
            if isinstance(made.func, ast.Attribute) and last in (*_MOVES, "train", "eval"):
                inner = made.func.value
            elif (wrapped and name in WRAPPERS) or last in HANDS_BACK:
                inner = made.args[index] if index < len(made.args) else None
        if isinstance(inner, ast.expr):
            found = _find(values, results, origin.script, inner, wrapped=wrapped, depth=depth + 1)
            if found is not None:
                return found
    return None


def is_module(compiled: Compiled, values: Values) -> bool:
    """Whether what is compiled is a module, not a function or a bound method."""
    target = compiled.target
    if not isinstance(target, ast.expr):
        return False
    defined = compiled.script.definition(target)
    if isinstance(target, ast.Lambda) or (defined is not None and not defined.is_class):
        return False
    return compiled.sort == "in place" or values.kind(compiled.script, target) is Kind.MODEL


@rule("compiled-discarded")
def compiled_discarded(view: View) -> Iterator[Found]:
    """The compiled result is thrown away, or what fails to compile is passed over."""
    for compiled in view.compiled:
        if compiled.sort != "call":
            continue
        call, target = result_of(compiled), written(compiled.target)
        outer = view.script.parent(call)
        if isinstance(outer, ast.Expr):
            yield Found(call, f"the result is not kept: `{target}` stays as it was")
        elif isinstance(outer, ast.Assign) and len(outer.targets) == 1:
            name = outer.targets[0]
            if isinstance(name, ast.Name) and name.id in ("self", "cls"):
                yield Found(call, f"`{name.id}` is a local name: the object itself stays as it was")
            elif isinstance(name, ast.Name) and not _runs(view, name, outer):
                yield Found(call, f"`{name.id}` is never used: `{target}` goes on uncompiled")
    for node in ast.walk(view.script.source.tree):
        if isinstance(node, ast.Assign) and is_constant(node.value, True):
            names = [view.script.name(each) for each in node.targets]
            if any(each.endswith("_dynamo.config.suppress_errors") for each in names):
                yield Found(node, "what cannot be compiled runs eagerly without a word")


def _runs(view: View, name: ast.Name, statement: ast.Assign) -> bool:
    """Whether anything may run the value that a statement gives a name; to save it does not."""
    scope = view.script.scope_of(name)
    if name.id in scope.elsewhere:
        return True
    if isinstance(scope.node, ast.Module) and len(view.analysis.project.scripts) > 1:
        return True  # another file may import it
    for node in ast.walk(scope.node):
        if not isinstance(node, ast.Name) or node.id != name.id:
            continue
        reaching = view.script.reaching(node) if isinstance(node.ctx, ast.Load) else []
        method = view.script.parent(node)
        if isinstance(method, ast.Attribute) and re.match(r"save|state_dict|push_", method.attr):
            continue
        if any(each.place is statement for each in reaching):
            return True
    return isinstance(scope.node, ast.ClassDef)


@rule("compile-order")
def compile_order(view: View) -> Iterator[Found]:
    """The compiled module is moved, cast or wrapped afterwards."""
    if not view.analysis.regions.found:
        return
    for call in view.script.calls:
        name = view.script.called(call)
        if name in _WRAPS and call.args:
            compiled = compiled_as(view, call.args[0], wrapped=False)
            if compiled is not None and is_module(compiled, view.analysis.values):
                helper = view.script.function_around(call)
                callers = view.analysis.project.callers.get(helper, ()) if helper else ()
                for place, each in callers:  # where the model is handed to a helper that wraps it
                    if place is view.script and any(compiled_as(view, x) for x in each.args):
                        call = each  # noqa: PLW2901
                yield Found(
                    call, f"the model is compiled before it is wrapped in {name.rsplit('.', 1)[-1]}"
                )
        elif isinstance(call.func, ast.Attribute) and call.func.attr in _MOVES:
            compiled = _compiled_before(view, call.func.value, call)
            if compiled is not None and is_module(compiled, view.analysis.values):
                yield Found(call, f"`{written(call, 32)}` comes after the model was compiled")


def _compiled_before(view: View, owner: ast.expr, call: ast.Call) -> Compiled | None:
    """The use that compiled a value in the same function; only there the order can be read."""
    compiled = compiled_as(view, owner, wrapped=False)
    if compiled is None:  # model.compile() in place
        for each in view.compiled:
            same = isinstance(each.target, ast.expr) and written(each.target) == written(owner)
            if each.sort == "in place" and same and each.node.lineno < call.lineno:
                compiled = each
    here = view.script.function_around(call)
    if compiled is None or compiled.script is not view.script:
        return None
    return compiled if view.script.function_around(compiled.node) is here else None


@rule("orig-mod-keys")
def orig_mod_keys(view: View) -> Iterator[Found]:
    """The keys of what is saved carry the name of the wrapper."""
    if not view.analysis.regions.found or any(
        "_orig_mod" in line
        for script in view.analysis.project.scripts
        for line in script.source.lines
    ):
        return
    for call in view.methods("state_dict"):
        if not isinstance(call.func, ast.Attribute) or not _is_saved(view, call):
            continue
        compiled = compiled_as(view, call.func.value)
        if compiled is not None and is_module(compiled, view.analysis.values):
            yield Found(call, f"the keys of `{written(call)}` begin with `_orig_mod.`")


_SAVES = re.compile(
    r"^_?(?:save|dump|write|store)\w*$|^_?(?:checkpoint|ckpt)_?(?:save|model)$", re.I
)


def _is_saved(view: View, call: ast.Call) -> bool:
    """Whether a state_dict is written to a file, as far as its function shows."""
    for outer in view.script.ancestors(call):
        if isinstance(outer, ast.Call) and _SAVES.match(last_name(outer.func)):
            return True
        if isinstance(outer, ast.Return):
            function = view.script.function_around(call)
            callers = view.analysis.project.callers.get(function, ()) if function else ()
            return any(place is view.script and _is_saved(view, each) for place, each in callers)
        if isinstance(outer, ast.Assign):
            names = {
                each.id
                for target in outer.targets
                for each in ast.walk(target)
                if isinstance(each, ast.Name)
            }
            around = view.script.function_around(call) or view.script.source.tree
            return any(
                isinstance(node, ast.Call)
                and _SAVES.match(last_name(node.func))
                and names & {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                for node in ast.walk(around)
            )
    return False


_HOUSEKEEPING = re.compile(
    r"^(?:to|cuda|cpu|train|eval|half|float|double|bfloat16|apply|state_dict|parameters|modules"
    r"|children|buffers|named_\w+|zero_grad|requires_grad_|share_memory|compile|no_sync|summary"
    r"|gradient_checkpointing_\w+|freeze\w*|unfreeze\w*|tie_weights|push_to_hub|config|module"
    r"|__call__|backward|step)$"
    r"|^(?:get|set|configure|load|save|num|register|enable|disable|estimate|crop|init|reset|count|is"
    r"|has|from|add|log|clip|print|update)_?"
)


@rule("past-the-wrapper")
def past_the_wrapper(view: View) -> Iterator[Found]:
    """A method of a compiled module runs the original, uncompiled."""
    if not view.analysis.regions.found:
        return
    for call in view.script.calls:
        func = call.func
        if not isinstance(func, ast.Attribute) or _HOUSEKEEPING.match(func.attr):
            continue
        if not view.each_step(call):
            continue
        compiled = compiled_as(view, func.value) or _in_place(view, func)
        if compiled is not None and is_module(compiled, view.analysis.values):
            yield Found(call, f"`{written(func)}` runs the module without what was compiled")


def _in_place(view: View, func: ast.Attribute) -> Compiled | None:
    if func.attr != "forward":
        return None
    same = (
        each
        for each in view.analysis.regions.found
        if each.sort == "in place" and ast.unparse(each.target) == ast.unparse(func.value)
    )
    return next(same, None)


@rule("recompiles")
def recompiles(view: View) -> Iterator[Found]:
    """torch.compile is called again and again, or its update is made for a rate that changes."""
    for compiled in view.compiled:
        if compiled.sort != "in place" and _again(view, compiled):
            yield Found(compiled.node, "it is compiled anew each time")
    scheduled = any("lr_scheduler" in name for name in view.script.calls_by_name) or (
        {"lambdalr", "onecyclelr", "cosineannealinglr", "steplr"} & view.analysis.words
    )
    if not scheduled:
        return
    for compiled in view.compiled:
        updates = [
            (each.script, node)
            for each in compiled.functions
            for node in ast.walk(each.node)
            if isinstance(node, ast.Call) and view.analysis.steps.is_update(each.script, node)
        ]
        target = compiled.target
        owners = [call.func.value for _, call in updates if isinstance(call.func, ast.Attribute)]
        if isinstance(target, ast.Attribute) and target.attr == "step":
            owners.append(target.value)
        for owner in owners:
            for origin in view.analysis.values.origins(view.script, owner):
                made = origin.node
                if isinstance(made, ast.Call) and view.kind(made) is Kind.OPTIMIZER:
                    rate = keyword(made, "lr")
                    if rate is None or isinstance(view.settled(rate), ast.Constant):
                        yield Found(made, "the compiled update is made for one value of the rate")


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
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            break
    kept = script.parent(node)
    held = isinstance(kept, ast.Assign) and not isinstance(kept.targets[0], ast.Name)
    return not held and view.each_step(statement)


RULES = (compiled_discarded, compile_order, orig_mod_keys, past_the_wrapper, recompiles)
