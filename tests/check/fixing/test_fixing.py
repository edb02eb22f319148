"""Fixes are written once, keep what they do not speak of, and leave no finding of what they fix."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compilegate.check.checking import check_paths
from compilegate.check.fixing.fixing import fix_paths
from compilegate.check.fixing.plans import PLANS
from tests.check.pages import PAGES, scripts_under, write_scripts

HEAD = """# -*- coding: utf-8 -*-
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)
{init}
    def forward(self, x):
        return self.layer(x)


model = Net()
"""
INIT = [
    "",
    "        self = torch.compile(self)  # fast\n",
    '        self = torch.compile(self, mode="default")\n',
]
BODY = [
    "torch.compile(model)\n",
    "torch.compile(model, dynamic=True)  # é: kept\n",
    "torch.compile(\n    model,\n    mode='max_autotune',\n)\n",
    "torch.compile(  # why\n    model,  # which\n    fullgraph=True,\n)\n",
    "fast = torch.compile(model, mode = 'reduce_overhead')\nprint(fast(torch.randn(1, 8)))\n",
    "model.compile()\nprint( model.forward( torch.randn(1, 8) ) )  # odd blanks\n",
    "fast = torch.compile(model)\ny = fast(model.x); torch.save(fast.state_dict(), 'a.pt')\n",
    "fast = torch.compile(model)\ny = fast.forward(\n    torch.randn(1, 8)  # x\n)\n",
    "optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)\n"
    "schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)\n"
    "update = torch.compile(optimizer.step)\nupdate()\n",
    "x = 1\nif x:\n\ttorch.compile(model)\n",
    "# compilegate: ignore[compiled-discarded] a test\ntorch.compile(model)\n",
]  # fmt: skip


def fixed(script: Path, text: str) -> str:
    script.write_bytes(text.encode())
    for each in fix_paths([script]).fixed:
        script.write_bytes(each.after)
    return script.read_bytes().decode()


@pytest.mark.slow
@given(st.sampled_from(INIT), st.lists(st.sampled_from(BODY), max_size=4), st.booleans())
@settings(max_examples=25, deadline=None)
def test_a_fix_is_made_once_and_mends_what_it_fixes(tmp_path_factory, init, parts, windows):
    script = tmp_path_factory.mktemp("fix") / "train.py"
    text = HEAD.format(init=init) + "".join(parts)
    text = text.replace("\n", "\r\n") if windows else text
    before = {finding.rule for finding in _findings(script, text)}
    once = fixed(script, text)
    ast.parse(once)
    assert fixed(script, once) == once
    assert ("\r\n" in once) == windows
    comments = [line.partition("#")[2] for line in text.splitlines() if "#" in line]
    assert [line.partition("#")[2] for line in once.splitlines() if "#" in line] == comments
    if "  # which" not in text:  # a comment in the middle of what would go: left alone
        left = {finding.rule for finding in _findings(script, once)}
        assert not left & before & (set(PLANS) - {"past-the-wrapper"}), once


def _findings(script: Path, text: str):
    script.write_bytes(text.encode())
    return check_paths([script]).findings


def test_what_no_edit_speaks_of_stays_to_the_byte(tmp_path):
    script = tmp_path / "train.py"
    text = HEAD.format(init="") + "torch.compile( model )   # two blanks\nx  =  {1:2 ,}\n"
    assert fixed(script, text) == text.replace("torch.compile( model )", "model.compile()")


@pytest.mark.parametrize(
    "text",
    [
        "import torch\n\n\ndef run(model):\n    torch.compile(model)\n    return model\n",
        "import torch\nfrom elsewhere import model\n\ntorch.compile(model)\nmodel(1)\n",
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def compile(self):\n"
        "        self = torch.compile(self)\n",
        "import torch\n\n\nclass Net(Base):\n    def __init__(self):\n"
        "        self = torch.compile(self)\n",
    ],
    ids=["parameter", "imported", "compile-of-its-own", "unknown-base"],
)
def test_what_is_not_sure_is_left_alone(tmp_path, text):
    script = tmp_path / "train.py"
    assert fixed(script, text) == text


def test_a_model_that_is_imported_from_the_folder_is_known(tmp_path):
    (tmp_path / "net.py").write_text(HEAD.format(init=""), encoding="utf-8")
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nfrom net import Net\n\nmodel = Net()\ntorch.compile(model)\nmodel(1)\n",
        encoding="utf-8",
    )
    [change] = fix_paths([tmp_path]).fixed
    assert change.path == script
    assert b"model.compile()\nmodel(1)" in change.after
    assert "-torch.compile(model)\n+model.compile()\n" in change.diff


@pytest.mark.parametrize("name", sorted(PLANS))
def test_a_fix_mends_the_bad_example_of_its_page(name, tmp_path):
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    write_scripts(tmp_path, scripts_under(page, "Bad"))
    for each in fix_paths([tmp_path]).fixed:
        each.path.write_bytes(each.after)
    assert name not in {finding.rule for finding in check_paths([tmp_path]).findings}
    assert fix_paths([tmp_path]).fixed == ()
