"""The secrets of second factors are part of the rotation of encryption keys."""

from __future__ import annotations

from django.apps import AppConfig


class SecondFactorConfig(AppConfig):
    name = "toolhub.second_factor"

    def ready(self) -> None:
        from toolhub import signing_in
        from toolhub.second_factor import factors
        from tools_app.governance.connections import rotating

        signing_in.remove_pages_of_libraries()
        rotating.connect(factors.rotate, dispatch_uid=self.name)
