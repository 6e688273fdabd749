import { describe, expect, it } from 'vitest';

import { bufferBytes, layOut, takeOut } from '../src/receiver/cells.js';
import { bytes, milliseconds, percent } from '../src/view/numbers.js';
import { scale } from '../src/view/chart.js';

describe('layouts', () => {
  // An odd count, both zeros, a NaN with payload, a subnormal, an infinity.
  const cells = new Uint8Array(Uint16Array.of(0x0000, 0x8000, 0x7fa5, 0x0001, 0xff80).buffer);

  it.each(['packed', 'f32'] as const)('%s gives every bit back', (layout) => {
    const buffer = new ArrayBuffer(bufferBytes(5, layout));
    layOut(cells, layout, buffer);
    expect(buffer.byteLength).toBe(layout === 'packed' ? 12 : 20);
    expect(takeOut(buffer, 5, layout)).toEqual(cells);
  });

  it('f32 is the value itself', () => {
    const buffer = new ArrayBuffer(4);
    layOut(new Uint8Array(Uint16Array.of(0x3fc0).buffer), 'f32', buffer);
    expect(new Float32Array(buffer)[0]).toBe(1.5);
  });

  it('widened cells with low bits are refused', () => {
    expect(() => takeOut(Uint32Array.of(0x3fc00001).buffer, 1, 'f32')).toThrow('cell 0');
  });
});

describe('numbers', () => {
  it('keep three digits', () => {
    expect([0, 999, 1000, 6297, 26583552, 999.9].map(bytes)).toEqual(['0 B', '999 B', '1.00 kB', '6.30 kB', '26.6 MB', '1.00 kB']);
    expect([0.1234, 12.34, 582.4, 1234].map(milliseconds)).toEqual(['0.12 ms', '12.3 ms', '582 ms', '1.23 s']);
    expect([percent(1, 200), percent(0, 0)]).toEqual(['0.500 %', '–']);
  });

  it('axes end above the highest bar, in round steps', () => {
    expect(scale(6577)).toEqual([0, 2000, 4000, 6000, 8000]);
    expect(scale(1)).toEqual([0, 0.25, 0.5, 0.75, 1]);
    expect(scale(0)).toEqual([0, 1]);
  });
});
