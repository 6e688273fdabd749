/** What goes wrong in the page itself; what goes wrong in a receiver is a PulseError, with a `code` too. */
export class DemoError extends Error {
  constructor(
    readonly code: 'network' | 'manifest' | 'checkpoint' | 'not_identical' | 'device_lost',
    message: string,
  ) {
    super(message);
    this.name = 'DemoError';
  }
}

export interface Failure {
  code: string;
  message: string;
  advice: string;
  /** Nothing was written, and another try may succeed. */
  retry: boolean;
}

const RETRY: ReadonlySet<string> = new Set(['network', 'source', 'damaged', 'truncated', 'aborted']);

const ADVICE: Readonly<Record<string, string>> = {
  network: 'Check that the server runs and the folder is right, then load it again.',
  manifest: 'Make the folder anew with “cargo xtask demo”.',
  checkpoint: 'Fetch the base file again; it must be a safetensors file of BF16 tensors.',
  not_identical: 'Start over. If it happens again, the folder’s patches are not those of its base.',
  damaged: 'Nothing was written. Fetch the patch again; if it stays damaged, start over from the base.',
  truncated: 'Nothing was written. The patch is cut short: fetch it again.',
  source: 'Nothing was written. The patch could not be fetched: try the step again.',
  stale: 'Nothing was written. The patch starts from another step: start over from the base.',
  wrong_base: 'Nothing was written. These weights are not the ones the patch was made from: start over from the base.',
  wrong_target: 'The result was not the patch’s target. Start over from the base.',
  mismatch: 'Nothing was written. The patch is for other tensors than those that are loaded: check the folder.',
  binding: 'A tensor cannot be bound this way: try the other layout.',
  unsupported: 'This page is older than the patch: reload it, or rebuild it.',
  limit: 'The patch is larger than this receiver allows.',
  init: 'The receiver’s WebAssembly could not be loaded. Reload the page; if that does not help, build it anew.',
  no_adapter: 'Use a browser with WebGPU, or go on with the CPU receiver.',
  device_lost: 'The GPU went away, and the weights with it. Start over.',
  out_of_memory: 'The GPU has no memory left. Close other tabs that use it, or take the packed layout.',
  gpu: 'The GPU refused the work. Start over, or go on with the CPU receiver.',
  poisoned: 'The weights are neither old nor new. Start over from the base.',
  aborted: 'It was stopped before anything was written.',
};

/** Any error as the page shows it. */
export function describeFailure(error: unknown): Failure {
  const named = typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string';
  const code = named ? String(error.code) : 'unexpected';
  // The code is shown beside it.
  const message = (error instanceof Error ? error.message : String(error)).replace(`${code}: `, '');
  const advice = ADVICE[code] ?? 'Start over; if it happens again, this is a defect of the page.';
  return { code, message, advice, retry: RETRY.has(code) };
}
