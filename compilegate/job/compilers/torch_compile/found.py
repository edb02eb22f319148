"""A backend's own function, by its name; or one sentence on why there is none."""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import inspect
import json
import os
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional

import torch

from compilegate.job.compilers.torch_compile.backends import INDUCTOR, Backend, known
from compilegate.job.compilers.torch_compile.inductor import inductor_backend
from compilegate.job.errors import CompilerError, first_line

BackendFunction = Callable[..., Any]
"""Given a captured graph and its example inputs, what to call instead of the graph."""


class Found(NamedTuple):
    """A backend, bound to its mode and its options."""

    function: BackendFunction
    reset: Optional[Callable[[], None]]
    """Makes it forget what it compiled; None for one that keeps nothing in mind."""


def found_backend(name: str, mode: str, options: str, *, dynamic: bool) -> Found:
    """The backend with that name, bound to its mode and its options, a table in JSON.

    Raises CompilerError when there is none, or when it takes no such mode or options.
    """
    table: Dict[str, Any] = json.loads(options)
    if name == INDUCTOR:
        return Found(*inductor_backend(mode, table, dynamic=dynamic))
    told: Dict[str, Any] = {} if mode == "default" else {"mode": mode}
    about = known(name)
    if about is not None:
        os.environ.update(about.strict_variables)
        table = {**table, **dict(about.strict_options)}
    if table:
        told["options"] = table
    function = _function(name) if "." in name else _registered(name)
    _require_accepted(name, function, told)

    return Found(functools.partial(function, **told), getattr(function, "reset", None))


def _registered(name: str) -> BackendFunction:
    from torch._dynamo import list_backends  # noqa: PLC0415 - seconds of import
    from torch._dynamo.backends.registry import lookup_backend  # noqa: PLC0415

    about = known(name)
    if about is not None and about.module is not None:
        # Its import registers it. Where that fails, torch does not know the name, which is said.
        with contextlib.suppress(ImportError):
            importlib.import_module(about.module)
    if name not in list_backends(exclude_tags=()):
        raise CompilerError(_not_installed(name, about, list_backends()))
    try:
        function: BackendFunction = lookup_backend(name)
    except Exception as error:  # what is imported for it may raise anything
        raise CompilerError(
            f"backend {name!r} is registered and cannot be loaded ({first_line(error)})"
            f"{_comes_with(about)}"
        ) from error
    return function


def _not_installed(name: str, about: Optional[Backend], there: Any) -> str:
    close = difflib.get_close_matches(name, there, n=1)
    meant = f"; did you mean {close[0]!r}?" if close and about is None else ""
    return (
        f"backend {name!r} is not installed beside torch {torch.__version__}, which has "
        f"{', '.join(there)}{_comes_with(about)}{meant}"
    )


def _comes_with(about: Optional[Backend]) -> str:
    if about is None:
        return "; add the package that registers it to the image's requirements.txt"
    return f"; it comes with {about.install}"


def _function(dotted: str) -> BackendFunction:
    module_name, _, attribute = dotted.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a module that is imported may raise anything
        raise CompilerError(
            f"backend {dotted!r} cannot be imported ({type(error).__name__}: {first_line(error)}); "
            "its package has to be installed in the image, or lie beside the script"
        ) from error
    function = getattr(module, attribute, None)
    if not callable(function):
        kind = "nothing" if function is None else f"a {type(function).__name__}"
        raise CompilerError(
            f"backend {dotted!r} names {kind}, expected a function of a graph and its example "
            f"inputs in {module_name}"
        )
    chosen: BackendFunction = function
    return chosen


def _require_accepted(name: str, function: BackendFunction, told: Mapping[str, Any]) -> None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of what is written in C
        return
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        return
    for what in told:
        if what not in [each.name for each in parameters]:
            raise CompilerError(
                f"{what} is given, and backend {name!r} has no parameter of that name; leave it out"
            )
