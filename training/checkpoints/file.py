"""A checkpoint as one file: tensors, and facts as JSON beside them, under one digest.

One file, because a folder is copied to S3 file by file: one of two files that belong together may
be older than the other.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from compilegate.job import CompilegateError
from compilegate.job.files import whole_file

FORMAT = 1
_FACTS, _DIGEST = "facts", "sha256"


class CheckpointError(CompilegateError):
    """A file that is not a complete checkpoint. The message says why, in words that follow "it"."""


@dataclass(frozen=True)
class Checkpoint:
    """What a run needs to continue."""

    tensors: Mapping[str, torch.Tensor]
    """On the CPU."""
    facts: Mapping[str, Any]
    """JSON."""


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write the file whole or not at all. Raises OSError."""
    facts = json.dumps({"format": FORMAT, **checkpoint.facts}, sort_keys=True)
    tensors = {name: each.contiguous() for name, each in checkpoint.tensors.items()}
    with whole_file(path, alone=True) as part:
        save_file(tensors, str(part), {_FACTS: facts, _DIGEST: _digest(tensors, facts)})


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a file back. Raises CheckpointError for anything but what was written."""
    try:
        if path.stat().st_size == 0:
            raise CheckpointError("is empty, as a job leaves it that has finished")
        with safe_open(str(path), framework="pt", device="cpu") as file:
            stored = file.metadata() or {}
            tensors: Dict[str, torch.Tensor] = {
                name: file.get_tensor(name)
                for name in file.keys()  # noqa: SIM118
            }
    except (OSError, SafetensorError, ValueError, RuntimeError, OverflowError) as error:
        raise CheckpointError(f"is damaged: {error}") from error
    text = stored.get(_FACTS, "")
    if stored.get(_DIGEST) != _digest(tensors, text):
        raise CheckpointError("is damaged: its content is not what its digest says")
    facts = json.loads(text)
    if facts.get("format") != FORMAT:
        raise CheckpointError(f"is of format {facts.get('format')!r}, this job reads {FORMAT}")
    return Checkpoint(tensors, facts)


def _digest(tensors: Mapping[str, torch.Tensor], facts: str) -> str:
    digest = hashlib.sha256(facts.encode())
    for name, each in sorted(tensors.items()):
        digest.update(f"{name}:{each.dtype}:{tuple(each.shape)}:".encode())
        # As bytes: numpy has no bfloat16.
        digest.update(each.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
