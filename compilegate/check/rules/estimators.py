"""Jobs with SageMaker Training Compiler: the estimators of a script, and what these start.

What the compiler can run on is asked in `catalog`, as `validate`, `doctor` and `advise` do.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from compilegate.catalog import rules as catalog
from compilegate.catalog.compilers import compilers
from compilegate.catalog.instances import instance_of
from compilegate.catalog.tested_models import default_batch_size, is_tested, tested_models
from compilegate.check.names import Script, is_constant, keyword, last_name
from compilegate.check.rules.base import TRAINING_COMPILER, Found, View, rule
from compilegate.job.names import TRAINING_COMPILER_DEBUG_HYPERPARAMETER

_BATCHES = ("per_device_train_batch_size", "per_gpu_train_batch_size", "train_batch_size",
            "batch_size")  # fmt: skip
_RATES = ("learning_rate", "lr")
_MODELS = ("model_name_or_path", "model_name", "model_id", "model_checkpoint")
_WORKERS = "preprocessing_num_workers"


@dataclass(frozen=True)
class Estimator:
    """One estimator, with the values of its arguments as far as they can be read."""

    view: View
    call: ast.Call
    framework: str
    given: dict[str, ast.expr]
    whole: bool
    """Whether `given` is all that it is given."""

    hyperparameters: dict[str, ast.expr]
    every: bool
    """Whether these are all of its hyperparameters."""

    @property
    def compiler(self) -> ast.Call | None:
        """The `TrainingCompilerConfig(...)` that is on; None without the compiler."""
        config = self.view.settled(self.given.get("compiler_config"))
        if not isinstance(config, ast.Call) or last_name(config.func) != "TrainingCompilerConfig":
            return None
        return None if is_constant(keyword(config, "enabled"), False) else config

    def text(self, name: str) -> str:
        """The text of an argument; "" where it is not written in the script."""
        return _text(self.view.settled(self.given.get(name)))

    def number(self, name: str) -> int | None:
        """The number given for an argument."""
        value = self.view.settled(self.given.get(name))
        given = value.value if isinstance(value, ast.Constant) else None
        return given if type(given) is int else None

    def parameter(self, *names: str) -> ast.expr | None:
        """What is given for the first of some hyperparameters, with `-` or `_` in it."""
        for name in names:
            for spelled in (name, name.replace("_", "-")):
                if spelled in self.hyperparameters:
                    return self.hyperparameters[spelled]
        return None

    def written(self, *names: str) -> str:
        """A hyperparameter as it is written, with names followed."""
        value = self.view.settled(self.parameter(*names))
        if isinstance(value, ast.Constant):
            return str(value.value)
        return "" if value is None else ast.unparse(value)

    def where(self, name: str) -> ast.AST:
        """Where an argument is given; the estimator where it is not."""
        given = self.given.get(name)
        return given if given is not None and self.view.script.parent(given) else self.call

    @property
    def distribution(self) -> list[str]:
        """The keys of `distribution`."""
        given = self.view.settled(self.given.get("distribution"))
        return [_text(each) for each in given.keys] if isinstance(given, ast.Dict) else []

    @property
    def on_pytorch(self) -> bool:
        """Whether PyTorch trains: in AWS's tests TensorFlow's batches are often smaller."""
        return self.framework == "PyTorch" or self.text("pytorch_version") != ""

    @property
    def refused(self) -> frozenset[str]:
        """What the catalog has against Training Compiler on its instances, by code."""
        instance = self.text("instance_type")
        if not instance:
            return frozenset()
        count = self.number("instance_count") or 1
        asked = catalog.Asked(
            compiler=TRAINING_COMPILER, instance_type=instance, instance_count=count
        )
        return frozenset(each.code for each in catalog.check(asked))

    @property
    def gpus(self) -> int | None:
        """The GPUs of all its instances; None where they are not known."""
        known, count = instance_of(self.text("instance_type")), self.number("instance_count")
        return None if known is None or count is None else known.accelerators * count

    @property
    def started(self) -> Script | None:
        """The script of the check that is its entry point."""
        name, folder = self.text("entry_point"), self.text("source_dir")
        wanted = self.view.script.source.path.absolute().parent.joinpath(folder, name)
        scripts = self.view.analysis.project.scripts
        return next((each for each in scripts if each.source.path.absolute() == wanted), None)


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def estimators(view: View) -> Iterator[Estimator]:
    """Every estimator of a framework."""
    if not view.script.uses("sagemaker"):
        return
    for call in view.script.calls:
        name = view.script.called(call)
        last = name.rsplit(".", 1)[-1]
        if not name.startswith("sagemaker.") or last not in (
            "HuggingFace",
            "PyTorch",
            "TensorFlow",
        ):
            continue
        given = view.given(call)
        whole = given is not None
        given = given or {word.arg: word.value for word in call.keywords if word.arg}
        parameters: dict[str, ast.expr] | None = {}
        if "hyperparameters" in given:
            parameters = view.held(given["hyperparameters"])
        yield Estimator(
            view, call, last, given, whole, parameters or {}, every=whole and parameters is not None
        )


def compiled_estimators(view: View) -> list[Estimator]:
    """The estimators with Training Compiler switched on."""
    return [each for each in estimators(view) if each.compiler is not None]


def starting(view: View) -> list[Estimator]:
    """The estimators with Training Compiler, of any script of the check, that start this one."""
    return [
        estimator
        for launcher in view.analysis.launchers
        for estimator in compiled_estimators(replace(view, script=launcher))
        if estimator.started is view.script
    ]


@cache
def _versions(framework: str) -> dict[str, set[tuple[int, ...]]]:
    """The versions, two numbers each, that Training Compiler has images with, by the argument of an
    estimator of that framework."""
    found: dict[str, set[tuple[int, ...]]] = {}
    for stack in compilers()[TRAINING_COMPILER].stacks:
        given: dict[str, str] = {}
        if framework == "HuggingFace" and stack.transformers is not None:
            given["transformers_version"] = stack.transformers
            given[f"{stack.framework}_version"] = stack.version
        elif framework.lower() == stack.framework and stack.transformers is None:
            given["framework_version"] = stack.version
        for name, text in given.items():
            found.setdefault(name, set()).add(_numbers(text)[:2])
    return found


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


@cache
def _first_with_pytorchxla() -> tuple[int, ...]:
    """The first PyTorch whose image takes that distribution; before, a launcher starts scripts."""
    stacks = compilers()[TRAINING_COMPILER].stacks
    return min(_numbers(each.version)[:2] for each in stacks if each.distribution == "pytorchxla")


@rule("compiler-job")
def compiler_job(view: View) -> Iterator[Found]:
    """The job cannot train with Training Compiler as it is written."""
    for each in compiled_estimators(view):
        instance = each.text("instance_type")
        if each.refused & {"processor", "instance-class"}:
            said = f"Training Compiler does not run on `{instance}`"
            yield Found(each.where("instance_type"), said)
        groups = each.given.get("instance_groups")
        if groups is not None and not is_constant(groups, None):
            said = "Training Compiler does not run on `instance_groups`"
            yield Found(each.where("instance_groups"), said)
        if each.framework != "TensorFlow" and "image_uri" in each.given:
            yield Found(each.where("image_uri"), "another image with Training Compiler")
        for name, supported in _versions(each.framework).items():
            given = each.text(name)
            if given and _numbers(given)[:2] not in supported:
                yield Found(each.where(name), f"Training Compiler has no image for `{given}`")
                break  # the versions belong together
        if each.framework != "TensorFlow":
            yield from _started_wrongly(each)


def _started_wrongly(each: Estimator) -> Iterator[Found]:
    """The processes of a PyTorch job are not started as Training Compiler needs it."""
    version = _numbers(each.text("pytorch_version") or each.text("framework_version"))[:2]
    other = [name for name in each.distribution if name != "pytorchxla"]
    launched = () < version < _first_with_pytorchxla()
    instance = instance_of(each.text("instance_type"))
    several = instance is not None and instance.accelerators > 1
    by_launcher = each.parameter("training_script") is not None
    script = each.started
    if other:
        said = f"Training Compiler does not distribute by `{other[0]}`"
        yield Found(each.where("distribution"), said)
    elif version and several and not by_launcher:
        if launched and each.every:
            said = f"no launcher starts the processes of {each.text('instance_type')}"
            yield Found(each.call, said)
        elif not launched and each.whole and "distribution" not in each.given:
            yield Found(each.call, "without `pytorchxla` one GPU of the instance trains")
    if script is None:
        return
    name, where = script.source.path.name, each.where("entry_point")
    if "pytorchxla" in each.distribution and "_mp_fn" not in script.module.names:
        yield Found(where, f"{name} has no `_mp_fn` for the processes to call")
    bare = each.framework == "PyTorch" and _numbers(each.text("framework_version")) >= (1, 12)
    listed = script.source.path.with_name("requirements.txt").is_file()
    if bare and script.uses("transformers") and not listed:
        yield Found(where, f"{name} imports Transformers, which the image does not have")


@rule("compiler-nodes")
def compiler_nodes(view: View) -> Iterator[Found]:
    """Several instances exchange gradients over a slow network."""
    for each in compiled_estimators(view):
        count = each.number("instance_count")
        if "one-gpu-each" in each.refused:
            said = f"{count} instances of one GPU each"
            yield Found(each.where("instance_count"), said)
        elif "no-efa" in each.refused:
            yield Found(each.where("instance_type"), f"{count} instances without EFA")


def debugged(view: View) -> Iterator[Found]:
    """Debugger, Profiler or the compiler's debug mode is on; `debugging-on` tells it."""
    for each in compiled_estimators(view):
        compiler = each.compiler
        debug = None if compiler is None else keyword(compiler, "debug")
        key = each.hyperparameters.get(TRAINING_COMPILER_DEBUG_HYPERPARAMETER)
        for given in (debug, key):
            if given is not None and is_constant(given, True, "True", "true"):
                yield Found(given, "Training Compiler is in debug mode")
        for name in ("profiler_config", "rules", "debugger_hook_config"):
            given = each.given.get(name)
            if given is not None and not is_constant(given, False, None):
                yield Found(each.where(name), f"`{name}` is on")


