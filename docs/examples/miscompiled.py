"""Two models that inductor of torch 2.13 trains wrongly on a CPU, and nothing says so.

    python docs/examples/miscompiled.py   # both, eager and compiled, as anybody would
    COMPILEGATE_COMPILER=inductor python docs/examples/miscompiled.py --under cnn   # or unet

`cnn` classifies noisy marks of 8 x 8 pixels in fp32; `unet` removes noise from images in bf16. Both
are trained on data that are drawn from a fixed seed, in half a minute each. The first command needs
torch alone; the second trains one of them under Compilegate.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

STEPS, BATCH_SIZE = 200, 64
HELD_OUT = 1000


class Net(nn.Module):
    """Two convolutions, a max-pooling, two linear layers: PyTorch's own first example, smaller."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = nn.Linear(1024, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, image: Tensor) -> Tensor:
        image = functional.relu(self.conv1(image))
        image = functional.relu(self.conv2(image))
        image = functional.max_pool2d(image, 2).flatten(1)
        return self.fc2(functional.relu(self.fc1(image)))


class UNet(nn.Module):
    """Half the size and back, as diffusion models do it, beside a connection that skips both."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Conv2d(1, 16, 3, padding=1)
        self.down = nn.Conv2d(16, 32, 3, padding=1, stride=2)
        self.middle = nn.Conv2d(32, 32, 3, padding=1)
        self.up = nn.Conv2d(32, 16, 3, padding=1)
        self.end = nn.Conv2d(32, 1, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        start = functional.silu(self.start(image))
        low = self.middle(functional.silu(self.down(start)))
        up = self.up(functional.interpolate(low, scale_factor=2.0, mode="nearest"))
        return self.end(functional.silu(torch.cat([start, up], 1)))


@dataclass(frozen=True)
class Task:
    """A model, what it learns, and how good it is at that."""

    model: Callable[[], nn.Module]
    inputs: Tensor
    targets: Tensor
    loss: Callable[[Tensor, Tensor], Tensor]
    quality: Callable[[Tensor, Tensor], float]
    measure: str
    bf16: bool


def cnn() -> Task:
    """Ten kinds of marks under much noise."""
    torch.manual_seed(0)
    marks = (torch.rand(10, 1, 8, 8) > 0.6).float()
    labels = torch.randint(0, 10, (4000,))
    images = marks[labels] + 1.3 * torch.randn(4000, 1, 8, 8)
    return Task(
        Net,
        images,
        labels,
        functional.cross_entropy,
        lambda output, target: (output.argmax(1) == target).float().mean().item(),
        "accuracy",
        bf16=False,
    )


def unet() -> Task:
    """Smooth images of 16 x 16, and the same with noise."""
    torch.manual_seed(0)
    waves = torch.linspace(0, 3.14, 16)
    bends = 4 * torch.rand(4000, 2, 1)
    turns = torch.sin(bends * waves + 6.28 * torch.rand(4000, 2, 1))
    images = (turns[:, 0, :, None] * turns[:, 1, None, :])[:, None]
    noisy = images + 1.0 * torch.randn_like(images)
    return Task(
        UNet,
        noisy,
        images,
        functional.mse_loss,
        lambda output, target: functional.mse_loss(output.float(), target).item(),
        "mean squared error",
        bf16=True,
    )


TASKS = {"cnn": cnn, "unet": unet}


def side_by_side(name: str) -> None:
    """Train it eagerly and compiled, and print what a person looks at; then the gradients."""
    task = TASKS[name]()
    torch.manual_seed(1)
    model = task.model()
    print(f"{name}, {'bf16' if task.bf16 else 'fp32'}, {STEPS} steps")
    for way in ("eager", "compiled"):
        trained = copy.deepcopy(model)
        losses, first = train(
            task, trained, torch.compile(trained) if way == "compiled" else trained
        )
        curve = "  ".join(f"{loss:.3f}" for loss in losses[:: STEPS // 5])
        zero = [each for each, norm in first.items() if norm == 0]
        with torch.no_grad():
            found = task.quality(trained(task.inputs[-HELD_OUT:]), task.targets[-HELD_OUT:])
        print(f"  {way:8}  loss {curve}   {task.measure} {found:.3f}", flush=True)
        print(f"            gradients that are exactly zero: {', '.join(zero) or 'none'}")


def train(
    task: Task, model: nn.Module, called: Callable[[Tensor], Tensor]
) -> tuple[list[float], dict[str, float]]:
    """The loss of each step, and each parameter's norm of the gradient in the first one."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses: list[float] = []
    norms: dict[str, float] = {}
    for inputs, targets in batches(task):
        with torch.autocast("cpu", torch.bfloat16, enabled=task.bf16):
            output = called(inputs)
        loss = task.loss(output.float(), targets)
        optimizer.zero_grad()
        loss.backward()
        for name, parameter in [] if norms else list(model.named_parameters()):
            norms[name] = 0.0 if parameter.grad is None else parameter.grad.norm().item()
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


def batches(task: Task) -> list[tuple[Tensor, Tensor]]:
    """The same for everybody, without the examples that are held out."""
    generator = torch.Generator().manual_seed(2)
    count = len(task.inputs) - HELD_OUT
    rows = [torch.randint(0, count, (BATCH_SIZE,), generator=generator) for _ in range(STEPS)]
    return [(task.inputs[each], task.targets[each]) for each in rows]


def under_the_gate(name: str) -> None:
    """The same training, with what a script says to Compilegate."""
    from compilegate import job  # noqa: PLC0415 - torch alone is needed without it

    task = TASKS[name]()
    torch.manual_seed(1)
    model = job.compile(task.model())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for inputs, targets in job.steps(batches(task)):
        with torch.autocast("cpu", torch.bfloat16, enabled=task.bf16):
            output = model(inputs)
        loss = task.loss(output.float(), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        found = task.quality(model(task.inputs[-HELD_OUT:]), task.targets[-HELD_OUT:])
    job.metrics(**{task.measure.replace(" ", "_"): found})
    job.save(model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--under", choices=TASKS, help="train one of them under Compilegate")
    options = parser.parse_args()
    if options.under:
        under_the_gate(options.under)
        return
    for name in TASKS:
        side_by_side(name)


if __name__ == "__main__":
    main()
