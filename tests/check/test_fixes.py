"""Fixes say the same training in other words, are made once, and leave the rest to the byte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compilegate.check.checking import check_paths
from compilegate.check.fixes import FIXES, fix_paths
from tests.check.folders import notebook

HEAD = "import torch\nmodel = torch.nn.Linear(8, 1)\n"
LOOP = "for x in data:\n    model(x).mean().backward()\n    optimizer.step()\n"
COMPILED = "model = torch.compile(model)\n"
XM = "import torch_xla.core.xla_model as xm\n"
TABLE = [
    (f"{COMPILED}torch.save(model.state_dict(), path)  # é\n",
     f'{COMPILED}torch.save(getattr(model, "_orig_mod", model).state_dict(), path)  # é\n'),
    (f'{COMPILED}torch.save(\n    {{"é": model.state_dict()}}, path\n)\n',
     f'{COMPILED}torch.save(\n    {{"é": getattr(model, "_orig_mod", model).state_dict()}}, '
     "path\n)\n"),
    ("model = torch.compile( model )  # fast\nmodel = model.to('cuda')  # moved\n",
     "model = model.to('cuda')  # fast\nmodel = torch.compile( model )  # moved\n"),
    ("torch.autograd.set_detect_anomaly( True )\n", "torch.autograd.set_detect_anomaly( False )\n"),
    (f"{XM}torch.save( {{'model': 1 , }}, path )\n", f"{XM}xm.save( {{'model': 1 , }}, path )\n"),
    # What is not sure, or is not asked for, stays.
    ("if args.debug:\n\ttorch.autograd.set_detect_anomaly(True)\n", None),
    ("torch.autograd.set_detect_anomaly(mode=True)\n", None),
    ("# compilegate: ignore[debugging-on] a test\ntorch.autograd.set_detect_anomaly(True)\n", None),
    (f"{XM}torch.save(obj=model, f=path)\n", None),
    ("import torch_xla\ntorch.save(model, path)\n", None),
    (f"getattr = None\n{COMPILED}torch.save(model.state_dict(), path)\n", None),
    (f"{COMPILED}model = DDP(model)\ntorch.save(model.state_dict(), path)\n", None),
    (f"{COMPILED}x = 1\nmodel = model.to('cuda')\n", None),
    (f"{COMPILED}other = model.to('cuda')\n", None),
    (f"{COMPILED}model.half()\n", None),
    ("model = torch.compile(torch.nn.Linear(8, 1))\nmodel = model.to('cuda')\n", None),
]  # fmt: skip
SURE = [before for before, after in TABLE if after is not None]


def fixed(script: Path, text: str) -> str:
    script.write_bytes(text.encode())
    for each in fix_paths([script])[0]:
        script.write_bytes(each.after)
    return script.read_bytes().decode()


@pytest.mark.parametrize(
    ("encoding", "first"),
    [
        ("utf-8-sig", ""),
        ("utf-8", "'é'\n\f\n"),
        ("utf-8", "'\x1d\u2028'\n"),
        ("latin-1", "# coding: latin-1\nname = 'Ã©'\n"),
    ],
)
def test_a_fix_keeps_the_encoding_and_hits_its_place(
    encoding: str, first: str, tmp_path: Path
) -> None:
    script = tmp_path / "a.py"
    anomaly = "torch.autograd.set_detect_anomaly({})\n".format
    script.write_bytes(f"{first}{HEAD}{anomaly(True)}{LOOP}".encode(encoding))
    (found,), refused = fix_paths([script])
    assert (found.before, refused) == (script.read_bytes(), ())
    assert found.after == f"{first}{HEAD}{anomaly(False)}{LOOP}".encode(encoding)


@pytest.mark.parametrize(("before", "after"), TABLE)
def test_a_fix_writes_the_other_words_where_it_is_sure(
    before: str, after: str | None, tmp_path: Path
) -> None:
    wanted = before if after is None else after
    assert fixed(tmp_path / "a.py", HEAD + before + LOOP) == HEAD + wanted + LOOP


def test_a_notebook_is_left_alone(tmp_path: Path) -> None:
    assert fix_paths([notebook(tmp_path / "a.ipynb", HEAD + SURE[0] + LOOP)]) == ((), ())


@given(st.lists(st.sampled_from(SURE), max_size=4, unique=True), st.booleans())
@settings(max_examples=30, deadline=None)
def test_a_fix_is_made_once_and_leaves_less_to_find(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], windows: bool
) -> None:
    script = tmp_path_factory.mktemp("fix") / "a.py"
    text = (HEAD + "".join(parts) + LOOP).replace("\n", "\r\n" if windows else "\n")
    once = fixed(script, text)
    after = [each.rule for each in check_paths([script]).findings if each.rule in FIXES]
    assert fixed(script, once) == once
    script.write_bytes(text.encode())
    before = [each.rule for each in check_paths([script]).findings if each.rule in FIXES]
    assert len(after) < len(before) or once == text
    assert ("\r\n" in once, once.count("\n")) == (windows, text.count("\n"))


TRAINING = """import torch, torch_xla.core.xla_model as xm
from torch import nn
torch.manual_seed({seed})
device = xm.xla_device()
model = {model}
{before}
optimizer = torch.optim.{optimizer}(model.parameters(), lr=0.01)
losses = []
for step in range(20):
    loss = model(torch.randn(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    xm.mark_step()
    losses.append(loss.item().hex())
{after}
print(losses, flush=True)
"""
MODELS = [
    ("nn.Linear(8, 1)", "SGD"),
    ("nn.Sequential(nn.Linear(8, 16), nn.Dropout(), nn.Linear(16, 1))", "Adam"),
    ("nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Linear(16, 4))", "AdamW"),
    ("nn.Sequential(nn.Unflatten(1, (1, 8)), nn.Conv1d(1, 4, 3), nn.Flatten())", "RMSprop"),
    ("nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)", "Adagrad"),
]
USES = {
    "orig-mod-keys": ("model = torch.compile(model{})", "torch.save(model.state_dict(), 'a.pt')"),
    "compile-order": ("model = torch.compile(model{})\nmodel = model.to('cpu')", ""),
    "debugging-on": ("torch.autograd.set_detect_anomaly(True)", ""),
    "torch-save-with-xla": ("", "torch.save({'model': model.state_dict()}, 'a.pt')"),
}
RUNS = """
import os, runpy, sys, torch, torch._dynamo
for path in sys.argv[1:]:
    if os.fork() == 0:
        runpy.run_path(path)
        os._exit(0)
    assert os.wait()[1] == 0, path
"""
XLA = "import torch\nxla_device, save, mark_step = lambda: 'cpu', torch.save, lambda: None\n"
"""What scripts for PyTorch/XLA ask for, on the CPU."""


def losses(folder: Path) -> list[str]:
    """The losses of every script of a folder, each trained in a child of one process."""
    stub = {"PYTHONPATH": str(folder / "stub"), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    command = [sys.executable, "-c", RUNS, *sorted(folder.glob("*.py"))]
    return subprocess.check_output(
        command, cwd=folder, env=os.environ | stub, text=True
    ).splitlines()


@pytest.mark.long
def test_losses_stay_to_the_last_bit(tmp_path: Path) -> None:
    stub = tmp_path / "stub" / "torch_xla" / "core"
    stub.mkdir(parents=True)
    (stub / "xla_model.py").write_text(XLA)
    for rule, (before, after) in USES.items():
        for seed, (model, optimizer) in enumerate(MODELS):
            backend = ", backend='eager'" if seed else ""  # one of five by the compiler itself
            made = {"seed": seed, "model": model, "optimizer": optimizer, "after": after}
            text = TRAINING.format(before=before.format(backend), **made)
            (tmp_path / f"{rule}-{seed}.py").write_text(text)
    trained = losses(tmp_path)
    changed = fix_paths(sorted(tmp_path.glob("*.py")))[0]
    assert [each.path.stem[:-2] in each.rules for each in changed] == [True] * 20
    for each in changed:
        each.path.write_bytes(each.after)
    assert losses(tmp_path) == trained
