"""The policy `tools`: names, patterns, commands, paths, hosts and schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.each import each
from tests.policies.making import calls, request
from trilogue.model import (
    CallKind,
    ChoiceMode,
    FunctionTool,
    HostedKind,
    HostedTool,
    Native,
    Request,
    Text,
    ToolCall,
    ToolChoice,
    ToolRef,
)
from trilogue.policies import PolicyError, PolicyRun, call_of, judge_request, judge_response, load_policy
from trilogue.policies.shipped.commands import CommandRule, forbidden_by


def reason(settings: dict[str, Any], name: str, arguments: Any) -> str:
    """Return why a call is forbidden, or "" if it passes. Arguments that are text are raw."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    block = ToolCall(id="call_1", name=name, arguments=text)
    run = PolicyRun([load_policy({"use": "tools", **settings})])
    judged = judge_response(run, calls(block))
    forbidden = judged.blocks != (block,)
    assert forbidden is run.changed
    return run.records[-1].reason if forbidden else ""


@each(
    ("settings", "name", "passes"),
    [
        ({"deny": ["bash"]}, "bash", False),
        ({"deny": ["bash"]}, "Bash", False),
        ({"deny": ["bash"]}, "bash2", True),
        ({"deny": ["mcp__*"]}, "mcp__x__y", False),
        ({"allow": ["read", "mcp__*"]}, "read", True),
        ({"allow": ["read", "mcp__*"]}, "write", False),
        ({"allow": ["*"], "deny": ["write"]}, "write", False),
        ({"allow": []}, "read", False),
        ({}, "anything", True),
    ],
)
def test_names(settings: dict[str, Any], name: str, passes: bool) -> None:
    """Denied names win, and an empty list allows nothing."""
    assert (reason(settings, name, {}) == "") is passes


def rule(**fields: Any) -> dict[str, Any]:
    """Return settings with one rule."""
    return {"rules": [fields]}


RM = ["rm -rf", "git push --force", "sudo", "find -delete"]


@each(
    "command",
    [
        "rm -rf /",
        "rm -fr x",
        "rm -r -f x",
        "rm -R --force x",
        "rm --recursive --force -- x",
        "/bin/rm -rf x",
        "cd /data && rm -rf x",
        "ls;rm -rf x",
        "ls | xargs rm -rf",
        "find . -exec rm -rf {} +",
        "bash -c 'rm -rf x'",
        'sh -c "cd /; rm -rf x"',
        "echo $(rm -rf x)",
        'echo "$(rm -rf x)"',
        "echo `rm -rf x`",
        "A=1 rm -rf x",
        "env A=1 rm -rf x",
        "nohup rm -rf x &",
        "if true; then rm -rf x; fi",
        "r''m -rf x",
        r"r\m -rf x",
        "rm \\\n -rf x",
        "(rm -rf x)",
        "{ rm -rf x; }",
        "git push origin main --force",
        "sudo ls",
        "find . -name x -delete",
        "eval 'rm -rf x'",
        "timeout 5 rm -rf x",
        "ls\nrm -rf x",
        "echo don't; rm -rf x",
    ],
)
def test_forbidden_commands(command: str) -> None:
    """The same command in every spelling that a model might use."""
    assert forbidden_by(command, tuple(map(CommandRule.parse, RM))) is not None
    assert "is denied" in reason(rule(commands=RM), "bash", {"command": command})


@each(
    "command",
    [
        "rm x",
        "rm -r x",
        "rm -f x",
        "ls -rf",
        "find . -name deleted",
        "echo rm -rf",
        "echo 'rm -rf x'",
        "grep -rf patterns x",
        "git push origin main",
        "farm -rf x",
        "git commit -m 'remove rm -rf'",
        "",
        "'",
    ],
)
def test_other_commands_pass(command: str) -> None:
    """A rule fits nothing else."""
    assert forbidden_by(command, tuple(map(CommandRule.parse, ["rm -rf", "git push --force", "find -delete"]))) is None


