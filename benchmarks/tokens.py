"""How far the estimate of tokens (bytes / 3) is from what real tokenizers count.

    python -m venv /path/to/another && /path/to/another/bin/pip install django tiktoken tokenizers mistral-common
    /path/to/another/bin/pip install --no-deps litellm
    /path/to/another/bin/python benchmarks/tokens.py

The tokenizers come with their vocabularies inside these packages: nothing is downloaded while it runs. None of them is
needed by the hub.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
Count = Callable[[str], int]


def tokenizers() -> dict[str, Count]:
    """By the models they were made for."""
    own = _inside("litellm") / "litellm_core_utils" / "tokenizers"
    os.environ["TIKTOKEN_CACHE_DIR"] = str(own)
    import tiktoken
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer
    from tokenizers import Tokenizer

    cl100k = tiktoken.get_encoding("cl100k_base")
    claude = Tokenizer.from_str((own / "anthropic_tokenizer.json").read_text())
    tekken = Tekkenizer.from_file(_inside("mistral_common") / "data" / "tekken_240911.json")
    return {
        "cl100k (GPT-4)": lambda text: len(cl100k.encode(text, disallowed_special=())),
        "Claude 2": lambda text: len(claude.encode(text).ids),
        "tekken (Mistral)": lambda text: len(tekken.encode(text, bos=False, eos=False)),
    }


def samples() -> dict[str, str]:
    description = json.loads((ROOT / "docs" / "openapi.json").read_text())
    records = [
        {"id": n, "status": "open", "created_on": f"2026-01-{n % 28 + 1:02}T08:{n % 60:02}:00Z", "ratio": n / 7}
        for n in range(2_000)
    ]
    hexadecimal = [f"{n * 2_654_435_761 % 2**64:016x}" * 2 for n in range(2_000)]
    return {
        "JSON (a description)": json.dumps(description, separators=(",", ":")),
        "JSON (records)": json.dumps(records, separators=(",", ":")),
        "JSON (numbers)": json.dumps([n * 7919 % 1_000_003 for n in range(5_000)], separators=(",", ":")),
        "JSON (hashes)": json.dumps(hexadecimal, separators=(",", ":")),
        "prose": "\n".join(path.read_text() for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))),
        "Japanese": _translations("ja"),
        "code": "\n".join(path.read_text() for path in sorted((ROOT / "tools_app" / "engine").glob("*.py"))),
    }


def _translations(language: str) -> str:
    """What Django says in that language."""
    said: list[str] = []
    for path in sorted(_inside("django").glob(f"**/locale/{language}/LC_MESSAGES/django.po")):
        said += re.findall(r'^msgstr(?:\[0\])? "(.+)"$', path.read_text(), re.MULTILINE)
    return "\n".join(said)


def _inside(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        sys.exit(f"{package} is not installed; how to do that stands at the top of this file")
    return Path(spec.origin).parent


def main() -> None:
    counts = tokenizers()
    print(f"{'estimate / counted':<22}{'bytes':>9}" + "".join(f"{name:>18}" for name in counts))
    for name, text in samples().items():
        size = len(text.encode())
        estimate = -(-size // 3)
        shares = "".join(f"{estimate / count(text):>18.2f}" for count in counts.values())
        print(f"{name:<22}{size:>9,}{shares}")


if __name__ == "__main__":
    main()
