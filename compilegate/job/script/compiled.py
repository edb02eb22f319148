"""What a job compiles: its compiler, the functions within steps and outside, the compile cache.
Imports torch."""

from __future__ import annotations

import copy
import hashlib
import inspect
import os
import sys
import time
import types
from pathlib import Path
from typing import Any, Callable, Mapping

import torch
from torch.nn import Module
from torch.utils._pytree import tree_flatten

from compilegate.job.cache import CompileCache, SourceJob, key_here
from compilegate.job.compilers import Compiler, declarations, load_compiler
from compilegate.job.contract import EVALUATION_PLACES
from compilegate.job.errors import CompilerError, InputError
from compilegate.job.evidence import CompileCacheRecord, Scalar
from compilegate.job.machine.accelerators import CUDA, HOST, place_of, require_gpus, this_machine
from compilegate.job.machine.numerics import AUTOCAST, Generators, observed_precision, precision_now
from compilegate.job.machine.world import World, is_sharded, take_own_gpu, unwrapped
from compilegate.job.probes.capture import (
    Autocast,
    Call,
    Compiled,
    await_cotangents,
    moved_to_host,
    named_output_tensors,
)
from compilegate.job.script.config import JobConfig
from compilegate.job.script.steps import TrainingLoop, batch_size_of, harmless
from compilegate.job.slowdowns import CALLS_WATCHED, GraphLog

MOST_CALLS_OF_A_STEP = 4
"""Calls of one function that are kept in a step: with gradient accumulation they are alike."""
MOST_KEPT_BYTES = 2 << 30  # all calls of one function together
MOST_BYTES_FOR_SPEED = 256 << 20
"""Beyond that, the calls of the last kept step alone stay for the speed probe."""
ACCELERATOR_EVALUATES, HOST_EVALUATES = EVALUATION_PLACES


