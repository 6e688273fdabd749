import { stepAt } from '../chain.js';
import type { Phase } from '../receiver/receiver.js';
import { canStep, denseBytes, isIdentical, type State, type StepRecord } from '../state.js';
import { drawBars, type Bar } from './chart.js';
import { drawChecks } from './checks.js';
import { byId, element, fact } from './dom.js';
import { bytes, milliseconds, optional, percent, ratio, whole } from './numbers.js';
import { drawRows } from './table.js';

const PHASES: readonly Phase[] = ['verify', 'write', 'confirm'];

/** Draws all that changes with the state. Rows and charts are drawn only when the steps have changed. */
export function makePage(): (state: State) => void {
  let drawnRecords: readonly StepRecord[] | undefined;
  let last: State | undefined;
  const charts = () => last && drawCharts(last);
  new ResizeObserver(charts).observe(byId('bytes-chart').parentElement ?? document.body);
  return (state) => {
    last = state;
    drawFacts(state);
    drawBanners(state);
    drawControls(state);
    drawProgress(state);
    drawChecks(state);
    if (drawnRecords === state.records) return;
    drawnRecords = state.records;
    drawRows(state.records);
    drawTiles(state.records);
    charts();
  };
}

function drawFacts({ status, chain, device, receiver, settings }: State): void {
  const facts: HTMLElement[] = [];
  if (chain) {
    const { manifest, tensors, cells } = chain;
    facts.push(fact('Model', manifest.name, `${whole(cells)} weights in ${tensors.length} tensors`));
    const sent = manifest.patches.reduce((sum, patch) => sum + patch.bytes, 0);
    const steps = `${manifest.patches.length} patches, ${bytes(sent)}`;
    facts.push(fact('Chain', `Steps ${manifest.baseStep} to ${stepAt(chain, manifest.patches.length)}`, steps));
  }
  if (receiver?.kind === 'gpu' && device) {
    const buffers = receiver.layout === 'packed' ? 'BF16, two in a word' : 'f32, one in a word';
    const driver = device.software ? 'a software driver, slower than any GPU' : device.details || 'WebGPU';
    facts.push(fact('GPU', device.name, `${driver} · ${buffers} · bindings up to ${bytes(device.limits.binding)}`));
  } else if (receiver) {
    facts.push(fact('CPU', 'WebAssembly', 'BF16 in the page’s memory'));
  }
  if (facts.length === 0) facts.push(fact(status === 'failed' ? 'Folder' : 'Loading', settings.folder.pathname));
  byId('facts').replaceChildren(...facts);
}

function drawBanners({ noGpu, receiver, failure, chain, records }: State): void {
  const notice = byId('notice');
  notice.hidden = noGpu === undefined || receiver === undefined;
  const instead = 'The CPU receiver applies the patches instead, in the page’s memory: same checks, same bits, no GPU.';
  notice.textContent = `${noGpu ?? ''} ${instead}`;
  const banner = byId('failure');
  banner.hidden = failure === undefined;
  if (!failure) return;
  const held = chain ? ` at step ${stepAt(chain, records.length)}` : '';
  banner.replaceChildren(
    element('code', {}, failure.code),
    element('strong', {}, `Stopped${held}: ${failure.message}`),
    element('p', {}, failure.advice),
  );
}

function drawControls(state: State): void {
  const { status, records, undoable, receiver } = state;
  const running = status === 'running' || status === 'pausing';
  const start = byId<HTMLButtonElement>('start');
  start.textContent = running ? 'Pause' : status === 'finished' ? 'Done' : records.length > 0 ? 'Go on' : 'Start';
  start.disabled = running ? status === 'pausing' : !canStep(state);
  byId<HTMLButtonElement>('step').disabled = !canStep(state);
  const still = canStep(state) || status === 'finished';
  const undo = byId<HTMLButtonElement>('undo');
  undo.disabled = !still || !undoable;
  undo.hidden = receiver?.canUndo === false;
  byId<HTMLButtonElement>('challenge').disabled = !still;
  byId<HTMLButtonElement>('restart').disabled = status === 'loading';
  byId('status').textContent = describeStatus(state);
  byId('status').className = status === 'finished' && records.every(isProven) ? 'good' : '';
  document.body.dataset['status'] = status;
}

/** Identical, and not only for want of a hash to compare with. */
function isProven(record: StepRecord): boolean {
  return isIdentical(record) && record.bitsEqual === true;
}

