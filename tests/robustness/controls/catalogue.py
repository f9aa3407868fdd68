"""The controls: every mutant with the fault that reveals it, and the checker that must say so."""

from __future__ import annotations

import contextlib
import hashlib
from functools import partial

import lockfast
from lockfast.engines.redis.scripts import RENEW
from lockfast.engines.redlock.messages import MEMBER
from tests.robustness import checkers
from tests.robustness.checkers.chain import lost_updates
from tests.robustness.controls import texts
from tests.robustness.controls.trial import START, Control, Trial
from tests.robustness.faults import FAULTS, Stage
from tests.robustness.faults.fault import Order
from tests.robustness.history import Kind
from tests.robustness.hosts import host_of
from tests.robustness.verdict import stale_writes
from tests.servers.process import Server, ServerError, wait_until
from tests.servers.redis import Redis

# --- who must say it ------------------------------------------------------------------------------


def beliefs(trial: Trial) -> list[str]:
    return [wrong.said for wrong in checkers.within_lease(trial.history())]


def refusals(trial: Trial) -> list[str]:
    return [wrong.said for wrong in checkers.rightful(trial.history())]


def marks(trial: Trial) -> list[str]:
    return [wrong.said for wrong in checkers.marks_never_fall(trial.logs(fenced=True))]


def updates(trial: Trial) -> list[str]:
    logs = trial.logs(fenced=True).values()
    return [said for log in logs for said in lost_updates([(e.value, e.saw) for e in log])]


def twin(trial: Trial) -> list[str]:
    counts = {name: stale_writes(log) for name, log in trial.logs(fenced=False).items()}
    return [f"{name}: {count} stale writes applied" for name, count in counts.items() if count]


def orphans(trial: Trial) -> list[str]:
    """Tell what is left in the engine after all clients have ended in good order."""
    with lockfast.connect(trial.site.url) as client:
        names = {r.name for r in trial.history() if r.kind is Kind.ACQUIRE}
        left = [each for name in sorted(names) for each in client.lock(name).queue()]
    return [f"{each.name}: {each.id} lives, though its client has ended" for each in left]


# --- the faults -----------------------------------------------------------------------------------


def nothing(trial: Trial) -> None:
    """Let them work."""
    trial.wait(0.5)


def server_stands_still(trial: Trial) -> None:
    """Pause it until all have expired; what was sent meanwhile is applied then."""
    server = trial.site.leader()
    server.pause()
    trial.wait(1.2)
    server.resume()
    trial.wait(0.5)


def late_replies_to_one_who_is_cut_off(trial: Trial) -> None:
    """Replies to renewals are late, though not too late; then nothing can be renewed any more."""
    trial.proxy.delay(0.0, replies=trial.ttl / 8)
    undo = host_of(trial.granted()).cut(incoming=False)
    trial.proxy.delay(0.0)
    trial.wait(1.2)
    undo()
    trial.wait(0.1)


def renewals_on_their_way(trial: Trial) -> None:
    """A waiter is told that it is its turn, and its renewals do not arrive."""
    prefix = trial.prefix(trial.victim).encode()
    # The workers' script has the text of "short waits" in it, and so another digest than ours.
    ((old, new),) = texts.EDITS["short waits"][texts.REDIS, "stored.lua"].items()
    source = RENEW.source.decode()
    assert old in source
    mutated = source.replace(old, new).encode()
    renew = hashlib.sha1(mutated, usedforsecurity=False).hexdigest().encode()
    trial.proxy.hold_requests(lambda request: renew in request and prefix in request)
    trial.wait(1.5)
    trial.proxy.release_requests()


def cut_off_from_the_engine(trial: Trial) -> None:
    """A holder that cannot renew, and never asks whether it still holds, reaches its resource."""
    undo = host_of(trial.victim).cut(*trial.site.addresses)
    trial.wait(2.5)
    undo()
    trial.wait(0.5)


def token_on_its_way(trial: Trial) -> None:
    """A holder is cut off while its token is minted, until another has followed it."""
    mine = f"mint-{trial.victim.pid}".encode()
    trial.proxy.hold_requests(lambda request: mine in request, count=1)
    with contextlib.suppress(ServerError):
        trial.proxy.wait_held(1, timeout=5.0)
        undo = host_of(trial.victim).cut(incoming=False)
        trial.wait(1.5)
        undo()
    trial.proxy.release_requests()
    trial.wait(0.8)


