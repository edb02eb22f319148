"""What sort of thing an expression is: a model, an optimizer, a loader, a tensor.

It is read from where the value comes from: assignments, arguments of calls within the folder,
attributes of `self`. Only where nothing is known does a usual name such as `model` decide.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import Enum, auto

from compilegate.check.script.bindings import Binding
from compilegate.check.script.project import Defined, Origin, Script

_DEEPEST = 40
_MOST = 12
"""As many origins of one value are looked at; more add nothing."""


class Sort(Enum):
    """A sort of value that rules ask for."""

    MODEL = auto()
    OPTIMIZER = auto()
    LOADER = auto()
    SCALER = auto()


def origins(script: Script, node: ast.expr) -> list[Origin]:
    """Where a value may come from, followed over names, attributes, arguments and results."""
    return _origins(Origin(script, node))


def _origins(origin: Origin) -> list[Origin]:
    known = origin.script.project.known
    if origin not in known.origins:
        known.origins[origin] = []
        if known.depth > _DEEPEST:
            return [origin]
        known.depth += 1
        found = list(dict.fromkeys(_next(origin)))[:_MOST]
        known.depth -= 1
        known.origins[origin] = found
    return known.origins[origin]


def _next(origin: Origin) -> Iterator[Origin]:
    script, node = origin.script, origin.node
    bindings: list[Binding] | None = None
    owner = script
    match node:
        case ast.Name():
            bindings = script.bindings(node.id, node)
        case ast.Attribute():
            found = _attribute(script, node)
            if found is not None:
                owner, bindings = found
        case ast.IfExp():
            for side in (node.body, node.orelse):
                yield from _origins(Origin(script, side, origin.index))
            return
        case ast.Tuple() | ast.List() if origin.index is not None:
            if origin.index < len(node.elts):
                yield from _origins(Origin(script, node.elts[origin.index]))
            return
        case ast.Call():
            results = _results(script, node)
            for place, value in results:
                yield from _origins(Origin(place, value, origin.index))
            if results:
                return
    every_known = bool(bindings)
    for binding in bindings or ():
        found_here = list(_bound(owner, binding))
        yield from found_here
        every_known = every_known and (bool(found_here) or binding.kind != "parameter")
    if not every_known:
        yield origin


def _bound(script: Script, binding: Binding) -> Iterator[Origin]:
    if binding.kind == "value" and isinstance(binding.node, ast.expr):
        yield from _origins(Origin(script, binding.node, binding.index))
    elif binding.kind == "parameter" and isinstance(binding.node, ast.arg):
        for place, value in arguments_for(script, binding.node):
            yield from _origins(Origin(place, value))
    elif binding.kind == "import":
        own = script.project.lookup(script, binding.target)
        if own is not None and own[1] and "." not in own[1]:
            for there in own[0].tree.module.names.get(own[1], []):
                if there.kind != "import":
                    yield from _bound(own[0], there)


def _attribute(script: Script, node: ast.Attribute) -> tuple[Script, list[Binding]] | None:
    owner = class_of(script, node.value)
    if owner is None or owner.class_ is None:
        return None
    return _class_attribute(owner, node.attr, 0)


def _class_attribute(owner: Defined, name: str, depth: int) -> tuple[Script, list[Binding]] | None:
    if owner.class_ is None or depth > _DEEPEST:
        return None
    scope = owner.script.tree.scopes[owner.class_]
    found = scope.attributes.get(name) or scope.names.get(name)
    if found:
        return owner.script, found
    for base in owner.class_.bases:
        inherited = owner.script.definition(base)
        if inherited is not None and inherited.class_ is not owner.class_:
            there = _class_attribute(inherited, name, depth + 1)
            if there is not None:
                return there
    return None


def _results(script: Script, call: ast.Call) -> list[tuple[Script, ast.expr]]:
    """What a function of the folder returns."""
    defined = script.definition(call.func)
    if defined is None or defined.function is None:
        return []
    found: list[tuple[Script, ast.expr]] = []
    pending: list[ast.AST] = list(defined.function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Return) and node.value is not None:
            found.append((defined.script, node.value))
        elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            pending += ast.iter_child_nodes(node)
    return found


def arguments_for(script: Script, parameter: ast.arg) -> list[tuple[Script, ast.expr]]:
    """What calls within the folder pass for a parameter."""
    arguments = script.parent(parameter)
    if not isinstance(arguments, ast.arguments):
        return []
    function = script.parent(arguments)
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    owner = script.parent(function)
    positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    callers = list(script.project.callers.get(function, []))
    bound = isinstance(owner, ast.ClassDef)
    if bound and function.name == "__init__":
        callers += script.project.callers.get(owner, [])
    passed: list[tuple[Script, ast.expr]] = []
    for place, call in callers[:_MOST]:
        offset = 1 if bound and positional[:1] in (["self"], ["cls"]) else 0
        named = [word.value for word in call.keywords if word.arg == parameter.arg]
        passed += [(place, value) for value in named]
        if not named and parameter.arg in positional:
            index = positional.index(parameter.arg) - offset
            before = call.args[: index + 1]
            if 0 <= index < len(call.args) and not any(
                isinstance(argument, ast.Starred) for argument in before
            ):
                passed.append((place, call.args[index]))
    return passed


# Calls that give back what they were given, the same or wrapped.
_SAME_METHODS = frozenset(
    {"to", "cuda", "cpu", "half", "float", "bfloat16", "double", "train", "eval", "requires_grad_",
     "to_empty", "xla", "share_memory"}
)  # fmt: skip
_WRAPPERS = frozenset(
    {
        "torch.compile",
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "torch.distributed.fsdp.fully_shard",
        "torch_xla.distributed.fsdp.XlaFullyShardedDataParallel",
        "compilegate.job.compile",
        "copy.deepcopy",
        "torch.jit.script",
        "torch_xla.distributed.parallel_loader.MpDeviceLoader",
    }
)
_GIVES_BACK = frozenset({"prepare", "prepare_model", "setup", "setup_module", "setup_model"})


def unwrapped(origin: Origin) -> Origin | None:
    """What a wrapper such as `torch.compile(model)` or `model.to(device)` was given."""
    script, node = origin.script, origin.node
    if not isinstance(node, ast.Call):
        return None
    name = script.called(node)
    if name in _WRAPPERS and node.args:
        return Origin(script, node.args[0])
    if isinstance(node.func, ast.Call) and script.called(node.func) in _WRAPPERS and node.args:
        return Origin(script, node.args[0])
    if isinstance(node.func, ast.Attribute):
        attribute = node.func.attr
        if attribute in _SAME_METHODS and not name.startswith("torch."):
            return Origin(script, node.func.value)
        if attribute in _GIVES_BACK and node.args and script.definition(node.func) is None:
            index = origin.index or 0
            if index < len(node.args) and not isinstance(node.args[index], ast.Starred):
                return Origin(script, node.args[index])
    return None


def sources(script: Script, node: ast.expr) -> list[Origin]:
    """Where a value comes from once every wrapper around it is taken off."""
    known = script.project.known.sources
    if node not in known:
        known[node] = []
        known[node] = _sources(script, node)
    return known[node]


def _sources(script: Script, node: ast.expr) -> list[Origin]:
    found: list[Origin] = []
    seen: set[ast.AST] = set()
    pending = list(origins(script, node))
    while pending:
        origin = pending.pop()
        if origin.node in seen:
            continue
        seen.add(origin.node)
        inner = unwrapped(origin)
        if inner is None:
            found.append(origin)
        else:
            pending += _origins(inner)
    return found


def class_of(script: Script, node: ast.expr) -> Defined | None:
    """The class of the folder that a value is an instance of."""
    if isinstance(node, ast.Name) and node.id in {"self", "cls"}:
        around = script.class_around(node)
        return Defined(script, around) if around is not None else None
    known = script.project.known.classes
    if node not in known:
        known[node] = None
        known[node] = _class_of(script, node)
    return known[node]


def _class_of(script: Script, node: ast.expr) -> Defined | None:
    for origin in sources(script, node):
        if isinstance(origin.node, ast.Call):
            defined = origin.script.definition(origin.node.func)
            if defined is not None and defined.class_ is not None:
                return defined
            if isinstance(origin.node.func, ast.Attribute):  # Net.from_pretrained(...)
                made = origin.script.definition(origin.node.func.value)
                if made is not None and made.class_ is not None:
                    return made
    return None


_USUAL_NAMES = (
    (Sort.MODEL, re.compile(r"^(?:\w+_)?(?:model|net|network|module|net[GD]|generator|discriminator"
                            r"|encoder|decoder|unet|vae|transformer|backbone)$", re.ASCII)),
    (Sort.OPTIMIZER, re.compile(r"^(?:\w+_)?(?:optimizer|optim|opt|optimizer\w{1,2}|opt_\w+)$")),
    (Sort.LOADER, re.compile(r"^(?:\w*_)?(?:data_?)?(?:loader|dataloader)s?$|^\w*loader$")),
    (Sort.SCALER, re.compile(r"^(?:\w+_)?(?:scaler|grad_scaler)$")),
)  # fmt: skip


def is_a(script: Script, node: ast.expr, sort: Sort) -> bool:
    """Whether an expression is, as far as can be read, a thing of this sort."""
    known = script.project.known.sorts
    key = (node, sort.name)
    if key not in known:
        known[key] = False
        known[key] = _is_a(script, node, sort)
    return known[key]


def _is_a(script: Script, node: ast.expr, sort: Sort) -> bool:
    known = sources(script, node)
    unknown = not known  # it comes from itself alone: `model = prepare(model)`
    for origin in known:
        answer = _sort_of(origin, sort)
        if answer:
            return True
        unknown = unknown or answer is None
    last = node.attr if isinstance(node, ast.Attribute) else None
    last = node.id if isinstance(node, ast.Name) else last
    if not unknown or last is None:
        return False
    return any(kind is sort and pattern.match(last) for kind, pattern in _USUAL_NAMES)


def _sort_of(origin: Origin, sort: Sort) -> bool | None:
    """Whether an origin is of a sort; None where that cannot be known."""
    script, node = origin.script, origin.node
    if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp | ast.Compare | ast.Dict):
        return False
    if not isinstance(node, ast.Call):
        return None
    name = script.called(node)
    made = script.definition(node.func)
    names = {name}
    if made is not None and made.class_ is not None:
        names |= made.script.bases(made.class_)
    elif isinstance(node.func, ast.Attribute):
        owner = script.definition(node.func.value)
        if owner is not None and owner.class_ is not None:
            names |= owner.script.bases(owner.class_)
    if any(_is_sort(each, sort) for each in names):
        return True
    return None if not name or name.startswith("./") else False


_MODEL_MAKERS = re.compile(
    r"^(?:torchvision\.models\.|timm\.(?:models\.\w+\.)?create_model$|torch\.hub\.load$"
    r"|torch\.nn\.(?!functional|utils|init|parallel|Parameter$|parameter)"
    r"|segmentation_models_pytorch\.|lightning\.pytorch\.LightningModule$|keras\.(?:Model|Sequential"
    r"|models\.|applications\.)|transformers\.\w*(?:Model|For[A-Z]\w+)(?:\.from_pretrained"
    r"|\.from_config|\.from_scratch)?$|transformers\.PreTrainedModel$|diffusers\.\w+Model\w*\.)"
)


def _is_sort(name: str, sort: Sort) -> bool:
    last = name.rsplit(".", 1)[-1]
    match sort:
        case Sort.MODEL:
            return bool(_MODEL_MAKERS.match(name)) or name == "torch.nn.Module"
        case Sort.OPTIMIZER:
            if name.startswith(("torch.optim.lr_scheduler", "torch.optim.swa_utils")):
                return False
            return (
                name.startswith(("torch.optim.", "torch_xla.amp.syncfree.", "bitsandbytes.optim."))
                and last[:1].isupper()
            ) or name in {
                "transformers.AdamW",
                "transformers.Adafactor",
                "timm.optim.create_optimizer_v2",
            }
        case Sort.LOADER:
            return last in {"DataLoader", "MpDeviceLoader", "ParallelLoader", "per_device_loader"}
        case Sort.SCALER:
            return last in {"GradScaler", "ShardedGradScaler"}