def test_commands_of_any_length() -> None:
    """A command line that is too long to look at is forbidden, and a long one takes no time."""
    assert forbidden_by("x" * 200_000, (CommandRule.parse("rm -rf"),)) == 0
    assert forbidden_by("'" * 99_000, (CommandRule.parse("rm -rf"),)) is None
    assert forbidden_by("$(" * 40_000, (CommandRule.parse("rm -rf"),)) is None
    assert forbidden_by("sudo " + "a " * 40_000, (CommandRule.parse("rm -rf"),)) is None
    assert forbidden_by("sudo " + "rm " * 30_000, (CommandRule.parse("rm -rf"),)) == 0
    assert forbidden_by('sh "$(' + r"\"$(" * 15_000, (CommandRule.parse("rm -rf"),)) is None


@each(
    ("path", "passes"),
    [
        ("/srv/app/x.py", True),
        ("/srv/app", True),
        ("x.py", True),
        ("./a/../x.py", True),
        ("../x.py", False),
        ("a/../../x.py", False),
        ("/srv/app/../x", False),
        ("/srv/application/x", False),
        ("/etc/passwd", False),
        ("//etc/passwd", False),
        ("~/.ssh/id", False),
        ("C:\\Windows\\x", False),
        ("..\\..\\x", False),
        ("/data/x", True),
    ],
)
def test_paths(path: str, passes: bool) -> None:
    """Relative paths are taken from the first folder."""
    settings = rule(tools=["write"], inside=["/srv/app", "/data"])
    for field in ("path", "file_path", "notebook_path", "cwd"):
        assert (reason(settings, "write", {field: path}) == "") is passes
    assert (reason(rule(inside=["/srv/app", "/data"], argument="to"), "write", {"to": [path]}) == "") is passes
    assert reason(settings, "read", {"path": path}) == ""


@each(
    ("text", "passes"),
    [
        ("https://api.example.com/x", True),
        ("see https://example.com and https://api.example.com", True),
        ("https://evil.test/?https://example.com", False),
        ("https://example.com@evil.test/", False),
        ("https://example.com.evil.test/", False),
        ("curl http://EVIL.test", False),
        ("ftp://evil.test", False),
        ("https://[::1]/", False),
        ("https://[bad/", False),
        ("nothing", True),
    ],
)
def test_hosts(text: str, passes: bool) -> None:
    """URLs are found in any string."""
    settings = rule(hosts=["example.com", "*.example.com"])
    assert (reason(settings, "bash", {"a": [{"b": text}]}) == "") is passes


@each(
    ("text", "passes"),
    [
        ("https://docs.python.org", True),
        ("https://docs.python.org:443/3/?a=b@c#d", True),
        (" https://docs.python.org/3\n", True),
        ("Read https://docs.python.org/3, then (https://docs.python.org).", True),
        ("https://docs.python.org\t@evil.com", False),
        ("https://docs.python.org\n@evil.com", False),
        ("https://docs.python.org @evil.com", False),
        ("https://docs.python.org\u00a0@evil.com", False),
        ("https://docs.python.org:x@evil.com/", False),
        ("https://docs.python.org\\@evil.com", False),
        ("https:\\\\evil.com", False),
        ("https:/evil.com", False),
        ("https:evil.com", False),
        ("https:///evil.com", False),
        ("ht\ttps://evil.com", False),
        ("HTTPS://evil.com", False),
        ("//evil.com/x", False),
        ("\\\\evil.com\\x", False),
        ("https://ev\u00adil.com", False),
        ("https://docs.python.org%2eevil.com", False),
        ("https://docs.python.org\u3002evil.com", False),
        ("https://docs.python.org,evil.com", False),
        ("http://2130706433/", False),
        ("http://127.1/", False),
        ("http://0x7f.0.0.1/", False),
        ("file:///etc/passwd", False),
        ("view-source:https://evil.com", False),
        ("https://docs.python.org).evil.com", False),
        ('https://docs.python.org".evil.com', False),
    ],
)
def test_urls_that_programs_read_in_different_ways(text: str, passes: bool) -> None:
    """What cannot be decided is refused, wherever it is."""
    settings = rule(hosts=["docs.python.org"])
    for arguments in ({"url": text}, {"a": [{"deep": text}]}, {text: 1}):
        assert (reason(settings, "fetch", arguments) == "") is passes
    assert reason(rule(hosts=["127.0.0.1"]), "fetch", {"url": "http://127.0.0.1:80/x"}) == ""


