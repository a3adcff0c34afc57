"""What the project does with the hub; prints the last line when all of it worked."""

from __future__ import annotations

import json
import re
from typing import Any

import django

django.setup()

from django.contrib.auth import get_user_model  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402

from tools_app import governance  # noqa: E402
from tools_app.models import Call, ToolRecord  # noqa: E402

call_command("migrate", run_syncdb=True, verbosity=0)
call_command("synctools")
_, key = governance.create_key("shop", actor=governance.trusted("test"))
user = get_user_model().objects.create_superuser(username="ann", email="ann@shop.test", password="x")


def called(name: str, **parameters: Any) -> Any:
    return Client(raise_request_exception=False).post(
        "/v1/tools/call",
        json.dumps({"name": name, "parameters": {"customer": "ann@shop.test", **parameters}}),
        content_type="application/json",
        headers={"authorization": f"Bearer {key}"},
    )


assert called("place_order", total=5).status_code == 200
assert called("place_order", total=-5).status_code == 500
# The order of the call that failed went with its transaction, and the call itself is on record.
assert called("count_orders").json()["result"] == {"orders": 1}
assert list(Call.objects.order_by("started_at").values_list("status", flat=True)) == [
    "succeeded",
    "failed",
    "succeeded",
]

browser = Client()
browser.force_login(user)
tried = ToolRecord.objects.get(name="count_orders")
first = browser.get("/admin/").content.decode()
pages = sorted({link for link in re.findall(r'href="(/admin/[^"#?]+/)"', first) if "logout" not in link})
# The menu and the first page lead to the project's own pages and to the hub's.
assert {"/admin/shop/order/", "/admin/shop/customer/", "/admin/tools_app/toolrecord/", "/admin/tools_app/call/"} <= {
    *pages
}
for page in (
    *pages,
    f"/admin/tools_app/toolrecord/{tried.pk}/change/",
    "/admin/shop/order/add/",
    "/admin/shop/order/?q=ann",
):
    shown = browser.get(page)
    assert shown.status_code == 200, (page, shown.status_code)
    assert "The Shop" in shown.content.decode(), page
asked = {"mode": "fields", "action": "run", "argument-customer": "ann@shop.test"}
answered = browser.post(f"/admin/tools_app/toolrecord/{tried.pk}/try/", asked, follow=True)
assert "Succeeded" in answered.content.decode()
assert Call.objects.filter(door="admin", status="succeeded").count() == 1
call_command("calltool", "echo", '{"message": "hi"}')
print("all of it worked")
