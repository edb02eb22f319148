"""Fine-tune a document classifier with Trainer: a script of its own, as one brings it along.

It runs with the Transformers 4.28 and Python 3.9 of the Training Compiler image, and with today's.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
)

from compilegate import job

XLA = ("xla", "training-compiler", "neuron")
"""Compilers of PyTorch/XLA, for which AWS recommends an optimizer of torch_xla's."""


class Documents(torch.utils.data.Dataset):
    """Tokens and labels, as prepare.py left them."""

    def __init__(self, path: Path) -> None:
        with np.load(path, allow_pickle=False) as stored:
            self.columns = {name: torch.from_numpy(stored[name]).long() for name in stored.files}

    def __len__(self) -> int:
        return len(self.columns["labels"])

    def __getitem__(self, row: int) -> dict:
        return {name: column[row] for name, column in self.columns.items()}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_name", default="bert-base-cased")
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--warmup_fraction", type=float, default=0.1)
    parser.add_argument("--weight_decay", type=float, default=0.01)
    return parser.parse_known_args()[0]


def accuracy(predicted) -> dict:
    """What the Trainer reports of an evaluation."""
    return {"accuracy": float((predicted.predictions.argmax(-1) == predicted.label_ids).mean())}


def main() -> None:
    args = arguments()
    run = job.start(seed=1, batch_size=32, learning_rate=8e-5)
    folder = Path(os.environ["SM_CHANNEL_PREPARED"])
    classes = json.loads((folder / "classes.json").read_text())
    train, validation = (Documents(folder / f"{name}.npz") for name in ("train", "validation"))
    tokenizer = AutoTokenizer.from_pretrained(args.model_name)
    model = AutoModelForSequenceClassification.from_pretrained(
        args.model_name,
        num_labels=len(classes),
        id2label=dict(enumerate(classes)),
        label2id={label: at for at, label in enumerate(classes)},
    )
    steps = int(len(train) // (run.batch_size * run.world.size) * args.epochs)
    settings = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        seed=run.seed,
        per_device_train_batch_size=run.batch_size,
        per_device_eval_batch_size=run.batch_size,
        learning_rate=run.learning_rate,
        num_train_epochs=args.epochs,
        warmup_steps=int(steps * args.warmup_fraction),
        weight_decay=args.weight_decay,
        bf16=run.precision == "bf16",
        fp16=run.precision == "fp16",
        optim="adamw_torch_xla" if run.compiler in XLA else "adamw_torch",
        dataloader_drop_last=True,
        dataloader_num_workers=2,
        ddp_find_unused_parameters=False,
        logging_steps=50,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        # Without a GPU the Trainer would refuse bf16, unless it is told that this is meant.
        **({"use_cpu": True} if run.device.type == "cpu" else {}),
    )
    # Today's name of the argument, or that of transformers 4.
    named = inspect.signature(Trainer.__init__).parameters
    tools = {"processing_class" if "processing_class" in named else "tokenizer": tokenizer}
    trainer = Trainer(
        model=model,
        args=settings,
        train_dataset=train,
        eval_dataset=validation,
        compute_metrics=accuracy,
        callbacks=[job.TrainerCallback()],
        **tools,
    )
    trainer.train()
    print(trainer.evaluate())


def _mp_fn(index: int) -> None:
    """What PyTorch/XLA's launcher calls in each process."""
    main()


if __name__ == "__main__":
    main()
