import { limitList } from './checks.js';
import { applyOptions, runApply } from './run.js';

/** `readHeader` over one module. */
export function defineReadHeader(module) {
  return async function readHeader(input, { limits, signal } = {}) {
    const glue = module.ready();
    const list = limitList(limits);
    return runApply(input, applyOptions({ signal }), { emit() {}, note: {} }, (source) => glue.rawReadHeader(source, list));
  };
}
