import type * as pulse from 'pulse-applier';

import type { Applied, ApplyOptions } from './receiver.js';

/** On the CPU there are no figures of the GPU. */
type Result = pulse.Applied & Partial<pulse.GpuApplied>;

/** Applies a patch, reports its progress, and times how long an engine would have to hold still. */
export async function applyTimed(
  session: pulse.CpuSession | pulse.GpuSession,
  patch: Uint8Array,
  options: ApplyOptions,
): Promise<Applied> {
  const begun = performance.now();
  let quiesced = begun;
  let invalidated = begun;
  const run = session.apply(patch, {
    signal: options.signal,
    quiesce: () => void (quiesced = performance.now()),
    invalidate: () => void (invalidated = performance.now()),
  });
  for await (const event of run) if ('done' in event) options.onProgress(event);
  const result: Result = await run;
  const { baseStep, uploadedBytes, readBytes, submits, dispatches, scratchBytes, times, ...applied } = result;
  const stall = invalidated - quiesced;
  // What writes on the CPU also checks, run by run.
  const measured = submits === undefined ? { verify: quiesced - begun, write: stall, confirm: undefined } : times;
  return { ...applied, baseStep, uploadedBytes, readBytes, submits, dispatches, scratchBytes, times: measured, stall };
}
