"""Whether an expression is a tensor, as far as can be read. In doubt it is none."""

from __future__ import annotations

import ast
import re

from compilegate.check.script.bindings import Binding
from compilegate.check.script.project import Script
from compilegate.check.script.values import Sort, arguments_for, is_a, sources

# Of what a tensor has or does, what gives no tensor.
_PLAIN = frozenset(
    {
        "item", "tolist", "numpy", "size", "dim", "numel", "nelement", "shape", "device", "dtype",
        "ndim", "requires_grad", "is_cuda", "is_leaf", "layout", "stride", "element_size", "type",
        "get_device", "is_contiguous", "is_floating_point", "data_ptr", "grad_fn", "backward",
        "ndimension", "is_sparse", "names", "storage", "is_complex", "keys", "is_quantized",
        "untyped_storage", "nbytes", "itemsize", "is_meta", "input_ids_length",
    }
)  # fmt: skip

# What is itself a tensor: of a tensor, of a model's output, of a batch.
_PARTS = frozenset(
    {
        "T", "mT", "H", "mH", "grad", "data", "real", "imag", "loss", "logits", "values", "indices",
        "last_hidden_state", "pooler_output", "hidden_states", "input_ids", "attention_mask",
        "labels", "pixel_values", "x", "y",
    }
)  # fmt: skip

# Functions of torch that give no tensor.
_PLAIN_FUNCTIONS = frozenset(
    {
        "torch.device", "torch.compile", "torch.is_tensor", "torch.numel", "torch.no_grad",
        "torch.enable_grad", "torch.inference_mode", "torch.manual_seed", "torch.save",
        "torch.load", "torch.set_default_dtype", "torch.get_default_dtype", "torch.autocast",
        "torch.is_grad_enabled", "torch.finfo", "torch.iinfo", "torch.typename",
        "torch.set_float32_matmul_precision", "torch.is_floating_point", "torch.initial_seed",
        "torch.get_rng_state", "torch.set_grad_enabled", "torch.is_autocast_enabled",
        "torch.get_num_threads", "torch.set_num_threads", "torch.is_complex", "torch.vmap",
        "torch.set_printoptions", "torch.is_storage", "torch.seed", "torch.result_type",
        "torch.promote_types", "torch.can_cast", "torch.use_deterministic_algorithms",
        "torch.is_inference_mode_enabled", "torch.set_default_device", "torch.get_default_device",
        "torch.set_num_interop_threads", "torch.get_num_interop_threads", "torch.set_rng_state",
        "torch.are_deterministic_algorithms_enabled", "torch.set_warn_always",
    }
)  # fmt: skip

_MADE = re.compile(
    r"^torch\.(?!is_)[a-z][a-z_0-9]*$|^torch\.nn\.functional\.\w+$|^torch\.(?:special|linalg|fft)\.\w+$"
)
_LOSS = re.compile(r"^(?:\w+_)?loss(?:es)?(?:_\w+)?$|^(?:logits|logit)$")
_PLAIN_NAME = re.compile(
    r"^(?:self|cls|use_\w+|return_\w+|is_\w+|output_\w+|num_\w+|n_\w+)$"
    r"|cache|config|cfg|args|state|mode|kwargs|params$|step$|dim$|epoch"
)
_TENSOR_ANNOTATION = re.compile(r"\b(?:Tensor|LongTensor|FloatTensor|BoolTensor)\b")


def is_tensor(script: Script, node: ast.expr) -> bool:
    """Whether an expression is a tensor."""
    known = script.project.known.tensors
    if node not in known:
        known[node] = False
        known[node] = _is_tensor(script, node)
    return known[node]


