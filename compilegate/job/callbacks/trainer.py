"""The callback for Hugging Face's Trainer."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Mapping, Sequence

import torch
import transformers
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, IterableDataset

from compilegate.job.callbacks import require_agreement, scalars
from compilegate.job.errors import InputError
from compilegate.job.machine.numerics import preserved_generators
from compilegate.job.machine.world import is_sharded
from compilegate.job.script import Job, current
from compilegate.job.script.compiled import copied_as_defined
from compilegate.job.script.saved_model import save_transformer, whole_state
from compilegate.job.script.steps import TrainingLoop

Examples = Callable[[Any, Dict[str, Any]], Mapping[str, Any]]

_FIGURES = ("_runtime", "_samples_per_second", "_steps_per_second", "_preparation_time", "_loss")
"""Endings of what the Trainer reports beside metrics; the loss follows from the examples."""
_COUNTED = ("inductor", "torch-compile")
"""Compilers whose later graphs are recompilations as they come."""


class TrainerCallback(transformers.TrainerCallback):
    """Compiles the model, times the steps, then judges and saves the model: ``Trainer(...,
    callbacks=[job.TrainerCallback()])``.

    The Trainer's evaluation data are judged at the end of training (after
    `load_best_model_at_end`), or at the first `trainer.evaluate()` after it.
    """

    def __init__(
        self,
        *,
        eval_dataset: Any = None,
        ids: str | Sequence[Any] | None = None,
        slices: Mapping[str, Sequence[Any]] | None = None,
        examples: Examples | None = None,
        ragged: str = "drop",
    ) -> None:
        """`eval_dataset` replaces the Trainer's. `ids` name its examples: a column or a sequence;
        by default their positions. `slices` are categories by name, in the same order.
        `examples(model, batch)` returns the columns of `compilegate.job.examples` but the ids,
        where the model's outputs do not give them. `ragged`: "drop" or "keep" an epoch's smaller
        last batch."""
        if ragged not in ("drop", "keep"):
            raise InputError(f"job.TrainerCallback(ragged={ragged!r}), expected 'drop' or 'keep'")
        self._eval_dataset = eval_dataset
        self._ids = ids
        self._slices = slices or {}
        self._examples = examples
        self._ragged = ragged
        self._started: Job | None = None
        self._loop: TrainingLoop | None = None  # while it trains
        self._dropping = False
        self._trained = False
        self._prefixes: set[str] = set()

    def on_init_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The Trainer was made: the job starts, and the training data get their last batch."""
        job = self._job(args)
        eager_by_hand = job.config.alone and job.compiler == "eager"
        if self._ragged == "drop" and not args.dataloader_drop_last and not eager_by_hand:
            # For the training data alone: those of evaluations are made when this is False again.
            args.dataloader_drop_last = self._dropping = True

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Compile the model. Raises InputError where the Trainer and the arm disagree."""
        job, model = self._job(args), given["model"]
        if self._dropping:
            args.dataloader_drop_last = False
            self._note_ragged(job, args, given.get("train_dataloader"))
        _require_agreement(job, args, model)
        if state.global_step:
            job.note(
                f"The training went on from a checkpoint at step {state.global_step}: the steps "
                "before it are not in this job's evidence; give an arm that is measured a training "
                "of its own."
            )
        job.compile(model)
        self._loop = job.loop(
            accumulate=args.gradient_accumulation_steps, batch_size=args.train_batch_size
        )
        self._trained, self._prefixes = False, set()
        self._loop.awaits()

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._loop is not None:
            self._loop.begins()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        loop = self._loop
        if loop is None:
            return
        job, step = self._job(args), loop.step
        compiled = loop.ends()
        if step == 0:
            job.require_compiled_calls()
        elif compiled and job.compiler in _COUNTED and loop.declared_shapes == 1:
            job.note(
                "The compiler compiled again after the Trainer's first step, as for another shape: "
                "pad to one length (padding='max_length' and max_length in the tokenizer's call, "
                "or in the data collator), or leave a smaller last batch out "
                "(dataloader_drop_last=True)."
            )

    def _await(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._loop is not None:
            self._loop.awaits()

    on_epoch_begin = on_log = on_save = _await

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Any = None, **given: Any
    ) -> None:
        if self._loop is not None:
            self._loop.awaits()
            self._require_one_data_set(metrics)
        elif self._trained:
            job, found = self._job(args), scalars(metrics)
            if not job.has_current_results:
                self._judge(job, args, **given)
            names = [each for each in found if each != "epoch" and not each.endswith(_FIGURES)]
            job.metrics(**{name: found[name] for name in names})

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        job, loop = self._job(args), self._loop
        if loop is None:
            return
        loop.abandon()
        self._loop, self._trained, self._dropping = None, True, False
        if not loop.step:
            raise InputError(
                "the Trainer ended without a step; give it more training data than one batch "
                f"({args.train_batch_size} examples), or max_steps"
            )
        if self._eval_dataset is None and given.get("eval_dataloader") is None:
            job.save(_writing(given))
        else:
            self._judge(job, args, **given)

    def _job(self, args: Any) -> Job:
        if self._started is None:
            self._started = current(
                seed=args.seed,
                batch_size=args.train_batch_size,
                learning_rate=args.learning_rate,
                precision=_precision(args, None),
            )
        return self._started

    def _note_ragged(self, job: Job, args: Any, loader: Any) -> None:
        dataset: Any = getattr(_plain(loader), "dataset", None)
        together = args.train_batch_size * args.world_size
        left = len(dataset) % together if hasattr(dataset, "__len__") else 0
        if left:
            job.note(
                f"The last batch of an epoch has {left} of {together} examples: it was left out, "
                "in every arm, since it would be a graph of its own; set "
                "dataloader_drop_last=True, or use job.TrainerCallback(ragged='keep')."
            )

    def _require_one_data_set(self, metrics: Any) -> None:
        names = [name for name in metrics or {} if name.endswith("_runtime")]
        self._prefixes.update(name[: -len("_runtime")] for name in names)
        if len(self._prefixes) > 1 and self._eval_dataset is None:
            raise InputError(
                f"the Trainer evaluates on several data sets ({', '.join(sorted(self._prefixes))}) "
                "and the gate judges on one; choose it: job.TrainerCallback(eval_dataset=...)"
            )

    def _judge(self, job: Job, args: Any, **given: Any) -> None:
        """Evaluate each example and save the model. The script's generators stay as they were. A
        sharded model takes all processes."""
        if job.world.first or is_sharded(given["model"]):
            model = _where_all_arms_evaluate(job, given["model"])
            was_training = model.training
            model.eval()
            with torch.no_grad(), preserved_generators():
                self._record_examples(job, args, model, self._loader(args, given))
            model.train(was_training)
        job.save(_writing(given))

    def _record_examples(self, job: Job, args: Any, model: Any, loader: Any) -> None:
        labels_name = (args.label_names or ["labels"])[0]
        device = next(model.parameters()).device
        rows, ids = 0, self._id_column(loader.dataset)
        job.forget_results()
        for each in loader:
            batch = {
                name: value.to(device) if isinstance(value, torch.Tensor) else value
                for name, value in each.items()
            }
            if self._examples is None:
                columns = _outcome(model, batch, labels_name)
            else:
                columns = dict(self._examples(model, batch))
            size = len(next(iter(columns.values())))
            places = slice(rows, rows + size)
            rows += size
            if "ids" not in columns:
                columns["ids"] = job.positions(size) if ids is None else ids[places]
            if self._slices:
                columns["slices"] = {name: of[places] for name, of in self._slices.items()}
            job.examples(**columns)

    def _loader(self, args: Any, given: Mapping[str, Any]) -> Any:
        """All evaluation data in their order, whatever this process's share of them is."""
        own = _plain(given.get("eval_dataloader")) if self._eval_dataset is None else None
        training = _plain(given.get("train_dataloader"))
        dataset: Any = self._eval_dataset
        if own is None:
            collate = training.collate_fn
            columns: Any = getattr(getattr(training, "dataset", None), "column_names", None)
            if columns is not None and hasattr(dataset, "select_columns"):
                there = set(dataset.column_names)
                dataset = dataset.select_columns([each for each in columns if each in there])
        else:
            dataset, collate = own.dataset, own.collate_fn
        if isinstance(dataset, IterableDataset) and args.world_size > 1:
            raise InputError(
                "the evaluation data have no length, and each process sees a share of them; use "
                "job.TrainerCallback(eval_dataset=...) with a data set that has a length"
            )
        return DataLoader(
            dataset,
            batch_size=args.eval_batch_size,
            collate_fn=collate,
            generator=torch.Generator(),
        )

    def _id_column(self, dataset: Any) -> Sequence[Any] | None:
        ids = self._ids
        if not isinstance(ids, str):
            return ids
        source = dataset if self._eval_dataset is None else self._eval_dataset
        if hasattr(source, "column_names"):
            if ids in source.column_names:
                return list(source[ids])
        elif len(source) and ids in source[0]:
            return [source[place][ids] for place in range(len(source))]
        raise InputError(
            f"the evaluation data have no column {ids!r}; the Trainer removes those that the model "
            f"does not take, so give the ids themselves: "
            f"job.TrainerCallback(ids=eval_dataset[{ids!r}])"
        )


