"""The configuration of a script that is started by hand."""

import pytest

from compilegate.job import InputError
from compilegate.job.script.config import read_config


@pytest.mark.parametrize(
    ("named", "compiler", "options"),
    [
        (None, "eager", {}),
        ("", "eager", {}),
        ("inductor", "inductor", {}),
        ("torch-compile", "torch-compile", {}),
        ("torch-compile:aot_eager", "torch-compile", {"backend": "aot_eager"}),
        ("torch-compile:my.own.backend", "torch-compile", {"backend": "my.own.backend"}),
    ],
)
def test_the_variable_names_a_compiler_and_perhaps_its_backend(
    named: str | None, compiler: str, options: dict[str, str]
) -> None:
    config = read_config({} if named is None else {"COMPILEGATE_COMPILER": named})
    assert (config.compiler, dict(config.options)) == (compiler, options)
    assert (config.alone, config.is_candidate) == (True, False)
    assert (config.baseline is None) is (compiler == "eager")


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ("indoctor", "expected one of eager, inductor, "),
        ("indoctor:eager", "expected one of eager, inductor, "),
        ("inductor:aot_eager", "inductor has no backends"),
        ("torch-compile:", "'' is not a backend of torch.compile by its name"),
        ("torch-compile:eager", "which runs the captured graph as it is"),
    ],
)
def test_what_is_no_compiler_or_no_backend_is_one_sentence(named: str, sentence: str) -> None:
    with pytest.raises(InputError, match=f"^[^\n]*{named!r}[^\n]*{sentence}"):
        read_config({"COMPILEGATE_COMPILER": named})
