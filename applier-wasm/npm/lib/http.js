// A patch at a URL: byte ranges where the server gives them, the whole body where it does not.
import { PulseError } from './errors.js';
import { StreamSource } from './sources.js';

/** The first request asks for this much: preamble and header of most patches. */
const FIRST_BYTES = 64 << 10;
/** Ranges are joined to requests of up to this much... */
const JOINED_BYTES = 1 << 20;
/** ...over gaps of up to this much, which cost less than a request. */
const GAP_BYTES = 16 << 10;
const RETRY_MILLISECONDS = 250;

const failed = (message, cause) => new PulseError('source', `the patch cannot be read: ${message}`, { cause });

export class HttpSource {
  #url;
  #length;
  /** Fetched or being fetched, by where they begin: { start, end, bytes: Promise<Uint8Array> }. */
  #parts = [];
  /** Joined ranges that will be needed. */
  #expected = [];
  /** The whole body, once the server has ignored a range. */
  #whole;

  constructor(url) {
    this.#url = url;
  }

  get length() {
    return this.#whole?.length ?? this.#length;
  }

  /** `ranges` holds starts and ends in turn, ascending. */
  expect(ranges) {
    const joined = [];
    for (let i = 0; i < ranges.length; i += 2) {
      const [start, end] = [ranges[i], ranges[i + 1]];
      const last = joined.at(-1);
      if (last && start - last.end <= GAP_BYTES && end - last.start <= JOINED_BYTES) last.end = end;
      else joined.push({ start, end });
    }
    this.#expected = joined;
  }

  async read(offset, length, signal) {
    if (this.#whole) return this.#whole.read(offset, length, signal);
    const part = this.#find(offset, offset + length) ?? this.#begin(this.#partFor(offset, offset + length), signal);
    const bytes = await part.bytes;
    if (this.#whole) return this.#whole.read(offset, length, signal);
    // The next is on its way while this one is decoded.
    const next = this.#expected.find(({ start }) => start >= part.end);
    if (next && !this.#find(next.start, next.end)) this.#begin(next, signal);
    return bytes.subarray(offset - part.start, offset - part.start + length);
  }

  #find(start, end) {
    return this.#parts.find((part) => part.start <= start && end <= part.end);
  }

  #partFor(start, end) {
    const expected = this.#expected.find((part) => part.start <= start && end <= part.end);
    if (expected) return expected;
    return { start, end: this.#parts.length === 0 ? Math.max(end, start + FIRST_BYTES) : end };
  }

  #begin({ start, end }, signal) {
    const part = { start, end, bytes: this.#fetch(start, end, signal) };
    this.#parts.push(part);
    const forget = () => {
      // Whoever asks again tries again. Nobody may be waiting: a part fetched ahead must not fail on its own.
      this.#parts = this.#parts.filter((other) => other !== part);
    };
    part.bytes.catch(forget);
    return part;
  }

  /** Tries a range twice. */
  async #fetch(start, end, signal) {
    try {
      return await this.#fetchOnce(start, end, signal);
    } catch (error) {
      if (signal?.aborted || error.final) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MILLISECONDS));
      return this.#fetchOnce(start, end, signal);
    }
  }

  async #fetchOnce(start, end, signal) {
    let response;
    try {
      response = await fetch(this.#url, { headers: { range: `bytes=${start}-${end - 1}` }, signal });
    } catch (error) {
      throw failed(error?.message ?? error, error);
    }
    // Past the end there are no bytes; the reader knows what is missing.
    if (response.status === 416) return new Uint8Array(0);
    if (response.status === 200) return this.#takeWhole(response);
    if (response.status !== 206) {
      const error = failed(`HTTP status ${response.status}`);
      // A server that has no such patch will not have it a moment later.
      if (response.status >= 400 && response.status < 500) error.final = true;
      throw error;
    }
    return this.#takePart(response, start, end);
  }

  async #takePart(response, start, end) {
    const [, from, to, total] = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(response.headers.get('content-range') ?? '') ?? [];
    // Another origin may hide the header; the bytes still have to be as many as were asked for, or end the patch.
    if (from !== undefined && Number(from) !== start) throw failed('the server sent another range');
    if (total !== undefined && total !== '*') this.#length = Number(total);
    const expected = to === undefined ? end - start : Math.min(Number(to) + 1, end) - start;
    let bytes;
    try {
      bytes = new Uint8Array(await response.arrayBuffer());
    } catch (error) {
      throw failed(error?.message ?? error, error);
    }
    if (to !== undefined && bytes.byteLength < expected) throw failed('the response ended early');
    return bytes;
  }

  /** The server ignored the range: from here on its body is the source. */
  #takeWhole(response) {
    if (this.#whole) response.body?.cancel().catch(() => {});
    else this.#whole = new StreamSource(response.body);
    return new Uint8Array(0);
  }

  close() {
    this.#whole?.close();
  }
}
