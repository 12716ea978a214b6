"""An agent that calls functions, with nothing but Python's standard library: any model, any language, the same five steps.

    OPENAI_BASE_URL=https://api.openai.com/v1 OPENAI_API_KEY=... \\
        python3 examples/plain_http_agent.py "Start the server and tell me when it is up."

1. Get the tools' schemas from Reveille, in the form the model's API takes.
2. Ask the model, with them.
3. It calls `timer`: pass the call on to Reveille. It answers when the time is up, or when somebody stops the timer;
   meanwhile nothing is asked and nothing is paid.
4. Give the result to the model.
5. Until it calls nothing more.
"""

import json
import os
import sys
import urllib.request

REVEILLE = os.environ.get("REVEILLE_URL", "http://127.0.0.1:7383")
SESSION = os.environ.get("REVEILLE_SESSION", "plain-http-example")
MODEL_API = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")


def http(url, body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        # Reveille's errors are written for the model: it corrects its call.
        return json.load(error)


def ask(messages, tools):
    body = {"model": os.environ.get("MODEL", "gpt-5"), "messages": messages, "tools": tools}
    key = os.environ.get("OPENAI_API_KEY", "")
    return http(f"{MODEL_API}/chat/completions", body, authorization=f"Bearer {key}")["choices"][0]["message"]


def main():
    tools = http(f"{REVEILLE}/api/tools?format=openai")["tools"]
    messages = [{"role": "user", "content": sys.argv[1]}]
    while True:
        reply = ask(messages, tools)
        messages.append(reply)
        for call in reply.get("tool_calls") or []:
            name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
            print(f"{name} {arguments}", flush=True)
            result = http(f"{REVEILLE}/api/sessions/{SESSION}/tools/{name}", arguments)
            print(f"  {result.get('outcome') or result.get('detail')}", flush=True)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})
        if not reply.get("tool_calls"):
            print(reply["content"])
            return


main()
