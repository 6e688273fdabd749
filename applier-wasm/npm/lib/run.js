// One apply: the caller's source and hooks, as the module wants them, for sessions of every kind.
import { optionalFunction, optionalInteger } from './checks.js';
import { misuse, PulseError, wrap } from './errors.js';
import { openSource } from './sources.js';

/** Work on this thread goes on for about this long before others get a turn. */
const TURN_MILLISECONDS = 8;

/** A turn for everybody else on this thread. */
function nextTurn() {
  if (typeof globalThis.scheduler?.yield === 'function') return globalThis.scheduler.yield();
  if (typeof setImmediate === 'function') return new Promise((resolve) => setImmediate(resolve));
  // Not a timeout: those wait longer, and a second in a hidden tab.
  if (typeof MessageChannel !== 'function') return new Promise((resolve) => setTimeout(resolve, 0));
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

/** Settles as `promise` does, or fails at once when `signal` aborts. */
function orAborted(promise, signal) {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) return abort();
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

/** A signal that aborts when one of two does. */
function either(one, other) {
  if (!one || !other || one.aborted) return one ?? other;
  const both = new AbortController();
  for (const signal of [one, other]) {
    const abort = () => both.abort(signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true, signal: both.signal });
  }
  return both.signal;
}

/** The options of `apply`, checked. */
export function applyOptions(options = {}) {
  const { signal, onProgress, quiesce, invalidate, idleMilliseconds } = options;
  if (signal !== undefined && typeof signal?.addEventListener !== 'function') throw misuse('signal is no AbortSignal');
  optionalFunction(onProgress, 'onProgress');
  optionalFunction(quiesce, 'quiesce');
  optionalFunction(invalidate, 'invalidate');
  optionalInteger(idleMilliseconds, 'idleMilliseconds');
  return { signal, onProgress, quiesce, invalidate, idleMilliseconds };
}

/**
 * Calls `work(source, hooks)` of the module. Until the first write an abort ends it wherever it waits; from then on the
 * weights become whole first.
 */
export async function runApply(input, options, { emit, stop, note }, work) {
  const { signal: given, onProgress, quiesce, invalidate, idleMilliseconds } = options;
  const signal = either(given, stop);
  let cause;
  let progressFailed = false;
  let turnBegan = performance.now();
  const remember = (thrown) => {
    cause = thrown;
    throw thrown;
  };
  const call = async (hook) => {
    try {
      await hook?.();
    } catch (thrown) {
      remember(thrown);
    }
  };
  const tell = (event) => {
    emit(event);
    try {
      onProgress?.(event);
    } catch (thrown) {
      progressFailed = true;
      cause = thrown;
    }
  };
  const source = openSource(input, { idleMilliseconds, onRetry: (retry) => tell({ phase: 'retry', ...retry }) });
  const hooks = {
    cancelled: () => signal?.aborted === true || progressFailed,
    progress(phase, done, total) {
      tell({ phase, done, total });
    },
    verified(intent) {
      tell({ phase: 'verified', ...intent });
    },
    async pause() {
      if (performance.now() - turnBegan < TURN_MILLISECONDS) return;
      await nextTurn();
      turnBegan = performance.now();
    },
    async quiesce() {
      note.quiet = true;
      await call(quiesce);
      note.writing = true;
    },
    async invalidate() {
      await call(invalidate);
    },
  };
  const bridge = {
    get length() {
      return source.length;
    },
    expect: (ranges) => source.expect(ranges),
    read(offset, length) {
      const during = note.quiet ? undefined : signal;
      return orAborted(source.read(offset, length, during), during).catch(remember);
    },
  };
  try {
    const result = await work(bridge, hooks);
    if (progressFailed) throw new PulseError('hook', 'onProgress failed', { cause });
    return result;
  } catch (thrown) {
    throw explain(thrown, { signal, quiet: note.quiet, progressFailed, cause });
  } finally {
    source.close();
  }
}

/** Calls `work(hooks)` of the module for something that reads no patch. */
export async function runHooks({ quiesce, invalidate }, note, work) {
  let cause;
  const call = (hook) => Promise.resolve(hook?.()).catch((thrown) => {
    cause = thrown;
    throw thrown;
  });
  const hooks = {
    cancelled: () => false,
    progress() {},
    verified() {},
    pause: async () => {},
    quiesce: async () => {
      await call(quiesce);
      note.writing = true;
    },
    invalidate: async () => call(invalidate),
  };
  try {
    return await work(hooks);
  } catch (thrown) {
    throw wrap(thrown, cause);
  }
}

/** What the module threw, with what it cannot know: why the caller's side stopped. */
function explain(thrown, { signal, quiet, progressFailed, cause }) {
  const error = wrap(thrown, cause);
  if (progressFailed && error.code === 'aborted') return new PulseError('hook', 'onProgress failed', { cause });
  if (!quiet && signal?.aborted && (error.code === 'source' || error.code === 'aborted')) {
    return new PulseError('aborted', 'aborted', { cause: signal.reason });
  }
  // Of our own sources: says more than the module's copy of the message.
  return error.code === 'source' && cause instanceof PulseError ? cause : error;
}
