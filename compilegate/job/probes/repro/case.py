"""A program with what goes in and what comes back: what a repro is made of."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import torch

from compilegate.job.evidence.parity import WEAKEST
from compilegate.job.files import whole_file, write_text
from compilegate.job.names import REPRO_SCRIPT
from compilegate.job.probes.repro import side_by_side
from compilegate.job.probes.repro.program import PRELUDE, Program
from compilegate.job.probes.repro.side_by_side import (
    Arguments,
    Row,
    compared,
    compiled_by,
    variants,
)

SCRIPT, TENSORS = REPRO_SCRIPT, "tensors.npz"
_COTANGENT = "cotangent."


@dataclass(frozen=True)
class How:
    """How a case is run."""

    compiler: Dict[str, Any]
    """Backend, mode, options, dynamic, fallback_random: see `side_by_side.compiled_by`."""
    device: str
    autocast: Optional[str]
    """The precision that surrounds it, such as bfloat16; None without autocast."""
    epsilon: float
    """Distance from 1 to the next number of the precision."""
    limit: float
    """How many times eager's error is too far."""


@dataclass(frozen=True)
class Case:
    """A program, its inputs by name, and the gradients that come back to its outputs."""

    program: Program
    values: Dict[str, Any]
    cotangents: Dict[str, torch.Tensor]

    def arguments(self, how: How) -> Arguments:
        """What the program is run with."""
        return Arguments(
            {name: self.values[name] for name in self.program.inputs},
            self.program.outputs,
            self.cotangents,
            torch.device(how.device).type,
            how.autocast,
        )

    def compared(self, how: How) -> Dict[str, Row]:
        """Run it in float64, eager and compiled."""
        function = self.program.function()
        compiled = compiled_by(function, how.compiler)
        return compared(variants(function, compiled, self.arguments(how)))


def beyond(rows: Dict[str, Row], how: How) -> Dict[str, Row]:
    """The tensors that are compiled wrongly: beyond the limit, where eager is exact enough to
    tell."""
    return {
        name: row
        for name, row in rows.items()
        if not row.compiled_error <= how.limit * max(row.eager_error, how.epsilon)
        and row.eager_error * how.limit <= WEAKEST
    }


def write_case(case: Case, how: How, labels: Dict[str, str], title: str, folder: Path) -> None:
    """Write the script that shows a case, and its tensors, into a folder.

    `labels` are the model's names of the inputs that are parameters.
    """
    stored = {
        **{name: case.values[name] for name in case.program.inputs},
        **{_COTANGENT + name: each for name, each in case.cotangents.items()},
    }
    tensors = {name: each for name, each in stored.items() if isinstance(each, torch.Tensor)}
    numbers = {name: each for name, each in stored.items() if name not in tensors}
    with whole_file(folder / TENSORS) as part, open(part, "wb") as file:
        np.savez(file, **{name: _bytes(each) for name, each in tensors.items()})
    text = "\n".join(
        [
            *_docstring(how, title),
            *_code(case.program),
            *_constants(case, how, labels, tensors, numbers),
            *_MAIN,
        ]
    )
    write_text(folder / SCRIPT, text)


def _bytes(value: torch.Tensor) -> Any:
    """The elements in order, byte by byte: numpy knows no bfloat16."""
    flat = value.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy() if flat.numel() else np.empty(0, np.uint8)


def _docstring(how: How, title: str) -> List[str]:
    return [
        f'"""{title}',
        "",
        "Eager, compiled and float64 side by side, forward and backward. Run it with",
        "",
        f"    python {SCRIPT}",
        "",
        "With --check its exit status is 1 where something is compiled wrongly.",
        "",
        f"Made with torch {torch.__version__}, Python {platform.python_version()}, on "
        f"{platform.machine()} ({how.device}). It needs torch and numpy, and {TENSORS} beside it.",
        '"""',
        "",
    ]


def _code(program: Program) -> List[str]:
    """The part that is compiled wrongly, and what runs and compares it."""
    helpers = Path(side_by_side.__file__).read_text(encoding="utf-8").split('"""', 2)[2].strip()
    future, _, rest = helpers.partition("\n")
    imports, _, rest = rest.strip().partition("\n\nTensors =")
    imports = "\n".join(dict.fromkeys([*imports.splitlines(), *PRELUDE, *program.imports]))
    own = [future, "", imports, "", "NoneType = type(None)", "", "", program.source()]
    return [*own, "", f"Tensors ={rest}", ""]


def _constants(
    case: Case,
    how: How,
    labels: Dict[str, str],
    tensors: Dict[str, torch.Tensor],
    numbers: Dict[str, Any],
) -> List[str]:
    inputs = case.program.inputs
    return [
        "",
        f"HOW = {how.compiler!r}",
        f"DEVICE, AUTOCAST = {torch.device(how.device).type!r}, {how.autocast!r}",
        f"LIMIT, EPSILON = {how.limit!r}, {how.epsilon!r}",
        f"INPUTS = {list(inputs)!r}",
        f"OUTPUTS = {list(case.program.outputs)!r}",
        f"NUMBERS = {numbers!r}",
        "LAYOUTS = {",
        *(f"    {name!r}: {_layout(each)!r}," for name, each in tensors.items()),
        "}",
        "LABELS = {",
        *(f"    {name!r}: {label!r}," for name, label in labels.items() if name in inputs),
        "}",
    ]


def _layout(tensor: torch.Tensor) -> Tuple[str, Tuple[int, ...], Tuple[int, ...], bool, bool]:
    """What `side_by_side.saved` makes a tensor of."""
    strides = torch.empty_like(tensor).stride()  # of one without overlaps
    dtype = str(tensor.dtype).rpartition(".")[2]
    parameter = isinstance(tensor, torch.nn.Parameter)
    return dtype, tuple(tensor.shape), tuple(strides), parameter, tensor.requires_grad


_MAIN = (
    "",
    'if __name__ == "__main__":',
    f"    stored = {{**saved(beside(__file__, {TENSORS!r}), DEVICE, LAYOUTS), **NUMBERS}}",
    "    inputs = {name: stored[name] for name in INPUTS}",
    f"    start = {_COTANGENT!r}",
    "    cotangents = {n[len(start) :]: v for n, v in stored.items() if n.startswith(start)}",
    "    arguments = Arguments(inputs, OUTPUTS, cotangents, DEVICE, AUTOCAST)",
    "    rows = compared(variants(part, compiled_by(part, HOW), arguments))",
    "    wrong = show(rows, LABELS, LIMIT, EPSILON)",
    '    sys.exit(1 if wrong and "--check" in sys.argv else 0)',
    "",
)
