"""The bootstrap script: its messages where a machine lacks something, and its work done once."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from crawlstream import __version__
from crawlstream_cli.verbs import VERBS

ROOT = Path(__file__).parents[3]
EVERYTHING = (
    "chaos",
    "delta",
    "dev",
    "docs",
    "extract",
    "iceberg",
    "mcp",
    "pipeline",
    "query",
    "tls",
    "traces",
)
"""The sets of packages that tests and benchmarks need."""
_TOOLS = ("sh", "cat", "cksum", "dirname", "grep", "head", "mkdir", "mv", "rm", "sed", "uname")


class Machine:
    """A machine with a checkout, on which only the programs that a test gives it exist."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "check out"
        self.programs = folder / "bin"
        self.programs.mkdir()
        (self.checkout / "docker").mkdir(parents=True)
        for name in ("crawlstream", "requirements.txt", "pyproject.toml", "docker/pom.xml"):
            shutil.copy(ROOT / name, self.checkout / name)
        shutil.copytree(ROOT / "requirements", self.checkout / "requirements")
        for name in _TOOLS:
            found = shutil.which(name)
            assert found
            (self.programs / name).symlink_to(found)
        # Not root, so that the script never installs anything on the machine of these tests.
        self.has("id", "echo 1000")

    def has(self, name: str, script: str) -> None:
        """Give the machine a program."""
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Call the bootstrap script."""
        return subprocess.run(
            ["./crawlstream", *arguments],
            cwd=self.checkout,
            env={"PATH": str(self.programs), **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    def has_venv(self, *sets: str) -> None:
        """Make the checkout look as if .venv had been made; its Python shows how it is called."""
        folder = self.checkout / ".venv" / "bin"
        folder.mkdir(parents=True)
        (folder / "python").write_text('#!/bin/sh\necho "$@"\n')
        (folder / "python").chmod(0o755)
        (self.checkout / ".venv" / ".sets").write_text(" ".join(sets))
        stamp = self.run_shell(". ./stamp; venv_stamp")
        (self.checkout / ".venv" / ".stamp").write_text(stamp)

    def installs(self, uv_ends: int = 0, configured: str = "") -> None:
        """Give the machine a Python whose .venv notes what pip and uv are called with."""
        pip = f"""#!/bin/sh