# ---- models, batches and rates


@rule("untested")
def untested(view: View) -> Iterator[Found]:
    """AWS's table of tested models has nothing on a model or an instance."""
    jobs = compiled_estimators(view)
    for each in jobs:
        name, instance = each.written(*_MODELS), each.text("instance_type")
        if _is_untested(name):
            given = each.parameter(*_MODELS)
            inside = given is not None and view.script.parent(given) is not None
            yield Found(given if inside and given is not None else each.call, _nothing_on(name))
        known = {row.instance_type for row in tested_models()}
        refused = each.refused & {"processor", "instance-class"}
        if instance and instance not in known and not refused:
            yield Found(each.where("instance_type"), _nothing_on(instance))
    starters = starting(view)
    named = any(each.parameter(*_MODELS) for each in starters)
    if not named and (starters or (view.compilers == (TRAINING_COMPILER,) and view.steps)):
        told: set[str] = set()
        for call in view.methods("from_pretrained"):
            name = _loaded(view, call)
            if _is_untested(name) and name not in told:
                told.add(name)
                yield Found(call, _nothing_on(name))


def _nothing_on(what: str) -> str:
    return f"AWS's table of tested models has nothing on `{what}`"


_FAMILIES = re.compile(
    r"(?:albert|bart|bert|camembert|ctrl|deberta|distilbert|distilgpt2|distilroberta|electra|gpt2"
    r"|openai-gpt|roberta|t5|transfo-xl|vit|xlm|xlnet)(?:-[\w.-]+)?"
)
_FOLDERS = re.compile(
    r"(?:^|/)(?:artifacts|checkpoints?|data|experiments|models?|opt|outputs?|out|pretrained|results"
    r"|runs|saved|tmp|weights)(?:/|$)",
    re.IGNORECASE,
)


