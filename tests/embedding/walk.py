"""What the project does with the hub; prints the last line when all of it worked."""

from __future__ import annotations

import json

import django

django.setup()

from django.contrib.auth import get_user_model  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402

from tools_app import governance  # noqa: E402

call_command("migrate", run_syncdb=True, verbosity=0)
call_command("synctools")
_, key = governance.create_key("shop", actor="test")
called = Client().post(
    "/v1/tools/call",
    json.dumps({"name": "count_orders", "parameters": {"customer": "ann"}}),
    content_type="application/json",
    headers={"authorization": f"Bearer {key}"},
)
assert called.status_code == 200, called.content
assert called.json()["result"] == {"orders": 3}
user = get_user_model().objects.create_superuser(username="ann", email="ann@shop.test", password="x")
browser = Client()
browser.force_login(user)
for page in ("", "tools_app/toolrecord/", "tools_app/call/", "tools_app/auditentry/"):
    shown = browser.get(f"/admin/{page}")
    assert shown.status_code == 200, (page, shown.status_code)
call_command("calltool", "echo", '{"message": "hi"}')
print("all of it worked")
