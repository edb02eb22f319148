"""What stands in for a compiled function: the compiler's in a training step, eager elsewhere.

Evaluation would be another graph, of other shapes and without gradients. It runs as the script
wrote it, for every arm alike.
"""

from __future__ import annotations

import copy
import inspect
import types
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple

import torch

from compilegate.job.errors import InputError
from compilegate.job.probes.capture import (
    Autocast,
    Call,
    Compiled,
    RandomState,
    await_cotangents,
    output_tensors,
    set_aside,
)
from compilegate.job.script.counting.course import Course
from compilegate.job.script.counting.looking import CALLS_LOOKED_AT
from compilegate.job.script.steps import batch_size_of
from compilegate.job.stepping.precision import (
    own_precision,
    precision_now,
    products_precision,
)

if TYPE_CHECKING:
    from torch.nn import Module

MOST_CALLS_OF_A_STEP = 4
"""Calls of one function that are kept in a step: with gradient accumulation they are alike."""
MOST_KEPT_BYTES = 2 << 30
"""All calls of one function together."""
MOST_BYTES_FOR_SPEED = 256 << 20
"""Beyond that, the calls of the last kept step alone stay for the speed probe."""


class Dispatch:
    """Calls the compiled function within a step, and keeps the first calls."""

    def __init__(
        self, part: Compiled, course: Course, *, keeps: int, traced: Optional[Autocast] = None
    ) -> None:
        """`keeps`: the probes will ask for the calls of so many steps, the first that have any: not
        every function is called in every step, nor from the first one on. `traced`: whole steps
        are, with their forward pass under this on the host."""
        self._traced = traced
        self.part = part
        self.__wrapped__ = part.eager  # whoever reads a forward pass's signature finds it
        self.keeps = keeps > 0
        """Whether the probes still ask for calls."""
        self._steps_to_keep = keeps
        self._steps_kept = 0
        self._course = course
        self._kept_bytes = 0
        self._kept_in_step = 0
        self._step = -1
        self.batch_size: Optional[int] = None
        """The length of the first tensor in its first call."""
        self.compiled_calls = 0
        self.ungraded_calls = 0
        """Within steps, without gradients: these are not compiled."""
        self._ungraded_step = -2
        self._evaluates = True
        self.evaluated: Optional[Tuple[torch.device, str]] = None
        """Where its last call outside of the steps computed, and in which precision."""
        self.precision: Optional[str] = None
        """What its first call in a step computed in; None where that does not show."""
        self.under_autocast = False
        """Whether autocast around the call made it so."""
        self.left_out: Optional[str] = None
        """Why calls were not kept, in a sentence; None when all were."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        course = self._course
        if arguments and arguments[0] is self.part.module:
            arguments = arguments[1:]  # made a method of it, as by Accelerate's unwrap_model
        if not course.in_step:
            course.called_outside()
            self.evaluated = self.part.device, precision_now(self.part.module)
            return self.part.eager(*arguments, **named)
        if not torch.is_grad_enabled():
            if self._is_evaluated(course.own_step):
                course.pause()  # until it is called again for the training
            self.ungraded_calls += 1
            return self.part.eager(*arguments, **named)
        if course.paused:
            course.resume()
        first = not self.compiled_calls
        if first:
            _settle(self.part.module, named)
            self.batch_size = batch_size_of([*arguments, *named.values()])
        self.compiled_calls += 1
        if course.sees_shapes or self.compiled_calls <= CALLS_LOOKED_AT:
            self._see_shapes(shapes_in((arguments, named)))
        output = self._call_compiled(course.step, arguments, named)
        if first:
            self._see_precision(output)
        return output

    def _call_compiled(self, step: int, arguments: Tuple[Any, ...], named: Dict[str, Any]) -> Any:
        """Call what was compiled, and keep the call where the probes ask for it."""
        if not self.keeps or not self._has_room(step, arguments, named):
            return self.part.compiled(*arguments, **named)
        if self._traced is not None:
            return self._called_in_trace(self._traced, arguments, named)
        call = self.part.keep_call(step, arguments, named)
        output = self.part.compiled(*arguments, **named)
        await_cotangents(call, output)
        self._kept_bytes += _bytes_of(output)  # what comes back is of the same size
        return output

    def _see_precision(self, output: Any) -> None:
        around = precision_now(self.part.module)
        if around != "fp32":
            self.precision = around
            self.under_autocast = own_precision(self.part.module) == "fp32"
        else:
            self.precision = products_precision(output_tensors(output))

    def _see_shapes(self, shapes: Tuple[Any, ...]) -> None:
        if self._course.sees_shapes:
            self._course.see_shape(shapes)
        if self.compiled_calls <= CALLS_LOOKED_AT:
            self._course.looking.see_shapes(self.part.name, shapes)

    def _called_in_trace(
        self, autocast: Autocast, arguments: Tuple[Any, ...], named: Dict[str, Any]
    ) -> Any:
        """Keep the call without any operation, which would be traced and make the first steps
        another graph: inputs as they are, and of the backward pass only that it began at a loss."""
        random = RandomState(torch.get_rng_state(), None)
        call = Call(self._course.step, arguments, dict(named), random, autocast)
        self.part.calls.append(call)
        self.part.training = {
            name: each.training for name, each in self.part.module.named_modules()
        }
        output = self.part.compiled(*arguments, **named)
        tensors = [each for each in output_tensors(output) if each.requires_grad]
        call.cotangents = [
            torch.ones(each.shape) if each.numel() == 1 else None for each in tensors
        ]
        return output

    @property
    def has_kept_enough(self) -> bool:
        """Whether the calls that the first probe asks for are there, and wait for it."""
        return self.keeps and self._steps_kept >= self._steps_to_keep

    def _is_evaluated(self, step: int) -> bool:
        """Whether a call without gradients in this step is an evaluation, and no part of it.

        A teacher's is a part: it is never called with gradients. So is that of a model in training
        mode, as a generator whose images the critic learns from, if it comes in every step.
        """
        if not self.compiled_calls and step > 0:
            return False
        if not self.part.module.training:
            return True
        if step != self._ungraded_step:
            self._evaluates = step != self._ungraded_step + 1
            self._ungraded_step = step
        return self._evaluates

    def keep_no_more(self) -> None:
        """The first probe has seen the calls. They stay for the next one."""
        self.keeps = False
        calls = self.part.calls
        if self._kept_bytes > MOST_BYTES_FOR_SPEED:
            calls = [each for each in calls if each.step == calls[-1].step]
        # In the host's memory meanwhile: the device's is the training's.
        self.part.calls = [set_aside(each) for each in calls]

    def _has_room(self, step: int, arguments: Tuple[Any, ...], named: Dict[str, Any]) -> bool:
        if step != self._step:
            if self.has_kept_enough:
                return False
            self._step, self._kept_in_step, self.part.calls_a_step = step, 0, 0
            self._steps_kept += 1
        self.part.calls_a_step += 1
        if self._kept_in_step >= MOST_CALLS_OF_A_STEP:
            return False
        size = _bytes_of((arguments, named))
        if self._kept_bytes + size > MOST_KEPT_BYTES:
            self.left_out = (
                f"The inputs of {self.part.name} are large ({size / 1e6:,.0f} MB a call): the "
                f"probes look at {len(self.part.calls)} of its calls."
            )
            return False
        self._kept_bytes += size
        self._kept_in_step += 1
        return True

    # A copy of the module, as of an average of its weights, is a module as the script wrote it.
    def __deepcopy__(self, memo: Dict[int, Any]) -> Callable[..., Any]:
        return _forward_of(memo.get(id(self.part.module), self.part.module))

    def __reduce__(self) -> Any:
        return _forward_of, (self.part.module,)


def forward_of(module: Module) -> Callable[..., Any]:
    """The module's own forward pass, without what Accelerate put around it."""
    inner: Callable[..., Any] = vars(module).get(_ACCELERATE_KEEPS, module.forward)
    return inner


