// The client process of a Node cell: one contact after the other, each with a fresh client and pool.
//
// It reads an errand (one line of JSON) on standard input and tells each contact in a line, as the Python client does.
// Its books: fetch publishes on Node's diagnostics channels when a connection was opened and a request sent; the socket
// that such an event carries has its reads and writes counted. HTTP/1.1 has one exchange at a time on a connection, so
// what passes between two requests belongs to the first.

import { channel } from 'node:diagnostics_channel';
import { createInterface } from 'node:readline';
import { randomUUID } from 'node:crypto';

const now = () => Math.round((performance.timeOrigin + performance.now()) * 1e6); // ns since the Unix epoch
const DISPATCHER = Symbol.for('undici.globalDispatcher.1');
const PINNED = '2026-07-28';
const AGENT = 'echo-agent';
const ECHO = 'echo';
const BLANK_LINE = Buffer.from('\r\n\r\n');

class Books {
  connections = [];
  requests = [];
  #entries = new Map();
  #onSocket = new Map();

  connected({ socket }) {
    const connection = { port: socket.localPort, opened_ns: now(), secured_ns: null, requests: 0, closed_ns: null };
    const onSocket = { connection, holds: null };
    this.connections.push(connection);
    this.#onSocket.set(socket, onSocket);
    const read = socket.read.bind(socket);
    socket.read = (...how) => {
      const chunk = read(...how);
      if (chunk && onSocket.holds) {
        onSocket.holds.down.push(chunk);
        onSocket.holds.row.end_ns = now();
      }
      return chunk;
    };
    const write = socket.write.bind(socket);
    socket.write = (chunk, ...how) => {
      if (onSocket.holds) onSocket.holds.up.push(Buffer.from(chunk));
      return write(chunk, ...how);
    };
    socket.once('close', () => { connection.closed_ns ??= now(); });
  }

  created({ request }) {
    const row = {
      method: request.method, path: request.path, operation: request.method, port: null, ordinal: null, status: null,
      request_body: 0, bytes_up: 0, bytes_down: 0, head_bytes: null, body_bytes: null, content_type: null,
      start_ns: null, headers_ns: null, end_ns: null, repeats: null, error: null,
    };
    const entry = { row, up: [], down: [], chunked: false };
    this.#entries.set(request, entry);
    this.requests.push(entry);
  }

  sent({ request, socket }) {
    const entry = this.#entries.get(request);
    const onSocket = this.#onSocket.get(socket);
    if (!entry || !onSocket) return;
    entry.row.start_ns = now();
    entry.row.port = onSocket.connection.port;
    entry.row.ordinal = onSocket.connection.requests++;
    onSocket.holds = entry;
  }

  answered({ request, response }) {
    const entry = this.#entries.get(request);
    if (!entry) return;
    entry.row.status = response.statusCode;
    entry.row.headers_ns = now();
    for (let i = 0; i < response.headers.length; i += 2) {
      const name = String(response.headers[i]).toLowerCase();
      if (name === 'content-type') entry.row.content_type = String(response.headers[i + 1]);
      if (name === 'transfer-encoding') entry.chunked = /chunked/i.test(String(response.headers[i + 1]));
    }
  }

  failed({ request, error }) {
    const entry = this.#entries.get(request);
    if (entry && entry.row.status === null) entry.row.error = error.name;
  }

  page() {
    return this.requests.map(({ row, up, down, chunked }) => {
      const [sent, got] = [Buffer.concat(up), Buffer.concat(down)];
      const body = sent.subarray(sent.indexOf(BLANK_LINE) + BLANK_LINE.length);
      const head = row.status === null ? null : got.indexOf(BLANK_LINE) + BLANK_LINE.length;
      const page = { ...row, request_body: sent.length ? body.length : 0, bytes_up: sent.length, bytes_down: got.length };
      if (head !== null) {
        page.head_bytes = head;
        page.body_bytes = chunked ? dechunked(got.subarray(head)) : got.length - head;
      }
      return { ...page, ...described(body) };
    });
  }
}

function dechunked(body) {
  let [at, data] = [0, 0];
  for (;;) {
    const end = body.indexOf('\r\n', at);
    if (end < 0) return data;
    const length = parseInt(body.subarray(at, end).toString('latin1'), 16);
    if (!Number.isFinite(length)) return data;
    data += Math.min(length, body.length - end - 2);
    at = end + 2 + length + 2;
  }
}

