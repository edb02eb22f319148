"""Makes the definitions of public pipelines where they lie, runs them here, and writes the table of
what became of them:

    python -m benchmarks.public_pipelines.survey MIRROR OUT --sdk2 PYTHON --sdk3 PYTHON

MIRROR holds a clone of each repository of pipelines.toml as OWNER+NAME (or OWNER+NAME/repo). PYTHON
is an environment with that major version of the SageMaker SDK; it stands for every image, unless
`--image` names another. OUT gets a folder for each pipeline, results.json and table.md, and
`--page docs/public-pipelines.md` puts that table into the page. A pipeline that is in results.json
already is not done again, so that a survey that was broken off goes on; `--again` does it anew,
`--compiled` uses the definition that is there.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.public_pipelines.compiling import commit_of, compile_pipeline, step_types
from benchmarks.public_pipelines.listing import Pipeline, read_pipelines
from benchmarks.public_pipelines.running import explain, options_of, run
from benchmarks.public_pipelines.stand_in import StandIn
from benchmarks.public_pipelines.table import table

COMPILED = "compiled"
BEGIN, END = "<!-- the table begins -->", "<!-- the table ends -->"


def main() -> None:
    """Survey all pipelines, or those whose name has a text in it."""
    given = _arguments()
    given.out.mkdir(parents=True, exist_ok=True)
    pipelines = read_pipelines()
    with StandIn(given.out) as aws:
        survey_all(pipelines, given, aws)
    rows = recorded(given.out)
    told = table(pipelines, rows)
    (given.out / "table.md").write_text(told, encoding="utf-8")
    if given.page is not None:
        page = given.page.read_text(encoding="utf-8")
        before, _, after = page.partition(BEGIN)
        given.page.write_text(f"{before}{BEGIN}\n\n{told}\n{END}{after.partition(END)[2]}")


def survey_all(pipelines: Sequence[Pipeline], given: argparse.Namespace, aws: StandIn) -> None:
    """Survey those that are asked for and not done yet."""
    for pipeline in pipelines:
        undone = {None} if given.no_run else {None, COMPILED}
        if given.only and not any(text in pipeline.folder for text in given.only):
            continue
        if (
            recorded(given.out).get(pipeline.key, {}).get("result") not in undone
            and not given.again
        ):
            continue
        row = survey(pipeline, given, aws)
        row["why"] = row["why"].replace(str(given.out), "OUT")
        print(f"{row['result']:>18}  {pipeline.folder}  {row['why'][:200]}", flush=True)
        record(given.out, pipeline.key, row)


def recorded(out: Path) -> dict[str, dict[str, Any]]:
    """What became of each, as far as it was surveyed."""
    results = out / "results.json"
    return json.loads(results.read_text()) if results.is_file() else {}


def record(out: Path, key: str, row: dict[str, Any]) -> None:
    """Keep one result, and what the first was; another survey may run beside this one."""
    with (out / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = recorded(out)
        before = rows.get(key)
        if before is not None and "first" in before:
            row = {**row, "first": before["first"]}
        elif row["result"] != COMPILED and (before is None or before["result"] == COMPILED):
            row = {**row, "first": row["result"]}
        rows[key] = row
        part = out / "results.part"
        part.write_text(json.dumps(rows, indent=1))
        part.replace(out / "results.json")


def survey(pipeline: Pipeline, given: argparse.Namespace, aws: StandIn) -> dict[str, Any]:
    """What became of one pipeline."""
    python = given.sdk2 if pipeline.sdk == "2" else given.sdk3
    folder = given.out / pipeline.folder
    definition = folder / "definition.json"
    row: dict[str, Any] = {"commit": commit_of(pipeline, given.mirror), "steps": [], "seconds": 0.0}
    if not (given.compiled and definition.is_file()):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        problem = compile_pipeline(pipeline, given.mirror, folder, python, aws)
        if problem is not None:
            return {**row, "result": "not compiled", "why": problem}
    row["steps"] = step_types(definition)
    options = options_of(pipeline, folder, given.image or python)
    log = folder / "explain.log"
    row["wrong"], row["blockers"] = explain(given.program, definition, options, log)
    if given.no_run:
        return {**row, "result": COMPILED, "why": row["wrong"]}
    shutil.rmtree(folder / "home" / "executions", ignore_errors=True)
    return {**row, **run(given.program, definition, [*options, "--no-cache"], folder / "run.log")}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mirror", type=Path)
    parser.add_argument("out", type=lambda text: Path(text).resolve())
    parser.add_argument("--sdk2", required=True, metavar="PYTHON")
    parser.add_argument("--sdk3", required=True, metavar="PYTHON")
    parser.add_argument("--image", metavar="PYTHON", help="what stands for every image")
    parser.add_argument("--only", action="append", help="those whose name has this in it")
    parser.add_argument("--again", action="store_true", help="also what is in results.json")
    parser.add_argument("--compiled", action="store_true", help="from definitions made before")
    parser.add_argument("--no-run", action="store_true", help="compile and explain alone")
    parser.add_argument("--page", type=Path, help="the page that gets the table")
    beside = Path(sys.executable).with_name("compilegate")
    parser.add_argument("--program", type=Path, default=beside, help="the compilegate to run")
    return parser.parse_args()


if __name__ == "__main__":
    main()
