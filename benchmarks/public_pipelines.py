"""Count the public SageMaker pipelines that run to their end on this machine.

    PYTHON benchmarks/public_pipelines.py CLONES OUT COMPILEGATE

Nothing is timed, so it has no peer. CLONES holds clones as OWNER/NAME. PYTHON has the SageMaker
SDK, moto[s3], pandas 2, numpy 1, torch, scikit-learn 1.1, xgboost 2.1, python-dotenv and setuptools
79. It makes a definition by running the notebook or module, with moto in place of AWS. The command
COMPILEGATE runs it; PYTHON stands for every image. What is not at hand, needs another major version
of the SDK or has an outcome in OUT is not tried. OUT is not below /tmp, which jobs do not see.
public_pipelines.toml gets the outcomes.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import traceback
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import boto3
from moto import mock_aws
from moto.s3.models import S3Backend

COMMAND = "pipeline run {0}/definition.json --home {0}/home --no-cache"
OUTCOMES = {0: "ended", 9: "ended in its Fail step", 2: "refused", 3: "failed", 124: "out of time"}
LIST = Path(__file__).resolve().with_suffix(".toml")
ENTRY = 'repository = "{repository}"\npath = "{path}"\ncommit = "{commit}"\noutcome = "{outcome}"'
# The lines of a notebook for the shell that are carried out stay below its own folder.
SHELL = re.compile(r"(?m)^\s*[!%] *((?:tar|mkdir|cd|cp|mv|unzip|rm -rf \./)\b(?!.*\s[/~]).*)")


def main(clones: Path, out: Path, program: Path) -> None:
    """Try what is at hand, and count."""
    listed, outcomes = tomllib.loads(LIST.read_text()), []
    sdk = metadata.version("sagemaker").partition(".")[0]
    for each in listed["pipelines"]:
        folder = out.resolve() / re.sub(r"\W+", "-", f"{each['repository']}/{each['path']}")
        outcome, clone = folder / "outcome", clones / each["repository"]
        if not outcome.is_file() and clone.is_dir() and each["sdk"] == sdk:
            request = {**listed["all"], **listed["sdk"][sdk], **each}
            outcome.write_text(attempt(folder, clone, program, request))
            new = ENTRY.format(**{**each, "outcome": outcome.read_text()})
            LIST.write_text(LIST.read_text().replace(ENTRY.format(**each), new))
        if outcome.is_file():
            outcomes.append(outcome.read_text())
            print(f"{outcomes[-1]:22} {folder.name}", flush=True)
    ended = sum(each.startswith("ended") for each in outcomes)
    print(f"{ended} of {len(outcomes)} ran to their end")


def attempt(folder: Path, clone: Path, program: Path, each: dict[str, Any]) -> str:
    """Make the definition of one pipeline from its beginning, and run it; the outcome."""
    source, request = folder / "source", folder / "request.json"
    shutil.rmtree(folder, ignore_errors=True)
    source.mkdir(parents=True)
    request.write_text(json.dumps(each))
    archive = ["git", "-C", clone, "archive", each["commit"], *each["folders"]]
    with subprocess.Popen(archive, stdout=subprocess.PIPE) as packed:
        subprocess.run(["tar", "-xC", source], stdin=packed.stdout, check=False)
    define = ["timeout", "600", sys.executable, __file__, request]
    known = {"PATH": os.environ["PATH"], "HOME": str(folder), **each["variables"]}
    run = ["timeout", "-sINT", "-k60", "1500", program, *COMMAND.format(folder).split()]
    run += [option.replace("$FOLDER", str(folder)) for option in each["options"]]
    run += [f"--image=*={sys.executable}"]
    with (folder / "log").open("w") as log:
        subprocess.run(define, cwd=source, env=known, stdout=log, stderr=log, check=False)
        if not (folder / "definition.json").is_file():
            return "no definition"
        status = subprocess.run(run, stdout=log, stderr=log, check=False).returncode
    shutil.rmtree(folder / "home")
    return OUTCOMES.get(status, f"exit status {status}")


def define(request: Path) -> None:
    """Run the source until it starts its pipeline; keep the definition and the objects of S3."""
    each, top = json.loads(request.read_text()), Path.cwd()
    os.environ.update(each["environment"])
    mock_aws().start()
    S3Backend.get_bucket = lambda self, n: self.buckets.get(n) or self.create_bucket(n, "us-east-1")
    made, kind = [], import_module(each["pipeline"]).Pipeline
    begin = kind.__init__
    kind.__init__ = lambda self, *a, **n: begin(self, *a, **n) or made.append(self)
    kind.start = lambda self, *a, **n: made.append(self) or sys.exit()
    import_module(each["session"]).Session.get_caller_identity_arn = lambda _: each["role"]
    import_module(each["function"]).Lambda.upsert = lambda _: {"FunctionArn": each["arn"]}
    for path, value in {**each["shared"], **each["files"]}.items():
        write(path, made_up(value, each["tables"]))
    names = {"__name__": "__main__", "ROLE": each["role"], "BUCKET": each["bucket"]}
    for path in (*each["before"], each["path"]):
        made.clear()
        os.chdir(top / each.get("start", Path(path).parent))
        sys.path.insert(0, str(Path.cwd()))
        sys.argv, names["__file__"] = [path, *each["arguments"]], str(top / path)
        for cell in cells(top / path) if path.endswith(".ipynb") else [(top / path).read_text()]:
            try:
                exec(compile(cell, path, "exec"), names)  # noqa: S102
            except SystemExit:
                break
            except Exception:  # noqa: BLE001  whatever a stranger's code raises
                traceback.print_exc()
    exec(each["code"], names)  # noqa: S102
    (top.parent / "definition.json").write_text([p for p in made if p.steps][-1].definition())
    for bucket in boto3.resource("s3").buckets.all():
        for item in bucket.objects.all():
            write(f"{top.parent}/home/s3/{bucket.name}/{item.key}", item.get()["Body"].read())


def cells(path: Path) -> Iterator[str]:
    """What a notebook runs; lines for the shell are carried out before their cell."""
    for cell in json.loads(path.read_text())["cells"]:
        text = "".join(cell["source"])
        if written := re.match(r"\s*%%writefile (\S+).*\n", text):
            write(written[1], text[written.end() :].encode())
        elif cell["cell_type"] == "code" and not re.match(r"\s*%%(?!time|capture)", text):
            for line in SHELL.findall(text):
                subprocess.run(line, shell=True, check=False)  # noqa: S602
            yield re.sub(r"(?m)^(\s*)(\w+ = )?[!%].*", r"\1pass", text)


def write(path: str, content: bytes) -> None:
    """Write an object of S3, or a file and the folders above it."""
    if path.startswith("s3://"):
        boto3.resource("s3").Object(*path[5:].split("/", 1)).put(Body=content)
    else:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)


def made_up(value: str, tables: dict[str, dict[str, list[str]]]) -> bytes:
    """A file of the source, a folder's archive, a table with or without its head, or the text."""
    kind, _, name = value.partition(":")
    if kind == "file":
        return Path(name).read_bytes()
    if kind == "tar":
        return subprocess.check_output(["tar", "-czC", name, "."])
    if kind in {"table", "lines"}:
        columns = tables[name]
        rows = [[column[n % len(column)] for column in columns.values()] for n in range(800)]
        value = "".join(",".join(row) + "\n" for row in [list(columns), *rows][kind == "lines" :])
    return value.encode()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:])) if sys.argv[2:] else define(Path(sys.argv[1]))
