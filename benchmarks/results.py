"""Results of the benchmarks: a JSON file for each in benchmarks/results, and tables in the docs.

    python -m benchmarks.results        # write every table in docs/*.md again

A page shows a result between the marks `<!-- result: NAME -->` and `<!-- result: end -->`.
A test wants each result on a page, so a new one needs marks there.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

PROJECT = Path(__file__).parents[1]
RESULTS, DOCS = PROJECT / "benchmarks" / "results", PROJECT / "docs"
MARKS = re.compile(r"(<!-- result: (?!end )([\w.-]+) -->\n).*?(?=<!-- result: end -->)", re.DOTALL)
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class Result:
    """One table, and how it was made."""

    command: str
    machine: str
    date: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default_factory=tuple)

    def markdown(self) -> str:
        """The command, the machine, the notes and the table, as a page shows them."""
        made = f"Command: `{self.command}`. Machine: {self.machine}. Date: {self.date}."
        return "\n\n".join([made, *self.notes, table(self.columns, self.rows)])


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def read(name: str) -> Result:
    """Read a result by its name."""
    return Result(**json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")))


def write(name: str, result: Result) -> None:
    """Write a result, each row of its table on a line of its own."""
    rows = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in result.rows)
    text = json.dumps({**asdict(result), "rows": []}, indent=1, ensure_ascii=False)
    text = text.replace('"rows": []', f'"rows": [\n  {rows}\n ]')
    (RESULTS / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


def parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with `--write`; the first line of a module's docstring describes it."""
    made = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    made.add_argument("--write", action="store_true", help="write the result and the pages")
    return made


def publish(
    name: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    to_file: bool,
    notes: Sequence[str] = (),
) -> None:
    """Print a result. With `to_file`, write it to its file and to the pages that show it."""
    cells = [[str(cell) for cell in row] for row in rows]
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    result = Result(command(), machine(), today, list(columns), cells, list(notes))
    print(result.markdown(), flush=True)
    if to_file:
        write(name, result)
        write_pages()


def command() -> str:
    """This process's command, without `--write`."""
    path = Path(sys.argv[0]).resolve()
    module = path.parent if path.stem == "__main__" else path.with_suffix("")
    inside = module.is_relative_to(PROJECT)
    name = ".".join(module.relative_to(PROJECT).parts) if inside else module.name
    arguments = [each for each in sys.argv[1:] if each != "--write"]
    return shlex.join(["python", "-m", name, *arguments])


def machine() -> str:
    """Processor, cores, GPU, versions and load of this machine."""
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.exists() else ""
    found = re.search(r"^model name\s*: (.*)", text, re.MULTILINE)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts = [f"{found[1] if found else platform.machine()}, {cores} cores", platform.system()]
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        parts.append(torch.cuda.get_device_name())
    parts.append(f"Python {platform.python_version()}")
    for name in ("torch", "transformers", "numpy"):
        if name in sys.modules:
            parts.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join([*parts, f"load {os.getloadavg()[0]:.1f}"])


def pages() -> dict[Path, str]:
    """Every page that shows results, as it should be."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
    return {path: fill(text) for path, text in texts.items() if MARKS.search(text)}


def fill(text: str) -> str:
    """A page's text with the results between its marks."""
    return MARKS.sub(lambda found: f"{found[1]}{read(found[2]).markdown()}\n", text)


def write_pages() -> None:
    """Write every page that shows results."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_pages()
