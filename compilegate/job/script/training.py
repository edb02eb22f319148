"""How a job trains, as its script sees it: what it was told, what it compiles, its steps."""

from __future__ import annotations

import itertools
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    ContextManager,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

from compilegate.job.errors import InputError
from compilegate.job.evidence import Scalar
from compilegate.job.evidence.precision import coarsest, otherwise_declared, trains_in
from compilegate.job.machine.accelerators import this_machine
from compilegate.job.machine.world import World, world_of
from compilegate.job.names import (
    COMPILED_LINE,
    COMPILING_LINE,
    DEFAULT_PARITY_STEPS,
    MACHINE_VARIABLE,
    PROFILE_VARIABLE,
)
from compilegate.job.script.counting.course import Checkpoints, Course
from compilegate.job.script.finishing import Framework, started
from compilegate.job.script.probing import Probes
from compilegate.job.script.steps import LoaderSteps, Loop, Step
from compilegate.job.script.told import Told

if TYPE_CHECKING:
    import torch

    from compilegate.job.script.compilation import Compilation


class Training:
    """The part of a job that trains: what it was told, what it compiles, its steps."""

    def __init__(self, told: Told, *, log_every: Optional[int] = None, shapes: int = 1) -> None:
        """`log_every`: steps whose losses are fetched together from a GPU. `shapes`: how many
        shapes the steps have, each a graph of its own."""
        self.told = told = _profiled(told) if os.environ.get(PROFILE_VARIABLE) else told
        self._launched = world_of(os.environ)
        self._course = Course(self, log_every, shapes)
        self._compilation: Optional[Compilation] = None
        self._framework: Optional[Framework] = None
        self._probes = Probes(told)
        self._checkpoints = Checkpoints(started(os.environ))
        self._seen_batch_size: Optional[int] = None
        self._own_batch_size: Optional[int] = None
        """The loader's, where it is not what the job was told."""
        self._accumulate = 1
        self._on_accelerator = False
        """Whether torch was seen to compute where it should."""
        self._evaluation: Optional[Tuple[str, str]] = None
        """Where and in which precision, where the script said so."""
        self._settings: Dict[str, Scalar] = {}
        self._notes: List[str] = []
        if os.environ.get(MACHINE_VARIABLE):
            described = this_machine().described
            self.note(
                f"This is a rehearsal: {MACHINE_VARIABLE} describes another machine ({described}), "
                "and this one's processor computed in its place, so no time and no memory here is "
                "that machine's; leave the variable out to train for real."
            )

    @property
    def arm(self) -> str:
        """The arm that is trained."""
        return self.told.arm

    @property
    def compiler(self) -> str:
        """The arm's compiler; `eager` is none."""
        return self.told.compiler

    @property
    def seed(self) -> int:
        """The replicate's."""
        return self.told.seed

    @property
    def batch_size(self) -> int:
        """Examples that each process takes in a step. Raises InputError where nobody said it."""
        if self.told.batch_size is None:
            raise InputError(
                "the job was not told its batch size; say job.start(batch_size=...) for a script "
                "that is started by hand"
            )
        return self.told.batch_size

    @property
    def learning_rate(self) -> float:
        """Raises InputError where nobody said it."""
        if self.told.learning_rate is None:
            raise InputError(
                "the job was not told its learning rate; say job.start(learning_rate=...) for a "
                "script that is started by hand"
            )
        return self.told.learning_rate

    @property
    def steps_taken(self) -> int:
        """Training steps so far, those before an interruption included."""
        return self._course.step

    @property
    def precision(self) -> str:
        """fp32, bf16 or fp16: the arm's, which the script trains in by `autocast`."""
        return self.told.precision or "fp32"

    @property
    def trained_precision(self) -> str:
        """That of the steps, by what was seen of them; the arm's, as far as nothing shows."""
        called = [] if self._compilation is None else self._compilation.called
        seen = [each.precision for each in called]
        known = [each for each in seen if each is not None]
        if len(known) < len(seen) or not seen:
            parity = self._probes.parity if self._probes.errors is not None else None
            known.append(self.precision if parity is None else parity.precision)
        return coarsest(known)

    @property
    def under_autocast(self) -> bool:
        """Whether autocast around what is compiled makes the steps' precision."""
        called = [] if self._compilation is None else self._compilation.called
        return any(each.under_autocast for each in called)

    @property
    def world(self) -> World:
        """The processes that train together, and this one's place."""
        return self._launched if self._compilation is None else self._compilation.world

    @property
    def model_folder(self) -> Path:
        """Where `save` writes."""
        return self.told.model

    @property
    def device(self) -> torch.device:
        """Where the model and its batches belong: the compiler's device, a GPU, or the CPU."""
        return self._compiling().steps_on

    @property
    def accelerator(self) -> str:
        """Where the steps compute: cuda, neuron or cpu, whatever a compiler calls its device."""
        return self._compiling().place

    @property
    def peak_memory_bytes(self) -> Optional[int]:
        """The most memory that the steps held so far, of what they compute on; None where nobody
        counts it."""
        return self._probes.peak_memory(self._compiling())[0]

    @property
    def evaluation_device(self) -> torch.device:
        """Where the trained model is to be evaluated: in one place for all arms of a workload. That
        is the GPU, unless a compiler of one of its arms keeps it to itself; then the CPU."""
        return self._compiling().evaluates_on

    def evaluated(self, device: torch.device, precision: str = "fp32") -> None:
        """A model that the job did not compile, such as the saved one, is evaluated there and in
        that precision. Of a compiled one the job knows."""
        self._evaluation = self._compiling().evaluation_place(device), precision

    def autocast(self) -> ContextManager[Any]:
        """Mixed precision as the arm has it, for the forward pass."""
        from compilegate.job.stepping.precision import autocast  # noqa: PLC0415 - torch

        return autocast(self.precision, self.device)

    @property
    def compiles_whole_steps(self) -> bool:
        """Whether the compiler makes one graph of a step, update and all: see `step`."""
        return self._compiling().compiler.compiles_whole_steps

    def compile(
        self, function: Any, module: Any = None, *, graph: Optional[Mapping[str, Scalar]] = None
    ) -> Any:
        """Compile a model, or any function that returns a loss or outputs, as the arm says.

        A module stays the same object: its forward pass is the compiled one within a training step,
        and its own elsewhere. Of a function, the compiled one is returned; `module` holds the
        parameters that it computes with, where that is not plain. `graph` says what decides the
        compiled code besides the compiler and its options, for jobs that may share it; without it,
        that is all that the job was told. Raises InputError for what cannot be compiled,
        CompilerError where the compiler is not available here.
        """
        compiling = self._compiling()
        keeps = self._probes.steps_to_keep if compiling.world.first else 0
        self._course.probes_wait = True
        return compiling.compile(function, module, self._course, keeps=keeps, graph=graph)

    def distributed(self, model: Any, **options: Any) -> Any:
        """The model as the job's processes train it together.

        Where there are several it is wrapped in DistributedDataParallel: they start from the first
        one's weights, and have the mean of their gradients. The loss of a step is the mean of
        theirs. All of them have the arm's seed, so that they shuffle alike: a script whose
        processes are to draw other dropout masks seeds them by `world.rank`. A compiler that takes
        whole steps averages by itself, see `step`. `options` are those of DistributedDataParallel,
        such as ``find_unused_parameters=True`` for a model of which some steps leave parameters
        out. Raises InputError where torch.distributed was not initialised.
        """
        return self._compiling().distributed(model, self._course, **options)

    def steps(
        self,
        loader: Optional[Iterable[Any]] = None,
        *,
        accumulate: int = 1,
        ragged: str = "drop",
    ) -> LoaderSteps:
        """The loader's batches, each a training step, or `accumulate` of them together; without a
        loader, steps without end. Where steps are traced (XLA), batches come on the device.

        `ragged`: what becomes of a last batch that is smaller: it would be a graph of its own, so
        it is left out, unless "keep" is said. A script that is started by hand, without a compiler,
        gets all of them.
        """
        if ragged not in ("drop", "keep"):
            raise InputError(f"job.steps(ragged={ragged!r}), expected 'drop' or 'keep'")
        self._accumulate = accumulate
        self._see_loader(getattr(loader, "batch_size", None))
        drops = ragged == "drop" and not (self.told.alone and self.compiler == "eager")
        endless = itertools.repeat(None)
        return LoaderSteps(
            endless if loader is None else loader,
            self._course,
            self.note,
            self._see_batch,
            accumulate=accumulate,
            drops=drops,
            bring=iter if loader is None else self._bring,
        )

    def step(
        self,
        take: Optional[Callable[[], Any]] = None,
        update: Optional[Callable[[], Any]] = None,
    ) -> Any:
        """``with job.step():`` a training step; or ``job.step(function)``, which calls it in one
        and returns what it returns: a loss, perhaps, which is then the step's.

        A compiler that takes whole steps makes one graph of such a function; nothing in it may look
        at a value. Where several processes train, give it two functions: `take` calls `backward`
        and returns the loss, and `update`, which is called next, changes the weights. Such a
        compiler averages gradients and losses in between.
        """
        if take is None:
            return Step(self._course)
        compiler = self._compiling().compiler
        with Step(self._course):
            result, mean_loss = compiler.take_step(self._course.step, take, update)
            if mean_loss is not None:
                self.loss(mean_loss)
            elif not self._course.has_loss and getattr(result, "numel", lambda: 0)() == 1:
                self.loss(result)
        return result

    def begin_step(self) -> None:
        """A step begins: for loops that are not the script's own."""
        self._course.begin()

    def end_step(self) -> None:
        """And ends."""
        self._course.end()

    def loop(self, *, accumulate: int = 1, batch_size: Optional[int] = None) -> Loop:
        """The steps of a loop that is not the script's own, for callbacks. `batch_size` is what a
        process takes at once, `accumulate` how often it does before the weights change."""
        self._accumulate = accumulate
        self._seen_batch_size = batch_size or self._seen_batch_size
        return Loop(self._course)

    def loss(self, value: Any) -> None:
        """The loss of this step: a tensor or a number. Only needed where it is not what `backward`
        is called on."""
        self._course.say_loss(value)

    def latest_loss(self) -> Optional[float]:
        """That of the last step whose loss is known without waiting for a device. Raises
        NonFiniteLossError."""
        return self._course.latest_loss()

    def losses(self) -> Sequence[float]:
        """Those of all steps; waits for them. Raises NonFiniteLossError."""
        return self._course.losses()

    def checkpoint(self) -> ContextManager[Dict[str, Any]]:
        """``with job.checkpoint() as state:`` between two steps: write a checkpoint with `state` in
        it, which is JSON: what was measured so far. See `resume`. Raises NonFiniteLossError."""
        return self._checkpoints.writing(self._course)

    def resume(
        self, state: Optional[Mapping[str, Any]] = None, *, ignored: Optional[str] = None
    ) -> None:
        """Go on from a checkpoint, before the first step: `state` is what `checkpoint` gave; None
        where there is none to go on from, of which `ignored` may say why. Raises InputError."""
        self._checkpoints.resume(self._course, state, ignored)

    def settings(self, **values: Scalar) -> None:
        """What the script decided itself and decides the result, such as how many of its steps are
        warm-up: for the evidence, beside what the job was told. The gate compares it among arms."""
        self._settings.update(values)

    def shapes(self, count: int) -> None:
        """The steps have so many shapes, each a graph of its own and no recompilation; as
        `start(shapes=...)`, before the first step."""
        self._course.declare_shapes(count)

    def note(self, sentence: str) -> None:
        """Something that the report should say, with what to do."""
        if sentence not in self._notes:
            self._notes.append(sentence)
            if self._launched.first:
                print(f"compilegate: {sentence}", flush=True)

    def _compiling(self, *, by_torch: bool = True) -> Compilation:
        """`by_torch`: whether it is sure by now that torch computes the steps, and not another
        framework beside it. Raises ArmError where that should be on a GPU and is not."""
        if self._compilation is None:
            from compilegate.job.script.compilation import Compilation  # noqa: PLC0415 - torch

            compilation = Compilation(self.told, self._launched)
            compilation.note_optimizers(self._course)
            self._course.watch_losses(lambda: compilation.require_fresh_gradients(self._course))
            self._compilation = compilation
        if by_torch and not self._on_accelerator:
            self._compilation.require_accelerator()
            self._on_accelerator = True
        return self._compilation

    def before_first_step(self) -> None:
        """Say that it compiles, to whoever waits meanwhile: it may take minutes."""
        self._say_of_first_step(COMPILING_LINE)

    def _say_of_first_step(self, line: str) -> None:
        if self.compiler != "eager" and self._launched.first:
            print(line, flush=True)

    def step_device(self) -> Optional[torch.device]:
        """Where the steps compute; None for a program without torch."""
        return self._compiling(by_torch=False).steps_on if "torch" in sys.modules else None

    def graphs_compiled(self) -> int:
        """How many graphs were compiled so far."""
        if self._framework is not None:
            return self._framework.graphs()
        return 0 if self._compilation is None else self._compilation.compiler.graphs()

    def end_of_step(self) -> int:
        """The last part of a step; returns how many graphs were compiled so far."""
        compilation = self._compilation
        if compilation is None:
            return self.graphs_compiled()
        compiler = compilation.compiler
        compiler.end_step()
        return compiler.graphs() if self._framework is None else self._framework.graphs()

    @property
    def compiles_anywhere(self) -> bool:
        """Whether graphs come between steps, too, without anything of the job being called."""
        compilation = self._compilation
        traces = compilation is not None and compilation.compiler.compiles_whole_steps
        return self._framework is not None or traces

    def after_step(self) -> bool:
        """What follows a step, and is part of none; whether anything did. Raises InputError after
        the first one in an arm that has a compiler, where nothing was given to it."""
        compilation = self._compilation
        if self._course.own_step == 1:
            self._say_of_first_step(COMPILED_LINE)
            self.require_compiled()
            self._say_precision()
        elif self._course.own_step == DEFAULT_PARITY_STEPS and compilation is not None:
            self._say_uncalled(compilation)
        ready = [] if compilation is None else compilation.ready()
        if compilation is None or not ready:
            early = self.compiler != "eager" and self._course.own_step < DEFAULT_PARITY_STEPS
            self._course.probes_wait = early or compilation is None or compilation.awaits_calls
            return False
        if compilation.compiler.compiles_whole_steps:
            for each in ready:  # a probe between steps would be traced with them
                each.keep_no_more()
        else:
            self._probes.compare_arithmetic(compilation, ready, self.precision)
        return True

    def require_compiled(self) -> None:
        """A job that compiles nothing would be judged for eager's work. Raises InputError where an
        arm with a compiler is such a job."""
        compilation = self._compilation
        if self.compiler == "eager" or self._framework is not None:
            return
        if compilation is None or not compilation.dispatches:
            raise InputError(
                f"the arm's compiler is {self.compiler}, and the script compiled nothing; say "
                "model = job.compile(model) before the training loop"
            )

    def _say_precision(self) -> None:
        """That the steps have another precision than the arm, as soon as it shows."""
        trained = self.trained_precision
        if trained == self.precision:
            return
        if self.told.alone:
            trains = trains_in(trained, autocast=self.under_autocast)
            self.note(
                f'{trains}: say precision = "{trained}" in each [arms.NAME] of its workload, where '
                f"it is {self.precision} otherwise."
            )
        else:
            self.note(
                otherwise_declared(
                    trained, self.precision, [self.arm], autocast=self.under_autocast
                )
                + "."
            )

    def _say_uncalled(self, compilation: Compilation) -> None:
        """The job fails at its end, unless the functions are called by then: to be known now."""
        if any(each.compiled_calls for each in compilation.dispatches) or not self.world.first:
            return
        for each in compilation.dispatches:
            print(
                f"compilegate: {each.part.name} was given to job.compile() and was not called in "
                f"the first {DEFAULT_PARITY_STEPS} steps; call the model that job.compile() "
                "returned, inside of the loop over job.steps(loader) or of job.step()",
                flush=True,
            )

    def _bring(self, loader: Iterable[Any]) -> Iterable[Any]:
        return loader if self._compilation is None else self._compilation.compiler.batches(loader)

    def _see_loader(self, batch_size: Any) -> None:
        """A script may pay no attention to the batch size that it was told."""
        told = self.told.batch_size
        if type(batch_size) is int and told is not None and batch_size != told:
            self._own_batch_size = batch_size
            self.note(
                f"The job was told batch_size = {told}, and the loader takes {batch_size}, which "
                "is what the evidence says; give the loader job.batch_size, or the script's own "
                "argument that is declared for it."
            )

    def _see_batch(self, size: Optional[int]) -> None:
        if self._seen_batch_size is None:
            self._seen_batch_size = size


def _profiled(told: Told) -> Told:
    """A job that is profiled ends after some steps: nothing is probed or timed in turns."""
    from compilegate.job.profiling.session import current  # noqa: PLC0415 - torch, and seldom

    session = current()
    session.arm = None if told.alone else told.arm
    session.compiler, session.batch_size = told.compiler, told.batch_size
    return replace(told, parity_steps=0, speed_probe_seconds=0, baseline=None)
