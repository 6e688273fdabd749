// Everything that a patch can come from, as { length, read(offset, length, signal), expect(ranges) }. A read gives fewer bytes
// only where the patch ends. Patches are small beside the weights: what was fetched is kept for the second reading, so
// that a network that fails cannot fail between two writes.
import { misuse, PulseError } from './errors.js';
import { HttpSource } from './http.js';

/** A source for whatever the caller passed. */
export function openSource(input) {
  if (input instanceof ArrayBuffer || ArrayBuffer.isView(input)) return new BytesSource(input);
  if (typeof SharedArrayBuffer === 'function' && input instanceof SharedArrayBuffer) return new BytesSource(input);
  if (typeof Blob === 'function' && input instanceof Blob) return new BlobSource(input);
  if (typeof input === 'string' || input instanceof URL) return new HttpSource(input);
  if (typeof Response === 'function' && input instanceof Response) return responseSource(input);
  if (typeof input?.getReader === 'function') return new StreamSource(input);
  if (typeof input?.read === 'function') return new CustomSource(input);
  throw misuse('a patch comes from bytes, a Blob, a Response, a stream, a URL or an object with read(offset, length)');
}

/** Bytes from anything that holds some; a view, not a copy, where it can be. */
export function viewOf(bytes) {
  if (ArrayBuffer.isView(bytes)) return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return new Uint8Array(bytes);
}

class BytesSource {
  #bytes;

  constructor(bytes) {
    this.#bytes = viewOf(bytes);
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

function responseSource(response) {
  if (!response.ok) throw new PulseError('source', `the patch cannot be read: HTTP status ${response.status}`);
  if (response.bodyUsed) throw misuse('the body of the response has been read already');
  return response.body ? new StreamSource(response.body) : new BytesSource(new ArrayBuffer(0));
}

/** Takes from a stream what is asked for and no more, and keeps it. */
export class StreamSource {
  #reader;
  #chunks = [];
  #bytes = 0;
  #ended = false;
  #pulling = Promise.resolve();

  constructor(stream) {
    this.#reader = stream.getReader();
  }

  get length() {
    return this.#ended ? this.#bytes : undefined;
  }

  async read(offset, length, signal) {
    const end = offset + length;
    // One after the other: a stream has one place.
    this.#pulling = this.#pulling.then(() => this.#pullTo(end, signal));
    const pulled = this.#pulling;
    this.#pulling = pulled.catch(() => {});
    await pulled;
    return this.#copy(offset, Math.min(end, this.#bytes));
  }

  async #pullTo(end, signal) {
    while (this.#bytes < end && !this.#ended) {
      signal?.throwIfAborted();
      const { done, value } = await this.#reader.read();
      if (done) {
        this.#ended = true;
      } else {
        const start = this.#bytes;
        const bytes = viewOf(value);
        this.#chunks.push({ start, bytes });
        this.#bytes += bytes.byteLength;
      }
    }
  }

  #copy(offset, end) {
    const out = new Uint8Array(Math.max(end - offset, 0));
    for (const { start, bytes } of this.#chunks) {
      const from = Math.max(offset - start, 0);
      const to = Math.min(end - start, bytes.byteLength);
      if (from < to) out.set(bytes.subarray(from, to), start + from - offset);
    }
    return out;
  }

  /** Nobody will read on. */
  close() {
    this.#reader.cancel().catch(() => {});
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
    if (!(bytes instanceof ArrayBuffer || ArrayBuffer.isView(bytes))) throw misuse('read(offset, length) gave no bytes');
    const view = viewOf(bytes);
    this.#kept.set(offset, view);
    return view;
  }
}
