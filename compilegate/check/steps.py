"""Which code runs in each step of training, and which of it a compiler is given.

A step is the body of the innermost loop that trains, or a method that a framework calls for each
batch; and whatever of the files is called from there. Each statement of it is marked: in each step,
or now and then (behind `if step % 100 == 0`). What is called and lies in no file of the check is
noted, for nobody looked into it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from compilegate.check.names import (
    FUNCTIONS,
    LOOPS,
    Defined,
    Function,
    Loop,
    Project,
    Script,
    last_name,
    parameters,
)
from compilegate.check.values import HANDS_BACK, Kind, Origin, Values, default_of, own_nodes


class Often(IntEnum):
    """How often a statement runs while a model is trained."""

    SELDOM = 1
    EACH_STEP = 2


@dataclass(frozen=True, eq=False)
class Step:
    """One place that trains."""

    script: Script
    node: Loop | Function | ast.Call
    """The loop; the method that a framework calls; the call that runs a framework's loop; or a
    function with a backward pass whose loop is in no file."""

    sort: str
    """`loop`, `method`, `call` or `function`."""

    @property
    def body(self) -> list[ast.stmt]:
        """Its statements."""
        return [] if isinstance(self.node, ast.Call) else self.node.body


# Methods that a framework calls for each batch, by the last name of a base class.
_METHODS = {
    "LightningModule": ("training_step", "on_train_batch_start", "on_train_batch_end",
                        "optimizer_step", "on_after_backward", "configure_gradient_clipping"),
    "Callback": ("on_train_batch_start", "on_train_batch_end", "on_train_batch_begin"),
    "Trainer": ("compute_loss", "training_step"),
    "Seq2SeqTrainer": ("compute_loss", "training_step"),
    "TrainerCallback": ("on_step_begin", "on_step_end", "on_substep_end"),
    "Model": ("train_step",),
    "ClassyTask": ("train_step",),
}  # fmt: skip


class Steps:
    """The steps of all scripts, and what runs in them."""

    def __init__(self, project: Project, values: Values) -> None:
        self._project = project
        self._values = values
        self.marks: dict[ast.AST, Often] = {}
        self.followed: dict[Defined, None] = {}
        self.not_followed: dict[str, None] = {}
        """What the steps call and no file of the check holds, as it is written there."""
        self.found: list[Step] = list(self._find())
        for step in self.found:
            self._mark(step.script, step.body, Often.EACH_STEP)

    def often(self, script: Script, node: ast.AST) -> Often | None:
        """How often a node runs in training; None outside of any step."""
        around = script.function_around(node)
        place = around if isinstance(around, ast.Lambda) else script.statement(node)
        return None if place is None else self.marks.get(place)

    # Finding.

    def _find(self) -> Iterator[Step]:
        """Climb from every backward pass and update to the loop around it, over calls as well."""
        loops: dict[ast.AST, Step] = {}
        roots: dict[ast.AST, Step] = {}
        pending = [
            (script, call, backward)
            for script in self._project.scripts
            for call, backward in self._markers(script)
        ]
        reached: set[tuple[ast.AST, bool]] = set()
        while pending:
            script, call, backward = pending.pop()
            around = _loop_or_function(script, call)
            if isinstance(around, LOOPS):
                loops.setdefault(around, Step(script, around, "loop"))
            elif around is not None and not self._after_its_loop(script, around, call, backward):
                callers = self._callers(script, around)
                if not callers and backward and _may_be_a_step(script, around):
                    engine = self._is_given_to_an_engine(script, around)
                    sort = "loop" if engine else "function"
                    roots.setdefault(around, Step(script, around, sort))
                if (around, backward) not in reached:
                    reached.add((around, backward))
                    pending += [(*caller, backward) for caller in callers]
        for script in self._project.scripts:
            for call in script.calls_by_last.get("zero_grad", ()):  # a helper does the rest
                loop = self._clearing(script, call, loops)
                if loop is not None:
                    loops[loop] = Step(script, loop, "loop")
        for script in self._project.scripts:
            yield from (loops[loop] for loop in script.loops if loop in loops)
            yield from self._framework_methods(script)
            methods = [each for each in script.functions if each in roots]
            yield from (roots[each] for each in methods)
            yield from self._framework_calls(script)

    def _clearing(
        self, script: Script, call: ast.Call, known: dict[ast.AST, Step]
    ) -> ast.For | None:
        """The loop over batches around `optimizer.zero_grad()` that holds no other that trains."""
        loop = _loop_or_function(script, call)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if not isinstance(loop, ast.For) or owner is None or "range(" in ast.unparse(loop.iter):
            return None
        if self._values.kind(script, owner) is not Kind.OPTIMIZER:
            return None
        inside = list(ast.walk(loop))
        called = [
            node
            for each in inside
            if isinstance(each, ast.Call)
            for found in self.called(script, each)
            for node in ast.walk(found.node)
        ]
        return None if any(each in known for each in [*inside, *called]) else loop

    def _markers(self, script: Script) -> Iterator[tuple[ast.Call, bool]]:
        """Every backward pass (True) and update (False) of a script."""
        for name in ("backward", "manual_backward", "gradient", "train_on_batch"):
            for call in script.calls_by_last.get(name, ()):
                if is_backward(script, call):
                    yield call, True
        for name in ("step", "optimizer_step", "apply_gradients", "step_"):
            for call in script.calls_by_last.get(name, ()):
                if self.is_update(script, call):
                    yield call, False

    def is_update(self, script: Script, call: ast.Call) -> bool:
        """`optimizer.step()`, `scaler.step(optimizer)`, `xm.optimizer_step(optimizer)`."""
        last = last_name(call.func)
        if last == "optimizer_step" or script.called(call) == "compilegate.job.step":
            return True
        if not isinstance(call.func, ast.Attribute):
            return False
        if last == "apply_gradients":
            return not script.uses("flax", "jax")  # XLA compiles a state of JAX anyhow
        kind = self._values.kind(script, call.func.value)
        return last == "step" and kind in (Kind.OPTIMIZER, Kind.SCALER)

    def _callers(self, script: Script, function: Function) -> list[tuple[Script, ast.Call]]:
        """What runs a function: calls in the files, or the place where it is handed on."""
        found = self._values.calls_of(script, function)
        if not found and isinstance(script.parent(function), ast.ClassDef):
            # A method of the only class that has one of this name.
            alike = self._project.methods.get(function.name, [])
            if len(alike) == 1 and function.name not in ("step", "backward", "forward"):
                found = [
                    (place, call)
                    for place in self._project.scripts
                    for call in place.calls_by_last.get(function.name, ())
                    if isinstance(call.func, ast.Attribute)
                ]
        if not found:  # `optimizer.step(closure)`, `fabric.launch(train)`, `xmp.spawn(_mp_fn)`
            found = [
                (place, outer)
                for place in self._project.scripts
                for name in ("step", "optimizer_step")
                for outer in place.calls_by_last.get(name, ())
                if any(
                    isinstance(each, ast.Name)
                    and place.definition(each) == Defined(script, function)
                    for each in outer.args
                )
            ]
        return found

    def _is_given_to_an_engine(self, script: Script, function: Function) -> bool:
        """Whether it is handed to Ignite's `Engine(step)`, whose loop is known."""
        calls = script.calls_by_last.get("Engine", ())
        return any(Defined(script, function) == script.definition(x) for c in calls for x in c.args)

    def _after_its_loop(
        self, script: Script, function: Function, call: ast.Call, backward: bool
    ) -> bool:
        """Whether a loop before an update, in the same function, goes backward: then the update
        takes what the last batches left, once for each time that the function is called."""
        return not backward and any(
            isinstance(loop, LOOPS)
            and (loop.end_lineno or 0) < call.lineno
            and any(isinstance(node, ast.Call) and is_backward(script, node)
                    for node in ast.walk(loop))
            for loop in ast.walk(function)
        )  # fmt: skip

    def _framework_methods(self, script: Script) -> Iterator[Step]:
        for owner in script.classes:
            last = {each.rsplit(".", 1)[-1] for each in Defined(script, owner).bases()}
            names = {name for base in last for name in _METHODS.get(base, ())}
            methods = {each.name for each in owner.body if isinstance(each, FUNCTIONS)}
            if {"training_step", "configure_optimizers"} <= methods:
                names.add("training_step")
            for statement in owner.body:
                if isinstance(statement, FUNCTIONS) and statement.name in names:
                    yield Step(script, statement, "method")

    def _framework_calls(self, script: Script) -> Iterator[Step]:
        """`trainer.train()`, `trainer.fit(model)`, `model.fit(data)` of Keras."""
        for name in ("train", "fit", "fit_generator"):
            for call in script.calls_by_last.get(name, ()):
                if isinstance(call.func, ast.Attribute) and self._runs_a_loop(script, call):
                    yield Step(script, call, "call")

    def _runs_a_loop(self, script: Script, call: ast.Call) -> bool:
        if not isinstance(call.func, ast.Attribute):
            return False
        owner = call.func.value
        made = [
            origin.script.called(origin.node).rsplit(".", 1)[-1]
            for origin in self._values.origins(script, owner)
            if isinstance(origin.node, ast.Call)
        ]
        if any(each.endswith(("Trainer", "Learner")) for each in made):
            return True
        if call.func.attr == "train":
            known = script.definition(call.func) or self._values.method_of(script, call.func)
            return known is None and "trainer" in ast.unparse(owner).lower()
        keras = script.uses("keras", "tensorflow", "tf_keras")
        by_name = re.search(r"trainer|learn(?:er)?$", ast.unparse(owner).lower())
        return bool(by_name) or (keras and self._values.kind(script, owner) is Kind.MODEL)

    # Marking.

    def _mark(self, script: Script, body: Iterable[ast.stmt], often: Often) -> None:
        for statement in body:
            if self.marks.get(statement, 0) >= often:
                continue
            self.marks[statement] = often
            if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
                continue  # it is made here; what runs it is followed
            for part in ast.iter_child_nodes(statement):
                if not isinstance(part, ast.stmt | ast.excepthandler | ast.match_case):
                    self._follow(script, part, often)
            match statement:
                case ast.If():
                    seldom, other = self._split(script, statement)
                    self._mark(script, statement.body, Often.SELDOM if seldom else often)
                    self._mark(script, statement.orelse, Often.SELDOM if other else often)
                    skips = isinstance(statement.body[-1], ast.Continue)
                    if skips and any(_counts(each) for each in ast.walk(statement.test)):
                        often = Often.SELDOM  # `if step % 2: continue`
                case ast.Try() | ast.TryStar():
                    self._mark(script, statement.body, often)
                    for handler in statement.handlers:
                        self._mark(script, handler.body, Often.SELDOM)
                    self._mark(script, [*statement.orelse, *statement.finalbody], often)
                case ast.Match():
                    for case in statement.cases:
                        self._mark(script, case.body, often)
                case ast.With() | ast.AsyncWith():
                    self._mark(script, statement.body, often)
                case ast.For() | ast.AsyncFor() | ast.While():
                    self._mark(script, statement.body, often)
                    self._mark(script, statement.orelse, Often.SELDOM)

    def _follow(self, script: Script, expression: ast.AST, often: Often) -> None:
        """Mark what is called of the files."""
        pending: list[ast.AST] = [expression]
        while pending:
            node = pending.pop()
            if isinstance(node, ast.Lambda):
                continue
            pending += ast.iter_child_nodes(node)
            if not isinstance(node, ast.Call):
                continue
            called = self.called(script, node)
            for each in called:
                if isinstance(each.node, ast.ClassDef):
                    continue
                self.followed.setdefault(each)
                how_often = Often.SELDOM if _evaluates(each.name) else often
                if isinstance(each.node, ast.Lambda):
                    if self.marks.get(each.node, 0) < how_often:
                        self.marks[each.node] = how_often
                        self._follow(each.script, each.node.body, how_often)
                elif _hands_out(each.node):  # a generator: its loop turns once a step
                    for loop in own_nodes(each.node):
                        if isinstance(loop, LOOPS):
                            self._mark(each.script, loop.body, how_often)
                else:
                    self._mark(each.script, each.node.body, how_often)
            if not called and often is Often.EACH_STEP:
                self._note(script, node)

    def called(self, script: Script, call: ast.Call) -> list[Defined]:
        """The functions of the files that a call runs: by name, as a method, as a forward."""
        defined = script.definition(call.func)
        methods = self._values.methods_of(script, call.func)
        found = [defined] if defined is not None else list(methods)
        last = last_name(call.func)
        if last in ("step", "optimizer_step", "next", "iter"):
            for argument in call.args:  # `optimizer.step(closure)`, `next(batches)`
                closure = script.definition(argument)
                if closure is not None and not closure.is_class:
                    found.append(closure)
                for origin in self._values.origins(script, argument) if last == "next" else ():
                    made = origin.node.func if isinstance(origin.node, ast.Call) else None
                    generator = None if made is None else origin.script.definition(made)
                    if generator is not None and not generator.is_class:
                        found.append(generator)
        return found

    def _note(self, script: Script, call: ast.Call) -> None:
        """Note a call into what nobody read: another package, or something chosen as it runs."""
        name = script.called(call)
        if name.split(".", 1)[0] in _WELL_KNOWN or last_name(call.func) in ("backward", "step"):
            return
        kind = self._values.kind(script, call.func)
        method = isinstance(call.func, ast.Attribute) and not _is_self(call.func.value)
        if kind is Kind.MODEL and not method:
            made = [each.node for each in self._values.origins(script, call.func)]
            library = any(
                isinstance(each, ast.Call) and script.called(each).startswith("torch.nn.")
                for each in made
            )
            if not library:
                self.not_followed.setdefault(ast.unparse(call.func)[:40])
        elif name and not name.startswith(("./", "builtins.")):
            self.not_followed.setdefault(name[:60])
        elif isinstance(call.func, ast.Subscript | ast.Call):
            self.not_followed.setdefault(ast.unparse(call.func)[:40])

    # Which `if` makes code run now and then only.

    def _split(self, script: Script, statement: ast.If) -> tuple[bool, bool]:
        """Whether the body and the else of an `if` run in few steps only.

        `if (step + 1) % accumulation == 0:` around the update is part of every step in this sense.
        """
        test, body, other = statement.test, statement.body, statement.orelse
        counts = any(_counts(part) for part in ast.walk(test))
        if counts and isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotEq):
            return _leaves(body), not self._trains(script, other)
        seldom = self._is_seldom(script, test) and not self._trains(script, body)
        negated = test.operand if isinstance(test, ast.UnaryOp) else None
        rest = negated is not None and self._is_seldom(script, negated)
        return seldom or _leaves(body), (rest and not self._trains(script, other)) or _leaves(other)

    def _trains(self, script: Script, body: list[ast.stmt]) -> bool:
        """Whether statements go backward, update, or call what does."""
        for statement in body:
            for node in ast.walk(statement):
                if not isinstance(node, ast.Call):
                    continue
                if is_backward(script, node) or self.is_update(script, node):
                    return True
                for each in self.called(script, node):
                    if not each.is_class and any(
                        isinstance(inner, ast.Call) and is_backward(each.script, inner)
                        for inner in own_nodes(each.node)
                    ):
                        return True
        return False

    def _is_seldom(self, script: Script, test: ast.expr, depth: int = 0) -> bool:
        """Whether a test holds in few steps: `step % 100 == 0`, `loss < best`, `if args.debug`."""
        if depth > 3:
            return False
        match test:
            case ast.BoolOp(op=ast.And()):
                return any(self._is_seldom(script, part, depth) for part in test.values)
            case ast.BoolOp():
                rare = [each for each in test.values if self._is_seldom(script, each, depth + 1)]
                others = [each for each in test.values if each not in rare]
                flags = all(isinstance(each, ast.Name | ast.Attribute) for each in others)
                return bool(rare) and flags
            case ast.UnaryOp(op=ast.Not()):
                return _counts(test.operand)
            case ast.Compare():
                return self._compares_seldom(script, test)
            case ast.Name() | ast.Attribute():
                last = last_name(test)
                if _SELDOM.search(last) or self._off_by_default(script, test):
                    return True
                bindings = script.bindings(test.id, test) if isinstance(test, ast.Name) else []
                values = [each.node for each in bindings if each.kind == "value"]
                return (
                    bool(values)
                    and len(values) == len(bindings)
                    and all(
                        isinstance(value, ast.expr)
                        and not isinstance(value, ast.Constant)
                        and self._is_seldom(script, value, depth + 1)
                        for value in values
                    )
                )
            case ast.Call():
                last = last_name(test.func)
                return bool(_SELDOM.search(last)) or last in ("isnan", "isinf", "any", "isfinite")
        return False

    def _compares_seldom(self, script: Script, test: ast.Compare) -> bool:
        op, left, right = test.ops[0], ast.unparse(test.left), ast.unparse(test.comparators[0])
        if any(_counts(part) for part in ast.walk(test)):
            return not isinstance(op, ast.NotEq)
        counter = re.compile(r"step|iter|batch|(?:^|_|\.)(?:i|it|idx|n|epoch|global_step)$")
        if isinstance(op, ast.In):
            return bool(counter.search(left))
        if isinstance(op, ast.Eq):
            return bool(counter.search(left) or counter.search(right))
        if re.search(r"best|patience|elapsed|time|last_|thresh", f"{left} {right}"):
            return True
        if isinstance(op, ast.Lt | ast.LtE) and counter.search(left):
            return not re.search(r"max|total|num_|len\(", right)
        kinds = (self._values.kind(script, each) for each in (test.left, *test.comparators))
        return Kind.TENSOR in kinds and isinstance(op, ast.Gt | ast.GtE | ast.Lt | ast.LtE)

    def _off_by_default(self, script: Script, flag: ast.expr) -> bool:
        """Whether an option or a parameter of this name is off unless somebody sets it."""
        last = last_name(flag)
        for place in self._project.scripts:
            for call in place.calls_by_last.get("add_argument", ()):
                names = [each.value for each in call.args if isinstance(each, ast.Constant)]
                if last in (str(each).lstrip("-").replace("-", "_") for each in names):
                    given = {word.arg: word.value for word in call.keywords}
                    action, default = given.get("action"), given.get("default")
                    stored = isinstance(action, ast.Constant) and action.value == "store_true"
                    off = isinstance(default, ast.Constant) and default.value is False
                    return (stored and default is None) or off
        if not isinstance(flag, ast.Name):
            return False
        function = script.function_around(flag)
        if not isinstance(function, FUNCTIONS):
            return False
        named = next((each for each in parameters(function) if each.arg == last), None)
        if named is None or any(True for _ in self._values.passed(script, named)):
            return False
        default = default_of(function, named)
        return isinstance(default, ast.Constant) and default.value is False


