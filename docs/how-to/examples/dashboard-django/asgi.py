import os
from collections.abc import Callable
from importlib import import_module

from django.conf import settings
from django.contrib.auth import aget_user
from django.core.asgi import get_asgi_application
from django.http import HttpRequest

import lockfast.web

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
django = get_asgi_application()


async def resolve(request: lockfast.web.Request) -> lockfast.web.User | None:
    """Return who sends a request, by Django's session: the staff may look, and some may break."""
    known = HttpRequest()
    key = request.cookies.get(settings.SESSION_COOKIE_NAME)
    known.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user = await aget_user(known)
    if not user.is_active or not user.is_staff:
        return None
    return lockfast.web.User(user.get_username(), may_break=user.is_superuser)


dashboard = lockfast.web.app(resolve=resolve)  # of the engine that LOCKFAST_URL names
MOUNT = "/locks"


async def application(scope: dict, receive: Callable, send: Callable) -> None:
    path = scope.get("path", "")
    if scope["type"] == "http" and (path == MOUNT or path.startswith(f"{MOUNT}/")):
        scope = {**scope, "root_path": scope.get("root_path", "") + MOUNT}
        await dashboard(scope, receive, send)
    else:
        await django(scope, receive, send)
