import { denseBytes, isIdentical, type StepRecord } from '../state.js';
import { byId, element } from './dom.js';
import { milliseconds, optional, percent, ratio, whole } from './numbers.js';

interface Column {
  title: string;
  hint?: string;
  kind?: 'text';
  value(record: StepRecord): string;
}

const COLUMNS: Column[] = [
  { title: 'step', value: ({ baseStep, targetStep }) => `${baseStep ?? 'anchor'} → ${targetStep}` },
  { title: 'patch bytes', value: ({ patchBytes }) => whole(patchBytes) },
  { title: 'changed', hint: 'Weights whose bits differ', value: ({ changes }) => whole(changes) },
  { title: 'density', hint: 'Share of all weights', value: ({ changes, cells }) => percent(changes, cells) },
  { title: 'B/change', value: ({ patchBytes, changes }) => ratio(patchBytes, changes, 3) },
  {
    title: 'vs dense',
    hint: 'Against sending all weights',
    value: (record) => `${ratio(denseBytes(record), record.patchBytes, 0)}×`,
  },
  { title: 'verify', value: ({ times }) => milliseconds(times.verify) },
  { title: 'write', value: ({ times }) => milliseconds(times.write) },
  { title: 'confirm', value: ({ times }) => optional(times.confirm, milliseconds) },
  { title: 'stall', hint: 'How long an engine would hold still', value: ({ stall }) => milliseconds(stall) },
  {
    title: 'GPU work',
    hint: 'Submits, and dispatches in them',
    value: ({ submits, dispatches }) => (submits === undefined ? '–' : `${submits} / ${optional(dispatches)}`),
  },
  { title: 'uploaded', hint: 'Bytes to the GPU', value: ({ uploadedBytes }) => optional(uploadedBytes) },
  { title: 'fingerprint', kind: 'text', hint: 'Of all weights, by the receiver', value: ({ fingerprint }) => fingerprint },
];

export function drawColumns(): void {
  const heads = COLUMNS.map(({ title, hint, kind }) =>
    element('th', { scope: 'col', ...(hint && { title: hint }), ...(kind && { class: kind }) }, title),
  );
  byId('columns').replaceChildren(element('tr', {}, ...heads, element('th', { scope: 'col', class: 'text' }, 'bits')));
}

export function drawRows(records: readonly StepRecord[]): void {
  const rows = records.map((record) => {
    const cells = COLUMNS.map(({ value, kind }) => element('td', kind && { class: kind }, value(record)));
    return element('tr', { 'data-identical': String(isIdentical(record)) }, ...cells, bits(record));
  });
  if (rows.length === 0) {
    const span = String(COLUMNS.length + 1);
    rows.push(element('tr', {}, element('td', { class: 'text empty', colspan: span }, 'No step applied yet.')));
  }
  byId('rows').replaceChildren(...rows);
}

function bits(record: StepRecord): HTMLElement {
  if (!isIdentical(record)) return element('td', { class: 'text bad' }, '✗ differ');
  return record.bitsEqual === undefined
    ? element('td', { class: 'text', title: 'The manifest has no hash of this step' }, 'not known')
    : element('td', { class: 'text good', title: 'SHA-256 of the weights read back' }, '✓ identical');
}