_SELDOM = re.compile(
    r"(?:log|print|disp|report|eval|val|vis|plot|save|ckpt|checkpoint|sample|summary|wandb|tb|record"
    r"|tensorboard|profile|debug|verbose)\w*_?(?:every|freq|interval|period|step|now|due|iters?)"
    r"|(?:every|should|do|need|must|time_to|is_time|maybe)_\w*(?:log|print|eval|val|save|ckpt"
    r"|checkpoint|report|sample)"
    r"|(?:^|_)(?:debug|verbose|first|last|dry_run|is_last|is_first|end_of_epoch|last_batch|done"
    r"|dones|terminated|truncated|overflow)(?:$|_)"
    r"|update_(?:freq|interval)"
    r"|^(?:is_|do_)?(?:eval(?:uat(?:e|ing|ion))?|val(?:id(?:at(?:e|ing|ion))?)?|testing)(?:_|$)"
)
_WELL_KNOWN = frozenset(
    {"torch", "numpy", "math", "random", "time", "os", "sys", "json", "tqdm", "logging", "wandb",
     "builtins", "copy", "collections", "itertools", "functools", "contextlib", "torch_xla",
     "accelerate", "tensorflow", "keras", "warnings", "datetime", "gc", "re", "einops", "sklearn",
     "matplotlib", "pathlib", "mlflow", "argparse", "torchvision", "pandas", "torch_neuronx",
     "lightning", "apex", "PIL", "cv2", "tensorboardX", "compilegate"}
)  # fmt: skip


