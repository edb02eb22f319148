"""What counts as part of each step: over helpers, imports, wrappers and frameworks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.writing import SLOW_STEP, found, written

RULE = "item-in-step"


def test_a_value_read_in_the_loop_is_found_at_its_line(tmp_path: Path) -> None:
    assert found(written(tmp_path, train=SLOW_STEP), RULE) == [("train.py", 11)]


@pytest.mark.parametrize(
    "guard",
    [
        "if step % 100 == 0:",
        "if not step % args.log_every:",
        "if step == last or step % 50 == 0:",
        "if args.debug:",
        "if should_log(step):",
        "if step in milestones:",
    ],
)
def test_what_runs_now_and_then_is_not_found(guard: str, tmp_path: Path) -> None:
    script = f"""
    def train(model, loader, optimizer, args):
        for step, batch in enumerate(loader):
            loss = model(batch)
            loss.backward()
            optimizer.step()
            {guard}
                print(loss.item())
    """
    assert found(written(tmp_path, train=script), RULE) == []


@pytest.mark.parametrize("guard", ["if rank == 0:", "if args.track:", "if (step + 1) % 4 == 0:"])
def test_what_runs_in_each_step_or_each_update_is_found(guard: str, tmp_path: Path) -> None:
    script = f"""
    def train(model, loader, optimizer, args, rank):
        for step, batch in enumerate(loader):
            loss = model(batch)
            loss.backward()
            {guard}
                optimizer.step()
                seen = loss.item()
    """
    assert found(written(tmp_path, train=script), RULE) == [("train.py", 8)]


def test_a_step_that_goes_on_early_leaves_the_rest_for_now_and_then(tmp_path: Path) -> None:
    script = """
    def train(model, loader, optimizer):
        for step, batch in enumerate(loader):
            loss = model(batch)
            loss.backward()
            optimizer.step()
            if step % 100 != 0:
                continue
            print(loss.item())
    """
    assert found(written(tmp_path, train=script), RULE) == []


def test_helpers_of_other_files_belong_to_the_step_that_calls_them(tmp_path: Path) -> None:
    train = """
    from tools.records import note as keep
    from tools import meters

    def train(model, loader, optimizer):
        for batch in loader:
            loss = model(batch)
            loss.backward()
            optimizer.step()
            keep(loss)
            meters.update(loss)
    """
    records = "def note(loss):\n    return loss.item()\n"
    meters = (
        "def update(loss):\n    return loss.item()\n\n\ndef unused(loss):\n    return loss.item()\n"
    )
    folder = written(
        tmp_path, train=train, tools____init__="", tools__records=records, tools__meters=meters
    )
    assert found(folder, RULE) == [("meters.py", 2), ("records.py", 2)]


def test_a_step_in_a_function_of_its_own_is_one(tmp_path: Path) -> None:
    script = """
    import torch

    class Training:
        def __init__(self, model, loader):
            self.model = model
            self.loader = loader
            self.optimizer = torch.optim.AdamW(model.parameters())
            self.step = torch.compile(self.one)

        def one(self, batch):
            loss = self.model(batch)
            loss.backward()
            self.optimizer.step()
            return loss

        def run(self):
            for epoch in range(3):
                for batch in self.loader:
                    seen = self.one(batch).item()
                print(seen)
    """
    assert found(written(tmp_path, train=script), RULE) == [("train.py", 20)]


def test_what_a_closure_puts_off_is_outside(tmp_path: Path) -> None:
    script = """
    import torch_xla.core.xla_model as xm

    def report(loss):
        print(loss.item())

    def train(model, loader, optimizer):
        for batch in loader:
            loss = model(batch)
            loss.backward()
            xm.optimizer_step(optimizer)
            xm.add_step_closure(report, args=(loss,))
    """
    assert found(written(tmp_path, train=script), RULE) == []


def test_a_closure_that_the_optimizer_runs_is_inside(tmp_path: Path) -> None:
    script = """
    import torch

    def train(model, batches):
        optimizer = torch.optim.LBFGS(model.parameters())
        for batch in batches:
            def closure():
                loss = model(batch)
                loss.backward()
                seen = loss.item()
                return loss
            optimizer.step(closure)
    """
    assert found(written(tmp_path, train=script), RULE) == [("train.py", 10)]


@pytest.mark.parametrize(
    ("head", "base", "method"),
    [
        ("import lightning as L", "L.LightningModule", "training_step(self, batch, batch_idx)"),
        ("import pytorch_lightning as pl", "pl.LightningModule", "training_step(self, batch, i)"),
        ("from transformers import Trainer", "Trainer", "compute_loss(self, model, inputs)"),
        ("import keras", "keras.Model", "train_step(self, data)"),
    ],
)
def test_a_method_that_a_framework_calls_is_a_step(
    head: str, base: str, method: str, tmp_path: Path
) -> None:
    script = (
        f"{head}\n\n\nclass Mine({base}):\n    def {method}:\n        return self.loss.item()\n"
    )
    assert found(written(tmp_path, train=script), RULE) == [("train.py", 6)]


def test_accelerate_is_a_loop(tmp_path: Path) -> None:
    script = """
    from accelerate import Accelerator

    accelerator = Accelerator()

    def train(model, optimizer, loader):
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for batch in loader:
            loss = model(**batch).loss
            accelerator.backward(loss)
            optimizer.step()
            print(loss)
    """
    assert found(written(tmp_path, train=script), "print-in-step") == [("train.py", 12)]


def test_evaluation_is_no_step(tmp_path: Path) -> None:
    script = """
    def evaluate(model, loader):
        for batch in loader:
            print(model(batch).item())

    def train(model, loader, optimizer):
        for epoch in range(3):
            for batch in loader:
                loss = model(batch)
                loss.backward()
                optimizer.step()
            evaluate(model, loader)
    """
    assert found(written(tmp_path, train=script), RULE) == []


def test_a_value_of_numpy_is_no_tensor(tmp_path: Path) -> None:
    script = """
    import numpy as np

    def train(model, loader, optimizer):
        for batch in loader:
            rate = np.mean([1.0, 2.0]).item()
            loss = model(batch)
            loss.backward()
            optimizer.step()
    """
    assert found(written(tmp_path, train=script), RULE) == []
