"""Lets the test drive a client: its commands are lines of JSON on stdin, what the client saw are lines on stdout."""

import json
import sys
from functools import partial

import anyio


def say(**line):
    print(json.dumps(line), flush=True)


async def call(client, scopes, id, tool, arguments):
    async def progress(progress, total, message):
        say(id=id, progress={"progress": progress, "total": total, "message": message})

    with anyio.CancelScope() as scope:
        scopes[id] = scope
        try:
            error, structured, content = await client.call(id, tool, arguments, progress)
            say(id=id, result={"error": error, "structured": structured, "text": content[0].text})
        except Exception as error:
            say(id=id, failed=repr(error))
    if scope.cancelled_caught:
        say(id=id, failed="cancelled")


async def drive(connect):
    async with connect(*sys.argv[1:]) as client, anyio.create_task_group() as calls:
        say(ready=client.version)
        scopes = {}
        async for line in anyio.wrap_file(sys.stdin):
            asked = json.loads(line)
            match asked.pop("do"):
                case "tools":
                    say(id=asked["id"], result=await client.tools())
                case "call":
                    calls.start_soon(partial(call, client, scopes, **asked))
                case "cancel":
                    scopes[asked["id"]].cancel()
                    await client.cancelled(asked["id"])


def main(connect):
    anyio.run(drive, connect)
