import { describe, expect, it } from 'vitest';

import { parseSafetensors } from '../src/safetensors.js';

function file(header: unknown, dataBytes: number): Uint8Array<ArrayBuffer> {
  const json = new TextEncoder().encode(typeof header === 'string' ? header : JSON.stringify(header));
  const bytes = new Uint8Array(8 + json.length + dataBytes);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(json.length), true);
  bytes.set(json, 8);
  for (let index = 0; index < dataBytes; index += 1) bytes[8 + json.length + index] = index;
  return bytes;
}

const A = { dtype: 'BF16', shape: [1, 3], data_offsets: [4, 10] };
const B = { dtype: 'BF16', shape: [2], data_offsets: [0, 4] };

describe('parseSafetensors', () => {
  it('gives tensors in the order of their bytes', () => {
    const tensors = parseSafetensors(file({ __metadata__: { format: 'pt' }, a: A, b: B }, 10));
    expect(tensors.map(({ name, shape, cells, bytes }) => [name, shape, cells, [...bytes]])).toEqual([
      ['b', [2], 2, [0, 1, 2, 3]],
      ['a', [1, 3], 3, [4, 5, 6, 7, 8, 9]],
    ]);
  });

  it('reads scalars and empty tensors', () => {
    const scalar = { dtype: 'BF16', shape: [], data_offsets: [0, 2] };
    const empty = { dtype: 'BF16', shape: [0, 4], data_offsets: [2, 2] };
    expect(parseSafetensors(file({ scalar, empty }, 2)).map(({ cells }) => cells)).toEqual([1, 0]);
  });

  it.each([
    ['an overlap', { a: { ...A, data_offsets: [2, 8] }, b: B }, 10, 'begins at byte 2'],
    ['a gap', { a: { ...A, data_offsets: [6, 12] }, b: B }, 12, 'begins at byte 6'],
    ['bytes left over', { a: A, b: B }, 11, 'take 10 bytes'],
    ['bytes missing', { a: A, b: B }, 9, 'take 10 bytes'],
    ['a shape that does not fit', { b: { ...B, shape: [3] } }, 4, '4 bytes for a shape of 3'],
    ['a negative size', { b: { ...B, shape: [-2] } }, 4, 'no shape'],
    ['a size that is no number', { b: { ...B, shape: ['2'] } }, 4, 'no shape'],
    ['sizes whose product is too large', { b: { ...B, shape: [2 ** 40, 2 ** 40] } }, 4, 'has 4 bytes'],
    ['another dtype', { b: { ...B, dtype: 'F32' } }, 4, 'is F32'],
    ['no tensors', {}, 0, 'no tensors'],
    ['null for a tensor', { b: null }, 4, 'is undefined'],
    ['a header that is a list', [], 0, 'not an object'],
    ['a header that is no JSON', '{', 0, 'not JSON'],
  ])('refuses %s', (_, header, dataBytes, message) => {
    expect(() => parseSafetensors(file(header, dataBytes))).toThrow(message);
  });

  it('refuses every file cut short', () => {
    const whole = file({ a: A, b: B }, 10);
    for (let end = 0; end < whole.length; end += 1) expect(() => parseSafetensors(whole.slice(0, end))).toThrow();
  });

  it('refuses a header longer than the file', () => {
    const lying = file({ b: B }, 4);
    new DataView(lying.buffer).setBigUint64(0, 2n ** 63n, true);
    expect(() => parseSafetensors(lying)).toThrow('claims 9223372036854775808 bytes');
  });
});
