"""Django's `flush`, which Django's tests call between two tests, without what makes it slow.

It would also delete what every `migrate` makes – content types, permissions, roles – and make it anew, which takes
twenty times as long as all the rest. Here that is left alone, unless a test has changed it.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management.commands import flush
from django.db import connection, transaction

MADE_BY_MIGRATE = {
    *(model._meta.db_table for model in (Group, Permission, ContentType, Group.permissions.through)),
    "django_migrations",
    "tools_app_revision",  # It only ever grows.
}
_made: list[tuple[Any, ...]] | None = None
_tables: list[str] = []


class Command(flush.Command):
    def handle(self, **options: Any) -> None:
        global _made
        if _made is None or _made != made():
            super().handle(**options)
            _made = made()
            return
        _tables[:] = _tables or sorted(set(connection.introspection.django_table_names()) - MADE_BY_MIGRATE)
        with transaction.atomic(), connection.cursor() as cursor:
            for table in _tables:
                cursor.execute(f'DELETE FROM "{table}"')  # noqa: S608


def made() -> list[tuple[Any, ...]]:
    """What `migrate` makes, as far as a test may have changed it."""
    grants = Group.permissions.through.objects.order_by("group_id", "permission_id")
    return [
        *Group.objects.order_by("pk").values_list("pk", "name"),
        *grants.values_list("group_id", "permission_id"),
        (Permission.objects.count(), ContentType.objects.count()),
    ]
