"""A Django project that has ToolHub's app installed beside its own: its users, its transactions, its admin."""

from __future__ import annotations

import os
from pathlib import Path

import toolhub


def templates() -> Path:
    """Of the hub: in the package, or beside it in a checkout."""
    package = Path(toolhub.__file__).parent
    return next(folder for folder in (package / "templates", package.parent / "templates") if folder.exists())


# What a test leaves out, to see what is said then.
WITHOUT = os.environ.get("SHOP_WITHOUT", "")
SECRET_KEY = "a-key-for-a-project-of-tests-that-nobody-else-uses-0123456789"
DEBUG = False
ALLOWED_HOSTS = ["testserver"]
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["SHOP_DATABASE"],
        "ATOMIC_REQUESTS": True,
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
}
INSTALLED_APPS = [
    *(["unfold"] if WITHOUT != "unfold" else []),
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "tests.embedding.shop",
    "tools_app",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        # The project's own come first; then the hub's pages, and the theme that they build on.
        "DIRS": [Path(__file__).parent / "templates", *([templates()] if WITHOUT != "templates" else [])],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
AUTH_USER_MODEL = "shop.Customer"
ROOT_URLCONF = "tests.embedding.urls"
STATIC_URL = "/static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TOOLHUB_PACKS = ("tools_app.packs.builtin",)
