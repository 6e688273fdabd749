import { integer, limitList, optionalInteger, tensorSpec } from './checks.js';
import { misuse, wrap } from './errors.js';
import { isArrayOf, viewOf } from './kinds.js';
import { Session, SessionState, checkSeed, stateOf } from './state.js';

const LAYOUTS = ['packed', 'f32', 'f16'];

/** What every session over a GPU does, whoever opened the device. */
class DeviceSession extends Session {
  /** 16 hexadecimal digits over all bound tensors: the answer to a challenge. */
  async fingerprint(seed = 0n) {
    checkSeed(seed);
    return stateOf(this).during((raw) => raw.fingerprint(seed));
  }
}

async function opened(open, { step, limits, scratchBytes, undoBytes }) {
  optionalInteger(step, 'the step');
  optionalInteger(scratchBytes, 'scratchBytes');
  optionalInteger(undoBytes, 'undoBytes');
  const list = limitList(limits);
  try {
    return new SessionState(await open(step, list, scratchBytes, undoBytes), step);
  } catch (thrown) {
    throw wrap(thrown);
  }
}

/** What f16 does not hold exactly, as the module takes it. */
function exceptionLists(name, { cells = new Uint32Array(), bits = new Uint16Array() } = {}) {
  if (!isArrayOf('Uint32Array', cells) || !isArrayOf('Uint16Array', bits) || cells.length !== bits.length) {
    throw misuse(`the exceptions of ${name} are not what convertF16 gives`);
  }
  return [cells, bits];
}

/** `GpuSession` over one module. */
export function defineGpuSession(module) {
  return class GpuSession extends DeviceSession {
    static async open(device, options = {}) {
      if (typeof device?.createBuffer !== 'function') throw misuse('the device is no GPUDevice');
      const { RawGpuSession } = module.ready();
      return new GpuSession(await opened((...given) => RawGpuSession.open(device, ...given), options));
    }

    bind(name, spec, { buffer, offset = 0, layout = 'packed', transposed = false, stride, exceptions } = {}) {
      const { dtype, shape } = tensorSpec(name, spec);
      if (typeof buffer?.size !== 'number') throw misuse(`the buffer of ${name} is no GPUBuffer`);
      integer(offset, `the offset of ${name}`);
      optionalInteger(stride, `the stride of ${name}`);
      if (!LAYOUTS.includes(layout)) throw misuse(`the layout of ${name} is none of ${LAYOUTS.join(', ')}`);
      const [cells, bits] = exceptionLists(name, exceptions);
      stateOf(this).now((raw) =>
        raw.bind(name, dtype, shape, buffer, layout, offset, Boolean(transposed), stride, cells, bits),
      );
    }
  };
}

/** `OwnGpuSession` over a module with wgpu. */
export function defineOwnGpuSession(module) {
  return class OwnGpuSession extends DeviceSession {
    static async open({ lowPower = false, ...options } = {}) {
      const { RawGpuSession } = module.ready();
      return new OwnGpuSession(await opened((...given) => RawGpuSession.openOwn(Boolean(lowPower), ...given), options));
    }

    /** Puts cells into a buffer of the session's device and binds it; gives the buffer, which lives as long as the session. */
    load(name, spec, bytes) {
      const { dtype, shape } = tensorSpec(name, spec);
      if (!ArrayBuffer.isView(bytes)) throw misuse(`the cells of ${name} are not bytes`);
      const view = viewOf(bytes, `the cells of ${name}`);
      return stateOf(this).now((raw) => raw.load(name, dtype, shape, view));
    }

    /** The device, for an engine that is to work on the same buffers. */
    get device() {
      return stateOf(this).now((raw) => raw.device);
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
