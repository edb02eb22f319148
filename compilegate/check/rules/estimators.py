"""Jobs with SageMaker Training Compiler: the estimators of a script, and what these start.

The catalog decides what the compiler can run on, as for `validate`, `doctor` and `advise`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial

from compilegate.catalog import rules as catalog
from compilegate.catalog.compilers import compilers
from compilegate.catalog.instances import instance_of
from compilegate.catalog.tested_models import default_batch_size, is_tested, tested_models
from compilegate.check.names import Script, is_constant, keyword, last_name
from compilegate.check.rules.base import TRAINING_COMPILER, Match, View
from compilegate.check.values import Provenance
from compilegate.job.contract import TRAINING_COMPILER_DEBUG_HYPERPARAMETER
from compilegate.rules import Severity

_BATCHES = ("per_device_train_batch_size", "per_gpu_train_batch_size", "train_batch_size",
            "batch_size")  # fmt: skip
_RATES = ("learning_rate", "lr")
_MODELS = ("model_name_or_path", "model_name", "model_id", "model_checkpoint")
_WORKERS = "preprocessing_num_workers"
_NOT_THERE = {"processor", "instance-class"}
_NUMBER = re.compile(r"[\d.]+(?:e[+-]?\d+)?")


@dataclass(frozen=True)
class Estimator:
    """One estimator, with the values of its arguments as far as they can be read."""

    view: View
    call: ast.Call
    framework: str
    given: dict[str, ast.expr]
    whole: bool  # whether `given` is all that it is given
    hyperparameters: dict[str, ast.expr]
    every: bool  # whether these are all of its hyperparameters

    @property
    def compiler(self) -> ast.Call | None:
        """The `TrainingCompilerConfig(...)` that is on; None without the compiler."""
        config = self.view.resolved(self.given.get("compiler_config"))
        if not isinstance(config, ast.Call) or last_name(config.func) != "TrainingCompilerConfig":
            return None
        return None if is_constant(keyword(config, "enabled"), False) else config

    def text(self, name: str) -> str:
        """The text of an argument; "" where it is not written in the script."""
        return _text(self.view.resolved(self.given.get(name)))

    def number(self, name: str) -> int | None:
        """The number given for an argument."""
        value = self.view.resolved(self.given.get(name))
        return value.value if isinstance(value, ast.Constant) and type(value.value) is int else None

    def parameter(self, *names: str) -> ast.expr | None:
        """What is given for the first of some hyperparameters, with `-` or `_` in it."""
        spelled = (each for name in names for each in (name, name.replace("_", "-")))
        return next((self.hyperparameters[x] for x in spelled if x in self.hyperparameters), None)

    def written(self, *names: str) -> str:
        """A hyperparameter as it is written, with names followed."""
        value = self.view.resolved(self.parameter(*names))
        if isinstance(value, ast.Constant):
            return str(value.value)
        return "" if value is None else ast.unparse(value)

    def finding(self, message: str, given: str | ast.expr | None = None) -> Match:
        """A finding at an argument or a hyperparameter; at the estimator where it is not given."""
        node = self.given.get(given) if isinstance(given, str) else given
        where = node if node is not None and self.view.script.parent(node) else self.call
        return Match(where, message)

    @property
    def distribution(self) -> list[str]:
        given = self.view.resolved(self.given.get("distribution"))
        return [_text(each) for each in given.keys] if isinstance(given, ast.Dict) else []

    @property
    def on_pytorch(self) -> bool:
        """Whether PyTorch trains: in AWS's tests TensorFlow's batches are often smaller."""
        return self.framework == "PyTorch" or self.text("pytorch_version") != ""

    @property
    def refused(self) -> frozenset[str]:
        """What the catalog has against Training Compiler on its instances, by code."""
        instance, count = self.text("instance_type"), self.number("instance_count") or 1
        settings = catalog.ArmSettings(
            compiler=TRAINING_COMPILER, instance_type=instance, instance_count=count
        )
        return frozenset(each.code for each in catalog.check(settings)) if instance else frozenset()

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
    for call in view.script.calls if view.script.uses("sagemaker") else ():
        name = view.script.called(call)
        last = name.rsplit(".", 1)[-1]
        if name.startswith("sagemaker.") and last in ("HuggingFace", "PyTorch", "TensorFlow"):
            given = view.keywords_of(call)
            whole = given is not None
            given = given or {word.arg: word.value for word in call.keywords if word.arg}
            set_ = given.get("hyperparameters")
            held = {} if set_ is None else view.entries_of(set_)
            every = whole and held is not None
            yield Estimator(view, call, last, given, whole, held or {}, every)


def compiled_estimators(view: View) -> list[Estimator]:
    """The estimators with Training Compiler switched on."""
    return [each for each in estimators(view) if each.compiler is not None]


def starting(view: View) -> list[Estimator]:
    """The estimators with Training Compiler, of any script of the check, that start this one."""
    views = [replace(view, script=each) for each in view.analysis.launchers]
    jobs = [each for launcher in views for each in compiled_estimators(launcher)]
    return [each for each in jobs if each.started is view.script]


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


def compiler_job(view: View) -> Iterator[Match]:
    """The job cannot train with Training Compiler as it is written."""
    for each in compiled_estimators(view):
        not_on = "Training Compiler does not run on"
        if each.refused & _NOT_THERE:
            yield each.finding(f"{not_on} `{each.text('instance_type')}`", "instance_type")
        if "instance_groups" in each.given and not is_constant(each.given["instance_groups"], None):
            yield each.finding(f"{not_on} `instance_groups`", "instance_groups")
        for name, supported in _versions(each.framework).items():
            given = each.text(name)
            if given and _numbers(given)[:2] not in supported:
                yield each.finding(f"Training Compiler has no image for `{given}`", name)
                break  # the versions belong together
        if each.framework != "TensorFlow":
            if "image_uri" in each.given:
                yield each.finding("another image with Training Compiler", "image_uri")
            yield from _started_wrongly(each)


def _started_wrongly(each: Estimator) -> Iterator[Match]:
    """The processes of a PyTorch job are not started as Training Compiler needs it."""
    version = _numbers(each.text("pytorch_version") or each.text("framework_version"))[:2]
    other = [name for name in each.distribution if name != "pytorchxla"]
    # Images before the first that distributes by pytorchxla start scripts by a launcher.
    stacks = compilers()[TRAINING_COMPILER].stacks
    first = min(_numbers(x.version)[:2] for x in stacks if x.distribution == "pytorchxla")
    launched = () < version < first
    instance = instance_of(each.text("instance_type"))
    several = instance is not None and instance.accelerators > 1
    script = each.started
    if other:
        yield each.finding(f"Training Compiler does not distribute by `{other[0]}`", "distribution")
    elif version and several and each.parameter("training_script") is None:  # no launcher
        if launched and each.every:
            yield each.finding(f"no launcher starts the processes of {each.text('instance_type')}")
        elif not launched and each.whole and "distribution" not in each.given:
            yield each.finding("without `pytorchxla` one GPU of the instance trains")
    if script is None:
        return
    name, entry = script.source.path.name, "entry_point"
    if "pytorchxla" in each.distribution and "_mp_fn" not in script.module.names:
        yield each.finding(f"{name} has no `_mp_fn` for the processes to call", entry)
    bare = each.framework == "PyTorch" and _numbers(each.text("framework_version")) >= (1, 12)
    listed = script.source.path.with_name("requirements.txt").is_file()
    if bare and script.uses("transformers") and not listed:
        yield each.finding(f"{name} imports Transformers, which the image does not have", entry)


def compiler_nodes(view: View) -> Iterator[Match]:
    """Several instances exchange gradients over a slow network."""
    for each in compiled_estimators(view):
        count = each.number("instance_count")
        if "one-gpu-each" in each.refused:
            yield each.finding(f"{count} instances of one GPU each", "instance_count")
        elif "no-efa" in each.refused:
            yield each.finding(f"{count} instances without EFA", "instance_type")


def debugged(view: View) -> Iterator[Match]:
    """Debugger, Profiler or the compiler's debug mode is on; `debugging-on` tells it."""
    for each in compiled_estimators(view):
        debug = None if each.compiler is None else keyword(each.compiler, "debug")
        key = each.hyperparameters.get(TRAINING_COMPILER_DEBUG_HYPERPARAMETER)
        for given in (debug, key):
            if given is not None and is_constant(given, True, "True", "true"):
                yield Match(given, "Training Compiler is in debug mode")
        watchers = ("profiler_config", "rules", "debugger_hook_config")
        for name in watchers:
            if name in each.given and not is_constant(each.given[name], False, None):
                yield each.finding(f"`{name}` is on", name)
        if each.whole and not {"disable_profiler", *watchers} & set(each.given):
            message = "SageMaker watches the job unless Debugger and Profiler are turned off"
            yield Match(each.call, message, Severity.NOTE)


