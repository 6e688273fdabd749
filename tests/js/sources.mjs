// Every kind of source, and a server that is made up: what it answers is decided here.
import { assert, equal, fails, sameBytes } from './support.mjs';

const chunked = (bytes, size) =>
  new ReadableStream({
    start(controller) {
      for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
      controller.close();
    },
  });

async function* generated(bytes) {
  for (let at = 0; at < bytes.length; at += 1000) yield bytes.slice(at, at + 1000);
}

/** Name and maker of each kind; all give the same patch. */
export const SOURCES = {
  'Uint8Array': (patch) => patch,
  'a view at an offset': (patch) => new Uint8Array([9, ...patch, 9]).subarray(1, patch.length + 1),
  'ArrayBuffer': (patch) => patch.slice().buffer,
  'Blob': (patch) => new Blob([patch]),
  'a data: URL': (patch) => `data:application/octet-stream;base64,${btoa(Array.from(patch, (byte) => String.fromCharCode(byte)).join(''))}`,
  // workerd has none: the function is there, and throws.
  ...(globalThis.navigator?.userAgent !== 'Cloudflare-Workers' && { 'a blob: URL': (patch) => URL.createObjectURL(new Blob([patch])) }),
  'Response': (patch) => new Response(patch),
  'ReadableStream in small chunks': (patch) => chunked(patch, 37),
  'ReadableStream in one chunk': (patch) => chunked(patch, patch.length),
  'read': (patch) => ({ length: patch.length, read: async (offset, length) => patch.slice(offset, offset + length) }),
  'an async generator': (patch) => generated(patch),
  'read without a length': (patch) => ({ read: (offset, length) => patch.slice(offset, offset + length).buffer }),
};

/** Runs `body` with `fetch` answered by `answer(start, end, headers)`. */
export async function withServer(answer, body) {
  const real = globalThis.fetch;
  const requests = [];
  globalThis.fetch = async (url, { headers, signal } = {}) => {
    signal?.throwIfAborted();
    const [, start, end] = /^bytes=(\d+)-(\d*)$/.exec(new Headers(headers).get('range') ?? '') ?? [];
    const request = start === undefined ? {} : { start: Number(start), end: end === '' ? Infinity : Number(end) + 1 };
    requests.push(request);
    return answer(request.start, request.end, requests.length, signal);
  };
  try {
    return await body(requests);
  } finally {
    globalThis.fetch = real;
  }
}

/** A server that has `bytes` and gives ranges. */
export const ranged = (bytes) => (start, end) => {
  if (start === undefined) return new Response(bytes);
  if (start >= bytes.length) return new Response(null, { status: 416 });
  const last = Math.min(end, bytes.length) - 1;
  const headers = { 'content-range': `bytes ${start}-${last}/${bytes.length}` };
  return new Response(bytes.slice(start, last + 1), { status: 206, headers });
};

const URL_OF_PATCH = 'https://patches.invalid/26.pulse';

/** `make` gives a session, its bytes, and what they must become. */
export async function testServers(patch, make) {
  const succeed = async (answer, message, check = () => {}) => {
    const { session, bytes, expected } = make();
    await withServer(answer, async (requests) => {
      await session.apply(URL_OF_PATCH);
      sameBytes(bytes, expected, message);
      check(requests);
    });
    session.free();
  };
  const fail = async (code, answer, message) => {
    const { session, bytes } = make();
    const before = bytes.slice();
    await withServer(answer, () => fails(code, () => session.apply(new URL(URL_OF_PATCH)), message));
    sameBytes(bytes, before, message);
    equal(session.poisoned, false, message);
    session.free();
  };
  await succeed(ranged(patch), 'a server with ranges', (requests) => {
    assert(requests.length <= 3, `${requests.length} requests for a small patch`);
  });
  await succeed(() => new Response(patch), 'a server without ranges', (requests) => equal(requests.length, 1, 'requests'));
  const flaky = (start, end, count) => {
    if (count === 1) throw new TypeError('connection reset');
    return ranged(patch)(start, end);
  };
  await succeed(flaky, 'a request that fails once');
  const busy = (start, end, count) => (count === 1 ? new Response(null, { status: 503 }) : ranged(patch)(start, end));
  await succeed(busy, 'a server that is busy once');
  await fail('source', () => new Response(null, { status: 404 }), 'no such patch');
  await fail('source', () => new Response(null, { status: 500 }), 'a server that is broken');
  await fail('source', () => Promise.reject(new TypeError('no network')), 'no network');
  await fail('truncated', ranged(patch.slice(0, -1)), 'one byte less');
  await fail('truncated', () => new Response(patch.slice(0, 100)), 'a body cut short');
  await fail('damaged', ranged(new Uint8Array([...patch, 0])), 'one byte more');
  const other = () => new Response(patch.slice(1), { status: 206, headers: { 'content-range': `bytes 1-${patch.length - 1}/*` } });
  // Another range than was asked for, for ever; the whole would do.
  await fail('source', (start) => (start === undefined ? new Response(null, { status: 404 }) : other()), 'another range');
}
