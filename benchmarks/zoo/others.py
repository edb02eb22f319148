"""Graphs, clicks, games, and networks written as in PyTorch's examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.zoo.architecture import CLASSES, Architecture, Batch, Library, cross_entropy

graphs, clicks = Library("torch_geometric.nn"), Library("deepctr_torch.models")
NODES, EDGES, WIDTH = 60, 240, 16


def _nodes() -> Batch:
    nodes, edges = torch.randn(NODES, WIDTH), torch.randint(NODES, (2, EDGES))
    return nodes, edges, torch.randint(CLASSES, (NODES,))


def _stacked(kind: str, **sizes: Any) -> Callable[[], Any]:
    return lambda: getattr(graphs, kind)(WIDTH, 32, 2, out_channels=CLASSES, **sizes)


def _ranked(model: Any, batch: Batch) -> Tensor:
    wanted, other = model(batch[0], batch[1]).chunk(2)
    loss: Tensor = model.recommendation_loss(wanted, other, batch[1].unique())
    return loss


def _fields() -> list[Any]:
    inputs = Library("deepctr_torch.inputs")
    sparse = [inputs.SparseFeat(f"c{i}", 50, embedding_dim=8) for i in range(6)]
    return sparse + [inputs.DenseFeat(f"d{i}", 1) for i in range(4)]


def _click_model(kind: str, **sizes: Any) -> Callable[[], Any]:
    sizes = {"dnn_hidden_units": (32, 16), "device": "cpu", **sizes}
    return lambda: getattr(clicks, kind)(_fields(), _fields(), **sizes)


def _clicks() -> Batch:
    rows = torch.cat([torch.randint(50, (32, 6)).float(), torch.randn(32, 4)], 1)
    return rows, torch.randint(2, (32, 1)).float()


def _binary(model: nn.Module, batch: Batch) -> Tensor:
    found = model(*batch[:-1]).to(batch[-1].dtype)
    return functional.binary_cross_entropy(found, batch[-1])


def _deep_q() -> Any:
    numbers, spaces = Library("numpy"), Library("gymnasium.spaces")
    screen, actions = spaces.Box(0, 255, (3, 36, 36), numbers.uint8), spaces.Discrete(4)
    policies = Library("stable_baselines3.dqn.policies")
    return policies.CnnPolicy(screen, actions, lambda _: 1e-3).q_net


def _difference(model: nn.Module, batch: Batch) -> Tensor:
    return functional.smooth_l1_loss(model(batch[0]).gather(1, batch[1]), batch[2])


def _screens() -> Batch:
    seen = torch.randint(256, (16, 3, 36, 36)).to(torch.uint8)
    return seen, torch.randint(4, (16, 1)), torch.randn(16, 1)


class _WordModel(nn.Module):
    """As in pytorch/examples, word_language_model: an LSTM with tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.drop = nn.Embedding(100, 48), nn.Dropout(0.2)
        self.rnn = nn.LSTM(48, 48, 2, dropout=0.2)
        self.decoder = nn.Linear(48, 100)
        self.decoder.weight = self.encoder.weight

    def forward(self, words: Tensor) -> Tensor:
        hidden = self.drop(self.rnn(self.drop(self.encoder(words)))[0])
        return self.decoder(hidden).flatten(0, 1)


def _embedding() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.GELU(), nn.AvgPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.InstanceNorm2d(32, affine=True), nn.SiLU(),
        nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(128, 16),
    )  # fmt: skip


def _three() -> Batch:
    return torch.randn(3, 8, 3, 16, 16).unbind()


def _triplet(model: nn.Module, batch: Batch) -> Tensor:
    return functional.triplet_margin_loss(*(model(each) for each in batch))


def _generator() -> nn.Module:
    """As in pytorch/examples, dcgan, for 16 x 16 pixels."""
    return nn.Sequential(
        nn.ConvTranspose2d(16, 32, 4, 1, 0, bias=False), nn.BatchNorm2d(32), nn.ReLU(True),
        nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
        nn.ConvTranspose2d(16, 3, 4, 2, 1, bias=False), nn.Tanh(),
    )  # fmt: skip


def _discriminator(norm: nn.Module) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 4, 2, 1, bias=False), nn.LeakyReLU(0.2),
        nn.Conv2d(16, 32, 4, 2, 1, bias=False), norm, nn.LeakyReLU(0.2),
        nn.Conv2d(32, 1, 4, 1, 0, bias=False), nn.Flatten(),
    )  # fmt: skip


def _pictures() -> Batch:
    return torch.randn(8, 3, 16, 16), torch.randn(8, 16, 1, 1)


def _judged(judge: nn.Module, generator: nn.Module, batch: Batch) -> Tensor:
    real, fake = judge(batch[0]), judge(generator(batch[1]).detach())
    return functional.softplus(-real).mean() + functional.softplus(fake).mean()


def _fooled(judge: nn.Module, generator: nn.Module, batch: Batch) -> Tensor:
    return functional.softplus(-judge(generator(batch[1]))).mean()


def _penalised(critic: nn.Module, generator: nn.Module, batch: Batch) -> Tensor:
    """Wasserstein's distance with a penalty for gradients (Gulrajani and others, 2017)."""
    fake = generator(batch[1]).detach()
    between = (0.3 * batch[0] + 0.7 * fake).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    penalty = (slope.flatten(1).norm(dim=1) - 1).square().mean()
    return critic(fake).mean() - critic(batch[0]).mean() + 10 * penalty


_GNNS = {
    "GCN": _stacked("GCN", dropout=0.1, norm="batch_norm"),
    "GAT": _stacked("GAT", heads=4),
    "GATv2": _stacked("GAT", heads=4, v2=True, jk="cat"),
    "GraphSAGE": _stacked("GraphSAGE", aggr="max"),
    "GIN": _stacked("GIN", norm="layer_norm"),
    "EdgeCNN": _stacked("EdgeCNN"),
}
_CLICKS = {
    "DeepFM": _click_model("DeepFM", dnn_dropout=0.1),
    "DCN": _click_model("DCN", cross_num=2),
    "xDeepFM": _click_model("xDeepFM", cin_layer_size=(16, 8)),
    "AutoInt": _click_model("AutoInt", att_layer_num=1),
    "FiBiNET": _click_model("FiBiNET"),
}
ARCHITECTURES = (
    *(Architecture(key, "graphs", each, _nodes, (cross_entropy,)) for key, each in _GNNS.items()),
    Architecture(
        "LightGCN", "recommender", lambda: graphs.LightGCN(NODES, 32, 2),
        lambda: (torch.randint(NODES, (2, EDGES)), torch.randint(NODES, (2, 64))), (_ranked,),
    ),
    *(Architecture(key, "recommender", each, _clicks, (_binary,)) for key, each in _CLICKS.items()),
    Architecture("DQN", "reinforcement", _deep_q, _screens, (_difference,)),
    Architecture(
        "LSTM, tied", "series", _WordModel,
        lambda: (torch.randint(100, (20, 8)), torch.randint(100, (160,))), (cross_entropy,),
    ),
    Architecture("Triplets", "siamese", _embedding, _three, (_triplet,)),
    Architecture(
        "DCGAN", "adversaries", lambda: (_discriminator(nn.BatchNorm2d(32)), _generator()),
        _pictures, (_judged, _fooled),
    ),
    Architecture(
        "WGAN-GP", "penalty", lambda: (_discriminator(nn.Identity()), _generator()), _pictures,
        (_penalised, lambda critic, generator, batch: -critic(generator(batch[1])).mean()),
    ),
)  # fmt: skip