def _is_tensor(script: Script, node: ast.expr) -> bool:
    match node:
        case ast.Call():
            return _call(script, node)
        case ast.Attribute():
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                return _attribute_of_self(script, node)
            return node.attr in _PARTS and is_tensor(script, node.value)
        case ast.BinOp():
            return is_tensor(script, node.left) or is_tensor(script, node.right)
        case ast.UnaryOp(op=ast.Not()):
            return False
        case ast.UnaryOp():
            return is_tensor(script, node.operand)
        case ast.Compare():
            if any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops):
                return False
            return any(is_tensor(script, side) for side in (node.left, *node.comparators))
        case ast.Subscript():
            return is_tensor(script, node.value)
        case ast.IfExp():
            return is_tensor(script, node.body) and is_tensor(script, node.orelse)
        case ast.Name():
            return _name(script, node)
    return False


def _call(script: Script, node: ast.Call) -> bool:
    name = script.called(node)
    if name in _PLAIN_FUNCTIONS:
        return False
    if _MADE.match(name):
        return True
    if name.startswith("torch.nn.") and name[9:10].isupper():
        return False  # makes a module
    if isinstance(node.func, ast.Attribute):
        if node.func.attr in _PLAIN:
            return False
        if not name and is_tensor(script, node.func.value):
            return True
    if name.startswith("builtins."):
        return False
    if isinstance(node.func, ast.Call):  # nn.CrossEntropyLoss()(output, target)
        return is_a(script, node.func, Sort.MODEL)
    if isinstance(node.func, ast.Name | ast.Attribute) and script.definition(node.func) is None:
        return is_a(script, node.func, Sort.MODEL) and not name.startswith("torch.nn.")
    return False


def _attribute_of_self(script: Script, node: ast.Attribute) -> bool:
    owner = script.class_around(node)
    if owner is None:
        return False
    bindings = script.tree.scopes[owner].attributes.get(node.attr, [])
    return bool(bindings) and all(_bound(script, each) for each in bindings)


def _name(script: Script, node: ast.Name) -> bool:
    bindings = script.bindings(node.id, node)
    if not bindings:
        return False
    if _goes_backward(script, node) and not any(_reads_out(each) for each in bindings):
        return True
    known = script.project.known.names
    if id(bindings) not in known:
        known[id(bindings)] = True  # `x = x.view(2, -1)` is a tensor where `x` is one
        known[id(bindings)] = _is_tensor_name(script, node.id, bindings)
    return known[id(bindings)]


def _goes_backward(script: Script, name: ast.Name) -> bool:
    """Whether the function around a name calls `backward` on it."""
    function = script.function_around(name)
    return any(
        isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == name.id
        and script.function_around(call) is function
        for call in script.calls_by_last.get("backward", ())
    )


def _is_tensor_name(script: Script, name: str, bindings: list[Binding]) -> bool:
    # `x = x.item()` makes a number of it from there on: a name with both is in doubt.
    plain = [
        each
        for each in bindings
        if each.kind == "value"
        and each.index is None
        and not _bound(script, each)
        and (_reads_out(each) or not _mentions(each, name))
    ]
    if any(_has_plain_default(script, each) for each in bindings):
        return False
    if not any(_bound(script, each) for each in bindings if not _mentions(each, name)):
        return False
    return all(_harmless(each) for each in plain) or bool(
        _LOSS.match(name) and not any(_reads_out(each) for each in plain)
    )


def _has_plain_default(script: Script, binding: Binding) -> bool:
    """Whether a name is a parameter that is a number, a flag or a text unless it is given."""
    parameter = binding.node
    arguments = script.parent(parameter) if isinstance(parameter, ast.arg) else None
    if not isinstance(parameter, ast.arg) or not isinstance(arguments, ast.arguments):
        return False
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))
    defaults |= dict(zip(reversed(positional), reversed(arguments.defaults), strict=False))
    default = defaults.get(parameter)
    return isinstance(default, ast.Constant) and default.value is not None


def _harmless(binding: Binding) -> bool:
    """A start value such as `loss = 0` or `x = None` before tensors are added."""
    return isinstance(binding.node, ast.Constant) and not isinstance(binding.node.value, str)


