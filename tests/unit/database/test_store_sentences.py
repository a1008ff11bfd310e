"""The sentences that drivers' errors become: the remedy is one that helps."""

from __future__ import annotations

import psycopg
import pymysql
import pytest
from sqlalchemy import exc

from pipeline.database.engines import mysql_errors, postgres_errors
from pipeline.errors import StoreMisconfigured, StoreUnavailable

_OWN_FILES = "operating system refuses the server its own files"


class DescribeAFileThatTheServerMayNotUse:
    @pytest.mark.parametrize(
        ("number", "message"),
        [
            (13, "Can't get stat of './chordwise' (Errcode: 13 \"Permission denied\")"),
            (1, "Can't create/write to file '/tmp/#sql' (Errcode: 13 \"Permission denied\")"),
            (1005, 'Can\'t create table `chordwise`.`chunks` (errno: 13 "Permission denied")'),
            (1030, 'Got error 13 "Permission denied" from storage engine InnoDB'),
            (1030, 'Got error 30 "Read-only file system" from storage engine InnoDB'),
        ],
    )
    def it_asks_for_the_folder_of_mysql_and_for_no_grant(self, number, message):
        with pytest.raises(StoreMisconfigured, match=_OWN_FILES) as raised, mysql_errors():
            raise exc.OperationalError("SELECT 1", {}, pymysql.err.OperationalError(number, message))
        assert "GRANT" not in str(raised.value)

    @pytest.mark.parametrize("what", ["open file", "extend file", "create directory", "stat file", "fsync file"])
    def it_asks_for_the_folder_of_postgresql_though_its_code_is_that_of_a_missing_grant(self, what):
        refused = psycopg.errors.InsufficientPrivilege(f'could not {what} "base/5/2619": Permission denied')
        with pytest.raises(StoreMisconfigured, match=_OWN_FILES) as raised, postgres_errors():
            raise exc.ProgrammingError("SELECT 1", {}, refused)
        assert "GRANT" not in str(raised.value)

    def it_still_asks_for_a_grant_where_one_is_missing(self):
        refused = psycopg.errors.InsufficientPrivilege("permission denied for table chunk_embeddings")
        with pytest.raises(StoreMisconfigured, match="GRANT ALL ON ALL TABLES"), postgres_errors():
            raise exc.ProgrammingError("SELECT 1", {}, refused)


class DescribeAServerThatDoesNotAnswer:
    def it_says_so_for_a_reply_that_did_not_come(self):
        lost = pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query (timed out)")
        with pytest.raises(StoreUnavailable, match="it does not answer"), mysql_errors():
            raise exc.OperationalError("SELECT 1", {}, lost)
