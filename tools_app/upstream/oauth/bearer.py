"""The token of one transport: at hand for each request, renewed aside, and never by two of its requests."""

from __future__ import annotations

import asyncio
import contextvars
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from tools_app.base import hub
from tools_app.sdk.accounts import Account
from tools_app.sdk.outside import Origin
from tools_app.upstream.oauth.token import NoTokenError, Token
from tools_app.upstream.oauth.tokens import FRESH_SECONDS, obtain

# Of different connections: each transport has one at most.
MOST_AT_ONCE: Final = 16


class Renewals:
    """The threads in which tokens are requested: that cannot be cancelled between the answer and its storing."""

    def __init__(self) -> None:
        self.threads = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="toolhub-oauth")

    def close(self) -> None:
        self.threads.shutdown(wait=True, cancel_futures=True)


class Bearer:
    """Used on one event loop. No lock is held while a request is under way, so requests do not wait for each other."""

    def __init__(self, account: Account, origin: Origin) -> None:
        self._account = account
        self._origin = origin
        self._token: Token | None = None
        self._obtaining: asyncio.Task[Token] | None = None
        # The newest version that the source has accepted.
        self._accepted = 0

    async def current(self) -> Token:
        """The token for a request.

        Raises:
            NoTokenError
        """
        token = self._token
        if token is not None and (token.renew_at is None or token.renew_at > time.time()):
            return token
        return await self._obtained(0)

    def accepted(self, token: Token) -> None:
        self._accepted = max(self._accepted, token.version)

    async def replacement(self, refused: Token) -> Token | None:
        """Another token than the one that the source refuses; None: there is none that would help.

        Raises:
            NoTokenError: a person has to sign in.
        """
        for _ in range(2):
            if self._token is not None and self._token.version > refused.version:
                return self._token
            is_fresh = time.time() - refused.obtained_at < FRESH_SECONDS
            if is_fresh and refused.version > self._accepted:
                return None
            try:
                await self._obtained(refused.version)
            except NoTokenError as error:
                if error.needs_sign_in:
                    raise
                return None
        return None

    def close(self) -> None:
        """A request for a token ends by itself, and its answer is stored."""
        if self._obtaining is not None:
            self._obtaining.cancel()

    async def _obtained(self, refused: int) -> Token:
        if self._obtaining is None:
            self._obtaining = asyncio.create_task(_in_thread(self._account, self._origin, refused))
            self._obtaining.add_done_callback(self._ended)
        return await asyncio.shield(self._obtaining)

    def _ended(self, task: asyncio.Task[Token]) -> None:
        self._obtaining = None
        if not task.cancelled() and task.exception() is None:
            self._token = task.result()


async def _in_thread(account: Account, origin: Origin, refused: int) -> Token:
    work = partial(contextvars.copy_context().run, obtain, account, origin, refused)
    return await asyncio.get_running_loop().run_in_executor(hub.part(Renewals).threads, work)