def _require_agreement(job: Job, args: Any, model: Any) -> None:
    """Raises InputError for what the Trainer would do beside the job, or otherwise than the arm."""
    if args.torch_compile:
        raise InputError(
            "the Trainer's torch_compile is on, so that every arm would be compiled; leave it out: "
            "job.TrainerCallback() compiles the model as the arm declares"
        )
    if args.auto_find_batch_size:
        raise InputError(
            "the Trainer's auto_find_batch_size is on, and would change the arm's batch size; "
            "leave it out, and find the batch size before (compilegate profile --largest-batch)"
        )
    if args.n_gpu > 1:
        raise InputError(
            f"the Trainer would copy the model to {args.n_gpu} GPUs in each step (DataParallel); "
            'set distribution = "torchrun" in the workload, or make one GPU visible '
            "(CUDA_VISIBLE_DEVICES)"
        )
    for name, argument, value, given in (
        ("batch_size", "per_device_train_batch_size", args.train_batch_size, "batch_size"),
        ("learning_rate", "learning_rate", args.learning_rate, "learning_rate"),
        ("seed", "seed", args.seed, "seed"),
        ("precision", "bf16", _precision(args, model), 'precision == "bf16"'),
    ):
        remedy = (
            f"TrainingArguments({argument}=job.current().{given}), or map it in [program.arguments]"
        )
        if name == "precision":
            remedy += "; a model that is loaded in another precision needs dtype=torch.float32"
        called = f"the Trainer's {argument}" if name == "batch_size" else "the Trainer's"
        require_agreement(job, name, value, called, remedy)