def claims_that_arrive_late(trial: Trial) -> None:
    """Keep claims on their way until their clients have given up, and ended."""
    for worker in trial.workers:
        worker.start()
    trial.wait(0.1)
    trial.proxy.hold_requests(lambda request: b"hasty:" in request and b"host" in request)
    trial.proxy.wait_held(len(trial.workers))
    for worker in trial.workers:
        worker.end(20.0)
    trial.proxy.release_requests()


def emptied_one_after_another(trial: Trial) -> None:
    """Three of five lose their data in turn, each as soon as the one before it is a member."""
    trial.granted()
    for server in trial.site.servers[:3]:
        server.kill()
        trial.site.wipe(server)
        server.start(START)
        with contextlib.suppress(ServerError):
            wait_until(partial(_member, server), "it is a member again", timeout=3.0)
    trial.wait(0.5)


def leader_deposed(trial: Trial) -> None:
    """A leader is replaced, and a holder that reaches nobody else asks it to renew."""
    stage = Stage(trial.site, [trial.granted()], trial.ttl)
    damage = FAULTS["deposed-leader"].begin(stage, Order(trial.ttl, trial.round))
    damage.undo()
    trial.wait(0.2)


def _member(server: Server) -> bool:
    assert isinstance(server, Redis)
    with server.connect() as connection:
        said = connection.command("GET", MEMBER)
    return isinstance(said, bytes) and said.startswith(b"M ")


CONTROLS = (
    Control(
        mutant="",
        checker="the unfenced twin",
        look=twin,
        strike=cut_off_from_the_engine,
        fault="a client cut off from the engine",
        workloads=("slow",),
    ),
    Control(
        mutant="release without the owner check",
        checker="within_lease",
        look=beliefs,
        strike=nothing,
        fault="none: waits that are given up",
    ),
    Control(
        mutant="token minted after the grant",
        checker="rightful",
        look=refusals,
        strike=token_on_its_way,
        fault="a client cut off while its token is minted",
        workloads=("single",),
        modes=("threads", "threads"),
        hands=2,
    ),
    Control(
        mutant="validity from the reply",
        checker="within_lease",
        look=beliefs,
        strike=late_replies_to_one_who_is_cut_off,
        fault="late replies, then a one-way cut",
        workloads=("long",),
        ttl=1.8,
    ),
    Control(
        mutant="validity of a whole ttl",
        checker="within_lease",
        look=beliefs,
        strike=renewals_on_their_way,
        fault="renewals that arrive late",
        given=("short waits",),
        workloads=("steady",),
        ttl=1.2,
    ),
    Control(
        mutant="renewal that resurrects",
        checker="within_lease",
        look=beliefs,
        strike=server_stands_still,
        fault="a server that stands still",
    ),
    Control(
        mutant="no tombstone in doubt",
        checker="orphans",
        look=orphans,
        strike=claims_that_arrive_late,
        fault="claims that arrive after their senders have ended",
        workloads=("hasty",),
        modes=("threads",),
        ttl=8.0,
    ),
    Control(
        mutant="mark without the claim's id",
        checker="marks_never_fall",
        look=marks,
        strike=nothing,
        fault="tokens that repeat",
        given=("tokens of a second",),
        workloads=("register",),
        hands=2,
    ),
    Control(
        mutant="a guard that does not seal",
        checker="lost_updates",
        look=updates,
        strike=cut_off_from_the_engine,
        fault="a client cut off from the engine",
        workloads=("slow",),
    ),
    Control(
        mutant="a ballot without the majority",
        checker="within_lease",
        look=beliefs,
        strike=nothing,
        fault="none",
        site="redlock",
        hands=2,
    ),
    Control(
        mutant="a wiped node that joins at once",
        checker="within_lease",
        look=beliefs,
        strike=emptied_one_after_another,
        fault="three of five nodes emptied in turn",
        site="redlock",
        workloads=("long",),
        ttl=4.0,
    ),
    Control(
        mutant="a session proven by a read",
        checker="within_lease",
        look=beliefs,
        strike=leader_deposed,
        fault="a leader that was replaced and does not know it",
        site="zookeeper",
        workloads=("ages",),
        ttl=6.0,
        hands=2,
    ),
)
