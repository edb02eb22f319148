"""A script that shows a miscompilation with torch alone, and its first run.

The script holds the captured graph whose results are wrong, its inputs, and the gradients that came
back to it; it runs the graph in float64, eager and compiled. A process of the lowest priority runs
it beside the training, so that the job's counts, caches and memory stay what they are.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

import torch
from torch import fx

from compilegate.job.compilers import Compiler
from compilegate.job.compilers.compiler import watching
from compilegate.job.contract import COMPILE_THREADS_VARIABLE, INDUCTOR_CACHE_VARIABLE, REPRO_SCRIPT
from compilegate.job.evidence import ParityRecord
from compilegate.job.evidence.parity import DEFAULT_PARITY_LIMITS, EPSILON
from compilegate.job.files import whole_file, write_text
from compilegate.job.machine.world import unwrapped
from compilegate.job.probes import reference
from compilegate.job.probes.capture import Compiled, Copies, ObstacleError, megabytes, with_tensors
from compilegate.job.probes.reference import GRADIENT, MARK, How, copied
from compilegate.job.probes.replay import Replay

REPRO_FOLDER = "parity_repro"  # where the script lies, below the evidence folder
TENSORS, LOG = "tensors.pt", "repro.log"
_MOST_BYTES = 512_000_000
_PROCESS_GROUP = frozenset(
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
)
"""Variables by which processes that train together find each other; the script trains nothing."""
_EVERY_GRAPHS = frozenset({"torch", "device", "inf", "nan", "NoneType", "fx_pytree", "pytree"})
"""Names in the code of every graph: the script imports those that are of use."""


@dataclass(frozen=True)
class Wrong:
    """A tensor that compiled code computes wrongly, with errors as shares of its size."""

    name: str
    error: float  # of the middle call
    eager: float
    lost: bool = False  # whether the compiled one is exactly zero, and should not be

    def __str__(self) -> str:
        if self.lost:
            return f"{self.name} (exactly zero, while float64's is not; eager {self.eager:.1g})"
        return f"{self.name} (error {self.error:.2g} of its size, eager {self.eager:.1g})"


def first_departing(compiled: Compiled, wrong: Sequence[Wrong]) -> str:
    """What departs first, in one sentence: outputs come before gradients, and of gradients the last
    parameter's is computed first."""
    forward = [each for each in wrong if not each.name.startswith(GRADIENT)]
    if forward:
        return f"The compiled {forward[0]} departs: the forward pass is wrong."
    named = [GRADIENT + name for name, _ in unwrapped(compiled.module).named_parameters()]
    places = {name: place for place, name in enumerate(named)}
    first = max(wrong, key=lambda each: places.get(each.name, -1))
    following = named[places[first.name] + 1 :] if first.name in places else []
    agrees = f", and the {following[0]}, computed before it, agrees" if following else ""
    return (
        f"All outputs agree, and the compiled {first} is the first gradient that departs in the "
        f"backward pass{agrees}."
    )


