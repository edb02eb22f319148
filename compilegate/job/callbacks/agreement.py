"""What the callbacks share: whether a framework trains as the arm declares, its metrics, and models
whose parameters are sharded among processes."""

from __future__ import annotations

import importlib
from typing import Any, Dict, Mapping, NamedTuple, Optional

from compilegate.job.errors import InputError
from compilegate.job.script import Job


class Setting(NamedTuple):
    """One that the arm declares, and the framework has."""

    name: str
    """In the workload, and of the job's attribute."""
    called: str
    """What the framework calls it."""
    value: Any
    """What it is there; None where that is not known."""
    remedy: str
    """How the script takes it from the job."""


def require_agreement(job: Job, *settings: Setting) -> None:
    """Raises InputError for the first setting that is not the arm's: evidence of an arm that was
    not trained as declared would be worse than none."""
    for name, called, value, remedy in settings:
        if name in ("precision", "seed") and job.told.alone:
            continue  # of a script that is started by hand, they are the script's own
        declared = job.precision if name == "precision" else getattr(job.told, name)
        if declared is None or value is None or declared == value:
            continue
        if isinstance(declared, float) and abs(declared - value) <= 1e-9 * abs(declared):
            continue
        change = f"say {remedy}"
        if name == "precision":
            change += f', or set precision = "{value}" in [arms.{job.arm}]'
        raise InputError(f"the job's {name} is {declared}, and {called} is {value}; {change}")


def scalars(values: Optional[Mapping[str, Any]]) -> Mapping[str, float]:
    """Those that are finite numbers."""
    found = {}
    for name, value in (values or {}).items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue
        if abs(number) < float("inf"):
            found[name] = number
    return found


def is_sharded(model: Any) -> bool:
    """Whether each process holds a part of the parameters alone: by FSDP, or DeepSpeed's ZeRO-3.
    Then a forward pass takes all processes."""
    return any(
        hasattr(each, "full_tensor") or hasattr(each, "ds_id") for each in model.parameters()
    ) or any(type(each).__name__ == "FullyShardedDataParallel" for each in model.modules())


def whole_state(model: Any) -> Dict[str, Any]:
    """The state of a sharded model, gathered in the first process's memory; empty in the others.
    All processes have to call this."""
    import torch  # noqa: PLC0415 - Keras may do without

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
    if not is_sharded(model):
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
