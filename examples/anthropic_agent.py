"""An agent with the Anthropic SDK, unchanged but for its address: behind Reveille's gateway its model can sleep.

    pip install anthropic
    ANTHROPIC_BASE_URL=http://127.0.0.1:7383 python3 examples/anthropic_agent.py "Look at the nightly build in ten minutes."
"""

import os
import sys

from anthropic import Anthropic

SESSION = os.environ.get("REVEILLE_SESSION", "anthropic-example")
READ_LOG = {
    "name": "read_log",
    "description": "Read the log of the nightly build",
    "input_schema": {"type": "object", "properties": {}},
}


def main():
    # ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY are read by the SDK. A held stream may take hours, so no timeout here.
    client = Anthropic(timeout=None, max_retries=0, default_headers={"x-reveille-session": SESSION})
    with client.messages.stream(
        model=os.environ.get("MODEL", "claude-sonnet-4-5"),
        max_tokens=1024,
        messages=[{"role": "user", "content": sys.argv[1]}],
        tools=[READ_LOG],
    ) as stream:
        for text in stream.text_stream:
            print(text, end="", flush=True)
        print()
        for block in stream.get_final_message().content:
            if block.type == "tool_use":
                print(f"[the model calls {block.name}]")


main()
