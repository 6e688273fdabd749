import { Apply } from './apply.js';
import { integer, limitList, tensorSpec } from './checks.js';
import { misuse, wrap } from './errors.js';
import { applyOptions, runApply, runHooks } from './run.js';
import { SessionState, checkSeed } from './state.js';

const LAYOUTS = ['packed', 'f32'];

/** `GpuSession` over one module. */
export function defineGpuSession(module) {
  return class GpuSession {
    #state;

    constructor(state) {
      if (!(state instanceof SessionState)) throw misuse('GpuSession.open(device) makes sessions');
      this.#state = state;
    }

    static async open(device, { step, limits, scratchBytes } = {}) {
      if (typeof device?.createBuffer !== 'function') throw misuse('the device is no GPUDevice');
      if (step !== undefined) integer(step, 'the step');
      if (scratchBytes !== undefined) integer(scratchBytes, 'scratchBytes');
      const { RawGpuSession } = module.ready();
      try {
        return new GpuSession(new SessionState(await RawGpuSession.open(device, step, limitList(limits), scratchBytes), step));
      } catch (thrown) {
        throw wrap(thrown);
      }
    }

    bind(name, spec, { buffer, offset = 0, layout = 'packed', transposed = false, stride } = {}) {
      const { dtype, shape } = tensorSpec(name, spec);
      if (typeof buffer?.size !== 'number') throw misuse(`the buffer of ${name} is no GPUBuffer`);
      integer(offset, `the offset of ${name}`);
      if (stride !== undefined) integer(stride, `the stride of ${name}`);
      if (!LAYOUTS.includes(layout)) throw misuse(`the layout of ${name} is none of ${LAYOUTS.join(', ')}`);
      this.#state.now((raw) => raw.bind(name, dtype, shape, buffer, layout, offset, Boolean(transposed), stride));
    }

    apply(input, options) {
      return new Apply((emit) => this.#apply(input, options, emit));
    }

    async #apply(input, options, emit) {
      const checked = applyOptions(options);
      const began = { verify: performance.now() };
      const noted = (event) => {
        if (event.phase !== 'verify') began[event.phase] ??= performance.now();
        emit(event);
      };
      return this.#state.during(async (raw) => {
        const applied = await runApply(input, checked, noted, (source, hooks) => raw.apply(source, hooks));
        const ended = performance.now();
        const { verify, write = ended, confirm = ended } = began;
        return { ...applied, times: { verify: write - verify, write: confirm - write, confirm: ended - confirm } };
      });
    }

    /** Takes the last patch back; gives the step that is held then. */
    undo({ quiesce, invalidate } = {}) {
      const options = applyOptions({ quiesce, invalidate });
      return this.#state.during((raw) => runHooks(options, (hooks) => raw.undo(hooks)));
    }

    /** 16 hexadecimal digits over all bound tensors: the answer to a challenge. */
    fingerprint(seed = 0n) {
      checkSeed(seed);
      return this.#state.during((raw) => raw.fingerprint(seed), { writes: false });
    }

    get step() {
      return this.#state.step;
    }

    get poisoned() {
      return this.#state.poisoned;
    }

    /** Gives the session's own buffers back; the bound ones stay the engine's. */
    free() {
      this.#state.free();
    }
  };
}
