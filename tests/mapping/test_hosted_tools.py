"""Tools that the provider runs, as a client offers them (docs/mapping.md: Hosted tools)."""

from tests.mapping.cases import ABSENT, USER, Ask, check_ask, like, rows
from tests.mapping.hosted import MCP, MCP_SERVER, MCP_TOOLSET, PLACE, SEARCH, hosted

SEARCHES = (
    Ask("web search", "M>R", {"tools": [SEARCH["M"]]}, {"tools": hosted("web_search")}, may="web_search.params"),
    Ask("web search", "R>M", {"tools": [SEARCH["R"]]}, {"tools": hosted("web_search_2")}, may="web_search.params"),
    Ask(
        "allowed domains",
        "M>R",
        {"tools": [{**SEARCH["M"], "allowed_domains": ["a.com"]}]},
        {"tools[0].filters.allowed_domains": ["a.com"]},
        may="web_search.params",
    ),
    Ask(
        "allowed domains",
        "R>M",
        {"tools": [{**SEARCH["R"], "filters": {"allowed_domains": ["a.com"]}}]},
        {"tools[0].allowed_domains": ["a.com"]},
        may="web_search.params",
    ),
    Ask("blocked domains", "M>R", {"tools": [{**SEARCH["M"], "blocked_domains": ["a.com"]}]}, declared="tools[0]"),
    Ask(
        "place",
        "M>R",
        {"tools": [{**SEARCH["M"], "user_location": PLACE}]},
        {"tools[0].user_location": like(city="Rome", country="IT")},
        may="web_search.params",
    ),
    Ask(
        "place",
        "R>M",
        {"tools": [{**SEARCH["R"], "user_location": PLACE}]},
        {"tools[0].user_location": like(city="Rome", country="IT")},
        may="web_search.params",
    ),
    Ask(
        "uses at most",
        "M>R",
        {"tools": [{**SEARCH["M"], "max_uses": 3}]},
        {"max_tool_calls": 3},
        lost="web_search.params",
    ),
    Ask(
        "size of the search",
        "R>M",
        {"tools": [{**SEARCH["R"], "search_context_size": "high"}]},
        {"tools[0].search_context_size": ABSENT},
        lost="web_search.params",
    ),
    Ask(
        "options",
        "C>R",
        {"web_search_options": {"search_context_size": "low"}},
        {"tools[0]": like(type="web_search", search_context_size="low")},
    ),
    Ask(
        "options",
        "C>M",
        {"web_search_options": {"search_context_size": "low"}},
        {"tools": hosted("web_search_2")},
        lost="web_search.params",
    ),
    Ask("web search", "M>C", {"tools": [SEARCH["M"]]}, declared="tools[0]"),
    Ask("web search", "R>C", {"tools": [SEARCH["R"]]}, declared="tools[0]"),
)

OWN_SEARCH = {
    "type": "function",
    "name": "web_search",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}
OTHERS = (
    Ask(
        "a search twice",
        "R>M",
        {"tools": [SEARCH["R"], {"type": "web_search_preview", "user_location": PLACE}]},
        {"tools": hosted("web_search_2"), "tools[1]": ABSENT},
        lost="tool.hosted_dropped",
    ),
    Ask(
        "a search twice",
        "R>C",
        {"tools": [OWN_SEARCH, SEARCH["R"], {"type": "web_search_preview", "user_location": PLACE}]},
        {"tools[0].function.name": "web_search", "tools[1]": ABSENT},
        declared="tools[2]",
    ),
    *(
        Ask(
            "a search, and a tool of the client by its name",
            "R>M",
            {"tools": tools},
            {"tools[0].input_schema": {"type": "object", "properties": {}}, "tools[1]": ABSENT},
            lost="tool.hosted_dropped",
        )
        for tools in ([OWN_SEARCH, SEARCH["R"]], [SEARCH["R"], OWN_SEARCH])
    ),
    *(
        Ask(
            "web fetch", f"M>{p}", {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]}, declared="tools[0]"
        )
        for p in "CR"
    ),
    Ask(
        "code execution",
        "M>R",
        {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]},
        {"tools[0].type": "code_interpreter"},
        lost="code_exec.container",
    ),
    Ask(
        "code execution",
        "R>M",
        {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]},
        {"tools": hosted("code_execution_")},
        lost="code_exec.container",
    ),
    Ask(
        "files of a container",
        "R>M",
        {"tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file_1"]}}]},
        declared="tools[0]",
    ),
    *(
        Ask(
            "file search",
            f"R>{p}",
            {"tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]},
            declared="tools[0]",
        )
        for p in "CM"
    ),
    Ask(
        "remote tools",
        "M>R",
        {"mcp_servers": [MCP_SERVER], "tools": [MCP_TOOLSET]},
        {"tools[0]": like(type="mcp", server_label="files", server_url="https://mcp.example.com", authorization="tok")},
    ),
    Ask(
        "remote tools",
        "R>M",
        {"tools": [MCP]},
        {
            "mcp_servers[0]": like(type="url", name="files", url="https://mcp.example.com", authorization_token="tok"),
            "tools[0]": like(type="mcp_toolset", mcp_server_name="files"),
        },
    ),
    Ask("remote tools with approval", "R>M", {"tools": [{**MCP, "require_approval": "always"}]}, declared="tools[0]"),
    Ask("remote tools", "R>C", {"tools": [MCP]}, declared="tools[0]"),
    Ask("remote tools", "M>C", {"mcp_servers": [MCP_SERVER], "tools": [MCP_TOOLSET]}, declared="tools[0]"),
    *(Ask("pictures", f"R>{p}", {"tools": [{"type": "image_generation"}]}, declared="tools[0]") for p in "CM"),
    *(Ask("computer", f"R>{p}", {"tools": [{"type": "computer"}]}, declared="tools[0]") for p in "CM"),
)

