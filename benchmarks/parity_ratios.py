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
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from compilegate.job.compilers import load_compiler
from compilegate.job.evidence import ParityErrors
from compilegate.job.evidence.parity import error_ratios, lasting
from compilegate.job.machine.numerics import autocast
from compilegate.job.probes.capture import Compiled, await_cotangents
from compilegate.job.probes.parity import probe_parity

VOCABULARY, SEQUENCE_LENGTH, CLASSES, BATCH_SIZE = 4096, 48, 8, 32
STEPS = 4
LEARNING_RATE = 1e-2
DEFECTS = (
    "wrong_epsilon",
    "tanh_gelu",
    "scaled_weight_gradient",
    "transposed_weight_gradient",
    "neighbouring_embedding",
    "detached_branch",
    "low_precision_products",
)
"""Those of `miscompilers.py` whose operations BERT has."""


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


def documents(seed: int) -> Iterator[dict[str, torch.Tensor]]:
    """Batches of random tokens and labels; the lengths differ, the rest of a row is padding."""
    draw = np.random.default_rng(seed)
    while True:
        mask = np.arange(SEQUENCE_LENGTH) < draw.integers(4, SEQUENCE_LENGTH + 1, (BATCH_SIZE, 1))
        tokens = np.where(mask, draw.integers(1, VOCABULARY, mask.shape), 0)
        yield {
            "input_ids": torch.from_numpy(tokens),
            "attention_mask": torch.from_numpy(mask.astype(np.int64)),
            "labels": torch.from_numpy(draw.integers(0, CLASSES, BATCH_SIZE)),
        }


def probed(
    model: Model, compiler: Any, precision: str, dropout: float, seeds: int
) -> Iterator[ParityErrors]:
    """Compile once, then probe the result with the weights of several seeds."""
    built = model.build(0, dropout).train()
    forward = compiler.compile(built.forward, built)
    compiled = Compiled(model.architecture, built, built.forward, forward)
    for seed in range(seeds):
        built.load_state_dict(model.build(seed, dropout).state_dict())
        compiled.calls.clear()
        for step, batch in zip(range(STEPS), documents(seed), strict=False):
            with autocast(precision, torch.device("cpu")):
                call = compiled.keep_call(step, (), batch)
                output = forward(**batch)
                await_cotangents(call, output)
            output.loss.backward()
            with torch.no_grad():
                for each in built.parameters():
                    if each.grad is not None:
                        each.sub_(LEARNING_RATE * each.grad)
                        each.grad = None
        with tempfile.TemporaryDirectory() as folder:
            found = probe_parity(
                [compiled], compiler=compiler, folder=Path(folder), repro_seconds=0.0
            )
            found.collected()
        if found.errors is None:
            raise SystemExit(f"{model.architecture}: {found.record.obstacle}")
        yield found.errors


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
    for precision in ("fp32", "bf16"):
        for name, model in models.items():
            yield f"inductor: {name}", model, inductor, precision, 0.0, seeds
        if not quick:
            name = f"inductor: {QUICK}, dropout 0.1"
            yield name, MODELS[QUICK], inductor, precision, 0.1, seeds
        for defect in DEFECTS:
            name, wrong = defect.replace("_", " "), partial(miscompiler, defect)
            yield name, MODELS[QUICK], wrong, precision, 0.0, defect_seeds


def miscompiler(defect: str) -> Any:
    """A backend that is wrong in that way, without any earlier graphs."""
    torch.compiler.reset()
    return load_compiler("torch-compile", {"backend": f"miscompilers.{defect}"})


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
