"""Broken files, each with the exact lines that a user gets."""

from pathlib import Path

import msgspec
import pytest

from trilogue.config.load import parse
from trilogue.errors import ConfigError

PROVIDER = "providers: {chat: {protocol: openai_chat_completions}}\n"

BROKEN = {
    "unknown key at the top": ("sever: {}\n", ['unknown key "sever" (did you mean "server"?) (line 1)']),
    "unknown key further down": (
        "server: {}\nlog: no\nproviders:\n  chat:\n    protocol: openai_responses\n    colour: red\n",
        ['unknown key "log" (did you mean "server.log"?) (line 2)', 'providers.chat: unknown key "colour" (line 6)'],
    ),
    "a setting of a provider at the top": (
        "prices: {'*': {input: 1, output: 2}}\nbase_url: http://x\n",
        [
            'unknown key "prices" (did you mean "providers.NAME.prices"?) (line 1)',
            'unknown key "base_url" (did you mean "providers.NAME.base_url"?) (line 2)',
        ],
    ),
    "a setting that is in several places": (
        "port: 8080\n",
        ['unknown key "port" (did you mean "server.port" or "admin.port"?) (line 1)'],
    ),
    "a setting of the server in a provider": (
        "providers:\n  chat: {protocol: chat, workers: 2}\n",
        ['providers.chat: unknown key "workers" (did you mean "server.workers"?) (line 2)'],
    ),
    "unknown key below": (
        "providers:\n  chat: {protocl: openai_responses}\n",
        ['providers.chat: unknown key "protocl" (did you mean "protocol"?) (line 2)'],
    ),
    "unknown key, nothing similar": (
        "server: {colour: red}\n",
        ['server: unknown key "colour" (line 1)'],
    ),
    "dash for underscore": (
        "providers: {chat: {protocol: openai_responses, base-url: x}}\n",
        ['providers.chat: unknown key "base-url" (did you mean "base_url"?) (line 1)'],
    ),
    "required setting missing": (
        "providers:\n  chat: {models: [a]}\n",
        ['providers.chat.protocol: is required, because "chat" is not the name of a preset (line 2)'],
    ),
    "required setting missing in a list": (
        PROVIDER + "routes:\n  - {provider: chat}\n",
        ["routes[0].match: is required (line 3)"],
    ),
    "not a URL": (
        "providers:\n  chat:\n    protocol: openai_responses\n    base_url: example.org/v1\n",
        ["providers.chat.base_url: must be an http(s) URL (line 4)"],
    ),
    "URL of another kind": (
        "providers: {a: {protocol: openai_responses, base_url: 'ftp://x/'}}\n",
        ["providers.a.base_url: must be an http(s) URL (line 1)"],
    ),
    "URL with a name that no server can have": (
        f"providers: {{a: {{protocol: openai_responses, base_url: 'http://{'ä' * 70}.example/'}}}}\n",
        ["providers.a.base_url: must be an http(s) URL (line 1)"],
    ),
    "proxy with a name that no server can have": (
        "providers: {a: {protocol: openai_responses, base_url: 'http://x/', accounts: [{proxies: ['http://a..b/']}]}}\n",
        ["providers.a.accounts[0].proxies[0]: must be an http, https, socks5 or socks5h URL (line 1)"],
    ),
    "URL with a broken port": (
        "providers: {a: {protocol: openai_responses, base_url: 'http://x:99999/'}}\n",
        ["providers.a.base_url: must be an http(s) URL (line 1)"],
    ),
    "URL with a password": (
        "providers: {a: {protocol: openai_responses, base_url: 'https://me:sesame@example.org'}}\n",
        ["providers.a.base_url: must not contain a user name or password; put the key into accounts (line 1)"],
    ),
    "URL with a key": (
        "providers: {a: {protocol: openai_responses, base_url: 'https://example.org/?key=sesame'}}\n",
        ["providers.a.base_url: must not contain a key; put it into accounts (line 1)"],
    ),
    "unset variable": (
        "keys: [env:NOT_SET]\n",
        ["keys[0]: environment variable NOT_SET is not set (line 1)"],
    ),
    "empty variable": ("keys: [env:EMPTY]\n", ["keys[0]: environment variable EMPTY is empty (line 1)"]),
    "no variable": (
        "keys:\n  - 'env:'\n",
        ["keys[0]: env: must be followed by the name of an environment variable (line 2)"],
    ),
    "secret where a variable should be": (
        "keys: ['env:sesame-sesame']\n",
        ["keys[0]: env: must be followed by the name of an environment variable (line 1)"],
    ),
    "missing file of a secret": (
        "providers: {a: {protocol: openai_responses, accounts: [{key: file:no.key}]}}\n",
        ["providers.a.accounts[0].key: cannot read the file no.key: No such file or directory (line 1)"],
    ),
    "key that is a number": (
        "keys: [12345]\n",
        ["keys[0]: must be settings (key: value) or text (line 1)"],
    ),
    "key with a line break": (
        'keys: ["a\\nb"]\n',
        ["keys[0]: must be printable ASCII without line breaks (line 1)"],
    ),
    "the same key twice": (
        "keys: [env:KEY, {key: env:KEY}]\n",
        ["keys[1]: is the same key as keys[0] (line 1)"],
    ),
    "the same name twice": (
        "keys: [{name: a, key: env:KEY}, {name: a, key: another-key}]\n",
        ['keys[1].name: "a" is used twice (line 1)'],
    ),
    "a key that can be guessed": (
        "keys: [env:KEY, x, '1234567', '12345678']\n",
        [
            "keys[1]: must have at least 8 characters (line 1)",
            "keys[2]: must have at least 8 characters (line 1)",
        ],
    ),
    "unknown protocol": (
        "providers: {a: {protocol: openai_response}}\n",
        [
            "providers.a.protocol: must be one of chat, messages, responses, openai_chat_completions, "
            'anthropic_messages, openai_responses (did you mean "openai_responses"?) (line 1)'
        ],
    ),
    "port as text": ("server: {port: '4000'}\n", ["server.port: must be a whole number from 0 to 65535 (line 1)"]),
    "port too high": ("server:\n  port: 70000\n", ["server.port: must be a whole number from 0 to 65535 (line 2)"]),
    "port as a truth": ("server: {port: yes}\n", ["server.port: must be a whole number from 0 to 65535 (line 1)"]),
    "no workers": ("server: {workers: 0}\n", ["server.workers: must be a whole number from 1 to 256 (line 1)"]),
    "timeout not above zero": (
        "server: {timeouts: {total: 0}}\n",
        ["server.timeouts.total: must be a number above 0 and at most 86400 (line 1)"],
    ),
    "timeout not a number": (
        "server: {timeouts: {connect: .nan, total: .inf}}\n",
        [
            "server.timeouts.connect: must be a number above 0 and at most 86400 (line 1)",
            "server.timeouts.total: must be a number above 0 and at most 86400 (line 1)",
        ],
    ),
    "keepalive too slow for clients": (
        "server: {keepalive_seconds: 60}\n",
        ["server.keepalive_seconds: must be a number above 0 and at most 15 (line 1)"],
    ),
    "host with a port": (
        "server: {host: '0.0.0.0:80'}\n",
        ["server.host: must be an IP address or a host name (line 1)"],
    ),
    "host in brackets": ("server: {host: '[::1]'}\n", ["server.host: must be an IP address or a host name (line 1)"]),
    "empty model": (
        PROVIDER + "routes: [{match: x, targets: [chat/]}]\n",
        ["routes[0].targets[0].model: must not be empty (line 2)"],
    ),
    "wrong word": ("mode: lenient\n", ["mode: must be one of declare, strict (line 1)"]),
    "flag that is none": ("repair_history: 1\n", ["repair_history: must be one of auto, true, false (line 1)"]),
    "list for a mapping": (
        "providers: [a]\nroutes: [{match: x, provider: a}]\n",
        ["providers: must be settings (name: value) (line 1)"],
    ),
    "mapping for a list": ("routes: {match: x}\n", ["routes: must be a list (line 1)"]),
    "text for settings": ("server: fast\n", ["server: must be settings (key: value) (line 1)"]),
    "empty provider": ("providers:\n  a:\n", ["providers.a: is empty (line 2)"]),
    "number for a name": (
        PROVIDER + "aliases: {1: chat/x, y: 2}\n",
        [
            'aliases: the name "1" must be text; put it in quotes (line 2)',
            "aliases.y: must be text; put it in quotes (line 2)",
        ],
    ),
    "unknown profile": (
        "providers: {a: {protocol: openai_responses, profile: opnai}}\n",
        [
            "providers.a.profile: must be one of auto, compatible, deepseek, openai, reasoning, think-tags "
            '(did you mean "openai"?) (line 1)'
        ],
    ),
    "unknown capability": (
        "providers: {a: {protocol: openai_responses, profile: {think_tag: true, efforts: [huge]}}}\n",
        [
            'providers.a.profile: unknown key "think_tag" (did you mean "think_tags"?) (line 1)',
            "providers.a.profile.efforts[0]: must be one of none, minimal, low, medium, high, xhigh, max (line 1)",
        ],
    ),
    "name with a slash": (
        "providers: {a/b: {protocol: openai_responses}}\n",
        [
            "providers.a/b: a provider's name must consist of at most 64 letters, digits, dots, dashes and underscores "
            "(line 1)"
        ],
    ),
    "headers of the gateway": (
        "providers: {a: {protocol: openai_responses, headers: {Host: x, Accept-Encoding: br, 'a b': y}}}\n",
        [
            "providers.a.headers.Host: is set by the gateway itself (line 1)",
            "providers.a.headers.Accept-Encoding: is set by the gateway itself (line 1)",
            "providers.a.headers: the name of a header must consist of letters, digits and dashes (line 1)",
        ],
    ),
    "accounts of the demo": (
        "providers: {demo: {protocol: openai_responses, base_url: 'demo:', accounts: [env:KEY]}}\n",
        ["providers.demo.accounts: the built-in model does not use accounts (line 1)"],
    ),
    "model that is no name": (
        'providers: {a: {protocol: openai_responses, models: ["", "a\\tb"]}}\n',
        [
            "providers.a.models[0]: must not be empty (line 1)",
            "providers.a.models[1]: must not contain control characters (line 1)",
        ],
    ),
    "route to nowhere": (
        PROVIDER + "routes:\n  - {match: x, provider: chta}\n  - {match: y}\n",
        [
            'routes[0].provider: there is no provider "chta" (did you mean "chat"?) (line 3)',
            'routes[1]: needs "provider" or "targets" (line 4)',
        ],
    ),
    "target to nowhere": (
        PROVIDER + "routes: [{match: x, targets: [chat/y, no/z]}]\n",
        ['routes[0].targets[1].provider: there is no provider "no" (line 2)'],
    ),
    "dangerous pattern": (
        PROVIDER + 'routes: [{match: "^(a+)+$", provider: chat}]\n',
        [
            "routes[0].match: must not repeat a group that has repetition or alternatives in it, such as (a+)+ or "
            "(a|b)*, which could take very long; use a set such as [ab]* or a glob (line 2)"
        ],
    ),
    "group that is not there": (
        PROVIDER + 'routes: [{match: "a-*", provider: chat, model: "$2"}]\n',
        ['routes[0].model: names "$2", which the pattern does not have (line 2)'],
    ),
    "aliases in a circle": (
        PROVIDER + "aliases:\n  a: b\n  b: a\n",
        ["aliases.a: goes in a circle: a -> b -> a (line 3)", "aliases.b: goes in a circle: b -> a -> b (line 4)"],
    ),
    "default that is not there": (
        PROVIDER + "default_provider: messages\n",
        ['default_provider: there is no provider "messages" (line 2)'],
    ),
    "short seal key": ("seal_keys: [env:KEY]\n", ["seal_keys[0]: must have at least 32 characters (line 1)"]),
    "the same setting twice": (
        "server:\n  port: 1\n  port: 2\nmode: strict\nmode: declare\n",
        ['server: the key "port" appears twice (line 3)', 'the key "mode" appears twice (line 5)'],
    ),
    "a list at the top": ("- a\n", ["the file must contain settings (key: value)"]),
    "a text at the top": ("hello\n", ["the file must contain settings (key: value)"]),
    "broken YAML": ("server: {port: 1\n", ["not valid YAML: expected ',' or '}', but got '<stream end>' (line 2)"]),
    "a tab": ("server:\n\tport: 1\n", ["not valid YAML: found character '\\t' that cannot start any token (line 2)"]),
    "two documents": ("a: 1\n---\nb: 1\n", ["not valid YAML: but found another document (line 2)"]),
    "unknown anchor": ("server: *nowhere\n", ["not valid YAML: found undefined alias '…' (line 1)"]),
    "code in a tag": (
        "server: !!python/object/apply:os.system [id]\n",
        ["not valid YAML: could not determine a constructor for the tag '…' (line 1)"],
    ),
    "impossible date": (
        "aliases: {x: 2024-99-99}\n",
        ["a number or date in the file is not valid; put text in quotes"],
    ),
    "key that is a list": ("? [a]\n: b\n", ["a key must be text (line 1)"]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_file(name: str, tmp_path: Path) -> None:
    """Every line names the setting, says what is wrong, and has the line number."""
    text, lines = BROKEN[name]
    with pytest.raises(ConfigError) as caught:
        parse(text.encode(), {"KEY": "a-client-key", "EMPTY": " "}, tmp_path)
    assert str(caught.value).splitlines() == lines
    assert "sesame" not in str(caught.value)


def test_there_are_many_broken_files() -> None:
    """The list of broken files is the specification of the error messages."""
    assert len(BROKEN) >= 30


def test_names_cannot_forge_lines(tmp_path: Path) -> None:
    """A name from the file is shown on one line, shortened, without control characters."""
    data = {"aliases": {"a\nmode: is fine": "x", "\x1b[31m": ""}, "default_provider": "y\n" * 1000}
    with pytest.raises(ConfigError) as caught:
        parse(msgspec.json.encode(data), {}, tmp_path)
    lines = str(caught.value).split("\n")
    assert len(lines) == len(caught.value.problems)
    assert all(line.isprintable() and len(line) < 700 for line in lines)


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    """Problems of types, secrets and routes are all reported at once, in the order of the file."""
    text = """
server: {port: http}
keys: [env:MISSING]
providers:
  chat: {protocl: openai_responses, base_url: nonsense}
routes:
  - {match: "^(", provider: chat}
  - {match: x, provider: nobody}
"""
    with pytest.raises(ConfigError) as caught:
        parse(text.encode(), {}, tmp_path)
    assert [(problem.path, problem.line) for problem in caught.value.problems] == [
        ("server.port", 2),
        ("keys[0]", 3),
        ("providers.chat", 5),
        ("providers.chat.base_url", 5),
        ("routes[0].match", 7),
        ("routes[1].provider", 8),
    ]


def test_endpoints_without_policies_are_named_exactly(tmp_path: Path) -> None:
    """A mistyped path would be allowed nowhere, and nobody would know."""
    text = "providers: {demo: {base_url: 'demo:'}}\nserver: {unjudged_endpoints: [/files, /v1/batches]}"
    with pytest.raises(ConfigError) as caught:
        parse(text.encode(), {}, tmp_path)
    assert "server.unjudged_endpoints[1]" in [problem.path for problem in caught.value.problems]
