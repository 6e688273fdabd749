// Patches that come in chunks, from first to last.
import { isBytes, viewOf } from './kinds.js';
import { misuse, PulseError } from './errors.js';

/** Takes from `pull()`, which gives `{ done, value }`, what is asked for and no more, and keeps it. */
export class ChunkSource {
  #pull;
  #cancel;
  #chunks = [];
  #bytes = 0;
  #ended = false;
  #pulling = Promise.resolve();

  constructor(pull, cancel = () => {}) {
    this.#pull = pull;
    this.#cancel = cancel;
  }

  get length() {
    return this.#ended ? this.#bytes : undefined;
  }

  async read(offset, length, signal) {
    const end = offset + length;
    // One after the other: chunks have one order.
    this.#pulling = this.#pulling.then(() => this.#pullTo(end, signal));
    const pulled = this.#pulling;
    this.#pulling = pulled.catch(() => {});
    await pulled;
    return this.#copy(offset, Math.min(end, this.#bytes));
  }

  async #pullTo(end, signal) {
    while (this.#bytes < end && !this.#ended) {
      signal?.throwIfAborted();
      const { done, value } = await this.#pull(signal);
      if (done) {
        this.#ended = true;
        return;
      }
      if (!isBytes(value)) throw misuse('the stream gave something that is not bytes');
      const bytes = viewOf(value, "the stream's bytes");
      this.#chunks.push({ start: this.#bytes, bytes });
      this.#bytes += bytes.byteLength;
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
    this.#cancel();
  }
}

/** A ReadableStream. */
export function streamSource(stream) {
  if (stream.locked) throw misuse('the stream is locked: somebody else reads it');
  const reader = stream.getReader();
  return new ChunkSource(
    () => reader.read(),
    () => reader.cancel().catch(() => {}),
  );
}

/** Chunks of anything that can be looped over: Node's streams, generators. */
export function iterableSource(iterable) {
  if (iterable.destroyed || iterable.readableDidRead) throw misuse('the stream has been read already, or was destroyed');
  const iterator = iterable[Symbol.asyncIterator]();
  return new ChunkSource(
    () => iterator.next(),
    () => void Promise.resolve(iterator.return?.()).catch(() => {}),
  );
}

/** A Response that was fetched already. */
export function responseSource(response) {
  if (!response.ok) throw new PulseError('source', `the patch cannot be read: HTTP status ${response.status}`);
  if (response.bodyUsed) throw misuse('the body of the response has been read already');
  return response.body ? streamSource(response.body) : new ChunkSource(async () => ({ done: true }));
}
