"""Regions of results: a country and a language. Each engine has names of its own for some."""

from __future__ import annotations

from typing import Final

# Regions by the codes of ISO, and what DuckDuckGo calls them.
_OF_DUCKDUCKGO: Final = {
    "es-ca": "ct-ca",
    "gb-en": "uk-en",
    "hk-zh": "hk-tzh",
    "jp-ja": "jp-jp",
    "kr-ko": "kr-kr",
    "si-sl": "sl-sl",
    "tw-zh": "tw-tzh",
    "us-es": "ue-es",
}
_BY_ISO: Final = {theirs: region for region, theirs in _OF_DUCKDUCKGO.items()}
# DuckDuckGo ignores any other. https://duckduckgo.com/duckduckgo-help-pages/settings/params
_KNOWN_TO_DUCKDUCKGO: Final = frozenset(
    {
        *("ar-es", "at-de", "au-en", "be-fr", "be-nl", "bg-bg", "br-pt", "ca-en", "ca-fr", "ch-de", "ch-fr", "ch-it"),
        *("cl-es", "cn-zh", "co-es", "ct-ca", "cz-cs", "de-de", "dk-da", "ee-et", "es-es", "fi-fi", "fr-fr", "gr-el"),
        *("hk-tzh", "hr-hr", "hu-hu", "id-en", "id-id", "ie-en", "il-he", "in-en", "it-it", "jp-jp", "kr-kr", "lt-lt"),
        *("lv-lv", "mx-es", "my-en", "my-ms", "nl-nl", "no-no", "nz-en", "pe-es", "ph-en", "ph-tl", "pl-pl", "pt-pt"),
        *("ro-ro", "ru-ru", "se-sv", "sg-en", "sk-sk", "sl-sl", "th-th", "tr-tr", "tw-tzh", "ua-uk", "ue-es", "uk-en"),
        *("us-en", "ve-es", "vn-vi", "wt-wt", "xa-ar", "xa-en", "xl-es", "za-en"),
    }
)


def for_duckduckgo(region: str) -> str:
    """Its code for a region: the same, if it has no other."""
    return _OF_DUCKDUCKGO.get(region, region)


def duckduckgo_has(region: str) -> bool:
    return for_duckduckgo(region) in _KNOWN_TO_DUCKDUCKGO


def of_country(region: str) -> str:
    """What DuckDuckGo has for the country of a region, for a refusal."""
    country = region.partition("-")[0]
    known = sorted(_BY_ISO.get(code, code) for code in _KNOWN_TO_DUCKDUCKGO)
    return ", ".join(code for code in known if code.startswith(f"{country}-"))


def language(region: str) -> str | None:
    """The region `at-de` (Austria, German) as the language `de-AT`; None for worldwide."""
    country, _, tongue = _BY_ISO.get(region, region).partition("-")
    if not region or country == "wt":
        return None
    return f"{tongue}-{country.upper()}"
