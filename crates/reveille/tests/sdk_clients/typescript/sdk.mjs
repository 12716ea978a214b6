// The client of `@modelcontextprotocol/sdk` 1.x: the protocol with `initialize`.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { drive } from './driver.mjs';

await drive(async (way, server, ...args) => {
    const client = new Client({ name: 'test', version: '1' });
    const transport =
        way === 'http'
            ? new StreamableHTTPClientTransport(new URL(server))
            : new StdioClientTransport({ command: server, args });
    await client.connect(transport);
    return {
        version: 'initialize', // which of the older ones is not told
        tools: async () => (await client.listTools()).tools.map((tool) => tool.name),
        call: (params, options) => client.callTool(params, undefined, options),
        close: () => client.close(),
    };
});
