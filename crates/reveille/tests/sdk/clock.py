"""The official SDKs, unmodified, behind a gateway that has the clock: schedule, list, clear, be reminded.

usage: clock.py GATEWAY_URL; says on its output when the clock is to be moved.
"""

import json
import sys
import urllib.request

import anthropic
import openai

URL = sys.argv[1]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
CHAT_TOOL = {"type": "function", "function": {"name": "get_weather", "description": "w", "parameters": SCHEMA, "strict": True}}
RESPONSES_TOOL = {"type": "function", "name": "get_weather", "description": "w", "parameters": SCHEMA, "strict": True}
MESSAGES_TOOL = {"name": "get_weather", "description": "w", "input_schema": SCHEMA}


def says(text):
    return {"steps": [{"text": text}]}


def clock(**arguments):
    return {"tool": {"name": "clock", "arguments": arguments}}


def later(task, length):
    return clock(action="schedule", items=[{"task": task, "in": length}])


def script(plan):
    return "script:" + json.dumps(plan)


def user(*texts):
    return [{"role": "user", "content": text} for text in texts]


def advance(seconds):
    print(f"advance {seconds}", flush=True)
    assert sys.stdin.readline() == "done\n"


def advance_when_held(seconds):
    print(f"advance {seconds} when held", flush=True)


def post(path, body=None):
    data = body and json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


class Chat:
    """Each of these asks and gives: the texts, the reason, the output tokens."""

    name = "chat"

    def ask(self, session, messages, stream):
        ai = openai.OpenAI(base_url=URL + "/v1", api_key="sk", max_retries=0, default_headers={"x-reveille-session": session})
        more = {"model": "scripted", "messages": messages, "tools": [CHAT_TOOL]}
        if stream:
            with ai.chat.completions.stream(stream_options={"include_usage": True}, **more) as events:
                for _ in events:
                    pass
                done = events.get_final_completion()
        else:
            done = ai.chat.completions.create(**more)
        choice = done.choices[0]
        assert not choice.message.tool_calls
        return choice.message.content.split("\n\n"), choice.finish_reason, done.usage.completion_tokens


class Responses:
    name = "responses"

    def ask(self, session, messages, stream):
        ai = openai.OpenAI(base_url=URL + "/v1", api_key="sk", max_retries=0, default_headers={"x-reveille-session": session})
        more = {"model": "scripted", "input": messages, "tools": [RESPONSES_TOOL]}
        if stream:
            with ai.responses.stream(**more) as events:
                for _ in events:
                    pass
                done = events.get_final_response()
        else:
            done = ai.responses.create(**more)
        assert all(item.type == "message" for item in done.output), done.output
        reason = {"completed": "stop"}.get(done.status)
        return [item.content[0].text for item in done.output], reason, done.usage.output_tokens


class Messages:
    name = "messages"

    def ask(self, session, messages, stream):
        claude = anthropic.Anthropic(base_url=URL, api_key="sk", max_retries=0, default_headers={"x-reveille-session": session})
        more = {"model": "scripted", "max_tokens": 100, "messages": messages, "tools": [MESSAGES_TOOL]}
        if stream:
            with claude.messages.stream(**more) as events:
                for _ in events:
                    pass
                done = events.get_final_message()
        else:
            done = claude.messages.create(**more)
        assert all(block.type == "text" for block in done.content), done.content
        reason = {"end_turn": "stop"}.get(done.stop_reason)
        return [block.text for block in done.content], reason, done.usage.output_tokens


def manages(ask, session):
    """Schedules, lists, cancels what is not there, clears: four hidden rounds, one answer."""
    plan = {
        "steps": [{"text": "One "}, {"text": "moment."}, later("tea", "1h")],
        "then": [
            {"steps": [clock(action="list")]},
            {"steps": [clock(action="cancel", taskId="task_nowhere")]},
            {"steps": [clock(action="clear")]},
            says("Done."),
        ],
    }
    return ask(session, user(script(plan))), (["One moment.", "Done."], "stop", 7)


def cancels(ask, session):
    """One of two, by its id; the other is cleared, so that nothing is left to wait for."""
    items = [{"task": task, "in": 3600} for task in ("茶", "cake")]
    made = post(f"/api/sessions/{session}/tools/clock", {"action": "schedule", "items": items})
    plan = {"steps": [clock(action="cancel", taskId=made["scheduled"][0]["taskId"])], "then": [{"steps": [clock(action="clear")]}, says("Gone.")]}
    got = ask(session, user(script(plan)))
    events = [entry["event"] for entry in post(f"/api/history?session={session}")["entries"]]
    assert events.count("reminder.cancelled") == 2, events
    return got, (["Gone."], "stop", 3)


