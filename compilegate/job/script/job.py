"""One training job, as its script sees it: a clock, compiled functions, probes, and the evidence
that it writes when the script ends."""

from __future__ import annotations

import hashlib
import math
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    ContextManager,
    Iterable,
    Mapping,
    Sequence,
    TypeVar,
)

import numpy as np
import numpy.typing as npt

from compilegate.job import contract
from compilegate.job.compilers.failures import explained
from compilegate.job.endings import EXCEPTION, NOT_MEASURED, WRONG_ARITHMETIC, of_exception
from compilegate.job.errors import ArmError, InputError, one_sentence
from compilegate.job.evidence import (
    CompilerRecord,
    Evidence,
    PaddingRecord,
    Scalar,
    SpeedRecord,
    record_failure,
    write_evidence,
)
from compilegate.job.evidence.parity import coarsest, otherwise_declared, trains_in
from compilegate.job.evidence.record import RULES
from compilegate.job.evidence.writing import TrainedRows
from compilegate.job.files import folder_digest, settings_digest
from compilegate.job.machine.accelerators import this_machine
from compilegate.job.machine.environment import checkup, describe_machine
from compilegate.job.machine.world import World, announce_last_step, announced_last_step, world_of
from compilegate.job.script.config import JobConfig
from compilegate.job.script.example_rows import ExampleRows, example_metrics
from compilegate.job.script.probes import Probes
from compilegate.job.script.saved_model import State, save_into, state_of
from compilegate.job.script.step_times import Measured
from compilegate.job.script.steps import (
    LOG_EVERY,
    Clock,
    Failures,
    LoaderSteps,
    TrainingLoop,
    harmless,
    watch_backward,
)

if TYPE_CHECKING:
    import torch

    from compilegate.job.script.compiled import Compilation, Dispatch

LEFT_TO_EAGER = "left_to_eager"
"""In a compiler's proof: what it was given and left to eager mode, and why."""
NO_DATA = hashlib.sha256(b"no data channel").hexdigest()
_IMPORTED = time.perf_counter()
_Number = TypeVar("_Number", int, float)


