"""Several processes under PyTorch/XLA: their data, their seeds, what starts them; and saving."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilegate.check.rules.rule import Found, View, keyword, rule
from compilegate.check.rules.xla.barriers import is_distributed
from compilegate.check.script.values import Sort, is_a


@rule("no-distributed-sampler")
def no_distributed_sampler(view: View) -> Iterator[Found]:
    if not is_distributed(view.script) or "trainer" in view.analysis.words:
        return
    if "distributedsampler" in view.analysis.words and not any(
        _shuffles(c) for c in _loaders(view)
    ):
        return
    if {"use_spmd", "accelerator", "shard", "iterabledataset"} & view.analysis.words:
        return
    for call in _loaders(view):
        if _shuffles(call):
            yield Found(call, "each process goes over all of the data")


def _loaders(view: View) -> list[ast.Call]:
    return [
        call
        for call in view.named("torch.utils.data.DataLoader")
        if call in view.analysis.training_loaders
    ]


def _shuffles(call: ast.Call) -> bool:
    given = keyword(call, "shuffle")
    return (
        isinstance(given, ast.Constant)
        and given.value is True
        and keyword(call, "sampler") is None
        and keyword(call, "batch_sampler") is None
    )


@rule("no-common-seed")
def no_common_seed(view: View) -> Iterator[Found]:
    if not is_distributed(view.script) or not view.steps:
        return
    seeds = {"manual_seed", "set_seed", "seed_everything", "set_rng_state", "load_state_dict",
             "from_pretrained", "broadcast_master_param", "fix_seed", "seed", "pretrained",
             "broadcast"}  # fmt: skip
    if seeds & view.analysis.words:
        return
    spawned = next(
        (each for each in view.script.tree.functions if each.name == "_mp_fn"), view.steps[0].node
    )
    yield Found(spawned, "no seed makes the processes start from the same weights")


@rule("torch-save-with-xla")
def torch_save_with_xla(view: View) -> Iterator[Found]:
    if not _always_xla(view):
        return
    for call in view.named("torch.save"):
        if not call.args or _moved(call.args[0]) or _is_choice(view, call):
            continue
        if _is_state(call.args[0]) or view.script.uses("torch_xla.core.xla_model"):
            yield Found(call, "`torch.save` writes what is on the XLA device")
    for call in view.methods("save_pretrained"):
        if keyword(call, "save_function") is not None or any(w.arg is None for w in call.keywords):
            continue
        model = call.func.value if isinstance(call.func, ast.Attribute) else None
        if model is None or _moved(model) or not is_a(view.script, model, Sort.MODEL):
            continue
        if view.steps and not _is_choice(view, call) and "cpu" not in view.analysis.words:
            yield Found(call, "`save_pretrained` writes what is on the XLA device")


def _always_xla(view: View) -> bool:
    """Whether the script imports PyTorch/XLA whatever machine it is on."""
    for statement in view.script.source.tree.body:
        names: list[str] = []
        if isinstance(statement, ast.ImportFrom):
            names = [statement.module or ""]
        elif isinstance(statement, ast.Import):
            names = [each.name for each in statement.names]
        if any(name.split(".")[0] == "torch_xla" for name in names):
            return True
    return False


def _moved(node: ast.expr) -> bool:
    """Whether something on the way takes the tensors to the CPU."""
    text = ast.unparse(node)
    return any(word in text for word in ("cpu", "to_cpu", "_maybe_convert", "gather", "metadata"))


def _is_state(node: ast.expr) -> bool:
    return any(
        isinstance(part, ast.Attribute) and part.attr == "state_dict" for part in ast.walk(node)
    )


def _is_choice(view: View, node: ast.AST) -> bool:
    """Whether the script does it in the way without XLA."""
    for outer in view.script.ancestors(node):
        if isinstance(outer, ast.If):
            text = ast.unparse(outer.test).lower()
            if any(word in text for word in ("xla", "tpu", "cuda", "xm", "neuron")):
                return True
    return False


RULES = (no_distributed_sampler, no_common_seed, torch_save_with_xla)
