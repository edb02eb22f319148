"""Which statements run in each step of training.

A step is the body of the innermost loop that trains, or a method that a framework calls for each
batch; and whatever of the folder is called from there. Each statement of it is marked: in each
step, or now and then (behind `if step % 100 == 0`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from compilegate.check.regions.guards import skips, split
from compilegate.check.regions.markers import is_backward, is_update, markers
from compilegate.check.script.bindings import Loop
from compilegate.check.script.project import Defined, Project, Script
from compilegate.check.script.values import Sort, class_of, is_a

_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class Often(IntEnum):
    """How often a statement runs while a model is trained."""

    SELDOM = 1
    EACH_STEP = 2


@dataclass(frozen=True, eq=False)
class Step:
    """One place that trains."""

    script: Script
    node: Loop | ast.FunctionDef | ast.AsyncFunctionDef
    framework: str
    """`loop`, `lightning`, `trainer`, `keras`; `function` where the loop is not in the folder."""

    @property
    def body(self) -> list[ast.stmt]:
        """Its statements."""
        return self.node.body


# Methods that a framework calls for each batch, by the base class.
FRAMEWORK_STEPS = (
    ("lightning", "lightning.pytorch.LightningModule",
     ("training_step", "on_train_batch_start", "on_train_batch_end", "optimizer_step",
      "on_before_zero_grad", "on_after_backward", "configure_gradient_clipping")),
    ("lightning", "lightning.pytorch.Callback", ("on_train_batch_start", "on_train_batch_end")),
    ("trainer", "transformers.Trainer", ("compute_loss", "training_step")),
    ("trainer", "transformers.Seq2SeqTrainer", ("compute_loss", "training_step")),
    ("trainer", "transformers.TrainerCallback", ("on_step_begin", "on_step_end", "on_substep_end")),
    ("keras", "keras.Model", ("train_step",)),
    ("keras", "keras.callbacks.Callback", ("on_train_batch_begin", "on_train_batch_end")),
)  # fmt: skip


class Steps:
    """The steps of all scripts, and what runs in them."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.found: list[Step] = list(self._find())
        self.marks: dict[ast.stmt, Often] = {}
        self.steps_of: dict[ast.stmt, Step] = {}
        for step in self.found:
            self._mark(step.script, step.body, Often.EACH_STEP, step)

    def often(self, script: Script, node: ast.AST) -> Often | None:
        """How often a node runs in training; None outside of any step."""
        statement = self._statement(script, node)
        return None if statement is None else self.marks.get(statement)

    def step_of(self, script: Script, node: ast.AST) -> Step | None:
        """The step that a node runs in."""
        statement = self._statement(script, node)
        return None if statement is None else self.steps_of.get(statement)

    def _statement(self, script: Script, node: ast.AST) -> ast.stmt | None:
        current: ast.AST | None = node
        while current is not None:
            if isinstance(current, ast.stmt):
                return current
            if isinstance(current, ast.Lambda):
                return None
            current = script.parent(current)
        return None

    # Finding.

    def _find(self) -> Iterator[Step]:
        """Climb from every backward pass and update to the loop around it, over calls as well."""
        loops: dict[ast.AST, Step] = {}
        roots: dict[ast.AST, Step] = {}
        pending = [
            (script, call, is_backward(script, call))
            for script in self._project.scripts
            for call in markers(script)
        ]
        reached: set[tuple[ast.AST, bool]] = set()
        while pending:
            script, call, backward = pending.pop()
            around = _loop_or_function(script, call)
            if isinstance(around, ast.For | ast.AsyncFor | ast.While):
                loops.setdefault(around, Step(script, around, "loop"))
            elif around is not None and not _updates_after_its_loop(script, around, call):
                callers = self._callers(script, around)
                if not callers and backward and not _is_part_of_an_update(script, around):
                    known = "loop" if _is_run_by_an_engine(script, around) else "function"
                    roots.setdefault(around, Step(script, around, known))
                if (around, backward) not in reached:
                    reached.add((around, backward))
                    pending += [(*caller, backward) for caller in callers]
        for script in self._project.scripts:
            for loop in _loops_that_clear(script):
                if loop not in loops and not _leads_to(script, loop, loops):
                    loops[loop] = Step(script, loop, "loop")
        for script in self._project.scripts:
            yield from (loops[loop] for loop in script.loops if loop in loops)
            yield from self._framework_steps(script)
            yield from (roots[each] for each in script.tree.functions if each in roots)

    def _callers(
        self, script: Script, function: ast.FunctionDef | ast.AsyncFunctionDef
    ) -> list[tuple[Script, ast.Call]]:
        """The calls that run a function: by name, by method, or by what wraps it."""
        names = {function.name, *self._wrapped_names.get(function, ())}
        return [
            (place, call)
            for place in self._project.scripts
            for name in sorted(names)
            for call in place.calls_by_last.get(name, ())
            if any(each.node is function for each in called_functions(place, call))
        ]

    @cached_property
    def _wrapped_names(self) -> dict[ast.AST, set[str]]:
        """What `train_step = torch.compile(step)` calls a function of the folder."""
        found: dict[ast.AST, set[str]] = {}
        for script in self._project.scripts:
            for call in script.calls_of(*FUNCTION_WRAPPERS):
                wrapped = script.definition(call.args[0]) if call.args else None
                if wrapped is not None:
                    found.setdefault(wrapped.node, set()).update(_assigned_names(script, call))
        return found

    def _framework_steps(self, script: Script) -> Iterator[Step]:
        for owner in script.tree.classes:
            bases = script.bases(owner)
            for framework, base, methods in FRAMEWORK_STEPS:
                if base not in bases:
                    continue
                for statement in owner.body:
                    if isinstance(statement, ast.FunctionDef) and statement.name in methods:
                        yield Step(script, statement, framework)

    # Marking.

    def _mark(self, script: Script, body: list[ast.stmt], often: Often, step: Step) -> None:
        def updates(statements: list[ast.stmt]) -> bool:
            return any(
                isinstance(node, ast.Call)
                and (is_update(script, node) or is_backward(script, node))
                for statement in statements
                for node in ast.walk(statement)
            )

        for statement in body:
            if isinstance(statement, _NESTED):
                continue
            if self.marks.get(statement, 0) >= often:
                continue
            self.marks[statement] = often
            self.steps_of.setdefault(statement, step)
            for expression in _own_expressions(statement):
                self._follow(script, expression, often, step)
            match statement:
                case ast.If():
                    seldom, other = split(script, statement, updates)
                    inner = Often.SELDOM if seldom else often
                    self._mark(script, statement.body, inner, step)
                    rest = Often.SELDOM if other else often
                    self._mark(script, statement.orelse, rest, step)
                    if skips(statement.body) and _is_count(statement.test):
                        often = Often.SELDOM
                case ast.Try() | ast.TryStar():
                    self._mark(script, statement.body, often, step)
                    for handler in statement.handlers:
                        self._mark(script, handler.body, Often.SELDOM, step)
                    self._mark(script, statement.orelse, often, step)
                    self._mark(script, statement.finalbody, often, step)
                case ast.Match():
                    for case in statement.cases:
                        self._mark(script, case.body, often, step)
                case ast.For() | ast.AsyncFor() | ast.While() | ast.With() | ast.AsyncWith():
                    self._mark(script, statement.body, often, step)
                    if not isinstance(statement, ast.With | ast.AsyncWith):
                        self._mark(script, statement.orelse, Often.SELDOM, step)

    def _follow(self, script: Script, expression: ast.AST, often: Often, step: Step) -> None:
        """Mark what is called of the folder."""
        pending: list[ast.AST] = [expression]
        while pending:
            node = pending.pop()
            if isinstance(node, ast.Lambda):
                continue
            if isinstance(node, ast.Call):
                for called in called_functions(script, node):
                    if isinstance(called.node, ast.ClassDef):
                        continue
                    how_often = Often.SELDOM if _evaluates(called.node.name) else often
                    self._mark(called.script, called.node.body, how_often, step)
            pending += ast.iter_child_nodes(node)


