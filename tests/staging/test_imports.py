"""What a program imports is read from its files, and nothing of them is run."""

from __future__ import annotations

from compilegate.pipelines.staging.imports import imported_modules


def test_files_beside_the_script_are_followed_and_others_are_not() -> None:
    files = {
        "train.py": b"import numpy as np\nfrom net import model\nfrom .settings import RATE\n",
        "net/__init__.py": b"",
        "net/model.py": b"def build():\n    import torch.nn as nn\n    return nn\n",
        "settings.py": b"import train, os.path\n",
        "prepare.py": b"import tensorflow\n",
    }
    assert imported_modules(files, "train.py") == {"numpy", "torch", "os"}


def test_a_script_in_a_folder_finds_what_lies_beside_it_and_at_the_root() -> None:
    files = {
        "src/train.py": b"import trees\nimport shared\n",
        "src/trees.py": b"from xgboost import XGBClassifier\n",
        "shared.py": b"import pandas.api\n",
    }
    assert imported_modules(files, "src/train.py") == {"xgboost", "pandas"}


def test_what_is_no_python_imports_nothing() -> None:
    assert imported_modules({"train.py": b"print 'old'\n"}, "train.py") == frozenset()
    assert imported_modules({"train.py": b"\0"}, "train.py") == frozenset()