case "$*" in *config*) echo "{configured}";; *" -e "*) ;; *" -r "*) echo pip "$@" >>calls;; esac"""
        uv = f'#!/bin/sh\ncase "$*" in *" -e "*) ;; *) echo uv $@ >>calls;; esac\nexit {uv_ends}'
        (self.programs / "chmod").symlink_to(shutil.which("chmod") or "")
        self.has(
            "python3",
            f"""case "$*" in "-m venv"*) mkdir -p .venv/bin
            echo '{pip}' >.venv/bin/python; echo '{uv}' >.venv/bin/uv
            chmod 755 .venv/bin/*;; esac""",
        )

    def calls(self) -> list[str]:
        """Return the calls of installers since the last time: program and locks."""
        noted = self.checkout / "calls"
        lines = noted.read_text().splitlines() if noted.exists() else []
        noted.unlink(missing_ok=True)
        locked = [line for line in lines if not line.endswith("-r local-requirements.txt")]
        assert all("--require-hashes --only-binary :all:" in line for line in locked)
        return [
            " ".join((line.partition(" ")[0], *re.findall(r"(\w+)\.txt", line))) for line in lines
        ]

    def run_shell(self, script: str) -> str:
        """Run one function of the script by itself."""
        lines = (self.checkout / "crawlstream").read_text().splitlines()
        functions = [line for line in lines if line.startswith(("venv_stamp()", "asked_sets()"))]
        text = "\n".join(("root=$(pwd -P)", "venv=$root/.venv", *functions))
        (self.checkout / "stamp").write_text(f"{text}\n")
        done = subprocess.run(
            ["sh", "-c", script], cwd=self.checkout, capture_output=True, text=True, check=True
        )
        return done.stdout


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine that has nothing but a shell."""
    return Machine(tmp_path)


def test_without_python_nothing_goes(machine: Machine) -> None:
    """A Python that is missing, too old or too new is one sentence with its remedy."""
    machine.has("python3", "exit 1")
    done = machine.run("status")
    assert done.returncode == 1
    assert done.stderr == (
        "crawlstream: Python 3.11, 3.12 or 3.13 is missing: install one, or name its program in "
        "CRAWLSTREAM_PYTHON\n"
    )


def test_everything_that_is_missing_is_said_at_once(machine: Machine) -> None:
    """All missing programs are named at once, a line each, and nothing is begun."""
    machine.has(
        "python3", 'case "$*" in *ensurepip*) exit 1;; *print*) echo python3.11-venv;; esac'
    )
    machine.has("java", "echo 'openjdk version \"11.0.2\"' >&2")
    done = machine.run("up")
    assert done.returncode == 1
    lacks = [line for line in done.stderr.splitlines() if "is missing" in line]
    words = ("python3-venv", "redis-server", "Java 17 or later", "Maven")
    assert len(lacks) == len(words)
    assert all(word in line for word, line in zip(words, lacks, strict=True))
    assert not (machine.checkout / ".venv").exists()
    if Path("/etc/debian_version").exists():
        assert done.stderr.splitlines()[-1].startswith(
            "crawlstream: all at once, as root: apt-get install python3.11-venv redis-server "
        )


def test_a_verb_without_servers_needs_none(machine: Machine) -> None:
    """Requires only Python for verbs that start no server."""
    machine.has_venv()
    done = machine.run("feed", "a b", "--json")
    assert (done.returncode, done.stdout) == (0, "-P -m crawlstream_cli feed a b --json\n")


def test_servers_that_run_elsewhere_are_not_asked_for(machine: Machine) -> None:
    """Requires no servers here if all three are named, in the environment or in .env."""
    machine.has_venv(*EVERYTHING)
    (machine.checkout / ".env").write_text("REDIS_HOST=redis\n")
    hosts = {"KAFKA_HOSTS": "kafka:9092", "ZOOKEEPER_HOSTS": "zookeeper:2181"}
    assert machine.run("up", **hosts).returncode == 0
    assert machine.run("up", KAFKA_HOSTS="kafka:9092").returncode == 1
    # Tests start servers of their own all the same, proxies and a browser.
    done = machine.run("test", **hosts)
    assert done.returncode == 1
    assert "Chromium is missing, in which the dashboard is tested" in done.stderr
    assert "tinyproxy is missing, which the tests fetch pages through" in done.stderr
    assert "Chromium" not in machine.run("bench", "page", **hosts).stderr


def test_the_real_web_of_a_benchmark_can_be_named(machine: Machine) -> None:
    """A folder with an index.html serves as well as the documentation tree that is missing."""
    machine.has_venv(*EVERYTHING)
    machine.has("nginx", "")
    missing = "a documentation tree is missing"
    (machine.checkout / "index.html").touch()
    named = machine.run("bench", "crawl", BENCH_DOCS=str(machine.checkout)).stderr
    assert missing not in named
    assert missing not in machine.run("bench", "page", BENCH_DOCS="/nowhere").stderr
    (machine.programs / "nginx").unlink()
    if not Path("/usr/sbin/nginx").exists():
        said = machine.run("bench", "crawl", BENCH_DOCS=str(machine.checkout)).stderr
        assert "nginx is missing, which serves the real web of the benchmark" in said


def test_jars_are_fetched_once(machine: Machine) -> None:
    """Maven runs when there are no jars, or others are asked for, and a failure keeps nothing."""
    machine.has_venv()
    machine.has("java", "echo 'openjdk version \"17.0.1\"' >&2")
    machine.has("redis-server", "")
    machine.has("sha256sum", "")
    machine.has("mvn", "echo '[ERROR] no network'; exit 1")
    (machine.checkout / "docker" / "jars.sha256").touch()

    done = machine.run("up")
    assert done.returncode == 1
    assert done.stderr.splitlines()[1:] == [
        "no network",
        "crawlstream: Maven could not fetch Kafka and ZooKeeper; it says why above",
    ]

    machine.has("mvn", "exit 0")
    python = machine.checkout / ".venv" / "bin" / "python"
    python.write_text(f'{python.read_text()}echo "$@" >>called\n')
    assert "fetching" in machine.run("up").stderr
    jars = machine.checkout / ".crawlstream" / "jars"
    called = (machine.checkout / "called").read_text().splitlines()
    assert called == [f"-P -m crawlstream_cli.local.classes {jars}", "-P -m crawlstream_cli up"]
    machine.has("mvn", "exit 1")
    assert machine.run("up").stderr == ""
    pom = machine.checkout / "docker" / "pom.xml"
    pom.write_text(pom.read_text() + "<!-- newer -->")
    assert "fetching" in machine.run("up").stderr


def test_jars_that_are_others_than_expected_are_not_kept(machine: Machine) -> None:
    """The checksums of the repository decide, not the server that sends the jars."""
    machine.has_venv()
    machine.has("java", "echo 'openjdk version \"17.0.1\"' >&2")
    machine.has("redis-server", "")
    machine.has("mvn", "")
    machine.has("sha256sum", "exit 1")
    (machine.checkout / "docker" / "jars.sha256").touch()
    done = machine.run("up")
    assert done.returncode == 1
    assert "nothing was kept" in done.stderr
    assert not (machine.checkout / ".crawlstream" / "jars").exists()


def test_a_jar_that_nobody_has_named_is_not_kept(machine: Machine) -> None:
    """All jars of the folder are on the class path, so one more is as bad as another one."""
    machine.has_venv()
    machine.has("java", "echo 'openjdk version \"17.0.1\"' >&2")
    machine.has("redis-server", "")
    add = 'for word; do case $word in *outputDirectory=*) : >"${word#*=}/more.jar";; esac; done'
    machine.has("mvn", add)
    machine.has("sha256sum", "")
    (machine.checkout / "docker" / "jars.sha256").write_text(f"{'0' * 64}  other.jar\n")
    done = machine.run("up")
    assert done.returncode == 1
    assert "more.jar is not in docker/jars.sha256" in done.stderr
    assert not (machine.checkout / ".crawlstream" / "jars").exists()
    (machine.checkout / "docker" / "jars.sha256").write_text(f"{'0' * 64}  more.jar\n")
    machine.run("up")
    assert (machine.checkout / ".crawlstream" / "jars" / "more.jar").exists()


def test_a_venv_that_was_cut_short_is_made_anew(machine: Machine) -> None:
    """Makes a .venv without its stamp, which is written last, again."""
    machine.has_venv()
    (machine.checkout / ".venv" / ".stamp").unlink()
    machine.has("python3", 'case "$*" in "-m venv"*) echo "$@" >&2; exit 1;; esac')
    done = machine.run("status")
    assert "-m venv --clear" in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("configured", "uv_ends", "calls"),
    [
        ("", 0, ["pip build", "uv requirements"]),
        ("", 1, ["pip build", "uv requirements", "pip requirements"]),
        (":env:.index-url='https://mirror.example/simple'", 0, ["pip build", "pip requirements"]),
        ("global.cert='/a'", 0, ["pip build", "uv requirements"]),
    ],
)
def test_uv_installs_what_is_locked_and_pip_where_it_cannot(
    machine: Machine, configured: str, uv_ends: int, calls: list[str]
) -> None:
    """The first call of pip brings uv, at the locked version; an index of pip's is pip's to ask."""
    machine.installs(uv_ends, configured)
    done = machine.run("status")
    assert done.returncode == 0, done.stderr
    assert machine.calls() == calls
    assert ("takes some minutes" in done.stderr) == (uv_ends > 0)


def test_a_command_gets_what_it_needs_and_keeps_it(machine: Machine) -> None:
    """Adds the sets of a command and keeps them, also in a .venv that is made again."""
    machine.installs()
    assert "making .venv" in machine.run("status").stderr
    assert machine.calls() == ["pip build", "uv requirements"]
    assert machine.run("check", "--help").stderr == ""
    added = machine.run("check").stderr
    assert "bringing .venv up to date, with packages of the sets chaos delta dev docs" in added
    everything = f"requirements {' '.join(EVERYTHING)}"
    assert machine.calls() == ["pip build", f"uv {everything}"]
    assert machine.run("status").stderr == ""
    assert machine.run("install", "tls").stderr == ""
    assert machine.calls() == []

    lock = machine.checkout / "requirements" / "docs.txt"
    lock.write_text(lock.read_text() + "# newer")
    machine.run("status")
    assert machine.calls() == ["pip build", f"uv {everything}"]
    (machine.checkout / "local-requirements.txt").write_text("price-parser\n")
    assert "bringing .venv up to date" in machine.run("status").stderr
    assert machine.calls() == ["pip build", f"uv {everything}", "pip requirements"]
    (machine.checkout / ".venv" / ".stamp").unlink()
    assert "making .venv" in machine.run("status").stderr
    assert machine.calls() == ["pip build", f"uv {everything}", "pip requirements"]
    assert machine.run("status").stderr == ""


def test_a_set_that_does_not_exist_is_named_with_those_that_do(machine: Machine) -> None:
    """Names an unknown set and the known ones, before anything is installed."""
    done = machine.run("install", "parquet")
    assert done.returncode == 1
    sets = "build chaos delta dev docs extract iceberg mcp pipeline query tls traces"
    assert f"no set of packages 'parquet': {sets} are" in done.stderr
    assert not (machine.checkout / ".venv").exists()


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",), ("--version",)])
def test_the_list_of_verbs_needs_nothing_to_be_installed(
    machine: Machine, words: tuple[str, ...]
) -> None:
    """A person who looks first waits for nothing; the list is the one that they see later."""
    for name in ("utils", "cli", "chaos"):
        (machine.checkout / name).symlink_to(ROOT / name)
    machine.has("python3", f'exec "{sys.executable}" -S "$@"')
    done = machine.run(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (machine.checkout / ".venv").exists()
    if "--version" in words:
        assert done.stdout == f"{__version__}\n"
        return
    listed = re.findall(r"^  (\w+) +(\S.*)$", done.stdout, re.MULTILINE)
    assert listed == [(name, verb.summary) for name, verb in VERBS.items()]
    assert machine.run(*words, _CRAWLSTREAM_COMPLETE="complete_bash").stdout == ""


_UNOPTIMISED = 'case "$*" in *CONFIG_ARGS*) exit 1;; "-m venv"*) echo "$0" >&2; exit 1;; esac'
_OPTIMISED = 'case "$*" in "-m venv"*) echo "$0" >&2; exit 1;; esac'


def test_an_optimised_python_is_preferred(machine: Machine) -> None:
    """It makes .venv, though another one comes first; not where the user names that one."""
    machine.has("python3", _UNOPTIMISED)
    machine.has("python3.12", _OPTIMISED)
    preferred = machine.run("status").stderr
    assert "/python3.12\n" in preferred
    assert "without optimisation" not in preferred
    named = machine.run("status", CRAWLSTREAM_PYTHON="python3").stderr
    assert "/python3\n" in named
    assert "python3 was built without optimisation" in named


def test_what_a_linked_venv_leads_to_is_left_alone(machine: Machine, tmp_path: Path) -> None:
    """The .venv of another checkout is not emptied."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (machine.checkout / ".venv").symlink_to(elsewhere)
    machine.has("python3", 'case "$*" in "-m venv"*) echo emptied >&2;; esac')
    done = machine.run("status")
    assert (done.returncode, "emptied" in done.stderr) == (1, False)
    assert "is a link" in done.stderr


def test_two_scripts_at_once_make_one_venv(machine: Machine) -> None:
    """The second waits for what the first is making, and then finds it there."""
    for name in ("flock", "sleep", "chmod"):
        (machine.programs / name).symlink_to(shutil.which(name) or "")
    works = "#!/bin/sh\nsleep 1\n"
    machine.has(
        "python3",
        f"""case "$*" in "-m venv"*) echo made >>made; mkdir -p .venv/bin
        printf '{works}' >.venv/bin/python; chmod 755 .venv/bin/python;; esac""",
    )
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(machine.run, ["status", "status"]))
    assert [one.returncode for one in done] == [0, 0]
    assert (machine.checkout / "made").read_text() == "made\n"
    assert sum("waiting for another call" in one.stderr for one in done) == 1


def test_a_checkout_that_was_moved_is_made_ready_anew(machine: Machine) -> None:
    """A .venv knows its place; elsewhere it would run the code of the old one."""
    machine.has_venv()
    assert machine.run("status").returncode == 0
    moved = machine.checkout.with_name("moved")
    machine.checkout.rename(moved)
    machine.checkout = moved
    machine.has("python3", "exit 1")
    assert machine.run("status").returncode == 1
