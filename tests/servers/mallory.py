"""Mallory: a role that may only CREATE in the schema public, and sets traps there for everybody."""

from tests.servers.postgres import Postgres

_FUNCTIONS = (
    "clock_timestamp() timestamptz",
    "convert_to(text, name) bytea",
    "current_setting(text) text",
    "current_setting(text, boolean) text",
    "date_part(text, timestamptz) float8",
    "encode(bytea, text) text",
    "floor(float8) float8",
    "floor(numeric) numeric",
    "get_byte(bytea, integer) integer",
    "has_function_privilege(regprocedure, text) boolean",
    "pg_backend_pid() integer",
    "pg_current_xact_id() xid8",
    "pg_notify(text, text) text",
    "set_config(text, text, boolean) text",
    "sha256(bytea) bytea",
    "unnest(bytea[], text[]) bigint",
)
_OPERATORS = (
    "% integer integer integer",
    "* float8 float8 float8",
    "* float8 integer float8",
    "* integer integer integer",
    "+ bigint bigint bigint",
    "- bigint bigint bigint",
    "< bytea bytea boolean",
    "<> bytea bytea boolean",
    "= bytea bytea boolean",
    "= integer bigint boolean",
    "= text text boolean",
    "= varchar text boolean",
    "= xid8 xid8 boolean",
    "> bigint bigint boolean",
    "> bigint integer boolean",
    "|| bigint text text",
    "|| text bigint text",
)


def set_traps(server: Postgres, victim: str) -> None:
    """Let a role mallory shadow functions and operators of PostgreSQL's for a victim, on whose path
    public stands first: it counts in a sequence, which no rollback takes back.
    """
    for statement in (
        "CREATE ROLE mallory LOGIN",
        "GRANT CREATE ON SCHEMA public TO mallory",
        "CREATE SEQUENCE public.caught",
        "GRANT ALL ON SEQUENCE public.caught TO PUBLIC",
        f"ALTER ROLE {victim} SET search_path = public, pg_catalog",
        "ALTER ROLE mallory SET search_path = pg_catalog",
    ):
        server.command(statement)
    lines = ["SET ROLE mallory", "SET search_path = pg_catalog"]
    for each in _FUNCTIONS:
        call, _, result = each.rpartition(" ")
        lines.append(f"CREATE FUNCTION public.{call} RETURNS {result} {_body()}")
    for number, each in enumerate(_OPERATORS):
        operator, left, right, result = each.split(" ")
        call = f"public.f{number}"
        sides = f"LEFTARG = {left}, RIGHTARG = {right}"
        lines += [
            f"CREATE FUNCTION {call}({left}, {right}) RETURNS {result} {_body()}",
            f"CREATE OPERATOR public.{operator} (FUNCTION={call}, {sides})",
        ]
    server.command("; ".join(lines))


def trap(server: Postgres, call: str, result: str) -> None:
    """Let mallory set one more."""
    server.command(f"SET ROLE mallory; CREATE FUNCTION public.{call} RETURNS {result} {_body()}")


def caught(server: Postgres) -> bool:
    """Tell whether code of mallory's has run."""
    return server.command("SELECT is_called FROM public.caught") == [(True,)]


def _body() -> str:
    return (
        "LANGUAGE plpgsql AS $$ BEGIN "
        "PERFORM pg_catalog.nextval('public.caught'::pg_catalog.regclass); RETURN NULL; END $$"
    )
