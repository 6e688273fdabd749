import { DemoError } from './errors.js';

/** A tensor of BF16 cells, and where its bytes are: two a cell, row-major, little-endian. */
export interface CheckpointTensor {
  name: string;
  dtype: 'BF16';
  shape: number[];
  cells: number;
  bytes: Uint8Array<ArrayBuffer>;
}

const LENGTH_BYTES = 8;
const MAX_HEADER_BYTES = 100_000_000;
const CELL_BYTES = 2;

/**
 * The tensors of a safetensors file, in the order of their bytes, as views of `file`.
 *
 * Every rule of the format is checked: the header inside the file, offsets that fit shape and dtype, no overlap, no
 * gap, nothing after the last tensor.
 */
export function parseSafetensors(file: Uint8Array<ArrayBuffer>): CheckpointTensor[] {
  const { header, data } = split(file);
  const tensors = Object.entries(header)
    .filter(([name]) => name !== '__metadata__')
    .map(([name, entry]) => parseEntry(name, entry))
    .sort((one, other) => one.begin - other.begin || one.end - other.end);
  if (tensors.length === 0) throw wrong('it holds no tensors');
  let covered = 0;
  for (const { name, begin, end } of tensors) {
    if (begin !== covered) throw wrong(`${name} begins at byte ${begin}; the tensor before ends at ${covered}`);
    covered = end;
  }
  if (covered !== data.length) throw wrong(`its tensors take ${covered} bytes, the file has ${data.length}`);
  return tensors.map(({ begin, end, ...tensor }) => ({ ...tensor, bytes: data.subarray(begin, end) }));
}

function split(file: Uint8Array<ArrayBuffer>): { header: Record<string, unknown>; data: Uint8Array<ArrayBuffer> } {
  if (file.length < LENGTH_BYTES) throw wrong('it is too short to be a safetensors file');
  const length = new DataView(file.buffer, file.byteOffset).getBigUint64(0, true);
  if (length > MAX_HEADER_BYTES || Number(length) > file.length - LENGTH_BYTES)
    throw wrong(`its header claims ${length} bytes`);
  const start = LENGTH_BYTES + Number(length);
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(file.subarray(LENGTH_BYTES, start)));
  } catch {
    throw wrong('its header is not JSON');
  }
  if (typeof header !== 'object' || header === null || Array.isArray(header)) throw wrong('its header is not an object');
  return { header: header as Record<string, unknown>, data: file.subarray(start) };
}

function parseEntry(name: string, entry: unknown) {
  const { dtype, shape, data_offsets: offsets } = (entry ?? {}) as Record<string, unknown>;
  if (dtype !== 'BF16') throw wrong(`${name} is ${String(dtype)}; this page binds BF16 alone`);
  if (!isCounts(shape)) throw wrong(`${name} has no shape`);
  if (!isCounts(offsets) || offsets.length !== 2) throw wrong(`${name} has no data_offsets`);
  const [begin, end] = offsets as [number, number];
  const cells = shape.reduce((product, size) => product * size, 1);
  if (!Number.isSafeInteger(cells) || end - begin !== CELL_BYTES * cells)
    throw wrong(`${name} has ${end - begin} bytes for a shape of ${shape.join(' × ')}`);
  return { name, dtype: 'BF16' as const, shape, cells, begin, end };
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && size >= 0);
}

function wrong(what: string): DemoError {
  return new DemoError('checkpoint', `the base cannot be read: ${what}`);
}
