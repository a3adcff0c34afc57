"""People at the admin of a running hub, without a browser."""

from __future__ import annotations

import httpx

PASSWORD = "a long password of a test"


def creation(*users: tuple[str, str]) -> str:
    """The program for `shell -c` that creates users with roles."""
    rows = [
        f'u = User.objects.create_user("{name}", password="{PASSWORD}", is_staff=True); '
        f'u.groups.add(Group.objects.get(name="{role}"))'
        for name, role in users
    ]
    return "\n".join(["from django.contrib.auth.models import Group, User", *rows])


def sign_in(client: httpx.Client, user: str) -> None:
    client.get("/admin/login/")
    form = {"username": user, "password": PASSWORD, "csrfmiddlewaretoken": client.cookies["toolhub_csrf"]}
    answer = client.post("/admin/login/?next=/admin/", data=form)
    assert answer.status_code == 302, answer.text[:200]
