# SPDX-License-Identifier: MIT
"""Loading the Python files of an experiment's folder, as a package, from their source alone."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType

from harness.errors import KreproError, UsageError

#: How the names of loaded analyses begin.
ANALYSIS_NAME = "krepro_analysis_"


class _SourceOnly(importlib.machinery.SourceFileLoader):
    """Neither writes nor reads __pycache__: a finished set does not change, and what is run is what was hashed."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


class _Beside(importlib.abc.MetaPathFinder):
    """Finds what an analysis imports from beside it, and from packages there, for the same loader."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if path is None or not fullname.startswith(ANALYSIS_NAME):
            return None
        specs = (
            importlib.machinery.FileFinder(folder, (_SourceOnly, importlib.machinery.SOURCE_SUFFIXES)).find_spec(
                fullname, target
            )
            for folder in path
        )
        return next((spec for spec in specs if spec is not None and spec.loader is not None), None)


sys.meta_path.insert(0, _Beside())


def load_module(path: Path) -> ModuleType:
    """The file as a package, so that it can import files beside it as `from .name import ...`."""
    name = f"{ANALYSIS_NAME}{path.parent.name.replace('-', '_')}"
    for known in [known for known in sys.modules if known.startswith(f"{name}.")]:
        del sys.modules[known]  # of another folder with this name: a result set's copy, for example
    spec = importlib.util.spec_from_file_location(
        name, path, loader=_SourceOnly(name, str(path)), submodule_search_locations=[str(path.parent)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except KreproError:
        raise
    except BaseException as error:
        raise UsageError(f"{type(error).__name__}: {error}", where=place_of(error, path)) from error
    return module


def place_of(error: BaseException, path: Path) -> str:
    """file:line of the deepest frame inside the analysis or a file below its folder, or of a syntax error."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f"{error.filename or path}:{error.lineno}"
    place, trace = str(path), error.__traceback__
    while trace is not None:
        if path.parent in Path(trace.tb_frame.f_code.co_filename).parents:
            place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