# ---- models, batches and rates


def untested(view: View) -> Iterator[Match]:
    """AWS's table of tested models has nothing on a model or an instance."""
    for each in compiled_estimators(view):
        name, instance = each.written(*_MODELS), each.text("instance_type")
        if _is_untested(name):
            yield each.finding(_nothing_on(name), each.parameter(*_MODELS))
        known = {row.instance_type for row in tested_models()}
        if instance and instance not in known and not each.refused & _NOT_THERE:
            yield each.finding(_nothing_on(instance), "instance_type")
    starters = starting(view)
    named = any(each.parameter(*_MODELS) for each in starters)
    if not named and (starters or (view.compilers == (TRAINING_COMPILER,) and view.steps)):
        first: dict[str, ast.Call] = {}
        for call, owner in view.methods("from_pretrained"):
            first.setdefault(_loaded(view, call, owner), call)
        yield from (Match(first[x], _nothing_on(x)) for x in first if _is_untested(x))


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


def _loaded(view: View, call: ast.Call, owner: ast.expr) -> str:
    """The model that a call of `from_pretrained` loads; "" where that is not written."""
    name = view.script.name(owner)
    if not name.startswith("transformers.") or not re.search(r"Model$|For[A-Z]\w*$", name):
        return ""
    given = call.args[0] if call.args else keyword(call, "pretrained_model_name_or_path")
    settled = view.resolved(given)
    if isinstance(settled, ast.Attribute):  # args.model, with the default of its option
        option = view.script.options.get(settled.attr)
        settled = keyword(option, "default") if option is not None else None
    return _text(settled)


