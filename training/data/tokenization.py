"""The tokenizer of a prepared data set: trained here or taken from a model, saved as files.

The library's own training of WordPiece gives two tokenizers for the same texts: it numbers the
first tokens in the order of a hash map, breaks ties between merges by these numbers, and numbers
the result by them. `train_wordpiece` is deterministic, so that the prepared data have one digest.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Dict, Sequence, Tuple

import numpy as np
import numpy.typing as npt
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from compilegate.job import InputError
from compilegate.job.errors import first_line

SPECIAL_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


class TextEncoder:
    """Turns texts into rows of token ids of one fixed length."""

    def __init__(
        self, tokenizer: Tokenizer, special_tokens: Dict[str, str], sequence_length: int
    ) -> None:
        self._tokenizer = tokenizer
        self._special_tokens = special_tokens
        self._sequence_length = sequence_length
        pad = special_tokens["pad_token"]
        self.pad_token_id: int = tokenizer.get_vocab(with_added_tokens=True)[pad]
        self.vocabulary_size = int(tokenizer.get_vocab_size(with_added_tokens=True))
        tokenizer.enable_truncation(sequence_length)
        tokenizer.enable_padding(length=sequence_length, pad_id=self.pad_token_id, pad_token=pad)

    def encode(self, texts: Sequence[str]) -> Tuple[npt.NDArray[np.int32], npt.NDArray[np.int8]]:
        """The token ids and the attention mask, both (texts, sequence_length)."""
        encodings = self._tokenizer.encode_batch(list(texts))
        ids = np.array([encoding.ids for encoding in encodings], dtype=np.int32)
        mask = np.array([encoding.attention_mask for encoding in encodings], dtype=np.int8)
        return ids, mask

    def save(self, folder: Path) -> None:
        """Write the two files that `AutoTokenizer.from_pretrained` of transformers 4 and 5 reads,
        without padding and truncation: fixed lengths are how data are prepared, not what a user of
        the model wants.

        Both versions know the class name written here; the name that transformers 5 writes by
        itself is unknown to 4.
        """
        plain = Tokenizer.from_str(self._tokenizer.to_str())
        plain.no_padding()
        plain.no_truncation()
        configuration = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": self._sequence_length,
            "model_input_names": ["input_ids", "attention_mask"],
            "clean_up_tokenization_spaces": False,
            **self._special_tokens,
        }
        texts = {
            "tokenizer.json": str(plain.to_str(pretty=True)),
            "tokenizer_config.json": json.dumps(configuration, indent=2, sort_keys=True),
        }
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text + "\n", encoding="utf-8")


def train_wordpiece(texts: Sequence[str], vocabulary: int, sequence_length: int) -> TextEncoder:
    """Train a lower-casing WordPiece tokenizer of about `vocabulary` tokens on the texts.

    Equal texts give equal tokenizers, in any order of the texts. All single characters become
    tokens, even where they are more than `vocabulary`.
    """
    special = list(SPECIAL_TOKENS.values())
    learner = _bert_tokenizer({})
    # Tokens of single characters inside words, ``##a``, are numbered here in the alphabet's order,
    # which breaks ties. Blanks alone split words as far as this needs, and fast.
    words = {word for text in texts for word in learner.normalizer.normalize_str(text).split()}
    inner = [f"##{character}" for character in sorted({c for word in words for c in word[1:]})]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary, special_tokens=special + inner, show_progress=False
    )
    learner.train_from_iterator(texts, trainer)
    learned = sorted(set(learner.get_vocab()) - set(special))
    ids = {token: index for index, token in enumerate(special + learned)}
    tokenizer = _bert_tokenizer(ids)
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.BertProcessing(
        ("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"])
    )
    return TextEncoder(tokenizer, dict(SPECIAL_TOKENS), sequence_length)


def _bert_tokenizer(ids: Dict[str, int]) -> Tokenizer:
    """WordPiece over these tokens, with BERT's rules for splitting text and joining it again."""
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=SPECIAL_TOKENS["unk_token"]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def load_pretrained(model_id: str, sequence_length: int) -> TextEncoder:
    """Take the tokenizer of a model on the hub or in a local folder.

    Raises InputError when it cannot be loaded, is not a fast tokenizer, or cannot pad.
    """
    from transformers import AutoTokenizer  # noqa: PLC0415 - seconds of import; not always needed

    try:
        loaded = AutoTokenizer.from_pretrained(model_id)
    except (OSError, ValueError) as error:
        raise InputError(
            f"no tokenizer can be loaded from {model_id!r}: {first_line(error)}"
        ) from error
    special_tokens = {
        name: str(value)
        for name, value in loaded.special_tokens_map.items()
        if isinstance(value, str)
    }
    if not getattr(loaded, "is_fast", False) or "pad_token" not in special_tokens:
        raise InputError(
            f"the tokenizer of {model_id!r} must be a fast one (of the library tokenizers) and "
            "have a padding token, which static shapes need"
        )
    return TextEncoder(loaded.backend_tokenizer, special_tokens, sequence_length)
