import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel
from starlette.middleware.sessions import SessionMiddleware

import lockfast.web


def resolve(request: lockfast.web.Request) -> lockfast.web.User | None:
    """Return who sends a request, by the session of this application."""
    name = request.scope["session"].get("user")
    return None if name is None else lockfast.web.User(name, may_break=name == "admin")


dashboard = lockfast.web.app(resolve=resolve)  # of the engine that LOCKFAST_URL names


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    yield
    await dashboard.close()


app = FastAPI(lifespan=lifespan)
app.add_middleware(SessionMiddleware, secret_key=os.environ["SECRET_KEY"], same_site="strict")


class Login(BaseModel):
    name: str
    password: str


@app.post("/login")
async def login(request: Request, login: Login) -> None:
    # Your application has its own users. This one has two, with one password.
    known = secrets.compare_digest(login.password.encode(), os.environ["PASSWORD"].encode())
    if not known or login.name not in {"admin", "guest"}:
        raise HTTPException(403)
    request.session["user"] = login.name


app.mount("/locks", dashboard)