def _own_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """The parts of a statement that are no statements."""
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child


def _loop_or_function(
    script: Script, node: ast.AST
) -> Loop | ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The innermost loop or function around a node; not a loop that only updates optimizers."""
    for outer in script.ancestors(node):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return outer
        if isinstance(outer, ast.For | ast.AsyncFor | ast.While) and not _over_optimizers(outer):
            return outer
        if isinstance(outer, ast.Lambda | ast.ClassDef):
            return None
    return None


def _is_part_of_an_update(script: Script, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it is a method of an optimizer or of an operation: their `step` and `backward`."""
    return function.name == "backward" or (
        function.name == "step" and isinstance(script.parent(function), ast.ClassDef)
    )


def _is_run_by_an_engine(script: Script, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it is handed to Ignite's `Engine(step)`, whose loop is known."""
    given = [call.args[0] for call in script.calls_of(*_ENGINES) if call.args]
    return any(
        defined is not None and defined.node is function
        for defined in (script.definition(each) for each in given)
    )


_ENGINES = ("ignite.engine.Engine", "ignite.engine.engine.Engine")


def _updates_after_its_loop(
    script: Script, function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call
) -> bool:
    """Whether a loop before a call, in the same function, goes backward: then the call updates
    with what the last batches left, once for each time that the function is called."""
    return not is_backward(script, call) and any(
        isinstance(loop, ast.For | ast.AsyncFor | ast.While)
        and (loop.end_lineno or 0) < call.lineno
        and any(isinstance(node, ast.Call) and is_backward(script, node) for node in ast.walk(loop))
        for loop in ast.walk(function)
    )


def _loops_that_clear(script: Script) -> Iterator[ast.For | ast.AsyncFor]:
    """The loops over batches that clear gradients, where a helper goes backward and updates:
    `optimizer.zero_grad()`. A loop that counts epochs may clear them too."""
    for call in script.calls_by_last.get("zero_grad", ()):
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        loop = _loop_or_function(script, call)
        if receiver is None or not isinstance(loop, ast.For | ast.AsyncFor):
            continue
        counts = isinstance(loop.iter, ast.Call) and (
            script.called(loop.iter) == "builtins.range"
            or any(
                isinstance(each, ast.Call) and script.called(each) == "builtins.range"
                for each in loop.iter.args
            )
        )
        last = ast.unparse(receiver).rsplit(".", 1)[-1].lower()
        if not counts and ("optim" in last or is_a(script, receiver, Sort.OPTIMIZER)):
            yield loop


def _leads_to(script: Script, loop: Loop, steps: Mapping[ast.AST, Step]) -> bool:
    """Whether a loop that trains lies in another, or in a function that is called there."""
    for node in ast.walk(loop):
        if node is not loop and isinstance(node, ast.For | ast.AsyncFor | ast.While):
            return True
        if isinstance(node, ast.Call) and any(
            inner in steps
            for called in called_functions(script, node)
            for inner in ast.walk(called.node)
        ):
            return True
    return False


def _assigned_names(script: Script, call: ast.Call) -> set[str]:
    """The names that the result of a call is given."""
    outer = script.parent(call)
    if not isinstance(outer, ast.Assign):
        return set()
    return {
        target.attr if isinstance(target, ast.Attribute) else target.id
        for target in outer.targets
        if isinstance(target, ast.Name | ast.Attribute)
    }


def _over_optimizers(loop: Loop) -> bool:
    """Whether a loop only updates: `for optimizer, schedule in zip(...): optimizer.step()`."""
    if not isinstance(loop, ast.For):
        return False
    handed = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "step"
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in handed
        and "opt" in node.func.value.id.lower()
        for node in ast.walk(loop)
    )