def _mentions(binding: Binding, name: str) -> bool:
    """Whether a value is made of what the name stood for: `x = x * 2`."""
    node = binding.node
    return isinstance(node, ast.expr) and any(
        isinstance(part, ast.Name) and part.id == name for part in ast.walk(node)
    )


def _reads_out(binding: Binding) -> bool:
    node = binding.node
    return isinstance(node, ast.expr) and any(
        isinstance(part, ast.Attribute) and part.attr in {"item", "tolist", "numpy"}
        for part in ast.walk(node)
    )


def _bound(script: Script, binding: Binding) -> bool:
    node = binding.node
    if binding.kind == "value" and isinstance(node, ast.expr):
        return is_tensor(script, node)
    if binding.kind == "element" and isinstance(node, ast.expr):
        return _element(script, node, binding)
    if binding.kind == "parameter" and isinstance(node, ast.arg):
        return _parameter(script, node)
    return False


def _element(script: Script, over: ast.expr, binding: Binding) -> bool:
    """Whether what a loop hands out is a batch."""
    if isinstance(over, ast.Call):
        name = script.called(over)
        if name == "builtins.enumerate":
            return (
                binding.index != 0
                and bool(over.args)
                and (_element(script, over.args[0], Binding("element", over.args[0])))
            )
        if name.endswith("tqdm") or name in {"builtins.iter", "builtins.zip"}:
            return bool(over.args) and _element(script, over.args[0], binding)
    return is_a(script, over, Sort.LOADER) or is_tensor(script, over)


_TENSOR_METHODS = frozenset({"forward", "training_step"})


def _parameter(script: Script, parameter: ast.arg) -> bool:
    """Whether a parameter is a tensor: by its annotation, or as an input of a model's forward."""
    if parameter.annotation is not None:
        written = ast.unparse(parameter.annotation)
        if _TENSOR_ANNOTATION.search(written):
            return not re.search(r"\b(?:list|List|tuple|Tuple|dict|Dict|Sequence)\b", written)
        return False
    arguments = script.parent(parameter)
    function = script.parent(arguments) if arguments is not None else None
    if not isinstance(function, ast.FunctionDef) or not isinstance(arguments, ast.arguments):
        return False
    owner = script.parent(function)
    if not isinstance(owner, ast.ClassDef) or function.name not in _TENSOR_METHODS:
        return _passed_tensors(script, parameter) or _used_as_tensor(script, parameter, function)
    if _PLAIN_NAME.search(parameter.arg):
        return False
    positional = [*arguments.posonlyargs, *arguments.args]
    if parameter not in positional:
        return False
    after = len(positional) - positional.index(parameter)
    if after <= len(arguments.defaults):
        default = arguments.defaults[-after]
        return isinstance(default, ast.Constant) and default.value is None
    index = positional.index(parameter)
    return not (function.name == "training_step" and (index != 1 or "idx" in parameter.arg))


_COMPUTES = frozenset(
    {"sum", "mean", "norm", "view", "reshape", "sin", "cos", "exp", "abs", "softmax", "matmul",
     "detach", "float", "to", "t", "mul", "add", "relu", "max", "min", "any", "all", "clone"}
)  # fmt: skip


def _used_as_tensor(script: Script, parameter: ast.arg, function: ast.FunctionDef) -> bool:
    """Whether a function under `@torch.compile` computes with a parameter as with a tensor."""
    if _PLAIN_NAME.search(parameter.arg) or not any(
        script.name(each.func if isinstance(each, ast.Call) else each) == "torch.compile"
        for each in function.decorator_list
    ):
        return False
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _COMPUTES
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == parameter.arg
        for node in ast.walk(function)
    )


def _passed_tensors(script: Script, parameter: ast.arg) -> bool:
    """Whether calls within the folder pass a tensor."""
    passed = arguments_for(script, parameter)
    return bool(passed) and all(
        isinstance(value, ast.Name | ast.Attribute | ast.Call)
        and any(is_tensor(each.script, each.node) for each in sources(place, value))
        for place, value in passed
    )