function describeStatus({ status, chain, records, progress }: State): string {
  if (!chain) return status === 'failed' ? '' : 'Loading the base…';
  const next = chain.manifest.patches[records.length];
  switch (status) {
    case 'loading':
      return 'Putting the base into buffers…';
    case 'running':
    case 'pausing':
      return next ? `Step ${next.from} → ${next.to}: ${progress?.phase ?? 'fetching'}` : 'Checking…';
    case 'busy':
      return 'Working…';
    case 'finished':
      return records.every(isProven) ? '✓ All patches applied, every bit as the trainer’s.' : 'All patches applied.';
    case 'ready':
      return `Holding step ${stepAt(chain, records.length)}.`;
    case 'failed':
      return '';
  }
}

function drawProgress({ status, chain, records, progress }: State): void {
  const all = chain?.manifest.patches.length ?? 0;
  const bar = byId('bar');
  const reached = PHASES.indexOf(progress?.phase ?? 'verify');
  const share = progress && progress.total > 0 ? progress.done / progress.total : 0;
  const current = progress ? (reached + share) / PHASES.length : 0;
  bar.style.setProperty('--done', all === 0 ? '0' : String((records.length + current) / all));
  bar.setAttribute('aria-valuemax', String(all));
  bar.setAttribute('aria-valuenow', String(records.length));
  const items = PHASES.map((phase, index) => {
    const done = !progress ? Number(status === 'finished') : index < reached ? 1 : index === reached ? share : 0;
    return element('li', { class: phase, style: `--done: ${done}`, 'data-now': String(progress?.phase === phase) }, phase);
  });
  byId('phases').replaceChildren(...items, element('li', { class: 'count' }, `${records.length} of ${all} steps`));
}

function drawTiles(records: readonly StepRecord[]): void {
  const sum = (of: (record: StepRecord) => number) => records.reduce((total, record) => total + of(record), 0);
  const patches = sum(({ patchBytes }) => patchBytes);
  const dense = sum(denseBytes);
  const changes = sum((record) => record.changes);
  const uploaded = sum(({ uploadedBytes }) => uploadedBytes ?? 0);
  const scratch = Math.max(0, ...records.map(({ scratchBytes }) => scratchBytes ?? 0));
  const times = records.map(({ times }) => times.verify + times.write + (times.confirm ?? 0)).sort((one, other) => one - other);
  const median = times[Math.floor(times.length / 2)];
  const known = records.length > 0;
  byId('tiles').replaceChildren(
    fact('Received', known ? bytes(patches) : '–', known ? `instead of ${bytes(dense)}` : 'bytes of patches'),
    fact('Reduction', known ? `${ratio(dense, patches, 0)}×` : '–', 'against dense weights'),
    fact('Density', percent(changes, sum(({ cells }) => cells)), `${whole(changes)} changes`),
    fact('Cost', ratio(patches, changes, 3), 'bytes a change'),
    fact('Time', median === undefined ? '–' : milliseconds(median), 'a step, median'),
    fact('GPU memory', scratch > 0 ? bytes(scratch) : '–', 'besides the weights'),
    fact('Uploaded', uploaded > 0 ? bytes(uploaded) : '–', uploaded > 0 ? `${ratio(uploaded, changes, 2)} bytes a change` : 'to the GPU'),
  );
}

function drawCharts({ records, chain }: State): void {
  const slots = Math.max(chain?.manifest.patches.length ?? 0, records.length);
  const sizes: Bar[] = records.map(({ targetStep, patchBytes, changes }) => ({
    label: String(targetStep),
    title: `step ${targetStep}: ${whole(patchBytes)} bytes, ${whole(changes)} changes`,
    parts: [{ kind: 'size', value: patchBytes }],
  }));
  const times: Bar[] = records.map(({ targetStep, times }) => ({
    label: String(targetStep),
    title: `step ${targetStep}: ${PHASES.map((phase) => `${phase} ${optional(times[phase], milliseconds)}`).join(', ')}`,
    parts: PHASES.map((kind) => ({ kind, value: times[kind] ?? 0 })),
  }));
  drawBars(byId<SVGSVGElement>('bytes-chart'), sizes, slots, bytes);
  drawBars(byId<SVGSVGElement>('time-chart'), times, slots, milliseconds);
}