def is_backward(script: Script, call: ast.Call) -> bool:
    """`loss.backward()`, `accelerator.backward(loss)`, `self.manual_backward(loss)`, a tape's."""
    if not isinstance(call.func, ast.Attribute):
        return False
    last, owner = call.func.attr, call.func.value
    if last in ("backward", "manual_backward"):
        return not (call.args and isinstance(call.args[0], ast.Name) and call.args[0].id == "ctx")
    if last == "gradient" and isinstance(owner, ast.Name):
        opened = [each.node for each in script.bindings(owner.id, owner)]
        return any("GradientTape" in ast.unparse(each) for each in opened)
    return last == "train_on_batch"


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _counts(node: ast.AST) -> bool:
    """Whether it is a remainder: `step % 100`."""
    text = isinstance(node, ast.BinOp) and isinstance(node.left, ast.Constant)
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and not text


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether a body ends the loop or the program, so that it runs once at most."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.Raise | ast.Break | ast.Return):
        return not (isinstance(last, ast.Return) and last.value is not None)
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return ast.unparse(last.value.func) in ("sys.exit", "exit", "quit", "os._exit", "os.abort")
    return False


def _evaluates(name: str) -> bool:
    return name.lower().startswith(("eval", "valid", "test", "estimate", "infer", "predict"))


