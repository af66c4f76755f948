"""Startup settings: which variable sets what, and how a wrong one is answered."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from ipaddress import ip_network
from pathlib import Path

import pytest

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.misspelt import FORMER, misspelt
from crawlstream.boot.settings import Settings, load_settings
from crawlstream.boot.variables import setting_names
from crawlstream.errors import ConfigError
from crawlstream_frontier.opening.servers import redis_servers


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder without ``.env``, and without a variable of a cluster."""
    for name in ("KAFKA_HOSTS", "REDIS_HOST", "REDIS_PORT", "ZOOKEEPER_HOSTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_predecessors_variables_keep_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment written for the predecessor's images is understood."""
    monkeypatch.setenv("KAFKA_HOSTS", "a:1, b:2,")
    monkeypatch.setenv("QUEUE_HITS", "7")
    monkeypatch.setenv("QUEUE_MODERATED", "False")
    settings = load_settings()
    assert settings.kafka_hosts == ("a:1", "b:2")
    assert settings.default_rule.hits == 7
    assert not settings.default_rule.moderated


def test_the_file_counts_less_than_the_environment(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable beats the same name in ``.env``; what only ``.env`` names is taken from it."""
    (empty_folder / ".env").write_text("REDIS_HOST=from-file\nREDIS_PORT=1234\n")
    monkeypatch.setenv("REDIS_HOST", "from-env")
    settings = load_settings()
    assert (settings.redis_host, settings.redis_port) == ("from-env", 1234)


def test_only_the_variables_of_a_setting_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of its field is a word that any program may use for a variable of its own."""
    before = load_settings()
    for name in ("home", "notice", "redis_host"):
        monkeypatch.setenv(name, "aws")
    assert load_settings() == before


def test_a_setting_can_be_given_by_either_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program says its field or its variable, and wins over the environment."""
    monkeypatch.setenv("REDIS_PORT", "7")
    monkeypatch.setenv("MAX_DEPTH", "7")
    assert load_settings(redis_port=8, max_depth=8).redis_port == 8
    assert load_settings(redis_port=9, max_depth=8).max_depth == 8
    assert load_settings(CRAWLSTREAM_MAX_DEPTH=9).max_depth == 9


def test_a_name_that_is_nearly_a_setting_is_told() -> None:
    """Other variables are ignored, and one that is set as well needs no hint."""
    names = ["CRAWLSTREAM_ALOW_NETWORKS", "USER_AGNET", "CRAWLSTREAM_REDIS_PORT", "PATH", "USER"]
    assert list(misspelt(names)) == [
        "CRAWLSTREAM_ALOW_NETWORKS is not a setting; did you mean CRAWLSTREAM_ALLOW_NETWORKS?",
        "USER_AGNET is not a setting; did you mean USER_AGENT?",
    ]
    assert not list(misspelt(["USER_AGNET", "USER_AGENT"]))


def test_a_setting_of_the_predecessor_that_is_not_needed_is_told() -> None:
    """Reports an unneeded setting of the predecessor in any spelling, without false advice."""
    names = ["DOMAIN_MAX_PAGE_TIMEOUT", "KAFKA_PRODUCER_TOPIC", "KAFKA_PRODUCER_BUFFER_BYTES"]
    misspellings = ["SCHEUDLER_ITEM_RETRIES", "SCHEDULER_QUEUE_TIEOUT"]
    assert list(misspelt([*names, *misspellings, "KAFKA_HOSTS"])) == [
        (
            "DOMAIN_MAX_PAGE_TIMEOUT is not needed any more:"
            " page limits last as long as their crawl is remembered"
        ),
        (
            "KAFKA_PRODUCER_BUFFER_BYTES is not needed any more:"
            " a body is cut at CRAWLSTREAM_MAX_BODY_BYTES"
        ),
        "KAFKA_PRODUCER_TOPIC is not needed any more: KAFKA_INCOMING_TOPIC names it",
        "SCHEDULER_QUEUE_TIEOUT is not needed any more: nothing is polled",
        "SCHEUDLER_ITEM_RETRIES is not needed any more: a page is tried again RETRY_TIMES times",
    ]


def test_settings_that_are_recommended_exist() -> None:
    """No hint names a setting without effect, and none calls a working setting useless."""
    names = setting_names()
    told = {word for text in FORMER.values() for word in re.findall(r"[A-Z_]{5,}", text)}
    assert told
    assert told <= names
    assert not [n for n in names for pattern in FORMER if fnmatchcase(n, pattern)]


def test_the_guide_to_migration_lists_the_same_settings() -> None:
    """A process reports the variables that the docs call needless or renamed."""
    page = (Path(__file__).parents[3] / "docs" / "migrating.md").read_text(encoding="utf-8")
    table = page.partition("## Settings")[2].partition("## Topics")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    listed = {name.replace("…", "*") for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert listed - setting_names() == set(FORMER)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("REDIS_PORT", "http"),
        ("REDIS_PORT", "70000"),
        ("CRAWLSTREAM_ALLOW_NETWORKS", "10.0.0.1/8"),
        ("LOG_LEVEL", "LOUD"),
        ("CRAWLSTREAM_NAMESPACE", "a:b"),
    ],
)
def test_a_wrong_value_is_one_sentence_that_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    """The error is a ConfigError of one line with the name that a person typed."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError) as caught:
        load_settings()
    assert variable in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_codec_that_nobody_knows_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variable, and what it may be."""
    monkeypatch.setenv("KAFKA_COMPRESSION", "brotli")
    with pytest.raises(ConfigError, match=r"KAFKA_COMPRESSION: .*'gzip'"):
        load_settings()


def test_networks_are_read_from_one_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several ranges stand in one variable, with commas."""
    monkeypatch.setenv("CRAWLSTREAM_ALLOW_NETWORKS", "127.0.0.0/8, ::1/128")
    assert load_settings().allow_networks == (ip_network("127.0.0.0/8"), ip_network("::1/128"))


def test_every_process_has_its_own_metrics_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """The port is the machine's first plus the process' offset; without a first there is none."""
    monkeypatch.setenv("CRAWLSTREAM_METRICS_OFFSET", "12")
    assert load_settings().metrics_port == 0
    monkeypatch.setenv("CRAWLSTREAM_METRICS_PORT", "9100")
    assert load_settings().metrics_port == 9112


def test_log_level_in_lower_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """``debug`` is as good as ``DEBUG``."""
    monkeypatch.setenv("LOG_LEVEL", "debug")
    assert load_settings().log_level == "DEBUG"


def test_kafka_is_told_who_we_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name and password reach every connection; without them SASL is refused at the start."""
    monkeypatch.setenv("CRAWLSTREAM_KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    with pytest.raises(ConfigError, match="CRAWLSTREAM_KAFKA_SASL_USERNAME"):
        load_settings()
    monkeypatch.setenv("CRAWLSTREAM_KAFKA_SASL_MECHANISM", "SCRAM-SHA-512")
    monkeypatch.setenv("CRAWLSTREAM_KAFKA_SASL_USERNAME", "me")
    monkeypatch.setenv("CRAWLSTREAM_KAFKA_SASL_PASSWORD", "s3cret")
    monkeypatch.setenv("CRAWLSTREAM_KAFKA_SSL_CAFILE", "/etc/ca.pem")
    settings = load_settings()
    assert "s3cret" not in repr((settings, kafka_of(settings)))
    options = kafka_of(settings).options()
    assert options["security_protocol"] == "SASL_SSL"
    assert options["sasl_mechanism"] == "SCRAM-SHA-512"
    assert (options["sasl_plain_username"], options["sasl_plain_password"]) == ("me", "s3cret")
    assert options["ssl_cafile"] == "/etc/ca.pem"
    assert "ssl_keyfile" not in options


def test_tls_profiles_are_known_ones_and_the_default_is_always_among_them() -> None:
    """Accepts TLS profiles in any spelling; a wrong name is answered with the known ones."""
    assert load_settings().request_limits.tls_profiles == ("default", "legacy")
    assert load_settings(tls_profiles="").tls_profiles == ("default",)
    assert load_settings(tls_profiles="legacy, default,").tls_profiles == ("default", "legacy")
    with pytest.raises(ConfigError, match=r"CRAWLSTREAM_TLS_PROFILES.*unknown: ssl3; known: def"):
        load_settings(tls_profiles="default,ssl3")


def test_servers_and_number_of_partitions_follow() -> None:
    """Several servers are named instead of one; how many partitions there are follows from them."""
    given = {"REDIS_HOSTS": "a:1, [::1]:2", "REDIS_HOST": "single"}
    assert load_settings(**given).redis_servers == [("a", 1), ("::1", 2)]
    assert load_settings(**given).partitions.number == 2
    assert load_settings(REDIS_HOST="single").redis_servers == [("single", 6379)]
    assert load_settings(REDIS_HOST="single").partitions.number == 1
    assert load_settings(REDIS_CLUSTER="a:1").partitions.number == 16
    assert load_settings(REDIS_CLUSTER="a:1", CRAWLSTREAM_PARTITIONS=3).partitions.number == 3


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"REDIS_HOSTS": "a"}, "REDIS_HOSTS: 'a' is not host:port"),
        ({"REDIS_CLUSTER": "a:0"}, "REDIS_CLUSTER: 'a:0' is not host:port"),
        ({"REDIS_HOSTS": "a:1,a:1"}, "REDIS_HOSTS: a server is listed twice"),
        ({"REDIS_HOSTS": "a:1", "REDIS_CLUSTER": "b:1"}, "set one of them"),
        ({"REDIS_CLUSTER": "a:1", "REDIS_DB": 1}, "REDIS_DB: a Redis Cluster has"),
        ({"REDIS_HOSTS": "a:1,b:1", "CRAWLSTREAM_PARTITIONS": 1}, "must be at least 2"),
        ({"CRAWLSTREAM_PARTITIONS": 257}, "CRAWLSTREAM_PARTITIONS"),
    ],
)
def test_servers_that_cannot_be_are_named(given: dict[str, object], said: str) -> None:
    """Names impossible servers before any of them is called."""
    with pytest.raises(ConfigError, match=said):
        load_settings(**given)


ADDRESSES = [
    *("redis_host", "rest_host", "metrics_host"),
    *("kafka_hosts", "zookeeper_hosts", "redis_hosts", "redis_cluster"),
]

NONSENSE = (
    *("", "nonsense!", "-1", "0", "nan", "inf", "1e400", "9" * 400, "[]", "{}", ",", "/", ".."),
    *("host:abc", "host:99999", "http://[", "http://h:abc/", "https://h:99999", "smtp://h:abc"),
    *("redis://h:abc", "redis://h:99999", "redis://h/abc", "smtp://[::1", "\u00e9\0", "\ud800"),
)
"""Some is valid for some settings; no setting may fail on it later than when it is read."""

DERIVED = [
    name
    for section in Settings.__mro__
    for name, value in vars(section).items()
    if isinstance(value, property) and section.__module__.startswith("crawlstream")
]


def in_use(settings: Settings) -> None:
    """Derive all that processes derive from settings before they connect to a server."""
    for name in DERIVED:
        getattr(settings, name)
    kafka_of(settings)
    redis_servers(settings)


def refusal_of(variable: str, text: str) -> str | None:
    """The sentence that refuses a value of a variable; None: processes can work with it."""
    try:
        in_use(load_settings(**{variable: text}))
    except ConfigError as error:
        return str(error)
    return None


@pytest.mark.parametrize("field", Settings.model_fields)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_nonsense_is_refused_when_it_is_read(field: str) -> None:
    """Each value of each setting is usable, or one sentence names its variable."""
    for variable in Settings.variables_of(field):
        for text in NONSENSE:
            sentence = refusal_of(variable, text)
            named = variable.partition("_SSL_")[0].removeprefix("CRAWLSTREAM_")
            assert sentence is None or named in sentence, (text, sentence)
            assert "\n" not in (sentence or "")


@pytest.mark.parametrize(
    "text", ["http://[", "http://h:80/", "h:abc", "h:0", "h:65536", "a b", "user@h:1", "[::1", ":1"]
)
@pytest.mark.parametrize("field", ADDRESSES)
def test_what_is_no_address_is_refused(field: str, text: str) -> None:
    """Every setting that names a host, or several servers, takes addresses only."""
    variable = Settings.variables_of(field)[0]
    with pytest.raises(ConfigError, match=variable):
        load_settings(**{variable: text})


@pytest.mark.parametrize("text", ["{}[", "{}[::1", "{}h:abc", "{}h:99999", "{}h:0", "{}"])
@pytest.mark.parametrize(
    ("variable", "scheme"),
    [
        ("CRAWLSTREAM_NOTICE_URL", "http://"),
        ("CRAWLSTREAM_NOTIFY_WEBHOOK", "https://"),
        ("CRAWLSTREAM_NOTIFY_SMTP", "smtp://"),
        ("CRAWLSTREAM_SHELF", "redis://"),
    ],
)
def test_what_is_no_url_is_refused(variable: str, scheme: str, text: str) -> None:
    """Every setting that is a URL has a host and a port that can be."""
    with pytest.raises(ConfigError, match=variable):
        load_settings(**{variable: text.format(scheme)})


@pytest.mark.parametrize("text", ["../x", "a/./b", "a\x00b", "a\nb", "\ue000"])
@pytest.mark.parametrize("variable", ["ZOOKEEPER_ASSIGN_PATH", "ZOOKEEPER_ID", "ZOOKEEPER_HOSTS"])
def test_what_zookeeper_takes_in_no_path_is_refused(variable: str, text: str) -> None:
    """Refuses a path that ZooKeeper does not accept when it is read."""
    given = f"h:1/{text}" if variable == "ZOOKEEPER_HOSTS" else text
    with pytest.raises(ConfigError, match=f"{variable}: .* is not a path of ZooKeeper"):
        load_settings(**{variable: given})
    load_settings(ZOOKEEPER_ASSIGN_PATH="/", ZOOKEEPER_ID="a//b", ZOOKEEPER_HOSTS="a:1,a:1/x")


@pytest.mark.parametrize("text", ["a", "a:1", "a:1,b.example.com:2", "[::1]:9092", "10.0.0.1:1"])
@pytest.mark.parametrize("variable", ["KAFKA_HOSTS", "ZOOKEEPER_HOSTS"])
def test_addresses_are_taken_as_they_were(variable: str, text: str) -> None:
    """A port may be left out; ZooKeeper's last server may be followed by a root for all paths."""
    assert getattr(load_settings(**{variable: text}), variable.lower()) == tuple(text.split(","))
    assert load_settings(ZOOKEEPER_HOSTS="a:1,b:2/root").zookeeper_hosts == ("a:1", "b:2/root")


@pytest.mark.parametrize("variable", ["KAFKA_HOSTS", "ZOOKEEPER_HOSTS"])
def test_no_server_at_all_is_refused(variable: str) -> None:
    """A comma, or nothing, leads to no server."""
    with pytest.raises(ConfigError, match=f"{variable}: name at least one"):
        load_settings(**{variable: ","})


def test_bodies_are_dropped_for_a_purpose() -> None:
    """A reservation is for a purpose: without one it could not be obeyed."""
    with pytest.raises(ConfigError, match="CRAWLSTREAM_DROP=reserved needs CRAWLSTREAM_PURPOSE"):
        load_settings(CRAWLSTREAM_DROP="noindex,reserved")
    settings = load_settings(CRAWLSTREAM_DROP="reserved", CRAWLSTREAM_PURPOSE="train-ai")
    assert (settings.drop, settings.purpose) == (("reserved",), "train-ai")
    with pytest.raises(
        ConfigError, match="CRAWLSTREAM_PURPOSE: Input should be 'search', 'train-a"
    ):
        load_settings(CRAWLSTREAM_PURPOSE="ai-train")
