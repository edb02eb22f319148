"""Kinds of code that scripts of others taught the check, each in its smallest form."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.writing import found, written

LOOP = """
    for inputs, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
HEAD = """
import torch
from torch.utils.data import DataLoader
from data import examples, model

optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def script(options: str, call: str) -> str:
    return f"{HEAD}\n{options}\nloader = DataLoader(examples, {call})\n" + LOOP.replace(
        "\n    ", "\n"
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("options = dict(batch_size=8, num_workers=2)", True),
        ("options = {'batch_size': 8, 'num_workers': 2}", True),
        ("options = {'batch_size': 8}\noptions.update({'num_workers': 2})", True),
        ("options = {'batch_size': 8, 'drop_last': True}", False),
        ("options = {'batch_size': 8}\noptions['drop_last'] = True", False),
        ("options = {'batch_size': 8}\noptions.update(drop_last=True)", False),
        ("more = dict(drop_last=True)\noptions = {'batch_size': 8, **more}", False),
        ("from settings import options", False),
        ("options = {'batch_size': 8}\noptions.update(read())", False),
        ("options = {name: 8}", False),
    ],
)
def test_options_of_a_loader_are_read_where_they_are_written(
    options: str, expected: bool, tmp_path: Path
) -> None:
    folder = written(tmp_path, train=script(options, "shuffle=True, **options"))
    assert bool(found(folder, "ragged-last-batch")) is expected


def test_workers_in_spliced_options_count(tmp_path: Path) -> None:
    one = written(tmp_path / "one", train=script("o = dict(batch_size=8)", "**o"))
    two = written(tmp_path / "two", train=script("o = dict(batch_size=8, num_workers=2)", "**o"))
    assert found(one, "no-loader-workers") == [("train.py", 9)]
    assert found(two, "no-loader-workers") == []


STEP_BY_A_HELPER = """
def train_one_epoch(model, loader, optimizer, scaler):
    for inputs in loader:
        loss = model(inputs)
        value = loss.item()
        scaler(loss, optimizer)
        optimizer.zero_grad()
"""


def test_a_loop_that_clears_gradients_trains_whoever_goes_backward(tmp_path: Path) -> None:
    assert found(written(tmp_path, train=STEP_BY_A_HELPER), "item-in-step") == [("train.py", 5)]


def test_a_loop_over_epochs_is_no_step_because_it_clears_gradients(tmp_path: Path) -> None:
    text = """
    def main(epochs, optimizer, loader):
        for epoch in range(epochs):
            optimizer.zero_grad()
            loss = elsewhere(loader)
            print(loss.item())
    """
    assert found(written(tmp_path, train=text), "item-in-step") == []


COMPILED_LATE = """
import torch
import transformers


def train(model, data):
    trainer = transformers.Trainer(model=model, train_dataset=data)
    {between}
    model = torch.compile(model)
    trainer.train()
    {after}
"""


@pytest.mark.parametrize(
    ("between", "after", "expected"),
    [
        ("pass", "model.save_pretrained('out')", True),
        ("pass", "print(model(data))", False),
        ("pass", "evaluate(model)", False),
        ("pass", "model.generate(data)", False),
    ],
)
def test_a_model_compiled_after_its_trainer_was_made_runs_uncompiled(
    between: str, after: str, expected: bool, tmp_path: Path
) -> None:
    text = COMPILED_LATE.format(between=between, after=after)
    places = found(written(tmp_path, train=text), "compiled-discarded")
    assert places == ([("train.py", 9)] if expected else [])


def test_the_functional_form_of_data_parallel_is_found(tmp_path: Path) -> None:
    text = """
    import torch.nn as nn


    class Net(nn.Module):
        def forward(self, inputs):
            return nn.parallel.data_parallel(self.main, inputs, range(self.gpus))
    """
    assert found(written(tmp_path, net=text), "data-parallel") == [("net.py", 7)]


def test_a_script_beside_that_is_not_imported_says_nothing_of_precision(tmp_path: Path) -> None:
    half = "import torch\nscaler = torch.cuda.amp.GradScaler()\n"
    folder = written(tmp_path, train=script("", "batch_size=8"), other=half)
    assert found(folder, "full-precision") == [("train.py", 11)]
    (tmp_path / "train.py").write_text("import other\n" + (tmp_path / "train.py").read_text())
    assert found(folder, "full-precision") == []


def test_arguments_derived_from_the_trainers_are_read_as_those(tmp_path: Path) -> None:
    text = """
    from transformers import TrainingArguments


    class Distilling(TrainingArguments):
        def __init__(self, *args, alpha=0.5, **kwargs):
            super().__init__(*args, **kwargs)


    arguments = Distilling(output_dir="out", bf16=True, logging_steps=1)
    """
    folder = written(tmp_path, train=text)
    for rule in ("trainer-workers", "trainer-drop-last", "trainer-too-often"):
        assert found(folder, rule) == [("train.py", 10)]


def test_a_number_reckoned_of_what_was_read_is_recorded_in_each_step(tmp_path: Path) -> None:
    text = """
    def train(model, loader, optimizer, writer):
        for step, inputs in enumerate(loader):
            loss = model(inputs)
            loss.backward()
            optimizer.step()
            value = loss.item() / 2
            writer.add_scalar("loss", value, step)
            writer.add_scalar("step", step, step)
    """
    assert found(written(tmp_path, train=text), "log-in-step") == [("train.py", 8)]


def test_one_text_at_a_time_is_padded_to_nothing(tmp_path: Path) -> None:
    text = """
    def tokens(texts, tokenizer, trainer):
        trainer.fit(texts)
        alone = [tokenizer(text, padding="longest") for text in texts]
        return alone, tokenizer(texts, padding="longest")
    """
    assert found(written(tmp_path, train=text), "padding-longest") == [("train.py", 5)]


def test_graphs_are_recorded_of_batches_that_a_loop_asks_for(tmp_path: Path) -> None:
    text = """
    import torch
    from torch.utils.data import DataLoader


    def train(model, data, optimizer, steps):
        model = torch.compile(model, mode="reduce-overhead")
        batches = iter(DataLoader(data, batch_size=8, num_workers=2))
        for _ in range(steps):
            loss = model(next(batches))
            loss.backward()
            optimizer.step()
    """
    assert found(written(tmp_path, train=text), "ragged-batch") == [("train.py", 8)]
