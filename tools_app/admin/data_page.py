"""What the hub stores, and how much room its disks have. Nothing can be changed here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import filesizeformat
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from tools_app.access import actions
from tools_app.admin.governed import require
from tools_app.journal import disk

if TYPE_CHECKING:
    from tools_app.setup.inventory import HoldingInForce


@dataclass(frozen=True, slots=True)
class Row:
    one: HoldingInForce
    what: str
    kept: str
    protection: str
    removed_by: str
    is_plain: bool


@dataclass(frozen=True, slots=True)
class Disk:
    volume: disk.Volume
    forecast: str


def view(site: AdminSite) -> Callable[[HttpRequest], HttpResponse]:
    @require_safe
    def data_view(request: HttpRequest) -> HttpResponse:
        require(request, actions.DATA_READ)
        context = {
            **site.each_context(request),
            "title": _("Data"),
            "rows": list(_rows()),
            "disks": [Disk(volume, _forecast(volume)) for volume in disk.volumes(timezone.now())],
        }
        return TemplateResponse(request, "admin/tools_app/data.html", context)

    return site.admin_view(data_view)


def _rows() -> Iterator[Row]:
    # Imported late: every process loads the admin, and few show this page.
    from tools_app.setup import inventory

    for one in inventory.holdings():
        about = one.holding
        words = _(about.what), _(one.kept) if one.kept else "", _(about.protection), _(about.removed_by)
        yield Row(one, *words, is_plain=about.protection == inventory.PLAIN)


def _forecast(volume: disk.Volume) -> str:
    """When it will be full, in words."""
    if volume.free is None:
        return _("The room of the database server is not known to the hub.")
    if volume.growth is None:
        number = disk.FEWEST_DAYS
        words = ngettext("A forecast needs %(n)s day.", "A forecast needs %(n)s days.", number)
        return words % {"n": number}
    if volume.days_left is None:
        return _("It did not grow within the last %(n)s days.") % {"n": disk.WINDOW.days}
    values = {"left": f"{volume.days_left:,}", "n": disk.WINDOW.days, "growth": filesizeformat(volume.growth)}
    return _("Full in about %(left)s days at the growth of the last %(n)s days (%(growth)s a day).") % values
