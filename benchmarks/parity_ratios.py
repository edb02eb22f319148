"""How far is compiled arithmetic from eager's? Sound compilers and miscompiled graphs, measured.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/parity_ratios.py [--quick] [--write FILE]

Each row is one model under one compiler: the parity probe of a training job, with several initial
weights. The figures are what the gate judges: the compiled errors as multiples of what eager's
rounding explains. Each probe has the largest in a single step and the largest that persists (that a
tensor reaches in most of the steps). `--quick` takes one model and few seeds (two minutes);
everything takes about a quarter of an hour on one core, most of it inductor's compilation.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from miscompilers import EDITS, Miscompiler

from compilegate.gate.parity import EPSILON, error_ratios, lasting
from compilegate.job import ParityErrors, keep_weights, load_compiler, probe_parity
from compilegate.job.steps.precision import autocast
from training.data.batches import BatchSource, batches_of_run
from training.data.prepared import PreparedSplit
from training.hyperparameters import Hyperparameters
from training.schedule import run_length
from training.update import WeightUpdate

VOCABULARY, SEQUENCE_LENGTH, CLASSES, DOCUMENTS = 4096, 48, 8, 320
STEPS = 4


@dataclass(frozen=True)
class Model:
    """A small classifier with random weights."""

    architecture: str
    sizes: dict[str, Any]

    def build(self, seed: int, dropout: float) -> Any:
        """The model with a seed's initial weights."""
        torch.manual_seed(seed)
        config = getattr(transformers, f"{self.architecture}Config")(
            vocab_size=VOCABULARY,
            num_labels=CLASSES,
            problem_type="single_label_classification",
            pad_token_id=0,
            **self.sizes,
            **dict.fromkeys(_DROPOUTS[self.architecture], dropout),
        )
        return getattr(transformers, f"{self.architecture}ForSequenceClassification")(config)


_BERT_DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")
_DROPOUTS = {
    **dict.fromkeys(("Bert", "Roberta", "Albert", "Electra"), _BERT_DROPOUTS),
    "DistilBert": ("dropout", "attention_dropout", "seq_classif_dropout"),
    "GPT2": ("resid_pdrop", "embd_pdrop", "attn_pdrop"),
}
_TWO_LAYERS = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "max_position_embeddings": 64,
}
_ONE_LAYER = {
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
    "initializer_range": 0.07,
}
MODELS = {
    "BERT, 1 layer x 64": Model("Bert", _ONE_LAYER),
    "BERT, 2 x 128": Model("Bert", _TWO_LAYERS),
    "BERT with ReLU, 2 x 128": Model("Bert", {**_TWO_LAYERS, "hidden_act": "relu"}),
    "RoBERTa, 2 x 128": Model("Roberta", _TWO_LAYERS),
    "ALBERT, 2 x 128": Model("Albert", {**_TWO_LAYERS, "embedding_size": 64}),
    "ELECTRA, 2 x 128": Model("Electra", {**_TWO_LAYERS, "embedding_size": 64}),
    "DistilBERT, 2 x 128": Model(
        "DistilBert",
        {"dim": 128, "n_layers": 2, "n_heads": 4, "hidden_dim": 512, "max_position_embeddings": 64},
    ),
    "GPT-2, 2 x 128": Model("GPT2", {"n_embd": 128, "n_layer": 2, "n_head": 4, "n_positions": 64}),
}
QUICK = "BERT, 2 x 128"


def documents() -> BatchSource:
    """Random tokens and labels; the lengths differ, the rest of a row is padding."""
    draw = np.random.default_rng(0)
    mask = np.arange(SEQUENCE_LENGTH) < draw.integers(4, SEQUENCE_LENGTH + 1, (DOCUMENTS, 1))
    split = PreparedSplit(
        input_ids=np.where(mask, draw.integers(1, VOCABULARY, mask.shape), 0).astype(np.int32),
        attention_mask=mask.astype(np.int8),
        labels=draw.integers(0, CLASSES, DOCUMENTS),
        ids=np.arange(DOCUMENTS).astype(str),
    )
    return BatchSource(split, torch.device("cpu"))


def probed(
    model: Model, compiler: Any, precision: str, dropout: float, seeds: int
) -> Iterator[ParityErrors]:
    """Compile in a first step, then probe the result with the weights of several seeds."""
    source = documents()
    recipe = Hyperparameters(batch_size=32, learning_rate=7e-4, precision=precision, epochs=1)
    built = model.build(0, dropout).train()
    forward = compiler.compile(built)
    with autocast(precision, torch.device("cpu")):
        loss = forward(**next(source.training(0, 0, recipe.batch_size))).loss
    loss.backward()
    length = run_length(recipe, DOCUMENTS)
    for seed in range(seeds):
        record, errors = probe_parity(
            built,
            forward,
            compiler=compiler,
            initial=keep_weights(model.build(seed, dropout)),
            batches=batches_of_run(source, recipe, length, seed),
            begin_updates=lambda: WeightUpdate(built, recipe, length, scaled=False).apply,
            precision=precision,
            seed=seed,
            steps=STEPS,
        )
        if errors is None:
            raise SystemExit(f"{model.architecture}: {record.obstacle}")
        yield errors


def row(name: str, measured: list[ParityErrors], precision: str) -> str:
    """A line of the table."""
    ratios = [error_ratios(errors, precision) for errors in measured]
    single = [found.max() for found in ratios]
    lasts = [lasting(found).max() for found in ratios]
    return (
        f"| {name} | {precision} | {len(measured)} | {np.median(np.concatenate(ratios)):.2f} "
        f"| {min(single):.3g} to {max(single):.3g} | {min(lasts):.3g} to {max(lasts):.3g} |"
    )


def cases(quick: bool) -> Iterator[tuple[str, Model, Callable[[], Any], str, float, int]]:
    """Name, model, compiler, precision, dropout and seeds of each row."""
    models = {QUICK: MODELS[QUICK]} if quick else MODELS
    seeds, defect_seeds = (2, 1) if quick else (20, 5)
    for precision in EPSILON:
        for name, model in models.items():
            yield f"inductor: {name}", model, inductor, precision, 0.0, seeds
        if not quick:
            name = f"inductor: {QUICK}, dropout 0.1"
            yield name, MODELS[QUICK], inductor, precision, 0.1, seeds
        for defect, edit in EDITS.items():
            yield (
                defect,
                MODELS[QUICK],
                lambda edit=edit: Miscompiler(edit),
                precision,
                0.0,
                defect_seeds,
            )


def inductor() -> Any:
    """Inductor, without any earlier graphs."""
    torch.compiler.reset()
    return load_compiler("inductor")


def main() -> None:
    """Measure, print, and write the table if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one model, few seeds")
    parser.add_argument("--write", type=Path, help="write the table to this file as well")
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()  # about token ids that no text here has
    lines = [
        "| compiler | precision | probes | median ratio | largest in a step "
        "| largest that persists |",
        "|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for name, model, compiler, precision, dropout, seeds in cases(options.quick):
        measured = list(probed(model, compiler(), precision, dropout, seeds))
        lines.append(row(name, measured, precision))
        print(lines[-1], flush=True)
    threads = torch.get_num_threads()
    lines += [
        "",
        f"torch {torch.__version__}, transformers {transformers.__version__}, Python "
        f"{platform.python_version()}, {threads} of {os.cpu_count()} cores, {platform.machine()}.",
    ]
    print("\n".join(lines[-2:]))
    if options.write is not None:
        options.write.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
