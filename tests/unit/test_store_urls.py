"""URLs with passwords of their own, raw ones put in, and what unquoted characters make of them."""

from __future__ import annotations

import ssl

import pytest
from kombu import Connection
from redis.connection import parse_url
from sqlalchemy import make_url

from pipeline.errors import Misconfigured
from pipeline.settings import load
from pipeline.store_urls import for_celery, hosts_of, sentinel_url

RAW = "p@ss/w#rd%41:?& x+\\\"'密"


class DescribePasswords:
    @pytest.mark.parametrize(
        ("server", "url"),
        [
            ("mysql", "mysql+pymysql://user@db:3306/chordwise?charset=utf8mb4"),
            ("postgres", "postgresql+psycopg://user@db/chordwise"),
        ],
    )
    def it_gives_the_drivers_of_databases_what_was_written(self, server, url):
        settings = load({f"{server}_url": url, f"{server}_password": RAW})
        found = make_url(getattr(settings, f"{server}_url").get_secret_value())
        assert (found.username, found.password, found.host, found.database) == ("user", RAW, "db", "chordwise")

    @pytest.mark.parametrize("user", ["", "user@"])
    def it_gives_both_redis_clients_what_was_written(self, user):
        url = load({"redis_url": f"redis://{user}cache:6380/3", "redis_password": RAW}).redis_url.get_secret_value()
        assert parse_url(url)["password"] == RAW
        assert parse_url(url).get("username", "") == user.removesuffix("@")
        with Connection(url) as connection:
            assert (connection.password, connection.hostname, connection.virtual_host) == (RAW, "cache", "3")

    def it_gives_rabbitmq_what_was_written(self):
        settings = load({"broker_url": "amqp://user@queue:5672//", "broker_password": RAW})
        with Connection(settings.broker) as connection:
            assert (connection.userid, connection.password, connection.virtual_host) == ("user", RAW, "/")

    def it_prefers_the_password_that_a_url_has(self):
        settings = load({"redis_url": "redis://:one@cache/0", "redis_password": "two"})
        assert settings.redis_url.get_secret_value() == "redis://:one@cache/0"

    @pytest.mark.parametrize("password", ["p@ss", "p/ss", "p#ss", "p?ss", "p%ss"])
    def it_names_the_variable_of_a_url_that_its_password_took_apart(self, password):
        with pytest.raises(Misconfigured) as raised:
            load({"postgres_url": f"postgresql+psycopg://user:{password}@db:5432/chordwise"})
        assert str(raised.value).startswith(
            "CHORDWISE_POSTGRES_URL has a character in its user or password that must be"
        )
        assert "CHORDWISE_POSTGRES_PASSWORD" in str(raised.value)
        assert "ss" not in str(raised.value).replace("password", "").replace("PASSWORD", "").replace("such as", "")

    @pytest.mark.parametrize(
        ("setting", "url", "sentence"),
        [
            ("mysql_url", "mysql://db/chordwise", "CHORDWISE_MYSQL_URL must begin with mysql+pymysql://"),
            (
                "redis_url",
                "http://cache",
                "CHORDWISE_REDIS_URL must begin with redis://, rediss://, redis+sentinel:// or rediss+sentinel://",
            ),
            (
                "redis_url",
                "redis://cache/0?ssl_ca_certs=/x",
                "has ssl_ca_certs, which needs rediss:// instead of redis://",
            ),
            (
                "redis_url",
                "rediss://cache/0?ssl_cert_reqs=maybe",
                "ssl_cert_reqs that is not required, optional or none",
            ),
            (
                "redis_url",
                "rediss://cache/0?ssl_ca_certs=/no.pem",
                "has ssl_ca_certs, but there is no such file: /no.pem",
            ),
            (
                "mysql_url",
                "mysql+pymysql://db/c?ssl_ca=/no.pem",
                "CHORDWISE_MYSQL_URL has ssl_ca, but there is no such",
            ),
            (
                "postgres_url",
                "postgresql+psycopg://db/c?sslrootcert=/no.pem",
                "CHORDWISE_POSTGRES_URL has sslrootcert, but",
            ),
        ],
    )
    def it_says_what_else_is_wrong_with_a_url(self, setting, url, sentence):
        with pytest.raises(Misconfigured) as raised:
            load({setting: url})
        assert sentence in str(raised.value)

    def it_takes_the_systems_authorities_for_postgres(self):
        url = "postgresql+psycopg://db/c?sslmode=verify-full&sslrootcert=system"
        assert load({"postgres_url": url}).postgres_url.get_secret_value() == url


