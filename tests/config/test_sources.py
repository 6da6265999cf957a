"""Keys that change while the gateway runs, references of other programs, and `.env` files."""

import json
from pathlib import Path

import pytest

from tests.each import each
from trilogue.config.environment import with_dotenv
from trilogue.config.load import load, parse
from trilogue.config.references import resolve
from trilogue.errors import ConfigError
from trilogue.upstreams.sources import BadReference, CommandSource, FileSource, MissingSecret, Printed, read_printed

NOW = 1_800_000_000.0
PROVIDER = "providers: {up: {protocol: chat, base_url: 'http://h', %s}}"


def test_a_command_is_split_into_words(tmp_path: Path) -> None:
    """It is not run when the file is read, and two commands are two credentials."""
    secret = resolve("cmd:sh -c 'echo a b'", {}, tmp_path)
    assert secret.source == CommandSource(("sh", "-c", "echo a b"), tmp_path)
    assert secret.reveal() == ""
    assert secret
    assert secret != resolve("cmd:sh -c 'echo b'", {}, tmp_path)
    assert secret.fingerprint() != resolve("cmd:sh -c 'echo b'", {}, tmp_path).fingerprint()


@each(
    ("line", "text"),
    [
        ("", "must be followed by a command"),
        ("sh -c 'echo", "quotes"),
        ("no-such-program-anywhere --flag secret", "there is no program no-such-program-anywhere$"),
    ],
)
def test_commands_that_are_none(line: str, text: str) -> None:
    with pytest.raises(BadReference, match=text):
        resolve(f"cmd:{line}", {}, Path())


def test_commands_are_for_keys_of_accounts_only() -> None:
    """Nothing else is looked up again while the gateway runs."""
    parse((PROVIDER % "accounts: ['cmd:sh x']").encode(), {}, Path())
    for text in ("keys: ['cmd:sh x']", PROVIDER % "headers: {x-a: 'cmd:sh x'}"):
        with pytest.raises(ConfigError, match="cmd is possible for the keys of accounts only"):
            parse(text.encode(), {}, Path())


@each(
    ("output", "printed"),
    [
        (b"  token-1\n", Printed("token-1")),
        (json.dumps({"accessToken": "t", "expiresOn": "2027-01-15", "expires_on": NOW + 60}), Printed("t", 60)),
        (json.dumps({"access_token": "t", "expires_in": "3599", "token_type": "Bearer"}), Printed("t", 3599)),
        (json.dumps({"token": "t", "expiration": "2027-01-15T08:01:00Z"}), Printed("t", 60)),
        (json.dumps({"status": {"token": "t", "expirationTimestamp": "2027-01-15T08:02:00"}}), Printed("t", 120)),
        (json.dumps({"token": "t", "expires_in": None, "expiration": "soon"}), Printed("t", None)),
    ],
)
def test_what_commands_print(output: str | bytes, printed: Printed) -> None:
    """The key alone, or JSON that also says how long it can be used."""
    assert read_printed(output.encode() if isinstance(output, str) else output, NOW) == printed


@each("output", [b"", b" \n", b"{", b"{}", b'{"token": 1}', b'{"token": ""}', b"two\nlines", "schl\u00fcssel".encode()])
def test_output_without_a_key(output: bytes) -> None:
    """The error shows nothing of it."""
    with pytest.raises(BadReference) as caught:
        read_printed(output, NOW)
    assert "schl" not in str(caught.value)


def test_a_file_shows_that_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("one")
    source = resolve("file:key", {}, tmp_path).source
    assert isinstance(source, FileSource)
    before = source.stamp()
    path.with_name("new").write_text("three")
    path.with_name("new").replace(path)
    assert source.stamp() != before
    assert source.read() == "three"
    path.unlink()
    assert source.stamp() is None
    with pytest.raises(MissingSecret):
        source.read()


@each(
    "text",
    ["$MY_KEY", "${MY_KEY}", "${MY_KEY:-none}", "os.environ/MY_KEY", "env.MY_KEY", "{env:MY_KEY}", "{{ env.MY_KEY }}"],
)
def test_references_of_other_programs_are_explained(text: str) -> None:
    """Sent as keys, they would only get a 401 from the upstream."""
    for line in (f"keys: ['{text}']", PROVIDER % f"accounts: ['{text}']"):
        with pytest.raises(ConfigError, match=r"environment variables are written as env:MY_KEY here"):
            parse(line.encode(), {"MY_KEY": "some-long-key"}, Path())


def test_variables_in_an_address() -> None:
    with pytest.raises(ConfigError, match=r"base_url: must be an http\(s\) URL; variables can only hold secrets"):
        parse(b"providers: {up: {protocol: chat, base_url: '${URL}'}}", {}, Path())


def test_dotenv_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment comes first, then the file next to the configuration, then the one in the working directory."""
    monkeypatch.delenv("TRILOGUE_DOTENV")
    here, config = tmp_path / "here", tmp_path / "etc" / "trilogue.yaml"
    here.mkdir()
    config.parent.mkdir()
    monkeypatch.chdir(here)
    (here / ".env").write_text("A=here\nB=here\nC=here\nXDG_STATE_HOME=/elsewhere\n")
    config.with_name(".env").write_text("A=beside\nB=beside\n")
    assert with_dotenv({"A": "set", "E": ""}, config) == {"A": "set", "B": "beside", "C": "here", "E": ""}
    assert with_dotenv({}, None)["B"] == "here"
    assert with_dotenv({"TRILOGUE_DOTENV": "off"}, config) == {"TRILOGUE_DOTENV": "off"}
    config.write_text("providers: {up: {protocol: chat, base_url: 'http://h', accounts: [env:C]}}")
    (account,) = load(config, with_dotenv({}, config)).providers["up"].accounts
    assert account.key is not None
    assert account.key.reveal() == "here"


def test_the_lines_of_a_dotenv_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does not understand is skipped: the file may be for other programs too."""
    monkeypatch.chdir(tmp_path)
    Path(".env").write_text(
        "\ufeff# a comment\n\nA=plain # comment\nexport B = 'single # quoted'  # comment\r\n"
        r'C="double \"quoted\"\n"'
        "\n"
        "D=\nE=a#b\nF='unclosed\nnot a line\n1X=no\nG=$A\nA=last\n"
    )
    assert with_dotenv({}, None) == {
        "A": "last",
        "B": "single # quoted",
        "C": 'double "quoted"\n',
        "D": "",
        "E": "a#b",
        "F": "'unclosed",
        "G": "$A",
    }
