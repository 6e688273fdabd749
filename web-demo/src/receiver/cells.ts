// BF16 cells on their way into a buffer of a layout, and back out of it.
import { DemoError } from '../errors.js';
import type { Layout } from './receiver.js';

/** Bytes of a buffer for so many cells: whole words. */
export function bufferBytes(cells: number, layout: Layout): number {
  return layout === 'f32' ? 4 * cells : 4 * Math.ceil(cells / 2);
}

/** The cells as the layout holds them, written to `target`, a buffer of `bufferBytes`. */
export function layOut(cells: Uint8Array, layout: Layout, target: ArrayBuffer): void {
  if (layout === 'packed') return new Uint8Array(target).set(cells);
  const words = new Uint32Array(target);
  const view = new DataView(cells.buffer, cells.byteOffset, cells.byteLength);
  for (let index = 0; index < cells.length / 2; index += 1) words[index] = view.getUint16(2 * index, true) << 16;
}

/** The cells again. Widened ones must have kept their low half zero. */
export function takeOut(buffer: ArrayBuffer, cells: number, layout: Layout): Uint8Array {
  if (layout === 'packed') return new Uint8Array(buffer, 0, 2 * cells);
  const words = new Uint32Array(buffer, 0, cells);
  const halves = new Uint16Array(cells);
  words.forEach((word, index) => {
    if ((word & 0xffff) !== 0) throw new DemoError('not_identical', `cell ${index} holds more than a BF16 value`);
    halves[index] = word >>> 16;
  });
  return new Uint8Array(halves.buffer);
}
