"""Django's debug page (`DEBUG=1`) in the admin, with secrets masked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.views.debug import ExceptionReporter
from typing_extensions import override

from tools_app.text.redaction import MASK, is_secret, redacted_text


class Report(ExceptionReporter):
    """Masks variables, forms, URLs and exception messages; Django itself masks settings and headers."""

    @override
    def get_traceback_data(self) -> dict[str, Any]:
        data: dict[str, Any] = super().get_traceback_data()
        for frame in data["frames"]:
            frame["vars"] = _masked(frame.get("vars", ()))
            if frame["exc_cause"] is not None:
                frame["exc_cause"] = redacted_text(str(frame["exc_cause"]))
        for part in ("filtered_POST_items", "request_GET_items"):
            data[part] = _masked(data.get(part, ()))
        data["request_meta"] = dict(_masked(data["request_meta"].items()))
        for part in ("exception_value", "exception_notes", "request_insecure_uri"):
            if part in data:
                data[part] = redacted_text(data[part])
        return data


def _masked(named: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [
        (name, MASK if is_secret(name) else redacted_text(value) if isinstance(value, str) else value)
        for name, value in named
    ]
