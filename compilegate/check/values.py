"""What an expression is: a tensor, a batch, a number of the host, a model, an optimizer, a loader.

It is read from where the value comes from: the assignments that reach it, what calls in the files
pass for a parameter, what functions of the files return, the attributes of `self`. Only where that
leaves it open does a usual name such as `model` decide. In doubt an expression is nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from compilegate.check.names import (
    FUNCTIONS,
    Binding,
    Defined,
    FunctionNode,
    Script,
    last_name,
    owner_of,
    parameters,
)

Value = tuple[Script, ast.expr]
Bound = list[tuple[Script, Binding]]

_DEEPEST = 60
_MOST_CALLERS = 12
_MOST_ORIGINS = 24


class Kind(StrEnum):
    """What a value is."""

    UNKNOWN = ""
    START = "start"  # a constant, such as one to which tensors are added later
    HOST = "host"  # a number, text, array or tensor of the host
    BATCH = "batch"  # what a loader hands out, before it is on a device
    TENSOR = "tensor"  # a tensor of the device, or a container of such
    MODEL = "model"
    OPTIMIZER = "optimizer"
    SCALER = "scaler"
    LOADER = "loader"
    DEVICE_LOADER = "device loader"  # a loader whose batches are on the device


@dataclass(frozen=True)
class Provenance:
    """An expression that a value may come from."""

    script: Script
    node: ast.AST  # an expression; or a parameter for which no call in the files passes anything
    path: tuple[int, ...] = ()  # which part of it, where tuples are unpacked
    element: bool = False  # whether the value is one of what a loop over the expression hands out


class Values:
    """The kinds and origins of expressions in the scripts of one check."""

    def __init__(self) -> None:
        self._kinds: dict[Provenance, Kind] = {}
        self._origins: dict[Provenance, list[Provenance]] = {}
        self._classes: dict[ast.expr, list[Defined]] = {}
        self._callers: dict[ast.AST, list[tuple[Script, ast.Call]]] = {}
        self._depth = 0

    # Where values come from.

    def origins(
        self, script: Script, node: ast.expr, path: tuple[int, ...] = ()
    ) -> list[Provenance]:
        """Origins of a value, followed over names, attributes, arguments and results."""
        key = Provenance(script, node, path)
        if key not in self._origins:
            if self._depth > _DEEPEST:
                return [key]  # not stored: a shorter way may lead through it
            self._origins[key] = []  # stands meanwhile, so that a circle ends
            self._depth += 1
            self._origins[key] = list(dict.fromkeys(self._trace(key)))[:_MOST_ORIGINS]
            self._depth -= 1
        return self._origins[key]

    def source_calls(self, script: Script, node: ast.expr) -> list[tuple[Script, ast.Call]]:
        """The calls that a value may come from."""
        found = self.origins(script, node)
        return [(each.script, each.node) for each in found if isinstance(each.node, ast.Call)]

    def through(
        self, here: Provenance, inner: Callable[[Provenance], Iterable[Provenance]]
    ) -> list[Provenance]:
        """Origins of a value, and of what `inner` names for each of them."""
        found: dict[Provenance, None] = {}
        pending = [here]
        while pending:
            each = pending.pop(0)
            if isinstance(each.node, ast.expr):
                for origin in self.origins(each.script, each.node, each.path):
                    if origin not in found:
                        found[origin] = None
                        pending += inner(origin)
        return list(found)

    def _trace(self, here: Provenance) -> Iterator[Provenance]:
        script, node, path = here.script, here.node, here.path
        further: list[tuple[Script, ast.expr, tuple[int, ...]]] = []
        match node:
            case ast.Name() | ast.Attribute():
                bound = self._bindings(script, node)
                for place, each in bound:
                    yield from self._bound(place, each, path)
                if bound:
                    return
            case ast.IfExp():
                further = [(script, node.body, path), (script, node.orelse, path)]
            case ast.BoolOp():
                further = [(script, each, path) for each in node.values]
            case ast.Tuple() | ast.List() if path:
                further = [(script, each, path[1:]) for each in node.elts[path[0] :][:1]]
                if not further:
                    return

            case ast.Call():
                further = [(*each, path) for each in self._returned(script, node)]
        for each in further:
            yield from self.origins(*each)
        if not further:
            yield here

    def _bindings(self, script: Script, node: ast.Name | ast.Attribute) -> Bound:
        """What a name may stand for; what methods of its class set an attribute to."""
        if isinstance(node, ast.Name):
            return [(script, each) for each in script.reaching(node)]
        owner = self.class_of(script, node.value)
        for place, base in owner.lineage() if owner is not None else ():
            scope = place.scopes[base]
            others = [x for x in scope.names.get(node.attr, ()) if x.kind != "definition"]
            found = scope.attributes.get(node.attr) or others
            if found:
                return [(place, each) for each in found]
        return []

    def _bound(self, script: Script, bound: Binding, path: tuple[int, ...]) -> Iterator[Provenance]:
        value, path = bound.node, (*bound.path, *path)
        if bound.kind in ("value", "change") and isinstance(value, ast.expr):
            yield from self.origins(script, value, path)
        elif bound.kind == "element" and isinstance(value, ast.expr):
            yield Provenance(script, value, path, element=True)
        elif bound.kind == "parameter" and isinstance(value, ast.arg):
            passed = list(self.arguments_for(script, value))
            for place, given in passed:
                yield from self.origins(place, given, path)
            if not passed:
                yield Provenance(script, value, path)
        elif bound.kind == "import":
            own = script.project.lookup(script, bound.target)
            for there in own[0].module.names.get(own[1], ()) if own is not None else ():
                if own is not None and there.kind != "import":
                    yield from self._bound(own[0], there, path)

    def _returned(self, script: Script, call: ast.Call) -> Iterator[Value]:
        defined = script.definition(call.func) or self.method_of(script, call.func)
        if defined is not None and isinstance(defined.node, ast.Lambda):
            yield defined.script, defined.node.body
        elif defined is not None and not defined.is_class:
            for each in own_nodes(defined.node):
                if isinstance(each, ast.Return) and each.value is not None:
                    yield defined.script, each.value

    def arguments_for(self, script: Script, parameter: ast.arg) -> Iterator[Value]:
        """The arguments that calls within the files pass for a parameter."""
        function = script.function_around(parameter)
        if function is None:
            return
        names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        owner = script.parent(function)
        offset = int(isinstance(owner, ast.ClassDef) and names[:1] in (["self"], ["cls"]))
        for place, call in self.calls_of(script, function)[:_MOST_CALLERS]:
            named = [word.value for word in call.keywords if word.arg == parameter.arg]
            yield from ((place, value) for value in named)
            if named or parameter.arg not in names:
                continue
            index = names.index(parameter.arg) - offset
            before = call.args[: index + 1]
            if 0 <= index < len(before) and not any(isinstance(x, ast.Starred) for x in before):
                yield place, call.args[index]

    def calls_of(self, script: Script, function: FunctionNode) -> list[tuple[Script, ast.Call]]:
        """The calls within the files that run a function: by name, as a method, as a forward."""
        callers, owner = script.project.callers, script.parent(function)
        by_name = callers.get(function, [])
        if isinstance(function, ast.Lambda) or not isinstance(owner, ast.ClassDef):
            return by_name
        if function.name == "__init__":
            return [*by_name, *callers.get(owner, ())]
        if function not in self._callers:
            found, known = list(by_name), {call for _, call in by_name}
            for place in script.project.scripts:
                calls = place.calls_by_last.get(function.name, [])
                if function.name in ("forward", "__call__", "call"):
                    calls = calls + place.calls_by_name.get("", [])
                for call in calls:
                    method = None if call in known else self.method_of(place, call.func)
                    if method is not None and method.node is function:
                        found.append((place, call))
            self._callers[function] = found
        return self._callers[function]

    # Classes.

    def class_of(self, script: Script, node: ast.expr) -> Defined | None:
        """The class of the files that a value is an instance of."""
        return next(iter(self.classes_of(script, node)), None)

    def classes_of(self, script: Script, node: ast.expr) -> list[Defined]:
        """All classes of the files that a value may be an instance of."""
        if node not in self._classes:
            self._classes[node] = []  # stands meanwhile, so that a circle ends
            around = script.around(node, ast.ClassDef)
            if isinstance(node, ast.Name) and node.id in ("self", "cls") and around is not None:
                every: list[Defined | None] = [Defined(script, around)]
            else:
                every = [self._class_of_origin(x, node) for x in self.origins(script, node)]
            self._classes[node] = list(dict.fromkeys(each for each in every if each is not None))
        return self._classes[node]

    def _class_of_origin(self, origin: Provenance, expression: ast.expr) -> Defined | None:
        script, node = origin.script, origin.node
        match node:
            case ast.arg() if node.annotation is not None:
                annotated = script.definition(node.annotation)
                return annotated if annotated is not None and annotated.is_class else None
            case ast.List() | ast.Tuple() if node.elts and (
                origin.element or node is not expression
            ):
                return self.class_of(script, node.elts[0])
            case ast.ListComp(elt=inner) | ast.Subscript(value=inner):
                return self.class_of(script, inner)
            case ast.Attribute() if node.attr in ("module", "_orig_mod", "model"):
                return self.class_of(script, node.value)
            case ast.Name() | ast.Attribute() if origin.element and node is not expression:
                return self.class_of(script, node)
            case ast.Call():
                return self._class_of_call(script, node, origin.path)
        return None

    def _class_of_call(
        self, script: Script, node: ast.Call, path: tuple[int, ...]
    ) -> Defined | None:
        defined, func = script.definition(node.func), node.func
        if defined is not None:
            return defined if defined.is_class else None
        if isinstance(func, ast.Attribute):
            owner = script.definition(func.value)
            if owner is not None and owner.is_class:  # Net.from_pretrained(...)
                return owner
            if func.attr in ("to", "cuda", *_SAME_MODEL):
                return self.class_of(script, func.value)
        inner = func.func if isinstance(func, ast.Call) else func
        wraps = script.name(inner) in WRAPPERS or last_name(func) in HANDS_BACK
        given = handed_back(node, path) if wraps else None
        return None if given is None else self.class_of(script, given)

    def method_of(self, script: Script, called: ast.expr) -> Defined | None:
        """The method of a class of the files that `value.method` or `value(...)` runs."""
        return next(self.methods_of(script, called), None)

    def methods_of(self, script: Script, called: ast.expr) -> Iterator[Defined]:
        """The same for all classes that the value may be an instance of."""
        owners = self.classes_of(script, called.value) if isinstance(called, ast.Attribute) else []
        methods = [owner.method(last_name(called)) for owner in owners]
        yield from (each for each in methods if each is not None)
        if not any(methods) and script.definition(called) is None:
            for owner in self.classes_of(script, called):
                runs = (owner.method(name) for name in ("forward", "__call__", "call"))
                yield from [each for each in runs if each is not None][:1]

    # What values are.

    def kind(self, script: Script, node: ast.expr, path: tuple[int, ...] = ()) -> Kind:
        """The kind of an expression; `path` is the part of it that a tuple is unpacked to."""
        return self._kind_of(Provenance(script, node, path))

    def _kind_of(self, origin: Provenance) -> Kind:
        if origin not in self._kinds:
            if self._depth > _DEEPEST:
                return Kind.UNKNOWN
            self._kinds[origin] = Kind.UNKNOWN
            self._depth += 1
            self._kinds[origin] = self._find(origin)
            self._depth -= 1
        return self._kinds[origin]

    def _find(self, origin: Provenance) -> Kind:
        script, node, path = origin.script, origin.node, origin.path
        if isinstance(node, ast.arg):
            return self._parameter(script, node)
        if not isinstance(node, ast.expr):
            return Kind.UNKNOWN
        if origin.element:
            return self.element(script, node, path)
        followed = self.origins(script, node, path)
        if followed == [origin]:
            return self._of_expression(script, node, path)
        found = joined(self._kind_of(each) for each in followed)
        if found is Kind.UNKNOWN and not path:
            found = usual(last_name(node))
            made = any(isinstance(each.node, ast.Call | ast.arg) for each in followed)
            return Kind.UNKNOWN if found is Kind.TENSOR and not made else found
        return found

    def _of_expression(self, script: Script, node: ast.expr, path: tuple[int, ...]) -> Kind:
        """The kind of an expression that is no name for another one."""
        match node:
            case ast.Constant():
                return Kind.START
            case ast.JoinedStr() | ast.UnaryOp(op=ast.Not()):
                return Kind.HOST
            case ast.Name():
                return usual(node.id)
            case ast.Attribute():
                return self._attribute(script, node)
            case ast.Call():
                return self._call(script, node, path)
            case ast.Subscript():
                return self._subscript(script, node)
            case ast.Tuple() | ast.List() | ast.Set() | ast.Dict():
                parts = node.values if isinstance(node, ast.Dict) else node.elts
                return self._several(script, parts)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                inner = node.value if isinstance(node, ast.DictComp) else node.elt
                return self.kind(script, inner)
            case ast.BinOp():
                return self._several(script, (node.left, node.right))
            case ast.Compare():
                if any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops):
                    return Kind.HOST
                return self._several(script, (node.left, *node.comparators))
            case (
                ast.UnaryOp(operand=inner)
                | ast.Starred(value=inner)
                | ast.Await(value=inner)
                | ast.NamedExpr(value=inner)
            ):
                return self.kind(script, inner, path)
        return Kind.UNKNOWN

    def _several(self, script: Script, parts: Sequence[ast.expr]) -> Kind:
        """The kind of what holds several values, or is computed of them."""
        kinds = {self.kind(script, each) for each in parts}
        for each in (Kind.TENSOR, Kind.BATCH):
            if each in kinds:
                return each
        known = kinds - {Kind.START}
        return known.pop() if len(known) == 1 else (Kind.UNKNOWN if known else Kind.START)

    def _attribute(self, script: Script, node: ast.Attribute) -> Kind:
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            return usual(node.attr)
        base = self.kind(script, node.value)
        if base in (Kind.TENSOR, Kind.BATCH, Kind.HOST):
            return Kind.HOST if node.attr in _OF_THE_HOST else base
        if node.attr == "grad":
            return Kind.TENSOR
        if base is Kind.MODEL:
            return Kind.HOST if node.attr in ("device", "config", "training") else Kind.MODEL
        return usual(node.attr) if base is Kind.UNKNOWN else Kind.UNKNOWN

    def _subscript(self, script: Script, node: ast.Subscript) -> Kind:
        base = self.kind(script, node.value)
        if base not in (Kind.UNKNOWN, Kind.START, Kind.SCALER):
            return base
        named = node.slice.value if isinstance(node.slice, ast.Constant) else ""
        found = usual(named) if isinstance(named, str) else Kind.UNKNOWN
        return found if found is not Kind.MODEL else Kind.UNKNOWN  # of a configuration, as a rule

    def _parameter(self, script: Script, parameter: ast.arg) -> Kind:
        """The kind of a parameter for which no call in the files passes anything."""
        function = script.function_around(parameter)
        written = "" if parameter.annotation is None else ast.unparse(parameter.annotation)
        annotated, found = _annotated(written), usual(parameter.arg)
        if function is None or annotated is not Kind.UNKNOWN:
            return annotated
        default = default_of(function, parameter)
        if isinstance(default, ast.Constant) and default.value is not None:
            return Kind.HOST
        given = isinstance(function, FUNCTIONS) and function.name in _GIVEN_TENSORS
        if given and parameter is not parameters(function)[0]:
            plain = _PLAIN_NAME.search(parameter.arg) or found is Kind.MODEL
            return found if plain else Kind.TENSOR
        return found

    # Loops.

    def element(self, script: Script, over: ast.expr, path: tuple[int, ...] = ()) -> Kind:
        """The kind of what a loop over an expression yields."""
        if isinstance(over, ast.Call):
            last, given, first = last_name(over.func), over.args, path[:1] == (0,)
            owner = owner_of(over)
            if last in ("range", "trange") or (last.startswith("named_") and first):
                return Kind.HOST
            if last == "enumerate":
                numbers = first or not given
                return Kind.HOST if numbers else self.element(script, given[0], path[1:])
            if last in ("zip", "product", "chain") and given:
                if last == "zip" and path and path[0] < len(given):
                    return self.element(script, given[path[0]], path[1:])
                return joined(self.element(script, each) for each in given)
            if last in ("items", "keys", "values") and owner is not None:
                named = last == "keys" or (last == "items" and first)
                return Kind.HOST if named else self.element(script, owner)
            if last in _HANDS_ON_ITEMS and given:
                return self.element(script, given[0], path)
            generator = script.function(over.func)
            if generator is not None:
                yielded = [
                    self.kind(generator.script, each.value, path)
                    for each in own_nodes(generator.node)
                    if isinstance(each, ast.Yield) and each.value is not None
                ]
                if yielded:
                    return joined(yielded)
        if isinstance(over, ast.Tuple | ast.List | ast.Set):
            return joined(self.kind(script, each, path) for each in over.elts)
        base = self.kind(script, over)
        handed_out = {Kind.LOADER: Kind.BATCH, Kind.DEVICE_LOADER: Kind.TENSOR}
        same = (Kind.TENSOR, Kind.BATCH, Kind.MODEL, Kind.HOST)
        return handed_out.get(base, base if base in same else Kind.UNKNOWN)

    # Calls.

    def _call(self, script: Script, node: ast.Call, path: tuple[int, ...]) -> Kind:
        name, last = script.called(node), last_name(node.func)
        made = library_kind(name)
        if made is not Kind.UNKNOWN:
            return made
        if name.startswith(("torch.", "tensorflow.")):
            return self._of_torch(script, node, name)
        if node.args and (name in _KEEPS or last in _HANDS_ON_ITEMS):
            return self.kind(script, node.args[0])
        if name.startswith(_HOST_LIBRARIES):
            return Kind.HOST
        if name == "builtins.next" and node.args:
            return self.element(script, node.args[0], path)
        if name.startswith("builtins.") and last in _MADE_OF_PARTS:
            given = node.args[-1:] if last == "map" else node.args[:1]
            return self._several(script, given or [word.value for word in node.keywords])
        if name.startswith("builtins."):
            return Kind.UNKNOWN if last == "super" else Kind.HOST
        defined = script.definition(node.func) or self.method_of(script, node.func)
        if defined is not None:
            return class_kind(defined) if defined.is_class else usual_result(defined.name)
        return self._of_others(script, node, last, path)

    def _of_torch(self, script: Script, node: ast.Call, name: str) -> Kind:
        last = name.rsplit(".", 1)[-1]
        if name in ("torch.from_numpy", "torch.as_tensor", "torch.tensor"):
            on_device = any(word.arg == "device" for word in node.keywords)
            given = self.kind(script, node.args[0]) if node.args else Kind.UNKNOWN
            return Kind.TENSOR if on_device or given is Kind.TENSOR else Kind.BATCH
        if last in _NO_TENSOR or last.startswith(("is_", "get_", "set_")):
            return Kind.HOST
        if _COMPUTES.match(name):
            kinds = {self.kind(script, each) for each in node.args}
            only_batch = Kind.BATCH in kinds and not kinds & {Kind.TENSOR, Kind.UNKNOWN}
            return Kind.BATCH if only_batch else Kind.TENSOR
        return Kind.UNKNOWN

    def _of_others(self, script: Script, node: ast.Call, last: str, path: tuple[int, ...]) -> Kind:
        """The kind of the result of a call of something outside of the files."""
        owner = owner_of(node)
        method = None if owner is None else self._of_method(script, node, owner)
        if method is not None:
            return method
        if last in HANDS_BACK and node.args:  # model, optimizer = accelerator.prepare(model, ...)
            handed = handed_back(node, path)
            found = Kind.UNKNOWN if handed is None else self.kind(script, handed)
            return Kind.DEVICE_LOADER if found is Kind.LOADER else found
        if re.match(r"(?:get|make|create|build|load|init|setup|define|prepare)_?", last):
            return usual(last)  # a model, an optimizer, a loader of another package
        given = [self.kind(script, each) for each in node.args]
        if not script.called(node) and self.kind(script, node.func) is Kind.MODEL:
            return Kind.TENSOR
        if Kind.LOADER in given and re.search(r"tqdm|prefetch|cycle|progress|track|load", last):
            return Kind.LOADER
        if re.search(r"device|cuda|gpu|^to_|^move", last, re.IGNORECASE) and (
            Kind.BATCH in given or Kind.TENSOR in given
        ):
            return Kind.TENSOR
        return usual_result(last)

    def _of_method(self, script: Script, node: ast.Call, owner: ast.expr) -> Kind | None:
        """The kind of a method's result; None where that of its owner does not decide it."""
        last = last_name(node.func)
        steps = last in ("step", "reset", "recv") and "env" in ast.unparse(owner).lower()
        if last in _READS_OUT or steps:
            return Kind.HOST
        base = self.kind(script, owner)
        if last in ("to", "cuda", "xla", "npu"):
            if base in (Kind.MODEL, Kind.LOADER, Kind.OPTIMIZER):
                return base
            given = [
                *node.args[:1],
                *(word.value for word in node.keywords if word.arg == "device"),
            ]
            cpu = any(ast.unparse(each) in ("'cpu'", "torch.device('cpu')") for each in given)
            return Kind.HOST if cpu else Kind.TENSOR
        if last == "cpu":
            return base if base is Kind.MODEL else Kind.HOST
        if base is Kind.MODEL:
            if last in (*_SAME_MODEL, "modules", "children", "named_modules", "named_children"):
                return Kind.MODEL
            return Kind.HOST if last in _OF_A_MODEL else Kind.TENSOR
        if base in (Kind.TENSOR, Kind.BATCH):
            return Kind.HOST if last in _OF_THE_HOST else base
        if base in (Kind.LOADER, Kind.DEVICE_LOADER):
            same = base is Kind.DEVICE_LOADER or last in _SAME_LOADER
            return base if same else Kind.UNKNOWN
        return Kind.HOST if base is Kind.HOST else None


