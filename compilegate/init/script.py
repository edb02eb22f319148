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
    def told(self) -> list[str]:
        """Sentences on which numbers were read, and which were not found."""
        named = {
            "batch size": self.batch_size, "rate": self.learning_rate, "precision": self.precision,
        }  # fmt: skip
        read = [f"{name} {value}" for name, value in named.items() if value]
        arms = {"batch_size": self.batch_size, "learning_rate": self.learning_rate}
        missing = [name for name, value in arms.items() if not value]
        found = [f"read from the script: {', '.join(read)}"] * bool(read)
        lacking = f"not found in the script: {' and '.join(missing)}; correct them in the arms"
        return found + [lacking] * bool(missing)


def read_script(path: Path) -> Script:
    """Read a script. Raises InitError for one that is no Python."""
    try:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
    except OSError as error:
        raise InitError(f"SOURCE: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InitError(f"SOURCE: {path} is not UTF-8 text at byte {error.start}") from error
    except SyntaxError as error:
        raise InitError(
            f"SOURCE: {path}: line {error.lineno}: found what Python cannot read ({error.msg}), "
            "allowed: a Python script"
        ) from error
    options = dict(_options(tree))
    arguments = {
        ours: next(name for name in names if name in options)
        for ours, names in CALLED.items()
        if any(name in options for name in names)
    }
    defaults = {ours: _positive(options[name].default) for ours, name in arguments.items()}
    batch_size = defaults.get("batch_size") or _keyword(tree, "batch_size")
    uses_job = any(name.startswith("compilegate") for name in _imported(tree))
    return Script(
        arguments={ours: options[name].written for ours, name in arguments.items()},
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
    for call in _calls(tree):
        if _called(call) not in ("add_argument", "option"):
            continue
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
    given = (each for call in _calls(tree) for each in call.keywords if each.arg == name)
    constants = (each.value.value for each in given if isinstance(each.value, ast.Constant))
    return next((number for each in constants if (number := _positive(each))), None)


def _precision(tree: ast.AST, options: Mapping[str, _Option]) -> str | None:
    """The first that a call of torch, Accelerate, Transformers or Lightning asks for. What an
    option or a variable says counts as far as its default is plain."""
    variables = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def plain(node: ast.expr | None) -> Any:
        """The constant, or the end of a dotted name, such as `bfloat16`."""
        if isinstance(node, ast.Name):
            node = variables.get(node.id)
        if isinstance(node, ast.Attribute):
            known = options.get(node.attr)
            return node.attr if known is None else known.default
        return node.value if isinstance(node, ast.Constant) else None

    for call in _calls(tree):
        given = {each.arg: plain(each.value) for each in call.keywords if each.arg}
        name, function = _called(call), ast.unparse(call.func)
        found: str | None = None
        if function in _AUTOCASTS:
            found = _autocast(function, [plain(each) for each in call.args], given)
        elif name.endswith(("TrainingArguments", "Config")):
            found = next((each for each in ("bf16", "fp16") if given.get(each) is True), None)
        elif name in _SETTINGS:
            found = _PRECISIONS.get(given.get(_SETTINGS[name]))
        if found is not None:
            return found
    return None


def _autocast(function: str, places: list[Any], given: Mapping[str, Any]) -> str | None:
    """What autocast makes of its arguments: torch.cuda.amp's takes no device."""
    if given.get("enabled", True) is not True:
        return None
    if function in ("torch.cuda.amp.autocast", "torch.cpu.amp.autocast"):
        places = [function.split(".")[1]]
    device = given.get("device_type", places[0] if places else "cuda")
    dtype = given.get("dtype", places[1] if len(places) > 1 else None)
    if dtype is None and "dtype" not in given:
        dtype = "float16" if device == "cuda" else "bfloat16"
    return _PRECISIONS.get(dtype)


_AUTOCASTS = (
    *("autocast", "amp.autocast", "torch.autocast", "torch.amp.autocast"),
    *("torch.cuda.amp.autocast", "torch.cpu.amp.autocast"),
)
_SETTINGS = {"Accelerator": "mixed_precision", "Trainer": "precision", "Fabric": "precision"}
_PRECISIONS: Mapping[Any, str] = {
    **dict.fromkeys(("bfloat16", "bf16", "bf16-mixed", "bf16-true"), "bf16"),
    **dict.fromkeys(("float16", "half", "fp16", "16-mixed", "16-true", "16", 16), "fp16"),
}
"""By what torch, Accelerate and Lightning call them."""


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.Call))


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
    seen = {path.resolve()}
    waiting: list[ast.AST] = [tree]
    while waiting:
        for name in sorted({name.partition(".")[0] for name in _imported(waiting.pop())}):
            for place in (path.parent / f"{name}.py", path.parent / name):
                found = place.suffix == ".py" or (place / "__init__.py").is_file()
                if not (found and place.exists()) or place.resolve() in seen:
                    continue
                seen.add(place.resolve())
                yield place
                files = [place] if place.is_file() else sorted(place.rglob("*.py"))
                waiting += (_parsed(file) for file in files)


def _parsed(file: Path) -> ast.AST:
    try:
        return ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return ast.Module([], [])  # the script itself will say what is wrong with it


def _advice(tree: ast.AST, lines: list[str]) -> Iterator[str]:
    yield "at the top: from compilegate import job"
    if any(_called(call) in ("Trainer", "Seq2SeqTrainer", "SFTTrainer") for call in _calls(tree)):
        yield "give Hugging Face's Trainer callbacks=[job.TrainerCallback()] (docs/callbacks.md)"
        return
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For)]
    steps = [loop for loop in loops if any(_called(call) == "backward" for call in _calls(loop))]
    inner = [each for each in steps if not any(_holds(each, other) for other in steps)]
    for call in _calls(tree):
        if _called(call) in ("SGD", "Adam", "AdamW", "RMSprop"):
            yield f"line {call.lineno}: before the optimizer is made: model = job.compile(model)"
            break
    for loop in inner[:1]:
        yield f"line {loop.lineno}: {lines[loop.lineno - 1].strip()}  ->  loop over job.steps(...)"
    yield "where it evaluates: job.examples(ids=..., labels=..., logits=...)"
    saves = [call.lineno for call in _calls(tree) if _called(call) == "save"]
    yield f"{f'line {saves[-1]}' if saves else 'at the end'}: job.save(model)"


def _holds(outer: ast.AST, inner: ast.AST) -> bool:
    return outer is not inner and any(node is inner for node in ast.walk(outer))