def _is_untested(name: str) -> bool:
    """Whether a text is a model of the hub, not a folder, that no test of AWS has."""
    of_hub = re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", name)
    if not (of_hub and not _FOLDERS.search(name)) and not _FAMILIES.fullmatch(name):
        return False
    return not is_tested(name)


def _loaded(view: View, call: ast.Call) -> str:
    """The model that a call of `from_pretrained` loads; "" where that is not written."""
    owner = view.script.name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    if not owner.startswith("transformers.") or not re.search(r"Model$|For[A-Z]\w*$", owner):
        return ""
    given = call.args[0] if call.args else keyword(call, "pretrained_model_name_or_path")
    settled = view.settled(given)
    if isinstance(settled, ast.Attribute):  # args.model, with the default of its option
        for option in view.script.calls_by_last.get("add_argument", ()):
            first = _text(option.args[0]) if option.args else ""
            if first.lstrip("-").replace("-", "_") == settled.attr:
                return _text(keyword(option, "default"))
    return _text(settled)


@rule("batch-not-raised")
def batch_not_raised(view: View) -> Iterator[Found]:
    """The compiled job keeps the batch of the job without the compiler."""
    jobs = [each for each in compiled_estimators(view) if each.on_pytorch]
    native = [each for each in estimators(view) if each.compiler is None]
    for each in jobs:
        batch = each.written(*_BATCHES)
        same = [other for other in jobs if other.text("entry_point") == each.text("entry_point")]
        control = any(other.written(*_BATCHES) != batch for other in same)
        if not batch.isdecimal() or control:
            continue
        said = _as_before(each, batch, native) or _less_than_tested(each, int(batch))
        if said:
            given = each.parameter(*_BATCHES)
            inside = given is not None and view.script.parent(given) is not None
            yield Found(given if inside and given is not None else each.call, said)


