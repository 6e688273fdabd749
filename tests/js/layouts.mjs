// BF16 tensors as engines hold them.

/** Noise between and around the cells, which must stay as it is. */
const noise = (index) => (index * 167 + 41) & 0xff;

export const LAYOUTS = {
  packed: { layout: 'packed' },
  'packed in a pool': { layout: 'packed', offset: 1026 },
  'packed and transposed': { layout: 'packed', transposed: true, gap: 3, offset: 2 },
  f32: { layout: 'f32' },
  'f32 and transposed': { layout: 'f32', transposed: true, offset: 260 },
  'f32 with gaps': { layout: 'f32', gap: 5 },
  f16: { layout: 'f16' },
  'f16 and transposed': { layout: 'f16', transposed: true, gap: 1, offset: 6 },
};

/** `{ bytes, place }`: a buffer's content with `cells` in it, and where they are, as `bind` takes it. */
export function laidOut(bf16, shape, { layout, offset = 0, transposed = false, gap = 0 }, convertF16) {
  const { bytes: cells, exceptions } = layout === 'f16' ? convertF16(bf16) : { bytes: bf16 };
  const columns = shape.at(-1) ?? 1;
  const rows = cells.byteLength / 2 / columns;
  const [across, along] = transposed ? [rows, columns] : [columns, rows];
  const stride = across + gap;
  const width = layout === 'f32' ? 4 : 2;
  const length = offset + ((along - 1) * stride + across) * width;
  const bytes = Uint8Array.from({ length: Math.ceil(length / 4) * 4 + 8 }, (_, index) => noise(index));
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const from = 2 * (row * columns + column);
      const to = offset + width * (transposed ? column * stride + row : row * stride + column);
      if (width === 4) bytes.fill(0, to, to + 2);
      bytes[to + width - 2] = cells[from];
      bytes[to + width - 1] = cells[from + 1];
    }
  }
  return { bytes, place: { layout, offset, transposed, stride: gap ? stride : undefined, exceptions } };
}
