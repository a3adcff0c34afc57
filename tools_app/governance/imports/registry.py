"""`server.json` of the MCP registry: the hub itself derives the command, or takes the URL of a remote server.

The result has the shape of an entry of a client, with a placeholder for each value that is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tools_app.governance.imports.values import Question, RefusalError
from tools_app.sdk.errors import shortened

MOST_INPUTS: Final = 100
_CURLY: Final = re.compile(r"\{([A-Za-z0-9_.-]{1,128})\}")
_NPM: Final = re.compile(r"(?:@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*")
_PYPI: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_IMAGE: Final = re.compile(
    r"[a-z0-9][a-zA-Z0-9./_-]*(?::[0-9]+/[a-zA-Z0-9./_-]+)?(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?"
)
# One version, not a range: what runs tomorrow is what was approved today.
_VERSION: Final = re.compile(r"[0-9][0-9A-Za-z.+_-]*")
_NAMED: Final = re.compile(r"--?[A-Za-z0-9][A-Za-z0-9_.-]*")
_TRANSPORTS: Final = ("streamable-http", "streamable", "http")
# The hub gives these itself.
_OWN_ARGUMENTS: Final = frozenset({"-y", "--yes", "-i", "--interactive", "--rm", "run"})
_ENVIRONMENT: Final = frozenset({"-e", "--env"})
_REGISTRIES: Final = {"npm": "npm", "pypi": "pypi", "oci": "oci", "docker": "oci"}


@dataclass
class RegistryEntry:
    """What a `server.json` becomes."""

    entry: dict[str, Any] = field(default_factory=dict)
    questions: dict[str, Question] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def entry_of(server: Mapping[str, Any]) -> RegistryEntry:
    """A remote server is preferred, since nothing of it runs on this machine.

    Raises:
        RefusalError
    """
    packages = [_camel(one) for one in _objects(server.get("packages"))]
    remotes = [_camel(one) for one in _objects(server.get("remotes"))]
    usable = [one for one in packages if _transport(one) in ("", "stdio")]
    made = RegistryEntry()
    remote = next((one for one in remotes if _transport(one) in _TRANSPORTS), None)
    if remote is not None:
        _remote(remote, made)
        if usable:
            made.notes.append("it is also a package, which can be added as a command instead")
        return made
    refusals = []
    for package in usable:
        try:
            attempt = RegistryEntry()
            _package(package, attempt)
        except RefusalError as error:
            refusals.append(str(error))
        else:
            return attempt
    raise RefusalError("; ".join(dict.fromkeys(refusals)) or "it has neither a package over stdio nor a remote URL")


def _remote(remote: Mapping[str, Any], made: RegistryEntry) -> None:
    url = _text(remote.get("url"), "url")
    variables = remote.get("variables") if isinstance(remote.get("variables"), dict) else {}
    made.entry = {"type": "http", "url": _with_placeholders(url, variables or {}, made)}
    if headers := dict(_inputs(remote.get("headers"), made)):
        made.entry["headers"] = headers


def _package(package: Mapping[str, Any], made: RegistryEntry) -> None:
    kind = package.get("registryType", package.get("registryName"))
    if kind not in _REGISTRIES:
        raise RefusalError(f"the hub derives no command for packages of the type {shortened(str(kind), 40)}")
    kind = _REGISTRIES[kind]
    identifier = _text(package.get("identifier", package.get("name")), "identifier")
    version = package.get("version") or ""
    if package.get("registryBaseUrl") and not _is_default_registry(str(package["registryBaseUrl"])):
        raise RefusalError("it is in a package registry of its own, which the hub does not use")
    variables = dict(_inputs(package.get("environmentVariables"), made))
    variables |= _runtime_variables(package, made)
    arguments = list(_arguments(package.get("packageArguments"), made))
    made.entry = {"command": "", "args": [], **({"env": variables} if variables else {})}
    if kind == "oci":
        image = identifier if not version or _is_tagged(identifier) else f"{identifier}:{version}"
        if not _IMAGE.fullmatch(image) or not _is_tagged(image) or image.endswith(":latest"):
            raise RefusalError("its image has no version")
        passed = [word for name in variables for word in ("-e", name)]
        made.entry |= {"command": "docker", "args": ["run", "--rm", "-i", *passed, image, *arguments]}
        return
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise RefusalError("its package has no single version")
    pattern = _NPM if kind == "npm" else _PYPI
    if not pattern.fullmatch(identifier):
        raise RefusalError("the name of its package is not valid")
    if kind == "npm":
        made.entry |= {"command": "npx", "args": ["-y", f"{identifier}@{version}", *arguments]}
    else:
        made.entry |= {"command": "uvx", "args": [f"{identifier}=={version}", *arguments]}
    if package.get("fileSha256"):
        made.notes.append("the hub does not check the hash of the package, which the runner installs")


def _runtime_variables(package: Mapping[str, Any], made: RegistryEntry) -> dict[str, str]:
    """Variables that are given as options of `docker run`. Other options of the runner are the operator's decision."""
    variables = {}
    for argument in _objects(package.get("runtimeArguments")):
        name, value = argument.get("name"), argument.get("value")
        if (name or value) in _OWN_ARGUMENTS:
            continue
        if name not in _ENVIRONMENT or not isinstance(value, str):
            words = shortened(str(name or value or argument.get("valueHint")), 40)
            raise RefusalError(f"it asks for the option {words} of its runner: add it with `toolhub source add`")
        variable, _, text = value.partition("=")
        nested = argument.get("variables") if isinstance(argument.get("variables"), dict) else {}
        if text:
            variables[variable] = _with_placeholders(text, nested or {}, made)
        else:
            variables[variable] = _asked(Question(variable, is_secret=True), made)
    return variables


