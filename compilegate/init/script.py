"""What a training script shows of itself without being run: its arguments, its precision, what it
imports from beside itself, and where Compilegate's five lines go. Pure but for reading files.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.init.table import InitError

CALLED: Mapping[str, tuple[str, ...]] = {
    "batch_size": (
        "batch_size", "batch", "bs", "train_batch_size", "per_device_train_batch_size", "bsz",
    ),
    "learning_rate": ("learning_rate", "lr", "base_lr", "peak_lr"),
    "seed": ("seed", "random_seed", "manual_seed", "random_state"),
}  # fmt: skip
"""What scripts call what every job is told."""
PRECISIONS: Mapping[Any, str] = {
    **dict.fromkeys(("bfloat16", "bf16", "bf16-mixed", "bf16-true"), "bf16"),
    **dict.fromkeys(("float16", "half", "fp16", "16-mixed", "16-true", "16", 16), "fp16"),
}
"""By what torch, Accelerate and Lightning call them."""
SETTINGS = {"Accelerator": "mixed_precision", "Trainer": "precision", "Fabric": "precision"}
"""Which argument sets the precision."""


@dataclass(frozen=True, kw_only=True)
class Script:
    """A script, read."""

    arguments: Mapping[str, str]
    """What it calls what a job is told, by our names."""
    batch_size: int | None
    """Its default."""
    learning_rate: float | None
    precision: str | None
    """bf16 or fp16, where it trains in one by autocast or by its library's setting."""
    beside: tuple[Path, ...]
    """Files and folders that it imports from beside itself."""
    advice: tuple[str, ...]
    """Where the lines go that bring it under the gate, unless it knows compilegate.job already."""

    @property
    def notes(self) -> Iterator[str]:
        """Which numbers were read, and which were not found."""
        arms = {"batch_size": self.batch_size, "learning_rate": self.learning_rate}
        read = [f"{name} {value}" for name, value in arms.items() if value]
        read += [f"precision {self.precision}"] if self.precision else []
        missing = [name for name, value in arms.items() if not value]
        if read:
            yield f"read from the script: {', '.join(read)}"
        if missing:
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
    options = dict(_options(tree))
    called = {
        ours: next(option for name, option in options.items() if name in names)
        for ours, names in CALLED.items()
        if not options.keys().isdisjoint(names)
    }
    defaults = {ours: _positive(option.default) for ours, option in called.items()}
    batch_size = defaults.get("batch_size") or _keyword(tree, "batch_size")
    uses_job = any(name.startswith("compilegate") for name in _imported(tree))
    return Script(
        arguments={ours: option.written for ours, option in called.items()},
        batch_size=None if batch_size is None else int(batch_size),
        learning_rate=defaults.get("learning_rate") or _keyword(tree, "lr"),
        precision=_precision(tree, options),
        beside=tuple(_beside(tree, path)),
        advice=() if uses_job else tuple(_advice(tree, text.splitlines())),
    )


@dataclass(frozen=True)
class _Option:
    written: str
    """As on the command line, without dashes."""
    default: Any


def _options(tree: ast.AST) -> Iterator[tuple[str, _Option]]:
    """Options of argparse and click, by their names with underscores."""
    for call in _calls(tree, "add_argument", "option"):
        default = next((each.value for each in call.keywords if each.arg == "default"), None)
        value = default.value if isinstance(default, ast.Constant) else None
        for word in call.args:
            name = word.value if isinstance(word, ast.Constant) else None
            if isinstance(name, str) and name.startswith("--"):
                yield name[2:].replace("-", "_"), _Option(name[2:], value)


def _positive(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and value > 0 else None


def _keyword(tree: ast.AST, name: str) -> float | None:
    """The number that a call gives under this name, as in `DataLoader(..., batch_size=64)`."""
    given = (each.value for call in _calls(tree) for each in call.keywords if each.arg == name)
    numbers = (_positive(each.value) for each in given if isinstance(each, ast.Constant))
    return next((number for number in numbers if number), None)


def _precision(tree: ast.AST, options: Mapping[str, _Option]) -> str | None:
    """The first that a call of torch, Accelerate, Transformers or Lightning asks for. An option
    counts as its default."""

    def plain(node: ast.expr) -> Any:
        """The constant, or the end of a dotted name, such as `bfloat16`."""
        if isinstance(node, ast.Attribute):
            return options[node.attr].default if node.attr in options else node.attr
        return node.value if isinstance(node, ast.Constant) else None

    for call in _calls(tree):
        given = {each.arg: plain(each.value) for each in call.keywords}
        name = _called(call)
        if name == "autocast" and given.get("enabled", True) is True:
            values = [*map(plain, call.args), *given.values()]
            found = next((PRECISIONS[each] for each in values if each in PRECISIONS), None)
            if found is None and "dtype" not in given and len(call.args) < 2:
                found = "bf16" if "cpu" in ast.unparse(call) else "fp16"  # torch's defaults
        elif name.endswith(("TrainingArguments", "Config")):
            found = next((each for each in ("bf16", "fp16") if given.get(each) is True), None)
        else:
            found = PRECISIONS.get(given.get(SETTINGS.get(name, "")))
        if found is not None:
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
