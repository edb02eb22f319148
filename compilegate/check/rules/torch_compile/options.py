"""What torch.compile is told, and settings that hide that it failed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilegate.check.rules.rule import Found, View, rule, written
from compilegate.check.script.project import Script

_COMPILE = "https://docs.pytorch.org/docs/stable/generated/torch.compile.html"
MODES = frozenset(
    {"default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"}
)
"""What torch 2.13 takes as `mode`."""

_OPTIONS = frozenset(
    {"fullgraph", "dynamic", "backend", "mode", "options", "disable", "model", "name",
     "guard_filter_fn", "recompile_limit"}
)  # fmt: skip


@rule("compile-options")
def compile_options(view: View) -> Iterator[Found]:
    for compiled in view.compiled:
        call = compiled.node
        if not isinstance(call, ast.Call) or view.script.called(call) == "compilegate.job.compile":
            continue
        if len(call.args) > 1 and not any(isinstance(each, ast.Starred) for each in call.args):
            yield Found(call, f"`{written(call.args[1])}` must be given by keyword")
            continue
        backend = compiled.options.get("backend")
        inductor = backend is None or (
            isinstance(backend, ast.Constant) and backend.value == "inductor"
        )
        mode, options = compiled.options.get("mode"), compiled.options.get("options")
        if _given(mode) and _given(options) and isinstance(options, ast.Dict):
            yield Found(call, "`mode` and `options` are both given")
        elif (
            inductor
            and isinstance(mode, ast.Constant)
            and isinstance(mode.value, str)
            and mode.value not in MODES
        ):
            yield Found(mode, f"there is no mode `{mode.value}`")


def _given(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Dict) or (isinstance(node, ast.Constant) and node.value is not None)


@rule("errors-hidden")
def errors_hidden(view: View) -> Iterator[Found]:
    script = view.script
    if not any(word in line for line in script.source.lines for word in _HIDING):
        return
    for node in ast.walk(script.source.tree):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target = node.targets[0]
        value = node.value.value if isinstance(node.value, ast.Constant) else None
        if isinstance(target, ast.Attribute) and value is True:
            if script.name(target) in {"torch._dynamo.config.suppress_errors",
                                       "torch._dynamo.config.disable"}:  # fmt: skip
                yield Found(node, f"`{written(node)}` hides what could not be compiled")
        elif isinstance(target, ast.Subscript) and value in {"1", "true", "True"}:
            said = _variable(script, target)
            if said in _VARIABLES:
                yield Found(node, f"`{said}` hides what could not be compiled")
    for call in _switched_off(script):
        yield Found(call, f"`{written(call)}` hides what could not be compiled")


# What stands in every script that this rule concerns; most scripts are not walked at all.
_HIDING = ("suppress_errors", "config.disable", "TORCHDYNAMO_", "TORCH_COMPILE_DISABLE")


def _switched_off(script: Script) -> Iterator[ast.Call]:
    """`os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")`, and the same by `putenv`."""
    for call in script.calls_of("os.environ.setdefault", "os.putenv"):
        given = [each.value for each in call.args if isinstance(each, ast.Constant)]
        if len(given) == 2 and given[0] in _VARIABLES and given[1] in {"1", "true", "True"}:
            yield call


_VARIABLES = frozenset(
    {"TORCHDYNAMO_SUPPRESS_ERRORS", "TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"}
)


def _variable(script: Script, target: ast.Subscript) -> str | None:
    if script.name(target.value) != "os.environ" or not isinstance(target.slice, ast.Constant):
        return None
    return str(target.slice.value)


RULES = (compile_options, errors_hidden)