def _precision(args: Any, model: Any) -> str:
    if args.bf16 or args.fp16:
        return "bf16" if args.bf16 else "fp16"
    kinds = {torch.bfloat16: "bf16", torch.float16: "fp16"}
    first = None if model is None else next(iter(model.parameters()), None)
    return "fp32" if first is None else kinds.get(first.dtype, "fp32")


def _plain(loader: Any) -> Any:
    """The loader without PyTorch/XLA's around it."""
    while loader is not None and not hasattr(loader, "dataset") and hasattr(loader, "_loader"):
        loader = loader._loader
    return loader


def _where_all_arms_evaluate(job: Job, model: Any) -> Any:
    """The model; or a copy on the host, where a compiler of the workload keeps the accelerator to
    itself."""
    place = job.evaluation_device
    if next(model.parameters()).device.type == place.type:
        return model
    job.evaluated(place, "fp32")
    return copied_as_defined(model).to(place)


def _writing(given: Mapping[str, Any]) -> Any:
    model = given["model"]
    tools = given.get("processing_class") or given.get("tokenizer")
    if not hasattr(model, "save_pretrained") or not hasattr(tools, "save_pretrained"):
        return model
    whole = whole_state(model)

    def write(folder: Any) -> None:
        save_transformer(folder, model, whole)
        tools.save_pretrained(str(folder))

    return write


_IGNORED = -100  # the label of a position that has none
_SAME_LOSS = 1e-4  # relative difference of a loss that was computed twice in float32


def _outcome(model: Any, batch: dict[str, Any], labels_name: str) -> dict[str, Any]:
    """Columns of `compilegate.job.examples`: `labels` and `logits`, `targets` and `predictions`, or
    else `losses`, the model's own for each example. Raises InputError without a loss."""
    outputs = model(**batch)
    labels = batch.get(labels_name)
    logits = outputs.get("logits") if isinstance(outputs, dict) else None
    if labels is not None and isinstance(logits, torch.Tensor):
        whole = not labels.is_floating_point()
        if whole and labels.dim() == 1 and logits.dim() == 2 and logits.shape[1] > 1:
            return {"labels": labels, "logits": logits}
        if not whole and labels.numel() == logits.numel() == len(labels):
            return {"targets": labels, "predictions": logits}
        if whole and logits.dim() == 3 and labels.shape == logits.shape[:2]:
            losses = _sequence_losses(outputs.get("loss"), logits, labels)
            if losses is not None:
                return {"losses": losses}
    return {"losses": _losses_one_by_one(model, batch)}


def _sequence_losses(own: Any, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor | None:
    """Mean loss of each sequence. Whether position t predicts label t or t + 1 is what agrees with
    the model's loss of the batch; None where neither or both do."""
    found: list[torch.Tensor] = []
    for shift in (0, 1) if own is not None else ():
        wanted = labels[:, shift:]
        shown = logits[:, : logits.shape[1] - shift].float().transpose(1, 2)
        losses = cross_entropy(shown, wanted, ignore_index=_IGNORED, reduction="none")
        counts = (wanted != _IGNORED).sum(dim=1)
        mean = losses.sum() / counts.sum().clamp(min=1)
        if math.isclose(float(mean), float(own), rel_tol=_SAME_LOSS):
            found.append(losses.sum(dim=1) / counts.clamp(min=1))
    return found[0] if len(found) == 1 else None


def _losses_one_by_one(model: Any, batch: dict[str, Any]) -> list[float]:
    size = next(len(each) for each in batch.values() if isinstance(each, torch.Tensor))
    losses = []
    for row in range(size):
        alone = {
            name: each[row : row + 1]
            if isinstance(each, torch.Tensor) and each.dim() and len(each) == size
            else each
            for name, each in batch.items()
        }
        outputs = model(**alone)
        loss = outputs.get("loss") if isinstance(outputs, dict) else None
        if loss is None:
            raise InputError(
                f"{type(model).__name__} returns neither classes nor numbers nor a loss for a "
                f"batch of {', '.join(batch)}; define it: "
                "job.TrainerCallback(examples=function), where function(model, batch) returns "
                "labels and logits, targets and predictions, or losses, by name"
            )
        losses.append(float(loss))
    return losses
