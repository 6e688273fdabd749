import { misuse, wrap } from './errors.js';

/** What every session has: the module's side of it, busy with one thing at a time, freed once. */
export class SessionState {
  #raw;
  #busy = false;
  #freed = false;
  step;
  poisoned = false;

  constructor(raw, step) {
    this.#raw = raw;
    this.step = step;
  }

  /** The module's side, if it is there and has nothing to do. */
  idle() {
    if (this.#freed) throw misuse('the session was freed');
    if (this.#busy) throw misuse('the session is busy: an earlier call has not ended');
    return this.#raw;
  }

  /** A call that ends at once. */
  now(call) {
    const raw = this.idle();
    try {
      return call(raw);
    } catch (thrown) {
      throw wrap(thrown);
    }
  }

  /** A call that takes a while; `writes` if it may change weights. */
  async during(call, { writes = true } = {}) {
    const raw = this.idle();
    this.#busy = true;
    try {
      return await call(raw);
    } catch (thrown) {
      const error = wrap(thrown);
      // A module that trapped may have been writing, and cannot say.
      if (writes && error.code === 'internal') this.poisoned = true;
      throw error;
    } finally {
      this.#busy = false;
      if (!this.poisoned) {
        this.step = raw.step;
        this.poisoned = raw.poisoned;
      }
      if (this.#freed) raw.free();
    }
  }

  free() {
    if (this.#freed) return;
    this.#freed = true;
    if (!this.#busy) this.#raw.free();
  }
}

export function checkSeed(seed) {
  if (typeof seed !== 'bigint' || BigInt.asUintN(64, seed) !== seed) throw misuse('the seed is no 64-bit bigint');
  return seed;
}
