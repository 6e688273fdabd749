import { Apply } from './apply.js';
import { integer, limitList, tensorSpec } from './checks.js';
import { misuse, wrap } from './errors.js';
import { applyOptions, runApply, runHooks } from './run.js';
import { SessionState, checkSeed } from './state.js';
import { viewOf } from './sources.js';

const LAYOUTS = ['packed', 'f32', 'f16'];

/** What every session over a GPU does, whoever opened the device. */
class Session {
  #state;

  constructor(state) {
    if (!(state instanceof SessionState)) throw misuse('sessions are made by open()');
    this.#state = state;
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
  async fingerprint(seed = 0n) {
    checkSeed(seed);
    return this.#state.during((raw) => raw.fingerprint(seed), { writes: false });
  }

  get step() {
    return this.#state.step;
  }

  get poisoned() {
    return this.#state.poisoned;
  }

  /** Gives the session's own buffers back; bound ones stay the engine's. */
  free() {
    this.#state.free();
  }
}

function checkOptions({ step, scratchBytes }) {
  if (step !== undefined) integer(step, 'the step');
  if (scratchBytes !== undefined) integer(scratchBytes, 'scratchBytes');
}

async function opened(open, step) {
  try {
    return new SessionState(await open(), step);
  } catch (thrown) {
    throw wrap(thrown);
  }
}

/** What f16 does not hold exactly, as the module takes it. */
function exceptionLists(name, { cells = new Uint32Array(), bits = new Uint16Array() } = {}) {
  if (!(cells instanceof Uint32Array) || !(bits instanceof Uint16Array) || cells.length !== bits.length) {
    throw misuse(`the exceptions of ${name} are not what convertF16 gives`);
  }
  return [cells, bits];
}

/** `GpuSession` over one module. */
export function defineGpuSession(module) {
  return class GpuSession extends Session {
    #state;

    constructor(state) {
      super(state);
      this.#state = state;
    }

    static async open(device, { step, limits, scratchBytes } = {}) {
      if (typeof device?.createBuffer !== 'function') throw misuse('the device is no GPUDevice');
      checkOptions({ step, scratchBytes });
      const { RawGpuSession } = module.ready();
      const list = limitList(limits);
      return new GpuSession(await opened(() => RawGpuSession.open(device, step, list, scratchBytes), step));
    }

    bind(name, spec, { buffer, offset = 0, layout = 'packed', transposed = false, stride, exceptions } = {}) {
      const { dtype, shape } = tensorSpec(name, spec);
      if (typeof buffer?.size !== 'number') throw misuse(`the buffer of ${name} is no GPUBuffer`);
      integer(offset, `the offset of ${name}`);
      if (stride !== undefined) integer(stride, `the stride of ${name}`);
      if (!LAYOUTS.includes(layout)) throw misuse(`the layout of ${name} is none of ${LAYOUTS.join(', ')}`);
      const [cells, bits] = exceptionLists(name, exceptions);
      this.#state.now((raw) =>
        raw.bind(name, dtype, shape, buffer, layout, offset, Boolean(transposed), stride, cells, bits),
      );
    }
  };
}

/** `OwnGpuSession` over a module with wgpu. */
export function defineOwnGpuSession(module) {
  return class OwnGpuSession extends Session {
    #state;

    constructor(state) {
      super(state);
      this.#state = state;
    }

    static async open({ lowPower = false, step, limits, scratchBytes } = {}) {
      checkOptions({ step, scratchBytes });
      const { RawOwnGpuSession } = module.ready();
      const list = limitList(limits);
      return new OwnGpuSession(await opened(() => RawOwnGpuSession.open(Boolean(lowPower), step, list, scratchBytes), step));
    }

    /** Puts cells into a buffer of the session's device and binds it; gives the buffer, which lives as long as the session. */
    load(name, spec, bytes) {
      const { dtype, shape } = tensorSpec(name, spec);
      if (!ArrayBuffer.isView(bytes)) throw misuse(`the cells of ${name} are not bytes`);
      return this.#state.now((raw) => raw.load(name, dtype, shape, viewOf(bytes)));
    }

    /** The device, for an engine that is to work on the same buffers. */
    get device() {
      return this.#state.now((raw) => raw.device);
    }
  };
}

/** BF16 cells as f16. */
export function defineConvertF16(module) {
  return function convertF16(bytes) {
    if (!ArrayBuffer.isView(bytes) || bytes.byteLength % 2 !== 0) throw misuse('convertF16 takes whole BF16 cells');
    const { bytes: halves, cells, bits } = module.ready().rawConvertF16(viewOf(bytes));
    return { bytes: halves, exceptions: { cells, bits } };
  };
}
