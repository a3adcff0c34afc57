"""`python -m toolhub_postgres`, for operators: what the role of POSTGRES_URL may do beyond reading."""

from __future__ import annotations

import asyncio
import sys

from toolhub import ToolError
from toolhub_postgres.role import SECONDS, excess
from toolhub_postgres.session import within


async def _checked() -> list[str]:
    async with within(SECONDS, "check the role") as session:
        return await excess(session)


def main() -> int:
    try:
        sentences = asyncio.run(_checked())
    except ToolError as error:
        detail = f" ({error.detail})" if error.detail else ""
        sys.stderr.write(f"{error.message}{detail}. {error.next_step}\n")
        return 1
    sys.stdout.write("\n".join(sentences or ["The role can only read."]) + "\n")
    return 1 if sentences else 0


if __name__ == "__main__":
    sys.exit(main())
