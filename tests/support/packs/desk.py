"""A typical pack: notes at an upstream that needs an account."""

from typing import Annotated, Any

from toolhub import ConnectionKind, ConnectionOption, Context, Hints, Pack

DESK = ConnectionKind(
    "Desk",
    url_variable="DESK_URL",
    secret_variable="DESK_KEY",
    header="X-Desk-Key",
    path="/api/v1",
    probe="/notes?limit=1",
    options=(
        ConnectionOption("archived", "Whether old notes are shown as well."),
        ConnectionOption("greeting", "What a note begins with.", "Hello"),
        ConnectionOption("pages", "How many pages are read.", 3),
        ConnectionOption("patience", "In seconds.", 0.5),
    ),
)
pack = Pack("desk", connection=DESK)


@pack.tool(category="notes", tags=["desk"], hints=Hints(read_only=True))
async def list_notes(ctx: Context) -> dict[str, Any]:
    """List the notes."""
    return {"notes": await ctx.http.get("notes", operation="list notes")}


@pack.tool(category="notes", tags=["desk"], hints=Hints(read_only=True), cache_seconds=60)
async def count_notes(ctx: Context) -> dict[str, int]:
    """Count the notes."""
    return {"count": len(await ctx.http.get("notes", operation="count notes"))}


@pack.tool(category="notes", tags=["desk"], hints=Hints(destructive=False))
async def add_note(ctx: Context, text: Annotated[str, "What to note"]) -> dict[str, Any]:
    """Add a note."""
    return {"added": (await ctx.http.post("notes", operation="add note", json={"text": text})).data}
