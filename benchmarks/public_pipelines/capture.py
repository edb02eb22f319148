"""Makes the definition of one public pipeline with the SDK of this environment, offline:

    python capture.py FOLDER PATH DEFINITION < REQUEST

PATH, below FOLDER, is a notebook, a module with get_pipeline, or a script. REQUEST is an object:
`before` names notebooks to run first, `build` is an expression that makes the pipeline, `arguments`
are a script's, and `start` is the folder that it is started in. Whatever
pipeline is made is written to DEFINITION when it would be sent to AWS, or at the end. AWS is moto's
server at AWS_ENDPOINT_URL. `compiling.py` runs it in an environment that has the SDK; nothing of
this project is imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

ROLE = "arn:aws:iam::123456789012:role/service-role/SageMakerRole"
_HELPER = "sagemaker.core.helper.session_helper"
BUCKET = "sagemaker-us-east-1-123456789012"

SHELL = re.compile(r"\s*!\s*(tar|mkdir|cd|cp|mv|unzip|gunzip|rm -rf \./)\b(?!.*\s[/~])")
"""Lines of a notebook that put its files in order below its own folder, and nothing else."""

COPY = re.compile(r"\s*!\s*aws s3 cp (\S+) (\S+)\s*$")

found: dict[str, Any] = {"pipelines": [], "definition": None}


def main() -> None:
    """Run the source until it has made a pipeline, and write the definition."""
    folder, target = Path(sys.argv[1]).resolve(), Path(sys.argv[3]).resolve()
    source = folder / sys.argv[2]
    request = json.load(sys.stdin)
    sys.argv = [str(source), *request["arguments"]]
    patch()
    if request["outside"]:
        have_no_role()
    problem = None
    try:
        if source.suffix == ".ipynb":
            problem = run_notebooks([*(folder / name for name in request["before"]), source])
        else:
            enter(source)
            if request["start"]:
                os.chdir(folder / request["start"])
                sys.path.insert(0, str(Path.cwd()))
            run_module(source, request["build"], moved=bool(request["start"]))
    except Exception as error:  # noqa: BLE001  whatever a stranger's code raises
        problem = f"{type(error).__name__}: {error}"
        traceback.print_exc()
    except SystemExit as ended:
        # Many a module ends itself when its pipeline is made: only without one it is a problem.
        problem = f"the program ended itself: {ended}"
    if found["definition"] is None:
        for pipeline in reversed(found["pipelines"]):
            try:
                found["definition"] = pipeline.definition()
                break
            except Exception as error:  # noqa: BLE001
                problem = problem or f"{type(error).__name__}: {error}"
                traceback.print_exc()
    if found["definition"] is None:
        raise SystemExit(f"no pipeline: {problem}"[:300])
    target.write_text(json.dumps(json.loads(found["definition"]), indent=1), encoding="utf-8")


def enter(source: Path) -> None:
    """Begin where the source lies, as its reader would."""
    os.chdir(source.parent)
    sys.path.insert(0, str(source.parent))


def patch() -> None:
    """Let the SDK make definitions and send nothing but objects."""

    def send(self: Any, *_arguments: Any, **_named: Any) -> Any:
        found["definition"] = self.definition()
        return {"PipelineArn": "arn:aws:sagemaker:us-east-1:123456789012:pipeline/p"}

    def stop(self: Any, *_arguments: Any, **_named: Any) -> Any:
        if self.steps or found["definition"] is None:  # by its name alone it has none
            found["definition"] = self.definition()
        raise SystemExit(0)

    for name in ("sagemaker.workflow.pipeline", "sagemaker.mlops.workflow.pipeline"):
        try:
            kind = importlib.import_module(name).Pipeline
        except ImportError:
            continue
        kind.__init__ = remembering(kind.__init__)
        kind.create = kind.update = kind.upsert = send
        kind.start = stop
    for name in ("sagemaker.session", "sagemaker.utils", "sagemaker.core.common_utils", _HELPER):
        try:
            owner = importlib.import_module(name)
        except ImportError:
            continue
        if hasattr(owner, "sts_regional_endpoint"):
            owner.sts_regional_endpoint = lambda _region: os.environ["AWS_ENDPOINT_URL"]
    patch_roles()
    patch_service()
    patch_functions()


def patch_functions() -> None:
    """Let a Lambda function be there without being made."""
    for name in ("sagemaker.lambda_helper", "sagemaker.core.lambda_helper"):
        try:
            kind = importlib.import_module(name).Lambda
        except ImportError:
            continue
        kind.create = kind.update = kind.upsert = lambda self, *_a, **_n: {
            "FunctionArn": f"arn:aws:lambda:us-east-1:123456789012:function:{self.function_name}"
        }


def patch_service() -> None:
    """Let every bucket be there, and every image be AWS's own: both are of the author's account."""
    from botocore.client import BaseClient  # noqa: PLC0415

    plain = BaseClient._make_api_call

    def call(self: Any, name: str, arguments: Any) -> Any:
        if name == "DescribeImageVersion":
            answer = {"Error": {"Code": "ResourceNotFound", "Message": "no such image"}}
            raise self.exceptions.ResourceNotFound(answer, name)
        try:
            return plain(self, name, arguments)
        except self.exceptions.ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchBucket":
                raise
            place = {"LocationConstraint": self.meta.region_name}
            elsewhere = self.meta.region_name not in {None, "us-east-1", "aws-global"}
            where = {"CreateBucketConfiguration": place} if elsewhere else {}
            plain(self, "CreateBucket", {"Bucket": arguments["Bucket"], **where})
            return plain(self, name, arguments)

    BaseClient._make_api_call = call  # type: ignore[method-assign]


def remembering(made: Any) -> Any:
    """A pipeline's own beginning, which remembers the pipeline."""

    def remember(self: Any, *arguments: Any, **named: Any) -> None:
        made(self, *arguments, **named)
        found["pipelines"].append(self)

    return remember