FETCH = {"type": "web_fetch_20250910", "name": "web_fetch", "max_uses": 2, "allowed_domains": ["a.com"]}
ROUTER = {"allowed_domains": ["a.com"], "search_context_size": "low", "user_location": PLACE, "engine": "exa"}
FUNCTION = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}, "strict": False}
ASKING = {**MCP, "require_approval": "always"}
NEAREST = (
    Ask(
        "a fetch alone",
        "M>R",
        {"tools": [FETCH]},
        {"tools[0]": like(type="web_search", filters={"allowed_domains": ["a.com"]}), "tools[1]": ABSENT},
        lost="tool.hosted_replaced",
        may="web_search.params",
    ),
    Ask(
        "a fetch beside a search",
        "M>R",
        {"tools": [FETCH, SEARCH["M"]]},
        {"tools[0].type": "web_search", "tools[1]": ABSENT},
        lost="tool.hosted_replaced",
        may="web_search.params",
    ),
    *(
        Ask(
            "OpenRouter's search",
            f"C>{p}",
            {"tools": [{"type": "openrouter:web_search", "parameters": ROUTER}]},
            {"tools": hosted("web_search")},
            lost="tool.option",
            may="web_search.params",
        )
        for p in "MR"
    ),
    *(
        Ask(
            "an advisor",
            f"M>{p}",
            {"tools": [{"type": "advisor_20260301", "name": "advisor"}]},
            {"tools": ABSENT},
            lost,
        )
        for p in "CR"
        for lost in ("tool.hosted_dropped",)
    ),
    Ask(
        "an MCP server that asks first, beside functions",
        "R>M",
        {"tools": [ASKING, FUNCTION]},
        {"tools[0].name": "look", "tools[1]": ABSENT, "mcp_servers": ABSENT},
        lost="tool.hosted_dropped",
    ),
    Ask("an MCP server that asks first, alone", "R>M", {"tools": [ASKING]}, refused="tools[0]"),
    Ask(
        "a tool that nobody else has, beside one that is carried",
        "R>M",
        {"tools": [SEARCH["R"], {"type": "file_search", "vector_store_ids": ["v"]}]},
        {"tools[0].name": "web_search", "tools[1]": ABSENT},
        lost="tool.hosted_dropped",
    ),
    *(
        Ask(
            "token probabilities that are only included",
            f"R>{p}",
            {"include": ["message.output_text.logprobs"]},
            lost="logprobs.dropped",
            model=model,
        )
        for p, model in (("M", "claude-opus-5"), ("C", "gpt-5"))
    ),
    *(
        Ask(
            "the assistant speaks first",
            f"{p}>M",
            {field: [{"role": "assistant", "content": "Hello."}, USER]},
            {"messages[0].role": "user", "messages[1].role": "assistant", "messages[2].role": "user"},
            lost="turn.inserted",
        )
        for p, field in (("C", "messages"), ("R", "input"))
    ),
)

CASES = (*NEAREST, *SEARCHES, *OTHERS)


@rows(CASES)
def test_row(case: Ask) -> None:
    """The nearest tool of the other provider, or a word that there is none."""
    check_ask(case)