@each(
    ("arguments", "passes"),
    [
        ({"target_file": "/etc/x"}, False),
        ({"dest": "/etc/x"}, False),
        ({"uri": "file:///etc/x"}, False),
        ({"uri": "FILE:/srv/app/../../etc/x"}, False),
        ({"uri": "file://host/srv/app/x"}, False),
        ({"uri": "file:///srv/app/%2e%2e/%2e%2e/etc/x"}, False),
        ({"uri": "file:///srv/app/a%20b"}, True),
        ({"paths": ["a.py", ["/etc/x"]]}, False),
        ({"paths": ["a.py", "b/c.py"], "mode": "w", "count": 3}, True),
        ({"path": "$HOME/x"}, False),
        ({"path": "${HOME}/x"}, False),
        ({"path": "a/$(pwd)"}, False),
        ({"path": "%USERPROFILE%\\x"}, False),
        ({"path": " /etc/x"}, False),
        ({"path": "\n/etc/x"}, False),
        ({"path": "'/etc/x'"}, False),
        ({"path": "\u200b/etc/x"}, False),
        ({"path": "%2fetc%2fx"}, False),
        ({"path": "..%2f..%2fx"}, False),
        ({"path": "\uff0fetc/x"}, False),
        ({"path": ".. /.. /x"}, False),
        ({"path": "~root/x"}, False),
        ({"path": "a\0b"}, False),
        ({"path": "C:x"}, False),
        ({"path": "\\\\server\\share"}, False),
        ({"files": {"/etc/x": "text"}}, False),
        ({"command": "cat a.py | tee /etc/x"}, False),
        ({"command": "ls /"}, False),
        ({"command": "cat --file=../../x"}, False),
        ({"command": "pytest -q tests/policies"}, True),
        ({"file_path": "a.py", "content": "/* a */\nopen('/etc/x')\n"}, True),
        ({"path": "a.py", "old_string": "// a", "new_string": "/b"}, True),
        ({"patch": "*** Begin Patch\n*** Update File: a.py\n-// a\n+/etc\n*** End Patch"}, True),
        ({"patch": "*** Begin Patch\n*** Update File: /etc/x\n+a\n*** End Patch"}, False),
        ({"diff": "--- a/x.py\n+++ b/x.py\n@@\n+// b"}, True),
        ({"diff": "--- a/x.py\n+++ b/../../x.py\n@@\n+b"}, False),
        ({"url": "https://example.com/a", "question": "Q: why?"}, True),
    ],
)
def test_everything_that_can_be_a_path(arguments: dict[str, Any], passes: bool) -> None:
    """In fields of any name and at any depth; what cannot be decided is refused."""
    assert (reason(rule(inside=["/srv/app"]), "write", arguments) == "") is passes


def test_folders_with_a_variable() -> None:
    """A folder may be spelled with `~` or a variable; the path must be spelled in the same way."""
    settings = rule(inside=["$HOME/app", "~/app"])
    for path, passes in (("$HOME/app/x", True), ("~/app", True), ("$HOME/app/../x", False), ("~/application", False)):
        assert (reason(settings, "write", {"path": path}) == "") is passes


def test_bare_hosts() -> None:
    """A field that holds a host, or the argument that a rule names."""
    assert reason(rule(hosts=["example.com"]), "fetch", {"host": "evil.test"})
    assert reason(rule(hosts=["example.com"], argument="to"), "fetch", {"to": "evil.test:443"})
    assert not reason(rule(hosts=["example.com"], argument="to"), "fetch", {"to": "example.com:443"})
    assert reason(rule(hosts=[]), "fetch", {"url": "https://example.com"})


