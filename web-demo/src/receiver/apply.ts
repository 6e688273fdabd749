import type { Applied, ApplyOptions, Phase, Progress } from './receiver.js';

/** What the two kinds of session have in common. On the CPU there are no figures of the GPU, and no times. */
export interface Session {
  apply(source: Uint8Array, options: SessionOptions): Run;
}

export interface SessionOptions {
  signal: AbortSignal;
  quiesce(): void;
  invalidate(): void;
}

type Run = AsyncIterable<Progress> & PromiseLike<Result>;

interface Result {
  baseStep: number;
  targetStep: number;
  changes: number;
  cells: number;
  fingerprint: string;
  patchBytes: number;
  uploadedBytes?: number;
  readBytes?: number;
  submits?: number;
  dispatches?: number;
  times?: Record<Phase, number>;
}

/** Applies a patch, reports its progress, and times how long an engine would have to hold still. */
export async function applyTimed(session: Session, patch: Uint8Array, options: ApplyOptions): Promise<Applied> {
  const begun = performance.now();
  let quiesced = begun;
  let invalidated = begun;
  const run = session.apply(patch, {
    signal: options.signal,
    quiesce: () => void (quiesced = performance.now()),
    invalidate: () => void (invalidated = performance.now()),
  });
  for await (const progress of run) options.onProgress(progress);
  const { uploadedBytes, readBytes, submits, dispatches, times, ...applied } = await run;
  const stall = invalidated - quiesced;
  // What writes on the CPU also checks, run by run.
  const measured = times ?? { verify: quiesced - begun, write: stall, confirm: undefined };
  return { ...applied, uploadedBytes, readBytes, submits, dispatches, times: measured, stall };
}
