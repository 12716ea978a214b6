"""The client of `mcp` 2.x: the stateless protocol of 2026-07-28."""

from contextlib import asynccontextmanager

import mcp

import driver


class Client:
    def __init__(self, client):
        self.client, self.version = client, client.protocol_version

    async def tools(self):
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def call(self, _id, tool, arguments, progress):
        result = await self.client.call_tool(tool, arguments, progress_callback=progress)
        return result.is_error, result.structured_content, result.content

    async def cancelled(self, _id):
        pass  # the SDK tells the server by itself


@asynccontextmanager
async def connect(transport, server, *arguments):
    if transport == "stdio":
        server = mcp.StdioServerParameters(command=server, args=list(arguments))
    async with mcp.Client(server) as client:
        yield Client(client)


driver.main(connect)