class Dispatch:
    """Stands in for a compiled function: compiled in a training step, eager elsewhere, since an
    evaluation would be another graph. Keeps the first calls for the probes."""

    def __init__(
        self, part: Compiled, loop: TrainingLoop, *, keeps: int, traced: Autocast | None
    ) -> None:
        """`keeps`: for how many steps, the first that have any, the probes want the calls.
        `traced`: whole steps are traced, with their forward pass under this on the host."""
        self.part = part
        self.failures = loop.failures
        self.__wrapped__ = part.eager  # whoever reads a forward pass's signature finds it
        self.keeps = keeps > 0  # whether calls are still captured
        self.is_sharded = False  # parameters are divided among processes: one cannot replay it
        self.batch_size: int | None = None  # the length of the first tensor in its first call
        self.compiled_calls = 0
        self.ungraded_calls = 0  # within steps, without gradients: these are not compiled
        self.evaluated: tuple[torch.device, str] | None = None  # by its last call outside steps
        self.precision: str | None = None  # of its first call in a step, where that shows
        self.under_autocast = False  # whether autocast around the call made it so
        self.left_out: str | None = None  # why calls were not kept, in a sentence
        self._traced = traced
        self._loop = loop
        self._steps_to_keep, self._steps_kept = keeps, 0
        self._kept_bytes = self._kept_in_step = 0
        self._step, self._ungraded_step = -1, -2
        self._evaluates = True

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if arguments and arguments[0] is self.part.module:
            arguments = arguments[1:]  # made a method of it, as by Accelerate's unwrap_model
        trains: bool | None = self._before(arguments, named)
        if trains is None:  # nothing is observed any more
            trains = torch.is_grad_enabled()
        if not trains:
            return self.part.eager(*arguments, **named)
        call: Call | None = self._record_call(arguments, named) if self.keeps else None
        output = self.part.compiled(*arguments, **named)
        if call is not None or self.compiled_calls == 1:
            self._after(call, output)
        return output

    @harmless
    def _before(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """A call is about to be made; returns whether it is one of the training."""
        loop = self._loop
        if not loop.in_step:
            self.evaluated = self.part.device, precision_now(self.part.module)
            return False
        if not torch.is_grad_enabled():
            if self._is_evaluated(loop.process_step):
                loop.pause()  # until it is called again for the training
            self.ungraded_calls += 1
            return False
        if loop.paused:
            loop.resume()
        if not self.compiled_calls:
            _settle(self.part.module, named)
            self.batch_size = batch_size_of([*arguments, *named.values()])
            self.is_sharded = is_sharded(self.part.module)
            self.keeps = self.keeps and not self.is_sharded
        self.compiled_calls += 1
        if loop.declared_shapes > 1 or self.compiled_calls <= CALLS_WATCHED:
            shapes = tuple(tuple(each.shape) for each in _tensors_in((arguments, named)))
            loop.see_shapes(self.part.name, shapes)
        return True

    def _is_evaluated(self, step: int) -> bool:
        """Whether a call without gradients in this step is an evaluation. A teacher's is not: it is
        never called with gradients. Nor is one in training mode that comes in every step, as a
        GAN's generator."""
        if not self.compiled_calls and step > 0:
            return False
        if not self.part.module.training:
            return True
        if step != self._ungraded_step:
            self._evaluates = step != self._ungraded_step + 1
            self._ungraded_step = step
        return self._evaluates

    @harmless
    def _record_call(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Call | None:
        """The call, where it is kept; of a traced one the inputs as they are, since copying would
        be traced."""
        step, part = self._loop.step, self.part
        if not self._has_room(step, _bytes_of((arguments, named))):
            return None
        if self._traced is None:
            return part.capture_call(step, arguments, named)
        call = Call(step, arguments, dict(named), Generators(), self._traced)
        part.calls.append(call)
        part.training = {name: each.training for name, each in part.module.named_modules()}
        return call

    def _has_room(self, step: int, size: int) -> bool:
        """Whether one more call is kept, of so many bytes."""
        if step != self._step:
            if self.has_enough_calls:
                return False
            self._step, self._kept_in_step, self.part.calls_a_step = step, 0, 0
            self._steps_kept += 1
        self.part.calls_a_step += 1
        if self._kept_in_step >= MOST_CALLS_OF_A_STEP:
            return False
        if self._kept_bytes + size > MOST_KEPT_BYTES:
            self.left_out = (
                f"The inputs of {self.part.name} are large ({size / 1e6:,.0f} MB a call): the "
                f"probes look at {len(self.part.calls)} of its calls."
            )
            return False
        self._kept_bytes += size
        self._kept_in_step += 1
        return True

    @harmless
    def _after(self, call: Call | None, output: Any) -> None:
        """A call was made, which is the first one or is kept."""
        if self.compiled_calls == 1:
            self.precision, self.under_autocast = observed_precision(
                self.part.module, [each for _, each in named_output_tensors(output)]
            )
        if call is not None and self._traced is None:
            await_cotangents(call, output)
            self._kept_bytes += _bytes_of(output)  # what comes back is of the same size
        elif call is not None:  # of the backward pass, only that it began at a loss
            call.cotangents = {
                name: torch.ones(each.shape) if each.numel() == 1 else None
                for name, each in named_output_tensors(output)
                if each.requires_grad
            }

    @property
    def has_enough_calls(self) -> bool:
        return self.keeps and self._steps_kept >= self._steps_to_keep

    def end_capture(self) -> None:
        """Keep the calls in host memory for the next probe."""
        self.keeps = False
        calls = self.part.calls
        if self._kept_bytes > MOST_BYTES_FOR_SPEED:
            calls = [each for each in calls if each.step == calls[-1].step]
        self.part.calls = [moved_to_host(each) for each in calls]

    # A copy of the module, as of an average of its weights, is a module as the script wrote it.
    def __deepcopy__(self, memo: dict[int, Any]) -> Callable[..., Any]:
        return _method_of(memo.get(id(self.part.module), self.part.module))

    def __reduce__(self) -> Any:
        return _method_of, (self.part.module,)


class Compilation:
    def __init__(self, config: JobConfig, launched: World, loop: TrainingLoop) -> None:
        """Raises CompilerError where the compiler is not available, and InputError without a GPU
        for this process."""
        self._config = config
        self._loop = loop
        self._launched = launched
        self.machine = this_machine()
        take_own_gpu(launched)
        self.compiler: Compiler = load_compiler(config.compiler, config.options)
        self.world = self.compiler.world(launched)
        if not config.alone:
            self.compiler.seed(config.seed, self.world)
        self.dispatches: list[Dispatch] = []
        self.seconds = 0.0  # before the first step: the compiler was loaded, and its cache
        self.cache: CompileCache | None = None
        self.optimizers: list[torch.optim.Optimizer] = []  # as they first stepped within a step
        self.graph_log: GraphLog | None = None  # None where nothing is captured
        self._note_optimizers()

    @property
    def parts(self) -> list[Compiled]:
        return [each.part for each in self.dispatches]

    @property
    def is_sharded(self) -> bool:
        return any(each.is_sharded for each in self.dispatches)

    @property
    def torch_device(self) -> torch.device:
        """The device of a model whose operations run at once; the CPU for a described machine."""
        if self.machine.described is not None or not torch.cuda.is_available():
            return torch.device("cpu")
        return torch.device("cuda", self._launched.local_rank)

    @property
    def steps_on(self) -> torch.device:
        if self.dispatches and not self.compiler.compiles_whole_steps:
            return self.dispatches[0].part.device
        return self.compiler.device(self.torch_device)

    @property
    def place(self) -> str:
        """Where the steps compute, in a word that holds for every compiler: `cpu`, `cuda`."""
        computes_on = declarations()[self._config.compiler].computes_on
        hardware = self.compiler.hardware()
        return place_of(
            self.steps_on.type, self.machine, hardware=hardware, computes_on=computes_on
        )

    @property
    def evaluates_on(self) -> torch.device:
        """Where the trained model is evaluated: one program for all arms, and one place."""
        on_host = self.compiler.compiles_whole_steps or self._config.evaluate_on == HOST_EVALUATES
        return torch.device("cpu") if on_host else self.steps_on

    def evaluation_place(self, device: torch.device) -> str:
        """The one of EVALUATION_PLACES that a model on that device is evaluated in."""
        if device.type != "cpu":
            on_host = device.type == self.steps_on.type and self.place == HOST  # as XLA's CPU
        else:
            stands_in = self.machine.described is not None and self.steps_on.type == "cpu"
            wants_host = self._config.evaluate_on == HOST_EVALUATES
            on_host = wants_host or not stands_in or self.place == HOST
        return HOST_EVALUATES if on_host else ACCELERATOR_EVALUATES

    def observed_evaluation(self) -> tuple[str, str] | None:
        """Where a compiled module was last called outside of the steps, and in which precision."""
        seen = [each.evaluated for each in self.dispatches if each.evaluated is not None]
        return (self.evaluation_place(seen[-1][0]), seen[-1][1]) if seen else None

    def require_accelerator(self) -> None:
        if CUDA in declarations()[self._config.compiler].computes_on:
            require_gpus(os.environ, self.place, str(torch.__version__), torch.version.cuda)

    def compile(
        self,
        function: Any,
        holder: Module | None,
        *,
        keeps: int,
        graph: Mapping[str, Scalar] | None,
    ) -> Any:
        """See `Job.compile`. `keeps`: of how many steps the probes will ask for the calls."""
        if isinstance(function, Module):
            if hasattr(function, "_orig_mod"):
                raise InputError(
                    "job.compile() was given a model that torch.compile has wrapped already; give "
                    "it the model itself, and let the arm decide whether it is compiled"
                )
            module = unwrapped(function)
            around = inspect.unwrap(module.forward, stop=lambda each: isinstance(each, Dispatch))
            if not isinstance(around, Dispatch):
                # The module's own forward pass, without what Accelerate put around it.
                forward = vars(module).get(_ACCELERATE_KEEPS, module.forward)
                _install(module, self._dispatch(forward, module, keeps, graph))
            return function
        if not callable(function):
            raise InputError(
                f"job.compile() was given a {type(function).__name__}; expected a torch module, or "
                "a function that returns a loss or outputs"
            )
        module = _holder_of(function) if holder is None else unwrapped(holder)
        return self._dispatch(function, module, keeps, graph)

    def _dispatch(
        self,
        function: Callable[..., Any],
        module: Module,
        keeps: int,
        graph: Mapping[str, Scalar] | None,
    ) -> Dispatch:
        began = time.perf_counter()
        whole_steps = self.compiler.compiles_whole_steps
        if not self.dispatches and self._config.compiler != "eager":
            with self._loop.failures.tolerated("loading the compile cache"):
                self.cache = self._loaded_cache(module, graph)
            if not whole_steps:
                with self._loop.failures.tolerated("listening to torch's capture"):
                    self.graph_log = GraphLog()
                    self.graph_log.listen()
        compiled = self.compiler.compile(function, module)
        self.seconds += time.perf_counter() - began
        owner = getattr(function, "__self__", None)
        name = type(owner).__name__ if isinstance(owner, Module) else _name_of(function)
        alike = sum(each.name.split("#")[0] == name for each in self.parts)
        part = Compiled(f"{name}#{alike + 1}" if alike else name, module, function, compiled)
        dtype = AUTOCAST.get(self._config.precision or "fp32")
        traced = Autocast("cpu", dtype is not None, dtype or torch.float32)
        dispatch = Dispatch(part, self._loop, keeps=keeps, traced=traced if whole_steps else None)
        self.dispatches.append(dispatch)
        return dispatch

    def distributed(self, model: Any, **options: Any) -> Any:
        """See `Job.distributed`."""
        world = self.world
        if world.alone or self.compiler.compiles_whole_steps:
            return model
        if not torch.distributed.is_initialized():
            raise InputError(
                f"job.distributed() was called in one of {world.size} processes that have not met; "
                "call torch.distributed.init_process_group() before it"
            )
        self._loop.losses.mean = lambda loss: _mean_loss(loss, world)
        if is_sharded(unwrapped(model)):
            return model
        return torch.nn.parallel.DistributedDataParallel(model, **options)

    def ready(self, *, over: bool = False) -> list[Dispatch]:
        """The functions whose calls wait for the first probe: those of enough steps, or all at the
        end."""
        waiting = [each for each in self.dispatches if each.keeps]
        return [each for each in waiting if each.has_enough_calls or (over and each.part.calls)]

    def uncalled(self) -> list[str]:
        """For each compiled function that no training step called, what to do."""
        return [
            f"{each.part.name} was given to job.compile() and never called within a training step; "
            "call the model that job.compile() returned, inside of the loop over "
            "job.steps(loader) or of job.step()"
            for each in self.dispatches
            if not each.compiled_calls and (not each.ungraded_calls or len(self.dispatches) == 1)
        ]

    def require_fresh_gradients(self) -> None:
        """Raise CompilerError where a backward pass would add to gradients that it overwrites."""
        if not self.compiler.overwrites_gradients:
            return
        for each in self.parts:
            for name, parameter in each.module.named_parameters():
                if parameter.grad is not None:
                    raise CompilerError(
                        f"{name} of {each.name} holds a gradient when backward() is called, and "
                        "CUDA graphs write the next one to the same place, so what is added up is "
                        "wrong (pytorch/pytorch issue 169545): take mode = 'default' to accumulate "
                        "gradients; else set them to None before each backward(), "
                        "optimizer.zero_grad(set_to_none=True)"
                    )

    def _note_optimizers(self) -> None:
        """From here on, see which optimizers step within steps."""
        try:
            from torch.optim.optimizer import (  # noqa: PLC0415
                register_optimizer_step_post_hook,
            )
        except ImportError:
            return  # torch 1: nothing is compiled there that a speed probe could run
        loop, optimizers = self._loop, self.optimizers

        def stepped(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            if loop.in_step and not any(each is optimizer for each in optimizers):
                optimizers.append(optimizer)

        register_optimizer_step_post_hook(stepped)

    def keep_compiled(
        self, compile_seconds: float, first_step_seconds: float
    ) -> CompileCacheRecord | None:
        """Leave what was compiled for the next job, now that everything has succeeded."""
        if self.cache is None:
            return None
        source = SourceJob(self._config.job, compile_seconds, first_step_seconds)
        return self.cache.save(self.compiler.cache_lookups(), source)

    def _loaded_cache(
        self, module: Module, graph: Mapping[str, Scalar] | None
    ) -> CompileCache | None:
        config = self._config
        if config.compile_cache is None or not config.compile_cache_megabytes:
            return None
        folder = self.compiler.cache_folder()
        if folder is None:
            return None
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        code = [Path(main or os.getcwd()).resolve().parent]
        key = key_here(self._graph(module, graph), device=self.torch_device, code=code)
        most_bytes = config.compile_cache_megabytes * 1_000_000
        cache = CompileCache(config.compile_cache, most_bytes, key, folder)
        cache.load()
        return cache

    def _graph(self, module: Module, graph: Mapping[str, Scalar] | None) -> dict[str, Scalar]:
        """What decides the compiled graph, for the compile cache's key. The seed does not."""
        config = self._config
        options = {name: str(value) for name, value in config.options.items()}
        found: dict[str, Scalar] = {"compiler": config.compiler, **options}
        if graph is not None:
            return {**found, **graph}
        shapes = [
            (name, str(each.dtype), tuple(each.shape)) for name, each in module.state_dict().items()
        ]
        return {
            **found,
            **{f"told {name}": value for name, value in config.recipe.items() if name != "seed"},
            "batch_size": config.batch_size,
            "precision": config.precision,
            "model": hashlib.sha256(f"{module!r} {shapes}".encode()).hexdigest(),
        }


def _mean_loss(loss: torch.Tensor, world: World) -> torch.Tensor:
    """The mean of the processes' losses, not waited for. One that is not finite makes it so in all,
    which stop in the same step."""
    total = loss.detach().clone()
    torch.distributed.all_reduce(total)
    return total.double() / world.size


_ACCELERATE_KEEPS = "_original_forward"
"""Where `Accelerator.prepare` keeps the forward pass that it puts mixed precision around."""


def copied_as_defined(module: Any) -> Any:
    """A copy with the forward pass of its class: nothing of ours or Accelerate's around it."""
    around = ("forward", _ACCELERATE_KEEPS)
    left_out = {id(vars(module)[name]): None for name in around if name in vars(module)}
    copied = copy.deepcopy(module, left_out)
    for name in around:
        vars(copied).pop(name, None)
    return copied


def _install(module: Module, dispatch: Dispatch) -> None:
    """Have the module, still the same object, call `dispatch` as its forward pass. Accelerate's
    mixed precision stays around it. Raises InputError where that was wrapped in an unknown way."""
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


def _method_of(module: Module) -> Callable[..., Any]:
    return types.MethodType(type(module).forward, module)


def _holder_of(function: Callable[..., Any]) -> Module:
    """The module whose parameters a function computes with. Raises InputError."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, Module):
        return owner
    try:
        names = inspect.getclosurevars(function)
        values = [*names.nonlocals.values(), *names.globals.values()]
    except TypeError:
        values = []
    # Losses are modules, too; those without parameters hold nothing that is trained.
    seen = {id(each): each for each in values if isinstance(each, Module) and [*each.parameters()]}
    if len(seen) == 1:
        holder: Module = unwrapped(next(iter(seen.values())))
        return holder
    name, found = _name_of(function), f"{len(seen)} of them" if seen else "none"
    raise InputError(
        f"job.compile({name}) needs the module that holds the parameters, and found {found} among "
        f"the function's names; call job.compile({name}, model)"
    )


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _settle(module: Module, named: dict[str, Any]) -> None:
    """Set the `problem_type` that transformers' classifiers derive from their first labels: setting
    it in the first step would recompile the second."""
    config: Any = getattr(module, "config", None)
    labels = named.get("labels")
    if "Classification" not in type(module).__name__ or not isinstance(labels, torch.Tensor):
        return
    if not hasattr(config, "num_labels") or getattr(config, "problem_type", "") is not None:
        return
    kinds = ("multi_label", "single_label")
    several = f"{kinds[not labels.is_floating_point()]}_classification"
    config.problem_type = "regression" if config.num_labels == 1 else several


def _tensors_in(value: Any) -> list[torch.Tensor]:
    return [each for each in tree_flatten(value)[0] if isinstance(each, torch.Tensor)]


def _bytes_of(value: Any) -> int:
    return sum(each.numel() * each.element_size() for each in _tensors_in(value))