def _hands_out(function: ast.AST) -> bool:
    return any(isinstance(each, ast.Yield | ast.YieldFrom) for each in own_nodes(function))


def _loop_or_function(script: Script, node: ast.AST) -> Loop | Function | None:
    """The innermost loop or function around a node; not a loop that only updates optimizers."""
    for outer in script.ancestors(node):
        if isinstance(outer, FUNCTIONS):
            return outer
        if isinstance(outer, LOOPS) and not _over_parts(outer):
            return outer
        if isinstance(outer, ast.ClassDef):
            return None
    return None


def _over_parts(loop: Loop) -> bool:
    """Whether a loop goes over optimizers, losses, parameters: `for o in optimizers: o.step()`."""
    over = "" if isinstance(loop, ast.While) else ast.unparse(loop.iter).lower()
    return bool(
        re.search(r"optimi[sz]ers|\bopts\b|losses|scalers|\bparam(?:eter|_group)?s\b", over)
    )


def _may_be_a_step(script: Script, function: Function) -> bool:
    """Not a method of an optimizer or of an operation: their `step` and `backward`."""
    own = isinstance(script.parent(function), ast.ClassDef)
    return function.name != "backward" and not (own and function.name == "step")


# What a compiler is given.


@dataclass(eq=False)
class Compiled:
    """One use of `torch.compile`: a call, a decorator, or `module.compile()`."""

    script: Script
    node: ast.expr
    """The call, or a decorator without one."""

    target: ast.expr | Function | ast.ClassDef
    """What is compiled."""

    options: dict[str, ast.expr]
    sort: str
    """`call`, `decorator`, or `in place` for `module.compile()`, which returns nothing."""

    functions: list[Defined] = field(default_factory=list)
    """The functions of the files in the compiled region."""

    def says(self, option: str, value: object) -> bool:
        """Whether an option is written with this value."""
        given = self.options.get(option)
        return isinstance(given, ast.Constant) and given.value == value


