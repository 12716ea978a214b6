"""The official SDKs, unmodified: whatever they give directly, they must give through the gateway.

usage: compare.py DIRECT_URL GATEWAY_URL
"""

import json
import sys

import anthropic
import openai

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TEXT = {"steps": [{"text": "Hello "}, {"text": "wörld"}, "comment", "ping", {"text": "!"}]}
TOOL = {"steps": [{"text": "Let me see."}, {"tool": {"name": "get_weather", "arguments": {"city": "Paris"}}}]}
# The SDKs try again by themselves unless told not to; what they report is the same.
ERRORS = {str(status): {"status": status, "headers": [["x-should-retry", "false"]]} for status in (400, 401, 404, 429, 500)}
BROKEN = {
    "malformed frame": {"steps": [{"text": "a"}, {"raw": "data: {not json}\n\n"}]},
    "error event": {"steps": [{"text": "a"}, {"raw": 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'}]},
}
MALFORMED_WHOLE = {"malformed body": {"body": "{not json"}}


def outcome(call):
    """What a call gives: its objects, or its exception with everything it says."""
    try:
        return call()
    except (openai.OpenAIError, anthropic.AnthropicError) as error:
        found = {"exception": type(error).__name__, "message": str(error)}
        for name in ("status_code", "body", "request_id", "code", "type"):
            found[name] = getattr(error, name, None)
        return found
    except ValueError as error:
        return {"exception": type(error).__name__, "message": str(error)}


def dump(thing):
    return json.loads(thing.model_dump_json()) if hasattr(thing, "model_dump_json") else thing


def stream(events):
    return [dump(event) for event in events]


def prompt(script):
    return "script:" + json.dumps(script)


def cases(url):
    """Every case: a name and what to call."""
    ai = openai.OpenAI(base_url=url + "/v1", api_key="sk-test", max_retries=0)
    claude = anthropic.Anthropic(base_url=url, api_key="sk-test", max_retries=0)
    function = {"name": "get_weather", "description": "The weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}

    def chat(script, **more):
        return ai.chat.completions.create(model="scripted", messages=[{"role": "user", "content": prompt(script)}], **more)

    def respond(script, **more):
        return ai.responses.create(model="scripted", input=prompt(script), **more)

    def message(script, **more):
        return claude.messages.create(model="scripted", max_tokens=100, messages=[{"role": "user", "content": prompt(script)}], **more)

    def accumulated():
        with claude.messages.stream(model="scripted", max_tokens=9, messages=[{"role": "user", "content": prompt(TOOL)}]) as events:
            return dump(events.get_final_message())

    def accumulated_response():
        with ai.responses.stream(model="scripted", input=prompt(TEXT)) as events:
            return dump(events.get_final_response())

    image_openai = [{"role": "user", "content": [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PIXEL}},
    ]}]
    image_responses = [{"role": "user", "content": [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64," + PIXEL},
    ]}]
    image_claude = [{"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
        {"type": "text", "text": "What is this?"},
    ]}]

    yield "chat image", lambda: dump(ai.chat.completions.create(model="scripted", messages=image_openai))
    yield "responses image", lambda: dump(ai.responses.create(model="scripted", input=image_responses))
    yield "messages image", lambda: dump(claude.messages.create(model="scripted", max_tokens=9, messages=image_claude))
    yield "messages accumulated", accumulated
    yield "responses accumulated", accumulated_response
    yield "chat usage", lambda: stream(chat(TEXT, stream=True, stream_options={"include_usage": True}))
    yield "chat tools", lambda: dump(chat(TOOL, tools=[{"type": "function", "function": function}]))
    yield "messages tools", lambda: stream(message(TOOL, stream=True, tools=[{"name": "get_weather", "input_schema": function["parameters"]}]))
    yield "responses tools", lambda: stream(respond(TOOL, stream=True, tools=[{"type": "function", **function}]))
    yield "models", lambda: [dump(model)["id"] for model in ai.models.list()]
    yield "count tokens", lambda: dump(claude.messages.count_tokens(model="scripted", messages=image_claude))
    tools = {
        "chat": [{"type": "function", "function": function}],
        "responses": [{"type": "function", **function}],
        "messages": [{"name": "get_weather", "input_schema": function["parameters"]}],
    }
    for api, create in (("chat", chat), ("responses", respond), ("messages", message)):
        # Calls with tools are part of a conversation: they take another way through the gateway.
        for kind, more in ((api, {}), (f"{api} with tools", {"tools": tools[api]})):
            for name, script in {"text": TEXT, "tool": TOOL, **ERRORS, **MALFORMED_WHOLE}.items():
                yield f"{kind} {name}", lambda create=create, script=script, more=more: dump(create(script, **more))
            for name, script in {"text": TEXT, "tool": TOOL, **ERRORS, **BROKEN}.items():
                yield f"{kind} stream {name}", lambda create=create, script=script, more=more: stream(create(script, stream=True, **more))


def expected(name, result):
    """That a case shows what it is meant to show, and not twice the same accident."""
    failed = result.get("exception") if isinstance(result, dict) else None
    last = name.split()[-1]
    if last.isdigit():
        return failed and result["status_code"] == int(last)
    if "malformed" in name:
        # Some SDKs pass over what they cannot read; then both must.
        return failed or not (name.startswith("chat") and name.endswith("stream malformed frame"))
    return "error event" in name or not failed


def limits(url):
    """A stream that falls silent raises what the SDKs raise for a failed stream, and the message names the limit."""
    ai = openai.OpenAI(base_url=url + "/v1", api_key="sk-test", max_retries=0)
    claude = anthropic.Anthropic(base_url=url, api_key="sk-test", max_retries=0)
    messages = [{"role": "user", "content": prompt({"steps": [{"text": "a"}, "stall"]})}]
    chat = outcome(lambda: stream(ai.chat.completions.create(model="short", messages=messages, stream=True)))
    message = outcome(lambda: stream(claude.messages.create(model="short", max_tokens=9, messages=messages, stream=True)))
    response = outcome(lambda: stream(ai.responses.create(model="short", input=messages[0]["content"], stream=True)))
    said = "idle timeout after 300 ms of inactivity"
    assert chat["exception"] == "APIError" and said in chat["message"], chat
    assert message["exception"].startswith("API") and said in message["message"], message
    assert response[-1]["type"] == "response.failed" and response[-1]["response"]["error"]["message"] == said, response[-1]


def main():
    direct, gateway = sys.argv[1:3]
    limits(gateway)
    different, total = [], 0
    for (name, one), (_, other) in zip(cases(direct), cases(gateway)):
        total += 1
        wanted, got = outcome(one), outcome(other)
        if wanted != got or not expected(name, wanted):
            different.append(f"{name}:\n  direct:  {wanted}\n  gateway: {got}")
    print("\n".join(different))
    print(f"{total - len(different)} of {total} the same")
    sys.exit(bool(different))


main()
