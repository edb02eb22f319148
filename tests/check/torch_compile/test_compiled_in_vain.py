"""What was compiled and never runs so, is saved under other names, or stands at the wrong place."""

from __future__ import annotations

import pytest

from compilegate.check.findings import Severity
from tests.check.torch_compile.compiling import HEAD, NET, TRAIN, found

BAD = [
    (
        "compiled-discarded",
        NET
        + """\
def main():
    model = Net()
    compiled = torch.compile(model)
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for x in range(3):
        model(x).sum().backward()
        opt.step()
main()
""",
    ),
    (
        "compiled-discarded",
        NET
        + """\
from torch import compile as tc
model = Net()
tc(model, mode='default')
model(torch.ones(4))
""",
    ),
    (
        "compiled-discarded",
        NET
        + """\
def speed_up(m):
    m = torch.compile(m)
model = Net()
speed_up(model)
model(torch.ones(1,4))
""",
    ),
    (
        "compiled-discarded",
        NET
        + """\
def speed_up(m):
    return torch.compile(m)
model = Net()
speed_up(model)
model(torch.ones(1,4))
""",
    ),
    (
        "compiled-discarded",
        NET
        + """\
class T:
    def __init__(self):
        self.model = Net()
        torch.compile(self.model)
    def fit(self):
        self.model(torch.ones(1,4))
""",
    ),
    (
        "compiled-discarded",
        NET
        + """\
class T:
    def __init__(self):
        self.model = Net()
        self.fast = torch.compile(self.model)
    def fit(self):
        self.model(torch.ones(1,4))
""",
    ),
    (
        "compiled-discarded",
        NET
        + """\
model = nn.Sequential(Net(), Net())
for layer in model:
    layer = torch.compile(layer)
model(torch.ones(1,4))
""",
    ),
    (
        "compiled-discarded",
        NET
        + """\
if hasattr(torch, 'compile'):
    torch.compile(Net())
""",
    ),
    (
        "compiled-discarded",
        HEAD
        + """\
import lightning as L
class M(L.LightningModule):
    def training_step(self, b, i):
        return b.sum()
m = M()
c = torch.compile(m)
L.Trainer().fit(m)
""",
    ),
    (
        "compiled-to-self",
        HEAD
        + """\
class Net(nn.Module):
    def setup(self, fast):
        if fast:
            self = torch.compile(self, mode='max-autotune')
""",
    ),
    (
        "past-the-wrapper",
        NET
        + """\
model = torch.compile(Net())
for x in torch.ones(3,1,4):
    out = model.forward(x)
""",
    ),
    (
        "past-the-wrapper",
        NET
        + """\
model = Net()
model.compile(mode='default')
def run(m, x):
    return m.forward(x)
run(model, torch.ones(1,4))
""",
    ),
    (
        "past-the-wrapper",
        NET
        + """\
model = torch.compile(Net())
opt = torch.optim.SGD(model.parameters(), 0.1)
for x in torch.ones(3,1,4):
    loss = model.loss(x)
    loss.backward()
    opt.step()
""",
    ),
    (
        "past-the-wrapper",
        NET
        + """\
class T:
    def __init__(self):
        self.net = torch.compile(Net())
    def step(self, x):
        return self.net.forward(x)
""",
    ),
    (
        "orig-mod-keys",
        NET
        + TRAIN
        + """\
model = torch.compile(Net())
ddp = nn.parallel.DistributedDataParallel(model)
torch.save({'model': ddp.module.state_dict()}, 'x')
""",
    ),
    (
        "orig-mod-keys",
        NET
        + """\
class T:
    def __init__(self, model):
        self.model = torch.compile(model)
    def save(self, path):
        torch.save(self.model.state_dict(), path)
T(Net()).save('x')
""",
    ),
    (
        "orig-mod-keys",
        NET
        + """\
from safetensors.torch import save_file
model = Net().cuda()
model = torch.compile(model)
sd = model.state_dict()
save_file(sd, 'x')
""",
    ),
    (
        "orig-mod-keys",
        NET
        + """\
def save(model, path):
    state = {'m': model.state_dict(), 'e': 1}
    torch.save(state, path)
model = torch.compile(Net())
save(model, 'x')
""",
    ),
    (
        "compile-in-loop",
        NET
        + """\
model = Net()
for epoch in range(3):
    compiled = torch.compile(model)
    for x in torch.ones(3,1,4):
        compiled(x)
""",
    ),
    (
        "compile-in-loop",
        NET
        + """\
def step(model, x):
    m = torch.compile(model)
    return m(x)
model = Net()
opt = torch.optim.SGD(model.parameters(), 0.1)
for x in torch.ones(3,1,4):
    step(model, x).sum().backward()
    opt.step()
""",
    ),
    (
        "compile-in-loop",
        HEAD
        + """\
class Net(nn.Module):
    def forward(self, x):
        f = torch.compile(torch.sin)
        return f(x)
""",
    ),
    (
        "compile-in-loop",
        HEAD
        + """\
def act(x):
    return x
for i in range(10):
    y = torch.compile(act)(torch.ones(2))
""",
    ),
    (
        "compile-order",
        NET
        + """\
model = torch.compile(Net())
model.to('cuda')
""",
    ),
    (
        "compile-order",
        NET
        + """\
model = Net()
model = torch.compile(model).cuda()
""",
    ),
    (
        "compile-order",
        NET
        + """\
from torch.nn.parallel import DistributedDataParallel as DDP
class T:
    def __init__(self, m):
        self.model = torch.compile(m)
        self.model = DDP(self.model)
T(Net())
""",
    ),
    (
        "compile-options",
        NET
        + """\
m = torch.compile(Net(), mode='max-autotune', options={'triton.cudagraphs': True})
""",
    ),
    (
        "compile-options",
        NET
        + """\
m = torch.compile(Net(), 'reduce-overhead')
""",
    ),
    (
        "errors-hidden",
        HEAD
        + """\
import torch._dynamo as dynamo
dynamo.config.suppress_errors = True
""",
    ),
    (
        "errors-hidden",
        HEAD
        + """\
import os
os.environ['TORCHDYNAMO_DISABLE'] = '1'
""",
    ),
    (
        "errors-hidden",
        HEAD
        + """\
from torch._dynamo import config
config.suppress_errors = True
""",
    ),
    (
        "errors-hidden",
        HEAD
        + """\
import os
os.environ.setdefault('TORCH_COMPILE_DISABLE', '1')
""",
    ),
]


@pytest.mark.parametrize(
    ("rule", "text"), BAD, ids=[f"{number}-{rule}" for number, (rule, _) in enumerate(BAD)]
)
def test_a_mistake_is_found(rule, text, tmp_path):
    graver = [each for each in found(text, tmp_path) if each.severity > Severity.NOTE]
    assert rule in {each.rule for each in found(text, tmp_path)}
    assert {each.rule for each in graver} <= {rule}
