"""The model of a job: a BERT classifier from scratch, or one to fine-tune; and its files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Dict

from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
)

from compilegate.job import InputError
from compilegate.job.errors import first_line
from training.data.prepared import Manifest, PreparedData
from training.hyperparameters import Hyperparameters


def build_model(hyperparameters: Hyperparameters, manifest: Manifest) -> Any:
    """A sequence classifier in float32, for the data set's labels and vocabulary.

    Raises InputError when `model_id` cannot be loaded or has a smaller vocabulary than the data.
    """
    if hyperparameters.model_id:
        return _pretrained(hyperparameters, manifest)
    config = BertConfig(
        # BERT's own 0.02 is for width 768. At a small width the signals of a layer would vanish
        # beside the residual ones, and training be slow and uneven.
        initializer_range=0.02 * (768 / hyperparameters.hidden_size) ** 0.5,
        vocab_size=manifest.vocabulary_size,
        hidden_size=hyperparameters.hidden_size,
        num_hidden_layers=hyperparameters.layers,
        num_attention_heads=hyperparameters.attention_heads,
        intermediate_size=hyperparameters.intermediate_size,
        max_position_embeddings=manifest.sequence_length,
        hidden_dropout_prob=hyperparameters.dropout,
        attention_probs_dropout_prob=hyperparameters.dropout,
        pad_token_id=manifest.pad_token_id,
        **_classification(manifest),
    )
    return BertForSequenceClassification(config)


def save_model(model: Any, data: PreparedData, folder: Path) -> None:
    """Write weights, configuration and tokenizer, loadable by `from_pretrained`."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(str(folder), safe_serialization=True)
    for path in sorted(data.tokenizer_folder.iterdir()):
        shutil.copyfile(path, folder / path.name)


def load_model(folder: Path) -> Any:
    """The saved model, loaded as its user will load it."""
    return AutoModelForSequenceClassification.from_pretrained(str(folder)).float()


def _pretrained(hyperparameters: Hyperparameters, manifest: Manifest) -> Any:
    try:
        model = AutoModelForSequenceClassification.from_pretrained(
            hyperparameters.model_id,
            # A classification head for other labels is replaced, which is what fine-tuning means.
            ignore_mismatched_sizes=True,
            **_classification(manifest),
        )
    except (OSError, ValueError) as error:
        raise InputError(
            f"--model_id {hyperparameters.model_id!r} cannot be loaded: {first_line(error)}"
        ) from error
    if model.config.vocab_size < manifest.vocabulary_size:
        raise InputError(
            f"--model_id {hyperparameters.model_id!r} has a vocabulary of "
            f"{model.config.vocab_size}, but the data were prepared with "
            f"{manifest.vocabulary_size} tokens; prepare them with "
            f"--model-id {hyperparameters.model_id}"
        )
    # Cached keys and values are for generating text: memory, and a state that compiled blocks would
    # be guarded on, layer by layer.
    model.config.use_cache = False
    return model.float()


def _classification(manifest: Manifest) -> Dict[str, Any]:
    labels = dict(enumerate(manifest.labels))
    return {
        "num_labels": len(labels),
        "id2label": labels,
        "label2id": {label: index for index, label in labels.items()},
        # Otherwise the first forward pass guesses it, which changes the configuration that the
        # compiled graph is guarded on: one recompilation.
        "problem_type": "single_label_classification",
    }
