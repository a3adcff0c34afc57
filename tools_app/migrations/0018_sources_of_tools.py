"""Gives every tool its source. Processes of the previous release may add tools without one meanwhile: a sync adopts
those."""

from importlib.machinery import PathFinder
from typing import Any

from django.db import migrations, transaction
from django.db.models import Count, F

from tools_app import packs

BATCH = 500
# In the column of records → kind of the source.
KINDS = {"shipped": "shipped", "plugin": "plugin", "app": "app", "file": "folder", "code": "code"}


def adopt(apps: Any, schema_editor: Any) -> None:
    Source, SourceStatus, ToolRecord, Definition = (
        apps.get_model("tools_app", name) for name in ("Source", "SourceStatus", "ToolRecord", "Definition")
    )
    without = ToolRecord.objects.filter(source=None, source_kind__in=KINDS).order_by()
    for kind, pack in without.values_list("source_kind", "pack").distinct():
        name, location, epoch = _described(kind, pack)
        source, _ = Source.objects.get_or_create(
            name=name, defaults={"kind": KINDS[kind], "location": location, "epoch": epoch, "created_by": "upgrade"}
        )
        SourceStatus.objects.get_or_create(source=source)
        records = without.filter(source_kind=kind, pack=pack)
        _in_batches(records, source=source, original_name=F("name"))
    _in_batches(Definition.objects.filter(pin_hash="").exclude(hash="").order_by(), pin_hash=F("hash"))
    Revision = apps.get_model("tools_app", "Revision")
    Revision.objects.update(tools=F("value"), access=F("value"))


def _described(kind: str, pack: str) -> tuple[str, str, int]:
    """Name, location and epoch of the source of a record; epoch 0: its origin is not known."""
    if kind in ("file", "code"):
        return KINDS[kind], "", 1
    if kind in ("plugin", "app"):
        return kind, "", 0
    if pack.isidentifier() and PathFinder.find_spec(pack, packs.__path__) is not None:
        return pack, f"tools_app.packs.{pack}", 1
    return (f"shipped:{pack}" if pack in (*KINDS, "folder", "") else pack), "", 0


def _in_batches(rows: Any, **values: Any) -> None:
    """Update rows that no longer match the query afterwards."""
    while keys := list(rows.values_list("pk", flat=True)[:BATCH]):
        with transaction.atomic(using=rows.db):
            rows.filter(pk__in=keys).update(**values)


def forget(apps: Any, schema_editor: Any) -> None:
    """Delete what the previous release does not know: prompts and resources, and versions of other epochs."""
    ToolRecord, Definition = (apps.get_model("tools_app", name) for name in ("ToolRecord", "Definition"))
    others = ToolRecord.objects.exclude(kind="tool")
    ToolRecord.objects.filter(offered__isnull=False).update(offered=None)
    others.update(definition=None)
    others.delete()
    repeated = Definition.objects.order_by().values("tool", "hash").annotate(number=Count("pk")).filter(number__gt=1)
    for row in list(repeated):
        versions = Definition.objects.filter(tool=row["tool"], hash=row["hash"])
        current = versions.filter(current_for__isnull=False).first() or versions.latest("epoch")
        versions.exclude(pk=current.pk).delete()


class Migration(migrations.Migration):
    # Every batch is a transaction of its own. A second run continues where the first one stopped.
    atomic = False

    dependencies = [
        ("tools_app", "0017_identity_of_tools"),
    ]

    operations = [migrations.RunPython(adopt, forget)]