function described(body) {
  try {
    const document = JSON.parse(body.toString());
    if (typeof document.method !== 'string') return {};
    const version = document.params?._meta?.['io.modelcontextprotocol/protocolVersion'] ?? null;
    return { operation: document.method, repeats: JSON.stringify([document.params?.cursor ?? null, version]) };
  } catch {
    return {};
  }
}

async function mcp(url, mode) {
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const negotiation = mode === 'pinned' ? { pin: PINNED } : mode;
  const client = new Client({ name: 'hsa', version: '1' }, { versionNegotiation: { mode: negotiation } });
  const transport = new StreamableHTTPClientTransport(new URL(`${url}/mcp`));
  await client.connect(transport);
  const { tools } = await client.listTools();
  return {
    names: tools.map((tool) => tool.name),
    version: client.getNegotiatedProtocolVersion() ?? null,
    async task() {
      const { content } = await client.callTool({ name: ECHO, arguments: { text: 'hello' } });
      return content[0].text;
    },
    async close() {
      if (transport.sessionId) await transport.terminateSession();
      await client.close();
    },
  };
}

async function a2a(url) {
  const { ClientFactory, DefaultAgentCardResolver } = await import('@a2a-js/sdk/client');
  const card = await new DefaultAgentCardResolver().resolve(url);
  const client = await new ClientFactory().createFromAgentCard(card);
  return {
    names: card.skills.map((skill) => skill.id),
    version: null,
    async task() {
      const parts = [{ content: { $case: 'text', value: 'hello' } }];
      const message = { messageId: randomUUID(), role: 1, parts, contextId: '', taskId: '', extensions: [],
        referenceTaskIds: [] };
      const answer = await client.sendMessage({ message, tenant: '', configuration: undefined, metadata: undefined });
      return (answer.parts ?? answer.payload.value.parts)[0].content.value;
    },
    async close() {},
  };
}

const OPEN = { mcp, a2a };

async function contact(errand) {
  const { cell, url } = errand;
  const books = new Books();
  const listen = {
    'undici:client:connected': (event) => books.connected(event),
    'undici:request:create': (event) => books.created(event),
    'undici:client:sendHeaders': (event) => books.sent(event),
    'undici:request:headers': (event) => books.answered(event),
    'undici:request:error': (event) => books.failed(event),
  };
  const told = { mode: cell.mode, outcome: 'error', error: null, error_text: null, task: null, relay: null };
  for (const [name, listener] of Object.entries(listen)) channel(name).subscribe(listener);
  const making = performance.now();
  const pool = new globalThis[DISPATCHER].constructor();
  globalThis[DISPATCHER] = pool;
  told.http_ns = Math.round((performance.now() - making) * 1e6);
  let peer;
  try {
    const began = performance.now();
    told.start_ns = now();
    try {
      peer = await OPEN[cell.protocol](url, cell.mode);
    } finally {
      told.ready_ns = now();
      told.took_ns = Math.round((performance.now() - began) * 1e6);
      told.at_ready = books.page();
      told.opened_at_ready = books.connections.length;
    }
    told.outcome = cell.require && !peer.names.includes(cell.require) ? 'rejected' : 'ready';
    [told.names, told.version] = [peer.names, peer.version];
    if (told.outcome === 'ready') {
      told.task = 'failed';
      const text = await peer.task();
      if (text !== 'hello') throw new Error(`the echo came back wrong: ${text}`);
      told.task = 'ok';
    }
    await peer.close();
  } catch (error) {
    told.error = error.name;
    told.error_text = String(error.message).slice(0, 500);
  }
  await pool.destroy();
  told.end_ns = now();
  told.requests = books.page();
  told.connections = books.connections;
  for (const [name, listener] of Object.entries(listen)) channel(name).unsubscribe(listener);
  return told;
}

await fetch('data:,x'); // makes the first pool
await import(process.argv[2] === 'mcp' ? '@modelcontextprotocol/client' : '@a2a-js/sdk/client'); // before any timing
const { value: line } = await createInterface({ input: process.stdin })[Symbol.asyncIterator]().next();
const errand = JSON.parse(line);
for (let i = 0; i < errand.warmups + errand.runs; i++) {
  console.log(JSON.stringify({ warmup: i < errand.warmups, ...(await contact(errand)) }));
}
process.exit(0);