def batch_not_raised(view: View) -> Iterator[Match]:
    """The compiled job keeps the batch of the job without the compiler."""
    jobs = [each for each in compiled_estimators(view) if each.on_pytorch]
    native = [each for each in estimators(view) if each.compiler is None]
    for each in jobs:
        batch = each.written(*_BATCHES)
        same = [other for other in jobs if other.text("entry_point") == each.text("entry_point")]
        control = any(other.written(*_BATCHES) != batch for other in same)
        if batch.isdecimal() and not control:
            message = _as_before(each, batch, native) or _less_than_tested(each, int(batch))
            if message:
                yield each.finding(message, each.parameter(*_BATCHES))


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
            names = (target.id for target in node.targets if isinstance(target, ast.Name))
            yield from ((name, ast.unparse(node.value)) for name in names if pattern.search(name))


def _less_than_tested(each: Estimator, batch: int) -> str:
    """Whether AWS's own test of the model fitted more, and no more than this without it."""
    length = each.written("max_seq_length", "max_length", "block_size")
    model, instance = each.written(*_MODELS), each.text("instance_type")
    half = each.written("fp16").lower() in ("true", "1")
    if not (length.isdecimal() and half and model and each.written(*_BATCHES[:2])):
        return ""
    wanted = {"instance_type": instance, "precision": "fp16", "framework": "pytorch"}
    size = partial(default_batch_size, model, sequence_length=int(length), **wanted)
    fitted, before = size(compiled=True), size(compiled=False)
    if isinstance(fitted, str) or isinstance(before, str) or fitted[1] != before[1]:
        return ""
    message = (
        f"the batch is {batch}; AWS's test of {fitted[1].model} on {instance} fitted {fitted[0]} "
        f"with Training Compiler, {before[0]} without"
    )
    return message if batch <= before[0] < fitted[0] else ""


def rate_not_scaled(view: View) -> Iterator[Match]:
    """The batch grew, by the compiler or by more processes, and the learning rate did not."""
    native = [each for each in estimators(view) if each.compiler is None]
    for each in compiled_estimators(view):
        batch, rate = each.written(*_BATCHES), each.written(*_RATES)
        others = (x for x in native if x.text("entry_point") == each.text("entry_point"))
        alike = (x.written(*_BATCHES) for x in others if rate == x.written(*_RATES))
        smaller = [before for before in alike if batch and before and batch != before]
        if smaller and (not rate or _NUMBER.fullmatch(rate)):
            before = f"{smaller[0]} without the compiler, at one rate"
            yield each.finding(f"the batch is {batch} here and {before}")
        else:
            yield from _rate_of_one(view, each, batch, rate)


