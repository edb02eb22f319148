"""Runs at Python's start, as sitecustomize: torch_xla then reads switches at its import, as AWS's
Training Compiler does."""

import importlib.machinery
import json
import os
import sys


class AsInTheImage:
    def find_spec(self, name, path, target=None):
        if name != "torch_xla":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def configure(module):
            switches = json.loads(os.environ.get("SM_FRAMEWORK_PARAMS", "{}"))
            if switches.get("sagemaker_training_compiler_enabled"):
                os.environ["SM_TRAINING_COMPILER_CONFIGURED"] = "1"
            execute(module)

        spec.loader.exec_module = configure
        return spec


sys.meta_path.insert(0, AsInTheImage())
