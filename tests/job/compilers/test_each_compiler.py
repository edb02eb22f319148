"""Every compiler through every table that knows compilers: one that was forgotten fails here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compilegate.catalog.compilers import compilers
from compilegate.job import InputError
from compilegate.job.compilers import (
    compiler_options,
    declarations,
    hyperparameter_of,
    load_compiler,
    table_text,
)
from compilegate.workload.declaration.arms import STACKS, ArmTable, stack_key
from training.arguments import read_arguments

ROOT = Path(__file__).parents[3]
NAMES = tuple(declarations())
FOLDERS = {"SM_CHANNEL_PREPARED": "in", "SM_MODEL_DIR": "out", "SM_OUTPUT_DATA_DIR": "out"}


def declared(name: str, **keys: Any) -> ArmTable:
    return ArmTable(compiler=name, batch_size=8, learning_rate=1e-3, **keys)


def other(name: str) -> Any:
    """A value of an option that is not its default."""
    option = compiler_options()[name]
    if option.truth:
        return not option.default
    if isinstance(option.default, int):
        return option.at_least
    if option.table:
        return '{"max_autotune":true}'
    if option.pattern:
        return "package.module.function"
    return next(choice for choice in option.choices if choice != option.default)


def in_a_file(value: Any) -> Any:
    """The value as a workload has it: a table, where a job gets JSON."""
    return json.loads(value) if str(value).startswith("{") else value


def test_options_are_shared() -> None:
    every = {option for each in declarations().values() for option in each.options}
    assert len({option.key for option in every}) == len(every) == len(compiler_options())


@pytest.mark.parametrize("name", NAMES)
def test_its_declaration_image_stack_and_facts_are_whole(name: str) -> None:
    declaration, facts = declarations()[name], compilers()[name]
    assert all((declaration.name, declaration.image, declaration.proof))
    assert (ROOT / "containers" / declared(name).image_folder / "requirements.txt").is_file()
    assert (name in STACKS) == bool(facts.stacks)
    assert (stack_key(name) in ArmTable.model_fields) == (name in STACKS)
    assert all((facts.title, facts.processors))


@pytest.mark.parametrize("name", NAMES)
def test_its_options_reach_the_job_and_its_evidence_as_the_workload_has_them(name: str) -> None:
    options = declarations()[name].options
    set_ = {option: other(option.name) for option in options}
    if name == "torch-compile":  # fallback_random is of one backend only
        del set_[compiler_options()["fallback_random"]]
    arm = declared(name, **{option.key: in_a_file(value) for option, value in set_.items()})
    assert arm.options_given == set_
    words = ["--arm", "a", "--seed", "1", "--compiler", name]
    words_of_options = [
        f"--{option.name}={hyperparameter_of(value)}" for option, value in set_.items()
    ]
    chosen = {option.name: value for option, value in set_.items()}
    job = read_arguments([*words, *words_of_options], FOLDERS)
    assert job.config.options == declarations()[name].settings(chosen)
    # What is left out has its default on both sides.
    assert declared(name).options_given == {}
    defaults = {option.name: option.default for option in options}
    assert read_arguments(words, FOLDERS).config.options == defaults


@pytest.mark.parametrize("option", compiler_options().values(), ids=lambda option: option.name)
def test_an_option_is_refused_with_a_compiler_that_lacks_it(option: Any) -> None:
    lacking = next(name for name in NAMES if option not in declarations()[name].options)
    with pytest.raises(ValueError, match=f"{option.key} is .* expected compiler '"):
        declared(lacking, **{option.key: in_a_file(other(option.name))})
    with pytest.raises(InputError, match=f"{option.name} is not an option of compiler '{lacking}'"):
        declarations()[lacking].settings({option.name: option.default})


@pytest.mark.parametrize("name", NAMES)
def test_its_record_has_the_declared_proof(name: str) -> None:
    if name in ("xla", "training-compiler", "neuron"):
        pytest.importorskip("torch_xla", reason="tests/training/jobs/test_xla.py runs it")
    compiler = load_compiler(name)
    assert compiler.graphs() >= 0
    record = compiler.record(0.0, 0)
    assert record.name == name
    assert record.options == declarations()[name].settings({})
    assert set(declarations()[name].proof) <= set(record.proof)


@pytest.mark.parametrize("name", NAMES)
def test_the_guide_to_compilers_names_it_and_its_options(name: str) -> None:
    words_of_options = (ROOT / "docs" / "compilers.md").read_text(encoding="utf-8")
    (row,) = (line for line in words_of_options.splitlines() if line.startswith(f'| `"{name}"` |'))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    keys = [f"`{option.key}`" for option in declarations()[name].options]
    assert cells[2:] == [f"`{declarations()[name].image}`", ", ".join(keys)]


SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
)
NAMES_OF_OPTIONS = st.from_regex(
    r"\A[A-Za-z_][\w.-]{0,20}\Z", alphabet=st.characters(codec="ascii")
)


@pytest.mark.slow
@settings(max_examples=50)
@given(st.dictionaries(NAMES_OF_OPTIONS, SCALARS, max_size=5))
def test_a_table_of_options_arrives_as_it_was_written(table: dict[str, Any]) -> None:
    option = compiler_options()["backend_options"]
    text = table_text(table)
    assert option.parsed(text) == text == table_text(dict(reversed(table.items())))
    assert json.loads(text) == table
    sent = hyperparameter_of(text)
    assert option.parsed(sent) == option.parsed(json.loads(sent)) == text  # decoded, or as it is


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("backend_options", ["[]", "3", '{"a":[1]}', '{"a":null}', '{"a b":1}', "{", "x" * 2000]),
        ("backend", ["a-b"]),
        ("compile_mode", ["fast"]),
        ("step_graphs", ["0"]),
        ("regional", ["yes"]),
    ],
)
def test_other_than_an_allowed_value_is_refused(name: str, texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(ValueError, match=r"\S"):
            compiler_options()[name].parsed(text)
