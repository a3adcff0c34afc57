"""The product's settings, with a key for every request."""

from toolhub.settings import *

ASGI_APPLICATION = "tests.clients.conformance.asgi.application"