COMPILERS = frozenset({"torch.compile", "compilegate.job.compile"})
_OUTSIDE = frozenset({"torch.compiler.disable", "torch.compiler.allow_in_graph", "torch.jit.ignore",
                      "torch._dynamo.disallow_in_graph", "torch.jit.unused"})  # fmt: skip


class Regions:
    """Every use of torch.compile, and the functions inside the compiled regions."""

    def __init__(self, project: Project, values: Values, steps: Steps) -> None:
        self._values, self._steps = values, steps
        self._inside: dict[ast.AST, Compiled] = {}
        self.found = [each for script in project.scripts for each in self._uses(script)]
        for compiled in self.found:
            compiled.functions = list(self._reached(self._roots(compiled)))
            for defined in compiled.functions:
                self._inside.setdefault(defined.node, compiled)

    def around(self, script: Script, node: ast.AST) -> Compiled | None:
        """The use of torch.compile whose region a node is in."""
        inner = node
        for outer in script.ancestors(node):
            if outer in self._inside:
                decorators = getattr(outer, "decorator_list", ())
                return None if inner in decorators else self._inside[outer]
            if isinstance(outer, ast.ClassDef):
                return None
            inner = outer
        return None

    def _uses(self, script: Script) -> Iterator[Compiled]:
        decorators: set[ast.AST] = set()
        for owner in (*script.functions, *script.classes):
            for decorator in owner.decorator_list:
                call = decorator if isinstance(decorator, ast.Call) else None
                name = script.called(call) if call is not None else script.name(decorator)
                if call is not None and name == "functools.partial" and call.args:
                    name = script.name(call.args[0])
                if name in COMPILERS:
                    decorators.add(decorator)
                    options = _options(call) if call is not None else {}
                    yield Compiled(script, decorator, owner, options, "decorator")
        for call in script.calls_by_last.get("compile", ()):
            if call in decorators:
                continue
            if script.called(call) in COMPILERS:
                outer = script.parent(call)
                target = call.args[0] if call.args else _options(call).get("model")
                if target is None and isinstance(outer, ast.Call) and outer.func is call:
                    target = outer.args[0] if outer.args else None  # torch.compile(mode=...)(model)
                if target is not None:
                    yield Compiled(script, call, target, _options(call), "call")
            elif isinstance(call.func, ast.Attribute) and self._in_place(script, call, call.func):
                yield Compiled(script, call, call.func.value, _options(call), "in place")

    def _in_place(self, script: Script, call: ast.Call, func: ast.Attribute) -> bool:
        """`module.compile(mode=...)`; not Keras's, which takes an optimizer or a loss."""
        given = {word.arg for word in call.keywords}
        known = {"mode", "backend", "fullgraph", "dynamic", "options", "disable"}
        keras = script.uses("keras", "tensorflow")
        if not script.uses("torch") or keras or call.args or not given <= known:
            return False
        return not script.called(call) and self._values.kind(script, func.value) is Kind.MODEL

    def _roots(self, compiled: Compiled) -> list[Defined]:
        script, target = compiled.script, compiled.target
        if isinstance(target, FUNCTIONS):
            return [Defined(script, target)]
        if isinstance(target, ast.ClassDef):
            return self._forward(Defined(script, target))
        defined = script.definition(target)
        if defined is not None and not defined.is_class:
            return [defined]
        if isinstance(target, ast.Attribute):  # torch.compile(model.forward)
            owner = self._values.class_of(script, target.value)
            method = None if owner is None else owner.method(target.attr)
            if method is not None:
                return [method]
        owner = defined if defined is not None else self._values.class_of(script, target)
        return self._forward(owner) if owner is not None else []

    def _forward(self, owner: Defined) -> list[Defined]:
        method = owner.method("forward")
        return [method] if method is not None else []

    def _reached(self, roots: list[Defined]) -> Iterator[Defined]:
        """The functions that a compiled one runs, and the forwards of the modules it is made of."""
        seen: set[ast.AST] = set()
        pending = list(roots)
        while pending:
            defined = pending.pop()
            decorators = getattr(defined.node, "decorator_list", ())
            outside = {
                defined.script.name(each.func if isinstance(each, ast.Call) else each)
                for each in decorators
            }
            if defined.node in seen or defined.is_class or outside & _OUTSIDE:
                continue
            seen.add(defined.node)
            yield defined
            for node in ast.walk(defined.node):
                if isinstance(node, ast.Call):
                    pending += self._steps.called(defined.script, node)
            owner = defined.script.class_around(defined.node)
            if owner is not None and defined.name == "forward":
                made = Defined(defined.script, owner).method("__init__")
                for node in ast.walk(made.node) if made is not None else ():
                    part = (
                        defined.script.definition(node.func) if isinstance(node, ast.Call) else None
                    )
                    if part is not None and part.is_class:
                        pending += self._forward(part)


