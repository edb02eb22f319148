"""What breaks or repeats the compiling of what runs, in several forms each."""

from __future__ import annotations

import pytest

from compilegate.check.findings import Severity
from tests.check.torch_compile.compiling import HEAD, NET, TRAIN, found

BAD = [
    (
        "sync-in-region",
        HEAD
        + """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4,4)
    def forward(self, x):
        x = self.l(x)
        s = x.mean().item()
        return x * s
    def loss(self, x):
        return self(x).sum()
model = torch.compile(Net())
model(torch.ones(1,4))
""",
    ),
    (
        "sync-in-region",
        HEAD
        + """\
@torch.compile(mode='reduce-overhead')
def step(model, x, y):
    loss = F.mse_loss(model(x), y)
    loss.backward()
    print('loss', loss)
    return loss
""",
    ),
    (
        "sync-in-region",
        HEAD
        + """\
def helper(t):
    return float(t.norm())
@torch.compile
def f(x: torch.Tensor):
    return x * helper(x)
""",
    ),
    (
        "sync-in-region",
        HEAD
        + """\
class Block(nn.Module):
    def forward(self, x):
        y = x * 2
        k = y.sum().tolist()
        return y * k
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.b = nn.ModuleList([Block() for _ in range(2)])
    def forward(self, x):
        for b in self.b:
            x = b(x)
        return x
model = torch.compile(Net())
""",
    ),
    (
        "sync-in-region",
        HEAD
        + """\
@torch.compile
def f(x):
    y = x.sin()
    z = y.cpu().numpy()
    return y + z.mean()
""",
    ),
    (
        "branch-on-data",
        HEAD
        + """\
@torch.compile
def f(x):
    y = x.sum()
    if y > 0:
        return x
    return -x
""",
    ),
    (
        "branch-on-data",
        HEAD
        + """\
@torch.compile
def f(x: torch.Tensor):
    if torch.isnan(x).any():
        x = torch.zeros_like(x)
    return x
""",
    ),
    (
        "branch-on-data",
        HEAD
        + """\
@torch.compile
def f(x: torch.Tensor, n):
    while x.norm() > 1:
        x = x / 2
    return x
""",
    ),
    (
        "branch-on-data",
        HEAD
        + """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4,4)
    def forward(self, x):
        h = self.l(x)
        return h if h.mean() > 0 else -h
    def loss(self, x):
        return self(x).sum()
model = Net()
model = torch.compile(model)
""",
    ),
    (
        "branch-on-data",
        HEAD
        + """\
@torch.compile
def f(x: torch.Tensor):
    idx = torch.nonzero(x > 0)
    return x[idx]
""",
    ),
    (
        "branch-on-data",
        HEAD
        + """\
@torch.compile
def f(x: torch.Tensor):
    return x[x > 0].sum()
""",
    ),
    (
        "hooks-on-compiled",
        NET
        + """\
import wandb
model = Net()
wandb.watch(model)
model = torch.compile(model)
model(torch.ones(1,4))
""",
    ),
    (
        "hooks-on-compiled",
        NET
        + """\
from wandb import watch
model = torch.compile(Net())
watch(model, log='gradients')
""",
    ),
    (
        "hooks-on-compiled",
        NET
        + """\
model = torch.compile(Net())
for n, m in model.named_modules():
    m.register_forward_hook(lambda *a: None)
model(torch.ones(1,4))
""",
    ),
    (
        "hooks-on-compiled",
        NET
        + """\
import wandb
run = wandb.init()
model = torch.compile(Net())
run.watch(model)
""",
    ),
    (
        "float-rate",
        NET
        + """\
model = Net()
opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 10)
@torch.compile(fullgraph=False)
def update():
    opt.step()
    sched.step()
for x in torch.ones(3,1,4):
    model(x).sum().backward()
    update()
""",
    ),
    (
        "float-rate",
        NET
        + """\
model = Net()
opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
opt.step = torch.compile(opt.step)
for i, x in enumerate(torch.ones(3,1,4)):
    for g in opt.param_groups:
        g['lr'] = 1 / (i + 1)
    model(x).sum().backward()
    opt.step()
""",
    ),
    (
        "ragged-batch",
        NET
        + """\
from torch.utils.data import DataLoader
def main(ds):
    loader = DataLoader(ds, batch_size=32, shuffle=True)
    model = torch.compile(Net().cuda(), mode='reduce-overhead')
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for epoch in range(3):
        for x, y in loader:
            F.mse_loss(model(x), y).backward()
            opt.step()
""",
    ),
    (
        "ragged-batch",
        NET
        + TRAIN
        + """\
from torch.utils.data import DataLoader
model = torch.compile(Net(), mode='max-autotune')
loader = DataLoader([1], batch_size=8)
train(model, loader, torch.optim.SGD(model.parameters(), 0.1))
""",
    ),
    (
        "dynamic-unset",
        NET
        + TRAIN
        + """\
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
def collate(b):
    return pad_sequence(b)
model = torch.compile(Net())
train(model, DataLoader([1], 4, collate_fn=collate), torch.optim.SGD(model.parameters(), 0.1))
""",
    ),
    (
        "dynamic-unset",
        HEAD
        + """\
from transformers import AutoTokenizer, AutoModelForSequenceClassification, DataCollatorWithPadding
tok = AutoTokenizer.from_pretrained('x')
model = AutoModelForSequenceClassification.from_pretrained('x')
model = torch.compile(model)
from torch.utils.data import DataLoader
l = DataLoader([], batch_size=4, collate_fn=DataCollatorWithPadding(tok))
opt = torch.optim.SGD(model.parameters(), 0.1)
for b in l:
    model(**b).loss.backward()
    opt.step()
""",
    ),
    (
        "dynamic-unset",
        HEAD
        + """\
from transformers import AutoTokenizer, AutoModel
tok = AutoTokenizer.from_pretrained('x')
model = torch.compile(AutoModel.from_pretrained('x'))
opt = torch.optim.SGD(model.parameters(), 0.1)
for texts in [['a']]:
    enc = tok(texts, padding=True, return_tensors='pt')
    model(**enc).loss.backward()
    opt.step()
""",
    ),
    (
        "autocast-mismatch",
        NET
        + """\
model = torch.compile(Net().cuda())
opt = torch.optim.SGD(model.parameters(), 0.1)
def evaluate(m, x):
    with torch.no_grad():
        return m(x)
def train(m, x):
    with torch.autocast('cuda', dtype=torch.bfloat16):
        l = m(x).sum()
    l.backward()
    opt.step()
for x in torch.ones(3,1,4):
    train(model, x)
    evaluate(model, x)
""",
    ),
    (
        "autocast-mismatch",
        NET
        + """\
from torch.cuda.amp import autocast
def train(model, xs, opt):
    model = torch.compile(model)
    for x in xs:
        with autocast():
            l = model(x).sum()
        l.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        for x in xs:
            out = model(x)
""",
    ),
    (
        "seed-in-region",
        HEAD
        + """\
@torch.compile
def f(x):
    torch.manual_seed(0)
    return F.dropout(x)
""",
    ),
    (
        "seed-in-region",
        HEAD
        + """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4,4)
    def forward(self, x):
        torch.manual_seed(1)
        return F.dropout(self.l(x))
    def loss(self, x):
        return self(x).sum()
m = torch.compile(Net())
""",
    ),
    (
        "eager-random-numbers",
        NET
        + """\
m = Net()
c = torch.compile(m)
x = torch.ones(1,4)
torch.manual_seed(0)
a = m(x)
torch.manual_seed(0)
b = c(x)
torch.testing.assert_close(a, b)
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
