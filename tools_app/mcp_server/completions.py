"""Completion of prompt arguments and resource template variables while a user types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CompleteRequestParams, PromptReference

from tools_app import engine
from tools_app.access import actions
from tools_app.catalog import catalog, offers
from tools_app.catalog.entry import Entry
from tools_app.catalog.snapshot import Snapshot
from tools_app.mcp_server import own, prompts
from tools_app.mcp_server.beyond import Requester
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import AuthorizationError, RateLimitError, ToolError, shortened
from tools_app.sdk.offered import choices
from tools_app.sdk.spec import Kind
from tools_app.sdk.uris import UriTemplate

MOST_VALUES: Final = 100
MOST_CONSIDERED: Final = 10_000
MOST_TYPED_TEXT: Final = 1_000
# A user is typing and will not wait longer.
PATIENCE_MS: Final = 3_000


async def complete(requester: Requester, params: CompleteRequestParams) -> Any:
    caller = requester.caller
    actions.TOOLS_LIST.require(caller)
    view = (await catalog.fresh()).seen_by(caller)
    argument, typed_text = params.argument.name, params.argument.value
    other_arguments = (params.context.arguments if params.context is not None else None) or {}
    if len(typed_text) > MOST_TYPED_TEXT:
        values: Iterable[str] = ()
    elif isinstance(params.ref, PromptReference):
        prompt = prompts.find(params.ref.name, view, requester)
        values = await _values(prompt, argument, typed_text, other_arguments, view, caller)
    else:
        values = await _of_template(params.ref.uri, argument, typed_text, other_arguments, view, caller)
    matches = _matches(values, typed_text)
    completion = {"values": matches[:MOST_VALUES], "total": len(matches), "hasMore": len(matches) > MOST_VALUES}
    return {"completion": completion, "resultType": "complete"}


async def _of_template(
    uri: str, argument: str, typed_text: str, other_arguments: Mapping[str, str], view: Snapshot, caller: Caller
) -> Iterable[str]:
    for one in own.ALL:
        if one.uri == uri:
            if argument not in one.template.variables:
                raise _unknown_argument(argument, one.template.variables)
            return await one.complete(view, caller) if one.complete is not None else ()
    template = offers.of(view).templates.get(uri)
    if template is None:
        raise MCPError(INVALID_PARAMS, f"Unknown resource template: {shortened(uri)}")
    return await _values(template, argument, typed_text, other_arguments, view, caller)


async def _values(
    offer: Entry, argument: str, typed_text: str, other_arguments: Mapping[str, str], view: Snapshot, caller: Caller
) -> Iterable[str]:
    properties = offer.spec.input_schema["properties"]
    if argument not in properties:
        raise _unknown_argument(argument, properties)
    values: list[str] = choices(properties[argument])
    if values:
        return values
    source = offer.spec.completions.get(argument)
    if source is None:
        return ()
    if isinstance(source, str):
        return await _like(source, argument, typed_text, other_arguments, view, caller)
    entry = offer.completion(argument)
    available = {"value": typed_text, "arguments": dict(other_arguments)}
    arguments = {name: value for name, value in available.items() if name in source["properties"]}
    timeout_ms = min(PATIENCE_MS, entry.policy.timeout_ms)
    try:
        options = engine.Options(timeout_ms=timeout_ms)
        result = await engine.call(entry.spec.key, arguments, caller, door="mcp", options=options, kind=Kind.COMPLETION)
    except (AuthorizationError, RateLimitError):
        raise
    except ToolError:
        return ()  # The error is in the log; the user can type without completion.
    value = result.answer.value
    return [str(one) for one in value] if isinstance(value, list) else ()


async def _like(
    template: str, argument: str, typed_text: str, other_arguments: Mapping[str, str], view: Snapshot, caller: Caller
) -> Iterable[str]:
    """Complete like a variable of `template`: the one of the same name, or the only one."""
    own_resource = next((one for one in own.ALL if one.uri == template), None)
    pack_resource = offers.of(view).templates.get(template)
    if own_resource is not None:
        uri_template = own_resource.template
    elif pack_resource is not None:
        uri_template = UriTemplate(pack_resource.spec.shown_key)
    else:
        return ()
    names = uri_template.variables if len(uri_template.variables) == 1 else (argument,)
    return (
        await _of_template(template, names[0], typed_text, other_arguments, view, caller)
        if names[0] in uri_template.variables
        else ()
    )


def _matches(values: Iterable[str], typed_text: str) -> list[str]:
    """The values that contain `typed`, those that start with it first."""
    needle = typed_text.casefold()
    prefix_matches: list[str] = []
    other_matches: list[str] = []
    for number, value in enumerate(dict.fromkeys(values)):
        if number >= MOST_CONSIDERED:
            break
        folded_value = value.casefold()
        if needle in folded_value:
            (prefix_matches if folded_value.startswith(needle) else other_matches).append(value)
    return [*prefix_matches, *other_matches]


def _unknown_argument(argument: str, names: Iterable[str]) -> MCPError:
    return MCPError(
        INVALID_PARAMS, f"Unknown argument: {shortened(argument)}; known arguments: {', '.join(names) or 'none'}"
    )