def copied_as_defined(module: Any) -> Any:
    """A copy with the forward pass of its class: nothing of ours or Accelerate's around it."""
    around = ("forward", _ACCELERATE_KEEPS)
    left_out = {id(vars(module)[name]): None for name in around if name in vars(module)}
    copied = copy.deepcopy(module, left_out)
    for name in around:
        vars(copied).pop(name, None)
    return copied


def dispatch_of(module: Module) -> Optional[Dispatch]:
    """The one that was installed; None where none was."""
    found = inspect.unwrap(module.forward, stop=lambda each: isinstance(each, Dispatch))
    return found if isinstance(found, Dispatch) else None


def install(module: Module, dispatch: Dispatch) -> None:
    """Have the module call `dispatch` instead of its own forward pass. It stays the same object:
    what holds it, its parameters' names and its class go on as they were.

    Accelerate may have put mixed precision around the forward pass. That stays around `dispatch`,
    so that the probes see it. Raises InputError where it cannot be told what was put there.
    """
    if _ACCELERATE_KEEPS not in vars(module):
        module.forward = dispatch  # of this object: it hides the method of its class
        return
    to_float32 = getattr(module.forward, "__wrapped__", None)
    cast = getattr(to_float32, "__wrapped__", None)
    names = inspect.getclosurevars(cast).nonlocals if inspect.isfunction(cast) else {}
    autocast = next((each for each in names.values() if isinstance(each, torch.autocast)), None)
    if to_float32 is None or autocast is None:
        raise InputError(
            "job.compile() was given a model whose forward pass Accelerate has wrapped in an "
            "unknown way; call it before: model = accelerator.prepare(job.compile(model))"
        )
    module.forward = type(to_float32)(autocast(dispatch))
    setattr(module, _ACCELERATE_KEEPS, dispatch)


_ACCELERATE_KEEPS = "_original_forward"
"""Where `Accelerator.prepare` keeps the forward pass that it puts mixed precision around."""


def shapes_in(value: Any) -> Tuple[Any, ...]:
    """The shapes of all tensors in nested arguments."""
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape),)
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return ()
    return tuple(shape for each in value for shape in shapes_in(each))


def _settle(module: Module, named: Dict[str, Any]) -> None:
    """Say what transformers' classifiers conclude from their first labels, by the rule that they
    have. They note it in their configuration, which would be a recompilation in the second step."""
    config: Any = getattr(module, "config", None)
    labels = named.get("labels")
    if "Classification" not in type(module).__name__ or not isinstance(labels, torch.Tensor):
        return
    if not hasattr(config, "num_labels") or getattr(config, "problem_type", "") is not None:
        return
    kinds = ("multi_label", "single_label")
    several = f"{kinds[not labels.is_floating_point()]}_classification"
    config.problem_type = "regression" if config.num_labels == 1 else several


def _forward_of(module: Module) -> Callable[..., Any]:
    return types.MethodType(type(module).forward, module)


def _bytes_of(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, dict):
        return sum(map(_bytes_of, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(_bytes_of, value))
    return 0
