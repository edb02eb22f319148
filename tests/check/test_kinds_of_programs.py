"""Kinds of programs that a set of reinforcement learning, diffusion and others taught the check."""

from __future__ import annotations

from pathlib import Path

from tests.check.writing import found, written


def test_a_copy_to_the_host_waits_wherever_it_stands_in_a_chain(tmp_path: Path) -> None:
    text = """
    def train(model, loader, optimizer, said):
        for inputs, labels in loader:
            outputs = model(inputs)
            loss = outputs.sum()
            loss.backward()
            optimizer.step()
            said.append(outputs.cpu().detach().numpy())
            said += outputs.detach().cpu().reshape(-1).tolist()
            said.append(outputs.argmax(1).cpu().item())
    """
    assert found(written(tmp_path, train=text), "item-in-step") == [
        ("train.py", 8),
        ("train.py", 9),
        ("train.py", 10),
    ]


def test_what_an_environment_says_of_its_step_is_on_the_host_already(tmp_path: Path) -> None:
    text = """
    import wandb


    def train(model, envs, buffer, optimizer, steps):
        for step in range(steps):
            actions = model.act()
            seen, rewards, ended, cut, infos = envs.step(actions)
            for info in infos["final_info"]:
                gained = info["episode"]["r"].item()
                wandb.log({"return": gained}, step=step)
            loss = model(buffer.sample())
            loss.backward()
            optimizer.step()
            wandb.log({"loss": loss.item()}, step=step)
    """
    folder = written(tmp_path, train=text)
    assert found(folder, "item-in-step") == [("train.py", 15)]
    assert found(folder, "log-in-step") == [("train.py", 15)]


def test_a_loss_that_goes_backward_is_a_tensor_and_a_flag_by_default_is_none(
    tmp_path: Path,
) -> None:
    text = """
    from elsewhere import measure


    def train(model, loader, optimizer, targets=1):
        kept = targets
        for inputs, labels in loader:
            targets = kept
            if targets == 1:
                labels = labels[:, 0]
            loss = measure(model(inputs), labels)
            if loss > 100:
                print("high")
            loss.backward()
            optimizer.step()
    """
    assert found(written(tmp_path, train=text), "branch-in-step") == [("train.py", 12)]


def test_jax_trains_no_torch_model(tmp_path: Path) -> None:
    text = """
    import jax
    from flax.training.train_state import TrainState


    def train(state: TrainState, steps, gradients):
        for step in range(steps):
            state = state.apply_gradients(grads=gradients(state.params))
    """
    assert found(written(tmp_path, train=text), "full-precision") == []


LOOP = """
import torch
{imports}

def train(model, loader, optimizer, size):
    {statement}
    for inputs in loader:
        loss = model(inputs)
        loss.backward()
        optimizer.step()
"""


def test_half_of_a_number_is_no_half_precision(tmp_path: Path) -> None:
    number = LOOP.format(imports="", statement="half = size // 2")
    model = LOOP.format(imports="", statement="model = model.half()")
    assert found(written(tmp_path / "number", train=number), "full-precision") == [("train.py", 7)]
    assert found(written(tmp_path / "model", train=model), "full-precision") == []


def test_what_imports_the_same_file_tells_nothing_of_a_script(tmp_path: Path) -> None:
    plain = LOOP.format(imports="from shared import data", statement="pass")
    mixed = LOOP.format(imports="from shared import data", statement="torch.autocast('cuda')")
    folder = written(tmp_path, plain=plain, mixed=mixed, shared="data = []\n")
    assert found(folder, "full-precision") == [("plain.py", 7)]


def test_a_loader_is_followed_into_training_that_cannot_be_read(tmp_path: Path) -> None:
    text = """
    from torch.utils.data import DataLoader
    from mine import build, train_all, validate


    def main(data, held_back):
        loader = DataLoader(data, batch_size=8, num_workers=2)
        val_loader = DataLoader(held_back, batch_size=8, num_workers=2)
        train_all(build(), loader, val_loader)
        validate(build(), val_loader)
    """
    assert found(written(tmp_path, train=text), "ragged-last-batch") == [("train.py", 7)]


def test_a_class_of_arguments_may_group_by_length_by_default(tmp_path: Path) -> None:
    text = """
    from dataclasses import dataclass, field

    import transformers


    @dataclass
    class Arguments(transformers.Seq2SeqTrainingArguments):
        group_by_length: bool = field(default=True)
    """
    off = text.replace("True", "False")
    assert found(written(tmp_path / "on", train=text), "group-by-length") == [("train.py", 9)]
    assert found(written(tmp_path / "off", train=off), "group-by-length") == []


def test_a_step_that_an_engine_runs_is_a_step_whatever_its_name(tmp_path: Path) -> None:
    text = """
    from ignite.engine import Engine
    from torch.utils.data import DataLoader


    def main(model, optimizer, data, held_back):
        loader = DataLoader(data, batch_size=8)
        other = DataLoader(held_back, batch_size=8)

        def step(engine, batch):
            loss = model(batch)
            loss.backward()
            optimizer.step()
            return loss.item()

        trainer = Engine(step)
        trainer.run(loader, max_epochs=3)
        evaluator = Engine(measure)
        evaluator.run(other)
    """
    folder = written(tmp_path, train=text)
    assert found(folder, "item-in-step") == [("train.py", 14)]
    assert found(folder, "ragged-last-batch") == [("train.py", 7)]
    assert found(folder, "full-precision") == [("train.py", 10)]


def test_an_update_at_the_end_of_an_episode_is_a_step(tmp_path: Path) -> None:
    text = """
    def finish(policy, optimizer):
        total = 0.0
        for value, gained in policy.saved:
            total += gained - value.item()
        loss = policy.loss(total)
        loss.backward()
        optimizer.step()


    def main(policy, optimizer, trainer):
        @trainer.on("episode")
        def update():
            finish(policy, optimizer)
    """
    assert found(written(tmp_path, train=text), "item-in-step") == [("train.py", 5)]


def test_the_step_of_an_optimizer_is_none_of_training(tmp_path: Path) -> None:
    text = """
    class Search:
        def step(self, closure):
            loss = closure()
            loss.backward()
            return loss.item()
    """
    assert found(written(tmp_path, train=text), "item-in-step") == []


def test_arguments_of_trl_are_in_bf16_by_themselves(tmp_path: Path) -> None:
    text = """
    from trl import SFTConfig

    arguments = SFTConfig(output_dir="out"{more})
    """
    alone = written(tmp_path / "alone", train=text.format(more=""))
    off = written(tmp_path / "off", train=text.format(more=", bf16=False"))
    assert found(alone, "trainer-precision") == []
    assert found(off, "trainer-precision") == [("train.py", 4)]
