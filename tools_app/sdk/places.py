"""Where something is written: `file:line`, the same on every machine."""

from __future__ import annotations

import inspect
import linecache
import re
import sys
from typing import Any


def place_of(thing: Any) -> str:
    """`file:line` of a function or class; of a decorated one, where it stands itself and not its decorator."""
    thing = inspect.unwrap(thing)
    module = getattr(thing, "__module__", "")
    code = getattr(thing, "__code__", None)
    if code is not None:
        return f"{shown_path(code.co_filename, module)}:{code.co_firstlineno}"
    file = getattr(sys.modules.get(module), "__file__", None) or "?"
    path = shown_path(file, module)
    # `inspect` parses the whole file to find a class, which takes longer than all else that a tool is made of.
    begins = re.compile(rf"\s*class {re.escape(getattr(thing, '__name__', ''))}\b")
    lines = [number for number, line in enumerate(linecache.getlines(file), 1) if begins.match(line)]
    if len(lines) == 1:
        return f"{path}:{lines[0]}"
    try:
        return f"{path}:{inspect.getsourcelines(thing)[1]}"
    except (OSError, TypeError):
        return path


def shown_path(path: str, module: str) -> str:
    """A module's file as `package/module.py`: the same on every machine, whatever the working directory."""
    inner = module.replace(".", "/")
    for end in (f"{inner}.py", f"{inner}/__init__.py"):
        if path.endswith(f"/{end}"):
            return end
    return path
