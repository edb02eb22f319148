"""Which loops were found, what was followed from there, and what comments ignore."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilegate.check.checking import check_paths
from compilegate.check.output import NOTHING, coverage_line, text_of
from tests.check.folders import SLOW_STEP, check, notebook

STEP = "    loss = model(inputs)\n    loss.backward()\n    optimizer.step()\n"


@pytest.mark.parametrize(
    ("script", "loops"),
    [
        (SLOW_STEP, ["7-11"]),
        (f"while True:\n{STEP}", ["1-4"]),
        (f"for inputs in a:\n{STEP}\nfor inputs in b:\n{STEP}", ["1-4", "6-9"]),
        (f"for step in range(9):\n    inputs = next(batches)\n{STEP}", ["1-5"]),
        (f"for epoch in range(9):\n  for inputs in loader:\n{STEP}", ["2-5"]),
        (f"def step(inputs):\n{STEP}\nfor each in loader:\n    step(each)\n", ["6-7"]),
        (f"def step(inputs):\n{STEP}", ["1-4 (step: what calls it is in no file)"]),
        ("import keras\nmodel = keras.Sequential([])\nmodel.fit(data)\n",
         ["3 (model.fit: the loop of a framework)"]),
        ("from transformers import Trainer\ntrainer = Trainer(model)\ntrainer.train()\n",
         ["3 (trainer.train: the loop of a framework)"]),
        ("import lightning as L\nclass Net(L.LightningModule):\n    def training_step(self, x):\n"
         "        return self.net(x)\n", ["3-4"]),
        ("for step in range(9):\n    sess.run([train_op, loss])\n", ["1-2"]),
        ("import keras\nopt = keras.optimizers.SGD()\nfor x in data:\n    opt.minimize(f, v)\n",
         ["3-4"]),
        ("for inputs in loader:\n    print(model(inputs))\n", []),
    ],
)  # fmt: skip
def test_each_loop_is_told_with_its_lines(script: str, loops: list[str], tmp_path: Path) -> None:
    found = check(tmp_path, train=script).coverage.loops
    assert [each.removeprefix(f"{tmp_path}/train.py:") for each in found] == loops
    cell = check_paths([notebook(tmp_path / "a.ipynb", "x = 1\n", script)]).coverage.loops
    assert [each.removeprefix(f"{tmp_path}/a.ipynb: cell 2, ") for each in cell] == loops


def test_what_is_followed_is_named_and_what_is_not_is_named(tmp_path: Path) -> None:
    helper = "import elsewhere\nfrom helpers import note\n"
    step = f"def step(inputs):\n    note(elsewhere.augment(inputs))\n{STEP}"
    script = f"{helper}{step}for inputs in loader:\n    step(inputs)\n"
    checked = check(tmp_path, "xla", "neuron", train=script, helpers="def note(value): pass\n")
    assert coverage_line(checked) == (
        f"read: the training loop {tmp_path}/train.py:8-9; followed: step, note; "
        "not followed: elsewhere.augment, model; rules of xla, neuron"
    )


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("from sagemaker.pytorch import PyTorch\nPyTorch(entry_point='train.py')\n",
         "read: no training loop, 1 job for SageMaker; rules of every compiler"),
        ("import torch\nfast = torch.compile(model)\nfast(x)\n",
         "read: no training loop, 1 use of torch.compile; rules of every compiler"),
        ("x = 1\n", NOTHING),
        ("for inputs in loader:\n    print(model(inputs).item())\n", NOTHING),
    ],
)  # fmt: skip
def test_jobs_and_compiled_functions_are_understood_without_a_loop(
    script: str, line: str, tmp_path: Path
) -> None:
    checked = check(tmp_path, train=script)
    assert text_of(checked).splitlines()[0] == line
    assert ("no findings" in text_of(checked)) == checked.understood == (line != NOTHING)


# Comments that ignore a finding.

LINE = "        total += loss.item()"
IGNORE = "# compilegate: ignore"


@pytest.mark.parametrize(
    ("line", "findings", "reasons"),
    [
        (f"{LINE}  {IGNORE}[sync-in-step] it stops", [], ["it stops"]),
        (f"        {IGNORE}[sync-in-step, too-often] it stops\n{LINE}", [], ["it stops"]),
        (f"{LINE}  {IGNORE}[too-often] no reason", ["sync-in-step"], []),
        (f"{LINE}  {IGNORE}", ["sync-in-step", "unknown-rule"], []),
        (f"{LINE}  {IGNORE}[]", ["sync-in-step", "unknown-rule"], []),
        (f"{LINE}  {IGNORE}[sync-in-stp] it stops", ["sync-in-step", "unknown-rule"], []),
        (f"{LINE}  {IGNORE}[sync-in-step]", ["unexplained-ignore"], [""]),
        (f"        total = max(\n            total,  {IGNORE}[sync-in-step] it stops\n"
         "            loss.item(),\n        )", [], ["it stops"]),
        (f'{LINE}\n    help = """\n{IGNORE}[nothing]\n"""', ["sync-in-step"], []),
    ],
)  # fmt: skip
def test_a_comment_ignores_the_rules_it_names_with_a_reason(
    line: str, findings: list[str], reasons: list[str], tmp_path: Path
) -> None:
    checked = check(tmp_path, "xla", train=SLOW_STEP.replace(LINE, line))
    rules = [each.rule for each in checked.findings if each.rule.startswith(("sync", "un"))]
    assert (rules, [each.suppressed for each in checked.suppressed]) == (findings, reasons)
