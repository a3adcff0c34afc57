"""The text of a PDF document, in a process of its own: parsers of PDF have run for ever, and taken all memory.

python -I pdf_process.py PLACE_OF_PYPDF LIMITS < the document > lines of JSON: the document, each page, the end

Imports nothing of the hub. Each line is written at once: if the process is killed, the pages so far count.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from typing import Any


def main(place: str, limits: dict[str, int]) -> None:
    _limit(limits)
    sys.path.append(place)
    import pypdf
    from pypdf.errors import FileNotDecryptedError, WrongPasswordError

    try:
        reader = pypdf.PdfReader(io.BytesIO(sys.stdin.buffer.read()))
        if reader.is_encrypted and not reader.decrypt(""):
            raise WrongPasswordError
        count = len(reader.pages)
    except (FileNotDecryptedError, WrongPasswordError):
        _write({"problem": "password"})
        return
    except Exception:
        _write({"problem": "broken"})
        return
    _write({"title": _title(reader), "pages": count})
    characters_left = limits["characters"]
    for number in range(min(count, limits["pages"])):
        try:
            text = reader.pages[number].extract_text()
        except Exception:
            _write({"number": number + 1, "problem": "broken"})
            continue
        _write({"number": number + 1, "text": text[:characters_left], "cut": len(text) > characters_left})
        characters_left -= len(text)
        if characters_left <= 0:
            break
    _write({"end": True})


def _title(reader: Any) -> str:
    with contextlib.suppress(Exception):
        title = reader.metadata.title if reader.metadata is not None else ""
        return str(title or "")[:1_000]
    return ""


def _limit(limits: dict[str, int]) -> None:
    # Not on every system; the hub's own time limit holds everywhere.
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limits["memory"], limits["memory"]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        # If the hub ends meanwhile, this process does too.
        resource.setrlimit(resource.RLIMIT_CPU, (limits["seconds"], limits["seconds"] + 1))


def _write(record: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