def test_patterns() -> None:
    """Denied patterns in any string, allowed ones in the argument that a rule names."""
    assert reason(rule(deny=["DROP TABLE"]), "sql", {"q": ["x", "DROP TABLE users"]})
    assert not reason(rule(deny=["DROP TABLE"]), "sql", {"q": "SELECT 1"})
    assert reason(rule(deny=["secret"]), "sql", {"secret": 1}), "names of fields count"
    assert reason(rule(allow=["^SELECT "], argument="q"), "sql", {"q": "DELETE"})
    assert not reason(rule(allow=["^SELECT "], argument="q"), "sql", {"q": "SELECT 1", "other": "x"})
    assert not reason(rule(deny=["x"], argument="q"), "sql", {"other": "x"})


SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 1, "maximum": 3},
        "s": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
        "k": {"enum": ["a", 1, None]},
        "l": {"type": "array", "items": {"$ref": "#/$defs/item"}, "minItems": 1, "maxItems": 2},
        "o": {"oneOf": [{"type": "string"}, {"const": True}]},
        "x": {"not": {"type": "null"}},
    },
    "required": ["n"],
    "additionalProperties": False,
    "$defs": {"item": {"anyOf": [{"type": "number"}, {"type": "boolean"}]}},
}


@each(
    ("arguments", "passes"),
    [
        ({"n": 1}, True),
        ({"n": 2.0}, True),
        ({"n": 4}, False),
        ({"n": True}, False),
        ({"n": "1"}, False),
        ({}, False),
        ({"n": 1, "other": 1}, False),
        ({"n": 1, "s": "abc"}, True),
        ({"n": 1, "s": "abcd"}, False),
        ({"n": 1, "s": "A"}, False),
        ({"n": 1, "k": 1}, True),
        ({"n": 1, "k": True}, False),
        ({"n": 1, "l": [1, False]}, True),
        ({"n": 1, "l": []}, False),
        ({"n": 1, "l": ["x"]}, False),
        ({"n": 1, "o": True}, True),
        ({"n": 1, "o": False}, False),
        ({"n": 1, "x": None}, False),
    ],
)
def test_schemas(arguments: dict[str, Any], passes: bool) -> None:
    """The keywords that tool schemas use."""
    assert (reason(rule(schema=SCHEMA), "t", arguments) == "") is passes


@pytest.mark.parametrize("settings", [rule(schema=SCHEMA), rule(allow=["x"]), rule(inside=["/srv"])])
def test_arguments_that_are_not_json(settings: dict[str, Any]) -> None:
    """They cannot fit a rule that says what is allowed."""
    assert reason(settings, "t", '{"path": "/srv/x') == "the arguments are not a JSON object"


def test_raw_text_is_judged_as_text() -> None:
    """Free-text tools, and JSON that was cut off."""
    assert reason(rule(deny=["DROP"]), "t", "DROP it")
    assert reason(rule(commands=["rm -rf"]), "t", "rm -rf x")
    assert reason(rule(hosts=["example.com"]), "t", "https://evil.test")
    assert not reason(rule(hosts=["example.com"], deny=["DROP"], commands=["rm -rf"]), "t", "hello")
    custom = ToolCall(id="c", name="patch", arguments='{"a": 1}', kind=CallKind.CUSTOM)
    call = call_of(custom)
    assert call is not None
    assert call.arguments == '{"a": 1}'


