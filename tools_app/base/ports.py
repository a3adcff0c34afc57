"""What a call needs of rooms that it does not know: each a protocol, connected by `tools_app/apps.py` at the start.

    runner = await ports.code().runner(source, spec)

So the path of a call can be read, and tested, without the loading of Python code, HTTP clients or search indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from tools_app.sdk.context import Answers, Tools

if TYPE_CHECKING:
    from tools_app.catalog.entry import Entry
    from tools_app.engine.answers import Answer
    from tools_app.http import ApiClient
    from tools_app.sdk.accounts import Account
    from tools_app.sdk.context import Caller
    from tools_app.sdk.errors import ToolError, ToolNotFoundError
    from tools_app.sdk.outside import Listing, Origin
    from tools_app.sdk.runner import Runner
    from tools_app.sdk.spec import ToolSpec

T = TypeVar("T")


class Port(Generic[T]):
    """Returns the implementation for the current hub."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._find: Callable[[], T] | None = None

    def connect(self, find: Callable[[], T]) -> None:
        """`find` is called at each use: the implementation is imported at the first one."""
        self._find = find

    def __call__(self) -> T:
        if self._find is None:
            raise RuntimeError(f"{self._name} is not connected: is tools_app in INSTALLED_APPS, and Django set up?")
        return self._find()


class Code(Protocol):
    """The code of tools, in this process."""

    def has(self, source: str, spec: ToolSpec) -> bool:
        """Whether this process can have the code of a tool. Imports nothing."""
        ...

    async def runner(self, source: str, spec: ToolSpec, origin: Origin | None = None) -> Runner:
        """The code of a tool, imported at the first call, or its connection, if its source is outside.

        Raises:
            ToolError: it is missing, or is another version than the spec.
        """
        ...

    async def stop(self) -> None:
        """Stop what the calls have started."""
        ...


class Upstreams(Protocol):
    """Connections to sources outside. Those of calls live on the event loop of the engine."""

    def runner(self, origin: Origin, spec: ToolSpec) -> Runner:
        """The connection of a tool. Connects at the first call."""
        ...

    def listing(self, origin: Origin) -> Listing:
        """Connect, and list everything twice. Blocks.

        Raises:
            SignInRequiredError: it refuses the credentials of `origin.connection`.
            UnavailableError: the message is for operators.
        """
        ...

    async def reconnect(self, name: str) -> None:
        """End the connections and child processes of a source; the next call starts new ones."""
        ...

    def origins(self) -> Collection[Origin]:
        """To which there are connections. From any thread."""
        ...

    def end(self, origins: Collection[Origin]) -> None:
        """End the connections to these. From any thread; does not wait."""
        ...

    async def aclose(self) -> None: ...


class UnavailableError(Exception):
    """A source cannot be described or used now. The message is for operators."""


class SignInRequiredError(UnavailableError):
    """A source outside refuses the credentials, or requires some."""


class Clients(Protocol):
    """HTTP clients for upstreams, one for each account. Used on one event loop."""

    async def of(self, account: Account, explain: Callable[[Any], ToolError | None] | None) -> ApiClient:
        """The client. With `explain`, its errors are in the words of the pack.

        Raises:
            ConfigurationError: the secret of the account cannot be read.
        """
        ...

    async def close(self) -> None: ...


class AnswersOfCall(Answers, Protocol):
    """What one call reads from the shelf and puts there."""

    async def fitted(self, answer: Answer, is_replayable: bool) -> Answer:
        """The answer, or its outline if it is above the token budget of the call.

        `is_replayable`: it is stored for as long as it can be replayed.
        """
        ...


class Shelf(Protocol):
    """Answers that are stored for their callers."""

    def for_call(
        self, entry: Entry, caller: Caller, call_id: str, tokens: int, fields: Sequence[str] = ()
    ) -> AnswersOfCall: ...

    def contents(self, handles: Collection[str], caller_id: str) -> Iterator[tuple[str, bytes, bool]]:
        """Those of a caller among these handles: the content of each, and whether it is text. For threads."""
        ...


class ToolFinder(Tools, Protocol):
    """Finds tools for one caller, among those that exist for it."""

    async def none_named(self, name: str, through: str) -> ToolNotFoundError:
        """The error for a name that no tool has, with similar names if the caller may list tools."""
        ...


code: Final[Port[Code]] = Port("code")
upstreams: Final[Port[Upstreams]] = Port("upstreams")
# New ones, which belong to who asked for them.
clients: Final[Port[Clients]] = Port("clients")
shelf: Final[Port[Shelf]] = Port("shelf")
finder: Final[Port[Callable[[Caller], ToolFinder]]] = Port("finder")
# Records that a key was used, by its number.
note_use: Final[Port[Callable[[int], None]]] = Port("note_use")
