"""The Lightning callback, for pytorch_lightning or lightning, whichever the script imported."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

from compilegate.job.callbacks import require_agreement, scalars
from compilegate.job.errors import InputError
from compilegate.job.machine.numerics import preserved_generators
from compilegate.job.script import Job, current
from compilegate.job.script.steps import TrainingLoop, batch_size_of

# Two packages with one content, whose classes are not each other's.
_ONE, _OTHER = "pytorch_lightning", "lightning.pytorch"
if TYPE_CHECKING:
    import pytorch_lightning as lightning
else:
    has_one = _OTHER not in sys.modules and importlib.util.find_spec(_ONE) is not None
    lightning = importlib.import_module(_ONE if has_one else _OTHER)

_JUDGED_BY = ("scores", "logits", "losses", "predictions")
_COLUMNS = ("ids", "labels", "targets", "slices", *_JUDGED_BY)
"""What `compilegate.job.examples` takes."""

Examples = Callable[[Any, Any], Mapping[str, Any]]


class LightningCallback(lightning.Callback):
    """Compiles the model, times the steps, judges the last validation, and saves the module:
    ``Trainer(..., callbacks=[job.LightningCallback()])``.

    Examples are judged where `validation_step` returns columns of `compilegate.job.examples`
    (`labels` and `logits`, say) or `examples` is given; logged values are metrics. The validation
    after the last step counts, or a later `trainer.validate(...)`, as of the best checkpoint.
    """

    _job: Job

    def __init__(
        self,
        *,
        compile: Callable[[Any], Any | Sequence[Any]] | None = None,
        examples: Examples | None = None,
        save: Callable[[Any], Any] | None = None,
    ) -> None:
        """`compile(module)` returns the submodules to compile; by default the only one with
        parameters, or the module's own `forward`. `examples(module, batch)` returns a validation
        batch's columns; ids default to positions. `save(module)` returns what is saved instead of
        the module."""
        super().__init__()
        self._choose = compile
        self._examples = examples
        self._save = save
        self._loop: TrainingLoop | None = None  # while it trains
        self._global_step = -1
        self._begun = self._disturbed = self._fitted = False

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._job = current(precision=_precision(trainer), seed=_seed())

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        job = self._job
        _require_agreement(job, trainer, pl_module)
        chosen = _targets(pl_module) if self._choose is None else self._choose(pl_module)
        for each in chosen if isinstance(chosen, (list, tuple)) else [chosen]:
            job.compile(each)
        self._fitted = False

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if self._loop is None:
            self._loop = self._job.loop(accumulate=trainer.accumulate_grad_batches)
        self._begun = False
        self._loop.awaits()

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        loop = self._loop
        if loop is None or self._begun:
            return
        if not loop.step:
            remedy = "DataLoader(..., batch_size=job.current().batch_size)"
            size = batch_size_of(batch)
            require_agreement(self._job, "batch_size", size, "the loader's", remedy)
        if self._disturbed:  # a checkpoint was written since; for how long is not known
            loop.awaits()
        loop.begins()
        self._begun, self._disturbed, self._global_step = True, False, trainer.global_step

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        loop = self._loop
        if loop is None or not self._begun or trainer.global_step == self._global_step:
            return
        self._begun = False
        loop.ends()
        try:
            if loop.step == 1:
                self._job.require_compiled_calls()
        except InputError as error:
            raise InputError(
                f"{error}. training_step calls other modules: choose which are compiled, "
                "job.LightningCallback(compile=lambda module: [module.encoder, module.decoder])"
            ) from error

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        self._disturbed = True  # it is about to be written

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.sanity_checking:
            self._job.forget_results()

    def on_validation_batch_end(  # noqa: PLR0917 - as the library calls it
        self,
        trainer: Any,
        pl_module: Any,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        job = self._job
        if trainer.sanity_checking:
            return
        found: dict[str, Any] = {}
        if self._examples is not None:
            with preserved_generators():  # in every process: a sharded module takes all
                found = dict(self._examples(pl_module, batch))
        elif isinstance(outputs, dict):
            found = {name: outputs[name] for name in _COLUMNS if name in outputs}
        judged = [found[name] for name in _JUDGED_BY if name in found]
        if not judged or not job.world.first:
            return
        if dataloader_idx:
            job.note(
                "The Trainer validates with several loaders: the gate judges the examples of the "
                "first; put the one that decides there."
            )
            return
        if job.world.size > 1:
            job.note(
                f"Each of the {job.world.size} processes validates a share of the data, and the "
                "first one's is what the gate judges; for all of it, give the validation loader no "
                "distributed sampler (use_distributed_sampler=False in the Trainer)."
            )
        found.setdefault("ids", job.positions(len(judged[0])))
        job.examples(**found)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if trainer.sanity_checking:
            return
        logged = scalars(trainer.callback_metrics)
        values = {name: each for name, each in logged.items() if not name.startswith("train")}
        if values:
            self._job.metrics(**values)
        if self._loop is not None and not self._begun:
            self._loop.awaits()
        if self._fitted:
            self._save_module(pl_module)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        job, loop = self._job, self._loop
        if loop is None:
            return
        loop.abandon()
        self._loop, self._fitted = None, True
        if not loop.step:
            raise InputError(
                "the Trainer ended without a step; give it more training data than one batch, or "
                "max_steps"
            )
        if not job.has_current_results:
            job.forget_results()
            job.note(
                "The Trainer did not validate after its last step: call trainer.validate(module) "
                "after trainer.fit(...), or let the training end with a validation."
            )
        self._save_module(pl_module)
        job.compare_speed()  # later the module is in the host's memory

    def _save_module(self, module: Any) -> None:
        self._job.save(module if self._save is None else self._save(module))


def _targets(module: Any) -> Any:
    """What computes in `training_step`, as far as that is plain. Raises InputError."""
    own = next(module.parameters(recurse=False), None)
    children = [each for each in module.children() if next(each.parameters(), None) is not None]
    if own is None and len(children) == 1 and _has_forward(children[0]):
        return children[0]
    if _has_forward(module):
        return module
    names = ", ".join(name for name, each in module.named_children() if each in children)
    raise InputError(
        f"{type(module).__name__} has no forward and several submodules with parameters ({names}); "
        "choose what is compiled: job.LightningCallback(compile=lambda module: [module.NAME, ...])"
    )


def _has_forward(module: Any) -> bool:
    forward = type(module).forward
    unimplemented = getattr(forward, "__name__", "") == "_forward_unimplemented"
    return not unimplemented and forward is not lightning.LightningModule.forward


def _require_agreement(job: Job, trainer: Any, module: Any) -> None:
    """Raises InputError for what the Trainer would do otherwise than the arm declares."""
    if getattr(module, "_compiler_ctx", None) is not None:
        raise InputError(
            "the module was given to torch.compile, so that every arm would be compiled; give "
            "the Trainer the module itself: job.LightningCallback() compiles it as the arm declares"
        )
    if trainer.world_size != job.world.size:
        raise InputError(
            f"the Trainer trains in {trainer.world_size} processes, and the job was started in "
            f'{job.world.size}; set distribution = "torchrun" and processes in the workload, and '
            "as many devices in the Trainer"
        )
    remedy = "Trainer(precision=...), 'bf16-mixed' where job.current().precision is bf16"
    require_agreement(job, "precision", _precision(trainer), "the Trainer's", remedy)
    remedy = "seed_everything(job.current().seed), before the module is made"
    require_agreement(job, "seed", _seed(), "seed_everything's", remedy)


def _seed() -> int | None:
    seed = os.environ.get("PL_GLOBAL_SEED")
    return None if seed is None else int(seed)


def _precision(trainer: Any) -> str:
    return {"bf16": "bf16", "16": "fp16"}.get(str(trainer.precision).split("-")[0], "fp32")
