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
export function misuse(what) {
  return new PulseError('misuse', `misuse: ${what}`);
}

/** What the module threw, as ours. `cause` is what a function of the caller's had thrown, if that is why. */
export function wrap(thrown, cause) {
  if (thrown instanceof PulseError) return thrown;
  const code = typeof thrown?.code === 'string' ? thrown.code : 'internal';
  const message = code === 'internal' ? `the wasm module failed: ${thrown?.message ?? thrown}` : thrown.message;
  return new PulseError(code, message, { cause: cause ?? (code === 'internal' ? thrown : undefined) });
}
