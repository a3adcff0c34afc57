"""The language that people are spoken to in: pages have one, and what programs read has none."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.utils import translation

PAGES = "/admin/"


class PagesInTheirLanguage(LocaleMiddleware):
    """As Django does it for the admin; programs compare what they are told, and are told it in English."""

    def process_request(self, request: HttpRequest) -> None:
        if request.path_info.startswith(PAGES):
            super().process_request(request)
        else:
            translation.activate("en")

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        return super().process_response(request, response) if request.path_info.startswith(PAGES) else response
