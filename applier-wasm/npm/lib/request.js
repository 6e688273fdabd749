// One request for a patch, and whether it is worth another.
import { PulseError } from './errors.js';
import { otherThanPatch } from './looks.js';

/** Requests in a row that may fail. */
const TRIES = 4;
const FIRST_DELAY_MILLISECONDS = 250;
const LONGEST_DELAY_MILLISECONDS = 30_000;
/** A server that says nothing for so long is given up. */
const IDLE_MILLISECONDS = 30_000;
/** Characters of a URL that messages show. */
const SHOWN_OF_URL = 200;
/** A shorter value of a query is no secret. */
const SECRET_LENGTH = 4;
/** Answers that another moment may change. */
const PASSING = [408, 425, 429, 500, 502, 503, 504];

/** Settles as `promise` does, or fails with the reason of the first of `signals` that aborts. */
async function unlessAborted(promise, signals) {
  const ended = new AbortController();
  const aborted = new Promise((_, reject) => {
    for (const signal of signals.filter(Boolean)) {
      if (signal.aborted) reject(signal.reason);
      else signal.addEventListener('abort', () => reject(signal.reason), { signal: ended.signal });
    }
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    ended.abort();
  }
}

export class Requests {
  #url;
  #onRetry;
  #idle;

  constructor(url, { onRetry = () => {}, idleMilliseconds = IDLE_MILLISECONDS } = {}) {
    this.#url = url;
    this.#onRetry = onRetry;
    this.#idle = idleMilliseconds;
  }

  /** That the patch cannot be had; `final` if asking again would not help, `network` if there was no answer, or none that could be read. */
  failed(message, { cause, final = true, network = false, delay } = {}) {
    // A `data:` URL is the patch itself.
    const place = this.#url.href.split(/[?#]/, 1)[0].slice(0, SHOWN_OF_URL);
    const error = new PulseError('source', `the patch cannot be read: ${place}: ${this.#withoutSecrets(message)}`, { cause });
    return Object.assign(error, { final, network, delay });
  }

  /** What stands behind the URL's path may be a secret, and runtimes and error pages repeat it. */
  #withoutSecrets(message) {
    const { href, pathname, search, searchParams } = this.#url;
    const values = [...searchParams.values()].filter((value) => value.length >= SECRET_LENGTH);
    const secrets = [search, ...values].filter(Boolean);
    return secrets.reduce((text, secret) => text.replaceAll(secret, '…'), message.replaceAll(href, pathname));
  }

  /** Calls `work()` until it succeeds, fails for good, or has failed too often. */
  async repeat(signal, work) {
    for (let attempt = 1; ; attempt++) {
      try {
        return await work();
      } catch (error) {
        if (signal?.aborted || error.final !== false || attempt === TRIES) throw error;
        // At random, so that all who failed together do not come back together.
        const wait = error.delay ?? FIRST_DELAY_MILLISECONDS * 2 ** (attempt - 1) * (0.5 + Math.random() / 2);
        this.#onRetry({ attempt, delayMs: Math.round(wait), message: error.message });
        let timer;
        const waited = new Promise((resolve) => {
          timer = setTimeout(resolve, wait);
        });
        await unlessAborted(waited, [signal]).finally(() => clearTimeout(timer));
      }
    }
  }

  /** Asks for bytes from `start` on, up to `end` or to the last, or for the whole; undefined where the patch ends before them. */
  async ask(start, end, signal, ranged = true) {
    const headers = ranged ? { range: `bytes=${start}-${end === undefined ? '' : end - 1}` } : {};
    const response = await this.timed(signal, (limit) => fetch(this.#url, { headers, signal: limit }));
    if (response.status === 206 || response.status === 200) return response;
    const said = await this.#beginningOf(response, signal);
    if (response.status === 416 && start > 0) return undefined;
    const final = !PASSING.includes(response.status);
    throw this.failed(`HTTP status ${response.status}${said ? `; ${said}` : ''}`, { final, delay: final ? undefined : retryAfter(response) });
  }

  /** What an answer without a patch says for itself, if it does. */
  async #beginningOf(response, signal) {
    const reader = response.body?.getReader();
    try {
      const first = await this.timed(signal, () => reader?.read());
      return first?.value && otherThanPatch(first.value);
    } catch {
      return undefined;
    } finally {
      reader?.cancel().catch(() => {});
    }
  }

  /** Waits for something of the network's, as long as it is not silent. */
  async timed(signal, work) {
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(new Error(`nothing came for ${this.#idle / 1000} s`)), this.#idle);
    const stop = () => limit.abort(signal.reason);
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop);
    try {
      return await unlessAborted(work(limit.signal), [limit.signal]);
    } catch (error) {
      if (signal?.aborted) throw error;
      const code = error?.cause?.code;
      const message = String(error?.message ?? error);
      throw this.failed(`${message}${code ? ` (${code})` : ''}`, { cause: error, final: false, network: true });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
    }
  }

  /** Refuses what is no patch but a page that says so: by its first bytes. */
  checkBeginning(bytes, status) {
    const other = otherThanPatch(bytes);
    if (other) throw this.failed(`HTTP status ${status}, but ${other}`);
  }
}

/** When the server wants to be asked again: seconds or a date, within a bound. */
function retryAfter(response) {
  const given = response.headers.get('retry-after');
  if (given === null) return undefined;
  const wait = /^\d+$/.test(given.trim()) ? 1000 * Number(given) : Date.parse(given) - Date.now();
  return Number.isFinite(wait) ? Math.min(Math.max(wait, 0), LONGEST_DELAY_MILLISECONDS) : undefined;
}
