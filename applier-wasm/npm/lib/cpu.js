import { integer, limitList, optionalInteger, tensorBytes, tensorSpec } from './checks.js';
import { Session, SessionState, checkSeed, stateOf } from './state.js';

/** `CpuSession` over one module. */
export function defineCpuSession(module) {
  return class CpuSession extends Session {
    constructor({ step, limits, undoBytes } = {}) {
      optionalInteger(step, 'the step');
      optionalInteger(undoBytes, 'undoBytes');
      super(new SessionState(new (module.ready().RawCpuSession)(step, limitList(limits), undoBytes), step));
    }

    /** Binds a tensor to memory: its cells, packed, row-major, little-endian. */
    bind(name, spec, bytes, { offset = 0 } = {}) {
      const { dtype, shape } = tensorSpec(name, spec);
      const view = tensorBytes(name, bytes, integer(offset, `the offset of ${name}`));
      stateOf(this).now((raw) => raw.bind(name, dtype, shape, view));
    }

    /** 16 hexadecimal digits over all bound tensors: the answer to a challenge. */
    fingerprint(seed = 0n) {
      checkSeed(seed);
      return stateOf(this).now((raw) => raw.fingerprint(seed));
    }
  };
}
