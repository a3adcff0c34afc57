"""Translate the pages of the admin; answers for programs are always in English."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.utils import translation

PAGES = "/admin/"


class PagesInTheirLanguage(LocaleMiddleware):
    """Django's LocaleMiddleware for the admin only: programs compare texts, and get English."""

    def process_request(self, request: HttpRequest) -> None:
        if request.path_info.startswith(PAGES):
            super().process_request(request)
        else:
            translation.activate("en")

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        return super().process_response(request, response) if request.path_info.startswith(PAGES) else response
