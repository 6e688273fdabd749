import { Apply } from './apply.js';
import { integer, limitList, tensorBytes, tensorSpec } from './checks.js';
import { applyOptions, runApply } from './run.js';
import { SessionState, checkSeed } from './state.js';

/** `CpuSession` over one module. */
export function defineCpuSession(module) {
  return class CpuSession {
    #state;
    #limits;

    constructor({ step, limits } = {}) {
      if (step !== undefined) integer(step, 'the step');
      this.#limits = limitList(limits);
      this.#state = new SessionState(new (module.ready().RawCpuSession)(step), step);
    }

    /** Binds a tensor to memory: its cells, packed, row-major, little-endian. */
    bind(name, spec, bytes, { offset = 0 } = {}) {
      const { dtype, shape } = tensorSpec(name, spec);
      const view = tensorBytes(name, bytes, offset);
      this.#state.now((raw) => raw.bind(name, dtype, shape, view));
    }

    /** Starts to bring the bound tensors to a patch's target. */
    apply(input, options) {
      return new Apply((emit) => this.#apply(input, options, emit));
    }

    async #apply(input, options, emit) {
      const checked = applyOptions(options);
      return this.#state.during((raw) =>
        runApply(input, checked, emit, (source, hooks) => raw.apply(source, this.#limits, hooks)),
      );
    }

    /** 16 hexadecimal digits over all bound tensors: the answer to a challenge. */
    fingerprint(seed = 0n) {
      checkSeed(seed);
      return this.#state.now((raw) => raw.fingerprint(seed));
    }

    get step() {
      return this.#state.step;
    }

    get poisoned() {
      return this.#state.poisoned;
    }

    /** Gives the session's own memory back; one that is applying does so when it is done. */
    free() {
      this.#state.free();
    }
  };
}
