import { Apply } from './apply.js';
import { integer, limitList, tensorBytes, tensorSpec } from './checks.js';
import { misuse, wrap } from './errors.js';
import { applyOptions, runApply } from './run.js';

/** What the module throws, as ours. */
function guarded(call) {
  try {
    return call();
  } catch (thrown) {
    throw wrap(thrown);
  }
}

/** `CpuSession` over one module. */
export function defineCpuSession(module) {
  return class CpuSession {
    #raw;
    #limits;
    #step;
    #poisoned = false;
    #applying = false;
    #freed = false;

    constructor({ step, limits } = {}) {
      this.#step = step === undefined ? undefined : integer(step, 'the step');
      this.#limits = limitList(limits);
      this.#raw = new (module.ready().RawCpuSession)(this.#step);
    }

    /** Binds a tensor to memory: its cells, packed, row-major, little-endian. */
    bind(name, spec, bytes, { offset = 0 } = {}) {
      const { dtype, shape } = tensorSpec(name, spec);
      const view = tensorBytes(name, bytes, offset);
      guarded(() => this.#idle().bind(name, dtype, shape, view));
    }

    /** Starts to bring the bound tensors to a patch's target. */
    apply(input, options) {
      return new Apply((emit) => this.#apply(input, options, emit));
    }

    async #apply(input, options, emit) {
      const raw = this.#idle();
      const checked = applyOptions(options);
      this.#applying = true;
      try {
        return await runApply(input, checked, emit, (source, hooks) => raw.apply(source, this.#limits, hooks));
      } catch (error) {
        // A module that trapped may have been writing, and cannot say.
        if (error.code === 'internal') this.#poisoned = true;
        throw error;
      } finally {
        this.#applying = false;
        if (!this.#poisoned) {
          this.#step = raw.step;
          this.#poisoned = raw.poisoned;
        }
        if (this.#freed) raw.free();
      }
    }

    /** 16 hexadecimal digits over all bound tensors: the answer to a challenge. */
    fingerprint(seed = 0n) {
      if (typeof seed !== 'bigint' || BigInt.asUintN(64, seed) !== seed) throw misuse('the seed is no 64-bit bigint');
      return guarded(() => this.#idle().fingerprint(seed));
    }

    get step() {
      return this.#step;
    }

    get poisoned() {
      return this.#poisoned;
    }

    /** Gives the session's own memory back; one that is applying does so when it is done. */
    free() {
      if (this.#freed) return;
      this.#freed = true;
      if (!this.#applying) this.#raw.free();
    }

    #idle() {
      if (this.#freed) throw misuse('the session was freed');
      if (this.#applying) throw misuse('the session is applying a patch');
      return this.#raw;
    }
  };
}
