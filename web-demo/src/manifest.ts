import { fetchFile } from './bytes.js';
import { DemoError } from './errors.js';

/** `chain.json`: what the folder holds. */
export interface Manifest {
  name: string;
  /** Whose weights these are, and under which licence. */
  notice: string;
  /** The file of the first step, and that step's number. */
  base: string;
  baseStep: number;
  patches: PatchEntry[];
}

export interface PatchEntry {
  file: string;
  from: number;
  to: number;
  bytes: number;
  /** Of the target's tensor bytes in the order of the base's file, where the folder's maker knows it. */
  sha256OfTarget: string | undefined;
}

export async function loadManifest(folder: URL, signal: AbortSignal): Promise<Manifest> {
  const response = await fetchFile(new URL('chain.json', folder), signal);
  let value: unknown;
  try {
    value = await response.json();
  } catch (error) {
    if (signal.aborted) throw error;
    throw new DemoError('manifest', 'chain.json is not JSON');
  }
  return parseManifest(value);
}

export function parseManifest(value: unknown): Manifest {
  const manifest = object(value, 'chain.json');
  const patches = manifest['patches'];
  if (!Array.isArray(patches) || patches.length === 0) throw wrong('patches', 'a list of at least one patch');
  const parsed: Manifest = {
    name: string(manifest, 'name'),
    notice: string(manifest, 'notice'),
    base: fileName(manifest, 'base'),
    baseStep: count(manifest, 'baseStep'),
    patches: patches.map((patch, index) => parsePatch(object(patch, `patches[${index}]`))),
  };
  let held = parsed.baseStep;
  for (const { file, from, to } of parsed.patches) {
    if (from !== held) throw new DemoError('manifest', `${file} starts from step ${from}; the one before ends at ${held}`);
    held = to;
  }
  return parsed;
}

function parsePatch(patch: Record<string, unknown>): PatchEntry {
  const hash = patch['sha256OfTarget'];
  if (hash !== undefined && !(typeof hash === 'string' && /^[0-9a-f]{64}$/.test(hash)))
    throw wrong('sha256OfTarget', '64 hexadecimal digits');
  return {
    file: fileName(patch, 'file'),
    from: count(patch, 'from'),
    to: count(patch, 'to'),
    bytes: count(patch, 'bytes'),
    sha256OfTarget: hash,
  };
}

function wrong(key: string, expected: string): DemoError {
  return new DemoError('manifest', `chain.json: ${key} is not ${expected}`);
}

function object(value: unknown, key: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw wrong(key, 'an object');
  return value as Record<string, unknown>;
}

function string(from: Record<string, unknown>, key: string): string {
  const value = from[key];
  if (typeof value !== 'string') throw wrong(key, 'a string');
  return value;
}

/** A name inside the folder: nothing that leads out of it. */
function fileName(from: Record<string, unknown>, key: string): string {
  const value = string(from, key);
  if (!/^[\w-][\w.-]*$/.test(value)) throw wrong(key, 'a plain file name');
  return value;
}

function count(from: Record<string, unknown>, key: string): number {
  const value = from[key];
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) throw wrong(key, 'a whole number');
  return value;
}
