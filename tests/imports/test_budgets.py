"""How large the rooms are and may be: docs/budgets.toml, held against the code."""

from __future__ import annotations

import pytest

from tools.rooms import declared, main, measured


@pytest.mark.slow
def test_no_finished_room_exceeds_its_budget(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0, capsys.readouterr().err
    assert {room.name for room in measured()} == {each["name"] for each in declared()["room"]}
