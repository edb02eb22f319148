"""The prepare job: the user's splits in, one prepared data set of static shapes out.

    python3 -m training.prepare --data-dir data --output-dir prepared \
        --text-column text --label-column label --sequence-length 64 --vocabulary 4096

The data folder holds one ``train`` and one ``validation`` file (csv, jsonl or parquet). All arms
train on the output, and its digests prove that they saw the same data.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import List, Optional, Sequence

import numpy as np

from compilegate.job import InputError
from compilegate.job.errors import report_failure
from training.arguments import Parser, within
from training.data.prepared import (
    SPLITS,
    TOKENIZER,
    Manifest,
    PreparedSplit,
    file_digests,
    write_manifest,
    write_split,
)
from training.data.tables import Columns, Row, read_split
from training.data.tokenization import TextEncoder, load_pretrained, train_wordpiece

MINIMUM_SEQUENCE_LENGTH = 4  # [CLS], two tokens, [SEP]: less holds no text
MINIMUM_VOCABULARY = 32
MOST = 2**31  # of any number


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the job; returns the exit status."""
    try:
        options = vars(_parser().parse_args(arguments))
        columns = Columns(*(options.pop(f"{name}_column") for name in _COLUMNS))
        prepare(columns=columns, **options)
    except InputError as error:
        report_failure(str(error), os.environ)
        return 1
    return 0


def prepare(
    *,
    data_dir: Path,
    output_dir: Path,
    columns: Columns,
    sequence_length: int,
    vocabulary: int,
    model_id: Optional[str] = None,
    max_train: Optional[int] = None,
) -> Manifest:
    """Write the prepared data set into `output_dir`, replacing what is there.

    The tokenizer is trained on the training split, or taken from `model_id`. With `max_train`
    that many training documents are sampled by their identifiers. Raises InputError.
    """
    rows = {split: read_split(data_dir, split, columns) for split in SPLITS}
    ids = {split: identifiers(rows[split], split) for split in SPLITS}
    if max_train is not None:
        sample = sorted(np.argsort(ids["train"], kind="stable")[:max_train].tolist())
        rows["train"] = [rows["train"][index] for index in sample]
        ids["train"] = [ids["train"][index] for index in sample]
    labels = label_names(rows["train"], rows["validation"])
    for split in SPLITS:
        print(f"{split}: {len(rows[split])} documents, {len(labels)} labels", flush=True)
    if model_id is None:
        texts = [row.text for row in rows["train"]]
        encoder = train_wordpiece(texts, vocabulary, sequence_length)
    else:
        encoder = load_pretrained(model_id, sequence_length)
    print(f"tokenizer: {encoder.vocabulary_size} tokens", flush=True)

    shutil.rmtree(output_dir / TOKENIZER, ignore_errors=True)  # an earlier run's
    encoder.save(output_dir / TOKENIZER)
    for split in SPLITS:
        encoded = _encode(rows[split], ids[split], labels, encoder, columns.slices)
        write_split(output_dir, split, encoded)
    manifest = Manifest(
        labels=tuple(labels),
        counts={split: len(rows[split]) for split in SPLITS},
        sequence_length=sequence_length,
        vocabulary_size=encoder.vocabulary_size,
        pad_token_id=encoder.pad_token_id,
        digests=file_digests(output_dir),
    )
    write_manifest(output_dir, manifest)
    print(f"prepared data written to {output_dir}", flush=True)
    return manifest


def identifiers(rows: Sequence[Row], split: str) -> List[str]:
    """One unique identifier per row: the id column's, else a hash of the text and the label.

    Equal documents get a suffix. As they are interchangeable, the identifiers do not depend on the
    order of the rows. Raises InputError for an id column with repeated values.
    """
    own = [row.identifier for row in rows if row.identifier is not None]
    if own:
        repeated = [identifier for identifier, count in Counter(own).items() if count > 1]
        if repeated:
            raise InputError(
                f"the id column of the {split} split repeats {len(repeated)} values, "
                f"one of them {repeated[0]!r}; identifiers must be unique"
            )
        return own
    counts: Counter[str] = Counter()
    unique = []
    for row in rows:
        content = hashlib.sha256(f"{row.label}\0{row.text}".encode()).hexdigest()[:16]
        counts[content] += 1
        unique.append(content if counts[content] == 1 else f"{content}-{counts[content]}")
    return unique


def label_names(train: Sequence[Row], validation: Sequence[Row]) -> List[str]:
    """The classes of the training split in sorted order; whole numbers sort as numbers.

    Raises InputError for fewer than two classes, or a validation label that was never trained.
    """
    names = {row.label for row in train}
    if len(names) < 2:
        raise InputError(
            f"the train split has one label only, {sorted(names)[0]!r}; a classifier needs two"
        )
    for row in validation:
        if row.label not in names:
            raise InputError(
                f"the validation split has label {row.label!r} ({row.place}), which the train "
                f"split does not have; its labels are: {', '.join(sorted(names))}"
            )
    try:
        return sorted(names, key=int)
    except ValueError:
        return sorted(names)


def _encode(
    rows: Sequence[Row],
    ids: Sequence[str],
    labels: Sequence[str],
    encoder: TextEncoder,
    slices: Sequence[str],
) -> PreparedSplit:
    input_ids, attention_mask = encoder.encode([row.text for row in rows])
    indices = {label: index for index, label in enumerate(labels)}
    categories = {
        name: np.array([row.categories[index] for row in rows], dtype=np.str_)
        for index, name in enumerate(slices)
    }
    return PreparedSplit(
        input_ids=input_ids,
        attention_mask=attention_mask,
        labels=np.array([indices[row.label] for row in rows], dtype=np.int64),
        ids=np.array(ids, dtype=np.str_),
        slices={name: column for name, column in categories.items() if (column != "").any()},
    )


_COLUMNS = ("text", "label", "id", "slice")
"""Options ``--NAME-column``, in the order of the fields of `Columns`."""


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="training.prepare",
        description="Turns the user's splits into one prepared data set of static shapes.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--data-dir", type=Path, required=True, help="holds train.* and validation.*")
    add("--output-dir", type=Path, required=True, help="receives the prepared data")
    add("--text-column", default="text", help="the documents")
    add("--label-column", default="label", help="their classes")
    add("--id-column", help="unique identifiers; None: a hash of each row")
    add(
        "--slice-column",
        action="append",
        default=[],
        help="column of the validation data that holds categories; may be given several times",
    )
    add(
        "--sequence-length",
        type=within(int, MINIMUM_SEQUENCE_LENGTH, MOST),
        default=64,
        help="tokens per document, cut or padded",
    )
    add(
        "--vocabulary",
        type=within(int, MINIMUM_VOCABULARY, MOST),
        default=4096,
        help="size of the tokenizer to train",
    )
    add("--model-id", help="take this model's tokenizer (hub id or folder) instead")
    add("--max-train", type=within(int, 1, MOST), help="training documents; None: all")
    return parser


if __name__ == "__main__":
    sys.exit(main())
