"""What a job compiles: its compiler, the functions, the compile cache, and the optimizers at work.

Imports torch: a program without it compiles nothing.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import torch

from compilegate.job.cache import ColdFigures, CompileCache
from compilegate.job.cache.here import key_here
from compilegate.job.compilers import Compiler, declarations, load_compiler
from compilegate.job.errors import CompilerError, InputError
from compilegate.job.evidence import CompileCacheRecord, Scalar
from compilegate.job.machine.accelerators import CUDA, this_machine
from compilegate.job.machine.place import HOST, place_of, require_gpus
from compilegate.job.machine.world import World
from compilegate.job.names import DEFAULT_PARITY_STEPS, EVALUATION_PLACES
from compilegate.job.probes.capture import Autocast, Compiled
from compilegate.job.profiling.graphs import GraphLog
from compilegate.job.script.counting.course import Course
from compilegate.job.script.dispatch import Dispatch, dispatch_of, forward_of, install
from compilegate.job.script.saving import unwrapped
from compilegate.job.script.told import Told
from compilegate.job.stepping.distribution import mean_loss, take_own_gpu

ACCELERATOR_EVALUATES, HOST_EVALUATES = EVALUATION_PLACES


class Compilation:
    """The functions that a job has compiled, by one compiler."""

    def __init__(self, told: Told, launched: World) -> None:
        """Raises CompilerError where the compiler is not available here, and InputError where there
        is no GPU for this process."""
        self._told = told
        self.machine = this_machine()
        self._launched = launched
        take_own_gpu(launched)
        self.compiler: Compiler = load_compiler(told.compiler, told.options)
        self.world = self.compiler.world(launched)
        if not told.alone:
            self.compiler.seed(told.seed, self.world)
        self.dispatches: List[Dispatch] = []
        self.seconds = 0.0
        """What came before the first step: the compiler itself was loaded, and its cache."""
        self.cache: Optional[CompileCache] = None
        self.optimizers: List[torch.optim.Optimizer] = []
        """Those that stepped within a step, in the order of their first one."""
        self.graph_log: Optional[GraphLog] = None
        """What torch's capture said of breaks and recompilations; None without a capture."""
        self._graph_settings: Optional[Mapping[str, Scalar]] = None

    @property
    def compiles(self) -> bool:
        """Whether the arm has a compiler at all."""
        return self._told.compiler != "eager"

    @property
    def parts(self) -> List[Compiled]:
        """The compiled functions with the calls that were kept."""
        return [each.part for each in self.dispatches]

    @property
    def called(self) -> List[Dispatch]:
        """Those that were called within steps."""
        return [each for each in self.dispatches if each.compiled_calls]

    @property
    def torchs_own(self) -> torch.device:
        """Where a model belongs whose operations run at once. Of a described machine, whatever
        that has, this one's processor takes its place."""
        if self.machine.described is not None or not torch.cuda.is_available():
            return torch.device("cpu")
        return torch.device("cuda", self._launched.local_rank)

    @property
    def steps_on(self) -> torch.device:
        """The device of the steps, as far as the compiler decides that."""
        if self.dispatches and not self.compiler.compiles_whole_steps:
            return self.dispatches[0].part.device
        return self.compiler.device(self.torchs_own)

    @property
    def place(self) -> str:
        """Where the steps compute, in a word that holds for every compiler: `cpu`, `cuda`."""
        return place_of(
            self.steps_on.type,
            self.machine,
            hardware=self.compiler.hardware(),
            computes_on=declarations()[self._told.compiler].computes_on,
        )

    @property
    def evaluates_on(self) -> torch.device:
        """Where the trained model is evaluated: one program for all arms, and one place."""
        on_host = self.compiler.compiles_whole_steps or self._told.evaluate_on == HOST_EVALUATES
        return torch.device("cpu") if on_host else self.steps_on

    def evaluation_place(self, device: torch.device) -> str:
        """The one of EVALUATION_PLACES that a model on that device is evaluated in."""
        if device.type != "cpu":
            on_host = device.type == self.steps_on.type and self.place == HOST  # as XLA's CPU
        else:
            stands_in = self.machine.described is not None and self.steps_on.type == "cpu"
            told_host = self._told.evaluate_on == HOST_EVALUATES
            on_host = told_host or not stands_in or self.place == HOST
        return HOST_EVALUATES if on_host else ACCELERATOR_EVALUATES

    def observed_evaluation(self) -> Optional[Tuple[str, str]]:
        """Where a compiled module was last called outside of the steps, and in which precision."""
        seen = [each.evaluated for each in self.dispatches if each.evaluated is not None]
        if not seen:
            return None
        device, precision = seen[-1]
        return self.evaluation_place(device), precision

    def require_accelerator(self) -> None:
        """Raises ArmError where the machine has GPUs and nothing computes on them."""
        if CUDA in declarations()[self._told.compiler].computes_on:
            require_gpus(os.environ, self.place, str(torch.__version__), torch.version.cuda)

    def compile(
        self,
        function: Any,
        holder: Optional[torch.nn.Module],
        course: Course,
        *,
        keeps: int,
        graph: Optional[Mapping[str, Scalar]] = None,
    ) -> Any:
        """See `Job.compile`. `keeps`: of how many steps the probes will ask for the calls."""
        self._graph_settings = graph
        if isinstance(function, torch.nn.Module):
            module = unwrapped(function)
            _refuse_compiled(function)
            if dispatch_of(module) is None:
                install(module, self._dispatch(forward_of(module), module, course, keeps))
            return function
        if not callable(function):
            raise InputError(
                f"job.compile() was given a {type(function).__name__}; expected a torch module, or "
                "a function that returns a loss or outputs"
            )
        module = _holder_of(function) if holder is None else unwrapped(holder)
        return self._dispatch(function, module, course, keeps)

    def _dispatch(
        self, function: Callable[..., Any], module: torch.nn.Module, course: Course, keeps: int
    ) -> Dispatch:
        began = time.perf_counter()
        if not self.dispatches:
            self.cache = self._loaded_cache(module)
        if self.graph_log is None and self.compiles and not self.compiler.compiles_whole_steps:
            self.graph_log = GraphLog()
            self.graph_log.listen()
        compiled = self.compiler.compile(function, module)
        self.seconds += time.perf_counter() - began
        named = getattr(function, "__self__", None)
        name = type(named).__name__ if isinstance(named, torch.nn.Module) else _name_of(function)
        alike = sum(each.part.name.split("#")[0] == name for each in self.dispatches)
        part = Compiled(
            name=f"{name}#{alike + 1}" if alike else name,
            module=module,
            eager=function,
            compiled=compiled,
        )
        dispatch = Dispatch(part, course, keeps=keeps, traced=self._traced())
        self.dispatches.append(dispatch)
        return dispatch

    def distributed(self, model: Any, course: Course, **options: Any) -> Any:
        """See `Job.distributed`."""
        world = self.world
        if world.alone or self.compiler.compiles_whole_steps:
            return model
        if not torch.distributed.is_initialized():
            raise InputError(
                f"job.distributed() was called in one of {world.size} processes that have not met; "
                "say torch.distributed.init_process_group() before it"
            )
        course.take_mean_losses(lambda loss: mean_loss(loss, world))
        return torch.nn.parallel.DistributedDataParallel(model, **options)

    @property
    def awaits_calls(self) -> bool:
        """Whether the probes still ask for calls of any function."""
        return any(each.keeps for each in self.dispatches)

    def ready(self, *, over: bool = False) -> List[Dispatch]:
        """The functions whose calls wait for the first probe: those of enough steps, or all that
        there are once the training is over."""
        return [
            each
            for each in self.dispatches
            if each.has_kept_enough or (over and each.keeps and each.part.calls)
        ]

    def require_calls(self) -> List[str]:
        """Raises InputError for a function that was compiled and is not called in the training:
        the job would be judged for eager's work. Returns what is to be noted."""
        found: List[str] = []
        for each in self.dispatches:
            if each.compiled_calls:
                continue
            if not each.ungraded_calls or len(self.dispatches) == 1:
                raise InputError(
                    f"{each.part.name} was given to job.compile() and never called within a "
                    "training step; call the model that job.compile() returned, inside of the loop "
                    "over job.steps(loader) or of job.step()"
                )
            found.append(
                f"{each.part.name} was called without gradients alone, as a teacher is, and so was "
                "not compiled; its calls are part of the steps, and no probe looks at them."
            )
        return found

    def require_fresh_gradients(self, course: Course) -> None:
        """Raises CompilerError where a backward pass is about to add to gradients that it would
        overwrite: they would be wrong, and nothing would say so. Looked at in the first steps."""
        if course.own_step >= DEFAULT_PARITY_STEPS or not self.compiler.overwrites_gradients:
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

    def bring_home(self) -> None:
        """The training is over: modules come back from a device that only takes whole steps."""
        if self.compiler.compiles_whole_steps:
            for part in self.parts:
                part.module.to("cpu")

    def _traced(self) -> Optional[Autocast]:
        if not self.compiler.compiles_whole_steps:
            return None
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self._told.precision or "fp32")
        return Autocast("cpu", dtype is not None, dtype or torch.float32)

    def note_optimizers(self, course: Course) -> None:
        """From here on, see which optimizers step within steps."""
        try:
            from torch.optim.optimizer import (  # noqa: PLC0415
                register_optimizer_step_post_hook,
            )
        except ImportError:
            return  # torch 1: nothing is compiled there that a speed probe could run

        def stepped(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            if course.in_step and not any(each is optimizer for each in self.optimizers):
                self.optimizers.append(optimizer)

        register_optimizer_step_post_hook(stepped)

    def keep_compiled(
        self, compile_seconds: float, first_step_seconds: float
    ) -> Optional[CompileCacheRecord]:
        """Leave what was compiled for the next job, now that everything has succeeded."""
        if self.cache is None:
            return None
        figures = ColdFigures(compile_seconds, first_step_seconds)
        return self.cache.keep(self.compiler.cache_lookups(), figures, self._told.job)

    def distrust_cache(self) -> None:
        """The script fails: no later job gets the code that an earlier one compiled."""
        if self.cache is not None:
            self.cache.discard_loaded()

    def _loaded_cache(self, module: torch.nn.Module) -> Optional[CompileCache]:
        told = self._told
        if told.compile_cache is None or not told.compile_cache_megabytes or not self.compiles:
            return None
        folder = self.compiler.cache_folder()
        if folder is None:
            return None
        key = key_here(self._graph(module), device=self.torchs_own, code=[_script_folder()])
        most_bytes = told.compile_cache_megabytes * 1_000_000
        cache = CompileCache(told.compile_cache, most_bytes, key, folder)
        cache.load()
        return cache

    def _graph(self, module: torch.nn.Module) -> Dict[str, Scalar]:
        """What decides the compiled graph, for the compile cache's key. The seed does not."""
        told = self._told
        if self._graph_settings is not None:
            options = {name: str(value) for name, value in told.options.items()}
            return {"compiler": told.compiler, **options, **self._graph_settings}
        recipe = {f"told {name}": value for name, value in told.recipe.items() if name != "seed"}
        shapes = [
            (name, str(each.dtype), tuple(each.shape)) for name, each in module.state_dict().items()
        ]
        return {
            "compiler": told.compiler,
            **{name: str(value) for name, value in told.options.items()},
            **recipe,
            "batch_size": told.batch_size,
            "precision": told.precision,
            "model": hashlib.sha256(f"{module!r} {shapes}".encode()).hexdigest(),
        }


def _refuse_compiled(model: Any) -> None:
    if hasattr(model, "_orig_mod"):
        raise InputError(
            "job.compile() was given a model that torch.compile has wrapped already; give it the "
            "model itself, and let the arm say whether it is compiled"
        )


def _holder_of(function: Callable[..., Any]) -> torch.nn.Module:
    """The module whose parameters a function computes with. Raises InputError."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        return owner
    seen = _modules_of(function)
    if len(seen) == 1:
        holder: torch.nn.Module = unwrapped(seen[0])
        return holder
    found = "none" if not seen else f"{len(seen)} of them"
    raise InputError(
        f"job.compile({_name_of(function)}) needs the module that holds the parameters, and found "
        f"{found} among the function's names; say job.compile({_name_of(function)}, model)"
    )


def _modules_of(function: Callable[..., Any]) -> Tuple[torch.nn.Module, ...]:
    try:
        names = inspect.getclosurevars(function)
    except TypeError:
        return ()
    values = [*names.nonlocals.values(), *names.globals.values()]
    # Losses are modules, too; those without parameters hold nothing that is trained.
    modules = [
        each
        for each in values
        if isinstance(each, torch.nn.Module) and next(each.parameters(), None) is not None
    ]
    return tuple({id(each): each for each in modules}.values())


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _script_folder() -> Path:
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(main or os.getcwd()).resolve().parent
