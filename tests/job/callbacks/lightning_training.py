"""A small Lightning module and its training."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as lightning
import torch
from pytorch_lightning.strategies import ModelParallelStrategy
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, TensorDataset

from compilegate import job


class Classifier(lightning.LightningModule):
    """As in the library's introduction: one network, steps that call it."""

    def __init__(self, returns: bool = True) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
        self.returns = returns

    def classes(self, x: torch.Tensor) -> torch.Tensor:
        return self.network(x)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        x, y = batch
        return nn.functional.cross_entropy(self.classes(x), y)

    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        x, y = batch
        logits = self.classes(x)
        self.log("val_right", (logits.argmax(1) == y).float().mean())
        return {"logits": logits, "labels": y} if self.returns else None

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class TwoParts(Classifier):
    """Its steps call parts, and there is no forward pass to guess from."""

    def __init__(self) -> None:
        super().__init__(returns=False)
        self.network = None
        self.encoder, self.decoder = nn.Linear(5, 4), nn.Linear(4, 3)

    def classes(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.encoder(x))


class Sharded(Classifier):
    """Its parameters are parts in each of two processes."""

    def configure_model(self) -> None:
        fully_shard(self.network, mesh=self.device_mesh["data_parallel"])


def data(rows: int) -> TensorDataset:
    chance = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, 5, generator=chance)
    return TensorDataset(x, x[:, :3].argmax(dim=1))


def train(
    module: type[Classifier] = Classifier,
    arguments: Any = (),
    callback: Any = None,
    **settings: Any,
) -> dict[str, float]:
    """Fit, and say what the Trainer found."""
    lightning.seed_everything(0)
    trained = module(*arguments)
    quiet: Any = dict.fromkeys(
        ("logger", "enable_progress_bar", "enable_checkpointing", "enable_model_summary"), False
    )
    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        callbacks=[job.LightningCallback(**(callback or {}))],
        **quiet,
        **settings,
    )
    loader = DataLoader(data(24), batch_size=4, shuffle=True)
    trainer.fit(trained, loader, DataLoader(data(10), batch_size=4))
    found = {name: float(value) for name, value in trainer.callback_metrics.items()}
    return {**found, "steps": trainer.global_step}


if __name__ == "__main__":
    train(Sharded, strategy=ModelParallelStrategy(2, 1), devices=2)
