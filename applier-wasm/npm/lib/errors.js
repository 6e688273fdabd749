/** Every code that an error may have; the README says what to do about each. */
const CODES = new Set([
  'damaged', 'truncated', 'unsupported', 'wrong_base', 'wrong_target', 'limit', 'stale', 'mismatch', 'binding', 'source', 'aborted', 'hook',
  'poisoned', 'misuse', 'no_adapter', 'device_lost', 'out_of_memory', 'gpu', 'init', 'internal',
]);

/** An error with a stable `code`; the list is in the README. */
export class PulseError extends Error {
  constructor(code, message, options) {
    super(message, options);
    this.code = code;
    // What the platform calls a stop by an AbortSignal.
    this.name = code === 'aborted' ? 'AbortError' : 'PulseError';
  }
}

/** The caller passed something that does not fit. */
export function misuse(what, cause) {
  return new PulseError('misuse', `misuse: ${what}`, { cause });
}

/** What the module threw, as ours. `cause` is what a function of the caller's had thrown, if that is why. */
export function wrap(thrown, cause) {
  if (thrown instanceof PulseError) return thrown;
  // Node's own errors have codes too, which are not ours.
  const code = CODES.has(thrown?.code) ? thrown.code : 'internal';
  const message = code === 'internal' ? `the wasm module failed: ${thrown?.message ?? thrown}` : thrown.message;
  return new PulseError(code, message, { cause: cause ?? (code === 'internal' ? thrown : undefined) });
}
