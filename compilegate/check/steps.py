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
    calls_in,
    is_constant,
    keyword,
    last_name,
    owner_of,
    parameters,
)
from compilegate.check.values import (
    HANDS_BACK,
    Kind,
    Provenance,
    Values,
    class_kind,
    default_of,
    handed_back,
    own_nodes,
)

Called = tuple[Script, ast.Call]


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

    sort: str  # `loop`, `method`, `call` or `function`

    @property
    def body(self) -> list[ast.stmt]:
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
        calls = self._project.calls
        gradients = calls("backward", "manual_backward", "gradient", "train_on_batch", "run")
        updates = calls("step", "optimizer_step", "apply_gradients", "minimize")
        pending = [(*each, False) for each in updates if self.is_update(*each)]
        pending += [(*each, True) for each in gradients if is_backward(*each)]
        reached: set[tuple[ast.AST, bool]] = set()
        while pending:
            script, call, backward = pending.pop()
            around = _loop_or_function(script, call)
            if isinstance(around, LOOPS):
                loops.setdefault(around, Step(script, around, "loop"))
            elif around is not None and (backward or not _follows_a_loop(script, around, call)):
                callers = self._callers(script, around)
                method = isinstance(script.parent(around), ast.ClassDef)
                # Not the `step` of an optimizer, nor the `backward` of an operation.
                own = around.name == "backward" or (method and around.name == "step")
                if not callers and backward and not own:
                    engine = self._is_given(script, around, "Engine")  # Ignite's, with a loop
                    sort = "loop" if engine else "function"
                    roots.setdefault(around, Step(script, around, sort))
                if (around, backward) not in reached:
                    reached.add((around, backward))
                    pending += [(*caller, backward) for caller in callers]
        for script, call in calls("zero_grad"):  # a helper does the rest
            loop = self._clearing(script, call, loops)
            if loop is not None:
                loops[loop] = Step(script, loop, "loop")
        for script in self._project.scripts:
            yield from (loops[loop] for loop in script.loops if loop in loops)
            yield from self._framework_methods(script)
            yield from (roots[each] for each in script.functions if each in roots)
            for name in ("train", "fit", "fit_generator"):
                for call in script.calls_by_last.get(name, ()):
                    if self._runs_a_loop(script, call):
                        yield Step(script, call, "call")

    def _clearing(
        self, script: Script, call: ast.Call, known: dict[ast.AST, Step]
    ) -> ast.For | None:
        """The loop over batches around `optimizer.zero_grad()` that holds no other that trains."""
        loop, owner = _loop_or_function(script, call), owner_of(call)
        if not isinstance(loop, ast.For) or owner is None or "range(" in ast.unparse(loop.iter):
            return None
        if self._values.kind(script, owner) is not Kind.OPTIMIZER:
            return None
        called = [found.node for each in calls_in(loop) for found in self.called(script, each)]
        inside = (each for outer in (loop, *called) for each in ast.walk(outer))
        return None if any(each in known for each in inside) else loop

    def is_update(self, script: Script, call: ast.Call) -> bool:
        """`optimizer.step()`, `scaler.step(optimizer)`, `xm.optimizer_step(optimizer)`."""
        last, owner = last_name(call.func), owner_of(call)
        if last == "optimizer_step" or script.called(call) == "compilegate.job.step":
            return True
        if owner is None:
            return False
        if last == "apply_gradients":
            return not script.uses("flax", "jax")  # XLA compiles a state of JAX anyhow
        kinds = (Kind.OPTIMIZER, Kind.SCALER)
        runs = last in ("step", "minimize")
        return runs and self._values.kind(script, owner) in kinds

    def _callers(self, script: Script, function: Function) -> list[Called]:
        """What runs a function: calls in the files, or the place where it is handed on."""
        found, calls = self._values.calls_of(script, function), self._project.calls
        only = len(self._project.methods.get(function.name, ())) == 1
        method = isinstance(script.parent(function), ast.ClassDef)
        if not found and method and only and function.name not in ("step", "backward", "forward"):
            found = [each for each in calls(function.name) if owner_of(each[1]) is not None]
        return found or self._is_given(script, function, *_RUNS)

    def _is_given(self, script: Script, function: Function, *names: str) -> list[Called]:
        """The calls of such names that take a function: `optimizer.step(closure)`."""
        wanted, found = Defined(script, function), self._project.calls(*names)
        return [(place, x) for place, x in found if wanted in map(place.definition, x.args)]

    def _framework_methods(self, script: Script) -> Iterator[Step]:
        for owner in script.classes:
            last = {each.rsplit(".", 1)[-1] for each in Defined(script, owner).bases()}
            names = {name for base in last for name in _METHODS.get(base, ())}
            methods = {each.name: each for each in owner.body if isinstance(each, FUNCTIONS)}
            if {"training_step", "configure_optimizers"} <= methods.keys():
                names.add("training_step")
            yield from (Step(script, methods[x], "method") for x in methods if x in names)

    def _runs_a_loop(self, script: Script, call: ast.Call) -> bool:
        """`trainer.train()`, `trainer.fit(model)`, `model.fit(data)` of Keras."""
        owner = owner_of(call)
        if owner is None:
            return False
        if self._values.method_of(script, call.func) is not None:
            return False  # of a class of the files: its own loop is found
        made = self._values.source_calls(script, owner)
        if any(place.called(each).endswith(("Trainer", "Learner")) for place, each in made):
            return True
        text = ast.unparse(owner).lower()
        if last_name(call.func) == "train":
            return script.definition(call.func) is None and "trainer" in text
        keras = script.uses("keras", "tensorflow", "tf_keras")
        model = keras and self._values.kind(script, owner) is Kind.MODEL
        return model or bool(re.search(r"trainer|learn(?:er)?$", text))

    # Marking.

    def _mark(self, script: Script, body: Iterable[ast.stmt], often: Often) -> None:
        for statement in body:
            if self.marks.get(statement, 0) >= often:
                continue
            self.marks[statement] = often
            if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
                continue  # it is made here; what runs it is followed
            for part in ast.iter_child_nodes(statement):
                if isinstance(part, ast.ExceptHandler | ast.match_case):
                    rare = isinstance(part, ast.ExceptHandler)
                    self._mark(script, part.body, Often.SELDOM if rare else often)
                elif not isinstance(part, ast.stmt):
                    self._follow(script, part, often)
            seldom, other = False, isinstance(statement, LOOPS)
            if isinstance(statement, ast.If):
                seldom, other = self._split(script, statement)
            self._mark(script, getattr(statement, "body", ()), Often.SELDOM if seldom else often)
            self._mark(script, getattr(statement, "orelse", ()), Often.SELDOM if other else often)
            self._mark(script, getattr(statement, "finalbody", ()), often)
            match statement:
                case ast.If(test=test, body=[*_, ast.Continue()]):
                    if any(_counts(each) for each in ast.walk(test)):
                        often = Often.SELDOM  # `if step % 2: continue`

    def _follow(self, script: Script, expression: ast.AST, often: Often) -> None:
        """Mark what is called of the files."""
        made = isinstance(expression, ast.Lambda)  # here it is made; what runs it is followed
        for node in () if made else (expression, *own_nodes(expression)):
            called = self.called(script, node) if isinstance(node, ast.Call) else []
            if isinstance(node, ast.Call) and not called and often is Often.EACH_STEP:
                self._note(script, node)
            for each in called:
                if not each.is_class:
                    self.followed.setdefault(each)
                    rare = _EVALUATES.match(each.name)
                    self._run(each, Often.SELDOM if rare else often)

    def _run(self, defined: Defined, often: Often) -> None:
        """Mark a function; of a generator the loops, which turn once a step."""
        script, function = defined.script, defined.node
        inside = list(own_nodes(function))
        if isinstance(function, ast.Lambda):
            if self.marks.get(function, 0) < often:
                self.marks[function] = often
                self._follow(script, function.body, often)
        elif any(isinstance(each, ast.Yield | ast.YieldFrom) for each in inside):
            for loop in inside:
                if isinstance(loop, LOOPS):
                    self._mark(script, loop.body, often)
        else:
            self._mark(script, function.body, often)

    def called(self, script: Script, call: ast.Call) -> list[Defined]:
        """The functions of the files that a call runs: by name, as a method, as a forward."""
        defined, last = script.definition(call.func), last_name(call.func)
        methods = self._values.methods_of(script, call.func)
        found = [defined] if defined is not None else list(methods)
        if last in (*_RUNS, "next", "iter"):
            for argument in call.args:  # `optimizer.step(closure)`, `next(batches)`
                made = self._values.source_calls(script, argument) if last == "next" else []
                given = [script.function(argument), *(x.function(y.func) for x, y in made)]
                found += [each for each in given if each is not None]
        return found

    def _note(self, script: Script, call: ast.Call) -> None:
        """Note a call into what nobody read: another package, or something chosen as it runs."""
        name, func = script.called(call), call.func
        if name.split(".", 1)[0] in _WELL_KNOWN or last_name(func) in ("backward", "step"):
            return
        method = isinstance(func, ast.Attribute) and ast.unparse(func.value) != "self"
        if not method and self._values.kind(script, func) is Kind.MODEL:
            made = self._values.source_calls(script, func)
            if not any(re.search(r"\bnn\.[A-Z]", ast.unparse(each)) for _, each in made):
                self.not_followed.setdefault(ast.unparse(func)[:40])
        elif name and not name.startswith(("./", "builtins.")):
            self.not_followed.setdefault(name[:60])
        elif isinstance(func, ast.Subscript | ast.Call):
            self.not_followed.setdefault(ast.unparse(func)[:40])

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
        for call in calls_in(*body):
            if is_backward(script, call) or self.is_update(script, call):
                return True
            for each in self.called(script, call):
                inside = () if each.is_class else own_nodes(each.node)
                if any(isinstance(x, ast.Call) and is_backward(each.script, x) for x in inside):
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
                if _SELDOM.search(last_name(test)) or self._off_by_default(script, test):
                    return True
                bindings = script.bindings(test.id, test)[1] if isinstance(test, ast.Name) else []
                return bool(bindings) and all(
                    each.kind == "value"
                    and isinstance(each.node, ast.expr)
                    and self._is_seldom(script, each.node, depth + 1)
                    for each in bindings
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
        last, function = last_name(flag), script.function_around(flag)
        for place in self._project.scripts:
            if last in place.options:
                option = place.options[last]
                stored = is_constant(keyword(option, "action"), "store_true")
                default = keyword(option, "default")
                return (stored and default is None) or is_constant(default, False)
        if not isinstance(flag, ast.Name) or not isinstance(function, FUNCTIONS):
            return False
        named = next((each for each in parameters(function) if each.arg == last), None)
        if named is None or any(True for _ in self._values.arguments_for(script, named)):
            return False
        return is_constant(default_of(function, named), False)


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
_EVALUATES = re.compile(r"eval|valid|test|estimate|infer|predict", re.IGNORECASE)
_PARTS = re.compile(r"optimi[sz]ers|\bopts\b|losses|scalers|\bparam(?:eter|_group)?s\b")
_WELL_KNOWN = frozenset(
    {"torch", "numpy", "math", "random", "time", "os", "sys", "json", "tqdm", "logging", "wandb",
     "builtins", "copy", "collections", "itertools", "functools", "contextlib", "torch_xla",
     "accelerate", "tensorflow", "keras", "warnings", "datetime", "gc", "re", "einops", "sklearn",
     "matplotlib", "pathlib", "mlflow", "argparse", "torchvision", "pandas", "torch_neuronx",
     "lightning", "apex", "PIL", "cv2", "tensorboardX", "compilegate"}
)  # fmt: skip


_RUNS = ("step", "optimizer_step", "run", "experimental_run_v2", "checkpoint", "scan")
"""Calls that run a function that they are handed: an optimizer's, a strategy's of TensorFlow."""


def is_backward(script: Script, call: ast.Call) -> bool:
    """`loss.backward()`, `accelerator.backward(loss)`, `self.manual_backward(loss)`, a tape's."""
    last, owner = last_name(call.func), owner_of(call)
    if last in ("backward", "manual_backward"):
        operation = call.args and last_name(call.args[0]) == "ctx"
        return owner is not None and not operation
    if last == "gradient" and isinstance(owner, ast.Name):
        opened = [each.node for each in script.bindings(owner.id, owner)[1]]
        return any("GradientTape" in ast.unparse(each) for each in opened)
    session = last == "run" and owner is not None and "sess" in last_name(owner).lower()
    if session:  # TensorFlow 1: session.run([train_op, loss])
        return bool(re.search(r"train|optim|minimize", ast.unparse(call).lower()))
    return owner is not None and last == "train_on_batch"


def _counts(node: ast.AST) -> bool:
    """Whether it is a remainder: `step % 100`."""
    text = isinstance(node, ast.BinOp) and isinstance(node.left, ast.Constant)
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and not text


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether a body ends the loop or the program, so that it runs once at most."""
    match body[-1:]:
        case [ast.Raise() | ast.Break() | ast.Return(value=None)]:
            return True
        case [ast.Expr(value=ast.Call(func=func))]:
            return ast.unparse(func) in ("sys.exit", "exit", "quit", "os._exit", "os.abort")
    return False


def _loop_or_function(script: Script, node: ast.AST) -> Loop | Function | None:
    """The innermost loop or function around a node; not a loop that only updates optimizers."""
    for outer in script.ancestors(node):
        if isinstance(outer, ast.ClassDef):
            return None
        if isinstance(outer, ast.While | Function):
            return outer
        over = isinstance(outer, ast.For | ast.AsyncFor) and ast.unparse(outer.iter).lower()
        if isinstance(outer, LOOPS) and over and not _PARTS.search(over):
            return outer
    return None


def _follows_a_loop(script: Script, function: Function, update: ast.Call) -> bool:
    """Whether a loop before an update, in the same function, goes backward: then the update
    takes what the last batches left, once for each time that the function is called."""
    loops = [each for each in ast.walk(function) if isinstance(each, LOOPS)]
    before = [each for each in loops if (each.end_lineno or 0) < update.lineno]
    return any(is_backward(script, each) for each in calls_in(*before))


# What a compiler is given.


@dataclass(eq=False)
class Compiled:
    """One use of `torch.compile`: a call, a decorator, or `module.compile()`."""

    script: Script
    node: ast.expr  # the call, or a decorator without one
    target: ast.expr | Function | ast.ClassDef  # what is compiled
    sort: str  # `call`, `decorator`, or `in place` for `module.compile()`, which returns nothing
    functions: list[Defined] = field(default_factory=list)
    """The functions of the files in the compiled region."""

    @property
    def options(self) -> dict[str, ast.expr]:
        words = self.node.keywords if isinstance(self.node, ast.Call) else ()
        return {word.arg: word.value for word in words if word.arg}

    @property
    def result(self) -> ast.expr:
        """What gives back what is compiled: of `torch.compile(mode=...)(model)` the outer call."""
        outer = self.script.parent(self.node)
        given = isinstance(self.node, ast.Call) and not self.node.args
        whole = isinstance(outer, ast.Call) and outer.func is self.node and outer.args
        return outer if given and whole and isinstance(outer, ast.Call) else self.node


COMPILERS = frozenset({"torch.compile", "compilegate.job.compile"})
_OUTSIDE = frozenset({"torch.compiler.disable", "torch.compiler.allow_in_graph", "torch.jit.ignore",
                      "torch._dynamo.disallow_in_graph", "torch.jit.unused"})  # fmt: skip


class Regions:
    """Every use of torch.compile, and the functions inside the compiled regions."""

    def __init__(self, project: Project, values: Values, steps: Steps) -> None:
        self._values, self._steps = values, steps
        self._inside: dict[ast.AST, Compiled] = {}
        self.found = [each for script in project.scripts for each in self._uses(script)]
        self.results: dict[ast.AST, Compiled] = {
            x.result: x for x in self.found if x.sort == "call"
        }
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
                name = script.name(decorator if call is None else call.func)
                if call is not None and name == "functools.partial" and call.args:
                    name = script.name(call.args[0])
                if name in COMPILERS:
                    decorators.add(decorator)
                    yield Compiled(script, decorator, owner, "decorator")
        for call in script.calls_by_last.get("compile", ()):
            if call in decorators:
                continue
            if script.called(call) in COMPILERS:
                outer = script.parent(call)
                target = call.args[0] if call.args else keyword(call, "model")
                if target is None and isinstance(outer, ast.Call) and outer.func is call:
                    target = outer.args[0] if outer.args else None  # torch.compile(mode=...)(model)
                if target is not None:
                    yield Compiled(script, call, target, "call")
            elif self._in_place(script, call) and isinstance(call.func, ast.Attribute):
                yield Compiled(script, call, call.func.value, "in place")

    def _in_place(self, script: Script, call: ast.Call) -> bool:
        """`module.compile(mode=...)`; not Keras's, which takes an optimizer or a loss."""
        owner, given = owner_of(call), {word.arg for word in call.keywords}
        known = {"mode", "backend", "fullgraph", "dynamic", "options", "disable"}
        keras = script.uses("keras", "tensorflow") or not script.uses("torch")
        if owner is None or keras or call.args or script.called(call) or not given <= known:
            return False
        own = self._values.class_of(script, owner)
        itself = own is not None and class_kind(own) is Kind.MODEL  # self.compile()
        return itself or self._values.kind(script, owner) is Kind.MODEL

    def _roots(self, compiled: Compiled) -> Iterator[Defined]:
        script, target = compiled.script, compiled.target
        if isinstance(target, (*FUNCTIONS, ast.ClassDef)):
            found: Defined | None = Defined(script, target)
        else:
            found = script.definition(target)
            if found is None and isinstance(target, ast.Attribute):  # torch.compile(model.forward)
                owner = self._values.class_of(script, target.value)
                found = None if owner is None else owner.method(target.attr)
            found = found or self._values.class_of(script, target)
        root = found.method("forward") if found is not None and found.is_class else found
        if root is not None:
            yield root

    def _reached(self, roots: Iterable[Defined]) -> Iterator[Defined]:
        """The functions that a compiled one runs, and the forwards of the modules it is made of."""
        seen: set[ast.AST] = set()
        pending = list(roots)
        while pending:
            defined = pending.pop()
            script, node = defined.script, defined.node
            decorators = getattr(node, "decorator_list", ())
            names = {script.name(x.func if isinstance(x, ast.Call) else x) for x in decorators}
            if node in seen or defined.is_class or names & _OUTSIDE:
                continue
            seen.add(node)
            yield defined
            for call in calls_in(node):
                pending += self._steps.called(script, call)
            owner = script.around(node, ast.ClassDef) if defined.name == "forward" else None
            made = None if owner is None else Defined(script, owner).method("__init__")
            for call in () if made is None else calls_in(made.node):
                part = script.definition(call.func)
                forward = None if part is None else part.method("forward")
                pending += [] if forward is None else [forward]


# What feeds the loops that train.


def feeding(project: Project, values: Values, steps: list[Step]) -> frozenset[ast.AST]:
    """The calls that make what the loops that train go over, in any script of the check."""
    found: set[ast.AST] = set()
    for step in steps:
        script, node = step.script, step.node
        over = _to_train_on(node) if isinstance(node, ast.Call) else []
        if isinstance(node, ast.For | ast.AsyncFor):
            over.append(node.iter)
        if isinstance(node, LOOPS):  # `batch = next(batches)` within the loop
            nexts = [each for each in calls_in(node) if last_name(each.func) == "next"]
            over += [argument for each in nexts for argument in each.args[:1]]
        for each in over:
            found |= {origin.node for origin in values.through(Provenance(script, each), _made_of)}
    for script in project.scripts:
        loaders = ("train_dataloader", "get_train_dataloader")
        found |= set(calls_in(*(each for each in script.functions if each.name in loaders)))
        trains = {script.function_around(each.node) for each in steps if each.script is script}
        trains.discard(None)
        for call in script.calls:  # `train(model, loader)` of a package, `run(train_loop, loader)`
            last = last_name(call.func).lower()
            given = {each.node for each in map(script.definition, call.args) if each is not None}
            ignite = last == "run" and script.uses("ignite") and "train" in ast.unparse(call.func)
            of_package = last.startswith(("train", "fit_")) and script.definition(call.func) is None
            if ignite or of_package or given & trains:
                for each in _to_train_on(call):
                    found |= {origin.node for origin in values.origins(script, each)}
    return frozenset(found)


def _made_of(origin: Provenance) -> Iterator[Provenance]:
    """What a loop goes over, without what only counts, hands on or shows progress."""
    script, node = origin.script, origin.node
    further: list[ast.expr] = []
    if isinstance(node, ast.Call):
        last, owner, generator = last_name(node.func), owner_of(node), script.function(node.func)
        handed = handed_back(node, origin.path) if origin.path and last in HANDS_BACK else None
        if generator is not None:
            for loop in own_nodes(generator.node):
                if isinstance(loop, ast.For):
                    yield Provenance(generator.script, loop.iter)
        elif not _OTHER_USE.search(last):
            further += node.args if handed is None else [handed]
        if owner is not None and last in ("__iter__", "per_device_loader"):
            further.append(owner)
    elif isinstance(node, ast.Subscript):
        further.append(node.value)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None or not _OTHER_USE.search(ast.unparse(key).lower()):
                further.append(value)
    yield from (Provenance(script, each) for each in further)


def _to_train_on(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call without those that are named for another use."""
    given = [(ast.unparse(each), each) for each in call.args]
    given += [(f"{word.arg} {ast.unparse(word.value)}", word.value) for word in call.keywords]
    return [each for text, each in given if not _OTHER_USE.search(text.lower())]


_OTHER_USE = re.compile(r"(?:^|[^a-z])(?:val|valid|validation|test|eval|dev)(?![a-z])")
