"""What a training script shows of itself without being run: its arguments, its precision, what it
imports from beside itself, and where Compilegate's five lines go. Pure but for reading files.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.init.table import InitError

CALLED: Mapping[str, str] = {
    **dict.fromkeys(
        ("batch_size", "batch", "bs", "bsz", "train_batch_size", "per_device_train_batch_size"),
        "batch_size",
    ),
    **dict.fromkeys(("learning_rate", "lr", "base_lr", "peak_lr"), "learning_rate"),
    **dict.fromkeys(("seed", "random_seed", "manual_seed", "random_state"), "seed"),
}
"""Settings that every job gets, by their names in scripts."""
PRECISIONS: Mapping[Any, str] = {
    **dict.fromkeys(("bfloat16", "bf16", "bf16-mixed", "bf16-true"), "bf16"),
    **dict.fromkeys(("float16", "half", "fp16", "16-mixed", "16-true", "16", 16), "fp16"),
}
"""Precisions by their names in torch, Accelerate and Lightning."""
PRECISE = re.compile(r"autocast|Accelerator|Trainer|Fabric|\w*TrainingArguments|\w+Config")
"""What is called to train in a precision, under one of these arguments."""
PRECISION_ARGUMENTS = ("dtype", "mixed_precision", "precision")


@dataclass(frozen=True, kw_only=True)
class Script:
    """A script, read."""

    arguments: Mapping[str, str]
    """The script's names of a job's settings, by our names."""
    settings: Mapping[str, Any]
    """What it trains with by default, as far as it was found: batch_size, learning_rate, and the
    precision of its autocast or of its library where that is bf16 or fp16."""
    beside: tuple[Path, ...]
    """Files and folders that it imports from beside itself."""
    advice: tuple[str, ...]
    """Places for the lines that bring a script under the gate; none if they are there."""

    @property
    def notes(self) -> Iterator[str]:
        """Which numbers were read, and which were not found."""
        if self.settings:
            found = ", ".join(f"{name} {value}" for name, value in self.settings.items())
            yield f"read from the script: {found}"
        if missing := [n for n in ("batch_size", "learning_rate") if n not in self.settings]:
            yield f"not found in the script: {' and '.join(missing)}; correct them in the arms"


def read_script(path: Path) -> Script:
    """Read a script. Raises InitError for one that is no Python."""
    try:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
    except OSError as error:
        raise InitError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InitError(f"{path} is not UTF-8 text at byte {error.start}") from error
    except SyntaxError as error:
        raise InitError(f"{path}: line {error.lineno} is not valid Python ({error.msg})") from error
    options = _options(tree)
    called: dict[str, str] = {}
    for option in options:
        if ours := CALLED.get(option.replace("-", "_")):
            called.setdefault(ours, option)
    defaults = {ours: _positive(options[option]) for ours, option in called.items()}
    settings = {
        "batch_size": defaults.get("batch_size") or _keyword(tree, "batch_size"),
        "learning_rate": defaults.get("learning_rate") or _keyword(tree, "lr"),
        "precision": _precision(tree, options),
    }
    uses_job = any(name.startswith("compilegate") for name in _imported(tree))
    return Script(
        arguments=called,
        settings={name: value for name, value in settings.items() if value},
        beside=tuple(_beside(tree, path)),
        advice=() if uses_job else tuple(_advice(tree, text.splitlines())),
    )


def _options(tree: ast.AST) -> dict[str, Any]:
    """Defaults of argparse's and click's options, by what the command line calls them."""
    return {
        word[2:]: _given(call).get("default")
        for call in _calls(tree, "add_argument", "option")
        for word in map(_plain, call.args)
        if isinstance(word, str) and word.startswith("--")
    }


def _given(call: ast.Call) -> dict[str | None, Any]:
    return {each.arg: _plain(each.value) for each in call.keywords}


def _plain(node: ast.expr) -> Any:
    """A constant, or the end of a dotted name, such as `bfloat16`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.value if isinstance(node, ast.Constant) else None


def _positive(value: Any) -> float | None:
    return value if type(value) in (int, float) and value > 0 else None


def _keyword(tree: ast.AST, name: str) -> float | None:
    """The number that a call gives under this name, as in `DataLoader(..., batch_size=64)`."""
    return next(filter(None, (_positive(_given(call).get(name)) for call in _calls(tree))), None)


def _precision(tree: ast.AST, options: Mapping[str, Any]) -> str | None:
    """The first that a call of torch, Accelerate, Transformers or Lightning asks for. An option
    counts as its default."""
    defaults: dict[Any, Any] = {name.replace("-", "_"): value for name, value in options.items()}
    for call in _calls(tree):
        name = _called(call)
        given = _given(call)
        if not PRECISE.fullmatch(name) or given.get("enabled", True) is not True:
            continue
        precisions = [given.get(argument) for argument in PRECISION_ARGUMENTS]
        precisions += [each for each in ("bf16", "fp16") if given.get(each) is True]
        if name == "autocast":
            precisions += map(_plain, call.args)
            if "dtype" not in given and len(call.args) < 2:  # torch's defaults
                precisions.append("bf16" if "cpu" in ast.unparse(call) else "fp16")
        meant = (value for each in precisions for value in (each, defaults.get(each)))
        if found := next((PRECISIONS[value] for value in meant if value in PRECISIONS), None):
            return found
    return None


def _calls(tree: ast.AST, *names: str) -> Iterator[ast.Call]:
    """All calls, or those of functions of these names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (not names or _called(node) in names):
            yield node


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


def _beside(tree: ast.AST, path: Path) -> Iterator[Path]:
    """Modules and packages in the script's folder that it needs, and those that they need."""
    seen = {path.stem}
    waiting = [tree]
    while waiting:
        for name in sorted({name.partition(".")[0] for name in _imported(waiting.pop())} - seen):
            seen.add(name)
            module, package = path.parent / f"{name}.py", path.parent / name
            if module.is_file():
                yield module
                waiting.append(_parsed(module))
            elif (package / "__init__.py").is_file():
                yield package
                waiting += map(_parsed, sorted(package.rglob("*.py")))


def _parsed(file: Path) -> ast.AST:
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])  # the script itself will say what is wrong with it


def _advice(tree: ast.AST, lines: list[str]) -> Iterator[str]:
    yield "at the top: from compilegate import job"
    if any(_calls(tree, "Trainer", "Seq2SeqTrainer", "SFTTrainer")):
        yield "give Hugging Face's Trainer callbacks=[job.TrainerCallback()] (docs/callbacks.md)"
        return
    for call in list(_calls(tree, "SGD", "Adam", "AdamW", "RMSprop"))[:1]:
        yield f"line {call.lineno}: before the optimizer is made: model = job.compile(model)"
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For)]
    # The innermost loop is the last to begin.
    steps = [loop for loop in loops if any(_calls(loop, "backward"))]
    for loop in steps[-1:]:
        yield f"line {loop.lineno}: {lines[loop.lineno - 1].strip()}  ->  loop over job.steps(...)"
    yield "where it evaluates: job.examples(ids=..., labels=..., logits=...)"
    saves = [call.lineno for call in _calls(tree, "save")]
    yield f"{f'line {saves[-1]}' if saves else 'at the end'}: job.save(model)"
