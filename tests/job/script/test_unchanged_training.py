"""A script that is started by hand prints the losses that it prints without the job, bit for bit.

Each script shuffles, drops out, and has workers whose data draw from the generators of Python,
NumPy and torch; after each step it draws from all three itself. What stands behind `#:` replaces
its line in the script with the job.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.job.script.jobs import left, run

pytestmark = [pytest.mark.slow, pytest.mark.long]

STEPS = 52
COMMON = """
import random
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
#: from compilegate import job

class Rows(Dataset):
    def __init__(self, count):
        self.rows = torch.randn(count, 6, generator=torch.Generator().manual_seed(count))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        drawn = random.random() + np.random.random() + torch.rand(()).item()
        return row + 0.1 * drawn, int(row[0] > 0)

TRAINED, JUDGED = Rows(104), Rows(16)  # thirteen steps an epoch

def network():
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 2))

def show(loss):
    drawn = [random.random(), float(np.random.random()), torch.rand(()).item()]
    print("step", float(loss).hex(), *(each.hex() for each in drawn), flush=True)

"""
LOOP = """
def main():
    model = network()  #: model = job.compile(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TRAINED, batch_size=8, shuffle=True, num_workers=2)
    for epoch in range(4):
        for x, y in loader:  #: for x, y in job.steps(loader):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            show(loss)
        model.eval()
        with torch.no_grad():
            logits = model(JUDGED.rows)
        model.train()
        #: job.examples(ids=job.positions(16), logits=logits, labels=(JUDGED.rows[:, 0] > 0).long())
    #: job.save(model)
"""
ACCELERATE = (
    LOOP.replace("def main", "from accelerate import Accelerator\n\ndef main")
    .replace(
        "    for epoch",
        "    accelerator = Accelerator(cpu=True)\n"
        "    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n"
        "    for epoch",
    )
    .replace("loss.backward()", "accelerator.backward(loss)")
    .replace("job.save(model)", "job.save(accelerator.unwrap_model(model))")
)
TRAINER = """
import transformers

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.network = network()

    def forward(self, x, labels):
        logits = self.network(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}

class Named(Rows):
    def __getitem__(self, index):
        x, label = super().__getitem__(index)
        return {"x": x, "labels": label}

class Trainer(transformers.Trainer):
    def compute_loss(self, model, inputs, **settings):
        found = super().compute_loss(model, inputs, **settings)
        if model.training:
            show(found)
        return found

def main():
    trainer = Trainer(
        model=Model(),
        args=transformers.TrainingArguments(
            "trained", per_device_train_batch_size=8, num_train_epochs=4, learning_rate=0.1,
            dataloader_num_workers=2, report_to="none", disable_tqdm=True, use_cpu=True,
            save_strategy="no", eval_strategy="epoch",
        ),
        train_dataset=Named(104),
        eval_dataset=Named(16),
        callbacks=[],  #: callbacks=[job.TrainerCallback()],
    )
    trainer.train()
"""
LIGHTNING = """
import pytorch_lightning

class Module(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = network()

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.cross_entropy(self.network(x), y)
        show(loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        return {"logits": self.network(x), "labels": y}

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

def main():
    callbacks = []  #: callbacks = [job.LightningCallback()]
    trainer = pytorch_lightning.Trainer(
        max_epochs=4, accelerator="cpu", logger=False, enable_progress_bar=False,
        enable_checkpointing=False, enable_model_summary=False, callbacks=callbacks,
    )
    trainer.fit(
        Module(),
        DataLoader(TRAINED, batch_size=8, shuffle=True, num_workers=2),
        DataLoader(JUDGED, batch_size=8, num_workers=2),
    )
"""
KERAS = """
import keras

class Shows(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        show(logs["loss"])

def main():
    #: job.start(batch_size=8)
    callbacks = [Shows()]  #: callbacks = [Shows(), job.KerasCallback()]
    layers = [keras.layers.Dense(16, "relu"), keras.layers.Dropout(0.5), keras.layers.Dense(2)]
    model = keras.Sequential(layers)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(
        DataLoader(TRAINED, batch_size=8, shuffle=True, num_workers=2),
        validation_data=DataLoader(JUDGED, batch_size=8),
        epochs=4, verbose=0, callbacks=callbacks,
    )
"""
MAIN = """
if __name__ == "__main__":
    random.seed(3), np.random.seed(4), torch.manual_seed(5)
    main()
    show(0)  # what the script draws later is the same, too
"""
SCRIPTS = {
    **{"loop": LOOP, "accelerate": ACCELERATE},
    **{"trainer": TRAINER, "lightning": LIGHTNING, "keras": KERAS},
}


def printed(folder: Path, name: str, **variables: str) -> list[str]:
    """What the script prints of its steps, the losses in all their bits: in a folder "without" the
    job, or in another with it."""
    text = COMMON + SCRIPTS[name] + MAIN
    if folder.name != "without":
        text = re.sub(r"^( *).*#: (.*)$", r"\1\2", text, flags=re.MULTILINE)
    folder.mkdir()
    (folder / "train.py").write_text(text)
    ended = run(folder, "train.py", KERAS_BACKEND="torch", **variables)
    assert "Traceback" not in ended.stderr, ended.stderr[-3000:]
    return [line for line in ended.stdout.splitlines() if line.startswith("step ")]


@pytest.mark.parametrize("name", list(SCRIPTS))
def test_a_script_with_the_job_trains_as_without(name: str, tmp_path: Path) -> None:
    without = printed(tmp_path / "without", name)
    assert len(without) == STEPS + 1
    assert printed(tmp_path / "with", name) == without
    evidence = left(tmp_path / "with" / "compilegate-job").evidence
    assert evidence.recipe["steps"] == STEPS


@pytest.mark.parametrize("name", ["loop", "trainer"])
def test_the_probes_of_a_compiler_that_is_tried_move_no_generator(
    name: str, tmp_path: Path
) -> None:
    """aot_eager calls eager's own operators in eager's order: its losses are eager's."""
    tried = {"COMPILEGATE_COMPILER": "torch-compile:aot_eager"}
    without = printed(tmp_path / "without", name)
    assert printed(tmp_path / "with", name, **tried) == without
    evidence = left(tmp_path / "with" / "compilegate-job").evidence
    assert evidence.parity.obstacle is None
    assert evidence.paired_speed is not None