def _as_before(each: Estimator, batch: str, native: list[Estimator]) -> str:
    for name, value in _called_native(each.view.script, "batch"):
        if value == batch:
            return f"the batch stays at {batch}, that of `{name}`"
    for other in native:
        same = all(each.text(key) and each.text(key) == other.text(key)
                   for key in ("entry_point", "instance_type"))  # fmt: skip
        if same and other.written(*_BATCHES) == batch:
            return f"the batch stays at {batch}, as without the compiler"
    return ""


def _called_native(script: Script, what: str) -> Iterator[tuple[str, str]]:
    """The names of a script, with their values, that say: this is the job without the compiler."""
    pattern = re.compile(rf"(?:{what}).*native|native.*(?:{what})", re.IGNORECASE)
    for node in ast.walk(script.source.tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and pattern.search(target.id):
                    yield target.id, ast.unparse(node.value)


def _less_than_tested(each: Estimator, batch: int) -> str:
    """Whether AWS's own test of the model fitted more, and no more than this without it."""
    length = each.written("max_seq_length", "max_length", "block_size")
    model, instance = each.written(*_MODELS), each.text("instance_type")
    half = each.written("fp16").lower() in ("true", "1")
    if not (length.isdecimal() and half and model and each.written(*_BATCHES[:2])):
        return ""
    fitted, before = (
        default_batch_size(
            model,
            instance_type=instance,
            precision="fp16",
            sequence_length=int(length),
            compiled=compiled,
            framework="pytorch",
        )
        for compiled in (True, False)
    )
    if isinstance(fitted, str) or isinstance(before, str) or fitted[1] != before[1]:
        return ""
    if not batch <= before[0] < fitted[0]:
        return ""
    return (
        f"the batch is {batch}; AWS's test of {fitted[1].model} on {instance} fitted {fitted[0]} "
        f"with Training Compiler, {before[0]} without"
    )


@rule("rate-not-scaled")
def rate_not_scaled(view: View) -> Iterator[Found]:
    """The batch grew, by the compiler or by more processes, and the learning rate did not."""
    native = [each for each in estimators(view) if each.compiler is None]
    for each in compiled_estimators(view):
        batch, rate = each.written(*_BATCHES), each.written(*_RATES)
        for other in native:
            before = other.written(*_BATCHES)
            same = other.text("entry_point") == each.text("entry_point")
            number = not rate or re.fullmatch(r"[\d.]+(?:e[+-]?\d+)?", rate)
            alike = same and number and rate == other.written(*_RATES)
            if alike and batch and before and batch != before:
                said = f"the batch is {batch} here and {before} without the compiler, at one rate"
                yield Found(each.call, said)
                break
        else:
            yield from _rate_of_one(view, each, batch, rate)


def _rate_of_one(view: View, each: Estimator, batch: str, rate: str) -> Iterator[Found]:
    """Whether a rate is that of the job without the compiler, or of one GPU."""
    batches = {value for _, value in _called_native(view.script, "batch")}
    rates = {value: name for name, value in _called_native(view.script, "rate|lr")}
    if batch.isdecimal() and batches and batch not in batches and rate in rates:
        yield Found(each.call, f"the batch is {batch}, and the rate that of `{rates[rate]}`")
        return
    given = each.parameter(*_RATES)
    spread = "pytorchxla" in each.distribution or each.parameter("training_script") is not None
    counts = re.compile(r"gpu|instance|node|world|worker|process|device|replica|scale|global", re.I)
    grows = each.started is not None and any(
        re.search(r"lr|rate", line) and re.search(r"\*.*(?:world|gpu|device_count|num_proc)", line)
        for line in each.started.source.lines
    )
    number = bool(re.fullmatch(r"[\d.]+(?:e[+-]?\d+)?", rate)) or " * " in rate
    if given is not None and spread and each.gpus != 1 and number and not counts.search(rate):
        written_out = given if isinstance(given, ast.expr) else None
        text = "" if written_out is None else ast.unparse(written_out)
        if not grows and not counts.search(text):
            inside = view.script.parent(given) is not None
            said = "the learning rate does not grow with the processes"
            yield Found(given if inside else each.call, said)


@rule("preprocessing-workers")
def preprocessing_workers(view: View) -> Iterator[Found]:
    """One process prepares the data before training begins."""
    for each in compiled_estimators(view):
        given = each.parameter(_WORKERS)
        count = each.written(_WORKERS)
        known = instance_of(each.text("instance_type"))
        if given is None and each.every and _takes_the_option(each):
            yield Found(each.where("hyperparameters"), f"`{_WORKERS}` is left at one process")
        elif count.isdecimal() and known is not None and int(count) < known.accelerators:
            inside = given is not None and view.script.parent(given) is not None
            said = f"`{_WORKERS}` is {count}, for {known.accelerators} GPUs"
            yield Found(given if inside and given is not None else each.call, said)
    if view.script.uses("datasets") and (view.analysis.steps.found or starting(view)):
        for call in view.methods("map"):
            if not isinstance(call.func, ast.Attribute):
                continue
            alone = (call.args or keyword(call, "function")) and len(call.args) <= 2
            passed_on = any(word.arg is None for word in call.keywords)
            workers = view.settled(keyword(call, "num_proc"))
            one = workers is None or is_constant(workers, None, 0, 1)
            if alone and not passed_on and one and _of_dataset(view, call.func.value):
                yield Found(call, "`map` prepares the data in one process")


def _takes_the_option(each: Estimator) -> bool:
    """Whether the script that a job starts takes the option, and has it at one process."""
    if each.started is None:
        known = r"(?:.*/)?run_(?:clm|mlm|plm|qa|ner|swag|summarization|translation)\.py"
        return "git_config" in each.given and bool(re.fullmatch(known, each.text("entry_point")))
    for call in each.started.calls_by_last.get("add_argument", ()):
        if call.args and _text(call.args[0]).lstrip("-") == _WORKERS:
            default = keyword(call, "default")
            return default is None or is_constant(default, None, 0, 1)
    for node in ast.walk(each.started.source.tree):
        if isinstance(node, ast.AnnAssign) and last_name(node.target) == _WORKERS:
            value = (
                keyword(node.value, "default") if isinstance(node.value, ast.Call) else node.value
            )
            return value is None or is_constant(value, None, 0, 1)
    return False


_LOADS = re.compile(r"datasets\.(?:load_dataset|load_from_disk|(?:Dataset|DatasetDict)(?:\.\w+)?)$")


def _of_dataset(view: View, node: ast.expr, depth: int = 0) -> bool:
    """Whether a value comes from a dataset of Hugging Face's that is read as a whole."""
    for origin in view.analysis.values.origins(view.script, node) if depth < 10 else ():
        made = origin.node
        if isinstance(made, ast.Call) and _LOADS.match(origin.script.called(made)):
            return not is_constant(keyword(made, "streaming"), True)
        inner = made.func if isinstance(made, ast.Call) else made
        handed = isinstance(inner, ast.Attribute | ast.Subscript) and origin.script is view.script
        if handed and _of_dataset(view, inner.value, depth + 1):
            return True
    return False


RULES = (
    compiler_job,
    compiler_nodes,
    untested,
    batch_not_raised,
    rate_not_scaled,
    preprocessing_workers,
)
