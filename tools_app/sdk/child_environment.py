"""Which environment variables child processes inherit, and which none may be given. Pure: no input or output.

A user who sets a connection must not thereby choose a command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

# Of the hub's own environment, nothing else reaches a child.
_INHERITED: Final = re.compile(
    "HOME|LOGNAME|PATH|SHELL|TERM|USER|LANG|LC_[A-Z]+|TZ|TMPDIR|SSL_CERT_FILE|SSL_CERT_DIR|NODE_EXTRA_CA_CERTS"
    "|HTTPS?_PROXY|NO_PROXY|https?_proxy|no_proxy"
)
# Variables with which one decides what a program executes. In upper case.
_REFUSED: Final = re.compile(
    "LD_.*|DYLD_.*|GLIBC_TUNABLES|GCONV_PATH|NLSPATH|LOCPATH|MALLOC_.*|NIX_.*"  # linker and C library
    "|NODE_OPTIONS|NODE_PATH|NODE_REPL_EXTERNAL_MODULE|BUN_.*|DENO_.*|PYTHON.*|PERL.*|RUBY.*|LUA_.*"  # interpreters
    "|PHP_INI_SCAN_DIR|PHPRC|(?:JAVA_TOOL|JDK_JAVA|_JAVA)_OPTIONS|JAVA_OPTIONS|CLASSPATH|DOTNET_.*|COMPLUS_.*"
    "|CORECLR_.*|COR_.*|ERL_.*FLAGS|R_PROFILE.*|R_ENVIRON.*|JULIA_.*"
    # Package managers, which can be told to download from elsewhere.
    "|NPM_CONFIG_.*|PNPM_.*|YARN_.*|PIP_.*|PIPX_.*|UV_.*|CARGO_.*|GEM_.*|BUNDLE_.*"
    "|ENV|BASH_.*|SHELLOPTS|BASHOPTS|CDPATH|IFS|PS4|PROMPT_COMMAND|ZDOTDIR|FPATH"  # shells
    "|GIT_.*|SSH_ASKPASS|SUDO_ASKPASS|EDITOR|VISUAL|PAGER|BROWSER|LESSOPEN|LESSCLOSE"  # programs that others start
    "|OPENSSL_(?:CONF|MODULES|ENGINES)|SSLKEYLOGFILE|QT_PLUGIN_PATH|GTK_.*MODULES?|GIO_.*MODULES?"
    "|PATH|PATHEXT|HOME|SHELL|XDG_CONFIG_HOME",
    re.DOTALL,
)
_HARMLESS: Final = re.compile(
    "GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL)|GIT_TOKEN|PYTHON(?:HASHSEED|IOENCODING|UNBUFFERED|UTF8)"
    "|(?:NPM_CONFIG_CACHE|PIP_CACHE_DIR|UV_CACHE_DIR)"
)
_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]{0,127}")


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of this process that its child processes have too."""
    return {name: value for name, value in environment.items() if _INHERITED.fullmatch(name)}


def refusal_of(name: str) -> str:
    """Why a child process does not get a variable of this name; empty if it does."""
    if not _NAME.fullmatch(name):
        return "a variable is named with letters, digits and underscores, and does not begin with a digit"
    # npm also reads its variables in lower case.
    upper = name.upper()
    if upper.startswith("TOOLHUB_"):
        return "variables of the hub are not for child processes"
    if _REFUSED.fullmatch(upper) and not _HARMLESS.fullmatch(upper):
        return "it can make a program run other code; such options belong to the command of the source"
    return ""


def refused_variables(names: Iterable[str]) -> list[str]:
    """Those names that no connection may set: not the name of a variable, or one that decides what is executed."""
    return sorted(name for name in names if refusal_of(name))
