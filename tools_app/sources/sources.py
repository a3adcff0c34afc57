"""The sources of a hub in this process, and the code of their tools."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools_app.base import conf, database, ports
from tools_app.base.ports import UnavailableError
from tools_app.sdk.errors import ToolDisabledError
from tools_app.sdk.hub_errors import ASK_FOR_REASON, ASK_TO_RESTART, NOT_HERE, DefinitionChangedError
from tools_app.sdk.outside import Origin
from tools_app.sdk.runner import Runner
from tools_app.sdk.spec import ToolSpec
from tools_app.sources import outside, python, sync
from tools_app.sources.directory import FolderProvider
from tools_app.sources.provider import NotHereError, Provider, SourceContents
from tools_app.sources.python import CodeProvider, PythonProvider
from tools_app.sources.recording import SyncReport
from tools_app.sources.registry import Loaded
from tools_app.sources.threads import in_thread

log = logging.getLogger("tools_app.sources")

_Key = tuple[str, str, str]


class Sources:
    def __init__(self, providers: Iterable[PythonProvider] | None = None) -> None:
        """Without `providers`, these are the sources that the settings name."""
        self.code = CodeProvider()
        self.folder: FolderProvider | None = None
        # Those of this process; sources outside are rows.
        self.providers: dict[str, PythonProvider] = {}
        for provider in (*(_configured() if providers is None else providers), self.code):
            self.providers.setdefault(provider.name, provider)
            if isinstance(provider, FolderProvider):
                self.folder = provider
        # The runners of tools that were called, with the hash of their definition.
        self._runners: dict[_Key, tuple[str, Runner]] = {}
        self._searches: dict[tuple[_Key, str], asyncio.Task[Runner]] = {}
        # The first connection to a source outside, by its kind.
        self._connections: dict[str, asyncio.Task[Runner]] = {}

    def provider(self, name: str) -> Provider | None:
        """A source by name: of this process, or outside, also if it is switched off. Queries the database."""
        return self.providers.get(name) or outside.provider(name)

    def describe(self, name: str, *, actor: str) -> SyncReport:
        """Describe a source now, of whichever kind, and record what it contains. Blocks.

        Raises:
            NotHereError: this process has not the source, or only an older version.
            UnavailableError: it cannot be described. That is recorded.
        """
        provider = self.provider(name)
        if provider is None:
            step = "Restart the hub with the source installed or configured, or run `toolhub synctools` there."
            raise NotHereError("this process does not have it", step)
        # A changed file is loaded at the second look that finds it unchanged.
        if self.folder is not None and provider is self.folder and not self.look():
            self.look()
        if provider.is_outdated():
            raise NotHereError("its files have changed since this process imported them", "Restart the hub.")
        return sync.describe(provider, actor=actor)

    def has(self, source: str, spec: ToolSpec) -> bool:
        """Whether this process can have the code of a tool. Imports nothing."""
        if source == self.code.name:
            return self.code.loaded().find(spec.kind, spec.key) is not None
        return source in self.providers

    async def runner(self, source: str, spec: ToolSpec, origin: Origin | None = None) -> Runner:
        """The code of a tool, imported in a thread at the first call. With `origin`, its connection.

        Raises:
            DefinitionChangedError: the code is another version. If its files have changed, that is recorded first.
            ToolError: there is no such code.
        """
        if origin is not None:
            return await self._connection(origin, spec)
        key = source, spec.kind, spec.key
        runner_hash, runner = self._runners.get(key, ("", None))
        if runner is not None and runner_hash == spec.hash:
            return runner
        # Two versions have different code.
        search_key = key, spec.hash
        search = self._searches.get(search_key)
        if search is None:
            search = self._searches[search_key] = asyncio.ensure_future(self._search(source, spec))
            search.add_done_callback(lambda done: self._end_search(search_key, done))
        # Concurrent calls share the import, and the end of one of them must not cancel it.
        return await asyncio.shield(search)

    async def _connection(self, origin: Origin, spec: ToolSpec) -> Runner:
        first = self._connections.get(origin.kind)
        if first is None:
            # Imports hundreds of modules. On the event loop, no other call would proceed meanwhile.
            first = asyncio.ensure_future(in_thread(lambda: ports.upstreams().runner(origin, spec)))
            self._connections[origin.kind] = first
        if not first.done():
            await asyncio.shield(first)
        return ports.upstreams().runner(origin, spec)

    def _end_search(self, search_key: tuple[_Key, str], search: asyncio.Task[Runner]) -> None:
        del self._searches[search_key]
        if not search.cancelled():
            search.exception()  # Its callers may have given up: asyncio must not report it.

    async def _search(self, source: str, spec: ToolSpec) -> Runner:
        provider = self.providers.get(source)
        if provider is None:
            raise ToolDisabledError.named(spec.name, NOT_HERE, ASK_TO_RESTART)
        # `look` replaces the dictionary: a runner of files that have changed meanwhile is not stored.
        runners = self._runners
        try:
            # Of code there is nothing to import.
            runner = provider.runner(spec) if provider is self.code else await in_thread(lambda: provider.runner(spec))
            await provider.start()
        except UnavailableError as error:
            await database.run(sync.record_failure, provider, str(error))
            raise ToolDisabledError.named(spec.name, "its source could not be started", ASK_FOR_REASON) from error
        except DefinitionChangedError:
            if not await database.run(self._record_change, provider):
                raise DefinitionChangedError.outdated(spec.name) from None
            raise
        if provider is not self.code:  # Code can replace a tool by another with the same definition.
            runners[source, spec.kind, spec.key] = spec.hash, runner
        return runner

    def _record_change(self, provider: PythonProvider) -> bool:
        """Record what the files of a source say now. False: the version of this process is not the one to record."""
        if provider is not self.code and (provider.is_outdated() or not sync.is_ours(provider)):
            return False
        sync.sync_source(provider, actor="sync")
        return True

    def loaded(self, name: str) -> Loaded | None:
        """A tool by name or alias, from all sources. Imports all of them."""
        return next((loaded for one in self.providers.values() if (loaded := one.loaded().get(name))), None)

    def inspected(self) -> SourceContents:
        """What all sources contain now. Imports all of them."""
        contents = [provider.describe() for provider in self.providers.values()]
        tools = [tool for one in contents for tool in one.tools]
        return SourceContents(tools, [problem for one in contents for problem in one.problems])

    def look(self) -> bool:
        """Reload what has changed in the tools directory. False: nothing has."""
        if self.folder is None or not self.folder.look():
            return False
        self._runners = {}
        return True

    async def stop(self) -> None:
        """Stop the packs that were started."""
        for provider in self.providers.values():
            await provider.stop()

    def close(self) -> None:
        """Remove what importing the tools directory has changed in the interpreter."""
        if self.folder is not None:
            self.folder.close()


def _configured() -> Iterator[PythonProvider]:
    yield from python.providers()
    folder = conf.value("TOOLHUB_TOOLS_DIR")
    if folder is not None:
        yield FolderProvider(Path(folder))