class Job:
    """One training job: one arm, one seed. A process has one; `compilegate.job.start` makes it."""

    def __init__(self, config: JobConfig, *, log_every: int | None = None, shapes: int = 1) -> None:
        """`log_every` and `shapes` as `start` has them."""
        self.config = config = (
            _profiled(config) if os.environ.get(contract.PROFILE_VARIABLE) else config
        )
        self._launched = world_of(os.environ)
        self._notes: list[str] = []
        self.failures = Failures(self.note)
        self._loop = TrainingLoop(
            self, log_every=log_every or LOG_EVERY, shapes=shapes, started=_started()
        )
        self._compilation: Compilation | None = None
        self._framework: Any = None
        self._probes = Probes(config)
        self._probes_wait = True  # whether something may follow a step
        # After which step all processes end, since the arithmetic is wrong; -1: after none.
        self._ends_after: int | None = None  # None: that is open
        self._own_batch_size: int | None = None  # the loader's, where the configuration has another
        self._accumulate = 1
        self._on_accelerator = False  # whether torch was seen to compute where it should
        self._evaluation: tuple[str, str] | None = None  # place and precision, by the script
        self._settings: dict[str, Scalar] = {}
        self._rows, self._rows_at_step = ExampleRows(), -1
        self._metrics: dict[str, float] = {}
        self._trained = TrainedRows()
        self._evaluated: State = {}
        self._model_digest: str | None = None
        self._padding: PaddingRecord | None = None
        self._ended = time.time()
        self._finished = False
        if os.environ.get(contract.MACHINE_VARIABLE):
            described = this_machine().described
            self.note(
                f"This is a rehearsal: {contract.MACHINE_VARIABLE} describes another machine "
                f"({described}), and this one's processor computed in its place, so no time and no "
                "memory here is that machine's; leave the variable out to train for real."
            )

    # Its configuration.

    @property
    def arm(self) -> str:
        """The arm's name."""
        return self.config.arm

    @property
    def compiler(self) -> str:
        """The arm's compiler; `eager` is none."""
        return self.config.compiler

    @property
    def seed(self) -> int:
        """The replicate's."""
        return self.config.seed

    @property
    def batch_size(self) -> int:
        """Examples that each process takes in a step. Raises InputError where nobody set it."""
        return _required(self.config.batch_size, "batch_size")

    @property
    def learning_rate(self) -> float:
        """Raises InputError where nobody set it."""
        return _required(self.config.learning_rate, "learning_rate")

    @property
    def precision(self) -> str:
        """fp32, bf16 or fp16: the arm's, which the script trains in by `autocast`."""
        return self.config.precision or "fp32"

    @property
    def model_folder(self) -> Path:
        """Where `save` writes."""
        return self.config.model

    @property
    def world(self) -> World:
        """The processes that train together, and this one's place."""
        return self._launched if self._compilation is None else self._compilation.world

    # Where it computes, and in what.

    @property
    def device(self) -> torch.device:
        """Where the model and its batches belong: the compiler's device, a GPU, or the CPU."""
        return self._compiling().steps_on

    @property
    def accelerator(self) -> str:
        """Where the steps compute: cuda, neuron or cpu, whatever a compiler calls its device."""
        return self._compiling().place

    @property
    def evaluation_device(self) -> torch.device:
        """Where to evaluate the trained model: the same place for all arms, a GPU unless one of
        their compilers keeps it to itself."""
        return self._compiling().evaluates_on

    def evaluated(self, device: torch.device, precision: str = "fp32") -> None:
        """A model that the job did not compile, such as the saved one, is evaluated there and in
        that precision."""
        self._evaluation = self._compiling().evaluation_place(device), precision

    def autocast(self) -> ContextManager[Any]:
        """Mixed precision as the arm has it, for the forward pass."""
        from compilegate.job.machine.numerics import autocast  # noqa: PLC0415 - torch

        return autocast(self.precision, self.device)

    @property
    def compiles_whole_steps(self) -> bool:
        """Whether the compiler makes one graph of a step, update and all: see `step`."""
        return self._compiling().compiler.compiles_whole_steps

    @property
    def peak_memory_bytes(self) -> int | None:
        """The most memory that the steps held so far; None where nobody counts it."""
        return self._probes.peak_memory(self._compiling())[0]

    # What it compiles.

    def compile(
        self, function: Any, module: Any = None, *, graph: Mapping[str, Scalar] | None = None
    ) -> Any:
        """Compile a model, or any function that returns a loss or outputs, as the arm says.

        A module stays the same object: its forward pass is the compiled one within a training step,
        and its own elsewhere. Of a function, the compiled one is returned; `module` holds its
        parameters, where that is not plain. `graph` says what decides the compiled code, for jobs
        that may share it; by default the whole configuration. Raises InputError for what cannot be
        compiled, CompilerError where the compiler is not available.
        """
        compilation = self._compiling()
        keeps = self._probes.steps_to_keep if compilation.world.first else 0
        self._probes_wait = True
        return compilation.compile(function, module, keeps=keeps, graph=graph)

    def distributed(self, model: Any, **options: Any) -> Any:
        """The model as the job's processes train it together: wrapped in DistributedDataParallel
        with these `options`, unless FSDP has divided it.

        A step's loss is the mean of the processes'. All have the arm's seed; a script that wants
        other dropout masks in each seeds by `world.rank`. A compiler of whole steps averages by
        itself, see `step`. Raises InputError where torch.distributed was not initialised.
        """
        return self._compiling().distributed(model, **options)

    def compiled_by(self, framework: Any) -> None:
        """The framework compiles the steps itself. It has a compiler's `graphs` and `record`, and
        `obstacle`: why the probes cannot replay its code, or None."""
        self._framework = framework
        obstacle = framework.obstacle()
        if obstacle is not None:
            self._probes.set_obstacle(obstacle, self.precision)

    # Its steps.

    def steps(
        self, loader: Iterable[Any] | None = None, *, accumulate: int = 1, ragged: str = "drop"
    ) -> LoaderSteps:
        """The loader's batches, each a training step, or `accumulate` of them together; endless
        without a loader. Where steps are traced (XLA), batches come on the device.

        A smaller last batch would be another graph and is left out, unless `ragged` is "keep" or
        the script was started by hand without a compiler.
        """
        if ragged not in ("drop", "keep"):
            raise InputError(f"job.steps(ragged={ragged!r}), expected 'drop' or 'keep'")
        self._accumulate = accumulate
        taken, config = getattr(loader, "batch_size", None), self.config.batch_size
        if type(taken) is int and config is not None and taken != config:
            self._own_batch_size = taken
            self.note(
                f"The job's batch_size is {config} and the loader's {taken}, which the evidence "
                "records; give the loader job.batch_size, or the script's own argument that is "
                "declared for it."
            )
        drops = ragged == "drop" and not (self.config.alone and self.compiler == "eager")
        return LoaderSteps(loader, self, self._loop, accumulate=accumulate, drops=drops)

    def step(
        self, take: Callable[[], Any] | None = None, update: Callable[[], Any] | None = None
    ) -> Any:
        """``with job.step():`` a training step; or ``job.step(function)``, which returns the
        function's result: a loss becomes the step's.

        A compiler of whole steps makes one graph of the function, which may not look at a value.
        With several processes give it two functions: `take` calls `backward` and returns the loss,
        `update` changes the weights; gradients are averaged in between.
        """
        loop = self._loop
        if take is None:
            return loop.one()
        compiler = self._compiling().compiler
        with loop.one():
            result, mean_loss = compiler.take_step(loop.step, take, update)
            if mean_loss is not None:
                self.loss(mean_loss)
            elif loop.losses.current is None and getattr(result, "numel", lambda: 0)() == 1:
                self.loss(result)
        return result

    def begin_step(self) -> None:
        """A step begins: for loops that are not the script's own."""
        self._loop.begin()

    def end_step(self) -> None:
        """The step that `begin_step` began ends."""
        self._loop.end()

    def loop(self, *, accumulate: int = 1, batch_size: int | None = None) -> TrainingLoop:
        """The steps of a framework's loop, for callbacks. A process takes `batch_size` at once,
        `accumulate` times before the weights change."""
        self._accumulate = accumulate
        self._loop.batch_size = batch_size or self._loop.batch_size
        return self._loop

    @property
    def steps_taken(self) -> int:
        """Training steps so far, those before an interruption included."""
        return self._loop.step

    def loss(self, value: Any) -> None:
        """Set the loss of this step, a tensor or a number, where `backward` is not called on it."""
        self._loop.set_loss(value)

    def latest_loss(self) -> float | None:
        """The last loss that is known without waiting for a device."""
        return self._loop.losses.latest

    def losses(self) -> Sequence[float]:
        """Those of all steps; waits for them. Raises NonFiniteLossError."""
        return self._loop.losses.values()

    def checkpoint(self) -> ContextManager[dict[str, Any]]:
        """``with job.checkpoint() as state:`` between two steps: write a checkpoint that holds
        `state`, a JSON object, for `resume`. Raises NonFiniteLossError."""
        return self._loop.checkpoint()

    def resume(self, state: Mapping[str, Any] | None = None, *, ignored: str | None = None) -> None:
        """Go on from a checkpoint, before the first step: `state` from `checkpoint`, or None, of
        which `ignored` says why. Raises InputError."""
        self._loop.go_on_from(state, ignored)

    def settings(self, **values: Scalar) -> None:
        """Record what the script itself decided, such as its warm-up steps. The gate compares it
        among arms."""
        self._settings.update(values)

    def shapes(self, count: int) -> None:
        """The steps have `count` shapes, each a graph of its own; as `start(shapes=...)`, before
        the first step."""
        self._loop.declared_shapes = count

    def padding(self, record: PaddingRecord) -> None:
        """What padding texts to few lengths costs the training."""
        self._padding = record

    def note(self, sentence: str) -> None:
        """Something that the report should say, with what to do."""
        if sentence not in self._notes:
            self._notes.append(sentence)
            if self._launched.first:
                print(f"compilegate: {sentence}", flush=True)

    # Its results.

    @harmless
    def examples(
        self,
        *,
        ids: Any = None,
        labels: Any = None,
        scores: Any = None,
        logits: Any = None,
        losses: Any = None,
        targets: Any = None,
        predictions: Any = None,
        slices: Any = None,
        inputs: Any = None,
    ) -> None:
        """What the trained model makes of validation examples: all, or batch by batch.

        `ids` name them, the same in every job. Classes: `labels` (indices from 0) and `scores`
        (probabilities) or `logits`, a row for each example. Numbers: `targets` and `predictions`.
        `losses`, one for each, follow from these or are given, as by a language model. `slices` are
        categories, by column name. `inputs` are what the model is given (texts, or rows of an
        array); their hashes are kept, to count equal ones once and to find training data. A later
        evaluation replaces an earlier one. Raises InputError for what is missing or does not fit.
        """
        if self._rows_at_step != self._loop.step or self._rows.begins_with(ids):
            self._rows, self._rows_at_step = ExampleRows(), self._loop.step
        tables = {"labels": labels, "scores": scores, "logits": logits, "losses": losses}
        numbers = {"targets": targets, "predictions": predictions}
        self._rows.add(ids=ids, slices=slices, inputs=inputs, **tables, **numbers)
        self._evaluated, self._ended = self._state(), time.time()

    @harmless
    def positions(self, count: int) -> npt.NDArray[np.str_]:
        """Ids of the next `count` examples by their place, for validation data that always come in
        the same order. Another evaluation of the same data replaces the first."""
        if self._rows_at_step != self._loop.step:
            self._rows, self._rows_at_step = ExampleRows(), self._loop.step
        first, self._rows.by_place = self._rows.rows, True
        return np.arange(first, first + count).astype(np.str_)

    @harmless
    def metrics(self, **values: Any) -> None:
        """Metrics of the trained model, as fractions; beside examples, or instead of them."""
        self._metrics.update({name: float(value) for name, value in values.items()})
        self._evaluated, self._ended = self._state(), time.time()

    def forget_results(self) -> None:
        """An evaluation begins, and replaces an earlier one."""
        self._rows, self._metrics = ExampleRows(), {}

    @property
    def _has_results(self) -> bool:
        return bool(self._metrics) or self._rows.rows > 0

    @property
    def has_current_results(self) -> bool:
        """Whether there are examples or metrics of the model as it is now."""
        return self._has_results and self._evaluated == self._state()

    @harmless
    def trained_on(self, *, ids: Any = None, inputs: Any = None, slices: Any = None) -> None:
        """What the training examples are: their `ids`, `inputs` or categories (`slices`), at once
        or batch by batch. Hashes are kept, of very many a sample; with them the gate finds
        validation examples that were trained on. Raises InputError where none is given."""
        if ids is None and inputs is None and slices is None:
            raise InputError(
                "job.trained_on() was given neither ids nor inputs nor slices; expected one"
            )
        self._trained.add(ids, inputs, slices)

    def save(self, model: Any) -> None:
        """Save the trained model for the release: a module, or a function that is called with the
        folder and writes the model's files.

        A module is saved as safetensors, without wrappers, and holds afterwards what the file
        holds. It has to be what was evaluated: raises InputError where it was trained on in
        between. Every process calls this; the first one writes.
        """
        if self.failures.broken is None:
            if not self._loop.step:
                raise InputError(
                    "job.save() was called before any training step was counted; loop over "
                    "job.steps(loader), or put each step inside of job.step()"
                )
            self.require_compiled_calls()
            if self._has_results and not self.has_current_results:
                raise InputError(
                    "job.save() was given a model that has changed since it was evaluated; "
                    "evaluate it after the last step, or after loading the weights that are to be "
                    "saved"
                )
            self.losses()  # one that is not finite is known by now
        digest = save_into(self.config.model, model, write=self.world.first)
        self._model_digest = digest or self._model_digest
        # The file was read back: the same bits, written anew.
        self._evaluated, self._ended = self._state(), time.time()

    def finish(self) -> None:
        """Run the last probe and write the evidence; the script's end does it otherwise. Raises
        InputError where something is missing, and where a baseline was not measured."""
        if self._finished:
            return
        self._finished = True
        if not self.world.first:
            return
        broken = self.failures.broken
        if broken is not None:
            if not self.config.alone and not self.config.is_candidate:
                raise InputError(f"the job was not measured to its end: {broken}")
            record_failure(self.config.output, self._failure(broken, NOT_MEASURED.name))
            return
        if self._model_digest is None or not self._has_results:
            results = "job.examples(ids=..., ...) or job.metrics(...)"
            missing = "job.save(model)" if self._model_digest is None else results
            raise InputError(
                f"the script ended without {missing}, so there is nothing to judge; call it "
                "after the last step"
            )
        self._write_evidence()

    def fail(self, error: BaseException | None = None) -> bool:
        """End a failing job: its loaded cache is discarded. Where failures are recorded and `error`
        is its arm's, write that as evidence; returns whether. Of torchrun's processes the
        supervisor records the first that fails."""
        self._finished = True
        self._distrust_cache()
        alone = self.world.alone or (self._launched.alone and isinstance(error, ArmError))
        if error is None or isinstance(error, InputError) or not alone:
            return False
        if self.config.on_failure != "record" or os.environ.get(contract.FAILURE_NOTE_VARIABLE):
            return False  # its supervisor decides whether it is started again
        if self.world.first:
            ending = of_exception(one_sentence(error)) or EXCEPTION
            record_failure(self.config.output, self._failure(explained(error), ending.name))
        return True

    def compare_speed(self) -> None:
        """Run the paired speed probe now instead of in `finish`: for a framework that moves its
        model away after training."""
        if not self.world.first or self._compilation is None:
            return
        with self.failures.tolerated("the probe of paired speed"):
            seconds = float(np.sum(self._loop.seconds()))
            batch_size = self._batch_size()
            self._probes.compare_speed(self._compilation, seconds, self.precision, batch_size)

    # What the steps call.

    def _compiling(self, *, by_torch: bool = True) -> Compilation:
        """The compilation, made if needed. `by_torch`: torch surely computes the steps. Raises
        ArmError where that should be on a GPU and is not."""
        if self._compilation is None:
            from compilegate.job.script.compiled import Compilation  # noqa: PLC0415 - torch

            self._compilation = Compilation(self.config, self._launched, self._loop)
            watch_backward(self._loop)
        if by_torch and not self._on_accelerator:
            self._compilation.require_accelerator()
            self._on_accelerator = True
        return self._compilation

    @property
    def _dispatches(self) -> list[Dispatch]:
        return [] if self._compilation is None else self._compilation.dispatches

    def clock(self) -> Any:
        """The clock for the steps of this process, the first of which begins."""
        self._print_compiling(contract.COMPILING_LINE)  # that may take minutes
        if "torch" not in sys.modules:
            return Clock()
        clock = Clock(self._compiling(by_torch=False).steps_on)
        if not os.environ.get(contract.PROFILE_VARIABLE):
            return clock
        from compilegate.job.profiling.session import ProfiledClock, current  # noqa: PLC0415

        current().padding = self._padding
        return ProfiledClock(clock, current())

    def _print_compiling(self, line: str) -> None:
        if self.compiler != "eager" and self._launched.first:
            print(line, flush=True)

    def device_batches(self, loader: Iterable[Any]) -> Iterable[Any]:
        """The loader's batches; where steps are traced, on the device."""
        return loader if self._compilation is None else self._compilation.compiler.batches(loader)

    def graphs_compiled(self) -> int:
        """By the framework or the compiler, so far."""
        if self._framework is not None:
            return int(self._framework.graphs())
        return 0 if self._compilation is None else self._compilation.compiler.graphs()

    def before_backward(self) -> None:
        """The script is about to call `backward`, in one of the first steps."""
        if self._compilation is not None:
            self._compilation.require_fresh_gradients()

    def end_of_step(self) -> int:
        """The last part of a step; returns how many graphs were compiled so far."""
        if self._compilation is not None:
            self._compilation.compiler.end_step()
        return self.graphs_compiled()

    def after_step(self) -> None:
        """Probe, after the first steps. Raises InputError where nothing was given to the arm's
        compiler; SystemExit where the arithmetic is wrong and the job is to end."""
        if not self._probes_wait:
            return
        compilation, step = self._compilation, self._loop.process_step
        if step == 1:
            self._print_compiling(contract.COMPILED_LINE)
            self.require_compiled_calls(later=True)
            self._note_precision()
        if compilation is None:
            self._probes_wait = False
            return
        called = any(each.compiled_calls for each in self._dispatches)
        if step == contract.DEFAULT_PARITY_STEPS and not called:
            for each in compilation.uncalled():  # the job fails at its end, unless they are by then
                self.note(each)
        ready = compilation.ready()
        if ready and compilation.compiler.compiles_whole_steps:
            for dispatch in ready:  # a probe between steps would be traced with them
                dispatch.end_capture()
        elif ready:
            self._probes.compare_arithmetic(compilation, ready, self.precision)
        awaits_calls = any(each.keeps for each in self._dispatches)
        probed = self._probes.is_wrong or (called and not awaits_calls)
        if probed and self.world.first and self._ends_after is None:
            self._decide()
        self._end_if_decided()
        early = self.compiler != "eager" and step < contract.DEFAULT_PARITY_STEPS
        is_open = self._ends_after is None or self._ends_after > self._loop.step
        self._probes_wait = early or awaits_calls or (self._stops_together and is_open)

    # A candidate that is wrong.

    @property
    def _stops_if_wrong(self) -> bool:
        return self.config.is_candidate and self.config.on_wrong == contract.ON_WRONG[0]

    @property
    def _stops_together(self) -> bool:
        """Whether several processes have to end after the same step, if the arithmetic is wrong."""
        return self._stops_if_wrong and self.world.size > 1 and self._probes.steps_to_keep > 0

    def _decide(self) -> None:
        """Whether the job goes on, after the first process has run the parity probe."""
        self._ends_after = -1
        if self._stops_if_wrong and self._probes.is_wrong:
            self._probes.collect()  # a difference that is not reproduced is not wrong
        if self._stops_if_wrong and self._probes.is_wrong:
            # The others are in the next step by now, and wait for this process in it.
            self._ends_after = self._loop.step + (0 if self.world.alone else 1)
        elif self._probes.is_wrong:
            by_hand = "it was started by hand; in a pipeline a candidate ends here"
            why = 'on_wrong is "go-on"' if self.config.is_candidate else by_hand
            self.note(f"The parity probe found errors, and the training goes on: {why}.")
        if self._stops_together:
            announce_last_step(self._ends_after)

    def _end_if_decided(self) -> None:
        """End the process where the job is decided to end after this step."""
        loop, parity = self._loop, self._probes.parity
        if self._ends_after is None and self._stops_together:
            self._ends_after = announced_last_step()
        if self._ends_after != loop.step:
            return
        self._finished = True
        self._distrust_cache()
        if self.world.first:
            departs = "" if parity is None or parity.departs is None else f": {parity.departs}"
            reason = (
                f"the compiled arithmetic is WRONG, so the job ended after step {loop.step}, "
                f"{time.time() - loop.job_started:.0f} s after it began "
                f'(on_wrong = "go-on" in the workload keeps it running)'
                f"{departs}"
            )
            print(f"compilegate: {reason}", flush=True)
            evidence = replace(self._failure(reason, WRONG_ARITHMETIC.name), parity=parity)
            write_evidence(self.config.output, evidence, parity=self._probes.errors)
        raise SystemExit(0)

    # What a script has to do.

    def require_compiled_calls(self, *, later: bool = False) -> None:
        """Raise InputError where compiled code was never called: the job would be judged for
        eager's work. `later`: calls may still come."""
        compilation = self._compilation
        if self.compiler == "eager" or self._framework is not None:
            return
        if compilation is None or not compilation.dispatches:
            raise InputError(
                f"the arm's compiler is {self.compiler}, and the script compiled nothing; call "
                "model = job.compile(model) before the training loop"
            )
        if later:
            return
        for problem in compilation.uncalled():
            raise InputError(problem)
        for each in compilation.dispatches:
            if not each.compiled_calls:
                self.note(
                    f"{each.part.name} was called without gradients alone, as a teacher is, and so "
                    "was not compiled; its calls are part of the steps, and no probe looks at them."
                )

    def _trained_in(self) -> tuple[str, bool]:
        """The precision of the steps, or the arm's where it does not show; and whether autocast
        makes it so."""
        called = [each for each in self._dispatches if each.compiled_calls]
        known = [each.precision for each in called if each.precision is not None]
        if len(known) < len(called) or not called:
            parity = self._probes.parity if self._probes.errors is not None else None
            known.append(self.precision if parity is None else parity.precision)
        return coarsest(known), any(each.under_autocast for each in called)

    def _note_precision(self) -> None:
        """That the steps have another precision than the arm, as soon as it shows."""
        trained, autocast = self._trained_in()
        if trained == self.precision:
            return
        found = otherwise_declared(trained, self.precision, [self.arm], autocast=autocast)
        if self.config.alone:
            found = (
                f'{trains_in(trained, autocast=autocast)}: set precision = "{trained}" in each '
                f"[arms.NAME] of its workload, where it is {self.precision} otherwise"
            )
        self.note(f"{found}.")

    # Its evidence.

    def _write_evidence(self) -> None:
        """Run what is left of the probes, and write all that the job has at its end."""
        config, loop, probes = self.config, self._loop, self._probes
        compilation = self._compilation
        if compilation is None and "torch" in sys.modules:
            compilation = self._compiling(by_torch=False)
        whole_steps = compilation is not None and compilation.compiler.compiles_whole_steps
        measured = Measured(loop, second_graph=whole_steps)
        peak, memory_of = probes.peak_memory(compilation)
        batch_size = self._batch_size()
        together = batch_size * self._accumulate * self._together
        # Loading the compiler and its cache is part of both the compile and the train seconds.
        loading = 0.0 if compilation is None or self.compiler == "eager" else compilation.seconds
        compiler = CompilerRecord(name="eager", ran=False)
        maker = self._framework or (None if compilation is None else compilation.compiler)
        if maker is not None:  # of the training, not of the last probes
            compiler = maker.record(measured.compile_seconds + loading, measured.recompilations)
        if compilation is not None:
            if whole_steps:  # modules come back from a device that takes nothing else
                for part in compilation.parts:
                    part.module.to("cpu")
            left = compilation.ready(over=True)
            if left or probes.parity is None:  # not all was called often enough before
                probes.compare_arithmetic(compilation, left, self.precision)
        self._note_compiled(compiler)
        self.compare_speed()
        probes.collect()
        examples = self._rows.examples() if self._rows.rows else None
        first_step = float(measured.steps.seconds[0])
        checkpoints, writing = loop.checkpoints, 0.0
        if checkpoints is not None:
            checkpoints = replace(checkpoints, resumed=measured.resumptions)
            writing = checkpoints.seconds
        speed = SpeedRecord(
            samples_per_second=measured.samples_per_second(together),
            steady_from=measured.steady_from,
            train_seconds=loading + measured.train_seconds + writing,
            total_seconds=self._ended - loop.job_started - probes.seconds_before(self._ended),
        )
        attempts = os.environ.get(contract.EARLIER_ATTEMPTS_VARIABLE, "")
        varies = bool(compiler.options.get("dynamic_shapes"))
        slowdowns = loop.slowdowns.found(
            declared_shapes=math.inf if varies else loop.declared_shapes,
            graphs=None if compilation is None else compilation.graph_log,
            compiled_again=compiler.recompilations > 0,
        )
        evidence = Evidence(
            job=config.job,
            arm=config.arm,
            seed=config.seed,
            attempts=tuple(filter(None, attempts.split(","))),
            recipe=self._recipe(batch_size, together),
            compiler=compiler,
            speed=speed,
            metrics={**({} if examples is None else example_metrics(examples)), **self._metrics},
            peak_memory_bytes=peak,
            memory_of=memory_of,
            environment=self._environment(),
            digests={
                "data": config.data_digest or _data_digest(os.environ),
                "config": config.config_digest,
                "model": self._model_digest or "",
            },
            parity=probes.parity,
            paired_speed=probes.speed,
            compile_cache=None
            if compilation is None
            else compilation.keep_compiled(compiler.compile_seconds, first_step),
            checkpoints=checkpoints,
            padding=self._padding,
            notes=(*self._notes, *measured.notes()),
            hindrances=tuple(
                replace(each, rule=RULES[each.kind])
                for each in (*measured.slow_loader(), *slowdowns)
            ),
            checkup=checkup(),
        )
        write_evidence(
            config.output,
            evidence,
            measured.steps,
            examples,
            probes.errors,
            paired=probes.blocks,
            trained_on=self._trained.trained_on(),
        )
        _print_figures(evidence, speed, compiler)
        if config.alone:
            print(f"compilegate: the model is in {config.model}, the evidence in {config.output}")

    def _failure(self, reason: str, ending: str) -> Evidence:
        # Without a compilation, its compiler may be what failed.
        compiled = self._compilation
        compiler = None if compiled is None else compiled.compiler.record(0.0, 0)
        return self.config.failure(
            reason, ending=ending, compiler=compiler, environment=self._environment()
        )

    def _environment(self) -> Mapping[str, Scalar]:
        place = None if self._compilation is None else self._compilation.place
        return describe_machine(this_machine(), place, os.environ)

    def _distrust_cache(self) -> None:
        if self._compilation is not None and self._compilation.cache is not None:
            self._compilation.cache.discard_loaded()

    def _state(self) -> State:
        """The state of the compiled modules; empty for sharded ones."""
        if any(each.is_sharded for each in self._dispatches):
            return {}
        return {
            f"{each.part.name}.{name}": state
            for each in self._dispatches
            for name, state in state_of(each.part.module).items()
        }

    def _note_compiled(self, compiler: CompilerRecord) -> None:
        """What is to be noted of what was compiled."""
        for each in self._dispatches:
            if each.left_out is not None:
                self.note(each.left_out)
        if self.compiler == "eager" and compiler.ran:
            self.note(
                "The script compiles by itself, in an arm that has no compiler, which the gate "
                "refuses; leave torch.compile out, and let job.compile() do what the arm declares."
            )
        elif self.compiler != "eager" and (not compiler.ran or LEFT_TO_EAGER in compiler.proof):
            why = compiler.proof.get(LEFT_TO_EAGER, "no graph was compiled")
            self._probes.set_obstacle(f"it did not run compiled: {why}", self.precision)
            self.note(f"The model did not run compiled ({why}), so nothing here is the compiler's.")

    def _batch_size(self) -> int:
        seen = [self._loop.batch_size, *(each.batch_size for each in self._dispatches)]
        size = self._own_batch_size or self.config.batch_size or next(filter(None, seen), None)
        if size is None:
            raise InputError(
                "the job's batch size is not set, and no batch shows it; call "
                "job.start(batch_size=...)"
            )
        return size

    @property
    def _together(self) -> int:
        """Batches of a step: one for each process, or for each accelerator of one process."""
        return self.world.size * self.config.replicas

    def _recipe(self, batch_size: int, together: int) -> dict[str, Scalar]:
        precision, autocast = self._trained_in()
        performed: dict[str, Scalar] = {
            "batch_size": batch_size,
            "steps": self._loop.step,
            "world_size": self._together,
            "global_batch_size": together,
            "precision": precision,
        }
        if autocast:
            performed[contract.AUTOCAST] = precision
        compilation = self._compilation
        if compilation is not None:
            performed["device"] = compilation.place
            evaluation = self._evaluation or compilation.observed_evaluation()
            if evaluation is not None:
                performed["evaluated_on"], performed["evaluated_in"] = evaluation
        return {**self.config.recipe, **performed, **self._settings}


