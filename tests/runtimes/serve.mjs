// Serves the repository on localhost, with the types that browsers insist on for modules and for streaming
// compilation of wasm.
import { createReadStream, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize, sep } from 'node:path';
import { pipeline } from 'node:stream';

import { root } from './system.mjs';

const TYPES = {
  '.css': 'text/css',
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.mjs': 'text/javascript',
  '.wasm': 'application/wasm',
};

/** A page without content: something to run modules in. Its empty icon keeps the browser from asking for one. */
export const BLANK = '/blank.html';
const BLANK_PAGE = '<!doctype html><title>Pulse</title><link rel="icon" href="data:,">';

/** The file that a URL names; undefined where there is none inside the repository. */
function locate(url) {
  let path;
  try {
    path = normalize(join(root, decodeURIComponent(new URL(url, 'http://localhost').pathname)));
  } catch {
    return undefined;
  }
  if (!path.startsWith(root + sep)) return undefined;
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat?.isFile() ? { path, size: stat.size } : undefined;
}

/** `bytes=from-to` with either end open, as one range; undefined when the header asks for anything else. */
function parseRange(header, size) {
  const [, from, to] = /^bytes=(\d*)-(\d*)$/.exec(header ?? '') ?? [];
  if (from === undefined || (from === '' && to === '')) return undefined;
  const start = from === '' ? Math.max(size - Number(to), 0) : Number(from);
  const end = from === '' || to === '' ? size - 1 : Math.min(Number(to), size - 1);
  return { start, end };
}

function respond(request, response) {
  if (request.url === BLANK) return response.writeHead(200, { 'content-type': 'text/html' }).end(BLANK_PAGE);
  const file = locate(request.url);
  if (!file) return response.writeHead(404).end();
  const headers = {
    'content-type': TYPES[extname(file.path)] ?? 'application/octet-stream',
    'accept-ranges': 'bytes',
    'cache-control': 'no-store',
  };
  const range = parseRange(request.headers.range, file.size);
  if (range && range.start > range.end)
    return response.writeHead(416, { 'content-range': `bytes */${file.size}` }).end();
  if (range) headers['content-range'] = `bytes ${range.start}-${range.end}/${file.size}`;
  headers['content-length'] = range ? range.end - range.start + 1 : file.size;
  response.writeHead(range ? 206 : 200, headers);
  if (request.method === 'HEAD') return response.end();
  return pipeline(createReadStream(file.path, range), response, () => {});
}

/** Starts the server on a free port. */
export async function serve() {
  const server = createServer(respond);
  await new Promise((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve));
  return {
    origin: `http://127.0.0.1:${server.address().port}`,
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}
