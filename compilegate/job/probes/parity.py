"""The parity probe: is the compiled graph the same arithmetic as eager?

It runs after training, with the very function that trained, on the first batches of the training
order, from the initial weights on. In each step four variants start from the same weights and draw
the same random numbers: eager in float64 (the reference), the compiler, eager, and eager again.
Recorded is how far each lies from the reference, for the loss, the logits and the gradient of every
parameter. Then eager's gradients take the step for all of them. On steps of its own each variant's
rounding would grow from step to step, and the distance would tell how chaotic the training is, not
how exact the arithmetic. The gate judges what is recorded.

    initial = keep_weights(model)
    ...                                                     # train
    record, errors = probe_parity(model, forward, initial=initial, batches=batches, ...)
"""

from __future__ import annotations

import contextlib
import copy
import time
import traceback
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Optional, Tuple

import numpy as np
import torch

from compilegate.job.compilers import Compiler
from compilegate.job.errors import CompilegateError, one_sentence
from compilegate.job.evidence import ParityErrors, ParityRecord
from compilegate.job.steps.precision import autocast
from compilegate.job.steps.step import Batch

SMALLEST_SHARE = 1e-3
"""A gradient's error is relative to the gradient's norm, or to this share of the norm of all
gradients together where that is more. Some gradients are zero in exact arithmetic, as that of a key
bias in attention (softmax forgives a constant): what a variant has there is rounding alone."""

Weights = Dict[str, torch.Tensor]
_Tensors = Dict[str, torch.Tensor]
"""What a variant computed in one step: the loss, the logits, the gradients, by name."""


class _ObstacleError(CompilegateError):
    """Why the variants cannot be compared, in one sentence."""


def keep_weights(model: Any) -> Weights:
    """A copy of the model's parameters and buffers in the host's memory."""
    return {name: each.detach().to("cpu", copy=True) for name, each in model.state_dict().items()}


def probe_parity(
    model: Any,
    forward: Callable[..., Any],
    *,
    compiler: Compiler,
    initial: Weights,
    batches: Iterator[Batch],
    begin_updates: Callable[[], Callable[[int], None]],
    precision: str,
    seed: int,
    steps: int,
) -> Tuple[ParityRecord, Optional[ParityErrors]]:
    """Compare `forward`, which `compiler` made of the model, with the model over `steps` steps.

    `batches` are those of the training order; fewer of them than `steps` are fewer steps.
    `begin_updates` starts the training anew: what it returns updates the model from its gradients,
    without scaling them, in the step of that number.

    The model's weights are afterwards what they were before. Where there is nothing to compare,
    the record says why and there are no errors. Nothing is raised: a trained model must not be
    lost to a measurement.
    """
    began = time.perf_counter()
    obstacle: Optional[str] = None
    errors: Optional[ParityErrors] = None
    variants = _Variants(model, forward, precision, compiler)
    try:
        # A graph of whole steps has no gradients to show: the probe's graph is another, of the same
        # operations, without the update.
        same_code = (
            contextlib.nullcontext() if compiler.compiles_whole_steps else _no_new_graphs(compiler)
        )
        with _starting_from(model, initial), same_code:
            measured = _measure(
                variants,
                batches=batches,
                update=begin_updates(),
                seed=seed,
                steps=steps,
            )
        errors = measured  # only now: leaving the contexts may still find an obstacle
    except _ObstacleError as error:
        obstacle = str(error)
    except Exception as error:  # noqa: BLE001 - from any kernel of any library; see the docstring
        traceback.print_exc()
        obstacle = f"the probe broke off: {one_sentence(error)}"
    record = ParityRecord(
        precision=precision,
        steps=0 if errors is None else len(errors.compiled),
        seconds=time.perf_counter() - began,
        obstacle=obstacle,
    )
    return record, errors


@contextlib.contextmanager
def _starting_from(model: Any, weights: Weights) -> Iterator[None]:
    """Lend the model with these weights, to be trained; then it is as it was, without gradients.

    Weights are copied into the model's own tensors: for others the compiler would compile anew.
    """
    before, training = keep_weights(model), model.training
    device = _device(model)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            model.train()
            model.load_state_dict(weights)
            yield
        finally:
            model.load_state_dict(before)
            model.train(training)
            model.zero_grad(set_to_none=True)


@contextlib.contextmanager
def _no_new_graphs(compiler: Compiler) -> Iterator[None]:
    graphs = compiler.graphs()
    yield
    if compiler.graphs() != graphs:
        raise _ObstacleError("the probe made the compiler compile anew, so it judged other code")


