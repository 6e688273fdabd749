// What a value is, by what it can do: one that comes from an iframe, a worker or jsdom is of no class of this realm.
import { misuse } from './errors.js';

const tag = (value) => Object.prototype.toString.call(value).slice(8, -1);

export const isBuffer = (value) => ['ArrayBuffer', 'SharedArrayBuffer'].includes(tag(value));
export const isBytes = (value) => ArrayBuffer.isView(value) || isBuffer(value);
export const isArrayOf = (name, value) => ArrayBuffer.isView(value) && tag(value) === name;
export const isUrl = (value) => typeof value === 'string' || tag(value) === 'URL';
export const isResponse = (value) => typeof value?.arrayBuffer === 'function' && typeof value.status === 'number';
export const isBlob = (value) => typeof value?.arrayBuffer === 'function' && typeof value.slice === 'function' && typeof value.size === 'number';
export const isStream = (value) => typeof value?.getReader === 'function';
export const isIterable = (value) => typeof value?.[Symbol.asyncIterator] === 'function';

/** Bytes from anything that holds some; a view, not a copy. */
export function viewOf(bytes, what = 'the bytes') {
  try {
    if (ArrayBuffer.isView(bytes)) return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    return new Uint8Array(bytes);
  } catch (thrown) {
    throw misuse(`${what} are detached, or out of the bounds of their buffer`, thrown);
  }
}
