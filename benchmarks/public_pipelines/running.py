"""Runs and explains a definition by the `compilegate` command, as a user would."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks.public_pipelines.listing import Pipeline

MOST_SECONDS = 1800
ENDED = "ended"
OWN_FAIL = "its own Fail step"
_OUTCOMES = {0: ENDED, 9: OWN_FAIL, 2: "refused", 3: "failed"}
_SHOWN = 6
_FAILED = re.compile(
    r"^error: execution \w+: (?P<step>[^:]+): (?P<sentence>.*?)(?:; log: .*)?\n"
    r"(?P<printed>(?: +.*\n|\n(?=  ))*)",
    re.MULTILINE,
)
_ASKED = re.compile("is not in the local store|has no default and was not given")
"""What a refusal asks its reader for."""
_SERVED = {
    "Image": "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:1.7-1",
    "Environment": {"SAGEMAKER_PROGRAM": "inference.py"},
}
_RAISED = re.compile(r"[\w.]*(Error|Exception|Interrupt|Exit): ")


def options_of(pipeline: Pipeline, folder: Path, python: str) -> list[str]:
    """What `run` and `explain` are given beside the definition."""
    options = ["--home", str(folder / "home")]
    source = folder / "source"
    for number, (pattern, packages) in enumerate(pipeline.images.items()):
        image = folder / "images" / str(number)
        image.mkdir(parents=True, exist_ok=True)
        (image / "requirements.txt").write_text("\n".join(packages) + "\n")
        options += ["--image", f"{pattern}={image}"]
    options += ["--image", f"*={python}"]
    for name, value in pipeline.parameters.items():
        options += ["-p", f"{name}={value}"]
    if pipeline.constraints:
        constraints = folder / "constraints.txt"
        constraints.write_text("\n".join(pipeline.constraints) + "\n")
        options += ["--env", f"PIP_CONSTRAINT={constraints}"]
    for name, value in pipeline.job_environment.items():
        options += ["--env", f"{name}={value}"]
    for pattern, file in pipeline.function.items():
        options += ["--function", f"{pattern}={source / file}"]
    for name, uri in pipeline.models.items():
        described = folder / f"{name}.json"
        described.write_text(json.dumps({"PrimaryContainer": {**_SERVED, "ModelDataUrl": uri}}))
        options += ["--model", f"{name}={described}"]
    for step in pipeline.skip:
        options += ["--skip", step]
    for step, command in pipeline.command.items():
        options += ["--command", f"{step}={command.replace('{source}', shlex.quote(str(source)))}"]
    return options


def explain(
    program: Path, definition: Path, options: list[str], log: Path
) -> tuple[str, list[str]]:
    """What is wrong with its explanation, or nothing; and the reasons for which steps are refused.

    Data that nobody has put in the store, and a parameter that nobody has given, is no such reason.
    """
    ended = subprocess.run(
        [str(program), "pipeline", "explain", str(definition), *options],
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )
    log.write_text(ended.stdout + ended.stderr)
    wrong = ""
    if ended.returncode not in {0, 2} or "Traceback" in ended.stderr:
        wrong = f"explain ends with status {ended.returncode}"
    told = re.findall(r"refused: (.*)", ended.stdout) + re.findall(r"error: (.*)", ended.stderr)
    return wrong, [each for each in told if not _ASKED.search(each)]


def run(program: Path, definition: Path, options: list[str], log: Path) -> dict[str, Any]:
    """`compilegate run` of a definition: what became of it, and in how many seconds."""
    started = time.monotonic()
    with log.open("w") as file:
        process = subprocess.Popen(
            [str(program), "pipeline", "run", str(definition), *options],
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT)
            status = None
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    seconds = round(time.monotonic() - started, 1)
    if status is None:
        return {"result": "not ended", "why": f"{MOST_SECONDS} s", "seconds": seconds}
    result = _OUTCOMES.get(status, f"status {status}")
    why = "" if result in {ENDED, OWN_FAIL} else _reason(log.read_text(errors="replace"))
    return {"result": result, "why": why, "seconds": seconds}


def _reason(text: str) -> str:
    """The sentences of a refusal; of a failure the step and the last line that its job printed."""
    failed = _FAILED.search(text)
    if failed is not None:
        printed = [line.strip() for line in failed["printed"].splitlines() if line.strip()]
        is_exit = failed["sentence"].startswith("exit code") and printed
        raised = [line for line in printed if _RAISED.match(line)] or printed
        return f"{failed['step']}: {raised[-1] if is_exit else failed['sentence']}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return " | ".join(told[:_SHOWN] or lines[-_SHOWN:])
