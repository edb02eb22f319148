"""Small models and data of Hugging Face's kind, and trainings of them by its Trainer."""

from __future__ import annotations

from typing import Any

import torch
from datasets import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
)

from compilegate import job

COMPILED: dict[str, Any] = {"compiler": "torch-compile", "options": {"backend": "aot_eager"}}
"""Traced as for any compiler, and run at once: no C++ is built."""
LENGTH, WORDS = 6, 30


def texts(rows: int, kind: str = "classes", longest: int = LENGTH) -> Dataset:
    """Rows of `LENGTH` tokens; with `longest`, the last ones are that long."""
    chance = torch.Generator().manual_seed(rows)
    tokens = torch.randint(1, WORDS, (rows, longest), generator=chance)
    tokens[: rows - rows // 4, LENGTH:] = 0
    labels: Any = (tokens[:, 0] % 3).tolist()
    if kind == "numbers":
        labels = (tokens[:, 0] / WORDS).tolist()
    elif kind == "several":
        labels = [[float(each % 2), float(each % 3 == 0)] for each in tokens[:, 0].tolist()]
    elif kind == "language":
        labels = tokens.tolist()
    return Dataset.from_dict(
        {
            "input_ids": [[each for each in row if each] for row in tokens.tolist()],
            "labels": labels,
            "name": [f"text {row}" for row in range(rows)],
        }
    )


def model_for(kind: str = "classes") -> Any:
    """With weights of its own for each kind."""
    torch.manual_seed(1)
    if kind == "language":
        return GPT2LMHeadModel(
            GPT2Config(vocab_size=WORDS, n_positions=16, n_embd=8, n_layer=1, n_head=1)
        )
    config = BertConfig(
        vocab_size=WORDS,
        max_position_embeddings=16,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_labels={"classes": 3, "numbers": 1, "several": 2}[kind],
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForSequenceClassification(config)


def padded(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """To the longest of the batch."""
    longest = max(len(row["input_ids"]) for row in rows)
    ids = [row["input_ids"] + [0] * (longest - len(row["input_ids"])) for row in rows]
    return {
        "input_ids": torch.tensor(ids),
        "attention_mask": (torch.tensor(ids) > 0).long(),
        "labels": torch.tensor([row["labels"] for row in rows]),
    }


def train(
    *,
    kind: str = "classes",
    rows: int = 30,
    longest: int = LENGTH,
    callback: Any = None,
    several: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """Train on `rows` texts in batches of 4, and evaluate on 10; what the Trainer itself says of
    its model."""
    arguments = {
        "per_device_train_batch_size": 4,
        "learning_rate": 0.01,
        "num_train_epochs": 1,
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "save_strategy": "no",
        **settings,
    }
    evaluated: Any = texts(10, kind)
    trainer = Trainer(
        model=model_for(kind),
        args=TrainingArguments("trained", **arguments),
        train_dataset=texts(rows, kind, longest),
        eval_dataset={"first": evaluated, "second": evaluated} if several else evaluated,
        data_collator=padded,
        callbacks=[job.TrainerCallback(**(callback or {}))],
    )
    history = trainer.train()
    found = trainer.evaluate()
    return {
        "train_loss": history.training_loss,
        "eval_loss": found["eval_loss"],
        "logits": trainer.predict(evaluated).predictions,
        "drops_last": trainer.args.dataloader_drop_last,
    }