def _required(value: _Number | None, name: str) -> _Number:
    if value is None:
        raise InputError(
            f"the job's {name.replace('_', ' ')} is not set; call job.start({name}=...) in a "
            "script that is started by hand"
        )
    return value


def _profiled(config: JobConfig) -> JobConfig:
    """A job that is profiled ends after some steps: nothing is probed or timed in turns."""
    from compilegate.job.profiling.session import current  # noqa: PLC0415 - torch, and seldom

    session = current()
    session.arm = None if config.alone else config.arm
    session.compiler, session.batch_size = config.compiler, config.batch_size
    return replace(config, parity_steps=0, speed_probe_seconds=0, baseline=None)


def _started() -> float:
    """When the job's first process started, as `time.time` counts."""
    config = os.environ.get(contract.JOB_STARTED_VARIABLE)
    ago = time.monotonic() - float(config) if config else time.perf_counter() - _IMPORTED
    return time.time() - ago


def _data_digest(environment: Mapping[str, str]) -> str:
    """sha256 of all files in the job's channels."""
    channels = {
        name: folder_digest(Path(folder))
        for name, folder in sorted(environment.items())
        if name.startswith("SM_CHANNEL_") and Path(folder).is_dir()
    }
    return settings_digest(channels) if channels else NO_DATA


def _print_figures(evidence: Evidence, speed: SpeedRecord, compiler: CompilerRecord) -> None:
    for name, value in evidence.metrics.items():
        print(f"validation:{name}={value:.6f}")
    print(f"train:steady_samples_per_second={speed.samples_per_second:.2f}")
    print(f"train:compile_seconds={compiler.compile_seconds:.3f}", flush=True)