def handed_back(call: ast.Call, path: tuple[int, ...]) -> ast.expr | None:
    """The argument that `prepare(model, optimizer)` gives back in one place of its result."""
    index = path[0] if path else 0
    given = call.args[index] if index < len(call.args) else None
    return None if isinstance(given, ast.Starred) else given


def joined(kinds: Iterable[Kind]) -> Kind:
    """The kind of a value that may come from several places."""
    found = set(kinds)
    known = found - {Kind.START, Kind.UNKNOWN}
    if len(known) == 1:
        return known.pop()
    if known == {Kind.TENSOR, Kind.BATCH}:
        return Kind.TENSOR
    if known == {Kind.LOADER, Kind.DEVICE_LOADER}:
        return Kind.DEVICE_LOADER
    return Kind.START if found == {Kind.START} else Kind.UNKNOWN


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside."""
    pending: list[ast.AST] = list(ast.iter_child_nodes(function))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending += ast.iter_child_nodes(node)


def default_of(function: FunctionNode, parameter: ast.arg) -> ast.expr | None:
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [*given.kw_defaults[::-1], *given.defaults[::-1]]
    names = [*given.kwonlyargs[::-1], *positional[::-1]]
    return next((x for name, x in zip(names, defaults, strict=False) if name is parameter), None)


# What libraries make and give.

_MADE = tuple((kind, re.compile(pattern)) for kind, pattern in (
    (Kind.DEVICE_LOADER, r"(?:^|\.)(?:MpDeviceLoader|ParallelLoader|per_device_loader)$"),
    (Kind.LOADER,
     r"(?:^|\.)(?:DataLoader|NeighborLoader|DataListLoader|BucketIterator\w*|DataLoaderX)$"
     r"|^tensorflow\.data\.|^tensorflow_datasets\.load$|ImageDataGenerator"),
    (Kind.OPTIMIZER,
     r"^(?:torch\.optim\.(?!lr_scheduler|swa_utils)(?:\w+\.)?|torch_xla\.amp\.syncfree\."
     r"|bitsandbytes\.optim\.|apex\.optimizers\.|keras\.optimizers\.)[A-Z]\w*$"
     r"|^transformers\.(?:AdamW|Adafactor)$|^timm\.optim\.create_optimizer"),
    (Kind.SCALER, r"GradScaler$"),
    (Kind.MODEL,
     r"^(?:torchvision\.models\.|timm\.(?:models\.\w+\.)?create_model$|torch\.hub\.load$"
     r"|torch\.nn\.(?!functional|utils|init|parallel|Parameter|attention)[A-Z]"
     r"|segmentation_models_pytorch\.|torch_geometric\.nn\.[A-Z]"
     r"|lightning\.pytorch\.LightningModule$|keras\.(?:Model|Sequential|models\.|applications\.)"
     r"|transformers\.\w*(?:Model|For[A-Z]\w+|LMHead\w*)(?:\.from_\w+)?$|diffusers\.\w+Model\w*"
     r"|peft\.get_peft_model$|open_clip\.create_model|sentence_transformers\.SentenceTransformer)"),
))  # fmt: skip

WRAPPERS = frozenset(
    {"torch.compile", "torch.nn.parallel.DistributedDataParallel", "compilegate.job.compile",
     "torch.nn.parallel.DataParallel", "torch.distributed.fsdp.FullyShardedDataParallel",
     "torch_xla.distributed.fsdp.XlaFullyShardedDataParallel", "torch.jit.script",
     "copy.deepcopy", "torch.nn.SyncBatchNorm.convert_sync_batchnorm", "peft.get_peft_model",
     "apex.parallel.DistributedDataParallel", "torch_neuronx.trace"}
)  # fmt: skip
"""Calls that give back the module that they are given, wrapped."""

HANDS_BACK = frozenset({"prepare", "prepare_model", "prepare_data_loader", "setup", "setup_module",
                        "setup_dataloaders", "setup_model", "initialize"})  # fmt: skip
_MADE_OF_PARTS = frozenset({"sum", "max", "min", "abs", "list", "tuple", "dict", "map", "sorted",
                            "reversed", "getattr"})  # fmt: skip
_KEEPS = WRAPPERS | {"builtins.print", "copy.copy"}
_HANDS_ON_ITEMS = frozenset(
    {"tqdm", "iter", "islice", "cycle", "track", "prefetch", "log_every", "progress_bar", "list",
     "reversed", "sorted", "skip_first_batches", "wrap_iter", "Bar", "logger", "ProgressBar"}
)  # fmt: skip


def library_kind(name: str) -> Kind:
    """The kind of the result of a call of a library, by its name."""
    return next((kind for kind, pattern in _MADE if pattern.search(name)), Kind.UNKNOWN)


def class_kind(defined: Defined) -> Kind:
    """The kind of an instance of a class of the files, by its bases."""
    return next(filter(None, map(library_kind, defined.bases())), Kind.UNKNOWN)


_COMPUTES = re.compile(
    r"^torch\.(?:nn\.functional\.|special\.|linalg\.|fft\.|distributed\.nn\.)?[a-z]\w*$"
    r"|^torch\.nn\.utils\.clip_grad_norm_?$"
    r"|^tensorflow\.(?:math\.|nn\.|linalg\.|random\.)?(?!data|train|keras|io|config)[a-z]\w*$"
)
_NO_TENSOR = frozenset(
    {"device", "compile", "numel", "no_grad", "enable_grad", "inference_mode", "manual_seed",
     "save", "load", "autocast", "finfo", "iinfo", "typename", "initial_seed", "seed", "vmap",
     "use_deterministic_algorithms", "result_type", "promote_types", "can_cast", "dtype", "size",
     "Generator", "jit"}
)  # fmt: skip
_READS_OUT = frozenset({"item", "tolist", "numpy"})
_OF_THE_HOST = _READS_OUT | {
    "size", "dim", "numel", "nelement", "shape", "device", "dtype", "ndim", "requires_grad",
    "is_cuda", "is_leaf", "layout", "stride", "element_size", "type", "get_device", "grad_fn",
    "is_contiguous", "is_floating_point", "data_ptr", "backward", "storage", "num_graphs",
    "is_sparse", "names", "nbytes", "num_nodes", "is_complex", "append", "register_hook", "name",
}  # fmt: skip
_SAME_LOADER = frozenset({"__iter__", "shuffle", "batch", "prefetch", "map", "cache", "repeat",
                          "take", "filter", "skip", "padded_batch", "with_options"})  # fmt: skip
_SAME_MODEL = frozenset({"train", "eval", "requires_grad_", "apply", "to_empty", "half", "float",
                         "bfloat16", "double", "share_memory", "module"})  # fmt: skip
_OF_A_MODEL = frozenset(
    {"state_dict", "load_state_dict", "zero_grad", "compile", "register_forward_hook", "fit",
     "configure_optimizers", "save_pretrained", "push_to_hub", "save", "no_sync", "cpu", "config",
     "gradient_checkpointing_enable", "resize_token_embeddings", "get_input_embeddings", "keys",
     "set_input", "evaluate", "predict", "train_on_batch", "test_on_batch", "optimizers", "log",
     "log_dict", "lr_schedulers", "manual_backward", "backward", "step", "optimizer_step",
     "summary"}
)  # fmt: skip
_HOST_LIBRARIES = ("numpy.", "math.", "random.", "time.", "sklearn.", "pandas.", "scipy.", "os.",
                   "json.", "collections.", "datetime.", "evaluate.", "wandb.", "logging.",
                   "argparse.", "pathlib.", "PIL.", "cv2.", "gym.", "gymnasium.")  # fmt: skip
_GIVEN_TENSORS = ("forward", "training_step", "compute_loss", "train_step", "call")
_PLAIN_NAME = re.compile(
    r"^(?:self|cls|use_\w+|return_\w+|is_\w+|output_\w+|num_\w+|n_\w+|batch_idx|batch_nb|idx|i)$"
    r"|cache|config|cfg|args|state|mode|training|kwargs|params$|step$|dim$|epoch|idx$"
)
_USUAL = (
    (Kind.MODEL, re.compile(r"^(?:\w*_)?(?:model|net|network|module|net[GD]|generator|critic|actor"
                            r"|discriminator|encoder|decoder|unet|vae|transformer|backbone)$")),
    (Kind.OPTIMIZER, re.compile(r"^(?:\w*_)?(?:optim|opt|optimizers?_?\w{0,2}|opt_\w+)$")),
    (Kind.LOADER, re.compile(r"^\w*(?:loader|dataloader)s?$|^\w*_dl$|^(?:train|training)_iter$")),
    (Kind.SCALER, re.compile(r"^(?:\w*_)?(?:scaler|grad_scaler)$")),
    (Kind.TENSOR, re.compile(r"^(?:\w+_)?loss(?:es)?(?:_\w{1,8})?$|^(?:\w+_)?logits?$")),
)  # fmt: skip
_GIVE_LOSSES = ("training_step", "compute_loss", "forward", "__call__")
_LOSS_CALL = re.compile(
    r"(?:^|_)(?:criterion\w*|crit|loss\w*|bce\w*|mse\w*|cross_entropy|nll)$|loss$", re.IGNORECASE
)


def usual(name: str) -> Kind:
    """The usual kind of a value of this name."""
    if re.search(
        r"loss_(?:fn|func|function|weight|scale|type|name|meter|avg|history)|losses_m", name
    ):
        return Kind.UNKNOWN
    return next((kind for kind, pattern in _USUAL if pattern.match(name)), Kind.UNKNOWN)


def usual_result(name: str) -> Kind:
    """The usual kind of the result of a function of this name: a loss is a tensor."""
    known = name in _GIVE_LOSSES or _LOSS_CALL.search(name)
    return Kind.TENSOR if known else Kind.UNKNOWN


def _annotated(text: str) -> Kind:
    if re.search(r"\b(?:\w*Tensor)\b", text):
        return Kind.TENSOR
    if re.fullmatch(r"(?:Optional\[)?(?:int|float|bool|str)\]?(?: \| None)?", text):
        return Kind.HOST
    last = text.rsplit(".", 1)[-1]
    known = {"DataLoader": Kind.LOADER, "Module": Kind.MODEL, "Optimizer": Kind.OPTIMIZER}
    return known.get(last, Kind.UNKNOWN)
