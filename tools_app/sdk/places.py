"""Source locations as `file:line`, the same on every machine."""

from __future__ import annotations

import inspect
import linecache
import re
import sys
from typing import Any


def place_of(thing: Any) -> str:
    """`file:line` of a function or class; decorators are unwrapped."""
    thing = inspect.unwrap(thing)
    module = getattr(thing, "__module__", "")
    code = getattr(thing, "__code__", None)
    if code is not None:
        return f"{shown_path(code.co_filename, module)}:{code.co_firstlineno}"
    file = getattr(sys.modules.get(module), "__file__", None) or "?"
    path = shown_path(file, module)
    # `inspect` parses the whole file to find a class, which takes longer than everything else about a tool.
    class_line = re.compile(rf"\s*class {re.escape(getattr(thing, '__name__', ''))}\b")
    lines = [number for number, line in enumerate(linecache.getlines(file), 1) if class_line.match(line)]
    if len(lines) == 1:
        return f"{path}:{lines[0]}"
    try:
        return f"{path}:{inspect.getsourcelines(thing)[1]}"
    except (OSError, TypeError):
        return path


def shown_path(path: str, module: str) -> str:
    """The file of a module as `package/module.py`, independent of machine and working directory."""
    module_path = module.replace(".", "/")
    for end in (f"{module_path}.py", f"{module_path}/__init__.py"):
        if path.endswith(f"/{end}"):
            return end
    return path
