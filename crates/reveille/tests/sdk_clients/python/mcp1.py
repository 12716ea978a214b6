"""The client of `mcp` 1.x: the protocol with `initialize`."""

from contextlib import asynccontextmanager

from mcp import ClientSession, StdioServerParameters, stdio_client, types
from mcp.client.streamable_http import streamable_http_client

import driver


class Client:
    def __init__(self, session, version):
        self.session, self.version, self.requests = session, version, {}

    async def tools(self):
        return [tool.name for tool in (await self.session.list_tools()).tools]

    async def call(self, id, tool, arguments, progress):
        self.requests[id] = self.session._request_id  # the next one's; there is no other way to learn it
        result = await self.session.call_tool(tool, arguments, progress_callback=progress)
        return result.isError, result.structuredContent, result.content

    async def cancelled(self, id):
        # This SDK tells the server nothing when a call is left; its user has to.
        params = types.CancelledNotificationParams(requestId=self.requests[id])
        cancelled = types.CancelledNotification(params=params)
        await self.session.send_notification(types.ClientNotification(cancelled))


@asynccontextmanager
async def connect(transport, server, *arguments):
    if transport == "http":
        streams = streamable_http_client(server)
    else:
        streams = stdio_client(StdioServerParameters(command=server, args=list(arguments)))
    async with streams as (read, write, *_), ClientSession(read, write) as session:
        initialized = await session.initialize()
        yield Client(session, initialized.protocolVersion)


driver.main(connect)
