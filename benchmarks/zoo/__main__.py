"""Check the parity probe on a zoo of a hundred architectures: what compiles right, and how fast?

    make zoo                                       # all of it, resumed where it stopped
    python -m benchmarks.zoo [--only PART] [--precision bf16] [--processes 2] [--check] [--write]

Each is trained for ten steps by an ordinary loop with the five lines (`row`), once as its compiler
has it and three times with an error planted in the compiled code (`planted`). The peer is the truth
about each compiler, which is found without the project's code (`truth`). Rows are stored one by
one, so a run that was stopped goes on. `--write` makes the result of docs/zoo.md from them.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import multiprocessing
import os
import re
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks import results
from benchmarks.zoo import HUNDRED
from benchmarks.zoo.row import Row, complete, read_row
from benchmarks.zoo.summary import COLUMNS, Summary, cells

ROOT = results.PROJECT
ROWS = ROOT / ".cache" / "zoo"
LIBRARIES = ("torch", "torchvision", "timm", "transformers", "diffusers", "torch_geometric")
PRELOADED = """
benchmarks.zoo.truth timm transformers.models.bert.modeling_bert torch_geometric.nn
diffusers.models.unets.unet_2d_condition torch._dynamo.backends.debugging
torch._inductor.compile_fx torch._inductor.codegen.cpp compilegate.job.script
compilegate.job.probes.parity compilegate.job.probes.speed
compilegate.job.compilers.torch_compile
"""
"""What most architectures import, which takes 20 s: once, in the server that others fork from."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Complete the rows and print what they show; with `--check`, 1 below the aim."""
    parser = results.parser(__doc__)
    parser.add_argument("--only", default="", help="a regular expression in names or families")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--backend", default="inductor", help="aot_eager is fast")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--rows", type=Path, default=ROWS, help="the folder of the rows")
    parser.add_argument("--check", action="store_true", help="exit with 1 below the aim")
    options = parser.parse_args(arguments)
    set_environment(options.rows.resolve())
    every, chosen = names("", options.precision), names(options.only, options.precision)
    chosen.sort(key=lambda name: hashlib.sha256(name.encode()).digest())  # families mix
    keys = source_keys()
    version = version_of("torch")
    folder = options.rows / version / options.precision / options.backend

    def finish(name: str) -> Row:
        return complete(path_of(folder, name), name, options.precision, options.backend, keys)

    began = time.monotonic()
    with ThreadPoolExecutor(options.processes) as pool:
        for number, row in enumerate(pool.map(finish, chosen), start=1):
            seconds = time.monotonic() - began
            print(f"{number:3} of {len(chosen)}, {seconds:5.0f} s  {line(row)}", flush=True)
    rows = [read_row(path_of(folder, name)) for name in every]
    rows = [each for each in rows if "probe" in each]
    summary = Summary(rows)
    name, notes = f"zoo-torch-{version}-{options.precision}", ["\n".join(summary.lines())]
    to_file = options.write and options.backend == "inductor"
    results.publish(name, COLUMNS, [cells(row) for row in rows], to_file=to_file, notes=notes)
    return int(options.check and not summary.reaches_the_aim(len(every)))


def set_environment(rows: Path) -> None:
    """Give all processes one thread each, one cache of compiled code, and no network."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(rows / "compiled"))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    os.environ["HF_HUB_OFFLINE"] = "1"
    multiprocessing.set_forkserver_preload(PRELOADED.split())


def names(only: str, precision: str) -> list[str]:
    """Architectures by name or family. Half of them are trained under bf16 autocast, too."""
    return [
        name
        for number, (name, each) in enumerate(HUNDRED.items())
        if any(re.search(only, text, re.IGNORECASE) for text in (name, each.family))
        and (precision == "fp32" or number % 2 == 0)
    ]


def path_of(folder: Path, name: str) -> Path:
    """The file of an architecture's row."""
    return folder / f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.json"


def source_keys() -> dict[str, str]:
    """What a row depends on: the zoo and its libraries; and for the probe `compilegate.job`."""
    zoo, program = ROOT / "benchmarks/zoo", ROOT / "compilegate/job"
    own = "architecture", "others", "planted", "transformer", "truth", "vision"
    models = [*(zoo / f"{name}.py" for name in own), ROOT / "benchmarks/miscompilers.py"]
    truth = digest(models, map(version_of, LIBRARIES))
    return {"truth": truth, "probe": digest([zoo / "row.py", *program.rglob("*.py")], [truth])}


def digest(files: Iterable[Path], words: Iterable[str]) -> str:
    """The digest of some words and of the content of some files."""
    found = hashlib.sha256(" ".join(words).encode())
    for each in sorted(files):
        found.update(each.read_bytes())
    return found.hexdigest()[:16]


def version_of(library: str) -> str:
    """The library's version, or `none`."""
    try:
        return importlib.metadata.version(library).split("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return "none"


def line(row: Row) -> str:
    """A row in a line."""
    truth, probe = row["truth"], row["probe"]
    planted = ", ".join(f"{each['kind']} {each['answer']}" for each in probe["planted"])
    found = f"probe {probe['answer']} ({probe.get('why')}), truth {truth['answer']} {truth['why']}"
    return f"{row['name']}: {found}; {planted}"


if __name__ == "__main__":
    sys.exit(main())