def _rate_of_one(view: View, each: Estimator, batch: str, rate: str) -> Iterator[Match]:
    """Whether a rate is that of the job without the compiler, or of one GPU."""
    batches = {value for _, value in _called_native(view.script, "batch")}
    rates = {value: name for name, value in _called_native(view.script, "rate|lr")}
    if batch.isdecimal() and batches and batch not in batches and rate in rates:
        yield each.finding(f"the batch is {batch}, and the rate that of `{rates[rate]}`")
        return
    given = each.parameter(*_RATES)
    spread = "pytorchxla" in each.distribution or each.parameter("training_script") is not None
    counts = re.compile(r"gpu|instance|node|world|worker|process|device|replica|scale|global", re.I)
    lines = each.started.source.lines if each.started is not None else ()
    grows = r"(?=.*(?:lr|rate)).*\*.*(?:world|gpu|device_count|num_proc)"
    number = _NUMBER.fullmatch(rate) or " * " in rate
    if given is None or not spread or each.gpus == 1 or not number:
        return
    by_count = counts.search(f"{rate} {ast.unparse(given)}")
    if not by_count and not any(re.match(grows, line) for line in lines):
        yield each.finding("the learning rate does not grow with the processes", given)


def preprocessing_workers(view: View) -> Iterator[Match]:
    """One process prepares the data before training begins."""
    for each in compiled_estimators(view):
        given, count = each.parameter(_WORKERS), each.written(_WORKERS)
        known = instance_of(each.text("instance_type"))
        if given is None and each.every and _takes_the_option(each):
            yield each.finding(f"`{_WORKERS}` is left at one process", "hyperparameters")
        elif count.isdecimal() and known is not None and int(count) < known.accelerators:
            yield each.finding(f"`{_WORKERS}` is {count}, for {known.accelerators} GPUs", given)
    if view.script.uses("datasets") and (view.analysis.steps.found or starting(view)):
        for call, owner in view.methods("map"):
            alone = (call.args or keyword(call, "function")) and len(call.args) <= 2
            passed_on = any(word.arg is None for word in call.keywords)
            workers = view.resolved(keyword(call, "num_proc"))
            one = workers is None or is_constant(workers, None, 0, 1)
            if alone and not passed_on and one and _of_dataset(view, owner):
                yield Match(call, "`map` prepares the data in one process")


def _takes_the_option(each: Estimator) -> bool:
    """Whether the script that a job starts takes the option, and has it at one process."""
    if each.started is None:
        known = r"(?:.*/)?run_(?:clm|mlm|plm|qa|ner|swag|summarization|translation)\.py"
        return "git_config" in each.given and bool(re.fullmatch(known, each.text("entry_point")))
    option = each.started.options.get(_WORKERS)
    fields = (x for x in ast.walk(each.started.source.tree) if isinstance(x, ast.AnnAssign))
    values = [x.value for x in fields if last_name(x.target) == _WORKERS]
    if option is None and not values:
        return False
    value = option or values[0]
    default = keyword(value, "default") if isinstance(value, ast.Call) else value
    return default is None or is_constant(default, None, 0, 1)


_LOADS = re.compile(r"datasets\.(?:load_dataset|load_from_disk|(?:Dataset|DatasetDict)(?:\.\w+)?)$")


def _of_dataset(view: View, node: ast.expr) -> bool:
    """Whether a value comes from a dataset of Hugging Face's that is read as a whole."""
    for origin in view.analysis.values.through(Provenance(view.script, node), _owner):
        made = origin.node
        if isinstance(made, ast.Call) and _LOADS.match(origin.script.called(made)):
            return not is_constant(keyword(made, "streaming"), True)
    return False


def _owner(origin: Provenance) -> list[Provenance]:
    made = origin.node.func if isinstance(origin.node, ast.Call) else origin.node
    inner = made.value if isinstance(made, ast.Attribute | ast.Subscript) else None
    return [] if inner is None else [Provenance(origin.script, inner)]
