// An MCP client in TypeScript: sets a timer, shows the time pass, and is told when it is over.
//
//     npm install @modelcontextprotocol/client tsx
//     npx tsx examples/mcp_client.ts 5m "waiting for the server to start"
//
// It starts `reveille mcp`, which starts the server if none runs; with REVEILLE_URL it speaks to that server instead.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [duration = '5m', reason = 'waiting for the server to start'] = process.argv.slice(2);
const url: string | undefined = process.env.REVEILLE_URL;

const client = new Client({ name: 'example', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });
await client.connect(
    url
        ? new StreamableHTTPClientTransport(new URL(`${url}/mcp`))
        : new StdioClientTransport({ command: 'reveille', args: ['mcp'] }),
);

const { tools } = await client.listTools();
console.log(`tools: ${tools.map((tool: { name: string }) => tool.name).join(', ')}`);

// The call stands by until the time is up. Progress keeps clients with a timeout patient.
const given = { total_duration: duration, timeout_duration: duration, reason, session: 'typescript-example' };
const result = await client.callTool(
    { name: 'timer', arguments: given },
    { onprogress: ({ message }: { message?: string }) => message && console.log(message), resetTimeoutOnProgress: true },
);
const { outcome, timer_id } = result.structuredContent as { outcome: string; timer_id: string };
console.log(`${timer_id}: ${outcome}`);
await client.close();