def _options(call: ast.Call) -> dict[str, ast.expr]:
    return {word.arg: word.value for word in call.keywords if word.arg}


# What feeds the loops that train.


def feeding(project: Project, values: Values, steps: list[Step]) -> frozenset[ast.AST]:
    """The calls that make what the loops that train go over, in any script of the check."""
    found: set[ast.AST] = set()
    for step in steps:
        script, node = step.script, step.node
        over: list[ast.expr] = []
        if isinstance(node, ast.For | ast.AsyncFor):
            over.append(node.iter)
        if isinstance(node, LOOPS):  # `batch = next(batches)` within the loop
            calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
            over += [each.args[0] for each in calls if last_name(each.func) == "next" and each.args]
        if isinstance(node, ast.Call):
            over += _to_train_on(node)
        for each in over:
            found |= {origin.node for origin in _sources(values, Origin(script, each), 0)}
    for script in project.scripts:
        for function in script.functions:
            if function.name in ("train_dataloader", "get_train_dataloader"):
                found |= {each for each in ast.walk(function) if isinstance(each, ast.Call)}
        trains = {script.function_around(each.node) for each in steps if each.script is script}
        trains.discard(None)
        for call in script.calls:  # `train(model, loader)` of a package, `run(train_loop, loader)`
            last = last_name(call.func).lower()
            given = {each.node for each in map(script.definition, call.args) if each is not None}
            ignite = last == "run" and script.uses("ignite") and "train" in ast.unparse(call.func)
            elsewhere = last.startswith(("train", "fit_")) and script.definition(call.func) is None
            if ignite or elsewhere or given & trains:
                for each in _to_train_on(call):
                    found |= {origin.node for origin in values.origins(script, each)}
    return frozenset(found)


