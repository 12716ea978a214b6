// Lets the test drive a client: its commands are lines of JSON on stdin, what the client saw are lines on stdout.

import { createInterface } from 'node:readline';

const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');

const calls = new Map();

async function call(client, { id, tool, arguments: given }) {
    const left = new AbortController();
    calls.set(id, left);
    const onprogress = (progress) => say({ id, progress });
    try {
        const result = await client.call({ name: tool, arguments: given }, { signal: left.signal, onprogress });
        const { isError: error = false, structuredContent: structured, content } = result;
        say({ id, result: { error, structured, text: content[0].text } });
    } catch (error) {
        say({ id, failed: left.signal.aborted ? 'cancelled' : String(error) });
    }
}

export async function drive(connect) {
    const client = await connect(...process.argv.slice(2));
    say({ ready: client.version });
    for await (const line of createInterface({ input: process.stdin })) {
        const asked = JSON.parse(line);
        if (asked.do === 'tools') say({ id: asked.id, result: await client.tools() });
        else if (asked.do === 'cancel') calls.get(asked.id).abort();
        else call(client, asked);
    }
    await client.close();
}
