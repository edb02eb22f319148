"""Models whose parameters are sharded among the processes: FSDP's, and DeepSpeed's ZeRO-3."""

from __future__ import annotations

import importlib
from typing import Any, Dict


def is_sharded(model: Any) -> bool:
    """Whether each process holds a part of the parameters alone: by FSDP, or DeepSpeed's ZeRO-3.
    Then a forward pass takes all processes."""
    by_class = ("FSDPModule", "FullyShardedDataParallel")  # whose parameters may be whole just now
    return any(hasattr(each, "ds_id") for each in model.parameters()) or any(
        base.__name__ in by_class for each in model.modules() for base in type(each).__mro__
    )


def whole_state(model: Any) -> Dict[str, Any]:
    """The state of a sharded model, gathered in the first process's memory; empty in the others.
    All processes have to call this."""
    import torch  # noqa: PLC0415 - a script may do without

    if any(hasattr(each, "ds_id") for each in model.parameters()):
        deepspeed: Any = importlib.import_module("deepspeed")
        with deepspeed.zero.GatheredParameters(list(model.parameters()), modifier_rank=0):
            if torch.distributed.get_rank():
                return {}
            return {name: each.cpu().clone() for name, each in model.state_dict().items()}
    from torch.distributed.checkpoint.state_dict import (  # noqa: PLC0415 - torch 2.2
        StateDictOptions,
        get_model_state_dict,
    )

    return get_model_state_dict(
        model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
    )


def savable(model: Any) -> Any:
    """What `job.save` takes: the model, or of a sharded one a function that writes the whole.
    All processes have to call this."""
    if not hasattr(model, "named_modules") or not is_sharded(model):
        return model
    state = whole_state(model)

    def write(folder: Any) -> None:
        if hasattr(model, "save_pretrained"):
            model.save_pretrained(str(folder), state_dict=state)
            return
        from safetensors.torch import save_file  # noqa: PLC0415 - perhaps not there

        whole = {name: each.contiguous().clone() for name, each in state.items()}
        save_file(whole, str(folder / "model.safetensors"))

    return write
