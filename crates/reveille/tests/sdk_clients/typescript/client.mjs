// The client of `@modelcontextprotocol/client` 2.x: the stateless protocol of 2026-07-28.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { drive } from './driver.mjs';

await drive(async (way, server, ...args) => {
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } });
    const transport =
        way === 'http'
            ? new StreamableHTTPClientTransport(new URL(server))
            : new StdioClientTransport({ command: server, args });
    await client.connect(transport);
    return {
        version: client.getNegotiatedProtocolVersion(),
        tools: async () => (await client.listTools()).tools.map((tool) => tool.name),
        call: (params, options) => client.callTool(params, options),
        close: () => client.close(),
    };
});