class Repro:
    """The script and its run beside the training."""

    def __init__(
        self,
        compiled: Compiled,
        compiler: Compiler,
        wrong: Sequence[Wrong],
        *,
        precision: str,
        folder: Path,
        seconds: float,
    ) -> None:
        """Write the script below `folder` and start it, for at most so many seconds. Raises
        ObstacleError where there is no graph to write."""
        self._folder, self._seconds = folder / REPRO_FOLDER, seconds
        self._wrong = {each.name for each in wrong}
        write_repro(compiled, compiler, wrong, precision, self._folder)
        self._ends = time.monotonic() + seconds
        self._cache = tempfile.TemporaryDirectory(prefix="repro-")
        environment = {
            **{name: each for name, each in os.environ.items() if name not in _PROCESS_GROUP},
            "PYTHONPATH": os.pathsep.join(each or os.getcwd() for each in sys.path),
            INDUCTOR_CACHE_VARIABLE: self._cache.name,
            COMPILE_THREADS_VARIABLE: "1",
            "OMP_NUM_THREADS": str(torch.get_num_threads()),
        }
        with (self._folder / LOG).open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(self._folder / REPRO_SCRIPT)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, 19)

    def added_to(self, record: ParityRecord) -> ParityRecord:
        """The record with what the script showed. Waits for the script until its time is up."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=max(self._ends - time.monotonic(), 0.0))
        status = self.stop()
        record = replace(record, repro=REPRO_FOLDER)
        if status is None:
            why = f"The script's run took more than {self._seconds:g} s."
        elif status:
            why = f"The script's run failed, as {REPRO_FOLDER}/{LOG} shows."
        elif self._shows_it():
            return replace(record, reproduced=True)
        else:
            for name in (REPRO_SCRIPT, TENSORS):
                (self._folder / name).unlink()
            why = "The captured graph, compiled by itself in a fresh process, is right."
            record = replace(record, repro=None, reproduced=False)
        return replace(record, departs=f"{record.departs} {why}")

    def _shows_it(self) -> bool:
        """Whether a tensor is wrong that was wrong in the job: the same gradient, or any result."""
        lines = (self._folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines()
        shown = [line for line in lines if line.endswith(MARK)]
        gradients = {each for each in self._wrong if each.startswith(GRADIENT)}
        return any(
            gradients != self._wrong or any(f" {each}{MARK}" in line for each in gradients)
            for line in shown
        )

    def stop(self) -> int | None:
        """End its process and all that it started; the exit status, None of one that still ran."""
        ended = self._process.poll()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._cache.cleanup()
        return ended


def write_repro(
    compiled: Compiled, compiler: Compiler, wrong: Sequence[Wrong], precision: str, folder: Path
) -> None:
    """Write the script and its tensors. Raises ObstacleError where there is no graph to write, or
    it does not fit."""
    settings = getattr(compiler, "again", dict)()
    if not settings:
        raise ObstacleError("its compiler is no backend of torch.compile")
    calls = _graph_calls(compiled, compiler)
    if not calls:
        raise ObstacleError("no graph was called")
    lost = {each.name[len(GRADIENT) :] for each in wrong if each.name.startswith(GRADIENT)}
    # Where the model is several graphs: the last one with a parameter whose gradient is wrong.
    chosen = next((each for each in reversed(calls) if lost & set(each.labels.values())), calls[0])
    autocast = compiled.calls[-1].autocast
    how = How(
        compiler=settings,
        device=compiled.device.type,
        autocast=str(autocast.dtype).rpartition(".")[2] if autocast.enabled else None,
        epsilon=EPSILON[precision],
        limit=DEFAULT_PARITY_LIMITS[precision],
    )
    graph, inputs, outputs = standalone(chosen.graph, chosen.values, chosen.labels)
    tensors = [each for each in inputs.values() if isinstance(each, torch.Tensor)]
    size = sum(each.numel() * each.element_size() for each in tensors)
    if size > _MOST_BYTES:
        raise ObstacleError(
            f"the graph's inputs take {megabytes(size)}, and a repro holds at most "
            f"{megabytes(_MOST_BYTES)}"
        )
    cotangents = {outputs[name]: each for name, each in chosen.cotangents.items()}
    stored = {
        kind: {name: copied(each, torch.clone) for name, each in values.items()}
        for kind, values in {"inputs": inputs, "cotangents": cotangents}.items()
    }
    with whole_file(folder / TENSORS) as file:
        torch.save(stored, file)
    helpers = Path(reference.__file__).read_text(encoding="utf-8").split('"""', 2)[2].strip()
    imports, _, rest = helpers.partition("\n\nTensors =")
    script = _SCRIPT.format(
        title=first_departing(compiled, wrong),
        torch=torch.__version__,
        python=platform.python_version(),
        machine=platform.machine(),
        script=REPRO_SCRIPT,
        tensors=TENSORS,
        imports=imports,
        source=source_of(graph),
        helpers=f"Tensors ={rest}",
        how=how,
        outputs=list(outputs.values()),
        labels={_name_of(label): label for label in chosen.labels.values()},
    )
    write_text(folder / REPRO_SCRIPT, script)


@dataclass
class _GraphCall:
    graph: fx.GraphModule
    values: dict[str, Any]
    cotangents: dict[str, torch.Tensor]
    labels: dict[str, str]  # the module's names of the inputs that are its parameters or buffers


def _graph_calls(compiled: Compiled, compiler: Compiler) -> list[_GraphCall]:
    """Replay the last captured call with the graphs in eager mode; what went in and came back."""
    found: list[_GraphCall] = []
    module = unwrapped(compiled.module)
    own = {id(each): name for name, each in module.named_buffers()}
    own.update((id(each), name) for name, each in module.named_parameters())

    def watch(graph: Any, run: Any, arguments: tuple[Any, ...]) -> Any:
        names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
        copies = Copies()
        values = {
            name: each if isinstance(each, torch.nn.Parameter) else with_tensors(each, copies)
            for name, each in zip(names, arguments)
        }
        labels = {name: own[id(each)] for name, each in zip(names, arguments) if id(each) in own}
        call = _GraphCall(graph, values, {}, labels)
        found.append(call)
        results = graph(*arguments)
        output = next(node.args[0] for node in graph.graph.nodes if node.op == "output")
        for node, result in zip(output if isinstance(output, (tuple, list)) else [output], results):
            if isinstance(result, torch.Tensor) and result.requires_grad:
                result.register_hook(functools.partial(_keep, call.cotangents, node.name))
        return results

    with Replay(compiled, compiler) as replay, watching(watch):
        replay.compiled(compiled.calls[-1])
    return found


