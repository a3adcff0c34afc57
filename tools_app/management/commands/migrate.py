"""Django's `migrate`, all or nothing, with a backup of a SQLite database before it changes."""

from __future__ import annotations

from typing import Any

from django.core.management.commands.migrate import Command as Migrate

from tools_app.setup import installation


class Command(Migrate):
    def handle(self, *args: Any, **options: Any) -> None:
        only_looks = options["plan"] or options["check_unapplied"]
        if not only_looks and installation.schema() is installation.Schema.OLDER:
            copy = installation.copied()
            if copy is not None and options["verbosity"] > 0:
                self.stdout.write(f"Backup of the database: {copy}")
            with installation.all_or_nothing():
                super().handle(*args, **options)
            return
        super().handle(*args, **options)