def _is_count(test: ast.expr) -> bool:
    return any(
        isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) for node in ast.walk(test)
    )


def _evaluates(name: str) -> bool:
    lowered = name.lower()
    return lowered.startswith(("eval", "valid", "test", "estimate")) or lowered in {
        "infer",
        "predict",
    }


def called_functions(script: Script, call: ast.Call) -> list[Defined]:
    """The functions of the folder that a call runs: by name, by method, or a model's forward."""
    found: list[Defined] = []
    defined = script.definition(call.func)
    if defined is not None and defined.function is not None:
        found.append(defined)
    elif defined is None and isinstance(call.func, ast.Attribute):
        owner = class_of(script, call.func.value)
        if owner is not None:
            name = "forward" if call.func.attr == "__call__" else call.func.attr
            method = owner.script.method(owner, name)
            if method is not None:
                found.append(method)
    if defined is None:
        owner = _instance(script, call.func)
        for name in ("forward", "__call__", "call") if owner is not None else ():
            method = owner.script.method(owner, name) if owner is not None else None
            if method is not None:
                found.append(method)
                break
    # `optimizer.step(closure)` runs the closure.
    if isinstance(call.func, ast.Attribute) and call.func.attr in {"step", "optimizer_step"}:
        for argument in call.args:
            if isinstance(argument, ast.Name):
                closure = script.definition(argument)
                if closure is not None and closure.function is not None:
                    found.append(closure)
    # `train_step = torch.compile(step)` runs `step`.
    found += [] if found else _wrapped(script, call.func)
    return found


def _instance(script: Script, called: ast.expr) -> Defined | None:
    if isinstance(called, ast.Name | ast.Attribute | ast.Subscript):
        return class_of(script, called)
    return None


FUNCTION_WRAPPERS = frozenset(
    {"torch.compile", "torch_xla.compile", "torch.jit.script", "functools.partial",
     "torch.func.functional_call", "keras.function", "tensorflow.function", "torch.vmap"}
)  # fmt: skip


def _wrapped(script: Script, called: ast.expr) -> list[Defined]:
    if not isinstance(called, ast.Name):
        return []
    found: list[Defined] = []
    for binding in script.bindings(called.id, called):
        value = binding.node
        if (
            binding.kind == "value"
            and isinstance(value, ast.Call)
            and value.args
            and script.called(value) in FUNCTION_WRAPPERS
        ):
            defined = script.definition(value.args[0])
            if defined is not None and defined.function is not None:
                found.append(defined)
    return found
