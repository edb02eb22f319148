"""The Keras callback: step times, losses, metrics, and whether XLA compiled.

Needs keras 3 on TensorFlow or JAX; on torch only for arms without a compiler.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import keras

from compilegate.job.callbacks import require_agreement, scalars
from compilegate.job.errors import CompilerError, InputError
from compilegate.job.evidence import CompilerRecord, Scalar
from compilegate.job.script import Job, current
from compilegate.job.script.steps import TrainingLoop

_XLA = ("xla", "training-compiler")  # compilers whose arms Keras compiles by `jit_compile`
_PRECISIONS = {"mixed_bfloat16": "bf16", "mixed_float16": "fp16", "bfloat16": "bf16"}


class KerasCallback(keras.callbacks.Callback):
    """Compiles as the arm says, times the steps, takes the metrics of the last validation, and
    saves the model: ``model.fit(..., callbacks=[job.KerasCallback()])``.

    An arm with the compiler "xla" sets `jit_compile`. Without validation data in `fit`, call
    ``model.evaluate(..., callbacks=[callback])`` after it. Metrics keep Keras's names
    (`val_accuracy`); the gate judges these, since single examples are not known.
    """

    def __init__(self) -> None:
        super().__init__()
        self._job: Job = current(precision=_precision())
        self._loop: TrainingLoop | None = None  # while it trains
        self._fitted = False
        self._first = self._batches = 0
        self._total = 0.0

    def set_model(self, model: Any) -> None:
        """Set `jit_compile` before Keras makes its training function. Raises InputError for an arm
        that Keras cannot train here."""
        super().set_model(model)
        if self._fitted or self._loop is not None:
            return
        compiler, job = self._job.compiler, self._job
        wanted = compiler != "eager"
        if wanted:
            _require_xla(compiler, model)
        elif job.config.alone:  # it trains as the script says
            if model.jit_compile:
                job.note(
                    "Keras compiles this training by XLA (jit_compile); the eager arm of a "
                    'workload turns that off, and an arm with compiler = "xla" has it.'
                )
            return
        if model.jit_compile != wanted:
            model.jit_compile = wanted
            model.train_function = model.test_function = None
        if model.jit_compile != wanted:
            raise CompilerError("Keras says that this model does not support jit_compile")

    def on_train_begin(self, logs: Any = None) -> None:
        """Raises InputError where Keras trains in another precision than the arm declares."""
        remedy = (
            "keras.mixed_precision.set_global_policy(...), 'mixed_bfloat16' where "
            "job.current().precision is bf16"
        )
        require_agreement(self._job, "precision", _precision(), "Keras's", remedy)
        self._job.compiled_by(Compilation(self.model, self._job.compiler))
        self._loop = self._job.loop(accumulate=self.model.steps_per_execution)
        self._fitted = False

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._batches, self._total = 0, 0.0
        if self._loop is not None:
            self._loop.awaits()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._first = batch
        if self._loop is not None:
            self._loop.begins(waited=False)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Raises InputError without a loss, and NonFiniteLossError."""
        if self._loop is None:
            return
        self._job.loss(self._loss_of(logs or {}, batch - self._first + 1))
        self._loop.ends()

    def on_test_begin(self, logs: Any = None) -> None:
        if self._loop is not None:
            self._loop.abandon()

    def on_test_end(self, logs: Any = None) -> None:
        if self._fitted:
            self._record({f"val_{name}": value for name, value in (logs or {}).items()})
            self._save()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """The epoch's validation counts unless another follows."""
        self._record(logs or {})

    def on_train_end(self, logs: Any = None) -> None:
        if self._loop is not None:
            self._loop.abandon()
            self._loop, self._fitted = None, True
            self._save()

    def _loss_of(self, logs: dict[str, Any], batches: int) -> float:
        """The loss of the last batches, of whose epoch Keras gives the mean so far."""
        if "loss" not in logs:
            raise InputError(
                f"the model's train_step returns {', '.join(logs) or 'nothing'}, and no loss; "
                'return {"loss": loss, ...} from it'
            )
        shown = float(logs["loss"])
        if not type(self.model).train_step.__module__.startswith("keras."):
            return shown  # what a train_step of the script's own returns is the step's
        before = self._total
        self._batches += batches
        self._total = shown * self._batches
        return (self._total - before) / batches

    def _record(self, logs: dict[str, Any]) -> None:
        found = {name: each for name, each in scalars(logs).items() if name.startswith("val_")}
        if found:
            self._job.metrics(**found)

    def _save(self) -> None:
        model = self.model
        self._job.save(lambda folder: model.save(str(folder / "model.keras")))


def _require_xla(compiler: str, model: Any) -> None:
    backend, why = keras.config.backend(), None
    if compiler not in _XLA:
        why = (
            'Keras compiles by XLA; set compiler = "xla" in the arm, or train a loop of your own '
            "with job.compile(model)"
        )
    elif backend not in ("tensorflow", "jax"):
        why = (
            f"Keras runs on {backend}, where it does not use XLA; set KERAS_BACKEND to tensorflow "
            "or jax"
        )
    elif model.run_eagerly:
        why = "the model runs eagerly; leave run_eagerly=True out of model.compile(...)"
    if why is not None:
        raise InputError(f"the arm's compiler is {compiler}, and {why}")


class Compilation:
    """What XLA compiled of a model's training function, as far as Keras lets that be known."""

    def __init__(self, model: Any, compiler: str) -> None:
        self._model = model
        self._compiler = compiler

    def graphs(self) -> int:
        """How often the training function was traced; each time it is compiled."""
        if self._compiler == "eager":
            return 0
        functions = self._traced()
        return sum(each.experimental_get_tracing_count() for each in functions) if functions else 1

    def record(self, compile_seconds: float, recompilations: int) -> CompilerRecord:
        backend = keras.config.backend()
        proof: dict[str, Scalar] = {
            "keras": str(keras.version()),
            "backend": backend,
            "jit_compile": bool(self._model.jit_compile),
        }
        ran = self._compiler != "eager" and bool(self._model.jit_compile)
        if backend == "tensorflow":
            proof["tensorflow"] = str(sys.modules["tensorflow"].__version__)
            proof["xla_must_compile"] = self._must_compile()
            ran = ran and self._must_compile() > 0
        return CompilerRecord(
            name=self._compiler,
            ran=ran,
            proof=proof,
            compile_seconds=compile_seconds if ran else 0.0,
            graphs=self.graphs(),
            recompilations=recompilations,
        )

    def obstacle(self) -> str | None:
        """Keras's compiled steps hold their own weights."""
        if self._compiler == "eager":
            return None
        return (
            "Keras compiles its whole training step by XLA, weights and optimizer included, which "
            "the probe cannot replay beside an eager one"
        )

    def _traced(self) -> Any:
        found = [self._model.train_function]
        if inspect.isfunction(found[0]):
            found += inspect.getclosurevars(found[0]).nonlocals.values()
        return [each for each in found if hasattr(each, "experimental_get_tracing_count")]

    def _must_compile(self) -> int:
        graphs = (
            concrete.graph.as_graph_def()
            for function in self._traced()
            for concrete in function._list_all_concrete_functions()
        )
        return sum(
            node.attr["_XlaMustCompile"].b
            for graph in graphs
            for nodes in (graph.node, *(each.node_def for each in graph.library.function))
            for node in nodes
        )


def _precision() -> str:
    return _PRECISIONS.get(keras.config.dtype_policy().name, "fp32")
