"""A training step on an XLA device: one graph from the forward pass to the averaged weights, or two
where gradients are averaged in host memory, which lies between. And a forward pass alone, for the
parity probe of a model on the host."""

from __future__ import annotations

import functools
import os
import re
import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from compilegate.job.compilers import xla_runtime as runtime
from compilegate.job.compilers.failures import cause_of, compiler_failure
from compilegate.job.compilers.xla_runtime import Compilations, cut_by
from compilegate.job.errors import CompilerError, InputError
from compilegate.job.machine.distribution import average_through_host
from compilegate.job.machine.world import World

Take = Callable[[], Any]

SEEDS_OF_A_STEP = 2**38
"""More than the seeds of all processes: no two steps of any two draw the same numbers."""


@dataclass(frozen=True)
class Processes:
    """The processes that train together, and where their gradients meet.

    torch_xla averages gradients within a step's graph, over the processes that it knows of. On a
    CPU it knows of this one only: its collective operations silently do nothing. There the
    gradients of torchrun's processes meet in host memory.
    """

    world: World
    through_host: bool

    @property
    def averaging(self) -> str:
        """Where gradients are averaged, in words for the evidence."""
        if self.world.alone:
            return "one process"
        if self.through_host:
            return "in host memory, by gloo, between two graphs of a step"
        return "within the graph of a step, by torch_xla"


def joined_processes(launched: World, known: World, hardware: str, *, machines: int) -> Processes:
    """How the processes that torchrun launched and those that torch_xla knows work together.

    `hardware` is the kind of XLA device. Raises CompilerError where some would train alone.
    """
    through_host = hardware == "CPU" and known.alone and not launched.alone
    world = launched if through_host else known
    if launched.size > world.size:
        raise CompilerError(
            f"torchrun started {launched.size} processes and torch_xla knows of {world.size}: "
            "each would train alone; start them with distribution = 'pytorchxla'"
        )
    if machines > world.size:
        raise CompilerError(
            f"the job has {machines} machines, and of their processes {world.size} would train "
            "together; set distribution = 'pytorchxla', or one instance"
        )
    return Processes(world, through_host)


_TOO_MANY = "Maximum number of different graphs allowed per function exceeded"
_OPERATION = re.compile(r"\[\] (.+?)(?:, dynamic_dims.*)?$", re.MULTILINE)
_CUT = "Unexpected execution happens inside the compiled function"
_SHOWN = 150
"""Characters of a graph's operation; it names every shape it has."""


