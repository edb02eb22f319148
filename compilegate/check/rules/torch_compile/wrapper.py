"""Calls that go past what torch.compile wrapped, and hooks that it does not see."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from compilegate.check.findings import Severity
from compilegate.check.regions.compiled import Compiled
from compilegate.check.rules.rule import Analysis, Found, View, rule, written
from compilegate.check.rules.torch_compile.flow import (
    How,
    Once,
    Use,
    behind,
    compiles_module,
    found_once,
    same_value,
    uses_of,
)
from compilegate.check.script.project import Script
from compilegate.check.script.values import origins

_TROUBLE = "https://docs.pytorch.org/docs/stable/generated/torch.compile.html"

# What every module offers and what runs nothing of its own.
_HOUSEKEEPING = frozenset(
    {
        "to", "cuda", "cpu", "train", "eval", "half", "float", "double", "bfloat16", "apply",
        "state_dict", "load_state_dict", "parameters", "named_parameters", "modules",
        "named_modules", "children", "named_children", "buffers", "named_buffers", "zero_grad",
        "requires_grad_", "share_memory", "to_empty", "get_submodule", "get_parameter", "compile",
        "extra_repr", "register_buffer", "register_parameter", "add_module", "type", "items",
        "gradient_checkpointing_enable", "gradient_checkpointing_disable", "freeze", "unfreeze",
        "print_trainable_parameters", "configure_optimizers", "num_parameters", "summary",
        "tie_weights", "resize_token_embeddings", "push_to_hub", "no_sync",
    }
)  # fmt: skip
_HOUSEKEEPING_PREFIXES = (
    "get_", "set_", "configure_", "load_", "save", "num_", "register_", "enable_", "disable_",
    "estimate_", "crop_", "init", "reset_", "count_", "is_", "has_", "from_", "freeze_",
    "unfreeze_", "add_", "log", "clip_grad",
)  # fmt: skip


@rule("past-the-wrapper")
def past_the_wrapper(view: View) -> Iterator[Found]:
    yield from found_once(_PAST, view, _past)


_PAST: Once = WeakKeyDictionary()


def _past(analysis: Analysis) -> Iterator[tuple[Script, Found]]:
    for compiled in analysis.regions.found:
        if compiled.decorates or not compiles_module(compiled):
            continue
        uses = uses_of(analysis, compiled)
        for use in uses:
            if use.how is How.METHOD and use.method == "forward":
                yield use.script, _forward(compiled, use)
        if compiled.in_place or any(use.how in {How.CALLED, How.ESCAPES} for use in uses):
            continue
        ran = [use for use in uses if use.how is How.METHOD and _runs(use.method)]
        if any(use.method == "forward" for use in ran):
            continue
        for use in ran:
            said = f"the compiled module is never called, and `.{use.method}()` runs the original"
            found = Found(use.node, f"{said}: nothing is compiled", Severity.ERROR)
            yield use.script, found


def _forward(compiled: Compiled, use: Use) -> Found:
    said = written(use.node.func if isinstance(use.node, ast.Call) else use.node)
    if compiled.in_place:
        return Found(
            use.node,
            f"`{said}` does not run compiled: `module.compile()` compiles the call of the module",
            Severity.ERROR,
        )
    return Found(use.node, f"`{said}` goes past the compiled module's own call and its hooks")


def _runs(method: str) -> bool:
    return method not in _HOUSEKEEPING and not method.startswith(_HOUSEKEEPING_PREFIXES)


_HOOKS = frozenset(
    {
        "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
        "register_full_backward_pre_hook", "register_backward_hook",
    }
)  # fmt: skip


@rule("hooks-on-compiled")
def hooks_on_compiled(view: View) -> Iterator[Found]:
    if not any(view.script.calls_by_last.get(name) for name in ("watch", *_HOOKS)):
        return
    modules = [
        each
        for each in view.analysis.regions.found
        if isinstance(each.target, ast.expr) and compiles_module(each)
    ]
    if not modules:
        return
    for call in (*view.named("wandb.watch", "wandb.run.watch"), *_watched_by_runs(view)):
        given = call.args[0] if call.args else None
        given = given or next((word.value for word in call.keywords if word.arg == "models"), None)
        if given is not None and _is_compiled(view, modules, given):
            yield Found(call, f"`{written(call)}` puts hooks into a model that is compiled")
    for call in view.methods(*_HOOKS):
        if isinstance(call.func, ast.Attribute):
            owner = _whole_model(view, call.func.value)
            if _is_compiled(view, modules, owner):
                yield Found(call, f"`{written(call.func)}` hooks into a model that is compiled")


def _watched_by_runs(view: View) -> Iterator[ast.Call]:
    """`run.watch(model)` where `run = wandb.init(...)`."""
    for call in view.script.calls_by_last.get("watch", ()):
        if isinstance(call.func, ast.Attribute) and any(
            isinstance(origin.node, ast.Call) and origin.script.called(origin.node) == "wandb.init"
            for origin in origins(view.script, call.func.value)
        ):
            yield call


def _is_compiled(view: View, modules: list[Compiled], node: ast.expr) -> bool:
    if behind(view.analysis, view.script, node):
        return True
    return any(
        isinstance(each.target, ast.expr)
        and same_value(view.script, node, each.script, each.target)
        for each in modules
    )


def _whole_model(view: View, node: ast.expr) -> ast.expr:
    """The model of which `model.layer`, `model.layers[0]` or a loop over its modules is a part."""
    current = node
    for _ in range(6):
        match current:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                return current
            case ast.Attribute() | ast.Subscript():
                current = current.value
            case ast.Name():
                over = [
                    each.node
                    for each in view.script.bindings(current.id, current)
                    if each.kind == "element"
                ]
                loop = over[0] if over else None
                if isinstance(loop, ast.Call) and isinstance(loop.func, ast.Attribute):
                    if loop.func.attr not in {"modules", "named_modules", "children",
                                              "named_children"}:  # fmt: skip
                        return current
                    current = loop.func.value
                else:
                    return current
            case _:
                return current
    return current


RULES = (past_the_wrapper, hooks_on_compiled)
