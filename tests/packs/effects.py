"""Words for what a tool does to data, for the tables of effects."""

from typing import Final

READS: Final = "reads"
ADDS: Final = "adds"
DESTROYS: Final = "destroys"
ONCE: Final = "once"  # each call does it again
OFTEN: Final = "often"  # a second call changes nothing more
WORLD: Final = "world"
HUB: Final = "hub"

# By the name of the tool: its effect, what a second call does, what it reaches, and why.
Effects = dict[str, tuple[str, str, str, str]]