def patch_roles() -> None:
    """Let the program have a role, which it need not look up."""
    for name in ("sagemaker", "sagemaker.session", _HELPER):
        try:
            owner = importlib.import_module(name)
        except ImportError:
            continue
        if hasattr(owner, "get_execution_role"):
            owner.get_execution_role = lambda *_a, **_n: ROLE
        if hasattr(owner, "Session"):
            owner.Session.get_caller_identity_arn = lambda _self: ROLE


def have_no_role() -> None:
    """As outside SageMaker: a program that looks its role up goes on without one."""

    def refuse(*_arguments: Any, **_named: Any) -> Any:
        raise ValueError("The current AWS identity is not a role")

    for name in ("sagemaker", "sagemaker.session", _HELPER):
        owner = sys.modules.get(name)
        if owner is not None and hasattr(owner, "get_execution_role"):
            owner.get_execution_role = refuse


def run_notebooks(paths: list[Path]) -> str | None:
    """Every cell in order, of the notebooks before too: what they stored is there by its name."""
    problem = None
    names: dict[str, Any] = {"__name__": "__main__", "get_ipython": lambda: None}
    names["display"] = print
    for path in paths:
        enter(path)
        found["pipelines"].clear()
        found["definition"] = None
        problem = run_cells(path, names)
    return problem


def run_cells(path: Path, names: dict[str, Any]) -> str | None:
    """A cell that fails does not keep the others from running; its error is the answer."""
    problem = None
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell.get("cell_type") != "code":
            continue
        text = "".join(cell["source"])
        if write_file(text):
            continue
        if text.lstrip().startswith("%%"):
            text = text.lstrip().partition("\n")[2] if text.lstrip().startswith("%%time") else ""
        for line in text.splitlines():
            if copied := COPY.match(line):
                copy_object(*(part.format_map(names) for part in copied.groups()))
            if SHELL.match(line):
                subprocess.run(line.lstrip(" !"), shell=True, check=False, timeout=60)  # noqa: S602
        plain = [
            re.sub(r"^(\s*)[!%].*", r"\1pass", line)
            for line in text.splitlines()
            if not re.match(r"^\s*\S+\s*=\s*!", line)
        ]
        try:
            exec(compile("\n".join(plain), str(path), "exec"), names)  # noqa: S102
        except SystemExit:
            return problem
        except Exception as error:  # noqa: BLE001
            problem = problem or f"{type(error).__name__}: {error}"
            print(f"cell failed: {type(error).__name__}: {error}"[:300], flush=True)
    return problem


def copy_object(source: str, target: str) -> None:
    """What the AWS CLI does in a notebook's line, where the file or the object is there."""
    import boto3  # noqa: PLC0415  the environment of the SDK has it

    client = boto3.client("s3")
    bucket, _, key = (target if target.startswith("s3://") else source)[5:].partition("/")
    if target.startswith("s3://") and Path(source).is_file():
        client.upload_file(source, bucket, key + Path(source).name * key.endswith("/"))
    elif source.startswith("s3://") and not target.startswith("s3://"):
        path = Path(target)
        try:
            client.download_file(bucket, key, str(path / Path(key).name if path.is_dir() else path))
        except client.exceptions.ClientError as error:
            print(f"not copied: {source}: {error}"[:300], flush=True)


def write_file(text: str) -> bool:
    """Whether the cell is one that writes a file; it is written."""
    written = re.match(r"\s*%%writefile\s+(-a\s+)?(\S+)\s*\n", text)
    if written is None:
        return False
    target = Path(written[2].strip("\"'"))
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("a" if written[1] else "w", encoding="utf-8") as file:
        file.write(text[written.end() :])
    return True


def run_module(path: Path, build: str, *, moved: bool) -> None:
    """What the expression makes, a module's get_pipeline, or all of a script."""
    text = path.read_text(encoding="utf-8")
    by_function = re.search(r"^def (get_pipeline|create_pipeline|build_pipeline)\(", text, re.M)
    package = path.parent
    while (package / "__init__.py").is_file():
        package = package.parent
    sys.path.insert(0, str(package))
    is_script = by_function is None and not build
    name = "__main__" if is_script else path.stem
    if not is_script and path.parent != package:
        name = ".".join(path.relative_to(package).with_suffix("").parts)
    if not is_script and not moved:
        os.chdir(package)  # where a project's own `get-pipeline-definition` is called
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    if build:
        keep_pipelines(eval(build, {**vars(module), "ROLE": ROLE, "BUCKET": BUCKET}))  # noqa: S307
    elif by_function is not None:
        call_function(getattr(module, by_function[1]))


def call_function(function: Any) -> None:
    """Call it with what its parameters' names ask for."""
    known = {
        "region": "us-east-1",
        "role": ROLE,
        "role_arn": ROLE,
        "default_bucket": BUCKET,
        "bucket_name": BUCKET,
        "bucket": BUCKET,
        "s3_bucket": BUCKET,
    }
    parameters = inspect.signature(function).parameters.values()
    given = {
        each.name: known.get(each.name, f"{each.name.replace('_', '-')}")
        for each in parameters
        if each.kind not in {each.VAR_KEYWORD, each.VAR_POSITIONAL}
        and (each.name in known or each.default is each.empty)
    }
    keep_pipelines(function(**given))


def keep_pipelines(made: Any) -> None:
    """Remember what was made, one or several."""
    for each in made if isinstance(made, (list, tuple)) else [made]:
        if hasattr(each, "definition"):
            found["pipelines"].append(each)


if __name__ == "__main__":
    main()