class DescribeSeveralServers:
    @pytest.mark.parametrize(
        ("setting", "written", "hosts"),
        [
            ("postgres_url", "postgresql+psycopg://u@one:5432,two:5433/c?sslmode=require", ("one:5432", "two:5433")),
            ("postgres_url", "postgresql+psycopg://u@/c?host=one:5432&host=two", ("one:5432", "two")),
            ("mysql_url", "mysql+pymysql://u@one,two:3307/c?charset=utf8mb4", ("one", "two:3307")),
            ("mysql_url", "mysql+pymysql://u@[::1]:3306,two/c", ("[::1]:3306", "two")),
            ("mysql_url", "mysql+pymysql://u@one:3306/c", ("one:3306",)),
            ("mysql_url", "mysql+pymysql://u@/c?unix_socket=/s", ()),
        ],
    )
    def it_gives_a_database_all_its_hosts_and_the_password(self, setting, written, hosts):
        server = setting.removesuffix("_url")
        url = getattr(load({setting: written, f"{server}_password": RAW}), setting).get_secret_value()
        assert hosts_of(url) == hosts
        parsed = make_url(url)
        assert (parsed.username, parsed.password, parsed.database) == ("u", RAW, "c")

    def it_hands_several_hosts_to_libpq(self):
        url = load({"postgres_url": "postgresql+psycopg://u@one:5432,two:5433/c"}).postgres_url.get_secret_value()
        _, options = make_url(url).get_dialect()().create_connect_args(make_url(url))
        assert (options["host"], options["port"]) == ("one,two", "5432,5433")

    @pytest.mark.parametrize("scheme", ["redis+sentinel", "sentinel"])
    def it_reads_the_sentinels_of_a_redis(self, scheme):
        written = f"{scheme}://user@one:26380,two/mine/3?sentinel_username=s&sentinel_password=p%40&socket_timeout=2"
        named = sentinel_url(load({"redis_url": written, "redis_password": RAW}).redis_url.get_secret_value())
        assert named is not None
        assert (named.nodes, named.name, named.database) == ((("one", 26380), ("two", 26379)), "mine", "3")
        assert (named.username, named.password) == ("s", "p@")
        server = parse_url(named.server)
        assert (server["username"], server["password"], server["db"], server["socket_timeout"]) == ("user", RAW, 3, 2)

    def it_names_the_sentinels_to_celery(self):
        url = load({"broker_url": "rediss+sentinel://:p@one:1,two:2/mine/3"}).broker
        assert for_celery(url) == (
            "sentinel://:p@one:1/3;sentinel://:p@two:2/3",
            {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True},
        )

    def it_takes_a_list_of_brokers_with_one_password(self):
        broker = load({"broker_url": "amqp://u@one//;amqp://u@two:5673//", "broker_password": "p"}).broker
        assert broker == "amqp://u:p@one//;amqp://u:p@two:5673//"

    @pytest.mark.parametrize(
        ("url", "sentence"),
        [
            ("redis+sentinel://one:1,two:2/0", "does not name the primary server that the sentinels watch"),
            ("redis+sentinel://one:1,two:2", "does not name the primary server that the sentinels watch"),
            ("sentinel://one:1;sentinel://two:2/0", "names its sentinels in several URLs; name them in one"),
            ("redis+sentinel://one:1/mine/first", "has a database that is no number"),
            ("redis+sentinel://one:1/mine/0?ssl_ca_certs=/x", "needs rediss+sentinel:// instead of redis+sentinel://"),
        ],
    )
    def it_shows_the_right_form_for_a_wrong_one(self, url, sentence):
        with pytest.raises(Misconfigured) as raised:
            load({"redis_url": url})
        assert sentence in str(raised.value)
        if "ssl" not in url:
            assert "redis+sentinel://:password@one:26379,two:26379,three:26379/name/0" in str(raised.value)


class DescribeTls:
    def it_asks_for_a_certificate_unless_told_otherwise(self):
        assert for_celery("rediss://cache/0") == (
            "rediss://cache/0",
            {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True},
        )

    @pytest.mark.parametrize("written", ["none", "CERT_NONE"])
    def it_takes_celerys_names_as_well_as_those_of_redis(self, written):
        url = load({"redis_url": f"rediss://cache/0?ssl_cert_reqs={written}"}).redis_url.get_secret_value()
        assert parse_url(url)["ssl_cert_reqs"] == "none"
        assert for_celery(url)[1] == {"ssl_cert_reqs": ssl.CERT_NONE, "ssl_check_hostname": False}

    def it_hands_files_and_the_check_of_names_over_as_options(self, tmp_path):
        file = tmp_path / "a file.pem"
        file.touch()
        url = f"rediss://cache/0?ssl_ca_certs={file}&ssl_check_hostname=false&health_check_interval=5"
        bare, options = for_celery(load({"redis_url": url}).redis_url.get_secret_value())
        assert bare == "rediss://cache/0?health_check_interval=5"
        assert options == {"ssl_ca_certs": str(file), "ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": False}

    def it_names_the_options_of_rabbitmq_as_its_client_does(self):
        url = "amqps://a:b@one//?ssl_ca_certs=/ca.pem&heartbeat=5;amqps://a:b@two//"
        assert for_celery(url) == (
            "amqps://a:b@one//?heartbeat=5;amqps://a:b@two//",
            {"ca_certs": "/ca.pem", "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": None},
        )

    @pytest.mark.parametrize(
        ("parameter", "requirement"), [("cert_reqs=none", ssl.CERT_NONE), ("check_hostname=false", ssl.CERT_REQUIRED)]
    )
    def it_leaves_the_name_of_rabbitmq_unchecked_if_told(self, parameter, requirement):
        assert for_celery(f"amqps://queue//?ssl_{parameter}")[1] == {"cert_reqs": requirement}

    @pytest.mark.parametrize("url", ["redis://cache/0", "amqp://queue//"])
    def it_leaves_other_urls_alone(self, url):
        assert for_celery(url) == (url, None)