def _measure(
    variants: _Variants,
    *,
    batches: Iterator[Batch],
    update: Callable[[int], None],
    seed: int,
    steps: int,
) -> ParityErrors:
    rows: Dict[str, List[List[float]]] = {"eager": [], "repeated": [], "compiled": []}
    names: List[str] = []
    for step, batch in zip(range(steps), batches):
        exact = variants.exact(batch, seed + step)
        compiled = variants.compiled(batch, seed + step)
        repeated = variants.eager(batch, seed + step)
        eager = variants.eager(batch, seed + step)  # last: the update takes its gradients
        names, scales = list(exact), _scales(exact)
        rows["eager"].append(_distances(eager, exact, scales))
        rows["repeated"].append(_distances(repeated, eager, scales))
        rows["compiled"].append(_distances(compiled, exact, scales))
        update(step)
    return ParityErrors(
        tensors=np.array(names), **{name: np.array(errors) for name, errors in rows.items()}
    )


class _Variants:
    """The four ways to compute a step: loss, logits and gradients at the model's weights."""

    def __init__(
        self, model: Any, forward: Callable[..., Any], precision: str, compiler: Compiler
    ) -> None:
        self._model = model
        self._forward = forward
        self._precision = precision
        self._compiled_on = compiler.device(_device(model))
        self._shared_random_numbers = compiler.shares_random_numbers
        self._reference: Any = None

    def eager(self, batch: Batch, seed: int) -> _Tensors:
        """The model as it is."""
        context = autocast(self._precision, _device(self._model))
        return _step(self._model, self._model, batch, seed, context)

    def compiled(self, batch: Batch, seed: int) -> _Tensors:
        """What trained."""
        context = autocast(self._precision, self._compiled_on)
        return _step(self._model, self._forward, batch, seed, context)

    def exact(self, batch: Batch, seed: int) -> _Tensors:
        """Eager in float64, without autocast.

        Raises _ObstacleError where it is not to be had, and where the step draws random numbers
        that the compiler does not share.
        """
        try:
            if self._reference is None:
                self._reference = copy.deepcopy(self._model).double()
            self._reference.load_state_dict(self._model.state_dict())
            exactly = contextlib.nullcontext()
            tensors = _step(self._reference, self._reference, batch, seed, exactly)
        except (RuntimeError, TypeError, NotImplementedError) as error:
            raise _ObstacleError(
                f"the step cannot be computed in float64 here: {one_sentence(error)}"
            ) from error
        if not self._shared_random_numbers and _has_drawn(seed, _device(self._model)):
            raise _ObstacleError(
                "the model draws random numbers (dropout), and the compiler draws its own"
            )
        return tensors


def _step(
    model: Any, forward: Callable[..., Any], batch: Batch, seed: int, context: ContextManager[Any]
) -> _Tensors:
    """Run a forward pass in that context and a backward pass; the model has the gradients
    afterwards."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(seed)
    with context:
        output = forward(**batch)
    output.loss.backward()
    tensors = {"loss": output.loss.detach(), "logits": output.logits.detach()}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            # No gradient at all is a gradient of zero, in whichever variant it happens.
            absent = parameter.grad is None
            tensors[f"gradient of {name}"] = (
                torch.zeros_like(parameter) if absent else parameter.grad
            )
    return tensors


def _scales(exact: _Tensors) -> Dict[str, float]:
    """What each tensor's error is relative to: the norm of the exact one; see `SMALLEST_SHARE`."""
    norms = {name: float(each.norm()) for name, each in exact.items()}
    gradients = [norm for name, norm in norms.items() if name.startswith("gradient of ")]
    smallest = SMALLEST_SHARE * float(np.linalg.norm(gradients))
    return {
        name: max(norm, smallest if name.startswith("gradient of ") else 0.0)
        for name, norm in norms.items()
    }


def _distances(found: _Tensors, wanted: _Tensors, scales: Dict[str, float]) -> List[float]:
    """The norm of each difference, computed in float64, on the tensor's scale."""
    return [
        _relative(float((found[name].double() - wanted[name].double()).norm()), scale)
        for name, scale in scales.items()
    ]


def _relative(distance: float, scale: float) -> float:
    if distance == 0:
        return 0.0
    return distance / scale if scale > 0 else float("inf")


def _has_drawn(seed: int, device: torch.device) -> bool:
    """Whether random numbers were drawn since the generator was seeded."""
    drawn = _random_state(device)
    torch.manual_seed(seed)
    return not torch.equal(drawn, _random_state(device))


def _random_state(device: torch.device) -> torch.Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _device(model: Any) -> torch.device:
    device: torch.device = next(model.parameters()).device
    return device
