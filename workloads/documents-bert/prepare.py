"""Documents become tokens: all of one length, since each length would be a graph of its own."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from transformers import AutoTokenizer

CHECKPOINT = "bert-base-cased"
LENGTH = 128
COLUMNS = ("input_ids", "attention_mask", "token_type_ids")


def documents(path: Path) -> tuple[list[str], list[str]]:
    """Texts and labels of a file with one JSON object a line."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [row["text"] for row in rows], [row["label"] for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--output-dir", type=Path, required=True)
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
    classes: dict[str, int] = {}
    for name in ("train", "validation"):
        texts, labels = documents(args.data_dir / f"{name}.jsonl")
        classes = classes or {label: at for at, label in enumerate(sorted(set(labels)))}
        tokens = tokenizer(texts, padding="max_length", truncation=True, max_length=LENGTH)
        np.savez(
            args.output_dir / f"{name}.npz",
            # (documents, LENGTH) each
            **{column: np.array(tokens[column], dtype=np.int32) for column in COLUMNS},
            labels=np.array([classes[label] for label in labels], dtype=np.int64),
        )
        print(f"{name}: {len(texts)} documents of {LENGTH} tokens, {len(classes)} classes")
    (args.output_dir / "classes.json").write_text(json.dumps(list(classes)) + "\n")


if __name__ == "__main__":
    main()
