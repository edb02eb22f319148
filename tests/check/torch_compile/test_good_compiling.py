"""What only looks like a mistake with torch.compile is left alone."""

from __future__ import annotations

import pytest

from compilegate.check.checking import check_paths
from tests.check.torch_compile.compiling import HEAD, NAMES, NET, found

GOOD = {
    "kept": NET
    + """\
model = torch.compile(Net())
model(torch.ones(1, 4))
""",
    "returned": NET
    + """\
def fast():
    return torch.compile(Net())


model = fast()
model(torch.ones(1, 4))
""",
    "helper-mutates": NET
    + """\
class T:
    def __init__(self):
        self.model = Net()

    def speed_up(self):
        self.model = torch.compile(self.model)

    def fit(self, x):
        self.speed_up()
        return self.model(x)
""",
    "layers": NET
    + """\
layers = nn.ModuleList([Net() for _ in range(3)])
for i, layer in enumerate(layers):
    layers[i] = torch.compile(layer)
layers[0](torch.ones(1, 4))
""",
    "modes": NET
    + """\
for mode in ("default", "max-autotune"):
    fast = torch.compile(Net(), mode=mode)
    fast(torch.ones(1, 4))
""",
    "lazily-once": HEAD
    + """\
_FAST = None


def run(x):
    global _FAST
    if _FAST is None:
        _FAST = torch.compile(torch.sin)
    return _FAST(x)
""",
    "forward-of-another": NET
    + """\
model = torch.compile(Net())
model(torch.ones(1, 4))
other = Net()
other.forward(torch.ones(1, 4))
""",
    "super-forward": HEAD
    + """\
class Net(nn.Linear):
    def forward(self, x):
        return super().forward(x)


model = torch.compile(Net(4, 4))
model(torch.ones(1, 4))
""",
    "plain-keys": NET
    + """\
model = Net()
fast = torch.compile(model)
fast(torch.ones(1, 4))
torch.save(model.state_dict(), "a.pt")
""",
    "keys-before": NET
    + """\
model = Net()
torch.save(model.state_dict(), "a.pt")
model = torch.compile(model)
model(torch.ones(1, 4))
""",
    "prefix-stripped": NET
    + """\
model = torch.compile(Net())
model(torch.ones(1, 4))
state = {k.removeprefix("_orig_mod."): v for k, v in model.state_dict().items()}
torch.save(state, "a.pt")
""",
    "copied-weights": NET
    + """\
model = torch.compile(Net())
model(torch.ones(1, 4))
other = torch.compile(Net())
other(torch.ones(1, 4))
other.load_state_dict(model.state_dict())
""",
    "branch-on-shape": HEAD
    + """\
@torch.compile
def f(x: torch.Tensor, mask: torch.Tensor | None = None, scale: float = 1.0):
    if mask is not None:
        x = x * mask
    if x.shape[0] > 1 and x.dim() == 2:
        x = x * scale
    return x if scale > 1 else -x
""",
    "not-compiling": HEAD
    + """\
@torch.compile
def f(x: torch.Tensor):
    if not torch.compiler.is_compiling():
        print(x.sum().item())
    return x.sin()
""",
    "disabled": HEAD
    + """\
@torch.compiler.disable
def show(x: torch.Tensor):
    print(x.sum().item())


@torch.compile
def f(x: torch.Tensor):
    show(x)
    return x.sin()
""",
    "read-outside": NET
    + """\
model = torch.compile(Net())
y = model(torch.ones(1, 4))
print(y.sum().item())
if y.sum() > 0:
    print("up")
""",
    "watch-another": NET
    + """\
import wandb

model = torch.compile(Net())
model(torch.ones(1, 4))
other = Net()
wandb.watch(other)
""",
    "constant-rate": NET
    + """\
model = Net()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
update = torch.compile(opt.step)
model(torch.ones(1, 4)).sum().backward()
update()
""",
    "eager-update": NET
    + """\
model = torch.compile(Net())
opt = torch.optim.SGD(model.parameters(), lr=0.1)
sched = torch.optim.lr_scheduler.StepLR(opt, 3)
model(torch.ones(1, 4)).sum().backward()
opt.step()
sched.step()
""",
    "moved-first": NET
    + """\
model = Net().to("cuda")
model = torch.compile(model)
x = torch.ones(1, 4).to("cuda")
model(x)
""",
    "same-autocast": NET
    + """\
model = torch.compile(Net())


def evaluate(x):
    with torch.no_grad():
        return model(x)


with torch.autocast("cuda"):
    loss = model(torch.ones(1, 4)).sum()
    evaluate(torch.ones(1, 4))
""",
    "seed-outside": HEAD
    + """\
@torch.compile
def f(x: torch.Tensor):
    return x.sin()


torch.manual_seed(0)
f(torch.ones(2))
""",
    "keras-compile": """\
import keras

model = keras.Sequential()
model.compile(optimizer="adam", loss="mse")
""",
    "re-compile": """\
import re

re.compile("a")
pattern = re.compile("b")
""",
    "own-backend": NET
    + """\
model = torch.compile(Net(), backend="my_backend", mode="anything")
model(torch.ones(1, 4))
""",
}


@pytest.mark.parametrize("name", sorted(GOOD))
def test_what_is_right_is_left_alone(name, tmp_path):
    assert [(each.rule, each.line, each.message) for each in found(GOOD[name], tmp_path)] == []


def test_a_helper_in_another_file_is_followed(tmp_path):
    (tmp_path / "speed.py").write_text(
        HEAD + "\n\ndef speed_up(model):\n    return torch.compile(model)\n", encoding="utf-8"
    )
    script = tmp_path / "train.py"
    script.write_text(
        NET + "from speed import speed_up\n\nmodel = Net()\nspeed_up(model)\n"
        "fast = speed_up(model)\nfast.forward(torch.ones(1, 4))\n"
        "torch.save(fast.state_dict(), 'a.pt')\n",
        encoding="utf-8",
    )
    rules = {each.rule for each in check_paths([tmp_path], ("torch-compile",)).findings}
    assert rules & NAMES == {"compiled-discarded", "past-the-wrapper", "orig-mod-keys"}


def test_a_break_is_an_error_only_where_fullgraph_surely_meets_it(tmp_path):
    text = (
        HEAD
        + """

def helper(x: torch.Tensor):
    return x.sum().item()


@torch.compile(fullgraph=True)
def direct(x: torch.Tensor):
    return x * x.sum().item()


@torch.compile(fullgraph=True)
def by_helper(x: torch.Tensor, careful=False):
    return x * helper(x)
"""
    )
    severities = [(each.line, each.severity.word) for each in found(text, tmp_path)]
    assert severities == [(7, "warning"), (12, "error")]
