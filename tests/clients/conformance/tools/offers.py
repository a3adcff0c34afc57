"""The prompts and resources that the suite looks for, by their names and addresses."""

from __future__ import annotations

import base64
from typing import Annotated

from pydantic import BaseModel

from toolhub import Completes, Context, EmbeddedResource, Image, Message, prompt, resource, tool

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)


class Answer(BaseModel):
    context: str


def beginnings(value: str) -> list[str]:
    return ["paris", "park", "party", "testing"]


@prompt()
def test_simple_prompt() -> str:
    """Say something simple."""
    return "This is a simple prompt for testing."


@prompt()
def test_prompt_with_arguments(
    arg1: Annotated[str, "First test argument", Completes(beginnings)], arg2: Annotated[str, "Second test argument"]
) -> str:
    """Say what it was given."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@prompt()
def test_prompt_with_embedded_resource(
    resourceUri: Annotated[str, "URI of the resource to embed"],  # noqa: N803 – the suite's name
) -> list[Message]:
    """Hand over a file."""
    file = EmbeddedResource(resourceUri, "Embedded resource content for testing.", "text/plain")
    return [Message(file), Message("Please process the embedded resource above.")]


@prompt()
def test_prompt_with_image() -> list[Message]:
    """Hand over a picture."""
    return [Message(Image(PIXEL)), Message("Please analyze the image above.")]


@prompt()
async def test_input_required_result_prompt(ctx: Context) -> str:
    """Ask before it says anything."""
    reply = await ctx.elicit("What context should the prompt use?", Answer)
    return f"In the context of {reply.data.context}." if reply.accepted else "Without context."


@prompt(tools=["calculate"])
def test_changing_prompt() -> str:
    """Come and go with a tool."""
    return "Calculate something."


@tool
def test_trigger_prompt_change() -> str:
    """Switch the tool of a prompt off or on, as an operator would."""
    from tools_app.models import ToolRecord

    record = ToolRecord.objects.get(name="calculate")
    ToolRecord.objects.filter(name="calculate").update(enabled=not record.enabled)
    return "changed"


@resource("test://static-text")
def static_text() -> str:
    """Always the same text."""
    return "This is the content of the static text resource."


@resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """Always the same picture."""
    return PIXEL


@resource("test://template/{id}/data", mime_type="application/json")
def templated(id: str) -> dict[str, object]:
    """What belongs to an id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@resource("test://watched-resource")
def watched() -> str:
    """Something to subscribe to."""
    return "watched"