def reminded_later(ask, session):
    """What came due meanwhile is one more message for the model; over Chat it lengthens the last one, as many templates want."""
    post(f"/api/sessions/{session}/tools/clock", {"action": "schedule", "items": [{"task": "tea", "in": 3600}]})
    advance(3600)
    first, _, _ = ask(session, user("hello"))
    second, reason, tokens = ask(session, user("hello"))
    told = 1 if session.startswith("chat") else 2
    return (first + second, reason, tokens), ([f"Hello! {told} messages, 2 tools, 0 images", "Hello! 1 messages, 2 tools, 0 images"], "stop", 2)


def reminded_in_a_held_turn(ask, session):
    """Scheduled by the model, held until it is due, continued in the same answer."""
    plan = {"steps": [later("tea", "200s")], "then": [says("I will."), says("Tea time!")]}
    advance_when_held(140)
    return ask(session, user(script(plan))), (["I will.", "Tea time!"], "stop", 3)


def continued_by_a_stop_message(ask, session):
    plan = {"steps": [{"text": "one"}], "then": [says("two"), says("three")]}
    messages = user('go <**stopMessage:"and now?",2**>', script(plan))
    return ask(session, messages), (["one", "two", "three"], "stop", 3)


def first_the_stop_message_then_the_hold(ask, session):
    plan = {"steps": [later("tea", "200s")], "then": [says("one"), says("two"), says("tea")]}
    messages = user('<**stopMessage:"and now?",1**>', script(plan))
    advance_when_held(140)
    return ask(session, messages), (["one", "two", "tea"], "stop", 4)


def shows():
    """Calls in the open: a server's own items in the SDKs' objects, and a history that can be sent again."""
    plan = {"steps": [{"text": "One."}, clock(action="list")], "then": [says("Two.")]}
    ai = openai.OpenAI(base_url=URL + "/v1", api_key="sk", max_retries=0, default_headers={"x-reveille-session": "shown"})
    claude = anthropic.Anthropic(base_url=URL, api_key="sk", max_retries=0, default_headers={"x-reveille-session": "shown"})
    right = 0
    for stream in (True, False):
        more = {"model": "scripted", "max_tokens": 100, "tools": [MESSAGES_TOOL]}
        messages = user(script(plan))
        if stream:
            with claude.messages.stream(messages=messages, **more) as events:
                done = events.get_final_message()
        else:
            done = claude.messages.create(messages=messages, **more)
        assert [block.type for block in done.content] == ["text", "server_tool_use", "clock_tool_result", "text"], done.content
        assert done.content[1].input == {"action": "list"} and done.stop_reason == "end_turn", done
        history = messages + [{"role": "assistant", "content": done.model_dump(mode="json")["content"]}] + user("thanks")
        again = claude.messages.create(messages=history, **more)
        assert again.content[0].text, again
        more = {"model": "scripted", "tools": [RESPONSES_TOOL]}
        if stream:
            with ai.responses.stream(input=messages, **more) as events:
                done = events.get_final_response()
        else:
            done = ai.responses.create(input=messages, **more)
        assert [item.type for item in done.output] == ["message", "mcp_call", "message"], done.output
        assert json.loads(done.output[1].output)["ok"] and done.output_text == "One.Two.", done
        history = messages + [item.model_dump(mode="json", exclude_none=True) for item in done.output] + user("thanks")
        assert ai.responses.create(input=history, **more).output_text
        right += 1
    print(f"{right} of 2")


def main():
    if sys.argv[2:] == ["shown"]:
        return shows()
    wrong, total = [], 0
    for api in (Chat(), Responses(), Messages()):
        for stream in (True, False):
            for case in (manages, cancels, reminded_later, reminded_in_a_held_turn, continued_by_a_stop_message, first_the_stop_message_then_the_hold):
                total += 1
                name = f"{api.name}-{'stream' if stream else 'whole'}-{case.__name__}"
                got, wanted = case(lambda session, messages: api.ask(session, messages, stream), name)
                if got != wanted:
                    wrong.append(f"{name}: {got} instead of {wanted}")
    print("; ".join(wrong))
    print(f"{total - len(wrong)} of {total}")
    sys.exit(bool(wrong))


main()
