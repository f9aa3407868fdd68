"""What a worker shows to the others, and what it reads of them."""

from __future__ import annotations

import os
import threading

from websockets.sync.client import connect

from lockfast.engines.memory import Memory
from lockfast.runtime.aio import Aio
from lockfast.service.board import Board
from lockfast.service.config import Config
from lockfast.service.figures import Figures
from lockfast.service.metrics_page import page
from lockfast.service.replica import Replica
from lockfast.service.server import Server
from lockfast.service.workers import Worker
from tests.servers.process import wait_until
from tests.service.peers import Held


def test_a_worker_shows_its_figures_also_if_nobody_asks_it_and_ends_after_its_parent() -> None:
    board = Board(2)
    reading, writing = os.pipe()
    held = Held(Memory())
    worker = Worker(1, board, reading)
    server = Server(Replica(held.made, Aio()), Config(port=0), None, None, worker)
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started, "it serves")
    host, port = server.address
    with connect(f"ws://{host}:{port}/v1/connect", compression=None):
        shown = 'lock_service_connections{worker="1"} 1\n'
        wait_until(lambda: shown in board.read(), "it shows the connection")
    os.close(writing)
    thread.join(20)
    assert not thread.is_alive()
    os.close(reading)


def test_the_samples_of_a_metric_stand_together() -> None:
    board = Board(2)
    for number in range(2):
        board.put(number, page(Figures(lambda: 7), str(number)))
    lines = board.read().splitlines()
    at = lines.index('lock_service_connections{worker="0"} 7')
    assert lines[at + 1] == 'lock_service_connections{worker="1"} 7'
    assert lines[at - 1] == "# TYPE lock_service_connections gauge"


def test_a_page_that_is_half_written_is_not_shown() -> None:
    board = Board(2)
    whole = page(Figures(lambda: 7), "0")
    board.put(0, whole)
    board.put(1, page(Figures(lambda: 7), "1"))
    board._pages[1][100] ^= 1
    assert board.read() == whole
    board.put(1, page(Figures(lambda: 7), "1"))
    assert 'worker="1"' in board.read()


def test_a_board_without_pages_is_empty() -> None:
    assert Board(3).read() == ""