def _keep(cotangents: dict[str, torch.Tensor], name: str, gradient: torch.Tensor | None) -> None:
    if gradient is not None:
        cotangents[name] = gradient.detach().clone()


class Standalone(NamedTuple):
    """A captured graph with all that it uses as inputs."""

    graph: fx.Graph
    inputs: dict[str, Any]  # by name, in order
    outputs: dict[str, str]  # the results' names, by their names in the captured graph


def standalone(
    captured: fx.GraphModule, values: Mapping[str, Any], labels: Mapping[str, str]
) -> Standalone:
    """The graph with its constants as inputs, and parameters named as `labels` has them. Raises
    ObstacleError."""
    graph, made, inputs = fx.Graph(), {}, {}
    nodes = list(captured.graph.nodes)
    for node in nodes:
        if node.op == "call_module":
            raise ObstacleError(
                f"this torch ({torch.__version__}) captures whole modules instead of operations"
            )
        if node.op in ("placeholder", "get_attr"):
            name = _name_of(labels[node.name]) if node.name in labels else node.name
            made[node] = graph.placeholder(name)
            held = values[node.name] if node.op == "placeholder" else _constant(captured, node)
            inputs[made[node].name] = held
    results = list(dict.fromkeys(nodes[-1].all_input_nodes))
    for node in nodes:
        if node not in made and node.op != "output":
            made[node] = graph.node_copy(node, made.__getitem__)
    graph.output(tuple(made[each] for each in results))
    return Standalone(graph, inputs, {each.name: made[each].name for each in results})


def _name_of(label: str) -> str:
    """A parameter's name in the script."""
    return "p_" + re.sub(r"\W", "_", label)


def _constant(graph: fx.GraphModule, node: fx.Node) -> torch.Tensor:
    value = functools.reduce(getattr, str(node.target).split("."), graph)
    if not isinstance(value, torch.Tensor):
        raise ObstacleError(
            f"the graph holds another one ({node.target}, as activation checkpointing and autograd "
            "functions make them)"
        )
    return value


def source_of(graph: fx.Graph) -> str:
    """The graph as a function of Python, with what it imports, and where each step is."""
    code = graph.python_code("self")
    head, *body = code.src.strip().splitlines()
    lines = [
        f"from {each.__module__} import {each.__qualname__} as {name}"
        for name, each in code.globals.items()
        if name not in _EVERY_GRAPHS
    ]
    lines += ["", "", head.replace("forward(self, ", "part(").replace("forward(self", "part(")]
    title = ""
    for node, line in zip((each for each in graph.nodes if each.op != "placeholder"), body):
        module, kind = _module_of(node)
        if module and title != module:
            lines.append(f"    # {module} ({kind})")
        title = module
        lines.append(re.sub(r";  (\w+ = )+None", "", line))
    return "\n".join(lines)


def _module_of(node: fx.Node) -> tuple[str, str]:
    """Path and class of the innermost module that the node was captured in; empty without one."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    if not stack:
        return "", ""
    path, kind = stack[-1][0], stack[-1][1]
    return module_path(path), getattr(kind, "__name__", str(kind).rpartition(".")[2])


def module_path(path: str) -> str:
    """Dynamo's path of a module, such as L['self'].layers['0'].norm, as named_modules has it."""
    path = re.sub(r"^[LG]\[['\"](\w+)['\"]\]", "", path)
    path = re.sub(r"\[['\"]?(\w+)['\"]?\]", r".\1", path)
    path = path.replace("._modules.", ".").replace("_modules.", "").strip(".")
    return re.sub(r"^(__self__|_orig_mod|module)(\.|$)", "", path)


_SCRIPT = '''"""{title}

Eager, compiled and float64 side by side, forward and backward. Run it with

    python {script}

With --check its exit status is 1 where something is compiled wrongly.

Made with torch {torch}, Python {python}, on {machine}. It needs torch, and {tensors} beside it.
"""

{imports}
from math import inf, nan
from torch import device
{source}


{helpers}

HOW = {how!r}
OUTPUTS = {outputs!r}
LABELS = {labels!r}

if __name__ == "__main__":
    given = stored({tensors!r}, HOW.device)
    rows = compared(part, given["inputs"], OUTPUTS, given["cotangents"], HOW)
    wrong = show(rows, LABELS, HOW)
    sys.exit(1 if wrong and "--check" in sys.argv else 0)
'''
