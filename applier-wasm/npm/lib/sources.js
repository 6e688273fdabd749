// Everything that a patch can come from, as { length, read(offset, length, signal), expect(ranges), close() }. A read gives fewer bytes
// only where the patch ends. Patches are small beside the weights: what was fetched is kept, should it be read twice.
import { misuse, PulseError } from './errors.js';
import { FileSource } from './file.js';
import { HttpSource } from './http.js';
import { isBlob, isBytes, isIterable, isResponse, isStream, isUrl, viewOf } from './kinds.js';
import { otherThanPatch } from './looks.js';
import { iterableSource, responseSource, streamSource } from './streams.js';

/** A source for whatever the caller passed. `onRetry` is told of requests that are made again. */
export function openSource(input, options = {}) {
  const source = sourceOf(input, options);
  return {
    get length() {
      return source.length;
    },
    expect: (ranges) => source.expect?.(ranges),
    async read(offset, length, signal) {
      const bytes = await source.read(offset, length, signal);
      const other = offset === 0 ? otherThanPatch(bytes) : undefined;
      if (other) throw new PulseError('source', `this is no patch: ${other}`);
      return bytes;
    },
    close: () => source.close?.(),
  };
}

function sourceOf(input, options) {
  if (isBytes(input)) return new BytesSource(input);
  if (isUrl(input)) return urlSource(input, options);
  if (isResponse(input)) return responseSource(input);
  if (isBlob(input)) return new BlobSource(input);
  if (isStream(input)) return streamSource(input);
  if (isIterable(input)) return iterableSource(input);
  if (typeof input?.read === 'function') return new CustomSource(input);
  throw misuse('a patch comes from bytes, a Blob, a Response, a stream, a URL or an object with read(offset, length)');
}

function urlSource(input, options) {
  let url;
  try {
    url = new URL(input, globalThis.location?.href);
  } catch {
    // Not repeated here: it may hold a secret.
    throw misuse('the text is no URL, and there is no page that it could be relative to');
  }
  if (url.username || url.password) {
    throw misuse('the URL has a user or a password in it: fetch it with a header of your own, and pass the Response');
  }
  return url.protocol === 'file:' ? new FileSource(url.href) : new HttpSource(url, options);
}

class BytesSource {
  #bytes;

  constructor(bytes) {
    this.#bytes = viewOf(bytes, 'the bytes of the patch');
    if (bytes.detached || bytes.buffer?.detached) throw misuse('the bytes of the patch are detached');
  }

  get length() {
    return this.#bytes.byteLength;
  }

  async read(offset, length) {
    return this.#bytes.subarray(offset, offset + length);
  }
}

class BlobSource {
  #blob;

  constructor(blob) {
    this.#blob = blob;
  }

  get length() {
    return this.#blob.size;
  }

  async read(offset, length) {
    return new Uint8Array(await this.#blob.slice(offset, offset + length).arrayBuffer());
  }
}

/** The caller's own. */
class CustomSource {
  #input;
  #kept = new Map();

  constructor(input) {
    const { length } = input;
    if (length !== undefined && !(Number.isSafeInteger(length) && length >= 0)) throw misuse('the length of the source');
    this.#input = input;
  }

  get length() {
    return this.#input.length;
  }

  async read(offset, length, signal) {
    const kept = this.#kept.get(offset);
    if (kept?.byteLength === length) return kept;
    const bytes = await this.#input.read(offset, length, { signal });
    if (!isBytes(bytes)) throw misuse('read(offset, length) gave no bytes');
    const view = viewOf(bytes, 'what read(offset, length) gave');
    this.#kept.set(offset, view);
    return view;
  }
}
