"""`python -m benchmarks.zoo`: see the package."""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import multiprocessing
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.zoo.page import Summary, page
from benchmarks.zoo.row import Row, complete, read_row

ROOT = Path(__file__).resolve().parents[2]
ROWS, PAGE = ROOT / ".cache" / "zoo", ROOT / "docs" / "zoo.md"
LIBRARIES = ("torch", "torchvision", "timm", "transformers", "diffusers", "torch_geometric")


def main(arguments: Sequence[str] | None = None) -> int:
    """Complete the rows, write the page, and say whether the aim is reached."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zoo", description=__doc__)
    parser.add_argument("--only", default="", help="a regular expression in names or families")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--backend", default="inductor", help="aot_eager is fast")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--rows", type=Path, default=ROWS, help="the folder that keeps the rows")
    parser.add_argument("--page", action="store_true", help="write the page from what there is")
    parser.add_argument("--check", action="store_true", help="exit with 1 below the aim")
    given = parser.parse_args(arguments)
    _set_environment(given.rows.resolve())
    every = list(_names("", given.precision))
    chosen = [] if given.page else _names(given.only, given.precision)
    names = sorted(chosen, key=lambda name: hashlib.sha256(name.encode()).digest())  # families mix
    keys = _keys()
    folder = given.rows / _version("torch") / given.precision / given.backend

    def made(name: str) -> Row:
        return complete(_path(folder, name), name, given.precision, given.backend, keys)

    began = time.monotonic()
    with ThreadPoolExecutor(given.processes) as pool:
        for number, row in enumerate(pool.map(made, names), start=1):
            seconds = time.monotonic() - began
            print(f"{number:3} of {len(names)}, {seconds:5.0f} s  {_line(row)}", flush=True)
    summary = Summary(_rows(folder, every))
    print("\n".join(summary.lines()))
    if given.backend == "inductor" and given.rows == ROWS:
        PAGE.write_text(page(given.rows, lambda folder: _rows(folder, every)))
        print(f"{PAGE.relative_to(ROOT)} is written")
    return int(given.check and not summary.reaches_the_aim(len(every)))


def _set_environment(rows: Path) -> None:
    """For all processes: one thread each, one cache of compiled code, and no network."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(rows / "compiled"))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    os.environ["HF_HUB_OFFLINE"] = "1"
    multiprocessing.set_forkserver_preload(["benchmarks.zoo.preloaded"])


def _names(only: str, precision: str) -> Iterator[str]:
    """Half of them are trained under bf16 autocast, too."""
    from benchmarks.zoo.hundred import HUNDRED  # noqa: PLC0415 - torch, after the environment

    for number, (name, each) in enumerate(HUNDRED.items()):
        chosen = any(re.search(only, text, re.IGNORECASE) for text in (name, each.family))
        if chosen and (precision == "fp32" or number % 2 == 0):
            yield name


def _path(folder: Path, name: str) -> Path:
    return folder / f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.json"


def _rows(folder: Path, names: Sequence[str]) -> list[Row]:
    rows = [read_row(_path(folder, name)) for name in names]
    return [each for each in rows if "probe" in each]


def _keys() -> dict[str, str]:
    """What a row is true of: the zoo and its libraries; and for the probe `compilegate.job`."""
    zoo, program = ROOT / "benchmarks/zoo", ROOT / "compilegate/job"
    names = "architecture", "others", "planted", "script", "transformer", "truth", "vision"
    models = [*(zoo / f"{name}.py" for name in names), ROOT / "benchmarks/miscompilers.py"]
    truth = _digest(models, map(_version, LIBRARIES))
    return {"truth": truth, "probe": _digest([zoo / "row.py", *program.rglob("*.py")], [truth])}


def _digest(files: Iterable[Path], words: Iterable[str]) -> str:
    digest = hashlib.sha256(" ".join(words).encode())
    for each in sorted(files):
        digest.update(each.read_bytes())
    return digest.hexdigest()[:16]


def _version(library: str) -> str:
    try:
        return importlib.metadata.version(library).split("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _line(row: Row) -> str:
    truth, probe = row["truth"], row["probe"]
    planted = ", ".join(f"{each['kind']} {each['said']}" for each in probe["planted"])
    said = f"said {probe['said']} ({probe.get('why')}), is {truth['answer']} {truth['why']}"
    return f"{row['name']}: {said}; {planted}"


if __name__ == "__main__":
    sys.exit(main())
