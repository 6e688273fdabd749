// Servers as they are: each answer here was given by one, to somebody.
import { ranged, withServer } from './sources.mjs';
import { assert, equal, fails, sameBytes } from './support.mjs';

const URL_OF_PATCH = 'https://patches.invalid/26.pulse?key=secret';
const RETRY_AT_ONCE = { 'retry-after': '0' };

/** An answer of a server with ranges, cut to `most` bytes, with more headers. */
const part = (patch, start, end, { most = Infinity, headers = {}, more = 0 } = {}) => {
  const last = Math.min(end + more, start + most, patch.length) - 1;
  const range = { 'content-range': `bytes ${start}-${last}/${patch.length}` };
  return new Response(patch.slice(start, last + 1), { status: 206, headers: { ...range, ...headers } });
};

/** A body that breaks off after some bytes. */
const broken = (bytes, init) => {
  let given = false;
  const pull = (controller) => {
    if (given) return controller.error(new TypeError('connection reset'));
    given = true;
    return controller.enqueue(bytes);
  };
  return new Response(new ReadableStream({ pull }), init);
};

/** `make` gives a session, its bytes, and what they must become. */
export async function testHttp(patch, make) {
  const succeed = async (message, answer, check = () => {}) => {
    const { session, bytes, expected } = make();
    const events = [];
    await withServer(answer, async (requests) => {
      await session.apply(URL_OF_PATCH, { onProgress: (event) => events.push(event), idleMilliseconds: 300 });
      check(requests, events);
    });
    sameBytes(bytes, expected, message);
    session.free();
  };
  const fail = async (message, answer, parts) => {
    const { session, bytes } = make();
    const before = bytes.slice();
    const error = await withServer(answer, () => fails('source', () => session.apply(URL_OF_PATCH, { idleMilliseconds: 100 }), message));
    for (const wanted of ['https://patches.invalid/26.pulse', ...parts]) assert(error.message.includes(wanted), `${message}: ${error.message}`);
    assert(!error.message.includes('secret'), `${message}: ${error.message}`);
    sameBytes(bytes, before, message);
    equal(session.poisoned, false, message);
    session.free();
  };

  await succeed('answers of 100 bytes', (start, end) => part(patch, start, end, { most: 100 }));
  await succeed('longer answers than were asked for', (start, end) => part(patch, start, end, { more: 7 }));
  await succeed('a body that breaks off', (start, end) => {
    const last = Math.min(end, patch.length) - 1;
    const headers = { 'content-range': `bytes ${start}-${last}/${patch.length}` };
    return last - start < 50 ? part(patch, start, end) : broken(patch.slice(start, start + 50), { status: 206, headers });
  });
  await succeed('ranges of a compressed body', (start) =>
    start === undefined ? new Response(patch) : new Response('gzip', { status: 206, headers: { 'content-encoding': 'gzip' } }),
  );
  await succeed('a browser that fails over a compressed range', (start) => {
    if (start === undefined) return new Response(patch);
    throw new TypeError('Failed to fetch');
  });
  await succeed('another range, and then the whole', (start) =>
    start === undefined ? new Response(patch) : part(patch, 1, 10),
  );
  await succeed('a whole body that breaks off', (start, end, count) => {
    if (count === 1) return broken(patch.slice(0, 60));
    return count === 2 ? broken(patch) : part(patch, start, patch.length);
  });
  await succeed('too many requests', (start, end, count) =>
    count < 3 ? new Response(null, { status: 429, headers: RETRY_AT_ONCE }) : ranged(patch)(start, end), (requests, events) => {
    const retries = events.filter(({ phase }) => phase === 'retry');
    equal(retries.length, 2, 'retries are told');
    assert(retries[0].attempt === 1 && retries[0].delayMs === 0 && retries[0].message.includes('429'), JSON.stringify(retries[0]));
  });
  await succeed('a body resumed by a range that begins earlier', (start, end, count) => {
    if (count === 1) return broken(patch.slice(0, 60));
    return new Response(patch.slice(20), { status: 206, headers: { 'content-range': `bytes 20-${patch.length - 1}/${patch.length}` } });
  });
  await succeed('a compressed body that breaks off', (start, end, count) => {
    const headers = { 'content-encoding': 'x' };
    if (count === 1) return broken(patch.slice(0, 60), { headers });
    return start === undefined ? new Response(patch, { headers }) : new Response('gzip', { status: 206, headers });
  });
  await succeed('one busy answer costs no range', (start, end, count) =>
    count === 1 ? new Response(null, { status: 503, headers: RETRY_AT_ONCE }) : ranged(patch)(start, end), (requests) =>
    assert(requests.every(({ start }) => start !== undefined), JSON.stringify(requests)),
  );
  await succeed('an empty part in between', (start, end, count) =>
    count === 2 ? new Response(null, { status: 206, headers: { 'content-range': `bytes ${start}-${end - 1}/${patch.length}`, ...RETRY_AT_ONCE } }) : part(patch, start, end, { most: 1000 }),
  );
  await succeed('an ETag once, a date later', (start, end, count) =>
    part(patch, start, end, { most: 1000, headers: count === 1 ? { etag: '"1"' } : { 'last-modified': 'Mon, 30 Nov 2026 00:00:00 GMT' } }),
  );
  await succeed('a weaker tag of a compressed answer', (start, end, count) =>
    count === 1
      ? part(patch, start, end, { most: 1000, headers: { etag: '"5f"' } })
      : new Response(patch, { headers: { etag: 'W/"5f-gzip"', 'content-encoding': 'x' } }),
  );
  let resets = 0;
  await succeed('one reset costs no range', (start, end, count) => {
    if (count === 2) throw new TypeError(`connection reset ${(resets += 1)}`);
    return part(patch, start, end, { most: 1000 });
  }, (requests) => assert(resets === 1 && requests.every(({ start }) => start !== undefined), JSON.stringify(requests)));
  await succeed('silence once', (start, end, count) => (count === 1 ? new Promise(() => {}) : ranged(patch)(start, end)));

  const html = '<!doctype html><title>Sign in</title>';
  await fail('a page that says 200', () => new Response(html), ['200', 'looks like HTML', 'Sign in']);
  await fail('a page that says 206', () => new Response(html, { status: 206 }), ['206', 'looks like HTML']);
  await fail('a page in other letters', () => new Response(`${'<!doctype html><title>'.padEnd(159, 'a')}日本語`), ['looks like HTML']);
  await fail('another length', (start, end, count) => part(count === 1 ? patch : patch.slice(0, -9), start, end, { most: 100 }), ['changed']);
  await fail('a pointer', () => new Response('version https://git-lfs.github.com/spec/v1\n'), ['a Git LFS pointer']);
  await fail('no such patch', () => new Response(html, { status: 404 }), ['404', 'looks like HTML', 'Sign in']);
  await fail('a refusal that repeats the URL', () => new Response('{"denied":"/26.pulse?key=secret","key":"secret"}', { status: 403 }), [
    '403',
    'looks like JSON',
    'denied',
  ]);
  await fail('a refusal that never comes', () => new Response(new ReadableStream({}), { status: 403 }), ['403']);
  await fail('an empty file', () => new Response(null, { status: 416 }), ['416']);
  await fail('a server that stays busy', () => new Response(null, { status: 503, headers: RETRY_AT_ONCE }), ['503']);
  await fail('silence without end', () => new Promise(() => {}), ['nothing came for 0.1 s']);
  await fail('a body that stays silent', () => new Response(new ReadableStream({})), ['nothing came for 0.1 s']);
  let asked = 0;
  await fail('a body that always breaks off at one place', () => {
    asked += 1;
    return broken(patch.slice(0, 60));
  }, ['connection reset']);
  assert(asked < 10, `${asked} requests`);
  await fail('a runtime that names the URL', () => Promise.reject(new TypeError(`cannot fetch ${URL_OF_PATCH}`)), ['cannot fetch']);
  await fail('a file that is replaced', (start, end, count) => part(patch, start, end, { most: 100, headers: { etag: `"${count}"` } }), [
    'changed while it was read',
  ]);
}
