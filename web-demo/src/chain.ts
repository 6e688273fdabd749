import { fetchBytes, sha256 } from './bytes.js';
import { loadManifest, type Manifest } from './manifest.js';
import { parseSafetensors, type CheckpointTensor } from './safetensors.js';

/** A folder's manifest and its base, ready to be put into a receiver. */
export interface Chain {
  folder: URL;
  manifest: Manifest;
  tensors: CheckpointTensor[];
  cells: number;
  baseBytes: number;
  baseHash: string;
}

export async function loadChain(folder: URL, signal: AbortSignal): Promise<Chain> {
  const manifest = await loadManifest(folder, signal);
  const file = await fetchBytes(new URL(manifest.base, folder), signal);
  const tensors = parseSafetensors(file);
  const cells = tensors.reduce((sum, tensor) => sum + tensor.cells, 0);
  const baseHash = await sha256(tensors.map(({ bytes }) => bytes));
  return { folder, manifest, tensors, cells, baseBytes: file.length, baseHash };
}

/** The step that is held once so many patches are applied. */
export function stepAt({ manifest }: Chain, position: number): number {
  return manifest.patches[position - 1]?.to ?? manifest.baseStep;
}

/** The SHA-256 that the tensors must have then, where the manifest knows it. */
export function hashAt({ manifest, baseHash }: Chain, position: number): string | undefined {
  return position === 0 ? baseHash : manifest.patches[position - 1]?.sha256OfTarget;
}
