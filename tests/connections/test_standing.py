"""A standing approval leads to the address at which it was granted, and to no other."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.connections.conftest import called, caller
from tests.support.desk import Desk
from tools_app import governance
from tools_app.governance.standing import in_state, state_of
from tools_app.models import Approval, Connection, StandingApproval
from tools_app.sdk.hub_errors import ApprovalRequiredError

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("ann_and_bob")]
OLIVIA = governance.trusted("user:olivia")


def granted() -> StandingApproval:
    governance.set_ask("list_notes", True, actor=OLIVIA)
    with pytest.raises(ApprovalRequiredError):
        called("list_notes", by=caller("ann"))
    return governance.grant_standing(Approval.objects.get().pk, uses=9, lasts=timedelta(hours=1), actor=OLIVIA)


def state(standing: StandingApproval) -> str:
    now = timezone.now()
    found = StandingApproval.objects.get(pk=standing.pk)
    states = [one for one in StandingApproval.State if StandingApproval.objects.filter(in_state(one, now)).exists()]
    assert states == [state_of(found, now)]
    assert state_of(StandingApproval.objects.with_address().get(pk=standing.pk), now) == states[0]
    return str(states[0])


def test_it_is_void_while_its_connection_leads_elsewhere(desk: Desk) -> None:
    standing = granted()
    assert (standing.connection, standing.address, state(standing)) == ("ann", desk.url, "active")
    called("list_notes", by=caller("ann"))
    elsewhere = desk.url.replace("127.0.0.1", "localhost")
    governance.change_connection("ann", url=elsewhere, secret="key-of-ann-1", actor=OLIVIA)
    with pytest.raises(ApprovalRequiredError):
        called("list_notes", by=caller("ann"))
    assert state(standing) == "void"
    governance.change_connection("ann", url=desk.url, secret="key-of-ann-1", actor=OLIVIA)
    called("list_notes", by=caller("ann"))
    assert state(standing) == "active"


def test_one_of_an_earlier_version_covers_calls_as_before(desk: Desk) -> None:
    standing = granted()
    StandingApproval.objects.update(address="")
    called("list_notes", by=caller("ann"))
    assert state(standing) == "active"


def test_a_connection_that_was_deleted_and_made_anew_elsewhere_does_not_inherit_it(desk: Desk) -> None:
    standing = granted()
    Connection.objects.get(name="ann").delete()
    assert state(standing) == "void"
    elsewhere = desk.url.replace("127.0.0.1", "localhost")
    governance.create_connection("ann", "desk", url=elsewhere, secret="key-of-ann-1", actor=OLIVIA)
    with pytest.raises(ApprovalRequiredError):
        called("list_notes", by=caller("ann"))
