import { misuse } from './errors.js';
import { isArrayOf, viewOf } from './kinds.js';

/** A whole number that is exact in JS, not negative. */
export function integer(value, what) {
  if (!Number.isSafeInteger(value) || value < 0) throw misuse(`${what} is not an integer from 0 to 2^53 - 1`);
  return value;
}

/** The same, or undefined. */
export function optionalInteger(value, what) {
  return value === undefined ? value : integer(value, what);
}

function text(value, what) {
  if (typeof value !== 'string') throw misuse(`${what} is not a string`);
  return value;
}

/** A function, or undefined. */
export function optionalFunction(value, what) {
  if (value !== undefined && typeof value !== 'function') throw misuse(`${what} is not a function`);
  return value;
}

/** `{ dtype, shape }`, the shape as the module takes it. */
export function tensorSpec(name, spec) {
  text(name, 'the name of a tensor');
  const { dtype, shape } = spec ?? {};
  text(dtype, `the dtype of ${name}`);
  if (!Array.isArray(shape)) throw misuse(`the shape of ${name} is not an array`);
  return { dtype, shape: Float64Array.from(shape, (size) => integer(size, `a dimension of ${name}`)) };
}

const LIMITS = ['headerBytes', 'tensors', 'models', 'segments', 'segmentBytes'];

/** Limits in the module's order; NaN stands for its default. */
export function limitList(limits = {}) {
  for (const name of Object.keys(limits)) if (!LIMITS.includes(name)) throw misuse(`there is no limit ${name}`);
  return Float64Array.from(LIMITS, (name) => (limits[name] === undefined ? NaN : integer(limits[name], `limit ${name}`)));
}

/** Bytes that hold a tensor from `offset` on, as a plain view of at most 4 GiB. */
export function tensorBytes(name, bytes, offset) {
  if (!isArrayOf('Uint8Array', bytes)) throw misuse(`the memory of ${name} is not a Uint8Array`);
  viewOf(bytes, `the bytes of ${name}`);
  const start = Math.min(offset, bytes.byteLength);
  const length = Math.min(bytes.byteLength - start, 2 ** 32 - 1);
  // Not `subarray`: a class that extends Uint8Array may bring its own.
  return new Uint8Array(bytes.buffer, bytes.byteOffset + start, length);
}