@each(
    "arguments",
    [
        '{"command": "rm -rf /"',
        '{"command": "rm -rf /',
        '{"command": "rm \\u002drf /"',
        '{"command": "echo a && rm -rf /\\',
        "{'command': 'rm -rf /'}",
        '{"command": rm -rf /}',
        '```json\n{"command": "rm -rf /"}\n```',
        '["rm", "-rf", "/"]',
        '{"command": ["rm", "-rf", "/"]}',
        '{"action": {"exec": ["sudo", "rm", "-r", "-f", "/"]}}',
    ],
)
def test_a_command_cannot_hide_in_broken_json_or_in_a_list(arguments: str) -> None:
    """Some clients repair JSON, and some tools take the words of a command as a list."""
    assert reason(rule(commands=["rm -rf"]), "t", arguments) == "the command rm -rf is denied"
    assert not reason(rule(commands=["rm -rf"]), "t", arguments.replace("rm", "ls"))


@each("arguments", ['{"url": "https:\\/\\/evil.test\\/x"', '{"host": "evil.test"', '{"host": "evil.test'])
def test_a_host_cannot_hide_in_broken_json(arguments: str) -> None:
    assert reason(rule(hosts=["example.com"]), "t", arguments) == "a host is not allowed"
    assert not reason(rule(hosts=["example.com"]), "t", arguments.replace("evil.test", "example.com"))


def test_built_in_shell_calls_are_judged() -> None:
    """Calls that only one protocol has come as native blocks."""
    shell = Native(type="shell_call", data={"action": {"commands": ["rm -rf /"]}}, awaits_client=True)
    run = PolicyRun([load_policy({"use": "tools", **rule(commands=["rm -rf"])})])
    assert isinstance(judge_response(run, calls(shell)).blocks[0], Text)


def test_words_and_reason_are_configurable() -> None:
    """The client reads them, and so does the model in the next turn."""
    entry = {"use": "tools", "deny": ["x"], "words": "{what}: {reason}! Ask first."}
    run = PolicyRun([load_policy(entry)])
    judged = judge_response(run, calls(ToolCall(id="c", name="x")))
    assert judged.blocks == (Text(text="The call of x: the tool is denied! Ask first."),)
    assert reason(rule(deny=["a"], reason="no a"), "t", {"a": "a"}) == "no a"


def offering() -> Request:
    """Return a request that offers tools and asks for one of them."""
    tools = (
        FunctionTool(name="bash"),
        FunctionTool(name="read"),
        HostedTool(kind=HostedKind.WEB_SEARCH, native={}, type="web_search"),
    )
    choice = ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(name="bash"))
    ask = request("hi")
    return Request(protocol=ask.protocol, model="m", turns=ask.turns, tools=tools, tool_choice=choice)


def test_denied_tools_can_be_hidden() -> None:
    """A tool that is not offered cannot be asked for either."""
    changed = judge_request(PolicyRun([load_policy({"use": "tools", "deny": ["bash"], "hide": True})]), offering())
    assert changed is not None
    assert [getattr(tool, "name", "") for tool in changed.tools] == ["read", None]
    assert changed.tool_choice is None
    shown = judge_request(PolicyRun([load_policy({"use": "tools", "deny": ["bash"]})]), offering())
    assert shown == offering()


@each(
    ("settings", "message"),
    [
        (rule(deny=["("]), "rules[0].deny[0]: not a regular expression"),
        (rule(deny=["a*"]), "rules[0].deny[0]: the pattern matches an empty text"),
        (rule(commands=[" "]), "rules[0].commands: a command is empty"),
        (rule(schema={"if": {}}), "rules[0].schema: the keyword if is not supported"),
        (rule(schema={"properties": {"a": {"type": 5}}}), "rules[0].schema.properties.a.type: has the wrong type"),
        (rule(schema={"$ref": "http://x"}), "rules[0].schema.$ref: only references"),
        (rule(schema={"items": 5}), "rules[0].schema.items: a schema must be an object"),
        ({"instead": "shout"}, "instead: Invalid enum value 'shout'"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    """One line that names the setting."""
    with pytest.raises(PolicyError) as caught:
        load_policy({"use": "tools", **settings})
    assert f"policy (tools): {message}" in str(caught.value)
    assert "\n" not in str(caught.value)
