"""What keeps Keras or TensorFlow from making a graph of the step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilegate.check.rules.rule import TRAINING_COMPILER, XLA, Found, View, keyword, rule, written

_GRAPHS = (XLA, TRAINING_COMPILER)


@rule("runs-eagerly")
def runs_eagerly(view: View) -> Iterator[Found]:
    if not (view.script.uses("tensorflow") or view.script.uses("keras")):
        return
    for call in view.script.calls:
        given = keyword(call, "run_eagerly")
        if isinstance(given, ast.Constant) and given.value is True:
            yield Found(given, "the model runs eagerly")
        name = view.script.called(call)
        if name.endswith("run_functions_eagerly") and call.args:
            value = call.args[0]
            if isinstance(value, ast.Constant) and value.value is True:
                yield Found(call, "every function runs eagerly")


@rule("step-without-function")
def step_without_function(view: View) -> Iterator[Found]:
    if not view.script.uses("tensorflow") or "make_train_function" in view.analysis.words:
        return
    for call in view.named("tensorflow.GradientTape"):
        if not view.in_step(call) or _in_graph(view, call) or _in_keras_step(view, call):
            continue
        yield Found(call, "the gradients of each step are recorded outside of `tf.function`")


def _in_graph(view: View, node: ast.AST) -> bool:
    """Whether a function around a node is decorated, or wrapped anywhere, or called from one."""
    function = view.script.function_around(node)
    seen: set[ast.AST] = set()
    while function is not None and function not in seen:
        seen.add(function)
        if any(_is_function(view, decorator) for decorator in function.decorator_list):
            return True
        if _is_wrapped(view, function.name):
            return True
        callers = view.analysis.project.callers.get(function, [])
        function = next(
            (
                around
                for script, call in callers
                if (around := script.function_around(call)) is not None
            ),
            view.script.function_around(function),
        )
    return False


def _is_function(view: View, decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return "function" in written(target)


def _is_wrapped(view: View, name: str) -> bool:
    """Whether a function is given to `tf.function` or to a strategy that is."""
    for call in view.script.calls:
        called = written(call.func)
        given = [each.id for each in call.args if isinstance(each, ast.Name)]
        if name in given and ("function" in called or called.endswith((".run", "jit"))):
            return True
    return False


def _in_keras_step(view: View, node: ast.AST) -> bool:
    """Keras makes a graph of `train_step` itself."""
    step = view.analysis.steps.step_of(view.script, node)
    return step is not None and step.framework == "keras"


RULES = (runs_eagerly, step_without_function)