def _sources(values: Values, here: Origin, depth: int) -> Iterator[Origin]:
    """What a loop goes over, without what only counts, hands on or shows progress."""
    script, over = here.script, here.node
    if not isinstance(over, ast.expr) or depth > 8:
        return
    for origin in values.origins(script, over, here.path):
        yield origin
        inner = origin.node
        if isinstance(inner, ast.Call):
            prepared = last_name(inner.func) in HANDS_BACK and origin.path
            arguments = inner.args
            if prepared and origin.path[0] < len(inner.args):
                arguments = [inner.args[origin.path[0]]]
            generator = origin.script.definition(inner.func)
            if generator is not None and not generator.is_class:
                loops = (each for each in own_nodes(generator.node) if isinstance(each, ast.For))
                for loop in loops:
                    yield from _sources(values, Origin(generator.script, loop.iter), depth + 1)
            elif not _OTHER_USE.search(last_name(inner.func)):
                for each in arguments:
                    yield from _sources(values, Origin(origin.script, each), depth + 1)
            if isinstance(inner.func, ast.Attribute) and last_name(inner.func) in (
                "__iter__",
                "_get",
            ):
                yield from _sources(values, Origin(origin.script, inner.func.value), depth + 1)
        elif isinstance(inner, ast.Subscript):
            yield from _sources(values, Origin(origin.script, inner.value), depth + 1)
        elif isinstance(inner, ast.Dict):
            for key, value in zip(inner.keys, inner.values, strict=True):
                if key is None or not _OTHER_USE.search(ast.unparse(key).lower()):
                    yield from _sources(values, Origin(origin.script, value), depth + 1)


def _to_train_on(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call without those that are named for another use."""
    given = [(ast.unparse(each), each) for each in call.args]
    given += [(f"{word.arg} {ast.unparse(word.value)}", word.value) for word in call.keywords]
    return [each for text, each in given if not _OTHER_USE.search(text.lower())]


_OTHER_USE = re.compile(r"(?:^|[^a-z])(?:val|valid|validation|test|eval|dev)(?![a-z])")
