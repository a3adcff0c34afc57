"""Saved views of the list of calls: a name for a search and its filters, for oneself or for everyone."""

from __future__ import annotations

from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet
from django.utils import timezone

from tools_app.access import actions
from tools_app.governance.actors import Actor, changing
from tools_app.models import SavedView
from tools_app.sdk.errors import AuthorizationError, NotFoundError, Problem, ValidationError
from tools_app.text import hygiene, redaction

MOST_OWN: Final = 50
MOST_SHARED: Final = 100


def visible_views(user: Any) -> QuerySet[SavedView]:
    """A person's own, and those that are shared."""
    return SavedView.objects.filter(Q(owner=user.pk) | Q(is_shared=True)).select_related("owner")


def save_view(name: str, query: str, *, shared: bool, actor: Actor) -> SavedView:
    """Save the query of a list under a name.

    Raises:
        AuthorizationError
        ValidationError: the name or query is empty, too long or taken, or there are too many views.
    """
    with changing(actions.VIEW_SAVE, actor) as change:
        owner = _person(actor)
        own = SavedView.objects.filter(owner=owner)
        name = _free_name(name, own)
        if not query or len(query) > SavedView.MOST_OF_QUERY:
            told = f"A view has a search or a filter, and at most {SavedView.MOST_OF_QUERY:,} characters of them"
            raise ValidationError(problems=[Problem("/query", told)])
        if own.count() >= MOST_OWN:
            raise ValidationError(f"You have {MOST_OWN} saved views", next_step="Delete one that you no longer need.")
        if shared:
            _require_sharing(actor)
        view = SavedView.objects.create(
            name=name, owner=owner, query=query, is_shared=shared, created_at=timezone.now()
        )
        change.note(f"view:{view.pk}", _difference(None, view))
    return view


def change_view(pk: int, *, name: str, shared: bool, actor: Actor) -> SavedView:
    """Rename a view of one's own, share it, or take it back.

    Raises:
        AuthorizationError
        NotFoundError: the person has no such view.
        ValidationError: the name is empty, too long or taken, or too many views are shared.
    """
    with changing(actions.VIEW_CHANGE, actor) as change:
        own = SavedView.objects.filter(owner=_person(actor))
        view = own.select_for_update().filter(pk=pk).first()
        if view is None:
            raise NotFoundError("You have no such saved view")
        before = SavedView(name=view.name, is_shared=view.is_shared, query=view.query)
        view.name = _free_name(name, own.exclude(pk=pk))
        if shared and not view.is_shared:
            _require_sharing(actor)
        elif shared and view.name != before.name:
            # It is on the page of every user.
            actor.require(actions.VIEW_SHARE)
        view.is_shared = shared
        if changes := _difference(before, view):
            view.save(update_fields=["name", "is_shared"])
            change.note(f"view:{pk}", changes)
    return view


def delete_view(pk: int, *, actor: Actor) -> str:
    """Delete a view of one's own; an administrator also one that is shared. Returns its name.

    Raises:
        AuthorizationError
        NotFoundError: there is no such view, or it is not theirs.
    """
    with changing(actions.VIEW_DELETE, actor) as change:
        mine = Q(owner=_person(actor))
        if actor.principal is not None and actions.VIEW_DELETE_ANY.permits(actor.principal):
            mine |= Q(is_shared=True)
        view = SavedView.objects.select_for_update().filter(mine, pk=pk).first()
        if view is None:
            raise NotFoundError("You have no such saved view")
        view.delete()
        change.note(f"view:{pk}", {"name": [view.name, None]})
    return view.name


def _person(actor: Actor) -> Any:
    if not isinstance(actor.principal, get_user_model()):
        raise AuthorizationError("Views are saved by people", next_step="Sign in to the admin.")
    return actor.principal


def _require_sharing(actor: Actor) -> None:
    actor.require(actions.VIEW_SHARE)
    if SavedView.objects.filter(is_shared=True).count() >= MOST_SHARED:
        raise ValidationError(f"{MOST_SHARED} views are shared", next_step="Delete one, or save this view unshared.")


def _free_name(name: str, others: QuerySet[SavedView]) -> str:
    name = " ".join(hygiene.cleaned(name).split())
    if not name or len(name) > SavedView.MOST_OF_NAME:
        raise ValidationError(problems=[Problem("/name", f"A name has 1 to {SavedView.MOST_OF_NAME} characters")])
    if others.filter(name=name).exists():
        raise ValidationError(problems=[Problem("/name", f"You have another view with the name {name!r}")])
    return name


def _difference(before: SavedView | None, after: SavedView) -> dict[str, Any]:
    """For the audit trail. What a private view searches for is not in it."""
    values = {"name": after.name, "shared": after.is_shared, "query": _told(after)}
    old = {"name": None, "shared": None, "query": None}
    if before is not None:
        old = {"name": before.name, "shared": before.is_shared, "query": _told(before)}  # type: ignore[dict-item]
    return {key: [old[key], value] for key, value in values.items() if old[key] != value}


def _told(view: SavedView) -> str | None:
    return redaction.redacted_query(view.query) if view.is_shared else None
