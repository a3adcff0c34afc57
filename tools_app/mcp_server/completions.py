"""Completion of prompt arguments and resource template variables while a user types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CompleteRequestParams, PromptReference

from tools_app import engine
from tools_app.access import access
from tools_app.catalog import catalog, offers
from tools_app.catalog.snapshot import Snapshot
from tools_app.mcp_server import own, prompts
from tools_app.mcp_server.beyond import Asking
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import AuthorizationError, RateLimitError, ToolError, shortened
from tools_app.sdk.offer import Offer

MOST_VALUES: Final = 100
MOST_CONSIDERED: Final = 10_000
MOST_TYPED: Final = 1_000
# A user is typing and will not wait longer.
PATIENCE_MS: Final = 3_000


async def complete(asking: Asking, params: CompleteRequestParams) -> Any:
    caller = asking.caller
    access.require(caller, "tools:list")
    view = (await catalog.fresh()).seen_by(caller)
    argument, typed = params.argument.name, params.argument.value
    other_arguments = (params.context.arguments if params.context is not None else None) or {}
    if len(typed) > MOST_TYPED:
        values: Iterable[str] = ()
    elif isinstance(params.ref, PromptReference):
        prompt = prompts.find(params.ref.name, view, asking)
        values = await _values(prompt, argument, typed, other_arguments, view, caller)
    else:
        values = await _of_template(params.ref.uri, argument, typed, other_arguments, view, caller)
    matches = _matching(values, typed)
    completion = {"values": matches[:MOST_VALUES], "total": len(matches), "hasMore": len(matches) > MOST_VALUES}
    return {"completion": completion, "resultType": "complete"}


async def _of_template(
    uri: str, argument: str, typed: str, other_arguments: Mapping[str, str], view: Snapshot, caller: Caller
) -> Iterable[str]:
    for one in own.ALL:
        if one.uri == uri:
            if argument not in one.template.variables:
                raise _unknown(argument, one.template.variables)
            return await one.complete(view, caller) if one.complete is not None else ()
    template = offers.of(view, caller.reach).template(uri)
    if template is None:
        raise MCPError(INVALID_PARAMS, f"Unknown resource template: {shortened(uri)}")
    return await _values(template, argument, typed, other_arguments, view, caller)


async def _values(
    offer: Offer, argument: str, typed: str, other_arguments: Mapping[str, str], view: Snapshot, caller: Caller
) -> Iterable[str]:
    if argument not in offer.properties:
        raise _unknown(argument, offer.properties)
    if choices := offer.choices(argument):
        return choices
    source = offer.completion(argument)
    if source is None:
        return ()
    if isinstance(source, str):
        return await _like(source, argument, typed, other_arguments, view, caller)
    entry = offers.entry(offer, view, source)
    available = {"value": typed, "arguments": dict(other_arguments)}
    arguments = {name: value for name, value in available.items() if name in source.input_schema["properties"]}
    timeout_ms = min(PATIENCE_MS, entry.policy.timeout_ms)
    try:
        options = engine.Options(timeout_ms=timeout_ms)
        result = await engine.call(
            entry.name, arguments, caller, door="mcp", options=options, offered=entry, quietly=True
        )
    except (AuthorizationError, RateLimitError):
        raise
    except ToolError:
        return ()  # The error is in the log; the user can type without completion.
    value = result.answer.value
    return [str(one) for one in value] if isinstance(value, list) else ()


async def _like(
    template: str, argument: str, typed: str, other_arguments: Mapping[str, str], view: Snapshot, caller: Caller
) -> Iterable[str]:
    """Complete like a variable of `template`: the one of the same name, or the only one."""
    own_resource = next((one for one in own.ALL if one.uri == template), None)
    pack_resource = offers.of(view, caller.reach).template(template)
    resource = own_resource or pack_resource
    parsed = resource.template if resource is not None else None
    if parsed is None:
        return ()
    names = parsed.variables if len(parsed.variables) == 1 else (argument,)
    return (
        await _of_template(template, names[0], typed, other_arguments, view, caller)
        if names[0] in parsed.variables
        else ()
    )


def _matching(values: Iterable[str], typed: str) -> list[str]:
    """The values that contain `typed`, those that start with it first."""
    needle = typed.casefold()
    prefix_matches: list[str] = []
    other_matches: list[str] = []
    for number, value in enumerate(dict.fromkeys(values)):
        if number >= MOST_CONSIDERED:
            break
        folded = value.casefold()
        if needle in folded:
            (prefix_matches if folded.startswith(needle) else other_matches).append(value)
    return [*prefix_matches, *other_matches]


def _unknown(argument: str, known: Iterable[str]) -> MCPError:
    return MCPError(
        INVALID_PARAMS, f"Unknown argument: {shortened(argument)}; known arguments: {', '.join(known) or 'none'}"
    )
