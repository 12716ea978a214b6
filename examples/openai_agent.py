"""An agent with the OpenAI SDK, unchanged but for its address: behind Reveille's gateway its model can sleep.

    pip install openai
    OPENAI_BASE_URL=http://127.0.0.1:7383/v1 python3 examples/openai_agent.py "Look at the nightly build in ten minutes."

The model schedules a reminder with the `clock` tool, which the gateway has given it. The stream stays open without a
request, and goes on when the time has come.
"""

import os
import sys

from openai import OpenAI

SESSION = os.environ.get("REVEILLE_SESSION", "openai-example")
READ_LOG = {
    "type": "function",
    "function": {
        "name": "read_log",
        "description": "Read the log of the nightly build",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    },
}


def main():
    # OPENAI_BASE_URL and OPENAI_API_KEY are read by the SDK. A held stream may take hours, so no timeout here.
    client = OpenAI(timeout=None, max_retries=0, default_headers={"x-reveille-session": SESSION})
    stream = client.chat.completions.create(
        model=os.environ.get("MODEL", "gpt-5"),
        messages=[{"role": "user", "content": sys.argv[1]}],
        tools=[READ_LOG],
        stream=True,
    )
    for chunk in stream:
        for choice in chunk.choices:
            print(choice.delta.content or "", end="", flush=True)
            for call in choice.delta.tool_calls or []:
                if call.function and call.function.name:
                    print(f"[the model calls {call.function.name}]", flush=True)
    print()


main()
