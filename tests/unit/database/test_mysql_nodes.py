"""Which of several servers of one MySQL a connection goes to."""

from __future__ import annotations

from typing import Any

import pymysql
import pytest

from pipeline.database.bounded_waits import MySqlNodes

ALONE = [("wsrep_cluster_size", "0")]


class Node:
    """A server that was reached, and what it answers when it is asked whether it takes writes."""

    def __init__(self, name: str, *, is_lost: bool = False, is_read_only: bool = False) -> None:
        self.name, self.is_closed = name, False
        self._is_lost, self._is_read_only = is_lost, is_read_only

    def cursor(self) -> Node:
        return self

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, _statement: str) -> None:
        if self._is_lost:
            raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")

    def fetchone(self) -> tuple[int]:
        return (int(self._is_read_only),)

    def fetchall(self) -> list[tuple[str, str]]:
        return ALONE

    def close(self) -> None:
        self.is_closed = True


def opening(*nodes: Node) -> Any:
    of_host = {node.name: node for node in nodes}
    return lambda host, _port: of_host[host]


class DescribeAConnection:
    def it_goes_to_the_next_node_if_one_is_lost_between_its_greeting_and_its_answer(self):
        lost, sound = Node("one", is_lost=True), Node("two")
        nodes = MySqlNodes(["one:3306", "two:3306"])
        assert nodes.connect(opening(lost, sound)) is sound
        assert (lost.is_closed, sound.is_closed) == (True, False)

    def it_goes_to_one_that_can_be_read_if_none_takes_writes(self):
        lost, readable = Node("one", is_lost=True), Node("two", is_read_only=True)
        assert MySqlNodes(["one:3306", "two:3306"]).connect(opening(lost, readable)) is readable
        assert not readable.is_closed

    def it_fails_with_the_error_of_the_first_node_if_all_are_lost(self):
        nodes = MySqlNodes(["one:3306", "two:3306"])
        with pytest.raises(pymysql.err.OperationalError, match="Lost connection"):
            nodes.connect(opening(Node("one", is_lost=True), Node("two", is_lost=True)))
