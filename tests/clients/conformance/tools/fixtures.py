"""The tools that the suite looks for, by its names."""

from __future__ import annotations

import asyncio
import base64
from typing import Annotated, Any

from pydantic import BaseModel, Field

from toolhub import Audio, Context, Elicit, EmbeddedResource, Hints, Image, Roots, Sample, tool

READ = Hints(read_only=True)
# One red dot.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
# No sound at all.
WAV = b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0D\xac\0\0\x88X\1\0\2\0\x10\0data\0\0\0\0"


class Name(BaseModel):
    name: str


class Color(BaseModel):
    color: str


class Confirmation(BaseModel):
    ok: bool


# ---- content


@tool(hints=READ)
def test_simple_text() -> str:
    """Answer with a text."""
    return "This is a simple text response for testing."


@tool(hints=READ)
def test_image_content() -> Image:
    """Answer with a picture."""
    return Image(PNG)


@tool(hints=READ)
def test_audio_content() -> Audio:
    """Answer with a sound."""
    return Audio(WAV)


@tool(hints=READ)
def test_embedded_resource() -> EmbeddedResource:
    """Answer with a file."""
    return EmbeddedResource("test://embedded-resource", "This is an embedded resource content.", "text/plain")


@tool(hints=READ)
def test_multiple_content_types() -> Any:
    """Answer with a text, a picture and a file."""
    resource = EmbeddedResource("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
    return ["Multiple content types test:", Image(PNG), resource]


@tool(hints=READ)
def test_error_handling() -> str:
    """Fail."""
    raise RuntimeError("This tool intentionally returns an error for testing")


# ---- on the way


@tool(hints=READ)
async def test_tool_with_logging(ctx: Context) -> str:
    """Tell the client three things."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        ctx.tell(message)
        await asyncio.sleep(0.05)
    return "told"


@tool(hints=READ)
async def test_logging_tool(ctx: Context) -> str:
    """Tell the client something, if it wants that."""
    ctx.tell("something")
    return "told"


@tool(hints=READ)
async def test_tool_with_progress(ctx: Context) -> str:
    """Report how far it is."""
    for done in (0, 50, 100):
        ctx.progress(done, 100, f"{done} of 100")
        await asyncio.sleep(0.05)
    return "done"


# ---- questions


@tool(hints=READ)
async def test_sampling(ctx: Context, prompt: str) -> str:
    """Ask the model of the client."""
    return f"LLM response: {(await ctx.sample(prompt, max_tokens=100)).text}"


@tool(hints=READ)
async def test_missing_capability(ctx: Context) -> str:
    """Ask the model of a client that may have none."""
    return (await ctx.sample("Hello")).text


@tool(hints=READ)
async def test_elicitation(ctx: Context, message: str) -> str:
    """Ask the user."""
    form = {
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    }
    reply = await ctx.elicit(message, form)
    return f"User response: {reply.action}, {reply.data}"


@tool(hints=READ)
async def test_streaming_elicitation(ctx: Context) -> str:
    """Ask the user on the stream of the call."""
    return f"User response: {(await ctx.elicit('Who are you?', Name)).action}"


@tool(hints=READ)
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask the user, with every kind of default."""
    form = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
    }
    reply = await ctx.elicit("Tell about yourself", form)
    return f"Elicitation completed: action={reply.action}, content={reply.data}"


@tool(hints=READ)
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask the user, with every kind of choice."""
    titled = [
        {"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second", "Third"), 1)
    ]
    form = {
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
    }
    reply = await ctx.elicit("Choose", form)
    return f"Elicitation completed: action={reply.action}, content={reply.data}"


@tool(hints=READ)
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Ask for a name."""
    reply = (await ctx.ask(user_name=Elicit("What is your name?", Name)))["user_name"]
    return f"Hello, {reply.data.name if reply.accepted else 'stranger'}!"


@tool(hints=READ)
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Ask the client's model."""
    said = await ctx.ask(capital_question=Sample("What is the capital of France?", max_tokens=100))
    return str(said["capital_question"].text)


@tool(hints=READ)
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Ask where the client works."""
    roots = (await ctx.ask(client_roots=Roots()))["client_roots"]
    return "\n".join(root.uri for root in roots)


@tool(hints=READ)
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask for a confirmation."""
    await ctx.ask(confirm=Elicit("Please confirm", Confirmation))
    return "state-ok"


@tool(hints=READ)
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Ask for a confirmation that a caller could try to forge."""
    await ctx.ask(confirm=Elicit("Please confirm", Confirmation))
    return "state-ok"


@tool(hints=READ)
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask three things at once."""
    said = await ctx.ask(
        user_name=Elicit("What is your name?", Name),
        greeting=Sample("Generate a greeting", max_tokens=50),
        client_roots=Roots(),
    )
    return f"{said['greeting'].text} {said['user_name'].data.name}, {len(said['client_roots'])} roots"


@tool(hints=READ)
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask one thing after the other."""
    name = (await ctx.ask(step1=Elicit("Step 1: What is your name?", Name)))["step1"].data.name
    color = (await ctx.ask(step2=Elicit("Step 2: What is your favorite color?", Color)))["step2"].data.color
    return f"{name} likes {color}"


@tool(hints=READ)
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask the client, if it can be asked."""
    if ctx.can_ask(Elicit):
        return f"Hello, {(await ctx.elicit('What is your name?', Name)).data}"
    return (await ctx.sample("Say hello")).text


# ---- the list


@tool(hints=READ)
def test_x_mcp_header(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
    priority: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Priority"})] = 1,
    verbose: Annotated[bool, Field(json_schema_extra={"x-mcp-header": "Verbose"})] = False,
    note: str = "",
) -> dict[str, str]:
    """Take some of its parameters from headers as well."""
    return {"region": region, "priority": str(priority), "verbose": str(verbose), "note": note}


@tool
def test_trigger_tool_change() -> str:
    """Switch a tool off or on, as an operator would."""
    from tools_app.models import ToolRecord

    record = ToolRecord.objects.get(name="calculate")
    ToolRecord.objects.filter(name="calculate").update(enabled=not record.enabled)
    return "changed"
