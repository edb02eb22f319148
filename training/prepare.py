"""The prepare job: the user's splits in, one prepared data set of static shapes out.

    python3 -m training.prepare --data-dir data --output-dir prepared \
        --text-column text --label-column label --sequence-length 64 --vocabulary 4096

The data folder holds one ``train`` and one ``validation`` file (csv, jsonl or parquet). All arms
train on the output, so what they saw is the same by construction, and its digests prove it.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import os
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Callable, Dict, List, Mapping, NoReturn, Optional, Sequence

import numpy as np
import numpy.typing as npt

from compilegate.job import InputError
from compilegate.job.errors import report_failure
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


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the job; returns the exit status."""
    try:
        options = _parser().parse_args(arguments)
        prepare(
            data_dir=options.data_dir,
            output_dir=options.output_dir,
            columns=Columns(
                options.text_column,
                options.label_column,
                options.id_column,
                tuple(options.slice_column),
            ),
            sequence_length=options.sequence_length,
            vocabulary=options.vocabulary,
            model_id=options.model_id,
            max_train=options.max_train,
        )
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
    that many training documents are kept, chosen by their identifiers. The validation split needs
    the columns of categories, since models are compared on it; as far as the training split has
    them, they show what was trained on. Raises InputError.
    """
    wanted = {"train": dataclasses.replace(columns, slices_needed=False), "validation": columns}
    rows = {split: read_split(data_dir, split, wanted[split]) for split in SPLITS}
    ids = {split: identifiers(rows[split], split) for split in SPLITS}
    if max_train is not None:
        kept = sorted(np.argsort(ids["train"], kind="stable")[:max_train].tolist())
        rows["train"] = [rows["train"][index] for index in kept]
        ids["train"] = [ids["train"][index] for index in kept]
    labels = label_names(rows["train"], rows["validation"])
    for split in SPLITS:
        print(f"{split}: {len(rows[split])} documents, {len(labels)} labels", flush=True)

    texts = [row.text for row in rows["train"]]
    if model_id is None:
        encoder = train_wordpiece(texts, vocabulary, sequence_length)
    else:
        encoder = load_pretrained(model_id, sequence_length)
    print(f"tokenizer: {encoder.vocabulary_size} tokens", flush=True)

    output_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output_dir, prefix=".prepare-") as name:
        folder = Path(name)
        for split in SPLITS:
            slices = _slices(rows[split], wanted[split])
            write_split(folder, split, _encode(rows[split], ids[split], labels, encoder, slices))
        encoder.save(folder / TOKENIZER)
        manifest = Manifest(
            labels=tuple(labels),
            counts={split: len(rows[split]) for split in SPLITS},
            sequence_length=sequence_length,
            vocabulary_size=encoder.vocabulary_size,
            pad_token_id=encoder.pad_token_id,
            digests=file_digests(folder),
        )
        _publish(folder, output_dir)
    write_manifest(output_dir, manifest)
    print(f"prepared data written to {output_dir}", flush=True)
    return manifest


def identifiers(rows: Sequence[Row], split: str) -> List[str]:
    """One unique identifier per row: the id column's, else a hash of the text and the label.

    Equal documents are told apart by a suffix. As they are interchangeable, the identifiers do
    not depend on the order of the rows. Raises InputError for an id column with repeated values.
    """
    given = [row.identifier for row in rows if row.identifier is not None]
    if given:
        repeated = [identifier for identifier, count in Counter(given).items() if count > 1]
        if repeated:
            raise InputError(
                f"the id column of the {split} split repeats {len(repeated)} values, "
                f"one of them {repeated[0]!r}; identifiers must be unique"
            )
        return given
    seen: Counter[str] = Counter()
    unique = []
    for row in rows:
        content = hashlib.sha256(f"{row.label}\0{row.text}".encode()).hexdigest()[:16]
        seen[content] += 1
        unique.append(content if seen[content] == 1 else f"{content}-{seen[content]}")
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
    slices: Mapping[str, npt.NDArray[np.str_]],
) -> PreparedSplit:
    input_ids, attention_mask = encoder.encode([row.text for row in rows])
    indices: Dict[str, int] = {label: index for index, label in enumerate(labels)}
    return PreparedSplit(
        input_ids=input_ids,
        attention_mask=attention_mask,
        labels=np.array([indices[row.label] for row in rows], dtype=np.int64),
        ids=np.array(ids, dtype=np.str_),
        slices=slices,
    )


def _slices(rows: Sequence[Row], columns: Columns) -> Dict[str, npt.NDArray[np.str_]]:
    return {
        name: np.array([row.categories[index] for row in rows], dtype=np.str_)
        for index, name in enumerate(columns.slices)
        if any(row.categories[index] for row in rows)
    }


def _publish(folder: Path, output_dir: Path) -> None:
    """Move the finished entries into place, over what an earlier run left there."""
    for entry in sorted(folder.iterdir()):
        target = output_dir / entry.name
        if target.is_dir():
            shutil.rmtree(target)
        os.replace(entry, target)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} (--help lists what is allowed)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="training.prepare",
        description="Turns the user's splits into one prepared data set of static shapes.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--data-dir", type=Path, required=True, help="holds train.* and validation.*"
    )
    parser.add_argument("--output-dir", type=Path, required=True, help="receives the prepared data")
    parser.add_argument("--text-column", default="text", help="default: text")
    parser.add_argument("--label-column", default="label", help="default: label")
    parser.add_argument("--id-column", help="unique identifiers; default: a hash of each row")
    parser.add_argument(
        "--slice-column",
        action="append",
        default=[],
        help="column of the validation data that holds categories; may be given several times",
    )
    parser.add_argument(
        "--sequence-length",
        type=_at_least(MINIMUM_SEQUENCE_LENGTH),
        default=64,
        help="tokens per document, cut or padded; default: 64",
    )
    parser.add_argument(
        "--vocabulary",
        type=_at_least(MINIMUM_VOCABULARY),
        default=4096,
        help="size of the tokenizer to train; default: 4096",
    )
    parser.add_argument("--model-id", help="take this model's tokenizer (hub id or folder) instead")
    parser.add_argument("--max-train", type=_at_least(1), help="keep this many training documents")
    return parser


def _at_least(minimum: int) -> Callable[[str], int]:
    def whole_number(text: str) -> int:
        value = int(text)
        if value < minimum:
            raise argparse.ArgumentTypeError(f"{value} is below {minimum}")
        return value

    return whole_number


if __name__ == "__main__":
    sys.exit(main())
