"""The files of a saved model: what `job.save` writes."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any, Container, Dict, Tuple

from compilegate.job.errors import InputError
from compilegate.job.files import folder_digest, whole_file
from compilegate.job.machine.world import is_sharded, unwrapped

if TYPE_CHECKING:
    from torch.nn import Module


WEIGHTS = "model.safetensors"


State = Dict[str, Tuple[int, int]]
"""Which tensor each parameter of a model is, and how often it was written to."""


def state_of(module: Module) -> State:
    """Nothing of a sharded model, whose parameters come and go."""
    if is_sharded(module):
        return {}
    return {name: (id(each), each._version) for name, each in module.named_parameters()}


def save_into(folder: Path, model: Any, *, write: bool = True) -> str | None:
    """Write the model's files and return the sha256 of all of them.

    A module becomes `model.safetensors`, with its configuration where it has `save_pretrained`, and
    holds afterwards what the file holds. Processes that do not `write` take part where each holds a
    part. Raises InputError for anything but a module or a function.
    """
    is_module = hasattr(model, "state_dict") and hasattr(model, "named_parameters")
    whole = whole_state(model) if is_module else None
    if not write:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    if is_module:
        _save_module(folder, unwrapped(model), whole)
    elif callable(model):
        model(folder)
    else:
        raise InputError(
            f"job.save() was given a {type(model).__name__}; expected a torch module, or a "
            "function that is called with the folder and writes the model's files into it"
        )
    if not any(each.is_file() for each in folder.rglob("*")):
        raise InputError(f"job.save() left no file in {folder}; the function has to write there")
    return folder_digest(folder)


def whole_state(model: Any) -> dict[str, Any] | None:
    """The state of a sharded module, whole in the first process's memory; None of any other. All
    processes have to call this."""
    if not is_sharded(model):
        return None
    if any(hasattr(each, "ds_id") for each in model.parameters()):  # ZeRO-3
        deepspeed: Any = importlib.import_module("deepspeed")
        with deepspeed.zero.GatheredParameters(list(model.parameters()), modifier_rank=0):
            return {name: each.cpu().clone() for name, each in model.state_dict().items()}
    from torch.distributed.checkpoint.state_dict import (  # noqa: PLC0415 - since torch 2.2
        StateDictOptions,
        get_model_state_dict,
    )

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return dict(get_model_state_dict(model, options=options))


def _save_module(folder: Path, model: Module, whole: dict[str, Any] | None) -> None:
    try:
        from safetensors import torch as safetensors  # noqa: PLC0415 - perhaps not there
    except ImportError as error:
        raise InputError(
            "job.save() writes safetensors, and this environment has no package safetensors; add "
            "it to the image, or pass a function that writes the model's files"
        ) from error
    if "max_shard_size" in _taken_by_save_pretrained(model):
        save_transformer(folder, model, whole)
        return
    on_host = model if whole is not None else copied_to_host(model)
    with whole_file(folder / WEIGHTS, alone=True) as part:
        try:
            if whole is not None:
                safetensors.save_file(whole, str(part))
                return
            safetensors.save_model(on_host, str(part))  # tied weights are written once
        except KeyError as error:
            raise InputError(
                f"job.save() was given a model with tensors of type {error}, which safetensors "
                "does not know; pass a function that is called with the folder and writes the files"
            ) from error
    # What is evaluated from here on is what the file holds.
    safetensors.load_model(on_host, str(folder / WEIGHTS))
    if on_host is not model:
        model.load_state_dict(on_host.state_dict())


def save_transformer(folder: Path, model: Any, whole: dict[str, Any] | None = None) -> None:
    """Write a model of transformers: its weights as safetensors, and its configuration."""
    options: dict[str, Any] = {} if whole is None else {"state_dict": whole}
    if "safe_serialization" in _taken_by_save_pretrained(model):  # version 5 has no other format
        options["safe_serialization"] = True
    (model if whole is not None else copied_to_host(model)).save_pretrained(str(folder), **options)


def _taken_by_save_pretrained(model: Any) -> Container[str]:
    function = getattr(model, "save_pretrained", None)
    return () if function is None else inspect.signature(function).parameters


def copied_to_host(model: Any) -> Any:
    """The model, or a copy of one whose tensors have no memory that can be looked at, as XLA's."""
    if {each.device.type for each in model.parameters()} <= {"cpu", "cuda"}:
        return model
    from compilegate.job.script.compiled import copied_as_defined  # noqa: PLC0415 - needs torch

    copied = copied_as_defined(model).cpu()
    if hasattr(copied, "tie_weights"):
        copied.tie_weights()  # what was one tensor there is several here
    return copied