class TracedSteps:
    """Takes steps whose operations are executed together, at the step's end.

    What its operations compute is known only then. A loss that is not finite has been used for an
    update by the time that anyone sees it.
    """

    def __init__(
        self,
        processes: Processes,
        parameters: Callable[[], Iterable[torch.nn.Parameter]],
        shapes: Callable[[], str],
        *,
        seed: Optional[int],
        most_graphs: int,
    ) -> None:
        """`parameters` are those that are trained; `shapes` are those of a step's batch, in words.
        `seed` is this process's own; None leaves the device's generator to the script."""
        self._processes = processes
        self._parameters = parameters
        self._shapes_now = shapes
        self._seed = seed
        self._result: Any = None
        self._mean: Any = None
        self._graphs = 0
        self._shapes: Set[str] = set()
        self.recompilations: List[str] = []
        """For each later step that was compiled: its number, and what was new in it."""
        if processes.through_host:
            self._gradients = runtime.compiled(self._trace_gradients, "gradients", most_graphs)
            self._update = runtime.compiled(self._trace_update, "update", most_graphs)
            self._take: runtime.Trace = self._in_two_graphs
        else:
            self._take = runtime.compiled(self._trace_whole, "training step", most_graphs)
        self._most_graphs = most_graphs * (2 if processes.through_host else 1)
        self._compiled_before = Compilations.now().graphs

    def take(self, step: int, take: Take, update: Optional[Take]) -> Tuple[Any, Any]:
        """Take the step; returns what `take` did, and the mean of all processes' losses if there
        are several.

        Raises CompilerError when it would be a graph too many, and InputError where there is no
        place between gradients and update.
        """
        if update is None and not self._processes.world.alone:
            raise InputError(
                f"job.step() was given one function in one of {self._processes.world.size} "
                "processes; give it two, so that gradients can be averaged in between: one that "
                "calls backward() and returns the loss, and one that changes the weights"
            )
        self._result = self._mean = None
        try:
            self._take(step, take, update)
        except RuntimeError as error:
            explained = self._explained(error)
            if explained is None:
                raise
            raise explained from error
        self._count_graphs(step)
        return self._result, self._mean

    def _trace_whole(self, step: int, take: Take, update: Optional[Take]) -> None:
        self._trace_gradients(step, take)
        size = self._processes.world.size
        if size > 1:
            # Before the update unscales and clips: the norm is that of the whole batch's gradient.
            gradients = (each.grad for each in self._parameters())
            runtime.averaged([each for each in gradients if each is not None], size)
            self._mean = runtime.averaged(self._result.detach(), size)
        self._trace_update(update)

    def _in_two_graphs(self, step: int, take: Take, update: Optional[Take]) -> None:
        self._gradients(step, take)
        loss = self._result.item()
        self._mean = average_through_host(self._parameters(), loss, self._processes.world)
        self._update(update)

    def _trace_gradients(self, step: int, take: Take) -> None:
        # The device's generator moves on with every synchronisation, and a job that was resumed has
        # others; so each step has a seed of its own.
        if self._seed is not None:
            runtime.seed(self._seed + (step + 1) * SEEDS_OF_A_STEP)
        self._result = take()

    def _trace_update(self, update: Optional[Take]) -> None:
        if update is not None:
            update()

    def _count_graphs(self, step: int) -> None:
        """Raises CompilerError for one too many: a torch_xla of 1.x has no guard of its own."""
        graphs, shapes = Compilations.now().graphs - self._compiled_before, self._shapes_now()
        if graphs > self._graphs and self._shapes:
            new = "a number of the step" if shapes in self._shapes else f"a batch of {shapes}"
            self.recompilations.append(f"step {step}: {new} is new")
        self._graphs = graphs
        self._shapes.add(shapes)
        if graphs > self._most_graphs:
            raise CompilerError(
                f"XLA compiled {graphs} graphs for the training step, and they may be "
                f"{self._most_graphs}; shapes and constants must be the same in all steps"
            )

    def _explained(self, error: RuntimeError) -> Optional[CompilerError]:
        """The error in terms of the step, if its cause is known."""
        message = str(error)
        if _CUT in message:
            place = cut_by(os.environ)
            return CompilerError(
                "the training step asks the XLA device for a value before it ends"
                f"{f' ({place})' if place else ''}, which cuts it into several graphs; compute it "
                "without looking at values"
            )
        if _TOO_MANY in message:
            got, *known = [
                each if len(each) <= _SHOWN else f"{each[: _SHOWN - 3]}..."
                for each in _OPERATION.findall(message)
            ] or [""]
            return CompilerError(
                "XLA would have to compile the training step once more, and its graphs may be "
                f"{self._most_graphs}: it found {got or 'an operation'} where "
                f"{' or '.join(known) or 'another'} was; shapes and constants must be the same in "
                "all steps"
            )
        return compiler_failure("XLA", error) if cause_of(error) else None


class TracedForward:
    """Calls the function on the device, wherever the model itself lies.

    In training it lies on the device. The parity probe has it on the host: then the device computes
    on copies of its weights and of the arguments, and what comes back has a backward pass to the
    model's own parameters and to the arguments that want gradients.
    """

    def __init__(self, function: Callable[..., Any], model: Any, device: torch.device) -> None:
        """`function` is the forward pass of `model`, or calls it."""
        self._function = function
        self.model = model
        self._device = device
        self.shapes = ""
        """The shapes of the last call's tensors, in words."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        given = {**{str(index): each for index, each in enumerate(arguments)}, **named}
        self.shapes = ", ".join(
            f"{name} {list(each.shape)}"
            for name, each in sorted(given.items())
            if isinstance(each, torch.Tensor)
        )
        named = _with_fixed_mask(self.model, named)
        if next(self.model.parameters()).device.type == self._device.type:
            return self._function(*arguments, **named)
        leaves, structure = tree_flatten((arguments, named))
        trained = {name: each for name, each in self.model.named_parameters() if each.requires_grad}
        inputs = {
            index: each for index, each in enumerate(leaves) if isinstance(each, torch.Tensor)
        }
        returned: List[Any] = []

        def compute(copies: Sequence[torch.Tensor]) -> Sequence[Any]:
            weights = dict(zip(trained, copies))
            moved = dict(zip(inputs, copies[len(trained) :]))
            there = [moved.get(index, each) for index, each in enumerate(leaves)]
            output = self._on_device(weights, *tree_unflatten(there, structure))
            found, form = tree_flatten(_plain(output))
            returned.extend((output, found, form))
            return found

        tensors = iter(_OnDevice.apply(compute, self._device, *trained.values(), *inputs.values()))
        output, found, form = returned
        back = [next(tensors) if isinstance(each, torch.Tensor) else each for each in found]
        return _like(output, tree_unflatten(back, form))

    def _on_device(
        self, trained: Dict[str, torch.Tensor], arguments: Sequence[Any], named: Dict[str, Any]
    ) -> Any:
        weights = {
            name: trained[name] if name in trained else each.to(self._device)
            for tensors in (self.model.named_parameters(), self.model.named_buffers())
            for name, each in tensors
        }
        replaced = {f"model.{name}": each for name, each in weights.items()}
        if hasattr(torch, "func"):
            call = torch.func.functional_call
        else:
            from torch.nn.utils.stateless import functional_call as call  # noqa: PLC0415 - torch 1
        return call(_Caller(self._function, self.model), replaced, tuple(arguments), named)


class _Caller(torch.nn.Module):
    """A module that calls the function, so that it computes with other tensors than the model's."""

    def __init__(self, function: Callable[..., Any], model: Any) -> None:
        super().__init__()
        self._call = functools.partial(function)  # a module would be one more child
        self.model = model

    def forward(self, *arguments: Any, **named: Any) -> Any:
        return self._call(*arguments, **named)


