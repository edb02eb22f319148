"""The job that a training script is part of, as the script sees it."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Dict, List, Optional

import numpy as np
import numpy.typing as npt

from compilegate.job.compilers.failures import explained
from compilegate.job.endings import EXCEPTION, of_exception
from compilegate.job.errors import ArmError, InputError, one_sentence
from compilegate.job.evidence import (
    CompilerRecord,
    Hindrance,
    PaddingRecord,
    Scalar,
    Steps,
    TrainedOn,
    record_failure,
)
from compilegate.job.evidence.trained_on import SeenRows, hashed_categories
from compilegate.job.machine.accelerators import this_machine
from compilegate.job.machine.environment import describe_machine
from compilegate.job.names import AUTOCAST, FAILURE_NOTE_VARIABLE
from compilegate.job.script.finishing import Framework, Gathered, Measured, write_finished
from compilegate.job.script.results import ExampleRows, hashed_rows
from compilegate.job.script.saving import State, save_into, state_of
from compilegate.job.script.sharded import savable
from compilegate.job.script.told import Told
from compilegate.job.script.training import Training


class Job(Training):
    """One training job: one arm, one seed. A process has one; `compilegate.job.start` makes it."""

    def __init__(self, told: Told, *, log_every: Optional[int] = None, shapes: int = 1) -> None:
        """As `Training`."""
        super().__init__(told, log_every=log_every, shapes=shapes)
        self._rows = ExampleRows()
        self._rows_at_step = -1
        self._metrics: Dict[str, float] = {}
        self._seen_ids, self._seen_inputs = SeenRows(), SeenRows()
        self._seen_slices: Dict[str, SeenRows] = {}
        self._evaluated: State = {}
        self._model_digest: Optional[str] = None
        self._padding: Optional[PaddingRecord] = None
        self._ended = time.time()
        self._finished = False

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
        `losses`, one for each example, follow from these unless they are given; a language model
        has nothing else. `slices` are categories, by column name. `inputs` are what the model is
        given of each (texts, or rows of an array), and only their hashes are kept: equal ones count
        as one example, and those of the training data are found. An evaluation after more training
        replaces the one before, and so does one that begins with the same id. Raises InputError for
        what is missing or does not fit.
        """
        if self._rows_at_step != self._course.step or self._rows.begins_with(ids):
            self._rows, self._rows_at_step = ExampleRows(), self._course.step
        self._rows.add(
            ids=ids,
            labels=labels,
            scores=scores,
            logits=logits,
            losses=losses,
            targets=targets,
            predictions=predictions,
            slices=slices,
            inputs=inputs,
        )
        self._evaluated, self._ended = self._state(), time.time()

    def trained_on(self, *, ids: Any = None, inputs: Any = None, slices: Any = None) -> None:
        """What the training examples are: their `ids`, by the names that `examples` gives, their
        `inputs`, their categories (`slices`, by column name), or some of these; all at once or
        batch by batch. Hashes are kept, and no more than a sample of very many. By them the gate
        finds validation examples that were trained on, and groups (patients, customers) that
        have examples in both. Raises InputError where none is given."""
        if ids is None and inputs is None and slices is None:
            raise InputError(
                "job.trained_on() was given neither ids nor inputs nor slices; expected one"
            )
        for name, values in (slices or {}).items():
            self._seen_slices.setdefault(name, SeenRows()).add(hashed_categories(values))
        for seen, values in ((self._seen_ids, ids), (self._seen_inputs, inputs)):
            if values is not None:
                seen.add(hashed_rows(values))

    def forget_results(self) -> None:
        """An evaluation begins, and replaces what was said in an earlier one."""
        self._rows, self._metrics = ExampleRows(), {}

    def positions(self, count: int) -> npt.NDArray[np.str_]:
        """Ids of the next `count` examples by their place in the evaluation, for validation data
        that always come in the same order. An evaluation of the same data replaces the one before,
        with or without training in between."""
        if self._rows_at_step != self._course.step:
            self._rows, self._rows_at_step = ExampleRows(), self._course.step
        first, self._rows.by_place = self._rows.rows, True
        return np.arange(first, first + count).astype(np.str_)

    def metrics(self, **values: Any) -> None:
        """Metrics of the trained model, as fractions; beside examples, or instead of them."""
        self._metrics.update({name: float(value) for name, value in values.items()})
        self._evaluated, self._ended = self._state(), time.time()

    def padding(self, record: PaddingRecord) -> None:
        """What padding texts to few lengths costs the training."""
        self._padding = record

    def save(self, model: Any) -> None:
        """Save the trained model for the release: a module, or a function that is called with the
        folder and writes the model's files into it.

        A module is saved as safetensors, without what was put around it to compile or distribute
        it, and holds afterwards what the file holds. It has to be what was evaluated: raises
        InputError where it was trained on in between. Saving again replaces the model.
        """
        if not self._course.step:
            raise InputError(
                "job.save() was called before any training step was counted; loop over "
                "job.steps(loader), or put each step inside of job.step()"
            )
        self.require_compiled_calls()
        evaluated = self._evaluated if self._has_results else {}
        if evaluated and evaluated != self._state():
            raise InputError(
                "job.save() was given a model that has changed since it was evaluated; evaluate it "
                "after the last step, or after loading the weights that are to be saved"
            )
        self.losses()  # one that is not finite is known by now
        model = savable(model)
        if self.world.first:
            self._model_digest = save_into(self.told.model, model)
        self._ended = time.time()
        if evaluated:
            self._evaluated = self._state()  # the file was read back: the same bits, written anew

    def finish(self) -> None:
        """Run the last probe and write the evidence. Happens by itself when the script ends, and
        then once. Raises InputError where the job was not told enough."""
        if self._finished:
            return
        self._finished = True
        if not self.world.first:
            return
        if self._model_digest is None or not self._has_results:
            missing = (
                "job.save(model)"
                if self._model_digest is None
                else ("job.examples(ids=..., ...) or job.metrics(...)")
            )
            raise InputError(
                f"the script ended and never said {missing}, so there is nothing to judge; say it "
                "after the last step"
            )
        write_finished(self._gathered())

    def fail(self, error: Optional[BaseException] = None) -> bool:
        """The script fails: what an earlier job compiled may be why, and no later one gets it.

        Where the job was told to record failures, and `error` is one of its arm, the evidence says
        so; returns whether. What InputError says would fail in every arm. Of torchrun's processes
        one fails first, and who started them records it.
        """
        self._finished = True
        compilation = self._compilation
        if compilation is not None:
            compilation.distrust_cache()
        alone = self.world.alone or (self._launched.alone and isinstance(error, ArmError))
        if error is None or isinstance(error, InputError) or not alone:
            return False
        if self.told.on_failure != "record" or os.environ.get(FAILURE_NOTE_VARIABLE):
            return False  # its supervisor decides whether it is started again
        if self.world.first:
            # Without a compilation, its compiler may be what failed.
            evidence = self.told.failure(
                explained(error),
                ending=(of_exception(one_sentence(error)) or EXCEPTION).name,
                compiler=None if compilation is None else compilation.compiler.record(0.0, 0),
                environment=describe_machine(
                    this_machine(), None if compilation is None else compilation.place, os.environ
                ),
            )
            record_failure(self.told.output, evidence)
        return True

    @property
    def is_judged(self) -> bool:
        """Whether examples or metrics were said, of the model as it is now."""
        return self._has_results and self._evaluated == self._state()

    def compiled_by(self, framework: Framework) -> None:
        """The script's framework compiles its steps by itself; it says what came of it."""
        self._framework = framework
        obstacle = framework.obstacle()
        if obstacle is not None:
            self._probes.have_an_obstacle(obstacle, self.precision)

    def compare_speed(self) -> None:
        """Run the paired speed probe now, and not when the job is finished: for a framework that
        moves its model away when the training is over."""
        compilation = self._compilation
        if not self.world.first or compilation is None:
            return
        seconds = float(np.sum(self._course.seconds()))
        self._probes.compare_speed(compilation, seconds, self.precision, self._batch_size())

    @property
    def _has_results(self) -> bool:
        return bool(self._metrics) or self._rows.rows > 0

    def _state(self) -> State:
        """That of the modules that the job compiles."""
        if self._compilation is None:
            return {}
        return {
            f"{part.name}.{name}": state
            for part in self._compilation.parts
            for name, state in state_of(part.module).items()
        }

    def require_compiled_calls(self) -> None:
        """A job whose compiled code was never called would be judged for eager's work. Raises
        InputError where that is so."""
        self.require_compiled()
        compilation = self._compilation
        if self.compiler == "eager" or self._framework is not None or compilation is None:
            return
        for each in compilation.require_calls():
            self.note(each)

    def _gathered(self) -> Gathered:
        compilation = self._compilation
        measured = Measured(
            steps=Steps(np.array(self._course.losses()), np.array(self._course.seconds())),
            graphs=self._course.by_process(self._course.graphs),
            waits=self._course.waits(),
            shapes=self._course.by_process(self._course.shapes),
            returns=self._course.returns,
            second_graph=compilation is not None and compilation.compiler.compiles_whole_steps,
        )
        if "torch" in sys.modules:
            compilation = self._compiling(by_torch=False)
        peak, of = self._probes.peak_memory(compilation)
        batch_size = self._batch_size()
        compiler = self._compiler_record(measured)  # of the training, not of the last probes
        if self.compiler == "eager" and compiler.ran:
            self.note(
                "The script compiles by itself, in an arm that has no compiler, which the gate "
                "refuses; leave torch.compile out, and let job.compile() do what the arm says."
            )
        elif "left_to_eager" in compiler.proof:
            self.note(
                "Not all that was given to job.compile() ran compiled, so nothing is shown of the "
                f"compiler: {compiler.proof['left_to_eager']}."
            )
        if compilation is not None:
            compilation.bring_home()
            left = compilation.ready(over=True)
            if left or self._probes.parity is None:  # not all was called often enough before
                self._probes.compare_arithmetic(compilation, left, self.precision)
        self.compare_speed()
        began = self._checkpoints.job_started
        own_seconds = self._ended - began - self._probes.seconds_before(self._ended)
        return Gathered(
            told=self.told,
            measured=measured,
            batch_size=batch_size * self._accumulate * self._together,
            compiler=compiler,
            compile_cache=None
            if compilation is None
            else compilation.keep_compiled(
                compiler.compile_seconds, float(measured.steps.seconds[0])
            ),
            examples=self._rows.examples() if self._rows.rows else None,
            trained_on=self._trained_on(),
            metrics=self._metrics,
            model_digest=self._model_digest or "",
            recipe=self._recipe(batch_size),
            machine=this_machine() if compilation is None else compilation.machine,
            place=None if compilation is None else compilation.place,
            peak_memory_bytes=peak,
            memory_of=of,
            probes=self._probes,
            checkpoints=self._checkpoints.record(measured.resumptions),
            padding=self._padding,
            notes=[*self._notes, *measured.notes(), *self._left_out()],
            hindrances=[*measured.slow_loader(), *self._seen_in_steps(compiler)],
            loading_seconds=self._loading_seconds,
            total_seconds=own_seconds,
        )

    def _trained_on(self) -> Optional[TrainedOn]:
        slices = {name: seen.kept() for name, seen in self._seen_slices.items()}
        found = TrainedOn(self._seen_ids.kept(), self._seen_inputs.kept(), slices)
        return found if len(found.ids) or len(found.inputs) or slices else None

    def _seen_in_steps(self, compiler: CompilerRecord) -> List[Hindrance]:
        return self._course.looking.hindrances(
            declared_shapes=self._course.declared_shapes,
            dynamic=bool(compiler.options.get("dynamic_shapes")),
            graphs=None if self._compilation is None else self._compilation.graph_log,
            compiled_again=compiler.recompilations > 0,
        )

    def _compiler_record(self, measured: Measured) -> CompilerRecord:
        if self._framework is not None:
            return self._framework.record(measured.compile_seconds, measured.recompilations)
        if self._compilation is None:
            return CompilerRecord(name="eager", ran=False)
        return self._compilation.compiler.record(
            measured.compile_seconds + self._loading_seconds, measured.recompilations
        )

    @property
    def _loading_seconds(self) -> float:
        """What loading the compiler and its cache took, before the first step."""
        compilation = self._compilation
        return compilation.seconds if compilation is not None and compilation.compiles else 0.0

    def _batch_size(self) -> int:
        """Examples that this process takes at once."""
        called = [] if self._compilation is None else self._compilation.dispatches
        seen = [self._seen_batch_size, *(each.batch_size for each in called)]
        size = self._own_batch_size or self.told.batch_size or next(filter(None, seen), None)
        if size is None:
            raise InputError(
                "the job was not told its batch size, and no batch shows it; say "
                "job.start(batch_size=...)"
            )
        return size

    @property
    def _together(self) -> int:
        """Batches of a step: one for each process, or for each accelerator of one process."""
        return self.world.size * self.told.replicas

    def _recipe(self, batch_size: int) -> Dict[str, Scalar]:
        """What the job was told, and what came of it."""
        performed: Dict[str, Scalar] = {
            "batch_size": batch_size,
            "steps": self._course.step,
            "world_size": self._together,
            "global_batch_size": batch_size * self._accumulate * self._together,
            "precision": self.trained_precision,
        }
        if self.under_autocast:
            performed[AUTOCAST] = self.trained_precision
        compilation = self._compilation
        if compilation is not None:
            performed["device"] = compilation.place
            evaluation = self._evaluation or compilation.observed_evaluation()
            if evaluation is not None:
                performed["evaluated_on"], performed["evaluated_in"] = evaluation
        return {**self.told.recipe, **performed, **self._settings}

    def _left_out(self) -> List[str]:
        dispatches = [] if self._compilation is None else self._compilation.dispatches
        return [each.left_out for each in dispatches if each.left_out is not None]
