"""The keys of `[arms.NAME]` that say how torch.compile compiles."""

from __future__ import annotations

from typing import Literal

from pipelines.workload.table import Table


class TorchCompileKeys(Table):
    """What an arm with compiler "inductor" may set; None is what is the default there."""

    mode: (
        Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"] | None
    ) = None
    dynamic: bool | None = None
    """Whether one graph may serve several shapes. Otherwise (the default) each shape is a graph of
    its own, and too many of them stop the job with the guard that failed."""
    regional: bool | None = None
    """Compile the block that the model repeats, once, and not the model as a whole."""
    fallback_random: bool | None = None
    """Draw eager's random numbers in compiled dropout: the default, since parity needs it."""

    @property
    def torch_compile_keys(self) -> dict[str, str | bool]:
        """Those that are set, by name."""
        values = {name: getattr(self, name) for name in TorchCompileKeys.model_fields}
        return {name: value for name, value in values.items() if value is not None}
