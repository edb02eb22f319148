"""Write the generated docs: the references of a workload's file and of the settings, the schema,
the tables of results.

.venv/bin/python tools/write_reference.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.results import pages as pages_with_results
from compilegate.account.settings import Settings
from compilegate.declaration_errors import IN_WORDS
from compilegate.workload.json_schema import schema_of, schema_text, workload_schema

DOCS = Path(__file__).parents[1] / "docs"

WORKLOAD_HEAD = """\
# Every key of a workload file

Made from the types that read the file: `make reference` writes this page and
[workload.schema.json](workload.schema.json), and a test says when they are stale.
[workload.md](workload.md) explains how the tables go together. `compilegate validate --schema`
prints the schema, by which editors complete and check.

A key without a default must be given where its table is, or says what holds without it.
"""

SETTINGS_HEAD = """\
# Every key of infra/settings.toml

Made from the types that read the file: `make reference` writes this page, and a test says when it
is stale. [aws.md](aws.md) explains what a deployment makes of it. An empty file is valid; an
unknown key is refused.
"""

Schema = Mapping[str, Any]


def reference_page(head: str, schema: Schema) -> str:
    """The page in Markdown."""
    return "\n".join([head, *_Page(schema["$defs"]).table("The file itself", schema)]) + "\n"


class _Page:
    def __init__(self, definitions: Schema) -> None:
        self._definitions = definitions

    def table(self, heading: str, table: Schema, path: str = "") -> Iterator[str]:
        """A section with the keys of a table, and after it one for each table in it."""
        properties: Schema = table["properties"]
        rows = [
            _row(name, each, required=name in table.get("required", ()))
            for name, each in properties.items()
            if not list(self._below(name, each, path))
        ]
        yield f"## {heading}"
        yield ""
        if path and (description := table.get("description", "")):
            yield _words(description)
            yield ""
        if rows:
            yield from ("| key | allowed | default | |", "|---|---|---|---|", *rows, "")
        for name, each in properties.items():
            for below, place, brackets in self._below(name, each, path):
                source = below["properties"].get("source", {}).get("const")
                of = f' with `source = "{source}"`' if source else ""
                yield from self.table(f"`{brackets}`{of}", below, place)

    def _below(self, name: str, each: Schema, path: str) -> Iterator[tuple[Schema, str, str]]:
        """The tables that a key may hold: each with its path, and as TOML writes it."""
        place = f"{path}.{name}" if path else name
        for kind in each.get("oneOf", [each]):
            found = self._resolved(kind)
            if "properties" in found:
                yield found, place, f"[{place}]"
        for kind in [*each.get("patternProperties", {}).values(), each.get("additionalProperties")]:
            found = self._resolved(kind) if isinstance(kind, Mapping) else {}
            if "properties" in found:
                yield found, f"{place}.NAME", f"[{place}.NAME]"
        items = self._resolved(each.get("items", {}))
        if "properties" in items:
            yield items, place, f"[[{place}]]"

    def _resolved(self, each: Schema) -> Schema:
        found: Schema = (
            self._definitions[each["$ref"].rpartition("/")[2]] if "$ref" in each else each
        )
        return found


def _row(name: str, each: Schema, *, required: bool) -> str:
    default = "must be given" if required else _value(each["default"]) if "default" in each else ""
    return f"| `{name}` | {_allowed(each)} | {default} | {_words(each.get('description', ''))} |"


def _allowed(each: Schema) -> str:
    if "const" in each:
        return _value(each["const"])
    if "enum" in each:
        return ", ".join(_value(value) for value in each["enum"])
    if "anyOf" in each:
        return " or ".join(dict.fromkeys(_allowed(kind) for kind in each["anyOf"]))
    words = {
        "integer": f"a whole number{_limits(each)}",
        "number": f"a number{_limits(each)}",
        "boolean": "`true` or `false`",
        "string": _string(each),
    }
    if each.get("type") == "array":
        return f"a list: {_allowed(each['items'])}"
    return words[each["type"]] if each.get("type") in words else _any_table(each)


def _any_table(each: Schema) -> str:
    inside = [*each.get("patternProperties", {}).values(), each.get("additionalProperties")]
    kinds = [_allowed(kind) for kind in inside if isinstance(kind, Mapping)]
    return f"a table: {' or '.join(kinds)}" if kinds else "a table"


def _string(each: Schema) -> str:
    pattern = each.get("pattern", "")
    matches = f"a string that matches `{pattern}`" if pattern else "a string"
    return IN_WORDS.get(pattern, matches).replace("|", "\\|")


def _limits(each: Schema) -> str:
    words = {
        "minimum": "{} or more",
        "exclusiveMinimum": "more than {}",
        "maximum": "{} or less",
        "exclusiveMaximum": "less than {}",
    }
    found = [words[key].format(_number(each[key])) for key in words if key in each]
    if "minimum" in each and "maximum" in each:
        return f" from {_number(each['minimum'])} to {_number(each['maximum'])}"
    return f", {' and '.join(found)}" if found else ""


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str):
        return f'`"{value}"`'
    return "none" if value in ([], {}) else f"`{value}`"


def _words(text: str) -> str:
    """In one line, as a cell takes it; a sentence."""
    line = " ".join(text.split()).replace("|", "\\|")
    return f"{line[:1].upper()}{line[1:]}" if line else ""


def pages() -> dict[Path, str]:
    """Every file that is made, and what it holds."""
    return {
        DOCS / "workload.schema.json": schema_text(),
        DOCS / "workload-reference.md": reference_page(WORKLOAD_HEAD, workload_schema()),
        DOCS / "settings-reference.md": reference_page(SETTINGS_HEAD, schema_of(Settings)),
        **pages_with_results(),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
