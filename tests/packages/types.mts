// What a user writes, for TypeScript to check; it is never run.
import { CpuSession, GpuSession, init, PulseError, type ApplyEvent } from 'pulse-applier';
import { OwnGpuSession } from 'pulse-applier/wgpu';
export async function go(device: Parameters<typeof GpuSession.open>[0]): Promise<number> {
  await init();
  const session = new CpuSession({ step: 25, undoBytes: 0 });
  session.bind('a', { dtype: 'BF16', shape: [2] }, new Uint8Array(4));
  for await (const event of session.apply('x')) { const e: ApplyEvent = event; console.log(e.phase); }
  const { times, undoBytes } = await session.apply(new Uint8Array(3));
  const gpu = await GpuSession.open(device, { scratchBytes: 1 });
  const own = await OwnGpuSession.open({ lowPower: true });
  const applied = await gpu.apply('y').catch((e: unknown) => { if (e instanceof PulseError) return undefined; throw e; });
  return (applied?.submits ?? 0) + times.verify + (undoBytes ?? 0) + (own.step ?? 0) + (await gpu.undo());
}
