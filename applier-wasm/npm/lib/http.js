// A patch at a URL: byte ranges where the server gives them, the whole body where it does not.
import { Requests } from './request.js';
import { wholeSource } from './whole.js';

/** The first request asks for this much: preamble and header of most patches. */
const FIRST_BYTES = 64 << 10;
/** Ranges are joined to requests of up to this much... */
const JOINED_BYTES = 1 << 20;
/** ...over gaps of up to this much, which cost less than a request. */
const GAP_BYTES = 16 << 10;

export class HttpSource {
  #requests;
  #length;
  /** What tells one version of the file from another, by the header that said it. */
  #versions = {};
  /** A range has come. */
  #hasRanges = false;
  /** There are no ranges, as of `blob:` and `data:`, or they fail on the way, as where a proxy compresses them. */
  #unranged;
  /** Fetched or being fetched, by where they begin: { start, end, bytes: Promise<Uint8Array> }. */
  #parts = [];
  /** Joined ranges that will be needed. */
  #expected = [];
  /** The whole body, once ranges have turned out not to be had. */
  #whole;

  constructor(url, options) {
    this.#requests = new Requests(url, options);
    this.#unranged = !/^https?:$/.test(url.protocol);
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

  /** A range, in as many answers as the server makes of it; what came before one broke off is kept. */
  async #fetch(start, end, signal) {
    const chunks = [];
    let at = start;
    while (at < end && at < (this.#length ?? Infinity) && !this.#whole) {
      const came = await this.#requests.repeat(signal, () => this.#fetchOnce(at, end, signal, chunks));
      if (came === 0) break;
      at += came;
    }
    const bytes = new Uint8Array(at - start);
    let filled = 0;
    for (const chunk of chunks) {
      bytes.set(chunk, filled);
      filled += chunk.byteLength;
    }
    return bytes;
  }

  /** Appends to `chunks` what one answer brings of a range; gives how much that was, 0 where the patch ends or the whole is taken. */
  async #fetchOnce(start, end, signal, chunks) {
    try {
      const response = await this.#requests.ask(start, end, signal, !this.#unranged);
      if (!response) return 0;
      this.#check(response);
      const [, from, , total] = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(response.headers.get('content-range') ?? '') ?? [];
      const encoded = response.headers.get('content-encoding') ?? 'identity';
      // Another origin may hide the header of the range; the bytes still have to fit.
      const fits = response.status === 206 && encoded === 'identity' && (from === undefined || Number(from) === start);
      if (!fits) return this.#takeWhole(response);
      if (total !== undefined && total !== '*') this.#setLength(Number(total));
      const came = await this.#takePart(response, start, end, signal, chunks);
      this.#hasRanges ||= came > 0;
      if (came > 0 || start >= (this.#length ?? start)) return came;
      throw this.#requests.failed('the answer was empty', { final: false });
    } catch (error) {
      // A server or browser that fails over its first range may yet give the whole.
      this.#unranged ||= error.network === true && !this.#hasRanges;
      throw error;
    }
  }

  #setLength(total) {
    if (this.#length !== undefined && this.#length !== total) throw this.#changed();
    this.#length = total;
  }

  async #takePart(response, start, end, signal, chunks) {
    const reader = response.body?.getReader();
    let came = 0;
    try {
      while (reader && came < end - start) {
        const { done, value } = await this.#requests.timed(signal, () => reader.read());
        if (done) break;
        const chunk = value.subarray(0, end - start - came);
        if (start + came === 0) this.#requests.checkBeginning(chunk, response.status);
        chunks.push(chunk);
        came += chunk.byteLength;
      }
    } catch (error) {
      if (came === 0 || error.final || signal?.aborted) throw error;
    } finally {
      reader?.cancel().catch(() => {});
    }
    return came;
  }

  /** Refuses another version of the file than was read from so far. */
  #check(response) {
    for (const header of ['etag', 'last-modified']) {
      // Servers that compress on the way weaken or mark the tag of the same file.
      const version = response.headers.get(header)?.replace(/^W\//, '').replace(/-gzip"$/, '"');
      if (version !== undefined && version !== (this.#versions[header] ??= version)) {
        response.body?.cancel().catch(() => {});
        throw this.#changed();
      }
    }
  }

  #changed() {
    return this.#requests.failed('the file has changed while it was read; apply it again');
  }

  /** From here on the whole body is the source: this answer's, or where that is a part, another's. */
  #takeWhole(response) {
    const isWhole = response.status === 200 && !this.#whole;
    if (!isWhole) response.body?.cancel().catch(() => {});
    this.#whole ??= wholeSource(this.#requests, isWhole ? response : undefined, (again) => this.#check(again));
    return 0;
  }

  close() {
    this.#whole?.close();
  }
}
