"""Text classification with Trainer, in the style of transformers' examples (run_glue.py).

    python run_glue.py --train_file train.csv --validation_file validation.csv --output_dir out \
        --max_seq_length 64 --num_train_epochs 3 --do_train --do_eval

For Compilegate it has one argument more: Trainer(..., callbacks=[job.TrainerCallback()]).
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

from datasets import load_dataset
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    HfArgumentParser,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

from compilegate import job


@dataclass
class DataTrainingArguments:
    """The texts: columns `sentence` and `label` of CSV or JSON Lines files."""

    train_file: str = field(default="train.csv")
    validation_file: str = field(default="validation.csv")
    max_seq_length: int = field(default=128)
    pad_to_max_length: bool = field(
        default=True, metadata={"help": "One length for all; False pads to the longest of a batch"}
    )

    def __post_init__(self):
        folder = os.environ.get("SM_CHANNEL_PREPARED") or os.environ.get("SM_CHANNEL_DATA", "")
        self.train_file = str(Path(folder, self.train_file))
        self.validation_file = str(Path(folder, self.validation_file))


@dataclass
class ModelArguments:
    """What is fine-tuned, or trained from nothing."""

    model_name_or_path: str = field(default="", metadata={"help": "Empty: a new, small model"})
    model_type: str = field(default="bert")
    hidden_size: int = field(default=32)
    num_hidden_layers: int = field(default=2)


def new_tokenizer(texts):
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    tokenizer = Tokenizer(models.WordLevel(unk_token=special["unk_token"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(special_tokens=list(special.values()))
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def main():
    parser = HfArgumentParser((ModelArguments, DataTrainingArguments, TrainingArguments))
    model_args, data_args, training_args = parser.parse_args_into_dataclasses()
    set_seed(training_args.seed)

    kind = "csv" if data_args.train_file.endswith(".csv") else "json"
    files = {"train": data_args.train_file, "validation": data_args.validation_file}
    raw = load_dataset(kind, data_files=files, cache_dir=training_args.output_dir)
    num_labels = len(set(raw["train"]["label"]))

    if model_args.model_name_or_path:
        tokenizer = AutoTokenizer.from_pretrained(model_args.model_name_or_path)
        model = AutoModelForSequenceClassification.from_pretrained(
            model_args.model_name_or_path, num_labels=num_labels
        )
    else:
        tokenizer = new_tokenizer(raw["train"]["sentence"])
        config = AutoConfig.for_model(
            model_args.model_type,
            vocab_size=len(tokenizer),
            num_labels=num_labels,
            hidden_size=model_args.hidden_size,
            intermediate_size=2 * model_args.hidden_size,
            num_hidden_layers=model_args.num_hidden_layers,
            num_attention_heads=2,
            max_position_embeddings=data_args.max_seq_length,
            pad_token_id=tokenizer.pad_token_id,
        )
        model = AutoModelForSequenceClassification.from_config(config)

    def preprocess(examples):
        return tokenizer(
            examples["sentence"],
            padding="max_length" if data_args.pad_to_max_length else False,
            max_length=data_args.max_seq_length,
            truncation=True,
        )

    data = raw.map(preprocess, batched=True)
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=data["train"] if training_args.do_train else None,
        eval_dataset=data["validation"] if training_args.do_eval else None,
        compute_metrics=lambda p: {"accuracy": (p.predictions.argmax(1) == p.label_ids).mean()},
        processing_class=tokenizer,
        data_collator=default_data_collator
        if data_args.pad_to_max_length
        else DataCollatorWithPadding(tokenizer),
        callbacks=[job.TrainerCallback()],
    )
    if training_args.do_train:
        trainer.train()
        trainer.save_model()
    if training_args.do_eval:
        print(trainer.evaluate())


if __name__ == "__main__":
    main()
