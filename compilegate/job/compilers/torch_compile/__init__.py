"""`torch.compile` of a training step's forward and backward pass, with any of its backends.

`backends` has what is known of each before anything runs, `counted` finds a backend's function and
counts what it makes, `inductor` has what only Inductor has, and `running` is the compiler.
`compiler = "inductor"` is this with that backend.
"""

from __future__ import annotations

import json
from typing import Iterator, Optional

from compilegate.job.compilers.declaration import Declaration, Option, Settings
from compilegate.job.compilers.torch_compile.backends import INDUCTOR, NAME, known

BACKEND = Option(
    name="backend",
    key="backend",
    default=INDUCTOR,
    pattern=rf"{NAME}(?:\.{NAME})*",
    description="a backend of torch.compile by its name, or a function as package.module.function",
)
BACKEND_OPTIONS = Option(
    name="backend_options",
    key="options",
    default="{}",
    table=True,
    description="the backend's own options, which torch.compile passes on",
)
COMPILE_MODE = Option(
    name="compile_mode",
    key="mode",
    default="default",
    choices=("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
    description="what torch.compile calls its mode",
)
DYNAMIC_SHAPES = Option(
    name="dynamic_shapes",
    key="dynamic",
    default=None,
    description="true: one graph serves several shapes from the start; false: each shape is a "
    "graph of its own; left out, torch decides at the first change of shape",
)
REGIONAL = Option(
    name="regional",
    key="regional",
    default=False,
    description="compile the block that the model repeats, once, and not the model as a whole",
)
FALLBACK_RANDOM = Option(
    name="fallback_random",
    key="fallback_random",
    default=True,
    description="compiled dropout draws eager's random numbers, which parity needs",
)


class _TorchCompile(Declaration):
    def problem(self, settings: Settings) -> Optional[str]:
        return next(_problems(settings), None)

    def keeps_output(self, given: Settings) -> bool:
        backend = known(given.get(BACKEND.name, INDUCTOR))
        return backend is None or backend.keeps_output


def _problems(settings: Settings) -> Iterator[str]:
    name, mode = settings[BACKEND.name], settings[COMPILE_MODE.name]
    backend = known(name)
    if not settings[FALLBACK_RANDOM.name] and name != INDUCTOR:
        yield (
            f"fallback_random is false with backend {name!r}, allowed: only with 'inductor', which "
            "alone has that setting"
        )
    if backend is None:
        return
    if backend.refused is not None:
        yield f"backend is {name!r}, {backend.refused}"
    if mode != COMPILE_MODE.default and not backend.takes_mode:
        yield f"mode is {mode!r} with backend {name!r}, which has none; leave it out"
    options = json.loads(settings[BACKEND_OPTIONS.name])
    if options and not backend.takes_options:
        yield (
            f"options has {', '.join(options)} with backend {name!r}, which takes none; "
            "leave it out"
        )
    for option, strict in backend.strict_options:
        if options.get(option, strict) != strict:
            yield (
                f"options.{option} is {json.dumps(options[option])}, allowed: "
                f"{json.dumps(strict)}, since {name} would fall back to eager mode without a word"
            )
    if settings[DYNAMIC_SHAPES.name] and not backend.takes_dynamic:
        yield f"dynamic is true with backend {name!r}, which refuses it; leave it out"


DECLARATION = _TorchCompile(
    name="torch-compile",
    image="training",
    proof=("torch", "backend", "graph_calls", "unique_graphs", "graphs_left_as_they_were", "cache"),
    needs=("torch", "working device", "dynamo"),
    options=(
        *(BACKEND, BACKEND_OPTIONS),
        *(COMPILE_MODE, DYNAMIC_SHAPES, REGIONAL, FALLBACK_RANDOM),
    ),
    output_can_be_kept=True,
    any_shape=DYNAMIC_SHAPES,
)