def _inputs(items: Any, made: RegistryEntry) -> Iterator[tuple[str, str]]:
    """Variables or headers by name, each with its text or a placeholder."""
    for item in _objects(items):
        name = _text(item.get("name"), "name")
        if (text := _value(name, item, made)) is not None:
            yield name, text


def _arguments(items: Any, made: RegistryEntry) -> Iterator[str]:
    for item in _objects(items):
        name = item.get("name")
        is_named = item.get("type") == "named"
        label = _text(name if is_named else item.get("valueHint") or item.get("value") or name, "argument")
        if is_named and not _NAMED.fullmatch(label):
            raise RefusalError("the name of one of its options is not valid")
        text = _value(label, item, made)
        if text is not None:
            yield from ([label, text] if is_named else [text])
        elif is_named and item.get("format") == "boolean" and item.get("isRequired"):
            yield label


def _value(name: str, item: Mapping[str, Any], made: RegistryEntry) -> str | None:
    """The text of an input; None if it is left out: optional, and without a value."""
    nested = item.get("variables") if isinstance(item.get("variables"), dict) else {}
    if isinstance(value := item.get("value"), str) and value:
        return _with_placeholders(value, nested or {}, made)
    default = item.get("default")
    if default in (None, "") and item.get("isRequired") is not True:
        return None
    return _asked(_question(name, item), made)


def _with_placeholders(text: str, variables: Mapping[str, Any], made: RegistryEntry) -> str:
    """The text with `{curly}` variables as placeholders of questions."""
    if "${" in text:
        raise RefusalError("one of its values contains `${`")

    def replaced(match: re.Match[str]) -> str:
        item = variables.get(match[1])
        if not isinstance(item, dict):
            return match[0]
        item = _camel(item)
        if isinstance(value := item.get("value"), str) and "${" not in value:
            return value
        return _asked(_question(match[1], item), made)

    return _CURLY.sub(replaced, text)


def _question(name: str, item: Mapping[str, Any]) -> Question:
    default, choices = item.get("default"), item.get("choices")
    if isinstance(default, bool):
        default = "true" if default else "false"
    return Question(
        name,
        shortened(str(item.get("description") or ""), 200),
        is_secret=item.get("isSecret") is True,
        default=str(default) if isinstance(default, str | int | float) and default != "" else None,
        choices=tuple(choice for choice in choices if isinstance(choice, str)) if isinstance(choices, list) else (),
    )


def _asked(question: Question, made: RegistryEntry) -> str:
    if "}" in question.name or len(question.name) > 128 or "${" in (question.default or ""):
        raise RefusalError("the name or default of one of its inputs is not valid")
    made.questions[question.name] = question
    return f"${{input:{question.name}}}"


def _transport(item: Mapping[str, Any]) -> str:
    kind = item.get("transport", item) if isinstance(item.get("transport", item), dict) else {}
    value = kind.get("type", kind.get("transportType"))
    return value if isinstance(value, str) else ""


def _is_default_registry(url: str) -> bool:
    host = re.sub(r"\Ahttps?://", "", url).partition("/")[0].lower()
    return host.removeprefix("registry.").removeprefix("www.") in {"npmjs.org", "npmjs.com", "pypi.org", "docker.io"}


def _is_tagged(image: str) -> bool:
    return "@sha256:" in image or ":" in image.rpartition("/")[2]


def _objects(items: Any) -> list[dict[str, Any]]:
    """Raises: RefusalError."""
    if items is None:
        return []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise RefusalError("it is not built as the registry's format says")
    if len(items) > MOST_INPUTS:
        raise RefusalError(f"one of its lists has more than {MOST_INPUTS} items")
    return [_camel(item) for item in items]


def _camel(item: Mapping[str, Any]) -> dict[str, Any]:
    """Files before September 2025 have snake_case names."""
    return {re.sub(r"_([a-z])", lambda match: match[1].upper(), key): value for key, value in item.items()}


def _text(value: Any, part: str) -> str:
    if not isinstance(value, str) or not value or len(value) > 2_000 or not value.isprintable():
        raise RefusalError(f"its {part} is not a text")
    return value