class _OnDevice(torch.autograd.Function):
    """A forward pass and the backward pass of what it returned, each executed as one graph.

    Gradients that went back to the host one by one would be a graph each. Those of a loss, where
    there is one, are computed in the forward pass's graph, as in training.
    """

    @staticmethod
    def forward(  # pyrefly: ignore[bad-override]
        context: Any,
        compute: Callable[[Sequence[torch.Tensor]], Sequence[Any]],
        device: torch.device,
        *tensors: torch.Tensor,
    ) -> Tuple[torch.Tensor, ...]:
        copies = [each.detach().to(device).requires_grad_(each.requires_grad) for each in tensors]
        with torch.enable_grad():
            outputs = [each for each in compute(copies) if isinstance(each, torch.Tensor)]
            context.device, context.outputs, context.copies = device, outputs, copies
            losses = [i for i, each in enumerate(outputs) if each.requires_grad and not each.dim()]
            context.loss = losses[0] if len(losses) == 1 else None
            if context.loss is not None:
                context.gradients = _gradients(context, {context.loss: torch.ones(())})
        runtime.sync()
        returned = tuple(each.detach().cpu() for each in outputs)
        context.mark_non_differentiable(
            *(here for here, there in zip(returned, outputs) if not there.requires_grad)
        )
        context.set_materialize_grads(False)
        return returned

    @staticmethod
    def backward(  # pyrefly: ignore[bad-override-param-name]
        context: Any, *outer: Optional[torch.Tensor]
    ) -> Any:
        came = {index: each for index, each in enumerate(outer) if each is not None}
        if list(came) == [context.loss]:
            found, scale = context.gradients, came[context.loss]
        else:
            found, scale = _gradients(context, came), torch.ones(())
            runtime.sync()
        return (None, None, *(None if each is None else each.cpu() * scale for each in found))


def _gradients(
    context: Any, starts: Mapping[int, torch.Tensor]
) -> Sequence[Optional[torch.Tensor]]:
    """On the device: one for each copy, of what came back to these outputs; None where none is."""
    found = iter(
        torch.autograd.grad(
            [context.outputs[index] for index in starts],
            [each for each in context.copies if each.requires_grad],
            [each.to(context.device) for each in starts.values()],
            retain_graph=True,
            allow_unused=True,
        )
    )
    return [next(found) if each.requires_grad else None for each in context.copies]


def _plain(output: Any) -> Any:
    """What `tree_flatten` looks into, of an output that it takes for one value."""
    if isinstance(output, SimpleNamespace):
        return vars(output)
    return dict(output) if hasattr(output, "to_tuple") else output


def _like(output: Any, values: Any) -> Any:
    """The values in the form that the function returned them in."""
    plain = isinstance(output, SimpleNamespace) or hasattr(output, "to_tuple")
    return type(output)(**values) if plain else values


def _with_fixed_mask(model: Any, named: Dict[str, Any]) -> Dict[str, Any]:
    """The named arguments with an attention mask that is used as it is.

    From release 5 on, transformers asks of one with two dimensions whether it hides anything at
    all. The answer has to come from the device, in the middle of every step.
    """
    transformers: Any = sys.modules.get("transformers")  # never imported: the model may not need it
    if transformers is None or int(transformers.__version__.split(".")[0]) < 5:
        return named
    attention = getattr(getattr(model, "config", None), "_attn_implementation", None)
    if "attention_mask" not in named or attention != "sdpa":
        return named  # other kinds of attention take other kinds of masks
    return {**named, "attention_mask": named["attention_mask"].bool()[:, None, None, :]}
